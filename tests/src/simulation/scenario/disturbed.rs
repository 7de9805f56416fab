//! Garbage collection with an API that is stale, slow or refuses requests for some time.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::checker::{Isolation, Rules};
use super::super::fault::Class;
use super::super::network::{Covers, Effect};
use super::super::schedule::Schedule;
use super::super::user::{Policy, User};
use super::garbage::{MAPS, at, map, reference};
use super::workloads::{PODS, SETS, template, workload};

const SERVICES: &str = "/api/v1/namespaces/default/services";
/// The number of objects whose DELETE is rejected.
const REJECTED: usize = 6;

fn service(name: &str, owners: &[&Value]) -> Value {
    let references: Vec<Value> = owners.iter().map(|it| reference(it)).collect();
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "ownerReferences": references},
        "spec": {"ports": [{"port": 80}]},
    })
}

/// The watch cache of a kind lags, so that no cache shows the owner. The owner is deleted meanwhile, or its reads fail.
pub(super) async fn virtual_owners(user: &mut User) {
    user.wait(Duration::from_secs(5)).await;
    user.hold(None, "services", Duration::from_secs(50));
    let effects = [
        None,
        Some(Effect::NotServed),
        Some(Effect::Refuse(403)),
        Some(Effect::Refuse(500)),
    ];
    let effect = *user.random().pick(&effects);
    if let Some(effect) = effect {
        let reads = Covers::Requests(&["get"], format!("{SERVICES}/"));
        user.begin_outage(Some(Class::F26), reads, effect, Duration::from_secs(25));
    }
    let owner = user.create(SERVICES, &service("owner", &[]));
    for index in 0..2 {
        user.create(MAPS, &map(&format!("dependent-{index}"), &[&owner]));
    }
    user.wait(Duration::from_secs(15)).await;
    user.pause(20).await;
    if user.random().percent(60) {
        user.delete(&format!("{SERVICES}/owner"), Policy::Background);
        if user.random().percent(70) {
            // The next list does not show the owner either.
            user.compact();
        }
    }
    user.wait(Duration::from_secs(20)).await;
}

/// The watch cache of a kind lags, so that no cache shows the dependents when their owner is deleted.
pub(super) async fn unseen_dependents(user: &mut User) {
    let owner = user.create(SERVICES, &service("owner", &[]));
    user.wait(Duration::from_secs(5)).await;
    user.hold(None, "configmaps", Duration::from_secs(20));
    for index in 0..2 {
        user.create(MAPS, &map(&format!("dependent-{index}"), &[&owner]));
    }
    user.pause(20).await;
    let policy = *user.random().pick(&[Policy::Background, Policy::Orphan]);
    user.delete(&format!("{SERVICES}/owner"), policy);
    user.wait(Duration::from_secs(10)).await;
}

/// A webhook rejects the DELETEs of some dependents. The others are deleted meanwhile.
pub(super) async fn rejected_deletes(user: &mut User) {
    // Reads of the owners must not close the circuit breaker of their dependents.
    let owners = ["first", "second"].map(|name| user.create(SERVICES, &service(name, &[])));
    for index in 0..REJECTED {
        user.create(MAPS, &map(&format!("rejected-{index}"), &[&owners[0]]));
    }
    user.create(MAPS, &map("accepted", &[&owners[1]]));
    user.wait(Duration::from_secs(5)).await;
    let deletes = Covers::Requests(&["delete"], at("rejected-"));
    user.begin_outage(
        Some(Class::F29),
        deletes,
        Effect::Refuse(500),
        Duration::from_secs(100),
    );
    user.delete(&format!("{SERVICES}/first"), Policy::Background);
    user.wait(Duration::from_secs(5)).await;
    user.delete(&format!("{SERVICES}/second"), Policy::Background);
    user.wait(Duration::from_mins(1)).await;
}

pub(super) fn rules_of_rejected_deletes(schedule: &Schedule, rules: &mut Rules) {
    let rejected = (0..REJECTED).map(|index| format!("configmaps default/rejected-{index}"));
    rules.isolation = schedule.faults.is_empty().then(|| Isolation {
        broken: rejected.collect(),
        within: Duration::from_secs(25),
    });
}

/// Reads take several seconds during a deletion.
pub(super) async fn slow_reads(user: &mut User) {
    let owner = user.create(MAPS, &map("owner", &[]));
    for index in 0..3 {
        user.create(MAPS, &map(&format!("dependent-{index}"), &[&owner]));
    }
    user.wait(Duration::from_secs(5)).await;
    let reads = Covers::Requests(&["get", "list"], "/api/v1/".to_owned());
    let delay = Effect::Delay(Duration::from_secs(6));
    user.begin_outage(Some(Class::F14), reads, delay, Duration::from_secs(150));
    let policy = *user
        .random()
        .pick(&[Policy::Background, Policy::Foreground, Policy::Orphan]);
    user.delete(&at("owner"), policy);
    user.wait(Duration::from_mins(2)).await;
}

