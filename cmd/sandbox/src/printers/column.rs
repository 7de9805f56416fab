//! Column definitions: the heading, the type, and whether a column is shown only in wide output.

use serde_json::{Value, json};

/// One column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Heading; clients print it in capitals.
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
    /// What it means, in a few words.
    pub description: &'static str,
    /// 0 is shown always, more only in wide output.
    pub priority: i64,
}

/// A column that is always shown.
pub const fn column(name: &'static str, kind: &'static str, description: &'static str) -> Column {
    Column {
        name,
        kind,
        description,
        priority: 0,
    }
}

/// A string column that is always shown.
pub const fn string(name: &'static str, description: &'static str) -> Column {
    column(name, "string", description)
}

/// An integer column that is always shown.
pub const fn integer(name: &'static str, description: &'static str) -> Column {
    column(name, "integer", description)
}

/// A string column of wide output.
pub const fn wide(name: &'static str, description: &'static str) -> Column {
    Column {
        name,
        kind: "string",
        description,
        priority: 1,
    }
}

/// The name of the object.
pub const NAME: Column = string("Name", "Name of the object.");
/// Its age.
pub const AGE: Column = string("Age", "Time since the object was created.");
/// Names of a template's containers.
pub const CONTAINERS: Column = wide("Containers", "Names of the template's containers.");
/// Images of a template's containers.
pub const IMAGES: Column = wide("Images", "Images of the template's containers.");
/// A label selector.
pub const SELECTOR: Column = wide("Selector", "Labels by which pods are selected.");

impl Column {
    /// As it stands in `columnDefinitions`.
    pub fn definition(&self) -> Value {
        // Clients find the column to link or to sort by through the format, not through the heading.
        let format = if self.name == NAME.name { "name" } else { "" };
        definition(self.name, self.kind, format, self.description, self.priority)
    }
}

/// A column definition from its parts.
pub fn definition(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}
