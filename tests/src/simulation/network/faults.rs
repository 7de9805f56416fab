//! The faults that are not bound to one request or one watch: crashes, outages, clocks, and changes by others.

use std::time::Duration;

use coxswain_manager::env;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::fault::{Class, Fault};
use super::super::record::{Fact, Request, Sender};
use super::{Content, Ending, State, now, wake_at};

const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// The resources with dependency fields.
const DEPENDENTS: [&str; 3] = ["/api/v1/pods", "/apis/apps/v1/replicasets", "/api/v1/configmaps"];

/// A time in which the API refuses requests.
pub(super) struct Outage {
    /// None for all processes.
    process: Option<usize>,
    covers: Covers,
    code: u16,
    until: Instant,
}

enum Covers {
    All,
    Discovery,
    /// The lists and watches of a resource.
    Reads(String),
    /// The creates of pods and `ReplicaSets`.
    Creates,
}

impl State {
    /// Counts a fault, and reports it.
    pub(super) fn count_fault(&mut self, fault: Fault) {
        self.counts.faults += 1;
        self.coverage.fault(fault.class);
        self.log(|| format!("fault {fault}: {}", fault.class.text()));
        let at = self.at();
        self.observe(&Fact::Fault {
            at,
            class: fault.class.name(),
        });
    }

    /// Ends a process without warning, and starts another one later.
    pub(super) fn crash(&mut self, sender: Sender) {
        let Sender::Process(number) = sender else {
            return;
        };
        let process = &mut self.processes[number];
        if !process.running {
            return;
        }
        process.running = false;
        let slot = process.slot;
        self.crashed.extend(process.tasks.take());
        // Requests on the way may still arrive; responses do not.
        self.log(|| format!("process {number} crashes"));
        let at = self.at();
        self.observe(&Fact::Ended {
            process: number,
            at,
            clean: false,
        });
        let delay = self.random.up_to(Duration::from_secs(5)) + Duration::from_millis(1);
        self.push(Content::Start(slot), Some(delay));
    }

    pub(super) fn end_lag(&mut self, server: usize, after: Duration) {
        self.push(Content::End(Ending::Lag(server)), Some(after));
    }

    pub(super) fn start_outage(&mut self, request: &Request, variant: u32) {
        let Sender::Process(process) = request.sender else {
            return;
        };
        let code = if variant.is_multiple_of(2) { 503 } else { 500 };
        self.outages.push(Outage {
            process: Some(process),
            covers: Covers::All,
            code,
            until: now() + Duration::from_secs(u64::from(1 + variant % 60)),
        });
    }

    /// Refuses the lists and watches of a resource.
    pub(super) fn refuse(&mut self, process: usize, collection: &str, time: Duration) {
        self.outages.push(Outage {
            process: Some(process),
            covers: Covers::Reads(collection.to_owned()),
            code: 503,
            until: now() + time,
        });
    }

    /// Returns the code with which an outage answers a request.
    pub(super) fn outage(&mut self, request: &Request) -> Option<u16> {
        if self.outages.is_empty() || request.sender == Sender::User {
            return None;
        }
        let now = now();
        self.outages.retain(|it| it.until > now);
        let covers = |outage: &&Outage| {
            outage
                .process
                .is_none_or(|it| request.sender == Sender::Process(it))
                && match &outage.covers {
                    Covers::All => true,
                    Covers::Discovery => request.collection.is_empty(),
                    Covers::Reads(collection) => {
                        request.collection == *collection && matches!(request.verb, "list" | "watch")
                    }
                    Covers::Creates => {
                        request.verb == "create"
                            && matches!(request.collection.as_str(), "pods" | "replicasets.apps")
                    }
                }
        };
        self.outages.iter().find(covers).map(|it| it.code)
    }

