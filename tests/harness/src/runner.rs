//! Runs the registered tests in parallel on one cluster, and reports those that it skips.
//!
//! A test that does not apply to the cluster is reported as ignored, by name, with the reason as its kind
//! (`test [needs 1.27] watch::initial_events ... ignored`), and counted in the last line.

use std::{
    cell::RefCell,
    panic::{self, AssertUnwindSafe},
    pin::Pin,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::{Handle, Runtime};

use crate::{
    audit::AuditLog,
    cluster::{self, Cluster},
    kubectl, time,
};

/// The limit of one test, including the time that it waits for tests that must not run at the same time.
const LIMIT: Duration = Duration::from_mins(15);

/// Default number of concurrent tests. It exceeds the number of cores, because tests mostly wait.
const AT_ONCE: usize = 8;

/// The oldest supported server.
const OLDEST: (u32, u32) = (1, 20);

type Body = Arc<dyn Fn(Cluster) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync>;

/// A requirement of a test, apart from the server version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A controller that deletes the content of namespaces.
    Kcm,
    /// The sandbox: the test is about a guarantee of the sandbox.
    Sandbox,
    /// The real server: the sandbox does not guarantee the behavior.
    Real,
    /// `kubectl` on this machine.
    Kubectl,
    /// The controllers of this repository: kube-controller-manager does not guarantee the behavior.
    Ours,
}

/// A test, registered by the macro [`test!`](crate::test).
#[derive(Clone)]
pub struct Test {
    name: String,
    body: Body,
    since: (u32, u32),
    needs: Vec<Need>,
}

/// Registers an `async fn(Cluster)` under its module's and its own name.
///
/// `test!(list_pages)`, `test!(sends_initial_events).since(1, 27)`, `test!(deletes_contents).needs(Need::Kcm)`.
#[macro_export]
macro_rules! test {
    ($function:ident) => {
        $crate::Test::new(module_path!(), stringify!($function), |cluster| {
            Box::pin($function(cluster))
        })
    };
}

impl Test {
    /// See [`test!`](crate::test). The crate's own name, the first part of `module`, is left out.
    pub fn new(
        module: &str,
        function: &str,
        body: impl Fn(Cluster) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync + 'static,
    ) -> Self {
        let surface = module.split_once("::").map_or(module, |(_, surface)| surface);
        Self::from_future(format!("{surface}::{function}"), body)
    }

    /// A test under its whole name.
    pub fn from_future(
        name: String,
        body: impl Fn(Cluster) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            body: Arc::new(body),
            since: OLDEST,
            needs: Vec::new(),
        }
    }

    /// Sets the minimum server version.
    pub fn since(mut self, major: u32, minor: u32) -> Self {
        self.since = (major, minor);
        self
    }

    /// Adds a requirement.
    pub fn needs(mut self, need: Need) -> Self {
        self.needs.push(need);
        self
    }

    /// The reason why the test does not apply to the cluster.
    fn inapplicable(&self, cluster: &Cluster) -> Option<String> {
        if cluster.version() < self.since {
            return Some(format!("needs {}.{}", self.since.0, self.since.1));
        }
        self.needs.iter().find_map(|need| match need {
            Need::Kcm if !cluster.has_kcm() => Some("needs kube-controller-manager".to_owned()),
            Need::Sandbox if !cluster.is_sandbox() => Some("sandbox only".to_owned()),
            Need::Real if cluster.is_sandbox() => Some("real server only".to_owned()),
            Need::Ours if cluster.runs_kcm_instead_of_ours() => {
                Some("not kube-controller-manager".to_owned())
            }
            Need::Kubectl if kubectl::find().is_none() => Some("needs kubectl".to_owned()),
            _ => None,
        })
    }

    fn into_trial(self, cluster: Cluster, runtime: Handle) -> Trial {
        match self.inapplicable(&cluster) {
            // `--include-ignored` must not run the test.
            Some(reason) => Trial::ignorable_test(self.name, || Ok(Completion::ignored())).with_kind(reason),
            None => Trial::test(self.name, move || run_one(&self.body, cluster, &runtime)),
        }
    }
}

/// The `main` of a test binary: starts the cluster, runs what the arguments select, stops the cluster.
pub fn main(tests: Vec<Test>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    if arguments.list {
        let listed = tests
            .into_iter()
            .map(|test| Trial::test(test.name, || Ok(())))
            .collect();
        return libtest_mimic::run(&arguments, listed).exit_code();
    }
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("no runtime: {error}")),
    };
    let running = match runtime.block_on(cluster::start()) {
        Ok(running) => running,
        Err(error) => return fail(&format!("no cluster to test: {error}")),
    };
    keep_panic_reports();
    let tier = running.cluster.tier();
    let trial = |test: Test| test.into_trial(running.cluster.clone(), runtime.handle().clone());
    let outcome = libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect());
    let forbidden = running
        .cluster
        .audit()
        .map(AuditLog::forbidden)
        .unwrap_or_default();
    drop(running);
    runtime.shutdown_timeout(Duration::from_secs(5));
    println!(
        "tier: {tier}; {} passed, {} failed, {} skipped",
        outcome.num_passed, outcome.num_failed, outcome.num_ignored
    );
    if !forbidden.is_empty() {
        return fail(&format!(
            "requests of the controllers were forbidden:\n{forbidden}"
        ));
    }
    outcome.exit_code()
}

/// Prints an error and returns the exit code of a failed run.
pub fn fail(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(101)
}

thread_local! {
    /// While a test runs on this thread: the message and the place of its panic.
    static REPORT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A test runs on the thread of its trial, so that its panic can be shown with its name instead of between others' output.
fn run_one(body: &Body, cluster: Cluster, runtime: &Handle) -> Result<(), Failed> {
    REPORT.set(Some(String::new()));
    let run = AssertUnwindSafe(|| runtime.block_on(time::within(LIMIT, body(cluster))));
    let outcome = panic::catch_unwind(run);
    let report = REPORT.take().unwrap_or_default();
    match outcome {
        Ok(Some(())) => Ok(()),
        Ok(None) => Err(format!("did not end within {LIMIT:?}").into()),
        Err(_) => Err(report.into()),
    }
}

fn keep_panic_reports() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let kept = REPORT.with_borrow_mut(|slot| slot.as_mut().map(|report| *report = info.to_string()));
        if kept.is_none() {
            default(info);
        }
    }));
}
