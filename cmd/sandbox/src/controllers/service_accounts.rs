//! What every namespace has: the service account `default`, and the certificate authority that pods trust.
//!
//! On a cluster two controllers make them, and make them again when they are deleted. There are none here, so the API
//! does it itself, in the request that makes the namespace or deletes the object.

use serde_json::{Value, json};

use crate::endpoints::{Api, decode};
use crate::resource::Resource;

const ACCOUNTS: &str = "serviceaccounts";
const DEFAULT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";

impl Api {
    /// Puts into a new namespace what every one has.
    pub(crate) fn furnish_namespace(&self, namespace: &str) {
        self.make(ACCOUNTS, namespace, json!({"metadata": {"name": DEFAULT}}));
        if let Some(pem) = &self.root_ca {
            let note = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
                        such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
                        distributions of Kubernetes clusters.";
            let annotations = json!({"kubernetes.io/description": note});
            let metadata = json!({"name": ROOT_CA, "annotations": annotations});
            self.make(
                "configmaps",
                namespace,
                json!({"metadata": metadata, "data": {"ca.crt": pem}}),
            );
        }
    }

    /// Puts it back when it was removed, unless the namespace goes too.
    pub(crate) fn refurnish_namespace(&self, res: &Resource, namespace: &str, removed: &str) {
        let name = removed.rsplit('/').next().unwrap_or_default();
        if matches!(
            (res.collection.as_str(), name),
            (ACCOUNTS, DEFAULT) | ("configmaps", ROOT_CA)
        ) {
            self.furnish_namespace(namespace);
        }
    }

    fn make(&self, plural: &str, namespace: &str, object: Value) {
        let Some(res) = self.registry().find("", "v1", plural) else {
            return;
        };
        let decoded = decode::object(
            &res,
            object,
            Vec::new(),
            decode::FieldValidation::Ignore,
            decode::Stage::Sent,
        );
        let made = decoded.and_then(|d| self.create_object(&res, namespace, d.value, false));
        // One that is there already is as good, and a namespace that goes needs none.
        if let Err(error) = made
            && !matches!(error.code, 403 | 404 | 409)
        {
            tracing::error!(
                resource = plural,
                namespace,
                error = error.message,
                "Could not create an object of a namespace"
            );
        }
    }
}
