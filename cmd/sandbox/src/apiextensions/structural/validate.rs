//! Validation of values against a schema, in the words of the server's `OpenAPI` validator.
//!
//! On updates, errors in parts that the update did not change are forgiven: a schema that became stricter does not hold
//! old objects hostage. Parts are the same part if their path is the same; items of lists only by their map keys.

use serde_json::{Map, Value};

use crate::apiextensions::structural::node::{Additional, Node, Type};
use crate::apiextensions::structural::path::Path;
use crate::apiextensions::structural::{lists, number};
use crate::field;
use crate::field::{FieldError, Wrong};

/// What was found at one place and below.
#[derive(Default)]
pub(crate) struct Found {
    pub errors: Vec<FieldError>,
    /// How many checks were made: of several alternatives that fail, the one with most is explained.
    weight: usize,
}

/// Where a walk is: the path that messages name, and the one in front of it for the field of the error.
pub(crate) struct Place<'a> {
    path: Path<'a>,
    prefix: &'a str,
}

/// What is wrong with `value`. `prefix` is the path of `value` in the object; messages do not repeat it.
pub fn validate(node: &Node, value: &Value, old: Option<&Value>, prefix: &str) -> Vec<FieldError> {
    let place = Place {
        path: Path::Root,
        prefix,
    };
    field::distinct(ratcheted(node, value, old, &place).errors)
}

impl Found {
    pub(crate) fn add(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    fn merge(&mut self, other: Self) {
        self.weight += other.weight;
        self.errors.extend(other.errors);
    }

    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}

impl<'a> Place<'a> {
    fn child(&'a self, name: &'a str) -> Self {
        Self {
            path: self.path.child(name),
            prefix: self.prefix,
        }
    }

    fn index(&'a self, index: usize) -> Self {
        Self {
            path: self.path.index(index),
            prefix: self.prefix,
        }
    }

    pub(crate) fn name(&self) -> String {
        self.path.to_string()
    }

    fn field(&self) -> String {
        match (self.prefix, self.name()) {
            ("", name) if name.is_empty() => "<nil>".to_owned(),
            ("", name) => name,
            (prefix, name) if name.is_empty() => prefix.to_owned(),
            (prefix, name) => format!("{prefix}.{name}"),
        }
    }

    /// An error at this place: `why` follows its name.
    pub(crate) fn invalid(&self, value: impl Into<Value>, why: &str) -> FieldError {
        FieldError::invalid(self.field(), value, format!("{} in body {why}", self.name()))
    }

    fn of_type(&self, wanted: &str, found: &str) -> FieldError {
        let why = format!("{} in body must be of type {wanted}: {found:?}", self.name());
        FieldError::new(self.field(), Wrong::TypeInvalid(found.into()), why)
    }

    /// An error of the object as a whole, whose message says where it is.
    pub(crate) fn whole(&self, why: String) -> FieldError {
        let field = if self.prefix.is_empty() {
            "<nil>"
        } else {
            self.prefix
        };
        FieldError::invalid(field, "", why)
    }
}

/// Validates, and forgives what is as it was.
fn ratcheted(node: &Node, value: &Value, old: Option<&Value>, place: &Place<'_>) -> Found {
    let mut found = check(node, value, old, place);
    if !found.is_valid() && old == Some(value) {
        found.errors.clear();
    }
    found
}

fn check(node: &Node, value: &Value, old: Option<&Value>, place: &Place<'_>) -> Found {
    let mut found = Found::default();
    if let Some(error) = wrong_type(node, value, place) {
        found.add(error);
    } else {
        found.weight += 1;
    }
    if !value.is_null() {
        combined(node, value, old, place, &mut found);
    }
    match value {
        Value::String(text) => string(node, text, place, &mut found),
        Value::Number(n) => number::check(node, n, place, &mut found),
        Value::Array(items) => array(node, items, old, place, &mut found),
        _ => {}
    }
    allowed(node, value, place, &mut found);
    if let Value::Object(map) = value {
        object(node, map, old, place, &mut found);
    }
    found.weight += 2;
    found
}

/// The type as the server sees it.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(n) if n.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn wrong_type(node: &Node, value: &Value, place: &Place<'_>) -> Option<FieldError> {
    let is = |ty: Type| match (ty, value) {
        (Type::Object, Value::Object(_))
        | (Type::Array, Value::Array(_))
        | (Type::String, Value::String(_))
        | (Type::Boolean, Value::Bool(_))
        | (Type::Number, Value::Number(_)) => true,
        (Type::Integer, Value::Number(n)) => n.is_i64() || number::is_whole(n),
        _ => false,
    };
    let (found, format) = type_of(value);
    if node.int_or_string {
        let fits = is(Type::Integer) || is(Type::String) || (value.is_null() && node.nullable);
        return (!fits).then(|| place.of_type("integer,string", found));
    }
    let ty = node.ty?;
    if is(ty) || (value.is_null() && node.nullable) {
        return None;
    }
    match &node.limits.format {
        // The format goes before the type here, for lists too.
        Some(text) if text.of_text() => match value {
            Value::Array(_) => None,
            Value::Null => Some(place.of_type(ty.name(), found)),
            _ => Some(place.of_type(&text.name, format)),
        },
        Some(number) if !matches!(value, Value::String(_) | Value::Array(_) | Value::Null) => {
            Some(place.of_type(&number.name, format))
        }
        _ => Some(place.of_type(ty.name(), found)),
    }
}