    /// Injects a fault that is not bound to a request or an event.
    pub(super) fn inject(&mut self, fault: Fault) {
        self.count_fault(fault);
        let variant = fault.variant;
        let seconds = Duration::from_secs(u64::from(1 + variant % 60));
        let running: Vec<usize> = (0..self.processes.len())
            .filter(|it| self.processes[*it].running)
            .collect();
        let Some(&process) = running.get(variant as usize % running.len().max(1)) else {
            return;
        };
        match fault.class {
            Class::Crash => self.crash(Sender::Process(process)),
            Class::F24 => self.disturb_clock(process, variant),
            Class::F25 => self.disturb_lease(variant),
            Class::F26 => {
                let (covers, code) = match variant % 4 {
                    0 | 1 => (Covers::Discovery, 503),
                    2 => (Covers::Reads("replicasets.apps".to_owned()), 403),
                    _ => (Covers::Reads("pods".to_owned()), 500),
                };
                self.outages.push(Outage {
                    process: None,
                    covers,
                    code,
                    until: now() + seconds,
                });
            }
            Class::F28 => self.flip_bit(variant),
            Class::F29 => self.outages.push(Outage {
                process: None,
                covers: Covers::Creates,
                code: 403,
                until: now() + seconds,
            }),
            Class::F30 => {
                let until = now() + seconds;
                self.nodes.disturb(until, variant);
                wake_at(until);
            }
            Class::F31 => {
                let until = now() + seconds;
                self.processes[process].cut_until = Some(until);
                wake_at(until);
                if variant.is_multiple_of(2) {
                    self.processes[process].clock.inject(env::Fault::Freeze);
                    self.push(Content::End(Ending::Thaw(process)), Some(seconds));
                }
            }
            _ => {}
        }
    }

    fn disturb_clock(&mut self, process: usize, variant: u32) {
        let clock = self.processes[process].clock.clone();
        match variant % 4 {
            0 => {
                let skew = i64::from(variant % 7200) - 3600;
                clock.inject(env::Fault::Skew(SignedDuration::from_secs(skew)));
            }
            1 => {
                clock.inject(env::Fault::Rate(50 + variant % 151));
            }
            _ => {
                clock.inject(env::Fault::Freeze);
                let time = Duration::from_secs(u64::from(1 + variant % 60));
                self.push(Content::End(Ending::Thaw(process)), Some(time));
            }
        }
    }

    fn disturb_lease(&mut self, variant: u32) {
        let lease = format!("{LEASES}/coxswain");
        if variant.is_multiple_of(2) {
            self.execute_now(http::Method::DELETE, &lease, JSON, "");
        } else {
            let holder = json!({"spec": {"holderIdentity": "another"}}).to_string();
            self.execute_now(http::Method::PATCH, &lease, MERGE, holder);
        }
    }

    /// Flips a bit of a dependency field of one object.
    fn flip_bit(&mut self, variant: u32) {
        let resource = DEPENDENTS[variant as usize % DEPENDENTS.len()];
        let (_, list) = self.execute_now(http::Method::GET, resource, JSON, "");
        let list: Value = serde_json::from_slice(&list).unwrap_or_default();
        let Some(items) = list["items"].as_array().filter(|it| !it.is_empty()) else {
            return;
        };
        let mut object = items[variant as usize / 3 % items.len()].clone();
        let meta = &mut object["metadata"];
        let field = match variant / 7 % 3 {
            0 => meta["labels"]
                .as_object_mut()
                .and_then(|it| it.values_mut().next()),
            1 => meta["ownerReferences"].get_mut(0).map(|it| &mut it["uid"]),
            _ => meta["ownerReferences"].get_mut(0).map(|it| &mut it["name"]),
        };
        let Some(Value::String(text)) = field else {
            return;
        };
        let at = variant as usize / 11 % text.len().max(1);
        let flipped: String = text
            .char_indices()
            .map(|(index, it)| if index == at { char::from(it as u8 ^ 1) } else { it })
            .collect();
        *text = flipped;
        let meta = &object["metadata"];
        let (namespace, name) = (meta["namespace"].as_str(), meta["name"].as_str());
        let (Some(namespace), Some(name)) = (namespace, name) else {
            return;
        };
        let (root, plural) = resource.rsplit_once('/').unwrap_or_default();
        let path = format!("{root}/namespaces/{namespace}/{plural}/{name}");
        self.execute_now(http::Method::PUT, &path, JSON, object.to_string());
    }
}

/// Returns a `Status` as JSON.
pub(super) fn status(code: u16, reason: &str, request: &Request) -> String {
    let reason = match (code, reason) {
        (409, "") => "Conflict",
        (404, _) => "NotFound",
        (403, _) => "Forbidden",
        (422, _) => "Invalid",
        (429, _) => "TooManyRequests",
        (500, _) => "InternalError",
        (503, _) => "ServiceUnavailable",
        (_, reason) => reason,
    };
    let resource = request.collection.split('.').next().unwrap_or_default();
    let message = match code {
        403 => format!("{resource} is forbidden: exceeded quota"),
        _ => format!("{resource} {:?}: injected {reason}", request.name),
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": message, "details": {"name": request.name, "kind": resource},
    })
    .to_string()
}
