//! Sequences: a seed selects a kind and requests for two of its objects.

use std::sync::LazyLock;

use serde_json::json;

use crate::kinds::{Kind, Place, places};
use crate::step::{Edit, Step, Verb};
use steersman_harness::draw::Draw;

/// Requests for objects of one kind.
pub struct Sequence<'a> {
    pub seed: u64,
    pub kind: &'a Kind,
    pub steps: Vec<Step>,
}

/// The fields of `DeleteOptions`.
static DELETE_OPTIONS: LazyLock<Vec<Place>> =
    LazyLock::new(|| places(include_str!("kinds/delete_options.json")));
/// The fields of a `Scale`.
static SCALE: LazyLock<Vec<Place>> = LazyLock::new(|| places(include_str!("kinds/scale.json")));

/// Maximum number of steps.
const STEPS_MAX: usize = 14;

const VERBS: [(usize, Verb); 11] = [
    (5, Verb::Create),
    (3, Verb::Replace),
    (5, Verb::Update),
    (5, Verb::Json),
    (5, Verb::Merge),
    (5, Verb::Strategic),
    (10, Verb::Apply),
    (3, Verb::Delete),
    (1, Verb::DeleteCollection),
    (1, Verb::Get),
    (1, Verb::List),
];

/// Returns the sequence of a seed without features that are newer than `version`.
pub fn of(seed: u64, kinds: &[(usize, Kind)], version: (u32, u32)) -> Sequence<'_> {
    let mut draw = Draw::new(seed);
    let kind = draw.weighed(kinds);
    let length = 3 + draw.below(STEPS_MAX - 2);
    let mut steps = vec![first(&mut draw, kind)];
    steps.extend((1..length).map(|_| step(&mut draw, kind)));
    if version < (1, 36) {
        steps.iter_mut().for_each(adapt_to_old_server);
    }
    Sequence { seed, kind, steps }
}

/// Older servers have another server-side apply (it panics for scales of custom resources), no field validation, fewer fields,
/// and set the host ports of templates with hostNetwork.
fn adapt_to_old_server(step: &mut Step) {
    const CHANGED: [&str; 3] = [
        "/spec/schedulingGates",
        "/spec/externalIPs",
        "/spec/template/spec/hostNetwork",
    ];
    step.edits.retain(|edit| {
        !CHANGED.contains(&edit.at.as_str()) && !CHANGED.contains(&edit.value.as_str().unwrap_or_default())
    });
    if step.verb == Verb::Apply {
        step.verb = if step.whole && step.subresource.is_empty() {
            Verb::Create
        } else {
            Verb::Merge
        };
        step.query.clear();
    }
    step.query.retain(|(key, _)| *key != "fieldValidation");
}

/// Most sequences start with an existing object.
fn first(draw: &mut Draw, kind: &Kind) -> Step {
    let verb = *draw.one(&[Verb::Create, Verb::Create, Verb::Apply]);
    let mut step = Step {
        verb,
        name: "a",
        subresource: "",
        query: Vec::new(),
        whole: true,
        edits: Vec::new(),
    };
    for _ in 0..draw.below(4) {
        edit(draw, &kind.places, &mut step, usize::MAX);
    }
    step.query = query(draw, verb);
    step.query.retain(|(key, _)| *key != "dryRun");
    step
}

fn step(draw: &mut Draw, kind: &Kind) -> Step {
    let mut verb = *draw.weighed(&VERBS);
    if verb == Verb::Strategic && kind.directives.is_empty() && !draw.once_in(8) {
        verb = Verb::Merge; // Custom resources reject strategic merge patches, which few steps cover.
    }
    let on_part = matches!(
        verb,
        Verb::Update | Verb::Json | Verb::Merge | Verb::Strategic | Verb::Apply | Verb::Get
    );
    let subresource = match draw.below(20) {
        0..4 if on_part && !kind.status.is_empty() => "/status",
        4..6 if on_part && kind.has_scale => "/scale",
        _ => "",
    };
    let mut step = Step {
        verb,
        name: if draw.once_in(4) { "b" } else { "a" },
        subresource,
        query: query(draw, verb),
        whole: draw.once_in(2),
        edits: Vec::new(),
    };
    let count = 1 + draw.below(3);
    for _ in 0..count {
        match (verb, subresource) {
            (Verb::Get | Verb::List, _) => {}
            (Verb::Delete | Verb::DeleteCollection, _) => {
                if !draw.once_in(3) {
                    edit(draw, &DELETE_OPTIONS, &mut step, 6);
                }
            }
            (_, "/scale") => edit(draw, &SCALE, &mut step, 6),
            (_, "/status") if !draw.once_in(5) => edit(draw, &kind.status, &mut step, 6),
            (Verb::Strategic, _) if !kind.directives.is_empty() && draw.once_in(2) => {
                edit(draw, &kind.directives, &mut step, 6);
            }
            // An invalid spec makes the real server drop the managers of the status.
            (_, "/status") => edit(draw, &kind.places, &mut step, usize::MAX),
            _ => edit(draw, &kind.places, &mut step, 8),
        }
    }
    step
}

