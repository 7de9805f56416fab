//! Validation of values against a schema, with the messages of the server's `OpenAPI` validator.
//!
//! Mirrors ratcheting validation: an update ignores errors of unchanged values. Values are correlated by their path, list
//! items only by their map keys.

use crate::apiextensions::structural::node::{Additional, Node, Type};
use crate::apiextensions::structural::path::Path;
use crate::apiextensions::structural::{lists, number};
use crate::field;
use crate::field::{FieldError, Wrong};
use crate::json::{Map, Value};

/// The errors of a value and its descendants.
#[derive(Default)]
pub(crate) struct Found {
    pub errors: Vec<FieldError>,
    /// The number of checks: of several failed alternatives, the one with the most is reported.
    weight: usize,
}

/// The position of a traversal: the path in messages, and the prefix of the error's field.
pub(crate) struct Place<'a> {
    path: Path<'a>,
    prefix: &'a str,
}

/// Validates `value`. `prefix` is the path of `value` in the object; messages do not repeat it.
pub fn validate(node: &Node, value: &Value, old: Option<&Value>, prefix: &str) -> Vec<FieldError> {
    let path = Path::Root;
    let place = Place { path, prefix };
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
        let (path, prefix) = (self.path.child(name), self.prefix);
        Self { path, prefix }
    }

    fn index(&'a self, index: usize) -> Self {
        let (path, prefix) = (self.path.index(index), self.prefix);
        Self { path, prefix }
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

    /// Reports an error of this value: `why` follows its name.
    pub(crate) fn invalid(&self, value: impl Into<Value>, why: &str) -> FieldError {
        FieldError::invalid(self.field(), value, format!("{} in body {why}", self.name()))
    }

    fn type_error(&self, wanted: &str, found: &str) -> FieldError {
        let why = format!("{} in body must be of type {wanted}: {found:?}", self.name());
        FieldError::new(self.field(), Wrong::TypeInvalid(found.into()), why)
    }

    /// Reports an error of the whole object, whose message names the path.
    pub(crate) fn whole(&self, why: String) -> FieldError {
        let field = if self.prefix.is_empty() {
            "<nil>"
        } else {
            self.prefix
        };
        FieldError::invalid(field, "", why)
    }
}

/// Validates a value, and ignores the errors of an unchanged one.
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

/// Returns the type as the server names it.
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
        return (!fits).then(|| place.type_error("integer,string", found));
    }
    let ty = node.ty?;
    if is(ty) || (value.is_null() && node.nullable) {
        return None;
    }
    match &node.limits.format {
        // The format comes before the type here, for lists too.
        Some(text) if text.is_string_format() => match value {
            Value::Array(_) => None,
            Value::Null => Some(place.type_error(ty.name(), found)),
            _ => Some(place.type_error(&text.name, format)),
        },
        Some(number) if !matches!(value, Value::String(_) | Value::Array(_) | Value::Null) => {
            Some(place.type_error(&number.name, format))
        }
        _ => Some(place.type_error(ty.name(), found)),
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

/// Returns the number of valid alternatives, and the first valid one or else the one with the most checks.
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
        found.add(place.type_error(&format.name, text));
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
    // A valid null is not compared with the enum.
    let names = allowed.iter().map(|one| match one {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    });
    let wrong = Wrong::NotSupported(value.clone(), names.map(Into::into).collect());
    found.add(FieldError::new(place.field(), wrong, ""));
}

fn object(node: &Node, map: &Map, old: Option<&Value>, place: &Place<'_>, found: &mut Found) {
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
        match (node.properties.get(key.as_str()), &node.additional) {
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
