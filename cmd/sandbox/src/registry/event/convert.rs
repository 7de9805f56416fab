//! Conversion between core/v1 and events.k8s.io/v1 events.

use crate::json::Value;

/// Fields that have another name in the core group: modern name, core name.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// From `events.k8s.io` to the core group.
pub(crate) fn to_core(event: &mut Value) {
    rename(event, NAMES.iter().copied());
    // The core group always shows who reported.
    for key in ["reportingComponent", "reportingInstance"] {
        crate::registry::json::set_default(event, key, "");
    }
}

/// From the core group to `events.k8s.io`, which leaves out what is empty.
pub(crate) fn from_core(event: &mut Value) {
    rename(event, NAMES.iter().map(|(modern, core)| (*core, *modern)));
    if let Some(event) = event.as_object_mut() {
        for key in ["reportingController", "reportingInstance"] {
            if event.get(key).is_some_and(|value| value == "") {
                event.remove(key);
            }
        }
    }
}

fn rename<'a>(event: &mut Value, names: impl Iterator<Item = (&'a str, &'a str)>) {
    if let Some(event) = event.as_object_mut() {
        for (from, to) in names {
            if let Some(value) = event.remove(from) {
                event.insert(to.to_owned(), value);
            }
        }
    }
}
