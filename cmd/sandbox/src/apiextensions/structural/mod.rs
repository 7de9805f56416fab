//! Structural schemas: the schema of one version of a CRD. Mirrors `apiextensions-apiserver/pkg/apiserver/schema`.
//!
//! [`check`] validates a schema when a CRD is written; a [`Schema`] is compiled once. A request's object is
//! [admitted](Schema::admit) (defaulting, metadata of embedded resources, pruning) and validated before it is stored. An
//! object that was stored under an older schema is [settled](Schema::settle). All functions are pure; the depth of a
//! recursion is that of the body.

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

pub use crate::cel::{Condition, MatchResult, check_condition, conditions};
use crate::field::{FieldError, Report, Wrong};
use crate::json::Value;
pub use check::check;
use node::Node;
use path::Path;

#[derive(Debug)]
pub struct Schema {
    /// The source, by which schemas are compared.
    source: Value,
    id: u64,
    root: Node,
}

impl Schema {
    /// Compiles a valid schema.
    pub fn compile(source: &Value) -> Self {
        Self {
            source: source.clone(),
            id: fingerprint(&source.to_string()),
            root: Node::compile(source),
        }
    }

    /// Whether the schema was compiled from this source.
    pub fn is_of(&self, source: &Value) -> bool {
        self.source == *source
    }

    /// A hash of the source; never 0.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Defaults and prunes an object of a request. `drop_nulls` first removes nulls of fields that are not nullable.
    /// Returns the dropped fields.
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

    /// Defaults and prunes a stored object, which may be older than the schema.
    pub fn settle(&self, value: &mut Value) {
        defaults::drop_nulls(&self.root, value);
        defaults::fill(&self.root, value);
        self.prune(value);
    }

    pub fn prune(&self, value: &mut Value) {
        prune::prune(&self.root, value, true);
    }

    pub fn validate_create(&self, value: &Value, errors: &mut Vec<FieldError>) {
        errors.extend(validate::validate(&self.root, value, None, ""));
        self.validate_shape(value, None, errors);
        self.validate_rules(value, None, errors);
    }

    pub fn validate_update(&self, old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
        errors.extend(validate::validate(&self.root, new, Some(old), ""));
        self.validate_shape(new, Some(old), errors);
        self.validate_rules(new, Some(old), errors);
    }

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

    /// Lists that were invalid before may stay invalid.
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

    /// Rules are evaluated only if the object has the types that they rely on.
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
            errors.invalid("<nil>", Value::Null, why);
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

#[cfg(test)]
mod tests {
    use crate::json::json;

    #[test]
    fn invalid_lists_may_stay_invalid() {
        let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
        let schema = super::Schema::compile(&json!({"type": "object", "properties": {"set": set}}));
        let twice = json!({"set": ["a", "a"]});
        let mut errors = Vec::new();
        schema.validate_update(&twice, &json!({"set": ["a", "a"], "n": 1}), &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
        schema.validate_update(&json!({"set": ["a"]}), &twice, &mut errors);
        assert_eq!(errors.len(), 1);
    }

    #[test]
    fn deep_schema_is_validated() {
        let mut schema = json!({"type": "string"});
        for _ in 0..60 {
            schema = json!({"type": "object", "properties": {"a": schema}});
        }
        assert_eq!(super::check(&schema, "spec", false), []);
    }
}
