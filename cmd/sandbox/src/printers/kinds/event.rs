//! Events, in the form of core and in that of `events.k8s.io`: the same objects under two sets of field names.

use serde_json::{Value, json};

use crate::printers::column::{NAME, string, wide};
use crate::printers::duration::{parse, since};
use crate::printers::kinds::Kind;
use crate::printers::read::{int, text};

pub static EVENT: Kind = Kind {
    columns: &[
        string("Last Seen", "Time since it happened last."),
        string("Type", "Normal or Warning."),
        string("Reason", "Why it happened, in one word."),
        string("Object", "What it happened to."),
        wide("Subobject", "Which part of the object."),
        wide("Source", "Who reported it."),
        string("Message", "What happened."),
        wide("First Seen", "Time since it happened first."),
        wide("Count", "How often it happened."),
        crate::printers::column::Column { priority: 1, ..NAME },
    ],
    cells: |event, now| {
        let time = |names: [&str; 2]| {
            names
                .into_iter()
                .filter_map(|name| event.pointer(name))
                .find(|time| parse(Some(time)).is_some())
        };
        let first =
            time(["/firstTimestamp", "/deprecatedFirstTimestamp"]).or_else(|| event.pointer("/eventTime"));
        let last = time(["/lastTimestamp", "/deprecatedLastTimestamp"]).or(first);
        let series = event.pointer("/series").filter(|series| series.is_object());
        let (last, times) = match series {
            Some(series) => (series.pointer("/lastObservedTime"), int(series, "/count")),
            // An event that stands for itself alone has no count.
            None => (
                last,
                (int(event, "/count") + int(event, "/deprecatedCount")).max(1),
            ),
        };
        vec![
            json!(since(last, now)),
            json!(text(event, "/type")),
            json!(text(event, "/reason")),
            json!(target(event)),
            json!(either(event, "/involvedObject/fieldPath", "/regarding/fieldPath")),
            json!(source(event)),
            json!(either(event, "/message", "/note").trim()),
            json!(since(first, now)),
            json!(times),
            json!(text(event, "/metadata/name")),
        ]
    },
};

fn target(event: &Value) -> String {
    let kind = either(event, "/involvedObject/kind", "/regarding/kind").to_lowercase();
    match either(event, "/involvedObject/name", "/regarding/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

/// Component and host, in the old fields or else in the new ones.
fn source(event: &Value) -> String {
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
