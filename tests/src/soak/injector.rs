//! Chooses faults by a seed, at a bounded rate.
//!
//! The classes are those of the simulation that can happen between a process and a real API server. Missing are stale watch
//! caches (F19), clocks (F24), flipped bits (F28) and failing pods (F30).

mod effects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use steersman_harness::{Api, fixtures, time};
use steersman_manager::env::Tasks;
use steersman_sandbox::faults::{Effect, Faults, Matcher, RecordedRequest, WatchHold};
use tokio_util::sync::CancellationToken;

use super::recorder::Recorder;
use crate::simulation::fault::Class;
use crate::simulation::network;
use crate::simulation::random::Random;
use effects::{answered, bookmark, effect_of, error, watch};

/// The mean time between two faults of requests.
const REQUEST_INTERVAL: Duration = Duration::from_millis(300);
/// The mean time between two other faults.
const STEP_INTERVAL: Duration = Duration::from_secs(1);
/// The part of the reads among the requests that fail, in percent.
const READS: usize = 25;
/// The longest duration of a fault: long enough to lose the Lease.
const DURATION_MAX: Duration = Duration::from_secs(15);

const REQUEST_CLASSES: [Class; 15] = [
    Class::F01,
    Class::F02,
    Class::F03,
    Class::F04,
    Class::F05,
    Class::F06,
    Class::F07,
    Class::F08,
    Class::F09,
    Class::F10,
    Class::F11,
    Class::F12,
    Class::F13,
    Class::F14,
    Class::Late,
];
const STEP_CLASSES: [Class; 13] = [
    Class::F15,
    Class::F16,
    Class::F17,
    Class::F18,
    Class::F20,
    Class::F21,
    Class::F22,
    Class::F23,
    Class::F25,
    Class::F26,
    Class::F29,
    Class::F31,
    Class::Crash,
];
/// A fault of the leader costs the time of an election: one in this number of the chosen ones happens.
const ELECTIONS: usize = 4;

/// A handle of the injector.
#[derive(Clone)]
pub(super) struct Injector {
    state: Arc<Mutex<State>>,
    recorder: Recorder,
    /// Sends requests directly to the API server.
    api: Api,
    tasks: Tasks,
}

/// A process that can be killed.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) faults: Faults,
    pub(super) kill: CancellationToken,
    pub(super) ended: CancellationToken,
}

struct State {
    random: Random,
    targets: BTreeMap<usize, Target>,
    /// None while no faults happen.
    active: Option<Active>,
    /// The watches whose next event is delivered twice.
    duplicates: BTreeSet<usize>,
}

/// The faults of one round.
struct Active {
    next_request: Instant,
    outages: Vec<Outage>,
    holds: Vec<(Instant, WatchHold)>,
    /// The processes and numbers of watches that deliver nothing more.
    silent: Vec<(usize, usize)>,
    end: CancellationToken,
}

/// A time in which requests fail.
struct Outage {
    /// None for all processes.
    process: Option<usize>,
    covers: Covers,
    answer: Answer,
    until: Instant,
    /// The number of requests that it still covers.
    left: usize,
}

enum Covers {
    All,
    Discovery,
    /// The lists and watches of a resource.
    Reads(String),
    Watches(String),
    /// The creates of pods and `ReplicaSets`.
    Creates,
}

#[derive(Clone, Copy)]
enum Answer {
    Code(u16),
    Lost,
    None,
}

impl Covers {
    fn matches(&self, request: &RecordedRequest) -> bool {
        let verb = request.verb.as_str();
        match self {
            Self::All => true,
            Self::Discovery => request.resource.is_empty(),
            Self::Reads(collection) => {
                request.full_resource() == *collection && matches!(verb, "list" | "watch")
            }
            Self::Watches(collection) => request.full_resource() == *collection && verb == "watch",
            Self::Creates => {
                verb == "create" && matches!(request.full_resource().as_str(), "pods" | "replicasets.apps")
            }
        }
    }
}

