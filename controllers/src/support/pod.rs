//! The fields of a pod that the controllers read.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use steersman_manager::object::decode::{null_is_default, time};
use steersman_manager::object::{Interner, Meta, Object, Text};

/// The annotation with the deletion cost of a pod relative to the other pods of its `ReplicaSet`.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A pod that ended sooner than this after its start did not run: a kubelet rejected it, or it crashed.
pub const SHORT_RUN: SignedDuration = SignedDuration::from_secs(10);

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Wire")]
#[expect(missing_docs, reason = "plain data")]
pub struct Pod {
    pub metadata: Meta,
    /// The node name; empty if the pod is not scheduled.
    pub node: Text,
    pub phase: Phase,
    pub ready: Ready,
    /// The highest restart count of its containers.
    pub restarts: i64,
    /// The highest restart count of its sidecar containers.
    pub sidecar_restarts: i64,
    /// The length of its run, if it has finished.
    pub run: Run,
}

/// The phase of a pod, in the order of deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "plain data")]
pub enum Phase {
    /// Also stands for a missing or unknown phase.
    #[default]
    Pending,
    Unknown,
    Running,
    Succeeded,
    Failed,
}

/// The Ready condition of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub enum Ready {
    #[default]
    No,
    /// Ready, with the lastTransitionTime.
    Since(Option<Timestamp>),
}

/// The length of the run of a finished pod according to its status. The times are those of the node's clock, so only
/// their differences are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Run {
    /// The pod never became Ready, or stopped being Ready within `SHORT_RUN` of its start.
    #[default]
    Short,
    /// The pod was Ready later than that.
    Long,
    /// The pod became Ready; the status has no time of its end. The start, if there is one.
    Ready(Option<Timestamp>),
    /// The status has no Ready condition. A kubelet that rejects a pod leaves it out, of a new pod as of a pod that ran
    /// before the kubelet restarted. The start.
    Unknown(Timestamp),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    metadata: Meta,
    #[serde(deserialize_with = "null_is_default")]
    spec: Spec,
    #[serde(deserialize_with = "null_is_default")]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "null_is_default")]
    node_name: Text,
    #[serde(deserialize_with = "null_is_default")]
    init_containers: Vec<Init>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Init {
    name: Text,
    #[serde(deserialize_with = "null_is_default")]
    restart_policy: Text,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(deserialize_with = "null_is_default")]
    phase: Text,
    #[serde(deserialize_with = "time")]
    start_time: Option<Timestamp>,
    #[serde(deserialize_with = "null_is_default")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "null_is_default")]
    container_statuses: Vec<Container>,
    #[serde(deserialize_with = "null_is_default")]
    init_container_statuses: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    type_: Text,
    status: Text,
    #[serde(deserialize_with = "time")]
    last_transition_time: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: Text,
    restart_count: i64,
}

impl Pod {
    /// Reports whether the pod has not finished and is not terminating.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.has_finished() && !self.metadata.is_terminating()
    }

    /// Reports whether the phase is Succeeded or Failed.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Reports whether a finished pod never became Ready or ended within `SHORT_RUN` of its start. `seen` is the time
    /// at which the controller saw it end; none if it had ended before. Without evidence of a longer run the result is
    /// true.
    #[must_use]
    pub fn ended_early(&self, seen: Option<Timestamp>) -> bool {
        let run_until_seen = |start: Timestamp| seen.map(|seen| seen.duration_since(start));
        match self.run {
            Run::Short => true,
            Run::Long => false,
            // A start in the future comes from a node with a wrong clock.
            Run::Ready(start) => start
                .and_then(run_until_seen)
                .is_some_and(|it| !it.is_negative() && it < SHORT_RUN),
            Run::Unknown(start) => run_until_seen(start).is_none_or(|it| it < SHORT_RUN),
        }
    }

    /// Reports whether the pod is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready != Ready::No
    }

    /// Returns the time until the pod has been ready for `seconds`: zero if it has, none if it is not ready or the time
    /// of the transition is unknown.
    #[must_use]
    pub fn available_in(&self, seconds: i64, now: Timestamp) -> Option<SignedDuration> {
        match self.ready {
            Ready::Since(_) if seconds <= 0 => Some(SignedDuration::ZERO),
            Ready::Since(Some(since)) => {
                let left = SignedDuration::from_secs(seconds) - now.duration_since(since);
                Some(left.max(SignedDuration::ZERO))
            }
            Ready::No | Ready::Since(None) => None,
        }
    }

    /// Returns the deletion cost. An invalid number counts as 0.
    #[must_use]
    pub fn deletion_cost(&self) -> i32 {
        let cost = self.metadata.annotations.get(DELETION_COST);
        let plain = |text: &&Text| {
            ***text == *"0" || text.starts_with(|first: char| ('1'..='9').contains(&first) || first == '-')
        };
        cost.filter(plain).and_then(|it| it.parse().ok()).unwrap_or(0)
    }
}

