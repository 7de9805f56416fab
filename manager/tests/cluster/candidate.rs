//! Candidates for a Lease in separate processes, and the Lease as the API server shows it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use serde_json::Value;
use steersman_harness::{Cluster, fixtures, time};
use steersman_manager::client::{Fence, Takeover, Term};
use steersman_manager::election::{Config, Elector, Leadership, Release, ReleaseError};
use steersman_manager::manager::identity;
use steersman_manager::sync::watch;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::process::{Process, soon, until};

/// The name of the Lease of every test; namespaces differ.
pub const NAME: &str = "steersman";
/// Short enough to expire within a test.
pub const LEASE: Duration = Duration::from_secs(13);
/// Long enough for a machine that stands still for seconds.
pub const RENEW: Duration = Duration::from_secs(9);
pub const RETRY: Duration = Duration::from_millis(500);

/// A running candidate.
pub struct Candidate {
    pub process: Process,
    pub fence: Fence,
    pub config: Config,
    leadership: watch::Receiver<Leadership>,
    finish: oneshot::Sender<Option<Release>>,
    run: JoinHandle<Result<(), ReleaseError>>,
}

impl Candidate {
    /// Starts a candidate with short times.
    pub async fn short(c: &Cluster, ns: &str) -> Self {
        Self::start(c, ns, (LEASE, RENEW, RETRY)).await
    }

    /// Starts a candidate that renews often and does not lose the Lease on a busy machine.
    pub async fn steady(c: &Cluster, ns: &str) -> Self {
        Self::start(c, ns, (Duration::from_secs(30), Duration::from_secs(25), RETRY)).await
    }

    /// Starts a candidate with these times for lease, renewal and retry.
    pub async fn start(c: &Cluster, ns: &str, (lease, renew, retry): (Duration, Duration, Duration)) -> Self {
        let process = Process::start(c).await;
        let config = Config {
            lease_duration: lease,
            renew_deadline: renew,
            retry_period: retry,
            ..Config::new(ns, NAME, identity("host", &process.env.rng))
        };
        Self::with(process, config)
    }

    /// Starts a candidate in `process`.
    pub fn with(process: Process, config: Config) -> Self {
        let fence = Fence::new(process.env.clock.clone());
        let client = process.transport.unfenced("leader-election", None);
        let elector = Elector::new(
            &process.env,
            client,
            fence.clone(),
            config.clone(),
            &process.registry,
        )
        .expect("an elector");
        let leadership = elector.leadership();
        let (finish, finished) = oneshot::channel();
        let finished = async move { finished.await.ok().flatten() };
        let run = process
            .env
            .tasks
            .spawn(elector.run(CancellationToken::new(), finished));
        Self {
            process,
            fence,
            config,
            leadership,
            finish,
            run,
        }
    }

    /// Waits until it leads.
    pub async fn leads(&mut self) -> (Term, Takeover) {
        let leading = self
            .leadership
            .wait_for(|now| matches!(now, Leadership::Leading { .. }));
        match &*soon("a candidate is elected", leading)
            .await
            .expect("a running elector")
        {
            Leadership::Leading { term, takeover } => (*term, takeover.clone()),
            Leadership::Standby => unreachable!("waited for Leading"),
        }
    }

    /// Waits until it does not lead.
    pub async fn steps_down(&mut self) {
        let standby = self.leadership.wait_for(|now| *now == Leadership::Standby);
        soon("a candidate steps down", standby)
            .await
            .expect("a running elector");
        assert_eq!(self.fence.term(), None, "the fence is open");
    }

    pub fn is_leading(&self) -> bool {
        *self.leadership.borrow() != Leadership::Standby
    }

    /// Waits until it watches the Lease. The first event may still be in flight.
    pub async fn watching(&self) {
        until("a candidate watches the lease", || {
            self.process.requests("WATCH") > 0
        })
        .await;
    }

    /// Releases the Lease. The process keeps running.
    pub async fn release(self, term: Term, versions: BTreeMap<String, String>) -> Process {
        let release = Release { term, versions };
        self.finish.send(Some(release)).expect("a running elector");
        let ended = soon("the lease is released", self.run).await;
        ended.expect("no panic").expect("a release");
        self.process
    }
}

/// Runs `test` and asserts that at most one of these fences is open at a time.
pub async fn one_at_a_time<T>(fences: &[&Fence], test: impl Future<Output = T>) -> T {
    let fences: Vec<Fence> = fences.iter().map(|fence| (*fence).clone()).collect();
    let overlap = async {
        loop {
            if let Some(two) = overlap(&fences) {
                return two;
            }
            time::pause(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        biased;
        (a, b) = overlap => panic!("candidates {a} and {b} lead concurrently"),
        done = test => done,
    }
}

/// Returns two fences that are open at the same time.
fn overlap(fences: &[Fence]) -> Option<(usize, usize)> {
    let open = |fence: &Fence| fence.term();
    for (a, one) in fences.iter().enumerate() {
        let Some(term) = open(one) else { continue };
        let other = (a + 1..fences.len()).find(|b| open(&fences[*b]).is_some());
        // Unless the first was closed before the second was checked.
        if let Some(b) = other.filter(|_| one.allows(term)) {
            return Some((a, b));
        }
    }
    None
}

pub fn path(ns: &str) -> String {
    format!("{}/{NAME}", fixtures::leases(ns))
}

pub async fn read(c: &Cluster, ns: &str) -> Value {
    c.api().get(&path(ns)).await.expect(200)
}

/// Reads the spec with the types that Go clients use.
pub async fn spec(c: &Cluster, ns: &str) -> LeaseSpec {
    spec_of(read(c, ns).await)
}

pub fn spec_of(lease: Value) -> LeaseSpec {
    let lease: Lease = serde_json::from_value(lease).expect("a lease");
    lease.spec.expect("a spec")
}

/// Waits until the Lease is renewed.
pub async fn is_renewed(c: &Cluster, ns: &str) {
    let before = spec(c, ns).await.renew_time;
    let renewed = time::eventually(time::ANSWER, async || {
        (spec(c, ns).await.renew_time > before).then_some(())
    });
    assert!(renewed.await.is_some(), "the lease is not renewed");
}
