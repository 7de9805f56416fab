//! The network between the processes, the nodes and the API. It owns every message on the way, and delivers one at a time.
//!
//! The runtime calls `Network::step` when no task can run and before its clock advances. Each step delivers one message, in an
//! order that the seed chooses, or injects a fault. So every interleaving of requests, responses, watch events and timers can
//! happen, and one seed gives one run.

mod deliver;
mod execute;
mod faults;
mod nodes;
mod order;
mod restore;
mod send;
mod streams;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use steersman_manager::env::{self, Clock, TaskOrder, TaskSet, Turn};
use steersman_manager::metrics::Registry;
use steersman_sandbox::{ApiService, ResponseBody, Sandbox};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::body::LinkBody;
use super::checker::{Checker, Rules};
use super::coverage::{Coverage, Site};
use super::fault::Fault;
use super::random::Random;
use super::record::{Fact, Request, Violation};
use super::schedule::Schedule;
use faults::Outage;
pub use faults::{Covers, Effect};
use nodes::Nodes;
pub(crate) use nodes::{NextStep, Pod};
use order::disturbances;
pub(super) use order::has_latency;
pub(super) use send::AIMS;
pub(crate) use send::{applies, request};
use streams::Stream;
pub(crate) use streams::revision;

/// A handle of the network.
#[derive(Clone)]
pub struct Network(Arc<Mutex<State>>);

/// The ids of the executions and streams that may go on.
#[derive(Default)]
struct Woken(Mutex<Vec<u64>>);

/// Wakes one execution or stream.
struct WakeOne {
    id: u64,
    woken: Arc<Woken>,
    is_set: AtomicBool,
}

impl Wake for WakeOne {
    fn wake(self: Arc<Self>) {
        if !self.is_set.swap(true, Ordering::Relaxed) {
            lock(&self.woken.0).push(self.id);
        }
    }
}

/// The outcome of a request at its sender.
type Answer = io::Result<Response<LinkBody>>;
type Execution =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, std::convert::Infallible>> + Send>>;

/// A request on the way.
struct Wire {
    request: Request,
    parts: Parts,
    body: Bytes,
    /// None for the second execution of a request.
    reply: Option<oneshot::Sender<Answer>>,
    fault: Option<Fault>,
}

struct Message {
    sequence: u64,
    /// It is not delivered before.
    due: Option<Instant>,
    content: Content,
}

enum Content {
    Request(Box<Wire>),
    Answer(Box<Wire>, Answer),
    /// A node acts on a pod, which its key names.
    Node(String),
    /// A task of a process can run.
    Turn(Turn),
    /// A process starts in this slot.
    Start(usize),
    /// The end of a fault.
    End(Ending),
}

/// The end of a fault that lasts.
enum Ending {
    Lag(usize),
    Thaw(usize),
}

enum Open {
    Execution(Box<Wire>, Execution),
    Stream(Box<Stream>),
}

/// A process of the product.
pub(super) struct ProcessState {
    pub(super) slot: usize,
    /// None after a crash.
    pub(super) tasks: Option<TaskSet>,
    pub(super) clock: Clock,
    pub(super) registry: Registry,
    pub(super) stop: CancellationToken,
    /// The API server of its connections.
    pub(super) server: usize,
    /// Nothing passes before this time.
    pub(super) cut_until: Option<Instant>,
    pub(super) running: bool,
}

/// The counts of a schedule.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Delivered messages.
    pub steps: usize,
    /// Requests of processes.
    pub requests: usize,
    /// Watch events to processes.
    pub events: usize,
    /// Injected faults.
    pub faults: usize,
    /// Committed writes of processes, without Leases and Events.
    pub writes: usize,
}

/// Starts a process in a slot.
pub(super) type Starter = Arc<dyn Fn(&Network, usize) + Send + Sync>;

