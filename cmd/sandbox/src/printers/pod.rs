//! The table printer of pods. The Status column summarizes the states of all containers in one word.

use jiff::Timestamp;

use crate::json::Value;
use crate::printers::duration::{human, parse};
use crate::printers::read::{condition, count, flag, int, list, terminating, text, text_or};

pub fn ready(pod: &Value) -> String {
    let summary = Summary::of(pod);
    format!("{}/{}", summary.ready, summary.total)
}

pub fn status(pod: &Value) -> String {
    Summary::of(pod).reason
}

pub fn restarts(pod: &Value, now: Timestamp) -> String {
    Summary::of(pod).restarts.shown(now)
}

pub fn readiness_gates(pod: &Value) -> String {
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

/// The number of restarts, and the time when the most recently restarted container had terminated.
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

/// A summary of the init containers.
#[derive(Default)]
struct Init {
    /// Whether an init container has not completed yet.
    at_work: bool,
    restarts: Restarts,
    /// The restarts of sidecars, which still count after initialization.
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

    /// Summarizes the init containers up to the one that is running or has failed. Init containers with restart policy Always
    /// are sidecars: once started, they count like main containers.
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
        // The reason of the first container takes precedence.
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

/// Returns the reason why a container terminated.
fn end_of(terminated: &Value) -> String {
    match (text(terminated, "/reason"), int(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", int(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
