//! What the Lease says about whether its holder is alive. No I/O, no clock: time is passed in.
//!
//! As in the election, a holder counts as alive until its record has not been seen to change for its lease duration, by
//! our own monotonic clock; times in the record are for people. Unlike a candidate we do not write the Lease, and nothing
//! but reading can show that we are wrong: so a holder is gone only when a read that was sent after that time has shown
//! the record unchanged. That nothing came over a watch proves nothing.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use coxswain_manager::env::later;

use super::State;

/// The lease duration of a record that does not say: kube-controller-manager's default.
const UNSAID: Duration = Duration::from_secs(15);
/// For how long what is known holds without a watch. A server that restarts must not stop and start every controller.
const GRACE: Duration = Duration::from_secs(10);

/// A Lease, as far as it tells who is alive.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lease {
    uid: Value,
    spec: Value,
}

/// What is known of the Lease.
#[derive(Debug)]
pub(super) struct View {
    /// As it was last seen; none if it was not there.
    lease: Option<Lease>,
    /// Who was last seen to hold it and has not let go. It outlasts a Lease that was deleted: its holder does not notice.
    held: Option<Held>,
    /// When the last read was sent that succeeded.
    read: Option<Instant>,
    /// Set while there is no watch.
    blind: Option<Blind>,
}

#[derive(Debug)]
struct Held {
    holder: String,
    /// When it counts as gone, if its record does not change.
    until: Instant,
}

#[derive(Debug)]
struct Blind {
    /// When what was known has become too old.
    from: Instant,
    /// None before the first try.
    why: Option<String>,
}

impl Lease {
    pub(super) fn new(object: &Value) -> Self {
        Self {
            uid: object["metadata"]["uid"].clone(),
            spec: object["spec"].clone(),
        }
    }

    /// Nobody if it is empty.
    fn holder(&self) -> &str {
        self.spec["holderIdentity"].as_str().unwrap_or_default()
    }

    fn duration(&self) -> Duration {
        let seconds = self.spec["leaseDurationSeconds"].as_u64();
        seconds
            .filter(|seconds| *seconds > 0)
            .map_or(UNSAID, Duration::from_secs)
    }
}

impl View {
    /// Nothing is known at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            lease: None,
            held: None,
            read: None,
            blind: Some(Blind { from: now, why: None }),
        }
    }

    /// The Lease was seen, or seen to be absent, at `now`.
    pub(super) fn see(&mut self, now: Instant, lease: Option<Lease>) {
        if self.lease == lease {
            return;
        }
        if let Some(lease) = &lease {
            let holder = lease.holder();
            self.held = (!holder.is_empty()).then(|| Held {
                holder: holder.to_owned(),
                until: later(now, lease.duration()),
            });
        }
        self.lease = lease;
    }

    /// The Lease was read at `now`, by a request that was sent at `sent`.
    pub(super) fn read(&mut self, sent: Instant, now: Instant, lease: Option<Lease>) {
        self.see(now, lease);
        self.read = Some(sent);
    }

    /// From now on every change is seen.
    pub(super) fn watched(&mut self) {
        self.blind = None;
    }

    /// There is no watch at `now`, because of `why`.
    pub(super) fn lost(&mut self, now: Instant, why: String) {
        let from = self.blind.take().map_or(later(now, GRACE), |blind| blind.from);
        let why = Some(why);
        self.blind = Some(Blind { from, why });
    }

    /// When the Lease has to be read to know whether its holder is gone; none if nobody holds it.
    pub(super) fn due(&self) -> Option<Instant> {
        let held = self.held.as_ref()?;
        self.read
            .is_none_or(|read| read < held.until)
            .then_some(held.until)
    }

    /// When what is known will be too old, if there is no watch before.
    pub(super) fn stale_at(&self) -> Option<Instant> {
        self.blind.as_ref().map(|blind| blind.from)
    }

    /// What that means at `now`.
    pub(super) fn state(&self, now: Instant) -> State {
        if let Some(Blind { from, why }) = &self.blind
            && *from <= now
        {
            return why.clone().map_or(State::Unread, |why| State::Unknown { why });
        }
        match (&self.held, &self.lease) {
            (Some(held), _) if self.due().is_some() => State::Alive {
                holder: held.holder.clone(),
            },
            (_, Some(_)) => State::Expired,
            (_, None) => State::Absent,
        }
    }
}
