//! Leader election between processes.

use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::Value;
use steersman_harness::{Cluster, Test, test, time};

use crate::QUIET;
use crate::pair::{Pair, leads, one_at_a_time};

const LEASE: Duration = Duration::from_secs(9);
const SHORT: [&str; 3] = [
    "--leader-elect-lease-duration=9s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=1s",
];
/// Long enough for a busy machine to keep renewing.
const LONG: [&str; 2] = [
    "--leader-elect-lease-duration=20s",
    "--leader-elect-renew-deadline=15s",
];
/// Number of leaders killed at the same time.
const PAIRS: usize = 3;

pub fn tests() -> Vec<Test> {
    vec![
        test!(standby_takes_over_when_lease_of_killed_leader_expires),
        test!(deleted_lease_is_recreated_and_stops_no_process),
    ]
}

fn time_of(spec: &Value, field: &str) -> Timestamp {
    let text = spec[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {spec}"));
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The delay is asserted with a paused clock in `manager/tests/suite/election`.
async fn standby_takes_over_when_lease_of_killed_leader_expires(c: Cluster) {
    let _quiet = QUIET.read().await;
    let times = join_all((0..PAIRS).map(|_| kill_leader(&c))).await;
    time::print_distribution("SIGKILL until the standby leads", &times);
}

/// Kills a leader and returns the time until the standby leads, which must not be before the lease has expired.
async fn kill_leader(c: &Cluster) -> Duration {
    let ns = c.namespace().await;
    let Pair {
        leader,
        standby,
        lease,
    } = Pair::start(c, &ns, &SHORT).await;
    let killed = leader.signal(Signal::KILL);
    assert_eq!(leader.ends_within(time::ANSWER).await.code, None);
    let last = lease.spec().await;
    leads(&standby, &lease).await;
    let took = killed.elapsed();

    let next = lease.spec().await;
    assert_ne!(next["holderIdentity"], last["holderIdentity"]);
    let transitions = |spec: &Value| spec["leaseTransitions"].as_i64();
    assert_eq!(transitions(&next), transitions(&last).map(|count| count + 1));
    // Both timestamps are of one machine.
    let elapsed = time_of(&next, "acquireTime").duration_since(time_of(&last, "renewTime"));
    assert!(
        elapsed >= LEASE.try_into().expect("short"),
        "acquired {elapsed:#} after the last renewal"
    );
    took
}

async fn deleted_lease_is_recreated_and_stops_no_process(c: Cluster) {
    let _quiet = QUIET.read().await;
    let ns = c.namespace().await;
    let Pair {
        mut leader,
        mut standby,
        lease,
    } = Pair::start(&c, &ns, &LONG).await;
    let uid = async || {
        let reply = c.api().get(&lease.path()).await;
        (reply.status == 200).then(|| reply.json()["metadata"]["uid"].clone())
    };
    let before = uid().await;
    one_at_a_time(&leader, &standby, &lease, async {
        c.api().delete(&lease.path(), ()).await.expect(200);
        let recreated = time::eventually(time::ANSWER, async || {
            uid().await.filter(|now| Some(now) != before.as_ref()).map(drop)
        });
        assert!(recreated.await.is_some(), "the Lease is not recreated");
        let one_leads = time::eventually(Duration::from_mins(1), async || {
            (leader.leads(&ns).await || standby.leads(&ns).await).then_some(())
        });
        assert!(
            one_leads.await.is_some(),
            "no leader:\n{}\n{}",
            leader.log(),
            standby.log()
        );
    })
    .await;
    assert!(
        leader.runs() && standby.runs(),
        "{}\n{}",
        leader.log(),
        standby.log()
    );
    for program in [leader, standby] {
        program.signal(Signal::TERM);
        let ended = program.ends_within(time::ANSWER).await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
}
