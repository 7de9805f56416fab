//! The health check of the election. It fails only if this process believes that it is the leader and has not renewed for
//! far too long: the elector has stopped running, because otherwise it would have stepped down.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::env::Clock;

/// The time after the expiry of the Lease for which a leader is healthy.
const RENEWAL_GRACE: Duration = Duration::from_secs(20);

/// The health check. Clones share the state.
#[derive(Clone, Debug)]
pub struct Health {
    clock: Clock,
    name: Arc<str>,
    limit: Duration,
    /// The last renewal; none on a standby.
    renewed: Arc<Mutex<Option<Instant>>>,
}

/// The process believes it is the leader but has stopped renewing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed election to renew leadership on lease {0}")]
pub struct Stalled(Arc<str>);

impl Health {
    pub(super) fn new(clock: &Clock, name: &str, lease_duration: Duration) -> Self {
        Self {
            clock: clock.clone(),
            name: name.into(),
            limit: lease_duration.saturating_add(RENEWAL_GRACE),
            renewed: Arc::default(),
        }
    }

    /// Runs the check.
    pub fn check(&self) -> Result<(), Stalled> {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        match renewed {
            Some(at) if self.clock.now().saturating_duration_since(at) > self.limit => {
                Err(Stalled(self.name.clone()))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn set_renewed(&self, renewed: Option<Instant>) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = renewed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;

    #[tokio::test(start_paused = true)]
    async fn leader_is_unhealthy_20_s_after_lease_expiry() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let health = Health::new(&clock, "steersman", Duration::from_secs(15));
        clock.sleep(Duration::from_hours(1)).await;
        assert_eq!(health.check(), Ok(()), "standby");
        health.set_renewed(Some(clock.now()));
        clock.sleep(Duration::from_secs(35)).await;
        assert_eq!(health.check(), Ok(()));
        clock.sleep(Duration::from_millis(1)).await;
        let stalled = health.check().expect_err("too long");
        assert_eq!(
            stalled.to_string(),
            "failed election to renew leadership on lease steersman"
        );
        health.set_renewed(None);
        assert_eq!(health.check(), Ok(()));
    }
}
