//! The queries of the dashboards in `deploy/chart`.

use std::fs;

use serde_json::Value;

/// Returns the queries of all panels and variables. Those of variables are `label_values(SELECTOR, LABEL)`.
pub fn queries() -> Vec<String> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/chart/files/monitoring/dashboards"
    );
    let mut all = Vec::new();
    for file in fs::read_dir(folder).expect("a folder") {
        let text = fs::read(file.expect("a file").path()).expect("a dashboard");
        let dashboard: Value = serde_json::from_slice(&text).expect("JSON");
        let items = |it: &Value| it.as_array().cloned().unwrap_or_default();
        let panels = items(&dashboard["panels"]);
        let targets = panels.iter().flat_map(|it| items(&it["targets"]));
        let queries = targets.map(|it| it["expr"].clone());
        // The other type of variable is a data source.
        let variables = items(&dashboard["templating"]["list"]).into_iter();
        let queries = queries.chain(variables.map(|it| it["query"]["query"].clone()));
        all.extend(queries.filter_map(|it| it.as_str().map(str::to_owned)));
    }
    all
}
