//! Pods: the one word that sums up the state of all containers.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::printers::column::{AGE, NAME, string, wide};
use crate::printers::duration::{age, human, parse};
use crate::printers::kinds::Kind;
use crate::printers::read::{condition, count, flag, int, list, terminating, text, text_or};

pub static POD: Kind = Kind {
    columns: &[
        NAME,
        string("Ready", "Containers that are ready, of all that keep running."),
        string("Status", "State of the pod and its containers in one word."),
        string(
            "Restarts",
            "How often containers were restarted, and how long ago the last time.",
        ),
        AGE,
        wide("IP", "Address of the pod."),
        wide("Node", "Node that the pod is bound to."),
        wide("Nominated Node", "Node on which room is being made for the pod."),
        wide(
            "Readiness Gates",
            "Conditions that are true, of those the pod's readiness waits for.",
        ),
    ],
    cells,
};

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    vec![
        json!(text(pod, "/metadata/name")),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.reason),
        json!(summary.restarts.shown(now)),
        json!(age(pod, now)),
        json!(text_or(pod, "/status/podIPs/0/ip", "<none>")),
        json!(text_or(pod, "/spec/nodeName", "<none>")),
        json!(text_or(pod, "/status/nominatedNodeName", "<none>")),
        json!(readiness_gates(pod)),
    ]
}

/// Marks the row of a pod that has run its course.
pub fn conditions(pod: &Value) -> Option<Value> {
    let phase = text(pod, "/status/phase");
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]))
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| condition(pod, text(gate, "/conditionType")) == "True")
        .count();
    format!("{open}/{}", gates.len())
}

/// Restarts so far, and when the container that was restarted last had ended.
#[derive(Default, Clone, Copy)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += int(status, "/restartCount");
        self.last = self
            .last
            .max(parse(status.pointer("/lastState/terminated/finishedAt")));
    }

    fn shown(self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!(
                    "{} ({} ago)",
                    self.count,
                    human(now.duration_since(last).as_secs())
                )
            }
            _ => self.count.to_string(),
        }
    }
}

/// What is known of the init containers.
#[derive(Default)]
struct Init {
    /// Whether one of them is not done yet.
    at_work: bool,
    restarts: Restarts,
    /// Those that still count when initialization is over.
    sidecar_restarts: Restarts,
}

struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: Restarts,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let phase = text(pod, "/status/phase");
        let mut summary = Self {
            reason: text_or(pod, "/status/reason", phase).to_owned(),
            ready: 0,
            total: count(pod, "/spec/containers"),
            restarts: Restarts::default(),
        };
        let gated = list(pod, "/status/conditions").iter().any(|condition| {
            text(condition, "/type") == "PodScheduled" && text(condition, "/reason") == "SchedulingGated"
        });
        if gated {
            "SchedulingGated".clone_into(&mut summary.reason);
        }
        let init = summary.add_init_containers(pod);
        if init.at_work && condition(pod, "Initialized") != "True" {
            summary.restarts = init.restarts;
        } else {
            summary.restarts = init.sidecar_restarts;
            summary.add_containers(pod);
        }
        if terminating(pod) {
            if text(pod, "/status/reason") == "NodeLost" {
                "Unknown".clone_into(&mut summary.reason);
            } else if !matches!(phase, "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    /// Goes through the init containers up to the one that is at work or has failed. Those that restart for ever are
    /// sidecars: once started they count like the pod's own containers.
    fn add_init_containers(&mut self, pod: &Value) -> Init {
        let containers = list(pod, "/spec/initContainers");
        let is_sidecar = |container: &&Value| text(container, "/restartPolicy") == "Always";
        self.total += containers.iter().filter(is_sidecar).count();
        let mut init = Init::default();
        for (index, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
            let name = text(status, "/name");
            let sidecar = containers
                .iter()
                .any(|c| text(c, "/name") == name && is_sidecar(&c));
            init.restarts.add(status);
            if sidecar {
                init.sidecar_restarts.add(status);
            }
            let terminated = status.pointer("/state/terminated");
            if terminated.is_some_and(|terminated| int(terminated, "/exitCode") == 0) {
                continue;
            }
            if sidecar && flag(status, "/started") {
                self.ready += usize::from(flag(status, "/ready"));
                continue;
            }
            self.reason = match (terminated, text(status, "/state/waiting/reason")) {
                (Some(terminated), _) => format!("Init:{}", end_of(terminated)),
                (None, "" | "PodInitializing") => format!("Init:{index}/{}", containers.len()),
                (None, waiting) => format!("Init:{waiting}"),
            };
            init.at_work = true;
            break;
        }
        init
    }

    fn add_containers(&mut self, pod: &Value) {
        let mut running = false;
        let mut failure = None;
        // The first container has the last word.
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            self.restarts.add(status);
            let waiting = text(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(terminated) = status.pointer("/state/terminated") {
                self.reason = end_of(terminated);
                if int(terminated, "/exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if flag(status, "/ready") && status.pointer("/state/running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && condition(pod, "Ready") == "True" {
                "Running".clone_into(&mut self.reason);
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

/// Why a container ended.
fn end_of(terminated: &Value) -> String {
    match (text(terminated, "/reason"), int(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", int(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
