//! The field manager: `metadata.managedFields` and server-side apply.
//!
//! Mirrors structured-merge-diff and the field manager of the API server.
//!
//! [`apply()`] merges an applied configuration into an object, or returns the conflicting managers. [`track_create`] and
//! [`track_update`] record every other write; they run before the strategy of the kind changes the object, so fields that the
//! strategy sets have no manager. The result depends only on the stored and the desired object; it contains the managers in
//! its metadata. Unchanged fields are not decoded: the cost of a write grows with the size of its change.

mod apply;
mod compare;
mod created;
mod element;
mod entries;
mod fields;
mod last_applied;
mod lists;
mod merge;
mod reset;
mod scale;
mod shape;
mod validate;

#[cfg(test)]
mod tests;

pub use apply::{ApplyError, apply};
pub use created::CreatedFields;
pub use scale::{from_scale, to_scale};

use crate::json::{Map, Text, Value};
use crate::resource::Resource;
use crate::{meta, registry};
use entries::Entry;
use fields::Fields;
use validate::Repeated;

/// The field manager of a write.
#[derive(Debug, Clone)]
pub struct Writer {
    /// The `fieldManager` parameter, or a name derived from the user agent.
    pub manager: String,
    /// The written subresource; empty for the object itself.
    pub subresource: &'static str,
    /// The current time, as recorded in `managedFields`.
    pub time: Text,
}

impl Writer {
    fn entry(&self, res: &Resource, applied: bool) -> Entry {
        let manager = if self.manager.is_empty() {
            "unknown"
        } else {
            &self.manager
        };
        Entry {
            manager: manager.into(),
            applied,
            api_version: res.api_version().into(),
            subresource: self.subresource.into(),
            time: None,
            fields: Fields::new(),
        }
    }
}

/// Records a create: its manager owns the fields of the object. Without `created` the object has no field managers, so that
/// only an apply starts tracking.
pub fn track_create(res: &Resource, writer: &Writer, created: Option<&CreatedFields>, new: &mut Value) {
    let claimed = take_managers(new);
    let Some(created) = created else {
        return;
    };
    let managed = present(writer, &Value::Null, claimed);
    let Some(managed) = comparable(res, writer, None, new, managed) else {
        return;
    };
    let blank = shape::blank(res);
    let entries = if managed.is_empty() {
        let own = || owned(changes(res, writer, &blank, new));
        let own = created.fields(res, &blank, new, own);
        with_own(res, writer, managed, own)
    } else {
        updated(res, writer, &blank, new, managed)
    };
    set_managers(res, new, entries);
}

/// Records an update other than an apply: its manager owns the changed fields, and other managers lose them.
pub fn track_update(res: &Resource, writer: &Writer, old: &Value, new: &mut Value) {
    let managed = present(writer, &old["metadata"]["managedFields"], take_managers(new));
    // After a reset of `managedFields`, only an apply starts tracking again.
    if managed.is_empty() {
        return;
    }
    if let Some(managed) = comparable(res, writer, Some(old), new, managed) {
        let entries = updated(res, writer, old, new, managed);
        set_managers(res, new, entries);
    }
}

fn take_managers(object: &mut Value) -> Option<Value> {
    meta::metadata_mut(object)?.remove("managedFields")
}

fn set_managers(res: &Resource, object: &mut Value, entries: Vec<Entry>) {
    // As on the API server, a write succeeds even if its fields cannot be recorded.
    if res.custom.is_none() || !entries::are_too_deep(&entries) {
        meta::set(object, "managedFields", entries::write(entries));
    }
}

/// Returns the entries of the API group. An object that cannot be compared loses all its entries: returns `None`.
fn comparable(
    res: &Resource,
    writer: &Writer,
    old: Option<&Value>,
    new: &Value,
    mut managed: Vec<Entry>,
) -> Option<Vec<Entry>> {
    let before = managed.len();
    managed.retain(|entry| is_of_group(res, entry));
    let foreign = managed.len() < before;
    let lost = res.custom.is_some() && (foreign || !is_comparable(res, writer, old, new));
    (!lost).then_some(managed)
}

/// Reports whether the sections that a write changes but does not store match the schema. Validation skips them.
fn is_comparable(res: &Resource, writer: &Writer, old: Option<&Value>, new: &Value) -> bool {
    if !res.status {
        return true;
    }
    let shape = shape::of(res);
    let stored = |name: &str| (name == "status") == (writer.subresource == "status") || name == "metadata";
    let mut sections = new.as_object().into_iter().flatten();
    sections.all(|(name, value)| {
        let same = old.is_some_and(|old| old.get(name) == Some(value));
        let fits = |(shape, _)| validate::check(shape, value, Repeated::Fine).is_none();
        stored(name) || same || shape.field(name).is_none_or(fits)
    })
}