impl From<Wire> for Pod {
    fn from(wire: Wire) -> Self {
        let Wire {
            metadata,
            spec,
            status,
        } = wire;
        let phase = match &*status.phase {
            "Unknown" => Phase::Unknown,
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            _ => Phase::Pending,
        };
        let ready = status.conditions.iter().find(|it| it.type_ == "Ready");
        let run = match phase {
            Phase::Succeeded | Phase::Failed => run(ready, status.start_time),
            _ => Run::default(),
        };
        let ready = ready.filter(|it| it.status == "True");
        let inits = spec.init_containers.iter();
        let sidecars: BTreeSet<&str> = inits
            .filter(|it| it.restart_policy == "Always")
            .map(|it| &*it.name)
            .collect();
        let most = |counts: &mut dyn Iterator<Item = i64>| counts.max().unwrap_or(0);
        let statuses = status.init_container_statuses.iter();
        let sidecars = statuses.filter(|it| sidecars.contains(&*it.name));
        Self {
            metadata,
            phase,
            ready: ready.map_or(Ready::No, |it| Ready::Since(it.last_transition_time)),
            restarts: most(&mut status.container_statuses.iter().map(|it| it.restart_count)),
            sidecar_restarts: most(&mut sidecars.map(|it| it.restart_count)),
            node: spec.node_name,
            run,
        }
    }
}

/// The length of the run of a finished pod with this Ready condition. The condition of a pod that never became Ready is
/// as old as the start: a kubelet writes both at once.
fn run(ready: Option<&Condition>, start: Option<Timestamp>) -> Run {
    match ready {
        None => start.map_or(Run::Short, Run::Unknown),
        Some(ready) if ready.status == "True" => Run::Ready(start),
        Some(ready) => {
            let was_ready = ready.last_transition_time.zip(start);
            match was_ready.map(|(until, start)| until.duration_since(start)) {
                Some(time) if time >= SHORT_RUN => Run::Long,
                _ => Run::Short,
            }
        }
    }
}