impl Injector {
    pub(super) fn new(seed: u64, recorder: Recorder, api: Api, tasks: Tasks) -> Self {
        let state = State {
            random: Random::new(seed),
            targets: BTreeMap::new(),
            active: None,
            duplicates: BTreeSet::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            recorder,
            api,
            tasks,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, process: usize, target: Target) {
        self.state().targets.insert(process, target);
    }

    pub(super) fn remove(&self, process: usize) {
        self.state().targets.remove(&process);
    }

    /// Returns a delay of up to `most`.
    pub(super) fn delay(&self, most: Duration) -> Duration {
        self.state().random.up_to(most)
    }

    /// From here on faults happen.
    pub(super) fn begin(&self) {
        self.state().active = Some(Active {
            next_request: time::now(),
            outages: Vec::new(),
            holds: Vec::new(),
            silent: Vec::new(),
            end: CancellationToken::new(),
        });
    }

    /// Ends all faults. Connections without responses break.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.duplicates.clear();
        let Some(active) = state.active.take() else {
            return;
        };
        let targets = state.targets.clone();
        drop(state);
        active.end.cancel();
        drop(active.holds);
        for (process, number) in active.silent {
            if let Some(target) = targets.get(&process) {
                target.faults.reset_watches(&watch(number));
            }
        }
    }

    /// Injects faults that are not bound to a request, until faults end.
    pub(super) async fn run(&self) {
        loop {
            let wait = self.state().random.up_to(2 * STEP_INTERVAL);
            time::pause(wait).await;
            if self.state().active.is_none() {
                return;
            }
            let disturbed = self.step();
            if let Some(is_deleted) = disturbed {
                self.disturb_lease(is_deleted).await;
            }
        }
    }

    /// Returns whether the next event of a watch is delivered twice.
    pub(super) fn takes_duplicate(&self, number: usize) -> bool {
        self.state().duplicates.remove(&number)
    }

    /// Chooses the effect on a request.
    pub(super) fn decide(&self, process: usize, request: &RecordedRequest) -> Effect {
        let now = time::now();
        let mut guard = self.state();
        let State {
            random,
            targets,
            active: Some(active),
            ..
        } = &mut *guard
        else {
            return Effect::Pass;
        };
        if let Some(answer) = active.outage(process, request, now) {
            return answered(answer, &active.end);
        }
        let is_read = !request.is_write();
        if now < active.next_request || is_read && !random.percent(READS) {
            return Effect::Pass;
        }
        active.next_request = now + random.up_to(2 * REQUEST_INTERVAL);
        let classes: Vec<Class> = REQUEST_CLASSES
            .into_iter()
            .filter(|it| network::applies(*it, &request.verb))
            .collect();
        let mut class = *random.pick(&classes);
        if matches!(class, Class::F01 | Class::F02 | Class::F03) && random.below(ELECTIONS) > 0 {
            class = Class::F04;
        }
        let effect = match class {
            Class::F12 => {
                let code = *random.pick(&[500, 503]);
                let outage = Outage {
                    process: Some(process),
                    covers: Covers::All,
                    answer: Answer::Code(code),
                    until: now + random.up_to(DURATION_MAX),
                    left: usize::MAX,
                };
                active.outages.push(outage);
                answered(Answer::Code(code), &active.end)
            }
            Class::F13 => answered(Answer::None, &active.end),
            _ => effect_of(class, random, targets.get(&process), &self.tasks),
        };
        drop(guard);
        let line = format!("process {process}: {} {}", request.verb, request.uri());
        self.recorder.fault(class, &line);
        effect
    }

