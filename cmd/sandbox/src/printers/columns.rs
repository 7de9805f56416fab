//! The columns of built-in kinds, as the API server's printers define them.
//!
//! `columns.txt` lists kinds as `group/Kind`, and below each kind its columns: the heading, and after a colon the type unless
//! it is `string`, `wide` for wide output, and the cell. A cell is a JSON pointer with the text for an absent value, a word
//! that says how to print the value at the pointer, or `@` and the name of a function. `Name` and `Age` stand alone.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;

use crate::json::{Value, json};
use crate::printers::cells;
use crate::printers::duration::{age, since};
use crate::printers::read::{count, flag, int, joined, list, scalar, text};
use crate::printers::selector::{labels, selector};

/// By group and kind.
static KINDS: LazyLock<BTreeMap<(&str, &str), Vec<Column>>> =
    LazyLock::new(|| parse(include_str!("columns.txt")));

/// The columns of kinds without a printer. The API server sends the creation timestamp here, not the age.
static PLAIN: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let created = "Created At: date /metadata/creationTimestamp 0001-01-01T00:00:00Z";
    vec![parse_column("Name"), parse_column(created)]
});

/// One column of a built-in kind.
pub struct Column {
    /// The heading, which clients print in capitals.
    name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    kind: &'static str,
    /// 0 for columns that are always visible; a higher value hides the column outside of wide output.
    priority: i64,
    cell: Cell,
}

/// The source of a cell. Paths are JSON pointers.
#[derive(Clone, Copy)]
pub enum Cell {
    Age,
    /// The time since a timestamp; `<none>` if it is not set.
    Since(&'static str),
    /// A string or number, or the second text if it is empty.
    Text(&'static str, &'static str),
    Int(&'static str),
    Flag(&'static str),
    /// The number of entries of a list or map.
    Count(&'static str),
    /// A field of all items of a list.
    Joined(&'static str, &'static str),
    /// A map of labels.
    Labels(&'static str),
    /// A label selector.
    Selector(&'static str),
    /// A number computed from the whole object.
    Number(fn(&Value) -> i64),
    Of(fn(&Value) -> String),
    /// A text computed from the whole object and the current time.
    At(fn(&Value, Timestamp) -> String),
}

/// Returns the columns of a built-in kind.
pub fn for_kind(group: &str, kind: &str) -> &'static [Column] {
    let found = KINDS.iter().find(|(key, _)| **key == (group, kind));
    found.map_or(&*PLAIN, |(_, columns)| columns)
}

fn parse(text: &'static str) -> BTreeMap<(&'static str, &'static str), Vec<Column>> {
    let mut kinds = BTreeMap::<_, Vec<Column>>::new();
    let mut current: Vec<(&str, &str)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with(' ') {
            for kind in &current {
                kinds.entry(*kind).or_default().push(parse_column(line.trim()));
            }
        } else {
            current = line.split(' ').filter_map(|kind| kind.split_once('/')).collect();
        }
    }
    kinds
}

fn parse_column(line: &'static str) -> Column {
    let (name, rest) = line.split_once(": ").unwrap_or((line, ""));
    let mut column = Column {
        name,
        kind: "string",
        priority: 0,
        cell: if name == "Age" {
            Cell::Age
        } else {
            Cell::Text("/metadata/name", "")
        },
    };
    let mut words = rest.split(' ').peekable();
    while let Some(word) = words.next() {
        let mut argument = || words.next().unwrap_or_default();
        column.cell = match word {
            "integer" | "boolean" | "date" => {
                column.kind = word;
                continue;
            }
            "wide" => {
                column.priority = 1;
                continue;
            }
            "count" => Cell::Count(argument()),
            "each" => Cell::Joined(argument(), argument()),
            "flag" => Cell::Flag(argument()),
            "labels" => Cell::Labels(argument()),
            "number" => Cell::Int(argument()),
            "selector" => Cell::Selector(argument()),
            "since" => Cell::Since(argument()),
            "" => continue,
            path => match path.strip_prefix('@') {
                Some(function) => cells::named(function),
                None => Cell::Text(path, argument()),
            },
        };
    }
    column
}

impl Column {
    /// Returns the entry of the column in `columnDefinitions`.
    pub fn definition(&self) -> Value {
        // Clients use the format, not the heading, to find the column with the name.
        let format = if self.name == "Name" { "name" } else { "" };
        definition(self.name, self.kind, format, "", self.priority)
    }

    /// Returns the cell of an object.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match self.cell {
            Cell::Age => age(object, now).into(),
            Cell::Since(path) => match object.pointer(path).filter(|time| !time.is_null()) {
                Some(time) => since(Some(time), now).into(),
                None => "<none>".into(),
            },
            Cell::Text(path, none) => match scalar(object, path) {
                Some(text) if !text.is_empty() => text.into(),
                _ => none.into(),
            },
            Cell::Int(path) => int(object, path).into(),
            Cell::Flag(path) => flag(object, path).into(),
            Cell::Count(path) => count(object, path).into(),
            Cell::Joined(path, field) => joined(list(object, path), field).into(),
            Cell::Labels(path) => labels(object.pointer(path)).into(),
            Cell::Selector(path) => selector(object.pointer(path)).into(),
            Cell::Number(cell) => cell(object).into(),
            Cell::Of(cell) => cell(object).into(),
            Cell::At(cell) => cell(object, now).into(),
        }
    }
}

/// Builds an entry of `columnDefinitions`.
pub fn definition(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

/// Returns the conditions of a row: `Completed` for a pod that succeeded or failed.
pub fn conditions(object: &Value) -> Option<Value> {
    let phase = text(object, "/status/phase");
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]))
}

#[cfg(test)]
mod tests;