/// `anyOf`, `oneOf`, `allOf` and `not`.
fn combined(node: &Node, value: &Value, old: Option<&Value>, place: &Place<'_>, found: &mut Found) {
    let name = place.name();
    if !node.any_of.is_empty() {
        let (valid, best) = alternatives(&node.any_of, value, old, place, true);
        if valid == 0 {
            found.add(place.whole(format!("{name:?} must validate at least one schema (anyOf)")));
        }
        found.merge(best);
    }
    if !node.one_of.is_empty() {
        let (valid, best) = alternatives(&node.one_of, value, old, place, false);
        if valid != 1 {
            let many = if valid == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {valid} valid alternatives")
            };
            found.add(place.whole(format!(
                "{name:?} must validate one and only one schema (oneOf). {many}"
            )));
        }
        if valid < 2 {
            found.merge(best);
        }
    }
    if !node.all_of.is_empty() {
        let mut valid = 0;
        for schema in &node.all_of {
            let result = check(schema, value, old, place);
            valid += usize::from(result.is_valid());
            found.merge(result);
        }
        if valid != node.all_of.len() {
            let rest = if valid == 0 { ". None validated" } else { "" };
            found.add(place.whole(format!("{name:?} must validate all the schemas (allOf){rest}")));
        }
    }
    if let Some(not) = &node.not
        && check(not, value, None, place).is_valid()
    {
        found.add(place.whole(format!("{name:?} must not validate the schema (not)")));
    }
}

/// How many alternatives hold, and the first that does, or else the one that came farthest.
fn alternatives(
    schemas: &[Node],
    value: &Value,
    old: Option<&Value>,
    place: &Place<'_>,
    first_is_enough: bool,
) -> (usize, Found) {
    let mut valid = 0;
    let mut best: Option<Found> = None;
    for schema in schemas {
        let result = check(schema, value, old, place);
        if result.is_valid() {
            valid += 1;
            if valid == 1 {
                best = Some(result);
            }
            if first_is_enough {
                break;
            }
        } else if valid == 0 && best.as_ref().is_none_or(|best| result.weight > best.weight) {
            best = Some(result);
        }
    }
    (valid, best.unwrap_or_default())
}

fn string(node: &Node, text: &str, place: &Place<'_>, found: &mut Found) {
    let limits = &node.limits;
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    found.weight += 1;
    if let Some(most) = limits.max_length.filter(|most| length() > *most) {
        found.add(FieldError::too_long(
            place.field(),
            usize::try_from(most).unwrap_or_default(),
        ));
    } else if let Some(least) = limits.min_length.filter(|least| length() < *least) {
        found.add(place.invalid(text, &format!("should be at least {least} chars long")));
    } else if limits
        .pattern
        .as_ref()
        .is_some_and(|pattern| !pattern.is_match(text))
    {
        found.add(place.invalid(text, &format!("should match '{}'", limits.pattern_text)));
    }
    if let Some(format) = limits.format.as_ref().filter(|format| !format.accepts(text)) {
        found.add(place.of_type(&format.name, text));
    }
}

fn size(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn array(node: &Node, items: &[Value], old: Option<&Value>, place: &Place<'_>, found: &mut Found) {
    if let Some(below) = &node.items {
        let before = lists::by_key(&node.list, old);
        for (index, item) in items.iter().enumerate() {
            found.merge(ratcheted(below, item, before.find(item), &place.index(index)));
        }
    }
    let count = size(items.len());
    if let Some(least) = node.limits.min_items.filter(|least| count < *least) {
        found.add(place.invalid(count, &format!("should have at least {least} items")));
    }
    if let Some(most) = node.limits.max_items.filter(|most| count > *most) {
        found.add(too_many(place, items.len(), most));
    }
    found.weight += 1;
}

fn too_many(place: &Place<'_>, count: usize, most: i64) -> FieldError {
    let most = usize::try_from(most).unwrap_or_default();
    FieldError::new(place.field(), Wrong::TooMany(count, most), "")
}

fn allowed(node: &Node, value: &Value, place: &Place<'_>, found: &mut Found) {
    let allowed = &node.limits.allowed;
    if allowed.is_empty() || allowed.iter().any(|one| number::same(one, value)) {
        return;
    }
    // A null that may be there is not asked whether it is one of the values.
    let names = allowed.iter().map(|one| match one {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let wrong = Wrong::NotSupported(value.clone(), names.map(Into::into).collect());
    found.add(FieldError::new(place.field(), wrong, ""));
}

fn object(node: &Node, map: &Map<String, Value>, old: Option<&Value>, place: &Place<'_>, found: &mut Found) {
    let count = size(map.len());
    if let Some(least) = node.limits.min_properties.filter(|least| count < *least) {
        found.add(place.invalid(count, &format!("should have at least {least} properties")));
    }
    if let Some(most) = node.limits.max_properties.filter(|most| count > *most) {
        found.add(too_many(place, map.len(), most));
    }
    for (key, value) in map {
        let below = place.child(key);
        let old = old.and_then(|old| old.get(key));
        match (node.properties.get(key), &node.additional) {
            (Some(field), _) => found.merge(ratcheted(field, value, old, &below)),
            (None, Some(Additional::Of(schema))) => found.merge(ratcheted(schema, value, old, &below)),
            (None, Some(Additional::None)) => {
                let why = format!("{}.{key} in body is a forbidden property", place.name());
                found.add(FieldError::invalid(place.field(), key.as_str(), why));
            }
            (None, _) => {}
        }
    }
    for name in &node.limits.required {
        if !map.contains_key(name) {
            found.add(FieldError::required(place.child(name).field(), ""));
        }
    }
}
