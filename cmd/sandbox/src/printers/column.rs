//! A column of a table: heading, type, priority, and the cell of an object.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::printers::duration::{age, since};
use crate::printers::read::{count, flag, int, joined, list, scalar, text, text_or};
use crate::printers::selector::{labels, selector};

/// One column of a built-in kind.
#[derive(Clone, Copy)]
pub struct Column {
    /// The heading, which clients print in capitals.
    pub name: &'static str,
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
    Text(&'static str),
    /// A string, or the second text if it is empty.
    TextOr(&'static str, &'static str),
    /// A quantity or an int-or-string, or the second text if it is not set.
    ScalarOr(&'static str, &'static str),
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

/// Returns a string column that is always visible.
pub const fn column(name: &'static str, cell: Cell) -> Column {
    Column {
        name,
        kind: "string",
        priority: 0,
        cell,
    }
}

/// Returns an integer column that is always visible.
pub const fn integer(name: &'static str, path: &'static str) -> Column {
    column(name, Cell::Int(path)).with_type("integer")
}

/// Returns a string column of wide output.
pub const fn wide(name: &'static str, cell: Cell) -> Column {
    Column {
        priority: 1,
        ..column(name, cell)
    }
}

pub const NAME: Column = column("Name", Cell::Text("/metadata/name"));
pub const AGE: Column = column("Age", Cell::Age);

impl Column {
    pub const fn with_type(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    /// Returns the entry of the column in `columnDefinitions`.
    pub fn definition(&self) -> Value {
        // Clients use the format, not the heading, to find the column with the name.
        let format = if self.name == NAME.name { "name" } else { "" };
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
            Cell::Text(path) => text(object, path).into(),
            Cell::TextOr(path, none) => text_or(object, path, none).into(),
            Cell::ScalarOr(path, none) => scalar(object, path).unwrap_or_else(|| none.to_owned()).into(),
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
