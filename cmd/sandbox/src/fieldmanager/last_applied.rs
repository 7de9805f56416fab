//! Migration from client-side apply to server-side apply: kubectl takes over the fields of its last-applied annotation.

use crate::fieldmanager::apply::Conflict;
use crate::fieldmanager::compare::{compare, fields_of};
use crate::fieldmanager::fields;
use crate::fieldmanager::shape::Shape;
use crate::json::Value;
use crate::resource::Resource;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The maximum total size of all annotations of an object, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Returns the conflicts without those about fields that client-side apply set and that have not changed since. Returns
/// `None` if the object has no usable last-applied annotation.
pub(super) fn remaining(
    res: &Resource,
    shape: Shape<'_>,
    live: &Value,
    conflicts: &[Conflict],
) -> Option<Vec<Conflict>> {
    let text = live["metadata"]["annotations"][ANNOTATION].as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last["apiVersion"] != res.api_version() {
        return None;
    }
    let mut own = fields_of(shape, &last);
    let diff = compare(shape, Some(&last), Some(live));
    for set in [&diff.modified, &diff.added, &diff.removed] {
        fields::subtract(&mut own, set);
    }
    let left = conflicts.iter().filter(|c| !fields::contains(&own, &c.path));
    Some(left.cloned().collect())
}

/// Updates the annotation if the object has it.
pub(super) fn update(next: &mut Value, config: &Value) {
    let annotations = next
        .get_mut("metadata")
        .and_then(|meta| meta.get_mut("annotations"))
        .and_then(Value::as_object_mut);
    let Some(annotations) = annotations else { return };
    if annotations
        .get(ANNOTATION)
        .and_then(Value::as_str)
        .is_none_or(str::is_empty)
    {
        return;
    }
    let mut config = config.clone();
    if let Some(own) = crate::meta::metadata_mut(&mut config)
        .and_then(|metadata| metadata.get_mut("annotations"))
        .and_then(Value::as_object_mut)
    {
        own.remove(ANNOTATION);
    }
    annotations.insert(ANNOTATION.to_owned(), format!("{config}\n").into());
    let size: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > ANNOTATIONS_LIMIT {
        annotations.remove(ANNOTATION);
    }
}
