//! Patch strategies and merge keys of strategic merge patch.
//!
//! A list without a strategy is replaced as a whole, an object without one merges field by field.

use crate::generated;

/// How a field merges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rule {
    /// The strategies as the API publishes them, with commas between. `retainKeys` is advice to clients: the directive it
    /// makes them send is obeyed wherever it stands.
    pub strategies: &'static str,
    /// The field that tells items of a list apart; empty for lists of scalars.
    pub key: &'static str,
}

impl Rule {
    /// Items of the patch merge into the list.
    pub(super) fn merges(self) -> bool {
        self.strategies.split(',').any(|strategy| strategy == "merge")
    }

    /// The object of the patch takes the place of the old one.
    pub(super) fn replaces(self) -> bool {
        self.strategies == "replace"
    }
}

/// The rule of a field, by the short name of its type.
pub(super) fn rule(short_name: &str, field: &str) -> Rule {
    generated::field(short_name, field).map_or(Rule::default(), |field| Rule {
        strategies: field.patch_strategy,
        key: field.patch_merge_key,
    })
}
