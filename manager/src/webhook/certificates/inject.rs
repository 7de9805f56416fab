//! The configurations that tell the API server of the webhooks, and the bundles in them that it verifies our certificate with.
//!
//! Of a configuration only the webhooks are touched that lead to our Service, and of those only `caBundle`.

use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ServiceName;
use super::pair::Authority;
use crate::client::Patch;
use crate::object::decode::null_is_default;
use crate::object::{Meta, Resource, Version};

/// Both kinds.
pub(crate) const CONFIGURATIONS: [Resource; 2] = [
    Resource::cluster(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    ),
    Resource::cluster(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    ),
];

/// A configuration, as far as it leads to us.
#[derive(Debug)]
pub(crate) struct Configuration {
    metadata: Meta,
    /// Name and bundle of each webhook.
    webhooks: Vec<(String, Vec<u8>)>,
}

/// A configuration as it is read.
#[derive(Deserialize)]
pub(crate) struct Stored {
    #[serde(default)]
    metadata: Meta,
    #[serde(default, deserialize_with = "null_is_default")]
    webhooks: Vec<Webhook>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    client_config: ClientConfig,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClientConfig {
    service: Option<ServiceName>,
    #[serde(deserialize_with = "null_is_default")]
    ca_bundle: ByteString,
}

impl Configuration {
    pub(crate) fn new(Stored { metadata, webhooks }: Stored, service: &ServiceName) -> Self {
        let ours = webhooks
            .into_iter()
            .filter(|it| it.client_config.service.as_ref() == Some(service));
        Self {
            webhooks: ours.map(|it| (it.name, it.client_config.ca_bundle.0)).collect(),
            metadata,
        }
    }

    pub(crate) fn version(&self) -> &Version {
        &self.metadata.resource_version
    }

    /// Whether any of its webhooks leads to us.
    pub(crate) fn is_ours(&self) -> bool {
        !self.webhooks.is_empty()
    }

    /// Whether each of its webhooks has exactly this bundle.
    pub(crate) fn carries(&self, bundle: &str) -> bool {
        self.webhooks.iter().all(|(_, it)| it == bundle.as_bytes())
    }

    /// Whom its webhooks trust.
    pub(crate) fn authorities(&self) -> Vec<Authority> {
        let all = self.webhooks.iter();
        all.flat_map(|(_, bundle)| Authority::read_all(bundle)).collect()
    }

    /// The write after which it [carries](Configuration::carries) the bundle, good for what was read and for nothing newer.
    pub(crate) fn patch(&self, bundle: &str) -> Value {
        let Meta {
            uid,
            resource_version,
            ..
        } = &self.metadata;
        let differ = self.webhooks.iter().filter(|(_, it)| it != bundle.as_bytes());
        let webhooks = differ.map(|(name, _)| {
            let bundle = ByteString(bundle.as_bytes().to_vec());
            json!({"name": name, "clientConfig": {"caBundle": bundle}})
        });
        json!({
            "metadata": {"uid": uid, "resourceVersion": resource_version},
            "webhooks": webhooks.collect::<Vec<_>>(),
        })
    }
}

/// Webhooks are merged by their names.
pub(crate) fn as_patch(patch: &Value) -> Patch {
    Patch::strategic(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> ServiceName {
        "system/hooks".parse().expect("a service")
    }

    fn configuration() -> Configuration {
        let stored = json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7"},
            "webhooks": [
                {"name": "a.x.y", "clientConfig": {"service": {"namespace": "system", "name": "hooks", "port": 1}}},
                {"name": "b.x.y", "clientConfig": {"service": {"namespace": "system", "name": "other"}}},
                {"name": "c.x.y", "clientConfig": {"url": "https://hooks.system.svc", "caBundle": "bm8="}},
                {"name": "d.x.y", "clientConfig": {
                    "service": {"namespace": "system", "name": "hooks"}, "caBundle": "eWVz",
                }},
            ],
        });
        Configuration::new(
            serde_json::from_value(stored).expect("a configuration"),
            &service(),
        )
    }

    #[test]
    fn only_what_leads_to_us_and_differs_is_written() {
        let bundle = |text: &str| ByteString(text.as_bytes().to_vec());
        assert_eq!(
            configuration().patch("yes"),
            json!({
                "metadata": {"uid": "u", "resourceVersion": "7"},
                "webhooks": [{"name": "a.x.y", "clientConfig": {"caBundle": bundle("yes")}}],
            })
        );
        assert!(!configuration().carries("yes") && configuration().is_ours());
    }

    #[test]
    fn what_has_no_webhooks_of_ours_carries_anything() {
        for stored in [json!({}), json!({"webhooks": null})] {
            let stored = serde_json::from_value(stored).expect("a configuration");
            let configuration = Configuration::new(stored, &service());
            assert!(configuration.carries("anything") && !configuration.is_ours());
        }
    }
}
