//! Encoding of responses and watch events in the negotiated representation (`handlers/response.go` and
//! `responsewriters` of the API server).

use std::sync::Arc;

use bytes::Bytes;

use crate::endpoints::negotiate::View;
use crate::endpoints::request::Query;
use crate::endpoints::watch::bookmark_object;
use crate::endpoints::{Api, WatchStream, partial};
use crate::env::Env;
use crate::json::{Value, encode, json};
use crate::printers;
use crate::printers::IncludeObject;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::storage::Object;

/// The content of a response.
pub enum Body {
    /// An object of the resource, or its `Scale`.
    Object(Value),
    /// A stored object of the resource.
    Stored(Arc<Object>),
    /// Another object, such as a `Status`, which has a single representation.
    Plain(Value),
    /// An empty body.
    Empty,
    /// A list of the resource's objects.
    List {
        /// The items, sorted by key.
        objects: Vec<Arc<Object>>,
        /// The `ListMeta`.
        metadata: Value,
    },
    /// A stream of watch events.
    Watch(Box<WatchStream>),
}

/// An encoder for the objects of one response.
pub struct Form {
    pub(crate) res: Arc<Resource>,
    view: View,
    include: IncludeObject,
    /// Whether the next `Table` of a watch is the first one; only that one has column definitions.
    first_table: bool,
    /// The current time, from which tables compute ages. Other views do not need it.
    now: jiff::Timestamp,
}

impl Form {
    /// Returns an encoder. Rejects an invalid `includeObject` parameter.
    pub fn new(res: Arc<Resource>, view: View, query: &Query, env: &Env) -> Result<Self> {
        let now = match view {
            View::Table(_) => env.now(),
            View::Object | View::Partial(_) | View::PartialList(_) => jiff::Timestamp::UNIX_EPOCH,
        };
        let include = IncludeObject::parse(query.get("includeObject")).map_err(ApiError::bad_request)?;
        Ok(Self {
            res,
            view,
            include,
            first_table: true,
            now,
        })
    }

    /// Encodes a response body. Returns no bytes for a watch.
    #[must_use]
    pub fn encode(&self, body: &Body) -> Bytes {
        let encoded = match body {
            Body::Plain(value) => line(value),
            Body::Object(value) if self.view == View::Object => line(value),
            Body::Object(value) => line(&self.shape(value)),
            Body::Stored(object) if self.is_raw(object) => return object.line().clone(),
            Body::Stored(object) => line(&self.shape(&Api::served(&self.res, object))),
            Body::List { objects, metadata } => self.list(objects, metadata),
            Body::Watch(_) | Body::Empty => Vec::new(),
        };
        encoded.into()
    }

    /// Appends a watch event of type `kind`.
    pub(crate) fn event(&mut self, out: &mut Vec<u8>, kind: &str, object: &Object) {
        if self.is_raw(object) {
            out.reserve(object.line().len() + 32);
            out.extend_from_slice(br#"{"type":""#);
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(br#"","object":"#);
            out.extend_from_slice(object.json());
            out.extend_from_slice(b"}\n");
        } else {
            let object = Api::served(&self.res, object);
            self.shaped_event(out, kind, &object);
        }
    }

    /// Appends a bookmark event. `initial_end` marks the end of the initial events.
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

    /// Returns whether the stored JSON can be sent unchanged.
    fn is_raw(&self, object: &Object) -> bool {
        self.view == View::Object && self.res.serves_as_stored(object)
    }

    /// Appends an item of a list. Items of a built-in list omit `kind` and `apiVersion`.
    fn item(&self, out: &mut Vec<u8>, object: &Object) {
        let has_type = self.res.custom.is_some();
        if self.is_raw(object) {
            if has_type {
                out.extend_from_slice(object.json());
            } else {
                out.push(b'{');
                out.extend_from_slice(object.members());
            }
            return;
        }
        let mut value = Api::served(&self.res, object).into_owned();
        if !has_type && let Some(map) = value.as_object_mut() {
            map.remove("kind");
            map.remove("apiVersion");
        }
        encode(out, &value);
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
        let size: usize = objects.iter().map(|o| o.line().len()).sum();
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
            self.item(&mut out, object);
        }
        out.extend_from_slice(b"]}\n");
        out
    }
}

/// Appends an ERROR event, the last event of a failed watch.
pub(crate) fn error_event(out: &mut Vec<u8>, status: &Value) {
    out.extend(line(&json!({"type": "ERROR", "object": status})));
}

fn line(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    encode(&mut out, value);
    out.push(b'\n');
    out
}
