//! The webhook server with the hooks of the product, typed hooks, and a conversion.

use coxswain_controllers::appservice;
use coxswain_manager::cache::{Caches, Scope};
use coxswain_manager::client::Transport;
use coxswain_manager::health::Checks;
use coxswain_manager::object::Resource;
use coxswain_manager::serve::CertificateMetrics;
use coxswain_manager::webhook::{self, AdmissionRequest, Certificates, ConversionError, Hooks, Source};
use k8s_openapi::api::apps::v1::Deployment;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Response, Server, response};
use crate::sandbox::corpus;

pub const BOATS: Resource = Resource::namespaced("harbour.example", "v1", "boats", "Boat");

thread_local! {
    static SERVER: Server = Server::start(async |env, registry, folder| {
        let sandbox = corpus::builder().start().expect("a sandbox");
        let transport = Transport::from_service(sandbox.service(), "fuzz", "fuzz", &env.clock, registry).expect("a transport");
        let caches = Caches::new(env, transport.reader("caches", None), Scope::default(), registry).expect("caches");
        let metrics = CertificateMetrics::register(registry).expect("metrics");
        let certificates = Certificates::new(Source::Folder(folder), &metrics, &Checks::new()).expect("a certificate");
        let local = "127.0.0.1:0".parse().expect("an address");
        let server = webhook::Server::bind(local, certificates, registry).await.expect("a free port");
        let address = server.address();
        env.tasks.spawn(server.serve(env.clone(), hooks(&caches), std::future::pending()));
        address
    });
}

fn hooks(caches: &Caches) -> Hooks {
    appservice::hooks(Hooks::new(), caches)
        .with_defaulter(|deployment: &mut Deployment, _: &AdmissionRequest| {
            let spec = deployment.spec.get_or_insert_default();
            spec.min_ready_seconds = spec
                .min_ready_seconds
                .map_or(Some(1), |seconds| Some(seconds.saturating_add(1)));
            let containers = spec.template.spec.get_or_insert_default().containers.iter_mut();
            containers.for_each(|it| it.image = Some("fuzz".to_owned()));
            Ok(())
        })
        .with_validator(|_: &Deployment, _: &AdmissionRequest| Ok(vec!["seen".to_owned()]))
        .converting(&BOATS, |mut object: Value, desired: &str| {
            match object["oars"].as_u64() {
                Some(oars) => {
                    object["apiVersion"] = json!(desired);
                    object["oars"] = json!(oars / 2);
                    Ok(object)
                }
                None => Err(ConversionError::new("the boat has no oars")),
            }
        })
}

/// Posts a review. Returns the response, which is not 500.
pub fn post(path: &[u8], body: &[u8]) -> Result<Option<Response>, String> {
    let path: String = path
        .iter()
        .filter(|it| it.is_ascii_graphic())
        .map(|it| char::from(*it))
        .collect();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let answer = SERVER.with(|server| server.exchange(&[head.as_bytes(), body].concat()))?;
    response(&answer)
}

/// Returns the response of a review that has been decided. It has the uid of the request.
pub fn decided(answer: Option<Response>, body: &[u8], kind: &str) -> Result<Option<Value>, String> {
    let Some(answer) = answer.filter(|it| it.code == 200) else {
        return Ok(None);
    };
    let review: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    // Fields that a decoder skips may be nested deeper than a value.
    #[derive(Deserialize)]
    struct Sent {
        request: Request,
    }
    #[derive(Deserialize)]
    struct Request {
        uid: String,
    }
    let sent = serde_json::from_slice::<Sent>(body).ok();
    let uid = review["response"]["uid"].as_str().filter(|uid| !uid.is_empty());
    if review["kind"] != kind || uid != sent.as_ref().map(|it| it.request.uid.as_str()) {
        return Err(format!("malformed review: {}", answer.body.escape_ascii()));
    }
    Ok(Some(review["response"].clone()))
}
