//! Structural schemas: what a definition says about the objects of one of its versions.
//!
//! [`check`] judges a schema when a definition is written; a [`Schema`] is one that was judged, compiled once. Objects
//! are [admitted](Schema::admit) when they come in (defaults, metadata of embedded resources, pruning), validated before
//! they are stored, and [settled](Schema::settle) when they were stored under another schema than the present one.
//! All of it is pure, and recursion is as deep as a body may be.

pub(crate) mod check;
pub(crate) mod defaults;
pub(crate) mod embedded;
pub(crate) mod format;
pub(crate) mod lists;
pub(crate) mod node;
pub(crate) mod number;
pub(crate) mod path;
pub(crate) mod pattern;
pub(crate) mod prune;
pub(crate) mod validate;

#[cfg(test)]
pub(crate) mod tests;

use serde_json::Value;

pub use crate::cel::{Condition, Judge, Verdict, check_condition, conditions};
use crate::field::{FieldError, Wrong};
pub use check::check;
use node::Node;
use path::Path;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    /// As it was written: two schemas are the same if their sources are.
    source: Value,
    id: u64,
    root: Node,
}

impl Schema {
    /// Compiles a schema that was found to be right.
    #[must_use]
    pub fn compile(source: &Value) -> Self {
        Self {
            source: source.clone(),
            id: fingerprint(&source.to_string()),
            root: Node::compile(source),
        }
    }

    /// Whether it was compiled from this.
    #[must_use]
    pub fn is_of(&self, source: &Value) -> bool {
        self.source == *source
    }

    /// The same for equal schemas, and no other's; never 0.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Makes an object that a client sent one of this schema, first without nulls where none may be if that is asked for.
    /// Returns the fields that were dropped.
    pub fn admit(&self, value: &mut Value, drop_nulls: bool) -> Result<Vec<String>, FieldError> {
        if drop_nulls {
            defaults::drop_nulls(&self.root, value);
        }
        defaults::fill(&self.root, value);
        let mut dropped = Vec::new();
        embedded::coerce(&self.root, value, &Path::Root, &mut dropped)?;
        dropped.sort();
        dropped.extend(prune::prune(&self.root, value, true));
        Ok(dropped)
    }

    /// Makes a stored object one of this schema, which may be younger than the object.
    pub fn settle(&self, value: &mut Value) {
        defaults::drop_nulls(&self.root, value);
        defaults::fill(&self.root, value);
        self.prune(value);
    }

    /// Drops what the schema does not know.
    pub fn prune(&self, value: &mut Value) {
        prune::prune(&self.root, value, true);
    }

    /// What is wrong with a new object.
    pub fn validate_create(&self, value: &Value, errors: &mut Vec<FieldError>) {
        errors.extend(validate::validate(&self.root, value, None, ""));
        self.validate_shape(value, None, errors);
        self.validate_rules(value, None, errors);
    }

    /// What is wrong with a changed object.
    pub fn validate_update(&self, old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
        errors.extend(validate::validate(&self.root, new, Some(old), ""));
        self.validate_shape(new, Some(old), errors);
        self.validate_rules(new, Some(old), errors);
    }

    /// What is wrong with an object whose status was changed.
    pub fn validate_status(&self, old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
        if let (Some(node), Some(status)) = (self.root.properties.get("status"), new.get("status")) {
            errors.extend(validate::validate(node, status, old.get("status"), "status"));
        }
        self.validate_lists(new, Some(old), errors);
        self.validate_rules(new, Some(old), errors);
    }

    fn validate_shape(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        embedded::validate(&self.root, new, &Path::Root, errors);
        self.validate_lists(new, old, errors);
    }

    /// Lists that were wrong before may stay wrong.
    fn validate_lists(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let mut found = Vec::new();
        lists::validate(&self.root, new, &Path::Root, &mut found);
        if let (false, Some(old)) = (found.is_empty(), old) {
            let mut before = Vec::new();
            lists::validate(&self.root, old, &Path::Root, &mut before);
            if !before.is_empty() {
                return;
            }
        }
        errors.extend(found);
    }

    /// Rules are asked only about objects that are what they expect.
    fn validate_rules(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        if !self.root.has_rules {
            return;
        }
        let blocking = |error: &FieldError| {
            matches!(
                error.wrong,
                Wrong::Required
                    | Wrong::NotSupported(..)
                    | Wrong::TooLong(_)
                    | Wrong::TooMany(..)
                    | Wrong::TypeInvalid(_)
            )
        };
        if errors.iter().any(blocking) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                       errors to complete validation";
            errors.push(FieldError::invalid("<nil>", Value::Null, why));
            return;
        }
        errors.extend(crate::cel::validate(&self.root, new, old));
    }
}

/// The FNV-1a hash of a text; never 0.
pub(crate) fn fingerprint(text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.max(1)
}
