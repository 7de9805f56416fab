//! The field manager of the controller, and the upgrade of `metadata.managedFields` to server-side apply.
//!
//! The controller creates a child by POST, which never changes an existing object, and changes it by server-side apply. The
//! API records the POST as `Update` and treats it as a field manager that conflicts with the `Apply`. So before an apply the
//! entry of the POST becomes one of an apply. The same holds for the entry of builds that wrote children by POST and merge
//! patch only, under the manager that the API derives from the user agent.
//!
//! Required fields that the `AppService` no longer sets (`replicas`, `image`) leave the entry: the apply would remove them,
//! and with them the value in use.

use serde_json::{Value, json};

use super::desired::CONTAINER;
use super::ownership::UID_LABEL;
use crate::support::annotations::REVISION;

/// Field manager of all writes to children, except patches of ownerReferences.
pub const FIELD_MANAGER: &str = "appservice-controller";

/// Field manager of builds before server-side apply. Other controllers of the process still use it.
const LEGACY_FIELD_MANAGER: &str = "steersman";

/// Returns the managedFields that `live` needs before `desired` is applied to it, if they differ.
pub(super) fn upgrade(live: &Value, desired: &Value) -> Option<Value> {
    let before = live["metadata"]["managedFields"].as_array()?;
    // Only this controller writes the label.
    let uid = format!("f:{UID_LABEL}");
    let is_legacy = |it: &Value| {
        it["manager"] == LEGACY_FIELD_MANAGER && it["fieldsV1"]["f:metadata"]["f:labels"].get(&uid).is_some()
    };
    let is_ours =
        |it: &Value| (it["manager"] == FIELD_MANAGER || is_legacy(it)) && it.get("subresource").is_none();
    let mut entries = before.clone();
    if entries.iter().any(|it| is_ours(it) && it["operation"] == "Apply") {
        entries.retain(|it| !is_ours(it) || it["operation"] == "Apply");
    }
    let container = format!("k:{}", json!({"name": CONTAINER}));
    let required = [
        ("/spec/replicas", vec!["f:spec", "f:replicas"]),
        (
            "/spec/template/spec/containers/0/image",
            vec![
                "f:spec",
                "f:template",
                "f:spec",
                "f:containers",
                &*container,
                "f:image",
            ],
        ),
    ];
    let revision = format!("f:{REVISION}");
    for entry in entries.iter_mut().filter(|it| is_ours(it)) {
        if is_legacy(entry) {
            entry["manager"] = json!(FIELD_MANAGER);
            // The Deployment controller wrote this annotation under the same manager: the apply must not remove it.
            remove(
                &mut entry["fieldsV1"],
                &["f:metadata", "f:annotations", &*revision],
            );
        }
        entry["operation"] = json!("Apply");
        for (field, path) in &required {
            if desired.pointer(field).is_none() {
                remove(&mut entry["fieldsV1"], path);
            }
        }
    }
    (entries != *before).then(|| entries.into())
}

fn remove(set: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let parent = parents.iter().try_fold(set, |at, field| at.get_mut(*field));
    if let Some(Value::Object(parent)) = parent {
        parent.remove(*last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
               "fieldsV1": fields})
    }

    fn live(entries: &[Value]) -> Value {
        json!({"metadata": {"managedFields": entries}})
    }

    #[test]
    fn entry_of_a_create_becomes_an_apply() {
        let fields = json!({"f:spec": {"f:replicas": {}}});
        let other = entry("kubectl", "Update", &fields);
        let mut status = entry(FIELD_MANAGER, "Update", &fields);
        status["subresource"] = json!("status");
        let created = live(&[
            entry(FIELD_MANAGER, "Update", &fields),
            other.clone(),
            status.clone(),
        ]);
        let desired =
            json!({"spec": {"replicas": 2, "template": {"spec": {"containers": [{"image": "a"}]}}}});
        let applied = entry(FIELD_MANAGER, "Apply", &fields);
        let expected = json!([applied, other, status]);
        assert_eq!(upgrade(&created, &desired), Some(expected.clone()));
        let applied = json!({"metadata": {"managedFields": expected}});
        assert_eq!(upgrade(&applied, &desired), None);
        assert_eq!(upgrade(&json!({}), &desired), None);
    }

    #[test]
    fn entry_of_a_legacy_build_becomes_an_apply() {
        let labels = json!({"f:appcontroller.k8s.io/appservice-uid": {}});
        let annotations = json!({"f:deployment.kubernetes.io/revision": {}});
        let fields = json!({"f:metadata": {"f:labels": labels, "f:annotations": annotations}});
        let legacy = entry("steersman", "Update", &fields);
        let revision = json!({"f:metadata": {"f:annotations": annotations}});
        let controller = entry("steersman", "Update", &revision);
        let desired = json!({"spec": {"replicas": 2}});
        let left = json!({"f:metadata": {"f:labels": labels, "f:annotations": {}}});
        let applied = entry(FIELD_MANAGER, "Apply", &left);
        let entries = upgrade(&live(std::slice::from_ref(&legacy)), &desired);
        assert_eq!(entries, Some(json!([applied])));
        // The entry of the Deployment controller is kept.
        assert_eq!(upgrade(&live(std::slice::from_ref(&controller)), &desired), None);
        // Beside an apply entry it is dropped.
        let both = live(&[applied.clone(), legacy]);
        assert_eq!(upgrade(&both, &desired), Some(json!([applied])));
    }

    #[test]
    fn required_fields_that_are_no_longer_desired_leave_the_entry() {
        let container = json!({".": {}, "f:name": {}, "f:image": {}, "f:env": {}});
        let containers = json!({"k:{\"name\":\"app\"}": container});
        let fields =
            json!({"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": containers}}}});
        let desired = json!({"spec": {"template": {"spec": {"containers": [{"name": "app"}]}}}});
        let entries = upgrade(&live(&[entry(FIELD_MANAGER, "Apply", &fields)]), &desired).expect("a change");
        let left = json!({"k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:env": {}}});
        let expected = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": left}}}});
        assert_eq!(entries[0]["fieldsV1"], expected);
        let again = json!({"metadata": {"managedFields": entries}});
        assert_eq!(upgrade(&again, &desired), None);
    }
}
