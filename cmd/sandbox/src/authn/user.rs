//! Users: a name, groups, and what else authentication knows.

use std::collections::BTreeMap;

use crate::json::{Value, json};

const ALL_AUTHENTICATED: &str = "system:authenticated";
const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
/// The group whose members have all permissions, regardless of roles.
const MASTERS: &str = "system:masters";
const NODES: &str = "system:nodes";
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// An authenticated user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Such as `system:serviceaccount:default:bot`.
    pub name: String,
    /// Distinguishes users of the same name over time; may be empty.
    pub uid: String,
    /// In the order in which authentication found them.
    pub groups: Vec<String>,
    /// Other attributes, such as the id of the token.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The user of the kubeconfig.
    #[must_use]
    pub fn admin() -> Self {
        Self {
            name: "admin".to_owned(),
            uid: "admin".to_owned(),
            groups: [MASTERS, ALL_AUTHENTICATED].map(str::to_owned).to_vec(),
            extra: BTreeMap::new(),
        }
    }

    /// The user of requests without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![ALL_UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// A service account.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let mut user = Self {
            name: format!("{ACCOUNT_PREFIX}{namespace}:{name}"),
            uid: uid.to_owned(),
            groups: account_groups(namespace),
            extra: BTreeMap::new(),
        };
        user.complete_groups();
        user
    }

    /// Whether no role is needed to do anything.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    /// The name of the node, if it is a node's user.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.name
            .strip_prefix("system:node:")
            .filter(|name| !name.is_empty())
    }

    /// The groups that follow from the name, if none were named.
    pub fn fixed_groups(&mut self) {
        if let Some((namespace, _)) = service_account_of(&self.name) {
            self.groups = account_groups(namespace);
        }
    }

    /// The one group of nodes.
    pub fn node_groups(&mut self) {
        self.groups = vec![NODES.to_owned()];
    }

    /// Adds `system:authenticated` or `system:unauthenticated`.
    pub fn complete_groups(&mut self) {
        let has = |wanted: &str| self.groups.iter().any(|group| group == wanted);
        let missing = match (self.name.as_str(), has(ALL_UNAUTHENTICATED)) {
            (_, true) => return,
            (ANONYMOUS, false) => ALL_UNAUTHENTICATED,
            _ if has(ALL_AUTHENTICATED) => return,
            _ => ALL_AUTHENTICATED,
        };
        self.groups.push(missing.to_owned());
    }

    /// Returns a `UserInfo` without empty fields.
    #[must_use]
    pub fn info(&self) -> Value {
        let mut info = json!({"username": self.name});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.groups.is_empty() {
            info["groups"] = self.groups.clone().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}

/// Namespace and name of the service account that a user name stands for.
#[must_use]
pub fn service_account_of(user_name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user_name.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

fn account_groups(namespace: &str) -> Vec<String> {
    vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}
