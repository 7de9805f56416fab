//! Health checks of the manager's parts.

use std::sync::Arc;

use crate::cache::{Caches, Status};
use crate::controller::Runnable;
use crate::health::{Checks, Health, Probes, Registration};

/// Fails for `/readyz` until every needed cache is synced, except those whose resource is not served or not readable. A
/// cache that was synced and cannot watch is stale, not empty; its age is a metric. A metadata-only cache is listed in
/// the note only.
pub(super) fn add_cache_check(checks: &Checks, caches: &Caches) -> Registration {
    let caches = caches.clone();
    checks.add("caches", Probes::READYZ | Probes::HEALTHZ, move || {
        let caches = caches.summaries();
        let unsynced = caches
            .iter()
            .filter(|it| it.required && !it.synced && !it.status.is_unavailable());
        let unsynced: Vec<_> = unsynced
            .map(|it| format!("{}: {}", it.resource, it.status))
            .collect();
        if !unsynced.is_empty() {
            return Health::Failed(unsynced.join("; "));
        }
        let notes = caches.iter().filter(|it| it.status != Status::Synced);
        let notes: Vec<_> = notes.map(|it| format!("{} {}", it.resource, it.status)).collect();
        if notes.is_empty() {
            Health::Ok
        } else {
            Health::Note(notes.join("; "))
        }
    })
}

/// Adds the checks of a controller: whether it makes progress, and which caches it waits for. A controller that a restart
/// would not help fails `/healthz` but not `/livez`: it refuses to run, has no token, has too much work, or
/// cannot watch.
pub(super) fn add_controller_checks(
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
            None => match unsynced_note(&caches, asked.unsynced()) {
                Health::Ok => asked.remark().map_or(Health::Ok, Health::Note),
                waits => waits,
            },
        },
    });
    let asked = controller.clone();
    let alive = checks.add(name, Probes::LIVEZ, move || match asked.health() {
        Ok(()) => Health::Ok,
        Err(unhealthy) if unhealthy.is_fixed_by_restart() => Health::Failed(unhealthy.to_string()),
        Err(unhealthy) => Health::Note(unhealthy.to_string()),
    });
    [healthy, alive]
}

/// Lists the caches that a controller waits for.
fn unsynced_note(caches: &Caches, unsynced: Vec<String>) -> Health {
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
    Health::Note(format!("waiting for {}", waits.collect::<Vec<_>>().join(", ")))
}
