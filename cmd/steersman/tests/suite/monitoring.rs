//! The alerts and dashboards of `deploy/chart`: their metrics are in the metrics reference, which is compared with a process in
//! the cluster tests, and each alert has a runbook.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use steersman_harness::dashboards;
use steersman_harness::metrics::Reference;

/// The metric that Prometheus itself adds.
const UP: &str = "up";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the names and the YAML lines of the alerts.
fn alerts() -> Vec<(String, String)> {
    let text = read("deploy/chart/files/monitoring/alerts.yaml");
    let alerts = text.split("\n  - alert: ").skip(1);
    let alerts = alerts.filter_map(|it| it.split_once('\n'));
    alerts
        .map(|(name, rule)| (name.to_owned(), rule.to_owned()))
        .collect()
}

/// Returns the value of a field of an alert, with all its lines.
fn field(rule: &str, name: &str) -> Option<String> {
    let mut lines = rule.lines();
    let first = lines.find_map(|it| it.trim_start().strip_prefix(name)?.strip_prefix(": "))?;
    let more = lines.take_while(|it| first == "|" && it.starts_with("      "));
    Some([first].into_iter().chain(more).collect::<Vec<_>>().join("\n"))
}

/// Returns the metrics of a `PromQL` expression: the words outside of strings, selectors, ranges and groupings that are neither
/// functions nor operators.
fn metrics(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let expression: String = expression.split('"').step_by(2).collect();
    let mut rest = expression.as_str();
    while let Some(first) = rest.chars().next() {
        let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == ':';
        let word = &rest[..rest.find(|it| !is_word(it)).unwrap_or(rest.len())];
        let after = rest[word.len()..].trim_start();
        let closed_by = match (first, word) {
            ('{', _) => Some('}'),
            ('[', _) => Some(']'),
            (_, "by" | "without" | "on" | "ignoring" | "group_left" | "group_right") => Some(')'),
            // The label of the function.
            (',', _) if expression.starts_with("label_values(") => Some(')'),
            _ => None,
        };
        let length = match closed_by {
            Some(end) => 2 + rest[1..].find(end).expect("a closing character"),
            None => word.len().max(first.len_utf8()),
        };
        let is_operator = matches!(word, "and" | "or" | "unless" | "bool" | "offset");
        let is_name = closed_by.is_none() && !word.is_empty() && !first.is_ascii_digit();
        if is_name && !is_operator && !after.starts_with('(') && !is_function_with_grouping(word) {
            found.insert(word.to_owned());
        }
        rest = &rest[length..];
    }
    found
}

/// Reports whether a word before `by` is an aggregation, not a metric.
fn is_function_with_grouping(word: &str) -> bool {
    matches!(word, "sum" | "min" | "max" | "count" | "avg")
}

#[test]
fn metrics_of_an_expression_are_found() {
    for (expression, expected) in [
        ("absent(up{job=\"steersman\"} == 1)", &["up"][..]),
        (
            "sum by (a, b) (rate(x_total{job=\"y}z\",c=~\"q\"}[5m])) / count(y) > 0.1 or vector(0)",
            &["x_total", "y"],
        ),
        (
            "histogram_quantile(0.99, sum by (le) (rate(h_bucket[$__rate_interval]))) - time() < 7 * 24",
            &["h_bucket"],
        ),
        ("label_values(z{a=\"b\"}, namespace)", &["z"]),
    ] {
        let expected: BTreeSet<String> = expected.iter().map(|&it| it.to_owned()).collect();
        assert_eq!(metrics(expression), expected, "{expression}");
    }
}

#[test]
fn alerts_and_dashboards_query_exported_metrics() {
    let rows = Reference::read(&root()).rows;
    let alerts = alerts();
    let alerts = alerts.iter().map(|(name, rule)| field(rule, "expr").expect(name));
    let expressions: Vec<String> = alerts.chain(dashboards::queries()).collect();
    assert!(expressions.len() > 50, "{}", expressions.len());
    for expression in expressions {
        let metrics = metrics(&expression);
        assert!(!metrics.is_empty(), "{expression}");
        for metric in metrics.iter().filter(|it| *it != UP) {
            let is_histogram = |name: &str| rows.get(name).is_some_and(|row| row.contains("| histogram |"));
            let suffixes = ["_bucket", "_sum", "_count"];
            let exported = match suffixes.iter().find_map(|it| metric.strip_suffix(it)) {
                Some(base) if is_histogram(base) => true,
                _ => rows.contains_key(metric) && !is_histogram(metric),
            };
            assert!(exported, "{metric} is not exported: {expression}");
        }
    }
}

#[test]
fn alerts_have_annotations_and_runbooks() {
    let runbooks = read("docs/runbooks.md");
    let sections = runbooks.lines().filter_map(|it| it.strip_prefix("## "));
    let sections: BTreeSet<&str> = sections.filter(|it| it.starts_with("Steersman")).collect();
    let alerts = alerts();
    let names: BTreeSet<&str> = alerts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, sections, "alerts, and sections of docs/runbooks.md");
    assert_eq!(names.len(), alerts.len(), "an alert is defined twice");
    for (name, rule) in &alerts {
        let has = |key: &str| field(rule, key).unwrap_or_else(|| panic!("{name} has no {key}"));
        let severity = has("severity");
        assert!(
            matches!(severity.as_str(), "critical" | "warning" | "info"),
            "{name}: {severity}"
        );
        for text in [has("summary"), has("description")] {
            assert!(text.trim_matches('\'').ends_with('.'), "{name}: {text}");
        }
        let anchor = format!("docs/runbooks.md#{}", name.to_lowercase());
        assert_eq!(has("runbook_url"), anchor, "{name}");
    }
}

/// Metrics such as `leader_election_master_status` are exported by every component of Kubernetes.
#[test]
fn dashboard_variables_select_only_processes_of_this_program() {
    for dashboard in dashboards::all() {
        let variables = dashboards::variables(&dashboard);
        assert!(!variables.is_empty(), "{}", dashboard["title"]);
        for it in variables {
            let query = it["query"]["query"].as_str().expect("a query");
            let metric = query.strip_prefix("label_values(").expect(query);
            assert!(metric.starts_with("steersman_"), "{query}");
            // The queries select by job: all jobs are also those of other programs.
            assert_eq!(it["includeAll"], it["name"] != "job", "{query}");
        }
    }
}

#[test]
fn panels_of_runbooks_exist() {
    let dashboards = dashboards::all();
    let panels = dashboards.iter().flat_map(dashboards::panels);
    let titles = panels.filter_map(|it| it["title"].as_str().map(str::to_owned));
    let titles: BTreeSet<String> = titles.collect();
    let runbooks = read("docs/runbooks.md");
    // Every other part is in quotes. A name follows `panel`, or `panels` and other names.
    let parts: Vec<&str> = runbooks.split('"').collect();
    let mut found = 0;
    let mut is_panel = false;
    for pair in parts.chunks(2) {
        let before = pair[0].trim();
        let continues = is_panel && matches!(before, "," | "and" | ", and");
        is_panel = before.ends_with("panel") || before.ends_with("panels") || continues;
        if let (true, Some(name)) = (is_panel, pair.get(1)) {
            assert!(
                titles.contains(*name),
                "docs/runbooks.md names a missing panel: {name}"
            );
            found += 1;
        }
    }
    assert!(found > 5, "{found}");
}
