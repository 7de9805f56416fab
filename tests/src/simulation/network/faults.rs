//! The faults that are not bound to one request or one watch: crashes, outages, clocks, and changes by others.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use steersman_manager::env;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::fault::{Class, Fault};
use super::super::record::{Fact, Request, Sender};
use super::{Content, Ending, State, now, wake_at};

const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// The time after which a process that was stopped starts again.
const RESTART: Duration = Duration::from_secs(40);
/// The longest lag of a watch cache that is not a fault.
const SHORT_LAG: Duration = Duration::from_secs(3);
/// The resources with dependency fields.
const DEPENDENTS: [&str; 3] = ["/api/v1/pods", "/apis/apps/v1/replicasets", "/api/v1/configmaps"];

/// A time in which the API refuses or delays requests.
pub(super) struct Outage {
    /// None for all processes.
    process: Option<usize>,
    covers: Covers,
    effect: Effect,
    until: Instant,
}

/// The effect of an outage on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The API answers with this code.
    Refuse(u16),
    /// An API server that does not serve the resource yet answers 404, in plain text.
    NotServed,
    /// The response takes this time.
    Delay(Duration),
    /// The connection breaks.
    Disconnect,
}

/// The requests that an outage covers.
#[derive(Clone, Debug)]
pub enum Covers {
    /// All requests.
    All,
    /// Requests that are not for a resource, under this path.
    Discovery(&'static str),
    /// The lists and watches of a resource.
    Reads(String),
    /// The creates of pods and `ReplicaSets`.
    Creates,
    /// The requests with one of these verbs whose URI starts with this text.
    Requests(&'static [&'static str], String),
    /// The watches without a resourceVersion.
    UnversionedWatches,
}

impl Covers {
    fn includes(&self, request: &Request) -> bool {
        let verb = request.verb;
        match self {
            Self::All => true,
            Self::Discovery(path) => request.collection.is_empty() && request.uri.starts_with(path),
            Self::Reads(collection) => request.collection == *collection && matches!(verb, "list" | "watch"),
            Self::Creates => {
                verb == "create" && matches!(request.collection.as_str(), "pods" | "replicasets.apps")
            }
            Self::Requests(verbs, start) => verbs.contains(&verb) && request.uri.starts_with(start),
            Self::UnversionedWatches => verb == "watch" && !request.uri.contains("resourceVersion="),
        }
    }
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
            error: None,
        });
        let delay = self.random.up_to(Duration::from_secs(5)) + Duration::from_millis(1);
        self.push(Content::Start(slot), Some(delay));
    }

    /// Ends a process without warning, as a step of a scenario.
    pub(in super::super) fn crash_as_step(&mut self, number: usize) {
        self.report(Class::Crash);
        self.crash(Sender::Process(number));
    }

    /// Returns the token that stops a process in order, if there is another one. The process starts again later.
    pub(in super::super) fn stop(&mut self, number: usize) -> Option<CancellationToken> {
        let others = self.processes.iter().enumerate();
        let mut others = others.filter(|(other, it)| *other != number && it.running);
        others.next()?;
        let process = self.processes.get(number).filter(|it| it.running)?;
        let (slot, stop) = (process.slot, process.stop.clone());
        self.log(|| format!("process {number} stops"));
        self.push(Content::Start(slot), Some(RESTART));
        Some(stop)
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
            effect: Effect::Refuse(code),
            until: now() + Duration::from_secs(u64::from(1 + variant % 60)),
        });
    }

    /// Refuses the lists and watches of a resource.
    pub(super) fn refuse(&mut self, process: usize, collection: &str, time: Duration) {
        self.outages.push(Outage {
            process: Some(process),
            covers: Covers::Reads(collection.to_owned()),
            effect: Effect::Refuse(503),
            until: now() + time,
        });
    }

    /// Starts an outage as a step of a scenario. The bounds of the checker allow for its class of fault, if it has one.
    pub(in super::super) fn begin_outage(
        &mut self,
        class: Option<Class>,
        covers: Covers,
        effect: Effect,
        time: Duration,
    ) {
        self.log(|| format!("outage of {covers:?} for {time:?}: {effect:?}"));
        if let Some(class) = class {
            self.report(class);
        }
        let until = now() + time;
        wake_at(until);
        self.outages.push(Outage {
            process: None,
            covers,
            effect,
            until,
        });
    }

    /// The watch cache of an API server, or of all, shows nothing new of a resource for some time. A short time is not a fault.
    pub(in super::super) fn hold(&mut self, server: Option<usize>, collection: &str, time: Duration) {
        self.log(|| format!("{collection} lag for {time:?} on {server:?}"));
        if time > SHORT_LAG {
            self.report(Class::F20);
        }
        let revision = self.sandbox.revision();
        for server in (0..self.servers.len()).filter(|it| server.is_none_or(|only| only == *it)) {
            self.servers[server].lag().hold_at(collection, revision);
            self.end_lag(server, time);
        }
    }

    /// Reports a fault that is a step of a scenario.
    pub(in super::super) fn report(&mut self, class: Class) {
        let at = self.at();
        self.observe(&Fact::Fault {
            at,
            class: class.name(),
        });
    }

    /// Returns the effect of an outage on a request.
    pub(super) fn outage(&mut self, request: &Request) -> Option<Effect> {
        if self.outages.is_empty() || request.sender == Sender::User {
            return None;
        }
        let now = now();
        self.outages.retain(|it| it.until > now);
        let covers = |outage: &&Outage| {
            let process = outage.process.map(Sender::Process);
            process.is_none_or(|it| request.sender == it) && outage.covers.includes(request)
        };
        self.outages.iter().find(covers).map(|it| it.effect)
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
                    0 | 1 => (Covers::Discovery("/"), 503),
                    2 => (Covers::Reads("replicasets.apps".to_owned()), 403),
                    _ => (Covers::Reads("pods".to_owned()), 500),
                };
                self.outages.push(Outage {
                    process: None,
                    covers,
                    effect: Effect::Refuse(code),
                    until: now() + seconds,
                });
            }
            Class::F28 => self.flip_bit(variant),
            Class::F29 => self.outages.push(Outage {
                process: None,
                covers: Covers::Creates,
                effect: Effect::Refuse(403),
                until: now() + seconds,
            }),
            Class::F30 => {
                let until = now() + seconds;
                self.nodes.disturb(until, variant);
                wake_at(until);
            }
            Class::F31 if variant.is_multiple_of(2) => self.pause(process, seconds),
            Class::F31 => self.cut_off(process, seconds),
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
            _ => self.pause(process, Duration::from_secs(u64::from(1 + variant % 60))),
        }
    }

    /// A process does not run: its timers do not end, and nothing arrives at it or leaves it.
    fn pause(&mut self, process: usize, time: Duration) {
        self.cut_off(process, time);
        self.processes[process].clock.inject(env::Fault::Freeze);
        self.push(Content::End(Ending::Thaw(process)), Some(time));
    }

    /// Nothing arrives at a process or leaves it.
    fn cut_off(&mut self, process: usize, time: Duration) {
        let until = now() + time;
        self.processes[process].cut_until = Some(until);
        wake_at(until);
    }

    fn disturb_lease(&mut self, variant: u32) {
        let lease = format!("{LEASES}/steersman");
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
