//! Known incidents and findings, each as a wrong variant of the product, to test whether the simulation detects it.
//!
//! One incident at a time is revived, per thread: a simulation runs in one thread. The product is built without this
//! module; `revived!` marks the places in its code.
//!
//! ```
//! use steersman_manager::incidents::{Incident, is_revived, revive};
//!
//! revive(Some(Incident::G3));
//! assert!(is_revived(Incident::G3) && !is_revived(Incident::G4));
//! revive(None);
//! assert!(!is_revived(Incident::G3));
//! ```

use std::cell::Cell;

macro_rules! incidents {
    ($($id:ident: $defect:literal,)*) => {
        /// An incident. The description is the defect of its variant.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Incident {
            $(#[doc = $defect] $id,)*
        }

        impl Incident {
            /// All incidents.
            pub const ALL: &[Self] = &[$(Self::$id,)*];

            /// Returns the id: `G3`.
            #[must_use]
            pub fn id(self) -> &'static str {
                match self {
                    $(Self::$id => stringify!($id),)*
                }
            }

            /// Returns the defect in one sentence.
            #[must_use]
            pub fn defect(self) -> &'static str {
                match self {
                    $(Self::$id => $defect,)*
                }
            }
        }
    };
}

incidents! {
    G1: "The proof that an owner is absent in one namespace also counts for the owner with that uid in another namespace.",
    G2: "Any 404 counts as the absence of an owner, also that of an API server that does not serve the kind yet.",
    G3: "A DELETE has no resourceVersion: a dependent whose owner is replaced after its evaluation is deleted.",
    G4: "An owner of an unknown kind or version counts as absent.",
    G5: "A cluster-scoped owner is read in the namespace of its dependent, and the 404 counts as its absence.",
    G6: "Nothing is collected while one kind has not synced.",
    G8: "A foreground deletion of an object that is already terminating is ignored.",
    G9: "Foreground deletions that block each other are not unblocked.",
    G10: "Only cached dependents are orphaned, without a live list.",
    G11: "A kind that is no longer served is dropped at once, before its cache shows that its objects were deleted.",
    G12: "A virtual owner that exists is not read again: its deletion is missed if no cache ever shows it.",
    G13: "A failed request is repeated every 10 ms, without backoff.",
    G14: "The foreground finalizer is removed although a kind with blocking dependents has not synced.",
    R1: "Pods that a kubelet rejects are replaced without backoff.",
    R2: "A `ReplicaSet` whose template a webhook has changed is not recognized, and another one is created.",
    R3: "A create without a response blocks all further creates.",
    R4: "A sync does not wait until the caches show the writes of the previous one.",
    R5: "Lists are read from the watch cache of an API server, which may lag, instead of the storage.",
    A1: "The collector starts when one of the two discovery roots was read.",
    A2: "Any code of 500 or higher opens the circuit breaker of a resource in a namespace.",
    A3: "Every live read of an owner expires a second after it was sent, also on a slow server.",
    A4: "The objects of a kind stay in the graph after its cache is dropped.",
    A5: "An ownerReference in another served version than the watched one does not block its owner.",
    A6: "A live list for orphaning that takes longer than 5 s (2 min in the finding) is discarded and starts over.",
    A7: "The orphaning of a cluster-scoped owner relists every idle kind.",
    A8: "A list does not replace objects of a newer version, and proofs of absence outlive the dependents and the failures of watches.",
    A9: "After a takeover, caches that are not proven current suffice to remove a foreground finalizer.",
    B1: "Every finished pod delays its replacement, also one that ran for long.",
    B2: "A failing create postpones the status, and drops the time of the next sync.",
    B3: "An absent Lease of kube-controller-manager is proof that it does not run.",
    B4: "Creates in a terminating namespace are repeated with every event.",
    C1: "Reads and waits for the rate limiter do not end with the term.",
    C3: "A watch of one object starts without a resourceVersion.",
}

/// Incidents without a variant: the id, the reason, and the test that covers it.
pub const NOT_REVIVED: &[(&str, &str, &str)] = &[
    (
        "G7",
        "No lock is held during discovery, and virtual time does not pass under a lock.",
        "garbage_collector_discovery::failures::hanging_group_delays_others_by_about_a_second",
    ),
    (
        "R6",
        "Decoding and applying events takes no virtual time.",
        "cache::sync::slow_subscriber_does_not_block_and_its_backlog_is_bounded",
    ),
    (
        "R7",
        "A simulation does not measure memory.",
        "cache_of_pods_stays_within_its_memory",
    ),
    (
        "C2",
        "The namespace and the name of the Lease are mandatory arguments.",
        "election::tests::invalid_config_is_rejected",
    ),
];

thread_local! {
    static REVIVED: Cell<Option<Incident>> = const { Cell::new(None) };
}

/// Revives an incident in this thread, instead of the one before.
pub fn revive(incident: Option<Incident>) {
    REVIVED.set(incident);
}

/// Reports whether an incident is revived in this thread.
#[must_use]
pub fn is_revived(incident: Incident) -> bool {
    REVIVED.get() == Some(incident)
}
