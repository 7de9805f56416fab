//! The table printer: objects as rows of a `meta.k8s.io` Table, which `kubectl get` prints.
//!
//! Headings, types and cells are those of the real server, wide columns always included (clients hide them by
//! priority). A resource is shown by its printer in `kinds`, a custom resource by the columns of its CRD, anything
//! else by name and creation time. Cells are computed from the object as given: fields that are missing or of the
//! wrong type show as empty, never as an error.
//!
//! A `Status` is not an object of a resource and is never sent as a Table; callers answer it as it is.

mod column;
mod custom;
pub mod duration;
pub mod jsonpath;
mod kinds;
mod read;
mod selector;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::kinds::Printer;
use crate::endpoints::negotiate::MetaVersion;
use crate::endpoints::partial;
use crate::resource::Resource;

/// The objects in the rows of a table: the query parameter `includeObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Reads the query parameter; the error is the message of a 400.
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

/// How a table is to look, and the time that ages are counted from.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Version of the Table itself, as negotiated.
    pub version: MetaVersion,
    /// The objects in the rows.
    pub include: IncludeObject,
    /// The present.
    pub now: Timestamp,
}

/// The table of a list, or of a single object if there is no list metadata (its resourceVersion then is the
/// table's).
#[must_use]
pub fn render(res: &Resource, items: &[Value], list_meta: Option<Value>, options: &Options) -> Value {
    table(res, items, list_meta, options, true)
}

/// The table of one watch event. Only the first of a watch carries the column definitions.
///
/// A bookmark is a row like any other, with the cells of an object that has nothing but a resourceVersion. The
/// bookmark that ends the initial events carries its metadata whatever was asked for, since the mark is in there.
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

fn table(
    res: &Resource,
    items: &[Value],
    list_meta: Option<Value>,
    options: &Options,
    headings: bool,
) -> Value {
    let printer = match (&res.custom, items) {
        // The scale subresource answers with an object of another kind than its resource.
        (_, [only]) if only["kind"] == "Scale" && only["apiVersion"] == "autoscaling/v1" => {
            Printer::of("autoscaling", "Scale")
        }
        (Some(custom), _) => Printer::Custom(custom::Columns::new(&custom.columns)),
        (None, _) => Printer::of(&res.group, &res.kind),
    };
    let metadata = list_meta.unwrap_or_else(|| match items {
        [only] => match only.pointer("/metadata/resourceVersion") {
            Some(version) => json!({"resourceVersion": version}),
            None => json!({}),
        },
        _ => json!({}),
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
    if let Some(conditions) = printer.conditions(item) {
        row["conditions"] = conditions;
    }
    row
}
