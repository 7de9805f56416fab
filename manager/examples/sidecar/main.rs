//! Admission webhooks: pods with an annotation get a sidecar container. `webhooks.yaml` registers them.

use std::process::ExitCode;

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;
use steersman_manager::client::Cause;
use steersman_manager::manager::Manager;
use steersman_manager::webhook::{
    AdmissionRequest, Denial, Hooks, Operation, ServiceCertificate, ServiceName, Source,
};

#[cfg(test)]
mod tests;

/// The annotation that contains the image of the sidecar container.
const ANNOTATION: &str = "demo.dev/sidecar";
/// The name of the sidecar container.
const CONTAINER: &str = "sidecar";

/// Adds the sidecar container. The API server may call it again on the changed pod.
fn inject(pod: &mut Pod, request: &AdmissionRequest) {
    let image = pod.annotations().get(ANNOTATION).cloned();
    // The containers of an existing pod are immutable. The validating webhook rejects an invalid image.
    let image = image.filter(|it| request.operation == Operation::Create && is_image(it));
    let (Some(image), Some(spec)) = (image, &mut pod.spec) else {
        return;
    };
    let containers = spec.init_containers.get_or_insert_default();
    if containers.iter().all(|it| it.name != CONTAINER) {
        containers.push(Container {
            name: CONTAINER.to_owned(),
            image: Some(image),
            // An init container that always restarts is a sidecar container.
            restart_policy: Some("Always".to_owned()),
            ..Container::default()
        });
    }
}

/// Rejects pods whose annotation is not an image.
fn validate(pod: &Pod, request: &AdmissionRequest) -> Result<Vec<String>, Denial> {
    match pod.annotations().get(ANNOTATION) {
        Some(image) if !is_image(image) => {
            let cause = Cause {
                reason: "FieldValueInvalid".to_owned(),
                message: format!("Invalid value: {image:?}: must be an image, such as example.com/agent:1.0"),
                field: format!("metadata.annotations[{ANNOTATION}]"),
            };
            Err(Denial::invalid("Pod", &request.name, vec![cause]))
        }
        _ => Ok(Vec::new()),
    }
}

/// Returns true if the text looks like the name of an image, perhaps with a tag or a digest.
fn is_image(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.bytes().all(is_allowed)
}

fn hooks() -> Hooks {
    Hooks::new()
        .with_defaulter(|pod: &mut Pod, request: &AdmissionRequest| {
            inject(pod, request);
            Ok(())
        })
        .with_validator::<Pod>(validate)
}

/// Returns the certificate that the leader issues for the Service of the webhooks.
fn certificate() -> Source {
    Source::Service(ServiceCertificate::new(ServiceName {
        namespace: "sidecar-system".to_owned(),
        name: "sidecar".to_owned(),
    }))
}

#[tokio::main]
async fn main() -> ExitCode {
    Manager::builder("sidecar")
        .leader_election("sidecar-system", "sidecar")
        .endpoints("0.0.0.0:8443")
        .webhooks("0.0.0.0:9443", certificate(), hooks())
        .run()
        .await
}
