//! The admission plugin `ServiceAccount`: every new pod gets a service account and mounts a token of it.
//!
//! Mirrors `plugin/pkg/admission/serviceaccount`. Off by default: [`crate::Options::service_account_admission`].

use crate::endpoints::Api;
use crate::json::{List, Value, json};
use crate::meta;
use crate::registry::json::{list, section, set, text};
use crate::resource::Resource;
use crate::status::{ApiError, Result};

const VOLUME_PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl Api {
    /// Sets the service account of a new pod, or rejects a pod whose account does not exist.
    pub(crate) fn set_service_account(&self, res: &Resource, namespace: &str, pod: &mut Value) -> Result<()> {
        let is_mirror = !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null();
        if !self.service_account_admission || is_mirror {
            return Ok(());
        }
        let pod_name = meta::name(pod).to_owned();
        let Some(spec) = section(pod, "spec") else {
            return Ok(());
        };
        let name = match text(&spec["serviceAccountName"]) {
            "" => "default".to_owned(),
            name => name.to_owned(),
        };
        let Some(account) = self.store.get("serviceaccounts", &meta::key(namespace, &name)) else {
            let why = format!(
                "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
            );
            return Err(ApiError::forbidden(res, &pod_name, &why));
        };
        let account = account.value();
        for field in ["serviceAccountName", "serviceAccount"] {
            set(spec, field, name.clone());
        }
        let choices = [
            &spec["automountServiceAccountToken"],
            &account["automountServiceAccountToken"],
        ];
        if choices.iter().find_map(|choice| choice.as_bool()).unwrap_or(true) {
            let key = meta::key(namespace, &pod_name);
            mount_token(spec, || self.env.name_suffix("volumes", &key));
        }
        if list(&spec["imagePullSecrets"]).is_empty() && !list(&account["imagePullSecrets"]).is_empty() {
            set(spec, "imagePullSecrets", account["imagePullSecrets"].clone());
        }
        Ok(())
    }
}

/// Mounts the projected token volume into every container that mounts nothing at its path.
fn mount_token(spec: &mut Value, suffix: impl Fn() -> String) {
    let volumes = list(&spec["volumes"]).iter();
    let present = volumes
        .map(|volume| text(&volume["name"]))
        .find(|name| name.starts_with(VOLUME_PREFIX));
    let present = present.map(str::to_owned);
    let name = present
        .clone()
        .unwrap_or_else(|| format!("{VOLUME_PREFIX}{}", suffix()));
    let mut mounted = false;
    for kind in ["initContainers", "containers"] {
        for container in spec[kind].as_array_mut().into_iter().flat_map(List::make_mut) {
            let mut mounts = list(&container["volumeMounts"]).to_vec();
            if !mounts.iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
                set(container, "volumeMounts", mounts);
                mounted = true;
            }
        }
    }
    if mounted && present.is_none() {
        let mut volumes = list(&spec["volumes"]).to_vec();
        let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
        volumes.push(json!({"name": name, "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
            ],
        }}));
        set(spec, "volumes", volumes);
    }
}
