//! `docs/metrics.md`, the reference of all metrics, and the rows that the pages of a process yield for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The line above the first row.
const SEPARATOR: &str = "|---|---|---|---|---|\n";

/// The reference: rows by the name of their metric.
pub struct Reference {
    path: PathBuf,
    head: String,
    /// Lines of the table.
    pub rows: BTreeMap<String, String>,
}

impl Reference {
    /// Reads the file below `root`, the folder of the repository.
    pub fn read(root: &Path) -> Self {
        let path = root.join("docs/metrics.md");
        let text = fs::read_to_string(&path).expect("docs/metrics.md can be read");
        let (head, table) = text.split_once(SEPARATOR).expect("a table");
        let row = |line: &str| {
            let name = line.split('`').nth(1).expect("a name");
            (name.to_owned(), line.to_owned())
        };
        Self {
            head: head.to_owned() + SEPARATOR,
            rows: table.lines().map(row).collect(),
            path,
        }
    }

    /// Writes the file with other rows.
    pub fn write(&self, rows: &BTreeMap<String, String>) {
        let rows: String = rows.values().flat_map(|row| [row, "\n"]).collect();
        fs::write(&self.path, self.head.clone() + &rows).expect("docs/metrics.md can be written");
    }
}

/// Returns a row for each metric on a page in the text format of Prometheus.
pub fn rows(page: &str) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for family in page.split("# HELP ").skip(1) {
        let mut lines = family.lines();
        let (name, help) = lines.next().and_then(|it| it.split_once(' ')).expect("a help");
        let kind = lines.next().and_then(|it| it.rsplit(' ').next()).expect("a type");
        let labels: BTreeSet<&str> = lines.flat_map(labels).filter(|it| *it != "le").collect();
        let labels: Vec<String> = labels.into_iter().map(|it| format!("`{it}`")).collect();
        let labels = match &labels[..] {
            [] => "-".to_owned(),
            labels => labels.join(", "),
        };
        let level = help.strip_prefix('[').and_then(|it| it.split_once("] "));
        let (level, help) = level.unwrap_or(("-", help));
        let row = format!("| `{name}` | {kind} | {labels} | {help} | {level} |");
        rows.insert(name.to_owned(), row);
    }
    rows
}

/// Returns the names of the labels of a sample.
fn labels(sample: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = sample.split_once('{').map_or("", |(_, labels)| labels);
    while let Some((name, value)) = rest.split_once("=\"") {
        names.push(name.trim_start_matches(','));
        let mut end = 0;
        let mut escaped = false;
        for byte in value.bytes() {
            end += 1;
            match byte {
                b'"' if !escaped => break,
                _ => escaped = byte == b'\\' && !escaped,
            }
        }
        rest = &value[end..];
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_type_labels_help_and_stability() {
        let page = "# HELP a_total [ALPHA] Number of a.\n# TYPE a_total counter\na_total{b=\"x,c=\\\"}\",d=\"\"} 1\n\
                    # HELP h_seconds Time.\n# TYPE h_seconds histogram\nh_seconds_bucket{le=\"+Inf\"} 1\nh_seconds_sum 2\n";
        let expected = [
            "| `a_total` | counter | `b`, `d` | Number of a. | ALPHA |",
            "| `h_seconds` | histogram | - | Time. | - |",
        ];
        assert_eq!(rows(page).into_values().collect::<Vec<_>>(), expected);
    }
}
