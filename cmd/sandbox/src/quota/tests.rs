use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::registry::Registry;

fn resource(group: &str, plural: &str) -> Resource {
    let found = Registry::new()
        .all()
        .iter()
        .find(|r| r.group == group && r.plural == plural)
        .cloned();
    (*found.expect("a built-in resource")).clone()
}

fn used(plural: &str, object: &Value) -> Value {
    write(&usage(&resource("", plural), object, Timestamp::UNIX_EPOCH))
}

fn container(name: &str, cpu: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
}

#[test]
fn names_are_about_kinds() {
    let about = [
        ("", "pods", "pods", true),
        ("", "pods", "count/pods", true),
        ("", "pods", "requests.example.com/gpu", true),
        ("", "pods", "requests.storage", false),
        ("", "services", "services.nodeports", true),
        ("", "services", "pods", false),
        (
            "",
            "persistentvolumeclaims",
            "gold.storageclass.storage.k8s.io/requests.storage",
            true,
        ),
        ("", "persistentvolumeclaims", "requests.cpu", false),
        ("", "configmaps", "configmaps", true),
        ("", "configmaps", "count/configmaps", true),
        ("", "events", "count/events", false),
        ("apps", "deployments", "count/deployments.apps", true),
        ("apps", "deployments", "count/deployments", false),
    ];
    for (group, plural, name, expected) in about {
        assert_eq!(
            is_about(&resource(group, plural), name),
            expected,
            "{plural} {name}"
        );
    }
}

#[test]
fn a_pod_uses_the_sum_of_its_containers_or_the_most_that_its_start_takes() {
    let containers = json!([container("a", "1"), container("b", "500m")]);
    let pod = |init: Value| json!({"spec": {"containers": containers, "initContainers": init}});
    assert_eq!(
        used("pods", &pod(json!([]))),
        json!({"count/pods": "1", "pods": "1", "cpu": "1500m", "requests.cpu": "1500m"})
    );
    assert_eq!(used("pods", &pod(json!([container("i", "4")])))["cpu"], "4");
    let mut sidecar = container("s", "1");
    sidecar["restartPolicy"] = "Always".into();
    // The sidecar runs with all others, and beside each that starts after it.
    assert_eq!(
        used("pods", &pod(json!([sidecar, container("i", "4")])))["cpu"],
        "5"
    );
    assert_eq!(
        used("pods", &pod(json!([container("i", "1"), sidecar])))["cpu"],
        "2500m"
    );
}

#[test]
fn a_pod_that_has_ended_is_only_an_object() {
    let spec = json!({"containers": [container("a", "1")]});
    for phase in ["Failed", "Succeeded"] {
        let pod = json!({"spec": spec, "status": {"phase": phase}});
        assert_eq!(used("pods", &pod), json!({"count/pods": "1"}));
    }
    let marked = |at: &str| json!({"deletionTimestamp": at, "deletionGracePeriodSeconds": 30});
    let late = json!({"metadata": marked("1969-12-31T23:59:00Z"), "spec": spec});
    assert_eq!(used("pods", &late), json!({"count/pods": "1"}));
    let in_time = json!({"metadata": marked("1970-01-01T00:00:00Z"), "spec": spec});
    assert_eq!(used("pods", &in_time)["pods"], "1");
}

#[test]
fn services_use_ports_by_their_type() {
    let service = |kind: &str| json!({"spec": {"type": kind, "ports": [{"port": 1}, {"port": 2}]}});
    let ports = |kind: &str| {
        let used = used("services", &service(kind));
        (
            used["services.nodeports"].clone(),
            used["services.loadbalancers"].clone(),
        )
    };
    assert_eq!(ports("ClusterIP"), (json!("0"), json!("0")));
    assert_eq!(ports("NodePort"), (json!("2"), json!("0")));
    assert_eq!(ports("LoadBalancer"), (json!("2"), json!("1")));
    let mut without = service("LoadBalancer");
    without["spec"]["allocateLoadBalancerNodePorts"] = false.into();
    assert_eq!(used("services", &without)["services.nodeports"], "0");
}

