//! The JSON patch of a typed defaulter.
//!
//! A type may not know all fields of an object, and may encode fields that the object omits. Therefore the encoded typed
//! object never replaces the object of the request: [`merge`] makes only the changes between the typed object before and
//! after the handler.
//!
//! All three are texts. Only the fields and elements around a change are read, level by level, so that fields that the type
//! does not know need no memory.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Deserializer, Value};

/// An absent value.
const NULL: &str = "null";

/// Returns the operations of the JSON patch (RFC 6902) that makes the changes from `before` to `after` in `original`.
pub(in crate::webhook) fn patch(original: &str, before: &str, after: &str) -> Vec<Box<RawValue>> {
    let mut operations = Vec::new();
    diff(&mut operations, "", original, before, after);
    operations
}

/// Makes the changes from `before` to `after` in `original`, where null stands for an absent value.
pub(in crate::webhook) fn merge<'a>(original: &'a str, before: &str, after: &'a str) -> Cow<'a, str> {
    if before == after {
        return original.into();
    }
    if let Some(changes) = Changes::between(before, after)
        && (original == NULL || original.starts_with('{'))
    {
        let mut merged = String::from("{");
        let mut add = |key: &str, value: &str| {
            if merged.len() > 1 {
                merged.push(',');
            }
            merged.extend([&*Value::from(key).to_string(), ":", value]);
        };
        let olds = changes.olds(original);
        for_each_field(original, |key, value| {
            if !changes.0.contains_key(&key) {
                add(&key, value);
            }
        });
        for (key, change) in &changes.0 {
            if let Some(after) = change.after {
                let original = olds.get(&**key).copied().unwrap_or(NULL);
                add(key, &merge(original, change.before.unwrap_or(NULL), after));
            }
        }
        merged.push('}');
        return merged.into();
    }
    match Elements::of(original, before, after) {
        Some(elements) => {
            let merged: Vec<_> = (0..elements.after.len())
                .map(|index| elements.merge(index))
                .collect();
            format!("[{}]", merged.join(",")).into()
        }
        None => after.into(),
    }
}

/// Appends the operations that make the changes from `before` to `after` in `original`, which is at `path`.
fn diff(operations: &mut Vec<Box<RawValue>>, path: &str, original: &str, before: &str, after: &str) {
    if before == after {
        return;
    }
    if original.starts_with('{')
        && let Some(changes) = Changes::between(before, after)
    {
        let olds = changes.olds(original);
        for (key, change) in &changes.0 {
            let (path, before) = (below(path, key), change.before.unwrap_or(NULL));
            match (olds.get(&**key), change.after) {
                (Some(old), Some(after)) => diff(operations, &path, old, before, after),
                (None, Some(after)) => push(operations, "add", &path, Some(&merge(NULL, before, after))),
                (Some(_), None) => push(operations, "remove", &path, None),
                (None, None) => {}
            }
        }
        return;
    }
    if let Some(elements) = Elements::of(original, before, after)
        && elements.after.len() == elements.original.len()
    {
        for (index, original) in elements.original.iter().enumerate() {
            let path = below(path, &index.to_string());
            if elements.origins[index] == Some(index) {
                diff(
                    operations,
                    &path,
                    original,
                    elements.before[index],
                    elements.after[index],
                );
            } else {
                push(operations, "replace", &path, Some(&elements.merge(index)));
            }
        }
        return;
    }
    push(operations, "replace", path, Some(&merge(original, before, after)));
}

fn push(operations: &mut Vec<Box<RawValue>>, op: &str, path: &str, value: Option<&str>) {
    #[derive(Serialize)]
    struct Operation<'a> {
        op: &'a str,
        path: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<&'a RawValue>,
    }
    // The values are parts of valid texts.
    let value = value.and_then(|it| serde_json::from_str(it).ok());
    operations.extend(to_raw_value(&Operation { op, path, value }));
}

/// The fields of an object that differ between `before` and `after`.
struct Changes<'a>(BTreeMap<String, Change<'a>>);

#[derive(Default)]
struct Change<'a> {
    before: Option<&'a str>,
    after: Option<&'a str>,
}

