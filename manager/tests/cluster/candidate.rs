//! Candidates for a Lease, each in a process of its own, and the Lease as the server shows it.

use std::collections::BTreeMap;
use std::time::Duration;

use coxswain_manager::client::{Fence, Term};
use coxswain_manager::election::{Config, Elector, Leadership, Release, ReleaseError, Takeover, identity};
use coxswain_tests::{Cluster, fixtures, time};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::process::{Process, soon, until};

/// The name of the Lease of every test; its namespace differs.
pub const NAME: &str = "coxswain";
/// Short times, so that a Lease can expire within a test, but not because a busy machine let its holder wait.
pub const LEASE: Duration = Duration::from_secs(10);
pub const RENEW: Duration = Duration::from_secs(6);
pub const RETRY: Duration = Duration::from_millis(500);

/// A candidate that takes part.
pub struct Candidate {
    pub process: Process,
    pub fence: Fence,
    pub config: Config,
    leadership: watch::Receiver<Leadership>,
    finish: oneshot::Sender<Option<Release>>,
    run: JoinHandle<Result<(), ReleaseError>>,
}

impl Candidate {
    /// One with short times.
    pub async fn short(c: &Cluster, ns: &str) -> Self {
        Self::start(c, ns, (LEASE, RENEW, RETRY)).await
    }

    /// One that does not lose the Lease to a busy machine, but renews often.
    pub async fn steady(c: &Cluster, ns: &str) -> Self {
        Self::start(c, ns, (Duration::from_secs(30), Duration::from_secs(25), RETRY)).await
    }

    /// One with the times of lease, renewal and retry.
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

    /// One in `process`.
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
        match &*soon("a candidate leads", leading)
            .await
            .expect("the elector runs")
        {
            Leadership::Leading { term, takeover } => (*term, takeover.clone()),
            Leadership::Standby => unreachable!("waited for the other"),
        }
    }

    /// Waits until it does not lead.
    pub async fn stands_down(&mut self) {
        let standby = self.leadership.wait_for(|now| *now == Leadership::Standby);
        soon("a candidate stands down", standby)
            .await
            .expect("the elector runs");
        assert_eq!(self.fence.term(), None, "who does not lead does not write");
    }

    pub fn is_leading(&self) -> bool {
        *self.leadership.borrow() != Leadership::Standby
    }

    /// Waits until it watches the Lease. What there is to see may still be under way.
    pub async fn watches(&self) {
        until("a candidate watches the lease", || {
            self.process.requests("WATCH") > 0
        })
        .await;
    }

    /// Ends it in order. The process lives on.
    pub async fn release(self, term: Term, versions: BTreeMap<String, String>) -> Process {
        let release = Release { term, versions };
        self.finish.send(Some(release)).expect("the elector runs");
        let ended = soon("the lease is given back", self.run).await;
        ended.expect("no panic").expect("the lease is given back");
        self.process
    }
}

/// Runs `test` while nobody else has an open fence than one of these at a time.
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
        (a, b) = overlap => panic!("candidates {a} and {b} lead at the same time"),
        done = test => done,
    }
}

/// Two that are open at the same moment.
fn overlap(fences: &[Fence]) -> Option<(usize, usize)> {
    let open = |fence: &Fence| fence.term();
    for (a, one) in fences.iter().enumerate() {
        let Some(term) = open(one) else { continue };
        let other = (a + 1..fences.len()).find(|b| open(&fences[*b]).is_some());
        // Unless the first was shut before the second was looked at.
        if let Some(b) = other.filter(|_| one.allows(term)) {
            return Some((a, b));
        }
    }
    None
}

/// The path of the Lease.
pub fn path(ns: &str) -> String {
    format!("{}/{NAME}", fixtures::leases(ns))
}

/// The Lease.
pub async fn read(c: &Cluster, ns: &str) -> Value {
    c.api().get(&path(ns)).await.expect(200)
}

/// What a client in Go would read of it.
pub async fn spec(c: &Cluster, ns: &str) -> LeaseSpec {
    let lease: Lease = serde_json::from_value(read(c, ns).await).expect("a lease");
    lease.spec.expect("a spec")
}

/// Waits until it is renewed.
pub async fn is_renewed(c: &Cluster, ns: &str) {
    let before = spec(c, ns).await.renew_time;
    let renewed = time::eventually(time::ANSWER, async || {
        (spec(c, ns).await.renew_time > before).then_some(())
    });
    assert!(renewed.await.is_some(), "the lease is not renewed");
}
