//! Label and field selectors: which objects a list or watch is about.

mod field;
mod label;

use std::sync::Arc;

use crate::endpoints::Api;
use crate::resource::Resource;
use crate::storage::Object;

pub use field::FieldSelector;
pub use label::{LabelSelector, from_json as label_selector_from_json};

/// Why a selector was not understood; the message is the API's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

/// Both selectors of a request.
#[derive(Debug, Clone, Default)]
pub struct Selector {
    /// Of labels.
    pub labels: LabelSelector,
    /// Of fields.
    pub fields: FieldSelector,
    /// The custom resource, if the field selector names one of its `selectableFields`.
    pub custom: Option<Arc<Resource>>,
}

impl Selector {
    /// Whether the object is selected.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.labels.matches(&object.labels)
            && match &self.custom {
                None => self.fields.matches(|name| find(&object.fields, name)),
                Some(res) => {
                    let served = Api::served(res, object);
                    self.fields
                        .matches(|path| text(crate::meta::at_path(&served, path)))
                }
            }
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }
}

/// A field that is not set compares as the empty string.
fn find(fields: &[(&'static str, String)], name: &str) -> String {
    let field = fields.iter().find(|(field, _)| *field == name);
    field.map(|(_, value)| value.clone()).unwrap_or_default()
}

fn text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
