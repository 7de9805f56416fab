//! The names of the controllers.
//!
//! A name is an ID: people write it into `--controllers`, dashboards into queries, and roles are bound to service accounts
//! of that name. So a name is lower-case, ends in `-controller` if it is one of kube-controller-manager's or works like
//! them, and never changes. A controller that has to be renamed keeps its old name as an alias, for ever; the name of one
//! that was removed is never given to another.

/// Keeps the pods of `AppReplicaSets`.
pub const APP_REPLICASET: &str = "appreplicaset-controller";
/// Keeps the Deployments and Services of `AppServices`.
pub const APP_SERVICE: &str = "appservice-controller";
/// Rolls out the templates of apps/v1 `Deployments`.
pub const DEPLOYMENT: &str = "deployment-controller";
/// Deletes what nobody owns any more.
pub const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";

/// Makes a cluster without nodes come alive.
pub const HOLLOW_KUBELET: &str = "hollow-kubelet";

/// Keeps the pods of apps/v1 `ReplicaSets`.
pub const REPLICASET: &str = "replicaset-controller";
/// Keeps the pods of v1 `ReplicationControllers`.
pub const REPLICATION_CONTROLLER: &str = "replicationcontroller-controller";

/// A controller, as `--controllers` knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// The short or former name that is also understood.
    pub alias: Option<&'static str>,
    /// `*` does not switch it on; only its name does.
    pub off_by_default: bool,
    /// kube-controller-manager runs it as well: switched on by `*`, it yields to that one.
    pub yields: bool,
}

/// All controllers there are, ordered by name.
pub const KNOWN: &[Named] = &[
    Named {
        name: APP_REPLICASET,
        alias: Some("appreplicaset"),
        off_by_default: false,
        yields: false,
    },
    Named {
        name: APP_SERVICE,
        alias: Some("appservice"),
        off_by_default: false,
        yields: false,
    },
    Named {
        name: DEPLOYMENT,
        alias: Some("deployment"),
        off_by_default: false,
        yields: true,
    },
    Named {
        name: GARBAGE_COLLECTOR,
        alias: Some("garbagecollector"),
        off_by_default: false,
        yields: true,
    },
    Named {
        name: HOLLOW_KUBELET,
        alias: None,
        off_by_default: true,
        yields: false,
    },
    Named {
        name: REPLICASET,
        alias: Some("replicaset"),
        off_by_default: false,
        yields: true,
    },
    Named {
        name: REPLICATION_CONTROLLER,
        alias: Some("replicationcontroller"),
        off_by_default: false,
        yields: true,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_controller() {
        let mut all: Vec<&str> = KNOWN
            .iter()
            .flat_map(|it| [Some(it.name), it.alias])
            .flatten()
            .collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(KNOWN.is_sorted_by_key(|it| it.name));
        for name in all {
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'),
                "{name}"
            );
        }
    }
}
