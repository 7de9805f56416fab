//! The field manager of the controller, and its entry in `metadata.managedFields`.
//!
//! A child is created by POST, which never touches an existing object, and changed by server-side apply. The API records the
//! former as `Update`, the latter as `Apply`, and takes them for two managers that conflict. So before an apply the entry of
//! the POST is turned into one of an apply. So is the entry of a build that wrote children by POST and merge patch only, as
//! the manager that the API derives from the user agent: no apply could change a field of it. Fields that the `AppService`
//! has stopped setting and that a Deployment cannot be without (`replicas`, `image`) are taken out of the entry: the apply
//! would remove them, and with them the value that is in use.

use serde_json::{Value, json};

use super::children::CONTAINER;
use super::standing::UID;
use crate::support::annotations::REVISION;

/// The field manager of all writes to children but those of ownerReferences.
pub const FIELD_MANAGER: &str = "appservice-controller";

/// The field manager of builds before server-side apply. Other controllers of the process still write as it.
const EARLIER_MANAGER: &str = "coxswain";

/// Returns the managedFields that `live` needs before `desired` is applied to it; none if it has them.
#[must_use]
pub fn prepared(live: &Value, desired: &Value) -> Option<Value> {
    let before = live["metadata"]["managedFields"].as_array()?;
    // Only the controller of AppServices writes this label.
    let uid = format!("f:{UID}");
    let is_earlier = |it: &Value| {
        it["manager"] == EARLIER_MANAGER && it["fieldsV1"]["f:metadata"]["f:labels"].get(&uid).is_some()
    };
    let is_ours =
        |it: &Value| (it["manager"] == FIELD_MANAGER || is_earlier(it)) && it.get("subresource").is_none();
    let mut entries = before.clone();
    if entries.iter().any(|it| is_ours(it) && it["operation"] == "Apply") {
        entries.retain(|it| !is_ours(it) || it["operation"] == "Apply");
    }
    let container = format!("k:{}", json!({"name": CONTAINER}));
    let kept = [
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
        if is_earlier(entry) {
            entry["manager"] = json!(FIELD_MANAGER);
            // The Deployment controller wrote it as the same manager: the apply must not remove it.
            remove(
                &mut entry["fieldsV1"],
                &["f:metadata", "f:annotations", &*revision],
            );
        }
        entry["operation"] = json!("Apply");
        for (field, path) in &kept {
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
    fn entry_of_the_create_becomes_one_of_an_apply() {
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
        assert_eq!(prepared(&created, &desired), Some(expected.clone()));
        let applied = json!({"metadata": {"managedFields": expected}});
        assert_eq!(prepared(&applied, &desired), None);
        assert_eq!(prepared(&json!({}), &desired), None);
    }

    #[test]
    fn entry_of_an_earlier_build_becomes_one_of_an_apply() {
        let labels = json!({"f:appcontroller.k8s.io/appservice-uid": {}});
        let annotations = json!({"f:deployment.kubernetes.io/revision": {}});
        let fields = json!({"f:metadata": {"f:labels": labels, "f:annotations": annotations}});
        let earlier = entry("coxswain", "Update", &fields);
        let revision = json!({"f:metadata": {"f:annotations": annotations}});
        let controller = entry("coxswain", "Update", &revision);
        let desired = json!({"spec": {"replicas": 2}});
        let left = json!({"f:metadata": {"f:labels": labels, "f:annotations": {}}});
        let applied = entry(FIELD_MANAGER, "Apply", &left);
        let entries = prepared(&live(std::slice::from_ref(&earlier)), &desired);
        assert_eq!(entries, Some(json!([applied])));
        // Of the Deployment controller.
        assert_eq!(prepared(&live(std::slice::from_ref(&controller)), &desired), None);
        // Beside an apply it would only conflict.
        let both = live(&[applied.clone(), earlier]);
        assert_eq!(prepared(&both, &desired), Some(json!([applied])));
    }

    #[test]
    fn required_fields_that_are_no_longer_desired_leave_the_entry() {
        let container = json!({".": {}, "f:name": {}, "f:image": {}, "f:env": {}});
        let containers = json!({"k:{\"name\":\"app\"}": container});
        let fields =
            json!({"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": containers}}}});
        let desired = json!({"spec": {"template": {"spec": {"containers": [{"name": "app"}]}}}});
        let entries = prepared(&live(&[entry(FIELD_MANAGER, "Apply", &fields)]), &desired).expect("a change");
        let left = json!({"k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:env": {}}});
        let expected = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": left}}}});
        assert_eq!(entries[0]["fieldsV1"], expected);
        let again = json!({"metadata": {"managedFields": entries}});
        assert_eq!(prepared(&again, &desired), None);
    }
}
