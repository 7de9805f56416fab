//! What the manager says of its parts.

use std::sync::Arc;

use crate::cache::{Caches, Status};
use crate::controller::{Runnable, Unhealthy};
use crate::election;
use crate::serve::{Checks, Health, Probes, Registration};

/// Ready once each cache has been filled. One whose kind is not served, or not to us, waits and says so: the others are
/// none the worse for it. One that was filled and cannot follow is old, not empty; its age is a metric. One of
/// which only the metadata was asked for, by whoever takes all kinds as they are, is named and no more.
pub(super) fn of_caches(checks: &Checks, caches: &Caches) -> Registration {
    let caches = caches.clone();
    checks.add("caches", Probes::READYZ | Probes::HEALTHZ, move || {
        let caches = caches.summaries();
        let empty = caches
            .iter()
            .filter(|it| it.required && !it.synced && !it.status.is_unavailable());
        let empty: Vec<_> = empty
            .map(|it| format!("{}: {}", it.resource, it.status))
            .collect();
        if !empty.is_empty() {
            return Health::Failed(empty.join("; "));
        }
        let odd = caches.iter().filter(|it| it.status != Status::Synced);
        let odd: Vec<_> = odd.map(|it| format!("{} {}", it.resource, it.status)).collect();
        if odd.is_empty() {
            Health::Ok
        } else {
            Health::Note(odd.join("; "))
        }
    })
}

/// By the name of the controller: whether it makes progress, and what it waits for or yields to. A restart mends one that is stuck, not
/// one that must not run here: that does not count for `/livez`.
pub(super) fn of_controller(
    checks: &Checks,
    caches: &Caches,
    controller: &Arc<dyn Runnable>,
) -> [Registration; 2] {
    let name = controller.name();
    let (caches, asked) = (caches.clone(), controller.clone());
    let healthy = checks.add(name, Probes::HEALTHZ, move || match asked.health() {
        Err(unhealthy) => Health::Failed(unhealthy.to_string()),
        Ok(()) => match asked.yields() {
            Some(reason) => Health::Note(reason),
            None => match waits(&caches, asked.unsynced()) {
                Health::Ok => asked.remark().map_or(Health::Ok, Health::Note),
                waits => waits,
            },
        },
    });
    let asked = controller.clone();
    let alive = checks.add(name, Probes::LIVEZ, move || match asked.health() {
        Ok(()) => Health::Ok,
        Err(refused @ Unhealthy::Refused { .. }) => Health::Note(refused.to_string()),
        Err(unhealthy) => Health::Failed(unhealthy.to_string()),
    });
    [healthy, alive]
}

/// What a controller waits for, if there is anything.
fn waits(caches: &Caches, unsynced: Vec<String>) -> Health {
    if unsynced.is_empty() {
        return Health::Ok;
    }
    let statuses = caches.statuses();
    let waits = unsynced.into_iter().map(|name| {
        let status = statuses.iter().find(|(resource, _)| resource.to_string() == name);
        match status {
            Some((_, status)) => format!("{name} ({status})"),
            None => name,
        }
    });
    Health::Note(format!("waits for {}", waits.collect::<Vec<_>>().join(", ")))
}

/// Whether a leader that believes to lead still renews.
pub(super) fn of_election(checks: &Checks, election: election::Health) -> Registration {
    checks.add(
        "leaderElection",
        Probes::LIVEZ | Probes::HEALTHZ,
        move || match election.check() {
            Ok(()) => Health::Ok,
            Err(stalled) => Health::Failed(stalled.to_string()),
        },
    )
}
