//! The table printer of events. Core and `events.k8s.io` serve the same objects with different field names.

use jiff::Timestamp;

use crate::json::Value;
use crate::printers::duration::{parse, since};
use crate::printers::read::{int, text};

pub fn subobject(event: &Value) -> String {
    either(event, "/involvedObject/fieldPath", "/regarding/fieldPath").to_owned()
}

pub fn message(event: &Value) -> String {
    either(event, "/message", "/note").trim().to_owned()
}

pub fn first_seen(event: &Value, now: Timestamp) -> String {
    since(first(event), now)
}

/// Returns the first of two timestamps that is set.
fn time<'a>(event: &'a Value, names: [&str; 2]) -> Option<&'a Value> {
    let times = names.into_iter().filter_map(|name| event.pointer(name));
    times.into_iter().find(|time| parse(Some(time)).is_some())
}

fn first(event: &Value) -> Option<&Value> {
    time(event, ["/firstTimestamp", "/deprecatedFirstTimestamp"]).or_else(|| event.pointer("/eventTime"))
}

fn series(event: &Value) -> Option<&Value> {
    event.pointer("/series").filter(|series| series.is_object())
}

pub fn last_seen(event: &Value, now: Timestamp) -> String {
    let last = match series(event) {
        Some(series) => series.pointer("/lastObservedTime"),
        None => time(event, ["/lastTimestamp", "/deprecatedLastTimestamp"]).or_else(|| first(event)),
    };
    since(last, now)
}

/// Returns the number of occurrences; 1 for an event without a count.
pub fn times(event: &Value) -> i64 {
    let single = || (int(event, "/count") + int(event, "/deprecatedCount")).max(1);
    series(event).map_or_else(single, |series| int(series, "/count"))
}

pub fn target(event: &Value) -> String {
    let kind = either(event, "/involvedObject/kind", "/regarding/kind").to_lowercase();
    match either(event, "/involvedObject/name", "/regarding/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

/// Formats component and host, from the deprecated fields or else from the new fields.
pub fn source(event: &Value) -> String {
    let component = match either(event, "/source/component", "/deprecatedSource/component") {
        "" => either(event, "/reportingComponent", "/reportingController"),
        component => component,
    };
    let host = match either(event, "/source/host", "/deprecatedSource/host") {
        "" => text(event, "/reportingInstance"),
        host => host,
    };
    if host.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {host}")
    }
}

fn either<'a>(event: &'a Value, core: &str, events: &str) -> &'a str {
    match text(event, core) {
        "" => text(event, events),
        found => found,
    }
}
