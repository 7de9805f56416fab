//! The field managers of the controller, and the upgrade of `metadata.managedFields` to server-side apply.
//!
//! The controller creates a child by POST, which never changes an existing object, and changes it by server-side apply. The
//! API records the POST as `Update` and treats it as a field manager that conflicts with the `Apply`. So before an apply the
//! entry of the POST becomes one of an apply.
//!
//! Required fields that the `AppService` does not set (`replicas`, `image`) leave the entry: the apply would remove them,
//! and with them the value in use. The default image stays with the manager that created it, together with the
//! `imagePullPolicy` that the API server chose for it: if it were removed, the API server would choose one for the image in
//! use, and all pods would be replaced.

use serde_json::{Value, json};

use super::desired::CONTAINER;

/// Field manager of all writes to children, except patches of ownerReferences and creates with the default image.
pub const FIELD_MANAGER: &str = "appservice-controller";
/// Field manager of a Deployment that is created with the default image. The first apply leaves only the image to it.
pub const DEFAULT_IMAGE_MANAGER: &str = "appservice-controller-default-image";

/// The image in the desired state.
const IMAGE: &str = "/spec/template/spec/containers/0/image";

/// Returns the managedFields that `live` needs before `desired` is applied to it, if they differ.
pub(super) fn upgrade(live: &Value, desired: &Value) -> Option<Value> {
    let before = live["metadata"]["managedFields"].as_array()?;
    // Only a create writes the selector: it cannot change.
    let is_create = |it: &Value| {
        it["manager"] == DEFAULT_IMAGE_MANAGER && it["fieldsV1"]["f:spec"].get("f:selector").is_some()
    };
    let is_ours =
        |it: &Value| (it["manager"] == FIELD_MANAGER || is_create(it)) && it.get("subresource").is_none();
    let mut entries = before.clone();
    if entries.iter().any(|it| is_ours(it) && it["operation"] == "Apply") {
        entries.retain(|it| !is_ours(it) || it["operation"] == "Apply");
    }
    let container = format!("k:{}", json!({"name": CONTAINER}));
    let image = [
        "f:spec",
        "f:template",
        "f:spec",
        "f:containers",
        &*container,
        "f:image",
    ];
    let required = [
        ("/spec/replicas", &["f:spec", "f:replicas"][..]),
        (IMAGE, &image[..]),
    ];
    let mut default_image = None;
    for entry in entries.iter_mut().filter(|it| is_ours(it)) {
        if is_create(entry) {
            let mut rest = entry.clone();
            let fields = json!({"f:image": {}, "f:imagePullPolicy": {}});
            let parents = image[..image.len() - 1].iter().rev();
            rest["fieldsV1"] = parents.fold(fields, |it, field| json!({(*field): it}));
            default_image = Some(rest);
            entry["manager"] = json!(FIELD_MANAGER);
        }
        entry["operation"] = json!("Apply");
        for (field, path) in &required {
            if desired.pointer(field).is_none() {
                remove(&mut entry["fieldsV1"], path);
            }
        }
    }
    entries.extend(default_image);
    if desired.pointer(IMAGE).is_some() {
        entries.retain(|it| it["manager"] != DEFAULT_IMAGE_MANAGER);
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
    fn default_image_stays_with_its_manager_until_it_is_desired() {
        let all = |container: Value| {
            let containers = json!({"k:{\"name\":\"app\"}": container});
            json!({"f:spec": {"f:selector": {}, "f:template": {"f:spec": {"f:containers": containers}}}})
        };
        let created = entry(
            DEFAULT_IMAGE_MANAGER,
            "Update",
            &all(json!({"f:name": {}, "f:image": {}})),
        );
        let unset = json!({"spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "app"}]}}}});
        let mut image = all(json!({"f:image": {}, "f:imagePullPolicy": {}}));
        image["f:spec"]
            .as_object_mut()
            .expect("an object")
            .remove("f:selector");
        let image = entry(DEFAULT_IMAGE_MANAGER, "Update", &image);
        let applied = entry(FIELD_MANAGER, "Apply", &all(json!({"f:name": {}})));
        let upgraded = json!([applied, image]);
        let entries = upgrade(&live(std::slice::from_ref(&created)), &unset);
        assert_eq!(entries, Some(upgraded.clone()));
        let upgraded = json!({"metadata": {"managedFields": upgraded}});
        assert_eq!(upgrade(&upgraded, &unset), None);
        let mut set = unset.clone();
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("a");
        assert_eq!(upgrade(&upgraded, &set), Some(json!([applied])));
        let taken = entry(FIELD_MANAGER, "Apply", &created["fieldsV1"]);
        assert_eq!(upgrade(&live(&[created]), &set), Some(json!([taken])));
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