/// Adds an edit of a random field, with a bad value once in `bad`.
fn edit(draw: &mut Draw, places: &[Place], step: &mut Step, bad: usize) {
    let mut place = draw.one(places);
    let wants_bad = bad != usize::MAX && draw.once_in(bad);
    for _ in 0..5 {
        if !(if wants_bad { &place.bad } else { &place.good }).is_empty() {
            break;
        }
        place = draw.one(places);
    }
    let mut values = if wants_bad { &place.bad } else { &place.good };
    if values.is_empty() {
        values = &place.good;
    }
    if values.is_empty() {
        return;
    }
    let mut value = draw.one(values).clone();
    let empty = value == json!([]) || value == json!({});
    let of_list = place.at.ends_with("/-") || place.at.contains("/0/");
    if of_list && step.subresource == "/status" {
        return; // The real server drops the managers of the status.
    }
    if step.verb == Verb::Apply && place.at.starts_with("/metadata/deletion") {
        return; // An apply that creates would create a terminating object.
    }
    if empty && step.verb == Verb::Apply && place.at.starts_with("/metadata") {
        return; // The real server handles an empty value differently by kind.
    }
    let op = match step.verb {
        Verb::Json => *draw.weighed(&[
            (5, "add"),
            (4, "replace"),
            (3, "remove"),
            (1, "test"),
            (1, "copy"),
            (1, "move"),
        ]),
        Verb::Update | Verb::Merge | Verb::Strategic if draw.once_in(6) => "remove",
        _ => "add",
    };
    if matches!(op, "copy" | "move") {
        // The patched object must keep its type.
        let from = draw.one(places).at.as_str();
        let odd = ["/kind", "/apiVersion", "/metadata/resourceVersion"].contains(&from);
        let from = if odd { "/metadata/labels/app" } else { from };
        value = json!(from);
    }
    step.edits.push(Edit {
        op,
        at: place.at.clone(),
        value,
    });
}

fn query(draw: &mut Draw, verb: Verb) -> Vec<(&'static str, String)> {
    let mut query = Vec::new();
    let mut add = |key: &'static str, value: &str| query.push((key, value.to_owned()));
    let writes = !matches!(
        verb,
        Verb::Get | Verb::List | Verb::Delete | Verb::DeleteCollection
    );
    if (verb == Verb::Apply && !draw.once_in(30)) || (writes && draw.once_in(2)) {
        let manager: &&str = draw.one(&["one", "two", "three"]);
        add("fieldManager", manager);
    }
    if verb == Verb::Apply {
        match draw.below(6) {
            0 | 1 => add("force", "true"),
            2 => add("force", "false"),
            _ => {}
        }
    } else if writes && draw.once_in(60) {
        add("force", "true");
    }
    if writes && draw.once_in(10) {
        add("dryRun", if draw.once_in(6) { "odd" } else { "All" });
    }
    if writes && draw.once_in(6) {
        let wanted: &&str = draw.weighed(&[(3, "Strict"), (2, "Ignore"), (1, "Warn"), (1, "Odd")]);
        add("fieldValidation", wanted);
    }
    if matches!(verb, Verb::List | Verb::DeleteCollection) && draw.once_in(2) {
        let selectors = [
            "app%3Da",
            "app",
            "!app",
            "app%20in%20(a,b)",
            "app%3D%3D",
            "app!%3Da,tier",
            "(bad",
        ];
        let selector: &&str = draw.one(&selectors);
        add("labelSelector", selector);
    }
    if matches!(verb, Verb::List | Verb::DeleteCollection) && draw.once_in(4) {
        let selector: &&str = draw.one(&["metadata.name%3Da", "metadata.name!%3Da", "spec.nosuch%3D1"]);
        add("fieldSelector", selector);
    }
    query
}
