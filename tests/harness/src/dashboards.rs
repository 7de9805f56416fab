//! The queries of the dashboards in `deploy/chart`.

use std::fs;

use serde_json::Value;

/// Returns the dashboards.
pub fn all() -> Vec<Value> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/chart/files/monitoring/dashboards"
    );
    let files = fs::read_dir(folder).expect("a folder");
    let texts = files.map(|it| fs::read(it.expect("a file").path()).expect("a dashboard"));
    texts
        .map(|it| serde_json::from_slice(&it).expect("JSON"))
        .collect()
}

/// Returns the panels of a dashboard.
pub fn panels(dashboard: &Value) -> Vec<Value> {
    items(&dashboard["panels"])
}

/// Returns the variables of a dashboard that have a query: the others are data sources.
pub fn variables(dashboard: &Value) -> Vec<Value> {
    let mut all = items(&dashboard["templating"]["list"]);
    all.retain(|it| it["type"] == "query");
    all
}

/// Returns the queries of all panels and variables. Those of variables are `label_values(SELECTOR, LABEL)`.
pub fn queries() -> Vec<String> {
    let mut all = Vec::new();
    for dashboard in self::all() {
        let panels = panels(&dashboard);
        let targets = panels.iter().flat_map(|it| items(&it["targets"]));
        let queries = targets.map(|it| it["expr"].clone());
        let variables = variables(&dashboard).into_iter();
        let queries = queries.chain(variables.map(|it| it["query"]["query"].clone()));
        all.extend(queries.filter_map(|it| it.as_str().map(str::to_owned)));
    }
    all
}

fn items(array: &Value) -> Vec<Value> {
    array.as_array().cloned().unwrap_or_default()
}