impl Object for Pod {
    const ANNOTATIONS: &'static [&'static str] = &[DELETION_COST];
    const INDEX_UNMANAGED: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn intern(&mut self, interner: &mut Interner) {
        self.metadata.intern(interner);
        interner.intern(&mut self.node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::{Value, json};

    #[test]
    fn fields_are_decoded() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "spec": {"nodeName": "n", "initContainers": [
                {"name": "i"}, {"name": "s", "restartPolicy": "Always"}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "containerStatuses": [{"name": "x", "restartCount": 2}, {"name": "y", "restartCount": 5}],
                "initContainerStatuses": [{"name": "i", "restartCount": 9}, {"name": "s", "restartCount": 3}],
            },
        }))
        .expect("a pod");
        assert_eq!((pod.restarts, pod.sidecar_restarts), (5, 3));
        assert!(pod.is_active() && pod.is_ready() && pod.node == "n" && pod.phase == Phase::Running);
        let now = "2026-01-01T00:00:04Z".parse().expect("a time");
        let left = |seconds| pod.available_in(seconds, now).map(|it| it.as_secs());
        assert_eq!((left(0), left(4), left(10)), (Some(0), Some(0), Some(6)));
        assert_eq!(Pod::default().available_in(0, now), None);
        let untimed = Pod {
            ready: Ready::Since(None),
            ..Pod::default()
        };
        assert_eq!(untimed.available_in(0, now), Some(SignedDuration::ZERO));
        assert_eq!(untimed.available_in(1, now), None);
        for (text, phase) in [
            ("Unknown", Phase::Unknown),
            ("Pending", Phase::Pending),
            ("", Phase::Pending),
        ] {
            let pod: Pod = serde_json::from_value(json!({"status": {"phase": text}})).expect("a pod");
            assert_eq!(pod.phase, phase, "{text}");
        }
    }

    #[test]
    fn repeated_strings_are_shared() {
        let mut interner = Interner::default();
        let [a, b] = [(); 2].map(|()| {
            let mut pod = Pod {
                node: "node".into(),
                ..Pod::default()
            };
            pod.intern(&mut interner);
            pod
        });
        assert!(a.node.shares(&b.node));
    }

    #[test]
    fn run_of_a_finished_pod_is_read_from_its_status() {
        let time = |second: i64| Timestamp::from_second(second).expect("a time");
        let text = |second: i64| time(second).to_string();
        let pod =
            |status: Value| -> Pod { serde_json::from_value(json!({"status": status})).expect("a pod") };
        let unready =
            |until: i64| json!([{"type": "Ready", "status": "False", "lastTransitionTime": text(until)}]);
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": text(1)}]);
        // The status, and whether the pod ended early: seen at its end in second 100, and seen later.
        for (status, early) in [
            (
                json!({"phase": "Failed", "startTime": text(0), "conditions": unready(10)}),
                [false; 2],
            ),
            (
                json!({"phase": "Succeeded", "startTime": text(0), "conditions": unready(10)}),
                [false; 2],
            ),
            (
                json!({"phase": "Failed", "startTime": text(0), "conditions": unready(9)}),
                [true; 2],
            ),
            (
                json!({"phase": "Failed", "startTime": text(50), "conditions": unready(0)}),
                [true; 2],
            ),
            (
                json!({"phase": "Failed", "startTime": text(0), "conditions": ready}),
                [false; 2],
            ),
            (
                json!({"phase": "Failed", "startTime": text(95), "conditions": ready}),
                [true, false],
            ),
            (
                json!({"phase": "Failed", "startTime": text(90), "conditions": ready}),
                [false; 2],
            ),
            (
                json!({"phase": "Failed", "startTime": text(4000), "conditions": ready}),
                [false; 2],
            ),
            (json!({"phase": "Failed", "conditions": ready}), [false; 2]),
            // No Ready condition.
            (json!({"phase": "Failed", "startTime": text(0)}), [false, true]),
            (json!({"phase": "Failed", "startTime": text(90)}), [false, true]),
            (json!({"phase": "Failed", "startTime": text(95)}), [true; 2]),
            (json!({"phase": "Failed", "startTime": text(4000)}), [true; 2]),
            (json!({"phase": "Failed"}), [true; 2]),
            // Missing times.
            (json!({"phase": "Failed", "conditions": unready(10)}), [true; 2]),
            (
                json!({"phase": "Failed", "startTime": null, "conditions": [{"type": "Ready", "status": "False"}]}),
                [true; 2],
            ),
        ] {
            let pod = pod(status.clone());
            let found = [Some(time(100)), None].map(|seen| pod.ended_early(seen));
            assert_eq!(found, early, "{status}");
        }
        let active = pod(json!({"phase": "Running", "startTime": text(0), "conditions": ready}));
        assert_eq!(
            active.run,
            Run::default(),
            "an active pod does not change with its times"
        );
    }

    #[test]
    fn invalid_deletion_cost_is_zero() {
        for (text, cost) in [
            ("0", 0),
            ("7", 7),
            ("-7", -7),
            ("+5", 0),
            ("007", 0),
            ("", 0),
            ("1.5", 0),
            ("2147483647", i32::MAX),
            ("2147483648", 0),
            ("-2147483648", i32::MIN),
        ] {
            let json = json!({"metadata": {"annotations": {DELETION_COST: text}}});
            let pod: Pod = serde_json::from_value(json).expect("a pod");
            assert_eq!(pod.deletion_cost(), cost, "{text:?}");
        }
    }
}
