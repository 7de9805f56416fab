//! Webhook configurations and the `caBundle` by which the API server verifies the serving certificate.
//!
//! Only the `caBundle` of webhooks that reference the Service is changed.

use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ServiceName;
use super::key_pair::Authority;
use crate::object::decode::null_is_default;
use crate::object::{Meta, Resource, Version};

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

/// The webhooks of one configuration that reference the Service.
#[derive(Debug)]
pub(crate) struct Configuration {
    metadata: Meta,
    /// Name and `caBundle` of each webhook.
    webhooks: Vec<(String, Vec<u8>)>,
}

#[derive(Deserialize)]
pub(crate) struct RawConfiguration {
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
    pub(crate) fn new(
        RawConfiguration { metadata, webhooks }: RawConfiguration,
        service: &ServiceName,
    ) -> Self {
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

    /// Reports whether any webhook references the Service.
    pub(crate) fn targets_service(&self) -> bool {
        !self.webhooks.is_empty()
    }

    /// Reports whether every webhook has exactly this bundle.
    pub(crate) fn has_bundle(&self, bundle: &str) -> bool {
        self.webhooks.iter().all(|(_, it)| it == bundle.as_bytes())
    }

    /// Returns the CAs that the webhooks trust.
    pub(crate) fn authorities(&self) -> Vec<Authority> {
        let all = self.webhooks.iter();
        all.flat_map(|(_, bundle)| Authority::read_all(bundle)).collect()
    }

    /// Returns the strategic merge patch that sets the bundle. It fails with 409 Conflict if the configuration has changed.
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
    fn patch_sets_only_differing_bundles_of_own_webhooks() {
        let bundle = |text: &str| ByteString(text.as_bytes().to_vec());
        assert_eq!(
            configuration().patch("yes"),
            json!({
                "metadata": {"uid": "u", "resourceVersion": "7"},
                "webhooks": [{"name": "a.x.y", "clientConfig": {"caBundle": bundle("yes")}}],
            })
        );
        assert!(!configuration().has_bundle("yes") && configuration().targets_service());
    }

    #[test]
    fn configuration_without_own_webhooks_has_any_bundle() {
        for stored in [json!({}), json!({"webhooks": null})] {
            let stored = serde_json::from_value(stored).expect("a configuration");
            let configuration = Configuration::new(stored, &service());
            assert!(configuration.has_bundle("anything") && !configuration.targets_service());
        }
    }
}
