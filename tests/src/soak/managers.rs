//! The processes of the product: each one is started with a proxy of its own, and started again after it was killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use steersman_harness::Program;
use steersman_harness::endpoint::Endpoint;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::injector::{Injector, Target};
use super::proxy::{Proxy, Upstream};
use super::recorder::Recorder;

/// The longest time until a process is started again.
const RESTART_MAX: Duration = Duration::from_secs(3);
const CONTROLLERS: &str = "replicaset-controller,replicationcontroller-controller,deployment-controller,\
    appservice-controller,appreplicaset-controller,garbage-collector-controller";
/// Short, so that another process leads soon.
const LEASE_DURATION: Duration = Duration::from_secs(9);
pub(super) const RENEW_DEADLINE: Duration = Duration::from_secs(5);
pub(super) const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// The number of log lines that a report shows.
const LOG_LINES: usize = 40;

/// The first argument of a process: the executable of the soak runs the product too.
pub const MANAGER: &str = "manager";

/// A handle of the processes.
#[derive(Clone)]
pub(super) struct Managers(Arc<Shared>);

struct Shared {
    running: Mutex<BTreeMap<usize, Handle>>,
    crashes: Mutex<usize>,
    recorder: Recorder,
    injector: Injector,
    upstream: Upstream,
    endpoint: Endpoint,
    binary: PathBuf,
    dir: PathBuf,
}

/// Sends questions to the task that owns a process.
#[derive(Clone)]
struct Handle(tokio::sync::mpsc::UnboundedSender<oneshot::Sender<Figures>>);

/// The metrics and the log of a process.
pub(super) struct Figures {
    pub(super) process: usize,
    /// None if the process does not answer.
    pub(super) metrics: Option<String>,
    pub(super) log: String,
}

/// The parts that the processes share.
pub(super) struct Parts<'a> {
    pub(super) recorder: Recorder,
    pub(super) injector: Injector,
    pub(super) upstream: Upstream,
    pub(super) endpoint: Endpoint,
    pub(super) binary: PathBuf,
    pub(super) dir: &'a Path,
}

impl Managers {
    pub(super) fn new(parts: Parts<'_>) -> Self {
        Self(Arc::new(Shared {
            running: Mutex::default(),
            crashes: Mutex::default(),
            recorder: parts.recorder,
            injector: parts.injector,
            upstream: parts.upstream,
            endpoint: parts.endpoint,
            binary: parts.binary,
            dir: parts.dir.to_owned(),
        }))
    }

    /// Runs `count` processes. Dropping the future kills them.
    pub(super) async fn run(&self, count: usize) {
        join_all((0..count).map(|_| self.0.keep())).await;
    }

    /// Returns the number of processes that were killed.
    pub(super) fn crashes(&self) -> usize {
        *lock(&self.0.crashes)
    }

    /// Returns the figures of all running processes.
    pub(super) async fn figures(&self) -> Vec<Figures> {
        let running: Vec<Handle> = lock(&self.0.running).values().cloned().collect();
        let mut all = Vec::new();
        for Handle(handle) in running {
            let (sender, receiver) = oneshot::channel();
            if handle.send(sender).is_ok()
                && let Ok(figures) = receiver.await
            {
                all.push(figures);
            }
        }
        all
    }
}

impl Shared {
    /// Starts a process again and again.
    async fn keep(&self) {
        loop {
            Box::pin(self.run_one()).await;
            steersman_harness::time::pause(self.injector.delay(RESTART_MAX)).await;
        }
    }

    /// Runs one process until it is killed.
    async fn run_one(&self) {
        let process = self.recorder.started();
        let kubeconfig = self.dir.join(format!("process-{process}.kubeconfig"));
        let proxy = Proxy::start(process, &self.endpoint, &self.upstream, &kubeconfig).await;
        let proxy = proxy.expect("a free port and a writable directory");
        let (kill, ended) = (CancellationToken::new(), CancellationToken::new());
        let target = Target {
            faults: proxy.faults.clone(),
            kill: kill.clone(),
            ended: ended.clone(),
        };
        self.injector.add(process, target);
        let flags = [
            MANAGER.to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--controllers={CONTROLLERS}"),
            "--assume-no-kube-controller-manager".to_owned(),
            format!("--leader-elect-lease-duration={}s", LEASE_DURATION.as_secs()),
            format!("--leader-elect-renew-deadline={}s", RENEW_DEADLINE.as_secs()),
            format!("--leader-elect-retry-period={}s", RETRY_PERIOD.as_secs()),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let binary = self.binary.display().to_string();
        let mut program = Program::start(&binary, &flags).await;
        let (sender, mut questions) = tokio::sync::mpsc::unbounded_channel();
        lock(&self.running).insert(process, Handle(sender));
        loop {
            tokio::select! {
                biased;
                () = kill.cancelled() => {
                    program.kill().await;
                    *lock(&self.crashes) += 1;
                    break;
                }
                status = program.ended() => {
                    let message = format!("process {process} ended with {status}:\n{}", tail(&program.log()));
                    self.recorder.violation("S10", message);
                    break;
                }
                Some(answer) = questions.recv() => {
                    let _ = answer.send(figures(process, &program).await);
                }
            }
        }
        lock(&self.running).remove(&process);
        self.injector.remove(process);
        self.recorder.ended(process);
        ended.cancel();
        drop(proxy);
    }
}

async fn figures(process: usize, program: &Program) -> Figures {
    let reply = program
        .endpoints()
        .try_request(http::Method::GET, "/metrics", &[], ())
        .await;
    Figures {
        process,
        metrics: reply.ok().filter(|it| it.status == 200).map(|it| it.text()),
        log: program.log(),
    }
}

/// Returns the last lines of a log.
pub(super) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