pub(super) struct State {
    pub(super) sandbox: Sandbox,
    servers: Vec<ApiService>,
    begun: Instant,
    random: Random,
    /// The number of steps whose order the seed chooses; later ones are in the order of sending.
    permuted: usize,
    /// The part of the steps that are out of order, in percent.
    disorder: usize,
    /// The part of the messages that take time, in percent, so that timers end before them.
    latency: usize,
    /// Whether the tasks of the processes run in an order that the seed chooses.
    permutes_tasks: bool,
    sequence: u64,
    messages: Vec<Message>,
    open: BTreeMap<u64, Open>,
    woken: Arc<Woken>,
    pub(super) processes: Vec<ProcessState>,
    starter: Option<Starter>,
    pub(super) counts: Counts,
    numbers: usize,
    faults: Vec<Fault>,
    /// The write sites of the schedule so far, if a fault counts them.
    sites: BTreeSet<Site>,
    outages: Vec<Outage>,
    /// A webhook changes the templates of new `ReplicaSets`.
    pub(super) changes_templates: bool,
    waiting: VecDeque<(usize, oneshot::Sender<()>)>,
    /// Wakes a task of the network, so that the runtime calls the next step before its clock advances.
    pump: Option<Waker>,
    nodes: Nodes,
    pub(super) checker: Checker,
    pub(super) violations: Vec<Violation>,
    pub(super) trace: Option<Vec<String>>,
    pub(super) coverage: Coverage,
    /// The time of the last committed write of a process that is not a Lease or an Event.
    pub(super) last_write: Instant,
    /// Watch events that were delivered, and are in the caches when no task waits for its turn.
    delivered: Vec<Fact>,
    /// Task sets of crashed processes: dropped without the lock.
    crashed: Vec<TaskSet>,
}

/// The options of a network.
pub(super) struct Options {
    pub(super) sandbox: Sandbox,
    pub(super) servers: usize,
    pub(super) checker: Checker,
    pub(super) trace: bool,
}

/// The order of tasks that the network chooses.
struct Order(Network);

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Order")
    }
}

impl TaskOrder for Order {
    fn enqueue(&self, turn: Turn) {
        self.0.state().push(Content::Turn(turn), None);
    }
}

impl Network {
    /// Returns a set for the tasks of a process.
    pub(super) fn task_set(&self) -> TaskSet {
        if self.state().permutes_tasks {
            TaskSet::ordered(Arc::new(Order(self.clone())))
        } else {
            TaskSet::new()
        }
    }

