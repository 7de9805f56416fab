//! Leader election on a Lease.
//!
//! An [`Elector`] runs for one candidate. Guarantee: at most one candidate has an open [`Fence`] at a time, as long as
//! clock rates differ by less than the ratio of `lease_duration` to `renew_deadline`. The fence closes `renew_deadline`
//! after the last successful renewal was *sent*, measured by all clocks. Other candidates acquire the Lease only after its
//! record has not changed for `lease_duration` by their own monotonic clock. Times in the record are informational.
//!
//! Every write carries the resourceVersion that was read, so that of two candidates only one succeeds. The Lease is
//! watched: a released Lease is acquired immediately, and a leader steps down immediately when another client changes its
//! Lease. A candidate that loses the Lease continues as a standby in the same process. Not guaranteed: that a request sent
//! in time also arrives in time. Writes are protected from that by resourceVersions and deadlines.
//!
//! A new candidate that finds no Lease creates it and leads immediately. So deleting a held Lease while a new process
//! starts voids the guarantee for that moment.
//!
//! [`ManagerBuilder::leader_election`] elects the leader of a manager. Without a manager:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let tasks = steersman_manager::env::TaskSet::new();
//! # let env = steersman_manager::env::Env::system(&tasks);
//! # let registry = steersman_manager::metrics::Registry::new("example");
//! # let service = steersman_sandbox::Sandbox::builder().start()?.service();
//! # let transport = Transport::from_service(service, "sandbox", "example", &env.clock, &registry)?;
//! use steersman_manager::client::{Fence, Transport};
//! use steersman_manager::election::{Config, Elector, Leadership};
//! use steersman_manager::manager::identity;
//! use tokio_util::sync::CancellationToken;
//!
//! let fence = Fence::new(env.clock.clone());
//! let config = Config::new("kube-system", "greeter", identity("node-1", &env.rng));
//! let client = transport.unfenced("leader-election", None);
//! let elector = Elector::new(&env, client, fence.clone(), config, &registry)?;
//! let mut leadership = elector.leadership();
//! env.tasks.spawn(elector.run(CancellationToken::new(), std::future::pending()));
//! leadership.wait_for(|it| matches!(it, Leadership::Leading { .. })).await?;
//! assert!(fence.term().is_some());
//! # Ok(())
//! # }
//! ```
//!
//! [`ManagerBuilder::leader_election`]: crate::manager::ManagerBuilder::leader_election
//! [`Fence`]: crate::client::Fence

mod elector;
mod health;
mod lease_state;
mod metrics;
mod record;
mod status;

pub use elector::Elector;
pub use health::{Health, Stalled};
pub use record::{released_by_annotation, written_versions_annotation};
pub use status::{ElectionStatus, ObservedElection};

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::{ClientError, Takeover, Term, UNCONDITIONAL_WRITE_TIMEOUT};

/// The configuration of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The identity of this process. It must be unique, also among earlier processes of the same pod: see [`identity`](crate::manager::identity()).
    pub identity: String,
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease. Each component needs its own.
    pub name: String,
    /// The time for which other candidates respect an unchanged record. It is written in whole seconds, and must exceed
    /// `renew_deadline` by more than [`UNCONDITIONAL_WRITE_TIMEOUT`], the time that the last write may take.
    pub lease_duration: Duration,
    /// The time for which a leader acts on its last successful renewal.
    pub renew_deadline: Duration,
    /// The interval of renewals. Standbys that cannot watch poll at 1 to 2.2 times this interval.
    pub retry_period: Duration,
}

impl Config {
    /// Returns a candidate for the Lease `namespace/name` with the defaults of kube-controller-manager: 15 s, 10 s, 2 s.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            namespace: namespace.into(),
            name: name.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    fn check(&self) -> Result<(), ElectionError> {
        let Self {
            identity,
            namespace,
            name,
            lease_duration,
            renew_deadline,
            retry_period,
        } = self;
        if identity.is_empty() {
            return Err(ElectionError::NoIdentity);
        }
        if namespace.is_empty() || name.is_empty() {
            return Err(ElectionError::NoLease);
        }
        // Other candidates use the whole seconds in the record.
        let written = Duration::from_secs(lease_duration.as_secs());
        let in_order = !retry_period.is_zero()
            && written > renew_deadline.saturating_add(UNCONDITIONAL_WRITE_TIMEOUT)
            && *renew_deadline > retry_period.saturating_mul(6) / 5;
        if !in_order {
            return Err(ElectionError::Times {
                lease: *lease_duration,
                renew: *renew_deadline,
                retry: *retry_period,
            });
        }
        Ok(())
    }
}

/// Errors in the configuration of an election.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "plain data")]
pub enum ElectionError {
    #[error("the identity for leader election must not be empty")]
    NoIdentity,
    #[error("the namespace and the name of the Lease must not be empty")]
    NoLease,
    /// Two candidates could lead at once, or the leader could not renew in time.
    #[error(
        "the lease duration ({lease:?}, in whole seconds) must exceed the renew deadline ({renew:?}) by more than \
         {last_write:?}, the renew deadline must exceed 1.2 times the retry period ({retry:?}), and the retry period must \
         be positive",
        last_write = UNCONDITIONAL_WRITE_TIMEOUT
    )]
    Times {
        lease: Duration,
        renew: Duration,
        retry: Duration,
    },
    /// The metrics are registered already, which is a programming error.
    #[error("failed to register leader election metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The role of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub enum Leadership {
    Standby,
    Leading {
        /// The term for writes.
        term: Term,
        takeover: Takeover,
    },
}

/// A request to release the Lease. All workers have stopped, and the outcome of every write is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The term of the workers. If it is over, nothing is released.
    pub term: Term,
    /// The highest resourceVersion written, per resource. It includes the versions that this leader received from a clean
    /// takeover or waited for in an unclean one: its successor may not have seen them either.
    pub versions: BTreeMap<String, String>,
}

/// The Lease was not released. It will expire.
#[derive(Debug, thiserror::Error)]
#[error("failed to release the lease, it will expire: {0}")]
pub struct ReleaseError(#[source] pub ClientError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_config_is_rejected() {
        let good = Config::new("kube-system", "steersman", "a");
        assert!(good.check().is_ok());
        let with = |change: fn(&mut Config)| {
            let mut config = good.clone();
            change(&mut config);
            config.check()
        };
        let times = |lease, renew, retry| {
            let mut config = good.clone();
            config.lease_duration = Duration::from_millis(lease);
            config.renew_deadline = Duration::from_millis(renew);
            config.retry_period = Duration::from_millis(retry);
            config.check()
        };
        assert!(matches!(
            with(|config| config.identity.clear()),
            Err(ElectionError::NoIdentity)
        ));
        assert!(matches!(
            with(|config| config.name.clear()),
            Err(ElectionError::NoLease)
        ));
        assert!(matches!(
            with(|config| config.namespace.clear()),
            Err(ElectionError::NoLease)
        ));
        assert!(times(5000, 1900, 1500).is_ok());
        for (lease, renew, retry) in [
            (15_000, 15_000, 2000),
            (15_900, 15_500, 2000),
            (11_000, 10_000, 2000),
            (13_000, 10_000, 2000),
            (13_900, 10_500, 2000),
            (15_000, 10_000, 0),
            (15_000, 2400, 2000),
            (900, 800, 100),
        ] {
            assert!(
                matches!(times(lease, renew, retry), Err(ElectionError::Times { .. })),
                "{lease} {renew} {retry}"
            );
        }
    }
}
