//! REST storage of the pod subresources `binding` and `eviction`.

use crate::admission::dispatcher::Dispatcher;
use crate::endpoints::delete::DeleteOptions;
use crate::endpoints::{Api, Body, Call, Reply, create};
use crate::field::FieldError;
use crate::json::{Value, json};
use crate::registry::json::{list, section, set, text, with};
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::{meta, registry, schema, selector};

const BUDGETS: &str = "poddisruptionbudgets.policy";
const NO_DISRUPTION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

impl Api {
    /// Handles POST `/binding`: assigns a pod to a node. Fails if the pod already has a node.
    pub(crate) async fn bind(&self, dispatcher: &Dispatcher<'_>) -> Result<Reply> {
        let call = dispatcher.call;
        let binding = subresource_body(call, "v1", "Binding")?;
        let dry_run = call.dry_run("CreateOptions")?;
        let binding = dispatcher.mutate_new(binding, dry_run).await?;
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        let kind = &binding["target"]["kind"];
        // The API server returns these errors without a reason.
        if !matches!(kind.as_str(), None | Some("" | "Node")) {
            let wrong = FieldError::not_supported("target.kind", kind.clone(), &["Node", "<empty>"]);
            return Err(ApiError::unexplained(wrong.to_string()));
        }
        if node.is_empty() {
            return Err(ApiError::unexplained(
                FieldError::required("target.name", "").to_string(),
            ));
        }
        dispatcher.validate_new(&binding, dry_run).await?;
        let options = DeleteOptions {
            uid: some_text(&binding["metadata"]["uid"]),
            resource_version: some_text(&binding["metadata"]["resourceVersion"]),
            ..DeleteOptions::default()
        };
        let now = self.env.time();
        self.mutate(&call.res, &call.namespace, meta::name(&binding), dry_run, |pod| {
            crate::endpoints::delete::check_container_preconditions(&call.res, pod, &options)?;
            assign(&call.res, pod, node, &binding, &now)
        })?;
        Ok(created())
    }

    /// Handles POST `/eviction`: a DELETE that respects the `PodDisruptionBudget`.
    pub(crate) async fn evict(&self, dispatcher: &Dispatcher<'_>) -> Result<Reply> {
        let call = dispatcher.call;
        let eviction = subresource_body(call, "policy/v1", "Eviction")?;
        let asked_dry_run = call.dry_run("CreateOptions")?;
        let eviction = dispatcher.mutate_new(eviction, asked_dry_run).await?;
        dispatcher.validate_new(&eviction, asked_dry_run).await?;
        let preconditions = &eviction["deleteOptions"]["preconditions"];
        let asked: Vec<String> = eviction["deleteOptions"]["dryRun"].decode().unwrap_or_default();
        if asked.iter().any(|value| value != "All") {
            return Err(crate::endpoints::invalid_dry_run("DeleteOptions", &asked));
        }
        let dry_run = asked_dry_run || !asked.is_empty();
        let mut options = DeleteOptions {
            grace: eviction["deleteOptions"]["gracePeriodSeconds"].as_i64(),
            uid: some_text(&preconditions["uid"]),
            resource_version: some_text(&preconditions["resourceVersion"]),
            propagation: some_text(&eviction["deleteOptions"]["propagationPolicy"]),
            dry_run,
            ..DeleteOptions::default()
        };
        let object = self.store.get(&call.res.collection, &call.key());
        let object = object.ok_or_else(|| ApiError::not_found(&call.res, call.name()))?;
        let pod = Self::served(&call.res, &object);
        if !already_disrupted(&pod) {
            self.decrement_budget(&call.namespace, &pod, dry_run)?;
        }
        let now = self.env.time();
        if !dry_run {
            let marked = self.mutate(&call.res, &call.namespace, call.name(), false, |pod| {
                crate::endpoints::delete::check_preconditions(&call.res, pod, &options)?;
                set_condition(
                    pod,
                    json!({
                        "type": "DisruptionTarget",
                        "status": "True",
                        "lastTransitionTime": now,
                        "reason": "EvictionByEvictionAPI",
                        "message": "Eviction API: evicting",
                    }),
                );
                Ok(())
            })?;
            if options.resource_version.is_some() {
                options.resource_version = some_text(&marked["metadata"]["resourceVersion"]);
            }
        }
        self.delete_object(&call.res, &call.namespace, call.name(), &options)?;
        Ok(created())
    }

