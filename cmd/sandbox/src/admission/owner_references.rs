//! The admission plugin `OwnerReferencesPermissionEnforcement`.
//!
//! A change of the ownerReferences of an existing object requires the permission to delete the object. A new reference with
//! `blockOwnerDeletion` requires the permission to update the finalizers of the owner.

use crate::authz::Attributes;
use crate::endpoints::{Api, Call};
use crate::json::Value;
use crate::meta;
use crate::status::{ApiError, Result};

impl Api {
    /// Rejects a write of ownerReferences without the required permissions. `old` is null for a create.
    pub(crate) fn check_owner_references(&self, call: &Call, old: &Value, new: &Value) -> Result<()> {
        let (before, after) = (references(old), references(new));
        if !self.enforce_owner_references || before == after {
            return Ok(());
        }
        let forbidden = |why: String| ApiError::forbidden(&call.res, meta::name(new), &why);
        if !old.is_null() {
            let res = &call.res;
            let delete =
                Attributes::on_resource("delete", &res.group, &res.plural, &call.namespace, call.name());
            let decision = self.decide(&call.user, &delete);
            if !decision.allowed {
                let why = "cannot set an ownerRef on a resource you can't delete";
                return Err(forbidden(format!("{why}: {}, <nil>", decision.reason)));
            }
        }
        let blocks = |it: &&Value| it["blockOwnerDeletion"] == true;
        let is_new = |it: &&Value| {
            let same = |other: &&Value| other["uid"] == it["uid"] && blocks(other);
            !before.iter().any(|other| same(&other))
        };
        for reference in after.iter().filter(blocks).filter(is_new) {
            let text = |key: &str| reference[key].as_str().unwrap_or_default();
            let (version, kind) = (text("apiVersion"), text("kind"));
            let registry = self.registry();
            let found = registry
                .all()
                .iter()
                .find(|it| it.kind == kind && it.api_version() == version);
            let Some(owner) = found else {
                return Err(forbidden(format!(
                    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} \
                     Kind {kind}: no matches for kind {kind:?} in version {version:?}"
                )));
            };
            let namespace = if owner.namespaced { &*call.namespace } else { "" };
            let update =
                Attributes::on_resource("update", &owner.group, &owner.plural, namespace, text("name"))
                    .on_subresource("finalizers");
            let decision = self.decide(&call.user, &update);
            if !decision.allowed {
                let why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on";
                return Err(forbidden(format!("{why}: {}, <nil>", decision.reason)));
            }
        }
        Ok(())
    }
}

fn references(object: &Value) -> &[Value] {
    object["metadata"]["ownerReferences"]
        .as_array()
        .unwrap_or_default()
}