    /// Injects a fault. Returns whether the Lease has to be deleted; none if it stays.
    fn step(&self) -> Option<bool> {
        let now = time::now();
        let mut guard = self.state();
        let State {
            random,
            targets,
            active: Some(active),
            duplicates,
        } = &mut *guard
        else {
            return None;
        };
        active.holds.retain(|(until, _)| *until > now);
        let running: Vec<usize> = targets.keys().copied().collect();
        if running.is_empty() {
            return None;
        }
        let class = *random.pick(&STEP_CLASSES);
        if matches!(class, Class::F25 | Class::F31 | Class::Crash) && random.below(ELECTIONS) > 0 {
            return None;
        }
        let process = *random.pick(&running);
        let Target { faults, kill, .. } = targets[&process].clone();
        let variant = random.below(1 << 16);
        let until = now + random.up_to(DURATION_MAX);
        let outage = |process, covers, answer| Outage {
            process,
            covers,
            answer,
            until,
            left: usize::MAX,
        };
        let mut line = format!("process {process}");
        let mut lease = None;
        match class {
            Class::Crash => kill.cancel(),
            Class::F25 => {
                let change = ["deleted", "overwritten"][variant % 2];
                line = format!("the Lease is {change}");
                lease = Some(variant % 2 == 0);
            }
            Class::F26 => {
                let (covers, code) = match variant % 4 {
                    0 | 1 => (Covers::Discovery, 503),
                    2 => (Covers::Reads("replicasets.apps".to_owned()), 403),
                    _ => (Covers::Reads("pods".to_owned()), 500),
                };
                line = format!("variant {}", variant % 4);
                active.outages.push(outage(None, covers, Answer::Code(code)));
            }
            Class::F29 => active
                .outages
                .push(outage(None, Covers::Creates, Answer::Code(403))),
            Class::F31 => {
                let answer = *random.pick(&[Answer::Lost, Answer::None]);
                active.outages.push(outage(Some(process), Covers::All, answer));
                let hold = faults.hold_watches(Matcher::verb("watch"));
                active.holds.push((until, hold));
            }
            _ => {
                let watches = self.recorder.watches(process);
                if watches.is_empty() {
                    return None;
                }
                let target = random.pick(&watches);
                let one = watch(target.number);
                let collection = target.collection.clone();
                line = format!("{line}: watch of {collection}");
                match class {
                    Class::F15 => match variant % 3 {
                        0 => drop(faults.end_watches(&one)),
                        1 => drop(faults.reset_watches(&one)),
                        _ => {
                            faults.silence_watches(&one);
                            active.silent.push((process, target.number));
                        }
                    },
                    Class::F16 => {
                        faults.send_event(&one, &error(410, "Expired", "too old resource version"));
                        faults.end_watches(&one);
                    }
                    Class::F17 => {
                        let hold = faults.hold_watches(one.clone());
                        active.holds.push((until, hold));
                        // Its last event, now that no other one follows.
                        let watches = self.recorder.watches(process);
                        let current = watches.iter().find(|it| it.number == target.number);
                        if let Some(bookmark) = current.and_then(bookmark) {
                            faults.send_event(&one, &bookmark);
                        }
                    }
                    Class::F18 => {
                        faults.send_event(&one, &error(500, "InternalError", "etcdserver: leader changed"));
                        faults.end_watches(&one);
                    }
                    Class::F20 => {
                        let of_resource = Matcher::verb("watch").resource(&collection);
                        active.holds.push((until, faults.hold_watches(of_resource)));
                    }
                    Class::F22 => drop(duplicates.insert(target.number)),
                    _ => {
                        if class == Class::F23 {
                            let reads = Covers::Reads(collection.clone());
                            active
                                .outages
                                .push(outage(Some(process), reads, Answer::Code(503)));
                        }
                        active.outages.push(Outage {
                            left: 1,
                            ..outage(Some(process), Covers::Watches(collection), Answer::Code(410))
                        });
                        faults.end_watches(&one);
                    }
                }
            }
        }
        drop(guard);
        self.recorder.fault(class, &line);
        lease
    }

    async fn disturb_lease(&self, is_deleted: bool) {
        let path = format!("{}/steersman", fixtures::leases("kube-system"));
        if is_deleted {
            self.api.delete(&path, ()).await;
        } else {
            let holder = json!({"spec": {"holderIdentity": "another"}});
            self.api.patch(&path, fixtures::MERGE, holder).await;
        }
    }
}

impl Active {
    /// Returns the answer of an outage to a request.
    fn outage(&mut self, process: usize, request: &RecordedRequest, now: Instant) -> Option<Answer> {
        self.outages.retain(|it| it.until > now && it.left > 0);
        let found = self
            .outages
            .iter_mut()
            .find(|it| it.process.is_none_or(|of| of == process) && it.covers.matches(request))?;
        found.left -= 1;
        Some(found.answer)
    }
}
