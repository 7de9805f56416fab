//! Privilege escalation prevention: a user can grant only permissions that the user has.
//!
//! The verb `escalate` on a role, or `bind` on the role of a binding, lifts the check.

use crate::authn::Authorization;
use crate::authz::authorize::{GROUP, no_such_role, not_held};
use crate::authz::{Attributes, Rule, uncovered};
use crate::endpoints::{Api, Call};
use crate::json::Value;
use crate::meta;
use crate::status::{ApiError, Result};

impl Api {
    /// Refuses a write that would give more than the writer has. `old` is null for a create.
    pub(crate) fn check_escalation(&self, call: &Call, old: &Value, new: &Value) -> Result<()> {
        let always = self.authorization == Authorization::AlwaysAllow || call.user.is_master();
        if always || call.res.group != GROUP || only_gc_fields(old, new) {
            return Ok(());
        }
        match call.res.kind.as_str() {
            "Role" | "ClusterRole" => self.check_role(call, old, new),
            _ => self.check_binding(call, new),
        }
    }

    fn check_role(&self, call: &Call, old: &Value, new: &Value) -> Result<()> {
        let (plural, namespace) = (&call.res.plural, &call.namespace);
        let escalate = Attributes::on_resource("escalate", GROUP, plural, namespace, call.name());
        if self.authorize(&call.user, &escalate).allowed {
            return Ok(());
        }
        self.check_held(call, meta::name(new), &Rule::of(new))?;
        let aggregates = |role: &Value| {
            let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
            selectors.is_some_and(|selectors| !selectors.is_empty())
        };
        if aggregates(old) || aggregates(new) {
            let held = self.held_rules(&call.user, namespace);
            if !uncovered(&held.rules, &Rule::everything()).is_empty() {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(ApiError::forbidden(&call.res, meta::name(new), why));
            }
        }
        Ok(())
    }

    fn check_binding(&self, call: &Call, new: &Value) -> Result<()> {
        let role = &new["roleRef"];
        let text = |key: &str| role[key].as_str().unwrap_or_default();
        let resource = match text("kind") {
            "Role" => "roles",
            "ClusterRole" => "clusterroles",
            // Validation refuses it.
            _ => return Ok(()),
        };
        let bind = Attributes::on_resource("bind", text("apiGroup"), resource, &call.namespace, text("name"));
        if self.authorize(&call.user, &bind).allowed {
            return Ok(());
        }
        let rules = self
            .rules_of_role(role, &call.namespace)
            .map_err(|_| no_such_role(call, role))?;
        self.check_held(call, meta::name(new), &rules)
    }

    fn check_held(&self, call: &Call, name: &str, wanted: &[Rule]) -> Result<()> {
        let held = self.held_rules(&call.user, &call.namespace);
        let missing = uncovered(&held.rules, wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let why = not_held(&call.user, &held, &missing);
        Err(ApiError::forbidden(&call.res, name, &why))
    }
}

/// Whether an update changes no more than the garbage collector would.
fn only_gc_fields(old: &Value, new: &Value) -> bool {
    if old.is_null() {
        return false;
    }
    let essence = |object: &Value| {
        let mut object = object.clone();
        for field in ["ownerReferences", "finalizers"] {
            meta::set(&mut object, field, Value::Null);
        }
        object
    };
    essence(old) == essence(new)
}
