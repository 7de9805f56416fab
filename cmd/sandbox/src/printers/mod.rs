//! The table printer: converts objects to rows of a `meta.k8s.io` Table, which `kubectl get` prints.
//!
//! Headings, types and cells match the API server. Wide columns are always included; clients hide them by priority. A
//! table in `columns` defines the columns of a built-in kind, and the CRD defines the columns of a custom resource. All
//! other kinds have a name and a creation time. Fields that are missing or have the wrong type print as empty cells, never
//! as errors.
//!
//! A `Status` is not an object of a resource and is never sent as a Table. Callers send it unchanged.

mod cells;
mod columns;
mod custom;
pub mod duration;
mod event;
pub mod jsonpath;
mod pod;
mod read;
mod selector;

use jiff::Timestamp;

use self::columns::Column;
use crate::endpoints::negotiate::MetaVersion;
use crate::endpoints::partial;
use crate::json::{Value, json};
use crate::resource::Resource;

/// The query parameter `includeObject`: the object in each row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// No object.
    None,
    /// The metadata of the object.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Parses the query parameter. The error is the message of a 400.
    pub fn parse(parameter: Option<&str>) -> Result<Self, String> {
        match parameter {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                 must be 'Metadata', 'Object', 'None', or empty"
            )),
        }
    }
}

/// The options of a table, including the current time for ages.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The negotiated version of the Table.
    pub version: MetaVersion,
    /// The object in each row.
    pub include: IncludeObject,
    /// The current time.
    pub now: Timestamp,
}

/// Renders the table of a list, or of a single object if `list_meta` is `None`. The table of a single object has the
/// `resourceVersion` of that object.
#[must_use]
pub fn render(res: &Resource, items: &[Value], list_meta: Option<Value>, options: &Options) -> Value {
    table(res, items, list_meta, options, true)
}

/// Renders the table of one watch event. Only the first event of a watch has column definitions.
///
/// A bookmark is a row with the cells of an object that has only a `resourceVersion`. The bookmark that ends the initial
/// events always includes its metadata, because the `k8s.io/initial-events-end` annotation is part of it.
#[must_use]
pub fn render_event(res: &Resource, object: &Value, first: bool, options: &Options) -> Value {
    let mut options = *options;
    let ends_initial_events = object
        .pointer("/metadata/annotations/k8s.io~1initial-events-end")
        .is_some();
    if ends_initial_events && options.include == IncludeObject::None {
        options.include = IncludeObject::Metadata;
    }
    table(res, std::slice::from_ref(object), None, &options, first)
}

/// The columns of a resource.
enum Printer {
    /// The columns of a CRD.
    Custom(custom::Columns),
    /// The columns of a built-in kind.
    BuiltIn(&'static [Column]),
}

impl Printer {
    fn definitions(&self) -> Value {
        match self {
            Self::Custom(columns) => columns.definitions().into(),
            Self::BuiltIn(columns) => columns.iter().map(Column::definition).collect(),
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Self::Custom(columns) => columns.cells(object, now),
            Self::BuiltIn(columns) => columns.iter().map(|column| column.cell(object, now)).collect(),
        }
    }
}

fn table(
    res: &Resource,
    items: &[Value],
    list_meta: Option<Value>,
    options: &Options,
    headings: bool,
) -> Value {
    let printer = match (&res.custom, items) {
        // The scale subresource returns an object of another kind than its resource.
        (_, [only]) if only["kind"] == "Scale" && only["apiVersion"] == "autoscaling/v1" => {
            Printer::BuiltIn(columns::for_kind("autoscaling", "Scale"))
        }
        (Some(custom), _) => Printer::Custom(custom::Columns::new(&custom.columns)),
        (None, _) => Printer::BuiltIn(columns::for_kind(&res.group, &res.kind)),
    };
    let metadata = list_meta.unwrap_or_else(|| {
        let only = items.first().filter(|_| items.len() == 1);
        let version = only.and_then(|only| only.pointer("/metadata/resourceVersion"));
        version.map_or_else(|| json!({}), |version| json!({"resourceVersion": version}))
    });
    let rows: Vec<Value> = items.iter().map(|item| row(&printer, item, options)).collect();
    json!({
        "kind": "Table",
        "apiVersion": options.version.api_version(),
        "metadata": metadata,
        "columnDefinitions": if headings { printer.definitions() } else { Value::Null },
        "rows": rows,
    })
}

fn row(printer: &Printer, item: &Value, options: &Options) -> Value {
    let object = match options.include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial::object(item, options.version),
        IncludeObject::Object => item.clone(),
    };
    let mut row = json!({"cells": printer.cells(item, options.now), "object": object});
    if let Some(conditions) = columns::conditions(item).filter(|_| item["kind"] == "Pod") {
        row["conditions"] = conditions;
    }
    row
}
