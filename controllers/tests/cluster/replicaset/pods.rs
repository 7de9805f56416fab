//! The metadata and spec of created pods.

use serde_json::json;
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Fixture, name, text};

pub fn tests() -> Vec<Test> {
    let only_replication_controllers =
        vec![each!(@ selector_defaults_to_template_labels, ReplicationController)];
    let all = [
        each!(pod_has_exactly_the_template),
        each!(pod_has_one_owner_reference),
        each!(pod_name_has_the_owner_as_prefix),
        each!(long_owner_name_is_truncated),
        each!(longest_owner_name_is_truncated),
        each!(template_change_affects_only_new_pods),
    ];
    [all.concat(), only_replication_controllers].concat()
}

async fn pod_has_exactly_the_template(s: Fixture) {
    let change = json!({"spec": {"template": {
        "metadata": {
            "name": "other", "generateName": "another-",
            "labels": {"more": "labels"},
            "annotations": {"example.com/note": "a"},
            "finalizers": ["example.com/hold"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}],
        },
        "spec": {
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 7, "hostname": "h",
            "containers": [{"name": "main", "image": "i:1", "env": [{"name": "A", "value": "b"}]}],
        },
    }}});
    let body = with(s.owner_on_unmanaged_node("a", 1), change);
    let owner = s.settled(body.clone()).await;
    let pod = &s.pods_of(&owner).await[0];
    let (meta, wanted) = (&pod["metadata"], &body["spec"]["template"]["metadata"]);
    for field in ["labels", "annotations", "finalizers"] {
        assert_eq!(meta[field], wanted[field], "{pod:#}");
    }
    assert!(name(pod).starts_with("a-"), "{pod:#}");
    assert_eq!(meta["generateName"], "a-");
    assert_eq!(
        meta["ownerReferences"].as_array().map(Vec::len),
        Some(1),
        "{pod:#}"
    );
    let spec = &pod["spec"];
    assert_eq!(spec["terminationGracePeriodSeconds"], 7);
    assert_eq!(spec["hostname"], "h");
    assert_eq!(spec["nodeName"], super::fixture::UNMANAGED_NODE);
    let container = &spec["containers"][0];
    assert_eq!(
        (&container["name"], &container["image"]),
        (&json!("main"), &json!("i:1"))
    );
    assert_eq!(container["env"], json!([{"name": "A", "value": "b"}]));
}

async fn pod_has_one_owner_reference(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    let pod = &s.pods_of(&owner).await[0];
    let wanted = json!([{
        "apiVersion": s.kind.api_version(), "kind": s.kind.name(), "name": "a", "uid": owner.uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(pod["metadata"]["ownerReferences"], wanted);
}

async fn pod_name_has_the_owner_as_prefix(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("web.v1", 2)).await;
    for pod in s.pods_of(&owner).await {
        assert_eq!(pod["metadata"]["generateName"], "web.v1-");
        let name = name(&pod);
        let rest = name.strip_prefix("web.v1-").unwrap_or_else(|| panic!("{name}"));
        let alphabet = "bcdfghjklmnpqrstvwxz2456789";
        assert!(
            rest.len() == 5 && rest.chars().all(|c| alphabet.contains(c)),
            "{name}"
        );
    }
}

async fn long_owner_name_is_truncated(s: Fixture) {
    let long = format!("{}z", "abcdefghi.".repeat(9));
    let owner = s.settled(s.owner_on_unmanaged_node(&long, 3)).await;
    for pod in s.pods_of(&owner).await {
        assert_eq!(text(&pod["metadata"]["generateName"]), format!("{long}-"));
        let name = name(&pod);
        assert!(name.len() == 63 && name.starts_with(&long[..58]), "{name}");
    }
}

async fn longest_owner_name_is_truncated(s: Fixture) {
    let long = "a".repeat(253);
    let owner = s.settled(s.owner_on_unmanaged_node(&long, 1)).await;
    let pod = &s.pods_of(&owner).await[0];
    assert_eq!(text(&pod["metadata"]["generateName"]), format!("{long}-"));
    assert_eq!(name(pod).len(), 63);
}

async fn template_change_affects_only_new_pods(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let old = s.pods_of(&owner).await;
    let template = json!({"metadata": {"labels": {"v": "2"}}});
    s.change(&owner, json!({"spec": {"template": template}})).await;
    s.synced(&owner).await;
    let uids = |pods: &[serde_json::Value]| -> Vec<String> {
        pods.iter().map(|pod| text(&pod["metadata"]["uid"])).collect()
    };
    assert_eq!(uids(&s.pods_of(&owner).await), uids(&old));
    s.scale(&owner, 3).await;
    let pods = s.owns(&owner, 3).await;
    let new: Vec<_> = pods
        .iter()
        .filter(|pod| pod["metadata"]["labels"]["v"] == "2")
        .collect();
    assert!(
        new.len() == 1 && !uids(&old).contains(&text(&new[0]["metadata"]["uid"])),
        "{new:#?}"
    );
}

async fn selector_defaults_to_template_labels(s: Fixture) {
    let change =
        json!({"spec": {"selector": null, "template": {"metadata": {"labels": {"more": "labels"}}}}});
    // It does not have all labels, so it is not selected.
    s.pod("other", json!({})).await;
    let owner = s.settled(with(s.owner_on_unmanaged_node("a", 2), change)).await;
    s.synced(&owner).await;
    assert_eq!(s.pods_of(&owner).await.len(), 2);
    assert_eq!(s.all_pods().await.len(), 3);
}
