//! Two equal processes: a leader and a standby.

use std::time::Duration;

use serde_json::Value;
use steersman_harness::{Cluster, Program, fixtures, time};

use crate::PROGRAM;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

pub struct Pair {
    pub leader: Program,
    pub standby: Program,
    pub lease: Lease,
}

/// The Lease of both processes. Its name is that of the test's namespace.
pub struct Lease {
    cluster: Cluster,
    pub name: String,
}

impl Pair {
    /// Starts both, and waits until the first leads and the second is a ready standby.
    pub async fn start(c: &Cluster, ns: &str, flags: &[&str]) -> Self {
        let lease = Lease {
            cluster: c.clone(),
            name: ns.to_owned(),
        };
        let leader = start(c, ns, flags).await;
        leads(&leader, &lease).await;
        let standby = start(c, ns, flags).await;
        let is_standby = time::eventually(time::ANSWER, async || {
            let ready = standby.endpoints().get("/readyz").await.status == 200;
            (ready && standby.log().contains("\"Lease holder changed\"")).then_some(())
        });
        assert!(is_standby.await.is_some(), "not a standby:\n{}", standby.log());
        Self {
            leader,
            standby,
            lease,
        }
    }
}

/// Starts a process on this cluster, with its Lease in this namespace.
pub async fn start(c: &Cluster, ns: &str, flags: &[&str]) -> Program {
    let own = [
        format!("--kubeconfig={}", c.kubeconfig().display()),
        format!("--leader-elect-resource-name={ns}"),
        format!("--leader-elect-resource-namespace={ns}"),
    ];
    let all: Vec<&str> = own
        .iter()
        .map(String::as_str)
        .chain(flags.iter().copied())
        .collect();
    Program::start(PROGRAM, &all).await
}

/// Waits until the process leads.
pub async fn leads(program: &Program, lease: &Lease) {
    let leads = time::within(time::ANSWER, async {
        while !program.leads(&lease.name).await {
            time::pause(POLL_INTERVAL).await;
        }
    });
    assert!(leads.await.is_some(), "not the leader:\n{}", program.log());
}

/// Runs `test`, and fails if both processes report to be the leader.
pub async fn one_at_a_time<T>(a: &Program, b: &Program, lease: &Lease, test: impl Future<Output = T>) -> T {
    let both = async {
        loop {
            // The first is read again: it may have stepped down before the second was read.
            let name = &lease.name;
            if a.leads(name).await && b.leads(name).await && a.leads(name).await {
                return;
            }
            time::pause(POLL_INTERVAL).await;
        }
    };
    tokio::select! {
        biased;
        () = both => panic!("both lead:\n{}\n{}", a.log(), b.log()),
        done = test => done,
    }
}

impl Lease {
    pub fn path(&self) -> String {
        format!("{}/{}", fixtures::leases(&self.name), self.name)
    }

    pub async fn spec(&self) -> Value {
        self.cluster.api().get(&self.path()).await.expect(200)["spec"].clone()
    }
}
