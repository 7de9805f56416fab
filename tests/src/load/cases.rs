//! The cases.

mod cached;
mod definitions;
mod dependents;
mod large;
mod outage;
mod owners;
mod replicas;

use std::pin::Pin;

use super::Load;
use super::cluster::Policy;
use super::connection::Outage;

/// A case with its name in the arguments and in the table.
pub struct Case {
    /// The name.
    pub name: &'static str,
    /// The objects and the steps.
    pub about: &'static str,
    pub(super) run: for<'a> fn(&'a mut Load) -> Running<'a>,
}

/// The future of a case.
type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// All cases.
pub const CASES: &[Case] = &[
    Case {
        name: "dependents-background",
        about: "100,000 dependents of one owner, which is deleted",
        run: |load| Box::pin(dependents::run(load, Policy::Background)),
    },
    Case {
        name: "dependents-foreground",
        about: "100,000 dependents of one owner, which is deleted after them",
        run: |load| Box::pin(dependents::run(load, Policy::Foreground)),
    },
    Case {
        name: "dependents-orphan",
        about: "100,000 dependents of one owner, which is deleted without them",
        run: |load| Box::pin(dependents::run(load, Policy::Orphan)),
    },
    Case {
        name: "owners-background",
        about: "10,000 owners of 10 dependents each, which are deleted",
        run: |load| Box::pin(owners::run(load, Policy::Background)),
    },
    Case {
        name: "owners-foreground",
        about: "10,000 owners of 10 dependents each, which are deleted after them",
        run: |load| Box::pin(owners::run(load, Policy::Foreground)),
    },
    Case {
        name: "owners-orphan",
        about: "10,000 owners of 10 dependents each, which are deleted without them",
        run: |load| Box::pin(owners::run(load, Policy::Orphan)),
    },
    Case {
        name: "replicas",
        about: "a ReplicaSet of 5,000 pods: created, scaled to half, deleted",
        run: |load| Box::pin(replicas::run(load)),
    },
    Case {
        name: "definitions",
        about: "1,000 CRDs with an owner and a dependent each: created, owners deleted, CRDs deleted",
        run: |load| Box::pin(definitions::run(load)),
    },
    Case {
        name: "large-objects",
        about: "owners and dependents of up to 1.5 MB, deleted with all policies",
        run: |load| Box::pin(large::run(load)),
    },
    Case {
        name: "outage-unavailable",
        about: "10 minutes of 503 with pending work",
        run: |load| Box::pin(outage::run(load, Outage::Unavailable)),
    },
    Case {
        name: "outage-refused",
        about: "10 minutes of refused connections with pending work",
        run: |load| Box::pin(outage::run(load, Outage::Refused)),
    },
    Case {
        name: "cached-objects",
        about: "1,000,000 pods in the cache of the garbage collector, of which 50 are collected",
        run: |load| Box::pin(cached::run(load)),
    },
];
