//! Columns of the kinds of `apps`, of replication controllers and of scales.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::printers::column::{AGE, CONTAINERS, Column, IMAGES, NAME, SELECTOR, integer, string};
use crate::printers::duration::age;
use crate::printers::kinds::Kind;
use crate::printers::read::{flag, int, joined, list, text};
use crate::printers::selector::{labels, plain, selector};

const REPLICAS: &[Column] = &[
    NAME,
    integer("Desired", "Number of pods there should be."),
    integer("Current", "Number of pods there are."),
    integer("Ready", "Number of pods that are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub static SCALE: Kind = Kind {
    columns: &[
        NAME,
        integer("Desired", "Number of pods there should be."),
        integer("Available", "Number of pods there are."),
        AGE,
    ],
    cells: |scale, now| {
        vec![
            json!(text(scale, "/metadata/name")),
            json!(int(scale, "/spec/replicas")),
            json!(int(scale, "/status/replicas")),
            json!(age(scale, now)),
        ]
    },
};

pub static REPLICATION_CONTROLLER: Kind = Kind {
    columns: REPLICAS,
    cells: |object, now| {
        let mut cells = replicas(object, now);
        cells.push(json!(labels(object.pointer("/spec/selector"))));
        cells
    },
};

pub static REPLICA_SET: Kind = Kind {
    columns: REPLICAS,
    cells: |object, now| {
        let mut cells = replicas(object, now);
        cells.push(json!(selector(object.pointer("/spec/selector"))));
        cells
    },
};

fn replicas(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "/spec/template/spec/containers");
    vec![
        json!(text(object, "/metadata/name")),
        json!(int(object, "/spec/replicas")),
        json!(int(object, "/status/replicas")),
        json!(int(object, "/status/readyReplicas")),
        json!(age(object, now)),
        names,
        images,
    ]
}

pub static DEPLOYMENT: Kind = Kind {
    columns: &[
        NAME,
        string("Ready", "Pods that are ready, of those there should be."),
        string("Up-to-date", "Number of pods of the present template."),
        string(
            "Available",
            "Number of pods that have been ready for long enough.",
        ),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let [names, images] = containers(object, "/spec/template/spec/containers");
        vec![
            json!(text(object, "/metadata/name")),
            json!(ready_of_desired(object)),
            json!(int(object, "/status/updatedReplicas")),
            json!(int(object, "/status/availableReplicas")),
            json!(age(object, now)),
            names,
            images,
            json!(plain(object.pointer("/spec/selector")).unwrap_or_else(|| "<invalid>".to_owned())),
        ]
    },
};

pub static STATEFUL_SET: Kind = Kind {
    columns: &[
        NAME,
        string("Ready", "Pods that are ready, of those there should be."),
        AGE,
        CONTAINERS,
        IMAGES,
    ],
    cells: |object, now| {
        let [names, images] = containers(object, "/spec/template/spec/containers");
        vec![
            json!(text(object, "/metadata/name")),
            json!(ready_of_desired(object)),
            json!(age(object, now)),
            names,
            images,
        ]
    },
};

pub static DAEMON_SET: Kind = Kind {
    columns: &[
        NAME,
        integer("Desired", "Number of nodes that should run the pod."),
        integer("Current", "Number of these nodes that have the pod."),
        integer("Ready", "Number of these nodes whose pod is ready."),
        integer(
            "Up-to-date",
            "Number of these nodes whose pod is of the present template.",
        ),
        integer(
            "Available",
            "Number of these nodes whose pod has been ready for long enough.",
        ),
        string("Node Selector", "Labels of the nodes that should run the pod."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let [names, images] = containers(object, "/spec/template/spec/containers");
        vec![
            json!(text(object, "/metadata/name")),
            json!(int(object, "/status/desiredNumberScheduled")),
            json!(int(object, "/status/currentNumberScheduled")),
            json!(int(object, "/status/numberReady")),
            json!(int(object, "/status/updatedNumberScheduled")),
            json!(int(object, "/status/numberAvailable")),
            json!(labels(object.pointer("/spec/template/spec/nodeSelector"))),
            json!(age(object, now)),
            names,
            images,
            json!(selector(object.pointer("/spec/selector"))),
        ]
    },
};

pub static CONTROLLER_REVISION: Kind = Kind {
    columns: &[
        NAME,
        string("Controller", "Object that the revision belongs to."),
        string("Revision", "Number of the revision."),
        AGE,
    ],
    cells: |object, now| {
        vec![
            json!(text(object, "/metadata/name")),
            json!(controller(object)),
            json!(int(object, "/revision")),
            json!(age(object, now)),
        ]
    },
};

/// The controlling owner as `statefulset.apps/web`.
fn controller(object: &Value) -> String {
    let owners = list(object, "/metadata/ownerReferences");
    let Some(owner) = owners.iter().find(|owner| flag(owner, "/controller")) else {
        return "<none>".to_owned();
    };
    let kind = text(owner, "/kind").to_lowercase();
    let name = text(owner, "/name");
    match text(owner, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn ready_of_desired(object: &Value) -> String {
    format!(
        "{}/{}",
        int(object, "/status/readyReplicas"),
        int(object, "/spec/replicas")
    )
}

/// Names and images of a template's containers.
pub fn containers(object: &Value, path: &str) -> [Value; 2] {
    let containers = list(object, path);
    [
        json!(joined(containers, "/name")),
        json!(joined(containers, "/image")),
    ]
}
