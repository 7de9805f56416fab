//! Processes that yield to kube-controller-manager, or hand over to each other.

use std::time::Duration;

use serde_json::json;

use super::super::network::{Covers, Effect};
use super::super::user::{Policy, User};
use super::garbage::{MAPS, at, map};
use super::workloads::{DEPLOYMENTS, SETS, workload};

/// A kube-controller-manager without leader election runs: it has no Lease, and its work is not done yet.
pub(super) async fn yielding(user: &mut User) {
    user.create(DEPLOYMENTS, &workload("Deployment", "a", 2));
    user.pause(60).await;
    user.create(SETS, &workload("ReplicaSet", "b", 2));
    let owner = user.create(MAPS, &map("owner", &[]));
    user.create(MAPS, &map("dependent", &[&owner]));
    user.pause(60).await;
    user.delete(&at("owner"), Policy::Background);
    user.wait(Duration::from_secs(40)).await;
}

/// The API cannot start a watch without a resourceVersion.
pub(super) fn refuse_unversioned_watches(user: &mut User) {
    user.begin_outage(
        None,
        Covers::UnversionedWatches,
        Effect::Refuse(500),
        Duration::from_mins(10),
    );
}

/// The leader stops in order, and a standby takes over.
pub(super) async fn hand_over(user: &mut User) {
    user.create(SETS, &workload("ReplicaSet", "a", 2));
    for replicas in [3, 1] {
        user.wait(Duration::from_secs(30)).await;
        user.pause(40).await;
        user.stop_leader();
        user.pause(40).await;
        user.patch(&format!("{SETS}/a"), &json!({"spec": {"replicas": replicas}}));
    }
    user.wait(Duration::from_secs(30)).await;
}
