//! Label and field selectors: which objects a list or watch is about.

mod field;
mod label;

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
}

impl Selector {
    /// Whether the object is selected.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.labels.matches(&object.labels) && self.fields.matches(&object.fields)
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }
}
