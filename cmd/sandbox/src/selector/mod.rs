//! Label selectors and field selectors of list and watch requests.

mod field;
mod label;

use std::sync::Arc;

use crate::endpoints::Api;
use crate::json::Value;
use crate::registry::selectable_field;
use crate::resource::Resource;
use crate::storage::Object;

pub use field::FieldSelector;
pub use label::{LabelSelector, from_json as label_selector_from_json};

/// A parse error of a selector, with the message of the API server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

/// The label selector and the field selector of a request.
#[derive(Debug, Clone)]
pub struct Selector {
    /// The label selector; the default selects everything.
    pub labels: LabelSelector,
    /// The field selector; the default selects everything.
    pub fields: FieldSelector,
    /// The resource of the objects.
    pub res: Arc<Resource>,
}

impl Selector {
    /// Reports whether both selectors match the object.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.labels.matches(object.labels()) && self.matches_fields(object)
    }

    fn matches_fields(&self, object: &Object) -> bool {
        if self.fields.is_everything() {
            return true;
        }
        if self.res.custom.is_none() {
            return self
                .fields
                .matches(|name| selectable_field(&self.res, object.value(), name));
        }
        let served = Api::served(&self.res, object);
        self.fields
            .matches(|path| text(crate::meta::at_path(&served, path)))
    }

    /// Reports whether the selector selects all objects.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }
}

/// Returns the text of a field, or an empty string if it is not set.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    }
}
