//! What happens to the lead, whichever controllers there are.

use std::time::Duration;

use coxswain_tests::{Cluster, Test, test, time};
use futures_util::future::join_all;
use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::Value;

use crate::QUIET;
use crate::pair::{Pair, leads, one_at_a_time};

const LEASE: Duration = Duration::from_secs(9);
const SHORT: [&str; 3] = [
    "--leader-elect-lease-duration=9s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=1s",
];
/// For who is to hold it however busy the machine is.
const LONG: [&str; 2] = [
    "--leader-elect-lease-duration=20s",
    "--leader-elect-renew-deadline=15s",
];
/// Number of leaders that are killed, all at the same time.
const PAIRS: usize = 3;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        test!(killed_leader_is_followed_when_its_lease_has_expired),
        test!(a_lease_that_somebody_deletes_ends_nobody),
    ]
}

fn time_of(spec: &Value, field: &str) -> Timestamp {
    let text = spec[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {spec}"));
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// How soon the standby follows is asserted on the paused clock, in `manager/tests/suite/election`.
async fn killed_leader_is_followed_when_its_lease_has_expired(c: Cluster) {
    let _quiet = QUIET.read().await;
    let times = join_all((0..PAIRS).map(|_| kill_leader(&c))).await;
    time::print_distribution("SIGKILL until the standby leads", &times);
}

/// Kills a leader, and returns the time until the standby led. It must not lead before the lease has expired.
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
    // Both were written on the same machine.
    let free = time_of(&next, "acquireTime").duration_since(time_of(&last, "renewTime"));
    assert!(
        free >= LEASE.try_into().expect("short"),
        "taken {free:#} after it was renewed"
    );
    took
}

async fn a_lease_that_somebody_deletes_ends_nobody(c: Cluster) {
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
        let made_again = time::eventually(time::ANSWER, async || {
            uid().await.filter(|now| Some(now) != before.as_ref()).map(drop)
        });
        assert!(made_again.await.is_some(), "nobody makes a new one");
        let one_leads = time::eventually(Duration::from_mins(1), async || {
            (leader.leads(&ns).await || standby.leads(&ns).await).then_some(())
        });
        assert!(
            one_leads.await.is_some(),
            "nobody leads:\n{}\n{}",
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
