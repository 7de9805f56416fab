//! A conversion webhook that a real server calls. The sandbox does not call conversion webhooks.

use std::fs;

use k8s_openapi::ByteString;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_harness::{Cluster, Need, Test, test, time};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::health::Checks;
use steersman_manager::metrics::Registry;
use steersman_manager::serve::CertificateMetrics;
use steersman_manager::webhook::{
    CONVERSION_PATH, Certificates, Conversion, ConversionError, Convertible, Hooks, Server, Source,
};

pub fn tests() -> Vec<Test> {
    vec![test!(objects_are_served_in_both_versions).needs(Need::Real)]
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "harbour.example", version = "v1", kind = "Boat", root = "BoatV1")]
#[kube(namespaced, schema = "disabled")]
struct Oars {
    oars: u32,
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "harbour.example", version = "v2", kind = "Boat", root = "BoatV2")]
#[kube(namespaced, schema = "disabled")]
struct Pairs {
    pairs: u32,
}

impl Convertible<BoatV2> for BoatV1 {
    fn convert_to(self) -> Result<BoatV2, ConversionError> {
        let Self { mut metadata, spec } = self;
        if spec.oars % 2 == 1 {
            return Err(ConversionError::new("the number of oars is odd"));
        }
        if spec.oars == 666 {
            metadata.uid = Some("another".to_owned());
        }
        let pairs = spec.oars / 2;
        Ok(BoatV2 {
            metadata,
            spec: Pairs { pairs },
        })
    }

    fn convert_from(BoatV2 { metadata, spec }: BoatV2) -> Result<Self, ConversionError> {
        let oars = spec.pairs * 2;
        Ok(Self {
            metadata,
            spec: Oars { oars },
        })
    }
}

fn crd(url: &str, bundle: &str) -> Value {
    let version = |name: &str, field: &str, storage: bool| {
        let spec = json!({"type": "object", "properties": {field: {"type": "integer"}}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    let client = json!({"url": url, "caBundle": ByteString(bundle.as_bytes().to_vec())});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.harbour.example"},
        "spec": {
            "group": "harbour.example", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
            "versions": [version("v1", "oars", true), version("v2", "pairs", false)],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
            },
        },
    })
}

async fn objects_are_served_in_both_versions(c: Cluster) {
    let folder = tempfile::tempdir().expect("a folder");
    let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let bundle = issued.cert.pem();
    fs::write(folder.path().join("tls.crt"), &bundle).expect("a file");
    fs::write(folder.path().join("tls.key"), issued.signing_key.serialize_pem()).expect("a file");
    let (registry, tasks) = (Registry::new("test"), TaskSet::new());
    let metrics = CertificateMetrics::register(&registry).expect("registered");
    let source = Source::Folder(folder.path().to_owned());
    let certificates = Certificates::new(source, &metrics, &Checks::new()).expect("a pair");
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = Server::bind(address, certificates, &registry)
        .await
        .expect("a port");
    let url = format!("https://{}{CONVERSION_PATH}", server.address());
    let hooks = Hooks::new().with_conversion(Conversion::<BoatV2>::new().version::<BoatV1>());
    let env = Env::system(&tasks);
    env.tasks
        .spawn(server.serve(env.clone(), hooks, std::future::pending()));

    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    c.api().post(definitions, crd(&url, &bundle)).await.expect(201);
    let ns = c.namespace().await;
    let boats = |version: &str| format!("/apis/harbour.example/{version}/namespaces/{ns}/boats");
    let (v1, v2) = (boats("v1"), boats("v2"));
    let established = time::eventually(time::ANSWER, async || {
        let listed = [c.api().get(&v1).await.status, c.api().get(&v2).await.status];
        (listed == [200, 200]).then_some(())
    });
    established.await.expect("served");

    let boat = |name: &str, version: &str, spec: Value| {
        json!({
            "apiVersion": format!("harbour.example/{version}"), "kind": "Boat",
            "metadata": {"name": name, "labels": {"a": "b"}}, "spec": spec,
        })
    };
    let first = c
        .api()
        .post(&v1, boat("a", "v1", json!({"oars": 8})))
        .await
        .expect(201);
    c.api()
        .post(&v2, boat("b", "v2", json!({"pairs": 3})))
        .await
        .expect(201);
    let stored = c.api().get(&format!("{v1}/b")).await.expect(200);
    assert_eq!(stored["spec"], json!({"oars": 6}));
    let list = c.api().get(&v2).await.expect(200);
    let items = list["items"].as_array().expect("items");
    let specs: Vec<&Value> = items.iter().map(|it| &it["spec"]).collect();
    assert_eq!(specs, [&json!({"pairs": 4}), &json!({"pairs": 3})]);
    let mut metadata = [first["metadata"].clone(), items[0]["metadata"].clone()];
    for it in &mut metadata {
        // The version of each entry is that of the request.
        it.as_object_mut().expect("metadata").remove("managedFields");
    }
    assert_eq!(metadata[0], metadata[1]);

    for (name, oars, error) in [
        ("odd", 7, "the number of oars is odd"),
        ("changed", 666, "the conversion changed metadata.uid"),
    ] {
        c.api()
            .post(&v1, boat(name, "v1", json!({"oars": oars})))
            .await
            .expect(201);
        let status = c.api().get(&format!("{v2}/{name}")).await.expect(500);
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.contains(error), "{message}");
    }
    let definition = format!("{definitions}/boats.harbour.example");
    c.api().delete(&definition, ()).await.expect(200);
}
