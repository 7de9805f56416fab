//! Kinds that set rules for others: budgets, leases, priorities, bindings, policies, webhooks.

use serde_json::{Value, json};

use crate::printers::column::{AGE, NAME, column, integer, string, wide};
use crate::printers::duration::age;
use crate::printers::kinds::Kind;
use crate::printers::read::{count, flag, int, list, scalar, text};
use crate::printers::selector::selector;

pub static LEASE: Kind = Kind {
    columns: &[NAME, string("Holder", "Who holds the lease."), AGE],
    cells: |object, now| {
        let holder = text(object, "/spec/holderIdentity");
        vec![
            json!(text(object, "/metadata/name")),
            json!(holder),
            json!(age(object, now)),
        ]
    },
};

pub static DISRUPTION_BUDGET: Kind = Kind {
    columns: &[
        NAME,
        string("Min Available", "How many pods must stay available."),
        string("Max Unavailable", "How many pods may be unavailable."),
        integer("Allowed Disruptions", "How many pods may be evicted now."),
        AGE,
    ],
    cells: |object, now| {
        let bound = |path| scalar(object, path).unwrap_or_else(|| "N/A".to_owned());
        vec![
            json!(text(object, "/metadata/name")),
            json!(bound("/spec/minAvailable")),
            json!(bound("/spec/maxUnavailable")),
            json!(int(object, "/status/disruptionsAllowed")),
            json!(age(object, now)),
        ]
    },
};

pub static NETWORK_POLICY: Kind = Kind {
    columns: &[
        NAME,
        string("Pod-Selector", "Labels of the pods that the policy is for."),
        AGE,
    ],
    cells: |object, now| {
        let pods = selector(object.pointer("/spec/podSelector"));
        vec![
            json!(text(object, "/metadata/name")),
            json!(pods),
            json!(age(object, now)),
        ]
    },
};

pub static PRIORITY_CLASS: Kind = Kind {
    columns: &[
        NAME,
        integer("Value", "The priority."),
        column(
            "Global-Default",
            "boolean",
            "Whether pods without a class get this one.",
        ),
        AGE,
        string("PreemptionPolicy", "Whether pods of this class push out others."),
    ],
    cells: |object, now| {
        vec![
            json!(text(object, "/metadata/name")),
            json!(int(object, "/value")),
            json!(flag(object, "/globalDefault")),
            json!(age(object, now)),
            json!(text(object, "/preemptionPolicy")),
        ]
    },
};

pub static ROLE_BINDING: Kind = Kind {
    columns: &[
        NAME,
        string("Role", "The role that is granted."),
        AGE,
        wide("Users", "Users that it is granted to."),
        wide("Groups", "Groups that it is granted to."),
        wide("ServiceAccounts", "Service accounts that it is granted to."),
    ],
    cells: |object, now| {
        let subjects = |kind: &str, shown: fn(&Value) -> String| {
            let subjects = list(object, "/subjects")
                .iter()
                .filter(|subject| text(subject, "/kind") == kind);
            subjects.map(shown).collect::<Vec<_>>().join(", ")
        };
        let name = |subject: &Value| text(subject, "/name").to_owned();
        vec![
            json!(text(object, "/metadata/name")),
            json!(format!(
                "{}/{}",
                text(object, "/roleRef/kind"),
                text(object, "/roleRef/name")
            )),
            json!(age(object, now)),
            json!(subjects("User", name)),
            json!(subjects("Group", name)),
            json!(subjects("ServiceAccount", |account| {
                format!("{}/{}", text(account, "/namespace"), text(account, "/name"))
            })),
        ]
    },
};

pub static WEBHOOKS: Kind = Kind {
    columns: &[NAME, integer("Webhooks", "Number of webhooks."), AGE],
    cells: |object, now| {
        vec![
            json!(text(object, "/metadata/name")),
            json!(count(object, "/webhooks")),
            json!(age(object, now)),
        ]
    },
};
