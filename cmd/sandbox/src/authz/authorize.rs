//! The RBAC authorizer: decides by the roles that are bound to a user.

use crate::authn::{Authorization, User, service_account_of};
use crate::authz::{Attributes, Rule};
use crate::endpoints::{Api, Call};
use crate::json::Value;
use crate::meta;
use crate::status::{ApiError, Result};

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "roles.rbac.authorization.k8s.io";
const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
const CLUSTER_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";

/// A decision and its reason, which may be empty.
pub(crate) struct Decision {
    pub allowed: bool,
    pub reason: String,
}

/// The rules of a user in a namespace.
#[derive(Default)]
pub(crate) struct UserRules {
    /// In the order of the bindings' names, those of the cluster first.
    pub rules: Vec<Rule>,
    /// Bindings to roles that do not exist.
    pub errors: Vec<String>,
}

impl UserRules {
    fn add_error(&mut self, error: String) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// All errors as one text, empty if there are none.
    pub fn error(&self) -> String {
        match self.errors.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        }
    }
}

impl Api {
    /// Whether `user` may do it.
    pub(crate) fn authorize(&self, user: &User, wanted: &Attributes) -> Decision {
        if self.authorization == Authorization::AlwaysAllow || user.is_master() {
            return Decision {
                allowed: true,
                reason: String::new(),
            };
        }
        let mut errors = UserRules::default();
        let mut reason = None;
        self.visit_rules(user, &wanted.namespace, |found| match found {
            Ok((binding, rules)) => {
                if rules.iter().any(|rule| rule.allows(wanted)) {
                    reason = Some(format!("RBAC: allowed by {binding}"));
                }
                reason.is_none()
            }
            Err(error) => {
                errors.add_error(error);
                true
            }
        });
        let missing = errors.error();
        let why = match missing.as_str() {
            "" => missing,
            missing => format!("RBAC: {missing}"),
        };
        Decision {
            allowed: reason.is_some(),
            reason: reason.unwrap_or(why),
        }
    }

    /// [`Self::authorize`] for a request of `user` itself: the decision is recorded.
    pub(crate) fn decide(&self, user: &User, wanted: &Attributes) -> Decision {
        let decision = self.authorize(user, wanted);
        if let Some(audit) = &self.audit {
            audit(&wanted.audited(user, decision.allowed));
        }
        decision
    }

    /// Returns a 403 if the user does not have the permission.
    pub(crate) fn check_allowed(&self, user: &User, wanted: &Attributes) -> Result<()> {
        let Decision { allowed, reason } = self.decide(user, wanted);
        if allowed {
            Ok(())
        } else {
            Err(wanted.forbidden(user, &reason))
        }
    }

    /// A PUT that creates needs the right to create.
    pub(crate) fn check_create_on_update(&self, call: &Call) -> Result<()> {
        let Call { res, namespace, .. } = call;
        let wanted = Attributes::on_resource("create", &res.group, &res.plural, namespace, call.name());
        self.check_allowed(&call.user, &wanted)
    }

    /// All rules that `user` has in a namespace (and in the cluster).
    pub(crate) fn held_rules(&self, user: &User, namespace: &str) -> UserRules {
        let mut held = UserRules::default();
        if self.authorization == Authorization::AlwaysAllow {
            held.rules.extend(Rule::everything());
            return held;
        }
        self.visit_rules(user, namespace, |found| {
            match found {
                Ok((_, rules)) => held.rules.extend(rules),
                Err(error) => held.add_error(error),
            }
            true
        });
        held
    }

    /// The rules of the role that a binding refers to.
    pub(crate) fn rules_of_role(&self, reference: &Value, namespace: &str) -> Result<Vec<Rule>, String> {
        let name = reference["name"].as_str().unwrap_or_default();
        let (kind, role) = match reference["kind"].as_str() {
            Some("Role") => ("role", self.store.get(ROLES, &meta::key(namespace, name))),
            _ => (
                "clusterrole",
                self.store
                    .get(crate::controllers::role_aggregation::COLLECTION, name),
            ),
        };
        let role = role.ok_or_else(|| format!("{kind}.{GROUP} {name:?} not found"))?;
        Ok(Rule::of(role.value()))
    }

    /// Shows the rules of each binding that applies, until `visit` has seen enough.
    fn visit_rules(
        &self,
        user: &User,
        namespace: &str,
        mut visit: impl FnMut(Result<(String, Vec<Rule>), String>) -> bool,
    ) {
        let mut scopes = vec![(CLUSTER_BINDINGS, "ClusterRoleBinding", "")];
        if !namespace.is_empty() {
            scopes.push((BINDINGS, "RoleBinding", namespace));
        }
        for (collection, kind, namespace) in scopes {
            let prefix = meta::key(namespace, "");
            for binding in self.objects(collection, &prefix) {
                let binding = binding.value();
                let subjects = binding["subjects"].as_array();
                let mut subjects = subjects.into_iter().flatten();
                let Some(subject) = subjects.find(|subject| is_about(subject, user, namespace)) else {
                    continue;
                };
                let found = self.rules_of_role(&binding["roleRef"], namespace);
                let found = found.map(|rules| (described(kind, binding, subject, namespace), rules));
                if !visit(found) {
                    return;
                }
            }
        }
    }
}

/// Whether a subject of a binding stands for the user.
fn is_about(subject: &Value, user: &User, namespace: &str) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("User") => user.name == name,
        Some("Group") => user.groups.iter().any(|group| group == name),
        Some("ServiceAccount") => {
            let home = subject["namespace"].as_str().unwrap_or(namespace);
            service_account_of(&user.name) == Some((home, name))
        }
        _ => false,
    }
}

/// A binding for people.
fn described(kind: &str, binding: &Value, subject: &Value, namespace: &str) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let full = |name: &str, namespace: &str| match namespace {
        "" => name.to_owned(),
        namespace => format!("{name}/{namespace}"),
    };
    let role = &binding["roleRef"];
    let mut who = text(&subject["name"]);
    if subject["kind"] == "ServiceAccount" {
        let home = subject["namespace"].as_str().unwrap_or(namespace);
        who = format!("{who}/{home}");
    }
    format!(
        "{kind} {:?} of {} {:?} to {} {who:?}",
        full(meta::name(binding), namespace),
        text(&role["kind"]),
        text(&role["name"]),
        text(&subject["kind"]),
    )
}

/// A refusal to grant what one does not have.
pub(crate) fn not_held(user: &User, held: &UserRules, missing: &[Rule]) -> String {
    let mut message = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        crate::authz::quoted(&user.groups),
        crate::authz::describe(missing)
    );
    if !held.errors.is_empty() {
        message = format!("{message}; resolution errors: [{}]", held.error());
    }
    message
}

/// The answer of the real server to a binding that refers to no role: in the name of bindings.
pub(crate) fn no_such_role(call: &Call, reference: &Value) -> ApiError {
    ApiError::not_found(&call.res, reference["name"].as_str().unwrap_or_default())
}
