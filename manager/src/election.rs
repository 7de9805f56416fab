//! Leader election on a Lease.
//!
//! An [`Elector`] runs for one candidate. It promises that of all candidates at most one at a time has an open [`Fence`],
//! as long as their clocks run at the same rate to within the ratio of `lease_duration` to `renew_deadline`: the fence is
//! shut `renew_deadline` after the last successful renewal was *sent*, on all clocks there are, and nobody else takes the
//! Lease before it has seen the record unchanged for `lease_duration`, by its own monotonic clock. Times in the record
//! are for people.
//!
//! The Lease is replaced under the resourceVersion that was read, so that of two who try only one succeeds. It is
//! watched: a release is taken at once, and a leader whose Lease is changed by somebody else stops at once. A candidate
//! that loses the Lease goes on as a standby, in the same process. What it does not promise: that a request which was
//! sent in time also arrives in time. For that there are resourceVersions, and deadlines.
//!
//! A fresh candidate that finds no Lease takes it and acts at once. So whoever deletes a Lease that is held, and starts a
//! new process, gives away the promise for that moment.
//!
//! [`Fence`]: crate::client::Fence

mod decide;
mod elector;
mod health;
mod metrics;
mod record;

pub use elector::Elector;
pub use health::{Health, Stalled};
pub use record::{RELEASED_BY_ANNOTATION, WRITTEN_VERSIONS_ANNOTATION};

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::{ClientError, Term, UNCONDITIONAL_WRITE_TIMEOUT};
use crate::env::Rng;

/// How a candidate takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who this is. It has to differ from that of every other process, an earlier one of the same pod included: see
    /// [`identity`].
    pub identity: String,
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease. Never that of another component: of two components on one Lease only one runs.
    pub name: String,
    /// For how long others leave a record alone that does not change. It is written in whole seconds, and has to exceed
    /// `renew_deadline` by more than [`UNCONDITIONAL_WRITE_TIMEOUT`]: a write that is sent last may take that long.
    pub lease_duration: Duration,
    /// For how long a leader acts on its last successful renewal.
    pub renew_deadline: Duration,
    /// How often a leader renews. Standbys that cannot watch ask at 1 to 2.2 times that.
    pub retry_period: Duration,
}

impl Config {
    /// A candidate for the Lease `namespace/name`, with the times of kube-controller-manager: 15 s, 10 s, 2 s.
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
        // What others go by is the number in the record.
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

/// Why there can be no election.
#[derive(Debug, thiserror::Error)]
pub enum ElectionError {
    /// A holder without a name would be no holder.
    #[error("leader election needs an identity that is not empty")]
    NoIdentity,
    /// There is nothing to elect on.
    #[error("leader election needs the namespace and the name of a Lease")]
    NoLease,
    /// With these, two could lead at once, or the leader could not renew in time.
    #[error(
        "the lease duration ({lease:?}, counted in whole seconds) must be more than {last_write:?} longer than the \
         renew deadline ({renew:?}), that longer than 1.2 times the retry period ({retry:?}), and that longer than nothing",
        last_write = UNCONDITIONAL_WRITE_TIMEOUT
    )]
    Times {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
    /// The series are there already: a mistake in the program.
    #[error("cannot register the metrics of leader election: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Whether this process leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It does not.
    Standby,
    /// It does, in this term.
    Leading {
        /// The term in which writes are made.
        term: Term,
        /// In which state the leader before left the cluster.
        takeover: Takeover,
    },
}

/// What a new leader knows of the writes of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// It released the Lease when all was done, having written these versions, per resource. A cache that has reached
    /// them has seen all of it.
    Clean(BTreeMap<String, String>),
    /// Nothing: it may have written until its fence was shut.
    Unclean,
}

/// A leader gives the Lease back: all its workers have stopped, and the outcome of every write is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The term in which they worked. If it is over, there is nothing to give back.
    pub term: Term,
    /// The highest version written, per resource. Versions that this leader was itself handed by a clean takeover, or
    /// had to wait for in an unclean one, belong in here too: its successor may not have seen them either.
    pub versions: BTreeMap<String, String>,
}

/// The Lease was not given back. It expires by itself.
#[derive(Debug, thiserror::Error)]
#[error("cannot release the lease, it will expire: {0}")]
pub struct ReleaseError(#[source] pub ClientError);

/// A name that no other process has: the host's name and a random UUID.
#[must_use]
pub fn identity(hostname: &str, rng: &Rng) -> String {
    // Version 4, variant 1.
    let high = rng.number() & !0xf000 | 0x4000;
    let low = rng.number() & !(0b11 << 62) | 0b10 << 62;
    format!(
        "{hostname}_{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused() {
        let good = Config::new("kube-system", "coxswain", "a");
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

    #[test]
    fn an_identity_is_the_host_and_a_uuid() {
        let rng = Rng::from_seed(1);
        let one = identity("host-0", &rng);
        let (host, uuid) = one.split_once('_').expect("two parts");
        assert_eq!((host, uuid.len()), ("host-0", 36));
        let parts: Vec<_> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid[14..15], "4");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
        assert_ne!(one, identity("host-0", &rng));
    }
}