pub(super) fn rules_of_slow_reads(schedule: &Schedule, rules: &mut Rules) {
    rules.isolation = schedule.faults.is_empty().then(|| Isolation {
        broken: std::collections::BTreeSet::new(),
        within: Duration::from_secs(80),
    });
}

/// An owner was deleted before the start of the processes, and the API does not answer everything at once.
pub(super) fn prepare_start(user: &mut User) {
    let owner = user.create(MAPS, &map("owner", &[]));
    user.create(MAPS, &map("dependent", &[&owner]));
    user.create(SERVICES, &service("dependent", &[&owner]));
    let mut set = workload("ReplicaSet", "dependent", 0);
    set["metadata"]["ownerReferences"] = json!([reference(&owner)]);
    user.create(SETS, &set);
    let policy = *user.random().pick(&[Policy::Foreground, Policy::Orphan]);
    user.delete(&at("owner"), policy);
    let services = Covers::Requests(&["list", "watch"], "/api/v1/services".to_owned());
    let (covers, code) = match user.random().below(3) {
        0 => (Covers::Discovery("/apis"), 503),
        1 => (services, 500),
        _ => return,
    };
    user.begin_outage(
        Some(Class::F26),
        covers,
        Effect::Refuse(code),
        Duration::from_secs(20),
    );
}

/// No controller of `ReplicaSets` runs.
pub(super) fn rules_of_start(_: &Schedule, rules: &mut Rules) {
    rules
        .unreachable
        .insert(("replicasets.apps".to_owned(), "default/dependent".to_owned()));
}

pub(super) async fn start(user: &mut User) {
    user.wait(Duration::from_secs(30)).await;
}

/// The leader crashes during a foreground deletion. The watch cache of the other API server lags.
pub(super) async fn failover(user: &mut User) {
    let owner = user.create(MAPS, &map("owner", &[]));
    user.wait(Duration::from_secs(20)).await;
    let server = user.random().below(2);
    user.hold(Some(server), "pods", Duration::from_mins(1));
    let mut pod = template("x", "one");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["ownerReferences"] = json!([reference(&owner)]);
    for index in 0..2 {
        pod["metadata"]["name"] = json!(format!("dependent-{index}"));
        user.create(PODS, &pod);
    }
    user.pause(20).await;
    user.delete(&at("owner"), Policy::Foreground);
    if user.random().percent(80) {
        user.crash_leader();
    }
    user.wait(Duration::from_secs(25)).await;
}

/// The storage is restored from a backup, in which deleted objects exist.
pub(super) async fn restore(user: &mut User, effect: Effect) {
    let owner = user.create(SERVICES, &service("owner", &[]));
    for index in 0..2 {
        user.create(MAPS, &map(&format!("dependent-{index}"), &[&owner]));
    }
    user.wait(Duration::from_secs(5)).await;
    let backup = user.backup();
    user.delete(&format!("{SERVICES}/owner"), Policy::Background);
    user.pause(60).await;
    user.wait(Duration::from_secs(5)).await;
    user.restore(&backup, effect).await;
    user.wait(Duration::from_secs(30)).await;
    restore_orphaning(user, effect).await;
    restore_changed(user, effect).await;
}

/// In the backup, an owner orphans its dependents; since then, they have been orphaned.
async fn restore_orphaning(user: &mut User, effect: Effect) {
    let owner = user.create(SERVICES, &service("orphaning", &[]));
    for index in 0..2 {
        user.create(MAPS, &map(&format!("orphan-{index}"), &[&owner]));
    }
    user.wait(Duration::from_secs(5)).await;
    if user.random().percent(70) {
        let finalizer = Covers::Requests(&["patch"], format!("{SERVICES}/orphaning"));
        user.begin_outage(
            Some(Class::F12),
            finalizer,
            Effect::Refuse(403),
            Duration::from_secs(30),
        );
    }
    user.delete(&format!("{SERVICES}/orphaning"), Policy::Orphan);
    user.pause(10).await;
    let backup = user.backup();
    user.pause(40).await;
    user.restore(&backup, effect).await;
    user.wait(Duration::from_secs(30)).await;
}

/// Objects have changed since the backup, so that the restored ones have older versions.
async fn restore_changed(user: &mut User, effect: Effect) {
    let owner = user.create(SERVICES, &service("changed", &[]));
    for index in 0..2 {
        user.create(MAPS, &map(&format!("changed-{index}"), &[&owner]));
    }
    let backup = user.backup();
    user.wait(Duration::from_secs(5)).await;
    for path in [format!("{SERVICES}/changed"), at("changed-0")] {
        user.patch(&path, &json!({"metadata": {"labels": {"changed": "true"}}}));
    }
    let policies = [Policy::Background, Policy::Foreground, Policy::Orphan];
    let policy = *user.random().pick(&policies);
    if user.random().percent(50) {
        user.delete(&format!("{SERVICES}/changed"), policy);
    }
    user.pause(40).await;
    user.restore(&backup, effect).await;
    user.pause(40).await;
    user.delete(&format!("{SERVICES}/changed"), policy);
    user.wait(Duration::from_secs(30)).await;
}
