//! The admission plugin `Priority`: resolves the `PriorityClass` of a new pod. Also rejects pod overhead, as `RuntimeClass`.

use std::sync::Arc;

use crate::endpoints::Api;
use crate::json::Value;
use crate::meta;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::storage::Object;

const CLASSES: &str = "priorityclasses.scheduling.k8s.io";

/// Rejects pod overhead: only a `RuntimeClass` may set it, and the sandbox has none.
pub(crate) fn check_overhead(res: &Resource, pod: &Value) -> Result<()> {
    if res.collection != "pods" || !pod["spec"]["overhead"].is_object() {
        return Ok(());
    }
    let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    Err(ApiError::forbidden(res, meta::name(pod), why))
}

impl Api {
    /// Sets priority and preemption policy from the class of the pod, the default class, or neither.
    pub(crate) fn set_priority(&self, res: &Resource, pod: &mut Value) -> Result<()> {
        let name = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
        let class = if name.is_empty() {
            self.default_class()
        } else {
            let why = format!("no PriorityClass with name {name} was found");
            let found = self.store.get(CLASSES, name);
            Some(found.ok_or_else(|| ApiError::forbidden(res, meta::name(pod), &why))?)
        };
        let class = class.as_ref().map(|class| class.value());
        let value = class.and_then(|c| c["value"].as_i64()).unwrap_or(0);
        let policy = class
            .and_then(|c| c["preemptionPolicy"].as_str())
            .unwrap_or("PreemptLowerPriority");
        if let Some(class) = class {
            meta::set_path(pod, "spec.priorityClassName", meta::name(class).into());
        }
        if let Some(asked) = pod["spec"]["priority"].as_i64().filter(|asked| *asked != value) {
            let why = format!(
                "the integer value of priority ({asked}) must not be provided in pod spec; priority admission controller \
                 computed {value} from the given PriorityClass name"
            );
            return Err(ApiError::forbidden(res, meta::name(pod), &why));
        }
        let spec = &mut pod["spec"];
        spec["priority"] = value.into();
        spec["preemptionPolicy"] = policy.into();
        Ok(())
    }

    /// Returns the default class; of several the one with the lowest value.
    fn default_class(&self) -> Option<Arc<Object>> {
        let classes = self.objects(CLASSES, "").into_iter();
        let classes = classes.filter(|c| c.value()["globalDefault"] == true);
        classes.min_by_key(|c| c.value()["value"].as_i64().unwrap_or(0))
    }
}
