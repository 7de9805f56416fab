//! Two processes that differ in nothing but their port.

use std::time::Duration;

use coxswain_tests::{Cluster, Program, fixtures, time};
use serde_json::Value;

use crate::PROGRAM;

/// How often two processes are compared, and a handover is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// One that leads, and one that waits.
pub struct Pair {
    pub leader: Program,
    pub standby: Program,
    pub lease: Lease,
}

/// The Lease that they compete for: in the namespace of the test, and by its name.
pub struct Lease {
    cluster: Cluster,
    pub name: String,
}

impl Pair {
    /// Starts both, and waits until the first one leads and the second one is ready to.
    pub async fn start(c: &Cluster, ns: &str, flags: &[&str]) -> Self {
        let lease = Lease {
            cluster: c.clone(),
            name: ns.to_owned(),
        };
        let leader = start(c, ns, flags).await;
        leads(&leader, &lease).await;
        let standby = start(c, ns, flags).await;
        let waits = time::eventually(time::ANSWER, async || {
            let ready = standby.endpoints().get("/readyz").await.status == 200;
            (ready && standby.log().contains("\"The lease has another holder\"")).then_some(())
        });
        assert!(waits.await.is_some(), "it is no standby:\n{}", standby.log());
        Self {
            leader,
            standby,
            lease,
        }
    }
}

/// Starts one on this cluster, with its Lease in this namespace.
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

/// Waits until it leads.
pub async fn leads(program: &Program, lease: &Lease) {
    let leads = time::within(time::ANSWER, async {
        while !program.leads(&lease.name).await {
            time::pause(LOOK).await;
        }
    });
    assert!(leads.await.is_some(), "it does not lead:\n{}", program.log());
}

/// Runs `test` while never both say that they lead.
pub async fn one_at_a_time<T>(a: &Program, b: &Program, lease: &Lease, test: impl Future<Output = T>) -> T {
    let both = async {
        loop {
            // The first is asked again: it may have stopped before the second was asked.
            let name = &lease.name;
            if a.leads(name).await && b.leads(name).await && a.leads(name).await {
                return;
            }
            time::pause(LOOK).await;
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

    /// Its spec.
    pub async fn spec(&self) -> Value {
        self.cluster.api().get(&self.path()).await.expect(200)["spec"].clone()
    }
}