impl<'a> Changes<'a> {
    /// Returns none unless `after` is an object, and `before` is one or null.
    fn between(before: &'a str, after: &'a str) -> Option<Self> {
        if !after.starts_with('{') || !(before == NULL || before.starts_with('{')) {
            return None;
        }
        let mut changes = BTreeMap::<_, Change>::new();
        for_each_field(before, |key, value| {
            changes.entry(key).or_default().before = Some(value);
        });
        for_each_field(after, |key, value| {
            changes.entry(key).or_default().after = Some(value);
        });
        changes.retain(|_, change| change.before != change.after);
        Some(Self(changes))
    }

    /// Returns the present values of these fields in `original`.
    fn olds<'b>(&self, original: &'b str) -> BTreeMap<&str, &'b str> {
        let mut olds = BTreeMap::new();
        for_each_field(original, |key, value| {
            if let Some((key, _)) = self.0.get_key_value(&key) {
                olds.insert(&**key, value);
            }
        });
        olds
    }
}

/// A list of the same length in `original` and `before`.
struct Elements<'a, 'b> {
    original: Vec<&'a str>,
    before: Vec<&'b str>,
    after: Vec<&'a str>,
    /// For each element of `after` the index of the same element in `before`; none for a new element.
    origins: Vec<Option<usize>>,
}

impl<'a, 'b> Elements<'a, 'b> {
    fn of(original: &'a str, before: &'b str, after: &'a str) -> Option<Self> {
        let (original, before, after) = (elements(original)?, elements(before)?, elements(after)?);
        (original.len() == before.len()).then(|| Self {
            origins: origins(&before, &after),
            original,
            before,
            after,
        })
    }

    fn merge(&self, index: usize) -> Cow<'a, str> {
        let after = self.after[index];
        match self.origins[index] {
            Some(origin) => merge(self.original[origin], self.before[origin], after),
            None => after.into(),
        }
    }
}

fn elements(list: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(list).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

fn origins(before: &[&str], after: &[&str]) -> Vec<Option<usize>> {
    type Identity = for<'a> fn(usize, &'a str) -> Option<(usize, Cow<'a, str>)>;
    let identities: [Identity; 4] = [
        // Unchanged.
        |index, value| Some((index, value.into())),
        // Moved.
        |_, value| Some((0, value.into())),
        // Changed: most lists of objects have unique names.
        |_, value| name(value).map(|name| (0, name.into())),
        // Changed in place, without a name.
        |index, value| name(value).is_none().then_some((index, "".into())),
    ];
    // The index of an unnamed element says nothing if elements were added or removed.
    let identities = &identities[..if before.len() == after.len() { 4 } else { 3 }];
    let mut origins = vec![None; after.len()];
    let mut is_free = vec![true; before.len()];
    for identity in identities {
        let mut free: BTreeMap<_, VecDeque<usize>> = BTreeMap::new();
        for (index, value) in before.iter().enumerate().filter(|(index, _)| is_free[*index]) {
            if let Some(identity) = identity(index, value) {
                free.entry(identity).or_default().push_back(index);
            }
        }
        for (index, value) in after.iter().enumerate() {
            if origins[index].is_none()
                && let Some(same) = identity(index, value).and_then(|it| free.get_mut(&it))
                && let Some(origin) = same.pop_front()
            {
                (origins[index], is_free[origin]) = (Some(origin), false);
            }
        }
    }
    origins
}

/// Returns the name of an element.
fn name(element: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    // A list would be decoded as a struct, too.
    let object = element.starts_with('{').then_some(element)?;
    serde_json::from_str::<Named>(object).ok().map(|it| it.name)
}

/// Calls `visit` for each field of an object, in the order of the text; not at all for another value.
pub(in crate::webhook) fn for_each_field<'a>(object: &'a str, visit: impl FnMut(String, &'a str)) {
    struct Fields<F>(F);

    impl<'a, F: FnMut(String, &'a str)> Visitor<'a> for Fields<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some((key, value)) = map.next_entry::<_, &RawValue>()? {
                (self.0)(key, value.get());
            }
            Ok(())
        }
    }

    if object.starts_with('{') {
        // The text is valid.
        let _ = Deserializer::from_str(object).deserialize_map(Fields(visit));
    }
}

/// Returns the JSON pointer (RFC 6901) of a field or an element.
fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests;