    pub(super) fn new(options: Options) -> Self {
        let now = now();
        let servers = (0..options.servers).map(|_| options.sandbox.service());
        let state = State {
            servers: servers.collect(),
            sandbox: options.sandbox,
            begun: now,
            nodes: Nodes::default(),
            random: Random::new(0),
            permuted: 0,
            disorder: 0,
            latency: 0,
            permutes_tasks: false,
            sequence: 0,
            messages: Vec::new(),
            open: BTreeMap::new(),
            woken: Arc::default(),
            processes: Vec::new(),
            starter: None,
            counts: Counts::default(),
            numbers: 0,
            faults: Vec::new(),
            sites: BTreeSet::new(),
            outages: Vec::new(),
            changes_templates: false,
            waiting: VecDeque::new(),
            pump: None,
            checker: options.checker,
            violations: Vec::new(),
            trace: options.trace.then(Vec::new),
            coverage: Coverage::default(),
            last_write: now,
            delivered: Vec::new(),
            crashed: Vec::new(),
        };
        Self(Arc::new(Mutex::new(state)))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Begins a schedule. The order of tasks is that of the first schedule, because a process keeps it.
    pub(super) fn begin(&self, schedule: &Schedule, rules: Rules) {
        let mut state = self.state();
        let mut random = Random::new(schedule.seed);
        (state.disorder, state.latency) = disturbances(&mut random);
        let permutes_tasks = random.percent(25);
        if state.processes.is_empty() {
            state.permutes_tasks = permutes_tasks;
        }
        let has_kubelet = schedule.scenario.controllers.contains("hollow-kubelet");
        state.nodes = Nodes::new(&mut random, !has_kubelet);
        state.random = random;
        state.permuted = schedule.permuted;
        state.faults.clone_from(&schedule.faults);
        state.counts = Counts::default();
        state.sites.clear();
        for process in &state.processes {
            process.clock.inject(env::Fault::Rate(100));
        }
        state.checker.set_rules(rules);
        let at = state.at();
        state.observe(&Fact::Begun { at });
        state.log(|| format!("begin {schedule}"));
    }

    /// Sets the function that starts processes.
    pub(super) fn set_starter(&self, starter: Starter) {
        self.state().starter = Some(starter);
    }

    /// Delivers one message, or injects a fault. Called when no task can run.
    pub(super) fn step(&self) {
        let (crashed, start) = {
            let mut state = self.state();
            state.poll_woken();
            let start = state.step();
            // A delivery may have made an execution or a stream ready.
            state.poll_woken();
            (
                std::mem::take(&mut state.crashed),
                start.zip(state.starter.clone()),
            )
        };
        // Without the lock: the ends of tasks may send.
        drop(crashed);
        if let Some((slot, starter)) = start {
            starter(self, slot);
        }
    }

    /// Starts the task that a step wakes: a delivery may wake no other one.
    #[expect(
        clippy::disallowed_methods,
        reason = "a task of the network, not of a process"
    )]
    pub(super) fn start_pump(&self) {
        let network = self.clone();
        tokio::spawn(std::future::poll_fn(move |context| {
            let mut state = network.state();
            if state.pump.is_none() {
                state.pump = Some(context.waker().clone());
            }
            Poll::<()>::Pending
        }));
    }

    /// Waits until `steps` more messages were delivered.
    pub(super) async fn after(&self, steps: usize) {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.state();
            let at = state.counts.steps + steps;
            state.waiting.push_back((at, sender));
        }
        // The network lives as long as the run.
        let _ = receiver.await;
    }

    /// Ends all faults: the desired state has to be reached from here.
    pub(super) fn end_faults(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.coverage.end_faults();
        state.outages.clear();
        for server in &state.servers {
            server.lag().release();
        }
        for process in &mut state.processes {
            process.cut_until = None;
            process.clock.inject(env::Fault::Thaw);
        }
        state.nodes.end();
        let at = state.at();
        state.log(|| "quiet".to_owned());
        state.observe(&Fact::Quiet { at });
    }

    /// Reports the metrics of the running processes.
    pub(super) fn report_figures(&self) {
        let mut state = self.state();
        let at = state.at();
        let running = (0..state.processes.len()).filter(|it| state.processes[*it].running);
        for process in running.collect::<Vec<_>>() {
            let families = state.processes[process].registry.gather();
            let metrics = prometheus::TextEncoder::new()
                .encode_to_string(&families)
                .unwrap_or_default();
            state.observe(&Fact::Figures { process, at, metrics });
        }
    }

    /// Ends all processes and messages. The caller drops the processes, whose tasks and metrics refer to the network.
    pub(super) fn end(&self) -> Vec<ProcessState> {
        let mut state = self.state();
        state.messages.clear();
        state.open.clear();
        state.waiting.clear();
        // It refers to the runtime, which refers to the network.
        state.pump = None;
        std::mem::take(&mut state.processes)
    }

    /// Starts a process in a slot, after `delay`.
    pub(super) fn start_later(&self, slot: usize, delay: Duration) {
        self.state().push(Content::Start(slot), Some(delay));
    }
}

impl State {
    /// Returns the time since the start of the run.
    pub(super) fn at(&self) -> Duration {
        now().duration_since(self.begun)
    }

    pub(super) fn next_seed(&mut self) -> u64 {
        self.random.next()
    }

    pub(super) fn server_count(&self) -> usize {
        self.servers.len()
    }

    pub(super) fn observe(&mut self, fact: &Fact) {
        if let Err(violation) = self.checker.observe(fact) {
            self.violations.push(violation);
        }
    }

    pub(super) fn log(&mut self, line: impl FnOnce() -> String) {
        let at = self.at();
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>10.3} {}", at.as_secs_f64(), line()));
        }
    }
}

/// Makes the runtime's clock stop at a time.
#[expect(
    clippy::disallowed_methods,
    reason = "a timer of the network, not of a process"
)]
fn wake_at(at: Instant) {
    tokio::spawn(tokio::time::sleep_until(at));
}

#[expect(clippy::disallowed_methods, reason = "the virtual clock of the run")]
pub(super) fn now() -> Instant {
    Instant::now()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