#[test]
fn claims_use_storage_of_their_class() {
    let claim = json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}});
    assert_eq!(
        used("persistentvolumeclaims", &claim),
        json!({
            "count/persistentvolumeclaims": "1",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
            "persistentvolumeclaims": "1",
            "requests.storage": "1Gi",
        })
    );
}

#[test]
fn containers_must_say_what_is_counted() {
    let pods = resource("", "pods");
    let pod = json!({"spec": {"containers": [container("b", "1"), {"name": "a"}, {"name": "c"}]}});
    assert_eq!(missing(&pods, &pod, ["pods", "count/pods"]), None);
    assert_eq!(
        missing(&pods, &pod, ["requests.cpu", "memory", "pods"]).as_deref(),
        Some("must specify memory for: a,b,c; requests.cpu for: a,c")
    );
    let whole = json!({"spec": {"resources": {"limits": {"cpu": "1"}}, "containers": [{"name": "a"}]}});
    assert_eq!(missing(&pods, &whole, ["requests.cpu"]), None);
}

#[test]
fn scopes_cover_pods_and_nothing_else() {
    let pods = resource("", "pods");
    let quota = |scopes: Value| json!({"spec": {"scopes": scopes}});
    let pod = json!({"spec": {"activeDeadlineSeconds": 5}, "status": {"qosClass": "BestEffort"}});
    for (scopes, expected) in [
        (json!([]), true),
        (json!(["Terminating"]), true),
        (json!(["Terminating", "BestEffort"]), true),
        (json!(["NotTerminating"]), false),
        (json!(["Terminating", "NotBestEffort"]), false),
        (json!(["PriorityClass"]), false),
    ] {
        assert_eq!(covers(&quota(scopes.clone()), &pods, &pod), expected, "{scopes}");
    }
    assert!(!covers(
        &quota(json!(["Terminating"])),
        &resource("", "configmaps"),
        &pod
    ));
    let by_class = |operator: &str| {
        json!({"spec": {"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": operator, "values": ["high"]},
        ]}}})
    };
    let high = json!({"spec": {"priorityClassName": "high"}});
    assert!(covers(&by_class("In"), &pods, &high));
    assert!(!covers(&by_class("NotIn"), &pods, &high));
    assert!(covers(&by_class("NotIn"), &pods, &pod));
}

#[test]
fn what_cannot_be_afforded_is_named() {
    let amounts = |value: Value| read(&value);
    let hard = amounts(json!({"pods": "2", "requests.cpu": "1", "memory": "1Gi"}));
    let used = amounts(json!({"pods": "2", "requests.cpu": "500m", "memory": "0"}));
    let more = amounts(json!({"count/pods": "1", "pods": "1", "requests.cpu": "600m", "memory": "512Mi"}));
    assert_eq!(
        afford("q", &hard, &used, &more).expect_err("too much"),
        "exceeded quota: q, requested: pods=1,requests.cpu=600m, used: pods=2,requests.cpu=500m, limited: \
         pods=2,requests.cpu=1"
    );
    let less = amounts(json!({"requests.cpu": "500m", "memory": "512Mi"}));
    let next = afford("q", &hard, &used, &less).expect("it fits");
    assert_eq!(
        write(&next),
        json!({"pods": "2", "requests.cpu": "1", "memory": "512Mi"})
    );
    assert_eq!(
        write(&increase(&more, &less)),
        json!({"count/pods": "1", "pods": "1", "requests.cpu": "100m"})
    );
    // What was used up before is no reason to refuse who asks for none of it.
    let over = amounts(json!({"pods": "3"}));
    let none = amounts(json!({"pods": "0"}));
    assert!(afford("q", &hard, &over, &none).is_ok());
}
