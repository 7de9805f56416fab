//! Patch strategies and merge keys of strategic merge patch (`x-kubernetes-patch-strategy`,
//! `x-kubernetes-patch-merge-key`).
//!
//! A list without a strategy is replaced as a whole; an object without a strategy is merged field by field.

use crate::schema::Field;

/// The patch strategy of a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rule {
    /// The strategies as published by the API, separated by commas. `retainKeys` only advises clients: the server applies
    /// the `$retainKeys` directive to every object.
    pub strategies: &'static str,
    /// The merge key; empty for lists of scalars.
    pub key: &'static str,
}

impl Rule {
    /// Reports whether patch items are merged into the list.
    pub(super) fn merges(self) -> bool {
        self.strategies.split(',').any(|strategy| strategy == "merge")
    }

    /// Reports whether the object in the patch replaces the original object.
    pub(super) fn replaces(self) -> bool {
        self.strategies == "replace"
    }
}

/// Returns the rule of a field.
pub(super) fn rule(field: &Field) -> Rule {
    Rule {
        strategies: field.patch_strategy,
        key: field.patch_merge_key,
    }
}
