//! The objects of every cluster: initial namespaces, system priority classes, the RBAC bootstrap policy, and the Service
//! `kubernetes`. Mirrors the post-start hooks of kube-apiserver; `bootstrap.yaml` lists the objects.

use std::sync::LazyLock;

use crate::authn::Authorization;
use crate::authz::authorize::GROUP;
use crate::endpoints::{Api, Written, decode};
use crate::json::{Value, json};
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::{fieldmanager, meta, registry, yaml};

static OBJECTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let documents = yaml::documents(include_str!("bootstrap.yaml"));
    documents.flatten().map(|document| document.value).collect()
});

impl Api {
    /// Creates the objects that every cluster has.
    pub(crate) fn bootstrap(&self) {
        for object in OBJECTS.iter() {
            if let Err(error) = self.create_initial(object.clone()) {
                let (kind, name) = (object["kind"].as_str(), meta::name(object));
                tracing::error!(
                    kind,
                    name,
                    error = error.message,
                    "Failed to create an initial object"
                );
            }
        }
    }

    fn create_initial(&self, mut object: Value) -> Result<()> {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let mut built_in = registry::all().iter();
        let found = built_in.find(|res| object["kind"] == res.kind && api_version == res.api_version());
        let res = found.ok_or_else(ApiError::no_such_resource)?;
        if res.group == GROUP {
            if self.authorization != Authorization::Rbac {
                return Ok(());
            }
            meta::set_path(
                &mut object,
                "metadata.annotations",
                json!({"rbac.authorization.kubernetes.io/autoupdate": "true"}),
            );
            let mut labels = object["metadata"]["labels"].take();
            labels["kubernetes.io/bootstrapping"] = "rbac-defaults".into();
            meta::set_path(&mut object, "metadata.labels", labels);
        }
        let mut object = decoded(res, object)?;
        fieldmanager::track_create(res, &self.server(""), self.created_fields.as_ref(), &mut object);
        if res.kind != "PriorityClass" {
            let namespace = meta::namespace(&object).to_owned();
            return self.create_object(res, &namespace, object, false).map(drop);
        }
        // Validation reserves the names of these classes.
        self.fill_system_fields(res, "", &mut object);
        registry::prepare_create(res, &mut object);
        let name = meta::name(&object).to_owned();
        let stored = self
            .store
            .create(&res.collection, &name, Self::draft(res, object), &[]);
        stored
            .map(drop)
            .map_err(|error| ApiError::internal(error.to_string()))
    }

    /// Creates an object of a built-in controller, which is not validated for unknown fields.
    pub(super) fn create_own(&self, res: &Resource, namespace: &str, object: Value) -> Result<Written> {
        self.create_object(res, namespace, decoded(res, object)?, false)
    }
}

fn decoded(res: &Resource, object: Value) -> Result<Value> {
    let (ignore, sent) = (decode::FieldValidation::Ignore, decode::Stage::Sent);
    Ok(decode::object(res, object, None, Vec::new(), ignore, sent)?.value)
}
