//! The connect subresources of pods: `log`, `exec`, `attach`, `portforward` and `proxy`.
//!
//! Mirrors `pkg/registry/core/pod` on a cluster with unreachable kubelets, because the sandbox does not run containers.

use http::Method;

use crate::endpoints::{Api, Body, Call, Reply};
use crate::json::Value;
use crate::registry;
use crate::registry::json::{list, text};
use crate::status::{ApiError, Result};

const NO_CONTAINERS: &str = "the sandbox runs no containers";

impl Api {
    /// Handles a request to a connect subresource.
    pub(crate) fn connect(&self, method: &Method, subresource: &str, call: &Call) -> Result<Reply> {
        let allowed = match subresource {
            "log" => method == Method::GET,
            "proxy" => true,
            _ => matches!(*method, Method::GET | Method::POST),
        };
        if !allowed {
            return Err(ApiError::method_not_allowed());
        }
        // The proxy accepts `name`, `name:port` and `scheme:name:port`.
        let name = match call.name().split(':').collect::<Vec<_>>().as_slice() {
            [name] | [name, _] | [_, name, _] if subresource == "proxy" => (*name).to_owned(),
            _ => call.name().to_owned(),
        };
        let key = crate::meta::key(&call.namespace, &name);
        let pod = self.store.get(&call.res.collection, &key);
        let pod = pod.ok_or_else(|| ApiError::not_found(&call.res, &name))?;
        let pod = pod.value();
        if subresource == "proxy" {
            if text(&pod["status"]["podIP"]).is_empty() {
                return Err(ApiError::bad_request("address not allowed"));
            }
            let message = format!("error trying to reach service: {NO_CONTAINERS}");
            return Err(ApiError::with_reason(503, "ServiceUnavailable", message, None));
        }
        if subresource != "portforward" {
            check_container(call.query.get("container").unwrap_or_default(), &name, pod)?;
        }
        let node = text(&pod["spec"]["nodeName"]);
        if node.is_empty() {
            return match subresource {
                "log" => Ok(Reply {
                    code: 204,
                    body: Body::Empty,
                    warnings: Vec::new(),
                }),
                _ => Err(ApiError::bad_request(format!(
                    "pod {name} does not have a host assigned"
                ))),
            };
        }
        if let (None, Some(nodes)) = (
            self.store.get("nodes", node),
            registry::built_in("", "v1", "nodes"),
        ) {
            return Err(ApiError::not_found(nodes, node));
        }
        Err(ApiError::internal(format!(
            "{NO_CONTAINERS}: node {node:?} has no kubelet that serves {subresource:?} of pod {name:?}"
        )))
    }
}

/// Checks that the request names a container of the pod, or that the pod has only one.
fn check_container(asked: &str, name: &str, pod: &Value) -> Result<()> {
    let spec = &pod["spec"];
    let all = ["initContainers", "containers", "ephemeralContainers"];
    let names: Vec<&str> = all
        .iter()
        .flat_map(|kind| list(&spec[*kind]))
        .map(|container| text(&container["name"]))
        .collect();
    if asked.is_empty() && list(&spec["containers"]).len() != 1 {
        return Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            names.join(" ")
        )));
    }
    if !asked.is_empty() && !names.contains(&asked) {
        return Err(ApiError::bad_request(format!(
            "container {asked} is not valid for pod {name}"
        )));
    }
    Ok(())
}
