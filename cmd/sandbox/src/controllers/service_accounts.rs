//! The objects of every namespace: the service account controller creates the `ServiceAccount` `default`, the root CA
//! publisher the `ConfigMap` `kube-root-ca.crt`. Both create their object again after it was deleted.

use crate::admission::namespace_lifecycle::NAMESPACES;
use crate::controllers::InternalController;
use crate::endpoints::Api;
use crate::json::{Value, json};
use crate::resource::Resource;
use crate::{meta, registry};

const ACCOUNTS: &str = "serviceaccounts";
const MAPS: &str = "configmaps";
const DEFAULT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";

impl Api {
    /// Creates the default objects of a namespace, unless the controller is delayed.
    pub(crate) fn create_namespace_defaults(&self, namespace: &str) {
        if !self.is_delayed(InternalController::NamespaceDefaults) {
            self.create_defaults(namespace);
        }
    }

    /// Creates a default object again after its removal.
    pub(crate) fn recreate_namespace_defaults(&self, res: &Resource, namespace: &str, removed: &str) {
        let name = removed.rsplit('/').next().unwrap_or_default();
        if matches!(
            (res.collection.as_str(), name),
            (ACCOUNTS, DEFAULT) | (MAPS, ROOT_CA)
        ) {
            self.create_namespace_defaults(namespace);
        }
    }

    /// Creates the missing default objects of all active namespaces.
    pub(super) fn create_all_namespace_defaults(&self) {
        let objects = self.objects(NAMESPACES, "");
        for namespace in objects.iter().filter(|it| !it.terminating) {
            self.create_defaults(&namespace.key);
        }
    }

    fn create_defaults(&self, namespace: &str) {
        self.create_missing(
            ACCOUNTS,
            namespace,
            DEFAULT,
            json!({"metadata": {"name": DEFAULT}}),
        );
        if let Some(pem) = &self.root_ca {
            let note = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
                        such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
                        distributions of Kubernetes clusters.";
            let annotations = json!({"kubernetes.io/description": note});
            let metadata = json!({"name": ROOT_CA, "annotations": annotations});
            let map = json!({"metadata": metadata, "data": {"ca.crt": pem}});
            self.create_missing(MAPS, namespace, ROOT_CA, map);
        }
    }

    fn create_missing(&self, plural: &str, namespace: &str, name: &str, object: Value) {
        if self.store.get(plural, &meta::key(namespace, name)).is_some() {
            return;
        }
        let Some(res) = registry::built_in("", "v1", plural) else {
            return;
        };
        // AlreadyExists: a concurrent request created it. Forbidden, NotFound: the namespace is terminating or gone.
        if let Err(error) = self.create_own(res, namespace, object)
            && !matches!(error.code, 403 | 404 | 409)
        {
            tracing::error!(
                resource = plural,
                namespace,
                error = error.message,
                "Failed to create a default object of a namespace"
            );
        }
    }
}