/// Reports whether an entry belongs to the API group of the resource. Events have entries of two groups.
fn is_of_group(res: &Resource, entry: &Entry) -> bool {
    let version = &entry.api_version;
    let group = version.split_once('/').map_or("", |(group, _)| group);
    group == res.group || (res.custom.is_none() && res.kind == "Event")
}

/// Returns the entries before the write. A client may replace them, but an omitted list keeps the stored entries, and so
/// does a write to a subresource.
fn present(writer: &Writer, live: &Value, claimed: Option<Value>) -> Vec<Entry> {
    let stored = || entries::read(live).unwrap_or_default();
    let claimed = match claimed {
        // Most writes send the entries back unchanged and need no copy.
        Some(same) if same == *live => return entries::read(&same).unwrap_or_default(),
        Some(claimed) if writer.subresource.is_empty() => claimed,
        _ => return stored(),
    };
    if entries::is_reset(&claimed) {
        return Vec::new();
    }
    let read = entries::read(&claimed).and_then(|mut read| {
        entries::normalize(&mut read)?;
        Ok(read)
    });
    match read {
        Ok(read) if !read.is_empty() => read,
        _ => stored(),
    }
}

/// Returns the entries after a change from `old` to `new`. Ignores `managedFields` of the objects.
fn updated(res: &Resource, writer: &Writer, old: &Value, new: &Value, mut managed: Vec<Entry>) -> Vec<Entry> {
    let diff = changes(res, writer, old, new);
    for entry in &mut managed {
        // An entry of another API version names the fields of that version.
        let theirs = registry::other_version(res, &entry.api_version).map(|other| {
            let [old, new] = [old, new].map(|object| registry::converted(res, other, object));
            changes(other, writer, &old, &new)
        });
        let diff = theirs.as_ref().unwrap_or(&diff);
        for taken in [&diff.removed, &diff.modified, &diff.added] {
            if !taken.is_empty() {
                fields::subtract(&mut entry.fields, taken);
            }
        }
    }
    managed.retain(|entry| !entry.fields.is_empty());
    with_own(res, writer, managed, owned(diff))
}

/// Returns the fields that the manager of a change owns.
fn owned(diff: compare::Diff) -> Fields {
    let mut own = diff.modified;
    fields::add(&mut own, diff.added);
    reset::strip(&mut own);
    own
}

/// Adds the fields of the manager to its entry.
fn with_own(res: &Resource, writer: &Writer, mut managed: Vec<Entry>, own: Fields) -> Vec<Entry> {
    if !own.is_empty() {
        let mine = Entry {
            time: Some(writer.time.clone()),
            fields: own,
            ..writer.entry(res, false)
        };
        match managed.iter_mut().find(|entry| entry.is_of(&mine)) {
            Some(entry) => {
                fields::add(&mut entry.fields, mine.fields);
                entry.time = mine.time;
            }
            None => managed.push(mine),
        }
    }
    entries::cap(&mut managed);
    managed
}

/// Returns the fields that a write changes.
fn changes(res: &Resource, writer: &Writer, old: &Value, new: &Value) -> compare::Diff {
    let mut diff = compare::compare(shape::of(res), Some(old), Some(new));
    let reset = reset::fields(res, writer.subresource);
    for set in [&mut diff.removed, &mut diff.modified, &mut diff.added] {
        fields::subtract_trees(set, &reset);
    }
    diff
}

/// Checks that `managedFields` can be decoded. The error gives the reason.
pub fn check(managers: &Value) -> Result<(), String> {
    entries::read(managers).map(drop)
}

/// Reports whether two states differ only in the timestamps of their managers. Such a write is a no-op.
#[must_use]
pub fn is_same(old: &Value, new: &Value) -> bool {
    if old == new {
        return true;
    }
    let (was, is) = (
        &old["metadata"]["managedFields"],
        &new["metadata"]["managedFields"],
    );
    if !entries::same_but_for_times(was, is) {
        return false;
    }
    same_but_for_managers(old, new)
}

/// Reports whether two objects are equal except for `metadata.managedFields`.
fn same_but_for_managers(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return false;
    };
    let same = |without: &str, old: &Map, new: &Map| {
        let rest = |map: &Map| map.len() - usize::from(map.contains_key(without));
        let equal = |(key, value): (&Text, &Value)| key == without || new.get(key) == Some(value);
        rest(old) == rest(new) && old.iter().all(equal)
    };
    same("metadata", old, new)
        && match (old.get("metadata"), new.get("metadata")) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => same("managedFields", old, new),
            (old, new) => old == new,
        }
}
