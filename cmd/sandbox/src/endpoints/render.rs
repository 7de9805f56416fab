//! From stored objects to the bytes of an answer, in the form that the client asked for.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::endpoints::negotiate::View;
use crate::endpoints::request::Query;
use crate::endpoints::watch::bookmark_object;
use crate::endpoints::{Api, WatchStream, partial};
use crate::printers;
use crate::printers::IncludeObject;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::storage::{Draft, Object, write};

/// What an answer holds.
pub enum Body {
    /// An object of the resource, or of its scale.
    Object(Value),
    /// An object of the resource, as it is stored.
    Stored(Arc<Object>),
    /// Something else, such as a `Status`: it has one form only.
    Plain(Value),
    /// Nothing.
    Empty,
    /// A list of the resource's objects.
    List {
        /// In order.
        objects: Vec<Arc<Object>>,
        /// The list's own metadata.
        metadata: Value,
    },
    /// A watch that begins.
    Watch(Box<WatchStream>),
}

/// The form in which the objects of one request are sent.
pub struct Form {
    pub(crate) res: Arc<Resource>,
    view: View,
    include: IncludeObject,
    /// Whether the next table of a watch is its first, which names the columns.
    first_table: bool,
    now: jiff::Timestamp,
}

impl Form {
    /// Reads what the query says about tables.
    pub fn new(res: Arc<Resource>, view: View, query: &Query, now: jiff::Timestamp) -> Result<Self> {
        let include = IncludeObject::parse(query.get("includeObject")).map_err(ApiError::bad_request)?;
        Ok(Self {
            res,
            view,
            include,
            first_table: true,
            now,
        })
    }

    /// The bytes of everything but a watch.
    #[must_use]
    pub fn encode(&self, body: &Body) -> Vec<u8> {
        match body {
            Body::Plain(value) => line(value),
            Body::Object(value) if self.view == View::Object => line(value),
            Body::Object(value) => line(&self.shape(value)),
            Body::Stored(object) if self.is_raw(object) => {
                let mut out = Vec::with_capacity(object.json.len() + 64);
                self.raw(&mut out, object);
                out.push(b'\n');
                out
            }
            Body::Stored(object) => line(&self.shape(&Api::served(&self.res, object))),
            Body::List { objects, metadata } => self.list(objects, metadata),
            Body::Watch(_) | Body::Empty => Vec::new(),
        }
    }

    /// Appends one watch event.
    pub(crate) fn event(&mut self, out: &mut Vec<u8>, kind: &str, object: &Object) {
        if self.is_raw(object) {
            out.extend_from_slice(br#"{"type":""#);
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(br#"","object":"#);
            self.raw(out, object);
            out.extend_from_slice(b"}\n");
        } else {
            let object = Api::served(&self.res, object);
            self.shaped_event(out, kind, &object);
        }
    }

    /// Appends a bookmark.
    pub(crate) fn bookmark(&mut self, out: &mut Vec<u8>, revision: u64, initial_end: bool) {
        let object = bookmark_object(&self.res.api_version(), &self.res.kind, revision, initial_end);
        self.shaped_event(out, "BOOKMARK", &object);
    }

    fn shaped_event(&mut self, out: &mut Vec<u8>, kind: &str, object: &Value) {
        let object = match self.view {
            View::Table(version) => {
                let options = printers::Options {
                    version,
                    include: self.include,
                    now: self.now,
                };
                printers::render_event(&self.res, object, std::mem::take(&mut self.first_table), &options)
            }
            _ => self.shape(object),
        };
        out.extend(line(&json!({"type": kind, "object": object})));
    }

    /// Whether the stored text can be sent as it is, but for kind and version.
    fn is_raw(&self, object: &Object) -> bool {
        self.view == View::Object && self.res.serves_as_stored(object.shape)
    }

    fn raw(&self, out: &mut Vec<u8>, object: &Object) {
        out.extend_from_slice(
            format!(
                r#"{{"kind":{:?},"apiVersion":{:?},"#,
                self.res.kind,
                self.res.api_version()
            )
            .as_bytes(),
        );
        // The stored text is an object with metadata: it begins with a brace, and is not empty.
        out.extend_from_slice(object.json.get(1..).unwrap_or(b"}"));
    }

    /// An object of a custom list, which says its kind.
    fn item(&self, out: &mut Vec<u8>, object: &Object) {
        if self.is_raw(object) {
            self.raw(out, object);
        } else {
            out.extend_from_slice(Api::served(&self.res, object).to_string().as_bytes());
        }
    }

    fn shape(&self, object: &Value) -> Value {
        match self.view {
            View::Object => object.clone(),
            View::Partial(version) | View::PartialList(version) => partial::object(object, version),
            View::Table(version) => {
                let options = printers::Options {
                    version,
                    include: self.include,
                    now: self.now,
                };
                printers::render(&self.res, std::slice::from_ref(object), None, &options)
            }
        }
    }

    fn list(&self, objects: &[Arc<Object>], metadata: &Value) -> Vec<u8> {
        let served = || -> Vec<Value> {
            objects
                .iter()
                .map(|o| Api::served(&self.res, o).into_owned())
                .collect()
        };
        match self.view {
            View::Object => {}
            View::Partial(version) | View::PartialList(version) => {
                return line(&partial::list(&served(), metadata.clone(), version));
            }
            View::Table(version) => {
                let options = printers::Options {
                    version,
                    include: self.include,
                    now: self.now,
                };
                return line(&printers::render(
                    &self.res,
                    &served(),
                    Some(metadata.clone()),
                    &options,
                ));
            }
        }
        let size: usize = objects.iter().map(|o| o.json.len() + 64).sum();
        let mut out = Vec::with_capacity(size + 128);
        let (kind, version) = (&self.res.list_kind, self.res.api_version());
        out.extend_from_slice(
            format!(r#"{{"kind":{kind:?},"apiVersion":{version:?},"metadata":{metadata},"items":["#)
                .as_bytes(),
        );
        for (n, object) in objects.iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            if self.res.custom.is_some() {
                self.item(&mut out, object);
            } else if self.is_raw(object) {
                // The items of a built-in list do not repeat what the list says.
                out.extend_from_slice(&object.json);
            } else {
                let mut value = Api::served(&self.res, object).into_owned();
                if let Some(map) = value.as_object_mut() {
                    map.remove("kind");
                    map.remove("apiVersion");
                }
                out.extend_from_slice(value.to_string().as_bytes());
            }
        }
        out.extend_from_slice(b"]}\n");
        out
    }
}

/// Appends the event that ends a watch with an error.
pub(crate) fn error_event(out: &mut Vec<u8>, status: &Value) {
    out.extend(line(&json!({"type": "ERROR", "object": status})));
}

/// The same state at another version.
pub(crate) fn at_revision(object: &Object, revision: u64) -> Object {
    let draft = Draft {
        value: object.value().clone(),
        shape: object.shape,
        fields: object.fields.clone(),
    };
    Object::seal(&object.key, revision, draft)
}

fn line(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    write(&mut out, value);
    out.push(b'\n');
    out
}
