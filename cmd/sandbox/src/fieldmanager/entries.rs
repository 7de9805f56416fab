//! `metadata.managedFields`: the entries that record which field manager owns which fields.

use crate::fieldmanager::fields;
use crate::fieldmanager::fields::Fields;
use crate::json::{Map, Text, Value, json};

/// The maximum number of entries with operation Update per object.
const MAX_UPDATERS: usize = 10;
/// The maximum depth of a field set: the parser accepts 127 levels, and five of them enclose the set.
const MAX_DEPTH: usize = 120;
/// The manager of the entry that older Update entries are merged into.
const ANCIENT: &str = "ancient-changes";

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub manager: Text,
    /// Whether the operation is Apply; otherwise it is Update.
    pub applied: bool,
    pub api_version: Text,
    pub subresource: Text,
    pub time: Option<Text>,
    pub fields: Fields,
}

impl Entry {
    /// Reports whether two entries have the same manager. Apply entries are equal across API versions.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.applied == other.applied
            && self.subresource == other.subresource
            && (self.applied || self.api_version == other.api_version)
    }

    fn operation(&self) -> &'static str {
        if self.applied { "Apply" } else { "Update" }
    }

    /// Returns the identity of a manager, by which conflicts are sorted in messages.
    pub(super) fn identity(&self) -> (Text, &'static str, Text, Text) {
        let version = if self.applied { "" } else { &self.api_version };
        (
            self.manager.clone(),
            self.operation(),
            version.into(),
            self.subresource.clone(),
        )
    }

    /// Formats the manager for conflict messages.
    pub(super) fn shown(&self) -> String {
        let mut shown = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            shown = format!("{shown} with subresource {:?}", self.subresource);
        }
        if !self.applied {
            shown = format!("{shown} using {}", self.api_version);
        }
        shown
    }
}

/// Decodes stored entries, or entries sent by a client.
pub(super) fn read(list: &Value) -> Result<Vec<Entry>, String> {
    let list = list.as_array().unwrap_or_default();
    let mut entries: Vec<Entry> = Vec::with_capacity(list.len());
    for (at, entry) in list.iter().enumerate() {
        let entry = read_one(at, entry)?;
        match entries.iter_mut().find(|known| known.is_of(&entry)) {
            Some(known) => *known = entry,
            None => entries.push(entry),
        }
    }
    Ok(entries)
}

fn read_one(at: usize, entry: &Value) -> Result<Entry, String> {
    let fields = entry["fieldsV1"].as_object().cloned().unwrap_or_default();
    let some_text = |field: &str| match &entry[field] {
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    let text = |field: &str| some_text(field).unwrap_or_default();
    let applied = match entry["operation"].as_str() {
        Some("Apply") => true,
        Some("Update") => false,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = text("apiVersion");
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match entry["fieldsType"].as_str() {
        Some("FieldsV1") => {}
        None | Some("") => return Err(format!("missing fieldsType in managed fields entry {at}")),
        Some(other) => {
            return Err(format!(
                "invalid fieldsType {other:?} in managed fields entry {at}"
            ));
        }
    }
    Ok(Entry {
        manager: text("manager"),
        applied,
        api_version,
        subresource: text("subresource"),
        time: some_text("time"),
        fields,
    })
}

/// Converts field sets sent by a client to the canonical form.
pub(super) fn normalize(entries: &mut [Entry]) -> Result<(), String> {
    for entry in entries {
        entry.fields = fields::canonical(&entry.fields)?;
    }
    Ok(())
}

/// Encodes entries for storage.
pub(super) fn write(mut entries: Vec<Entry>) -> Value {
    entries.sort_by_cached_key(|e| {
        let time = e.time.clone().unwrap_or_default();
        let (manager, subresource) = (e.manager.clone(), e.subresource.clone());
        (e.operation(), time, manager, e.api_version.clone(), subresource)
    });
    entries
        .into_iter()
        .map(|entry| {
            let operation = entry.operation();
            let mut out = Map::with_capacity(7);
            out.insert("apiVersion", entry.api_version.into());
            out.insert("fieldsType", "FieldsV1".into());
            out.insert("fieldsV1", entry.fields.into());
            if !entry.manager.is_empty() {
                out.insert("manager", entry.manager.into());
            }
            out.insert("operation", operation.into());
            if !entry.subresource.is_empty() {
                out.insert("subresource", entry.subresource.into());
            }
            if let Some(time) = entry.time {
                out.insert("time", time.into());
            }
            Value::Object(out)
        })
        .collect()
}

/// Merges the oldest Update entries, which bounds their number.
pub(super) fn cap(entries: &mut Vec<Entry>) {
    let updaters = |entries: &[Entry]| entries.iter().filter(|e| !e.applied).count();
    if updaters(entries) <= MAX_UPDATERS {
        return;
    }
    entries.sort_by_cached_key(|e| (e.applied, e.time.clone().unwrap_or_default(), e.identity()));
    let mut at = 1;
    while updaters(entries) > MAX_UPDATERS && at < entries.len() && !entries[at].applied {
        // The first entry of the API version receives the fields of the others.
        let first = entries[..at]
            .iter()
            .position(|e| e.api_version == entries[at].api_version);
        let Some(first) = first else {
            at += 1;
            continue;
        };
        let merged = entries.remove(at);
        let bucket = &mut entries[first];
        bucket.manager = ANCIENT.into();
        bucket.subresource.clear();
        bucket.time = merged.time;
        fields::add(&mut bucket.fields, merged.fields);
    }
}

/// Reports whether a field set is too deep to be decoded again. Only objects without a schema reach that depth.
pub(super) fn are_too_deep(entries: &[Entry]) -> bool {
    entries
        .iter()
        .any(|entry| fields::depth(&entry.fields) > MAX_DEPTH)
}

/// Reports whether two lists are equal except for their timestamps.
pub(super) fn same_but_for_times(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_array(), other.as_array()) else {
        return false;
    };
    let same = |a: &Value, b: &Value| {
        let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
            return false;
        };
        let rest = |map: &Map| map.iter().filter(|(key, _)| *key != "time").count();
        rest(a) == rest(b)
            && a.iter()
                .all(|(key, value)| key == "time" || b.get(key) == Some(value))
    };
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b))
}

/// Reports whether a client resets `managedFields`: with an empty list, or with one empty entry.
pub(super) fn is_reset(list: &Value) -> bool {
    *list == json!([]) || *list == json!([{}])
}