    /// Decrements the allowed disruptions of the pod's budget. Fails if the budget allows none.
    fn decrement_budget(&self, namespace: &str, pod: &Value, dry_run: bool) -> Result<()> {
        let labels = &pod["metadata"]["labels"];
        let snapshot = self
            .store
            .snapshot(BUDGETS, &format!("{namespace}/"), None, None)
            .map_err(crate::endpoints::list::expired)?;
        let covering: Vec<&Value> = snapshot
            .objects
            .iter()
            .map(|o| o.value())
            .filter(|pdb| selector::label_selector_from_json(pdb["spec"].get("selector")).matches(labels))
            .collect();
        let budget = match covering.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                return Err(ApiError::unexplained(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        if !is_ready(pod) && allows_unready_eviction(budget) {
            return Ok(());
        }
        let Some(res) = registry::built_in("policy", "v1", "poddisruptionbudgets") else {
            return Ok(());
        };
        let (name, now) = (meta::name(budget).to_owned(), self.env.time());
        self.mutate(res, namespace, &name, dry_run, |budget| {
            decrement(&name, budget, meta::name(pod), &now)
        })?;
        Ok(())
    }
}

fn decrement(name: &str, budget: &mut Value, pod: &str, now: &str) -> Result<()> {
    let number = |path: &str| meta::at_path(budget, path).as_i64().unwrap_or(0);
    if number("status.observedGeneration") < number("metadata.generation") {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Err(ApiError::disruption_budget(NO_DISRUPTION, &cause, Some(10)));
    }
    let allowed = number("status.disruptionsAllowed");
    if allowed <= 0 {
        let cause = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number("status.desiredHealthy"),
            number("status.currentHealthy")
        );
        return Err(ApiError::disruption_budget(NO_DISRUPTION, &cause, None));
    }
    let generation = number("status.observedGeneration");
    with(budget, "status", |status| {
        set(status, "disruptionsAllowed", allowed - 1);
        if let Some(disrupted) = section(status, "disruptedPods") {
            set(disrupted, pod, now);
        }
    });
    if allowed == 1 {
        set_condition(
            budget,
            json!({
                "type": "DisruptionAllowed",
                "status": "False",
                "lastTransitionTime": now,
                "reason": "InsufficientPods",
                "message": "",
                "observedGeneration": generation,
            }),
        );
    }
    Ok(())
}

fn assign(res: &Resource, pod: &mut Value, node: &str, binding: &Value, now: &str) -> Result<()> {
    let name = meta::name(pod).to_owned();
    let binding_res = Resource {
        plural: format!("{}/binding", res.plural),
        ..res.clone()
    };
    let refuse = |why: String| Err(ApiError::conflict(&binding_res, &name, &why));
    if meta::is_terminating(pod) {
        return refuse(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    if let Some(present) = pod["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) {
        return refuse(format!("pod {name} is already assigned to node {present:?}"));
    }
    if !list(&pod["spec"]["schedulingGates"]).is_empty() {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    meta::set_path(pod, "spec.nodeName", node.into());
    for field in ["annotations", "labels"] {
        if let Some(more) = binding["metadata"][field].as_object() {
            let mut merged = pod["metadata"][field].as_object().cloned().unwrap_or_default();
            merged.extend(more.clone());
            meta::set(pod, field, merged);
        }
    }
    set_condition(
        pod,
        json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now}),
    );
    Ok(())
}

/// Sets a condition. Updates its `lastTransitionTime` only if the status changes.
fn set_condition(object: &mut Value, mut condition: Value) {
    let mut conditions = list(&object["status"]["conditions"]).to_vec();
    match conditions.iter_mut().find(|c| c["type"] == condition["type"]) {
        Some(present) => {
            if present["status"] == condition["status"] {
                condition["lastTransitionTime"] = present["lastTransitionTime"].clone();
            }
            if let Some(probed) = present.get("lastProbeTime") {
                condition["lastProbeTime"] = probed.clone();
            }
            *present = condition;
        }
        None => conditions.push(condition),
    }
    meta::set_path(object, "status.conditions", conditions.into());
}

/// Reports whether the eviction of a pod does not count as a disruption.
fn already_disrupted(pod: &Value) -> bool {
    meta::is_terminating(pod) || matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed" | "Pending")
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = list(&pod["status"]["conditions"]).iter();
    conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Reports whether the budget allows the eviction of pods that are not ready.
fn allows_unready_eviction(budget: &Value) -> bool {
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0)
}

fn subresource_body(call: &Call, api_version: &str, kind: &str) -> Result<Value> {
    let mut value = crate::endpoints::decode::tree(call, api_version, kind)?.value;
    if value["kind"].as_str().is_some_and(|k| k != kind) {
        return Err(ApiError::bad_request(format!(
            "not a {kind} object: {}",
            value["kind"]
        )));
    }
    if let Some(schema) = schema::builtin(api_version, kind) {
        schema::conform(schema, &mut value).map_err(|e| ApiError::bad_request(e.to_string()))?;
    }
    create::check_namespace(&call.res, &call.namespace, &mut value)?;
    // If the path has no name, the name in the body applies.
    if !call.name().is_empty() && meta::name(&value) != call.name() {
        return Err(ApiError::bad_request(format!(
            "name in URL does not match name in {kind} object"
        )));
    }
    Ok(value)
}

fn some_text(value: &Value) -> Option<String> {
    value.as_str().filter(|s| !s.is_empty()).map(str::to_owned)
}

fn created() -> Reply {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Reply {
        code: 201,
        body: Body::Plain(status),
        warnings: Vec::new(),
    }
}
