//! The health of the election: it fails only if this process believes to lead and has not renewed for far too long. The
//! elector steps down long before; so what this finds is an elector that does not run any more.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::env::Clock;

/// How long after the end of the lease a leader is still called healthy.
const GRACE: Duration = Duration::from_secs(20);

/// The check. Clones look at the same election.
#[derive(Clone, Debug)]
pub struct Health {
    clock: Clock,
    name: Arc<str>,
    limit: Duration,
    /// When the leader that this process believes to be has last renewed.
    renewed: Arc<Mutex<Option<Instant>>>,
}

/// The process believes to lead, and does not renew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed election to renew leadership on lease {0}")]
pub struct Stalled(Arc<str>);

impl Health {
    pub(super) fn new(clock: &Clock, name: &str, lease_duration: Duration) -> Self {
        Self {
            clock: clock.clone(),
            name: name.into(),
            limit: lease_duration.saturating_add(GRACE),
            renewed: Arc::default(),
        }
    }

    /// Asks now.
    pub fn check(&self) -> Result<(), Stalled> {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        match renewed {
            Some(at) if self.clock.now().saturating_duration_since(at) > self.limit => {
                Err(Stalled(self.name.clone()))
            }
            _ => Ok(()),
        }
    }

    /// When the process has last renewed, if it leads.
    pub(super) fn leads(&self, renewed: Option<Instant>) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = renewed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;

    #[tokio::test(start_paused = true)]
    async fn only_a_leader_that_is_20_s_past_its_lease_is_ill() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let health = Health::new(&clock, "coxswain", Duration::from_secs(15));
        clock.sleep(Duration::from_hours(1)).await;
        assert_eq!(health.check(), Ok(()), "a standby is well");
        health.leads(Some(clock.now()));
        clock.sleep(Duration::from_secs(35)).await;
        assert_eq!(health.check(), Ok(()));
        clock.sleep(Duration::from_millis(1)).await;
        let stalled = health.check().expect_err("too long");
        assert_eq!(
            stalled.to_string(),
            "failed election to renew leadership on lease coxswain"
        );
        health.leads(None);
        assert_eq!(health.check(), Ok(()));
    }
}
