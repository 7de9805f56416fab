//! Label selectors and field selectors of list and watch requests.

mod field;
mod label;

use std::sync::Arc;

use crate::endpoints::Api;
use crate::resource::Resource;
use crate::storage::Object;

pub use field::FieldSelector;
pub use label::{LabelSelector, from_json as label_selector_from_json};

/// A parse error of a selector, with the message of the API server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

/// The label selector and the field selector of a request.
#[derive(Debug, Clone, Default)]
pub struct Selector {
    /// The label selector; the default selects everything.
    pub labels: LabelSelector,
    /// The field selector; the default selects everything.
    pub fields: FieldSelector,
    /// The custom resource, if the field selector uses one of its `selectableFields`.
    pub custom: Option<Arc<Resource>>,
}

impl Selector {
    /// Reports whether both selectors match the object.
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

    /// Reports whether the selector selects all objects.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }
}

/// Returns the value of a field, or an empty string if it is not set.
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
