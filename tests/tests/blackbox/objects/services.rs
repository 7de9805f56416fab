//! Services: addresses are given out once, and what a Service may look like.

use std::collections::BTreeSet;

use coxswain_tests::{
    Cluster, Test,
    fixtures::{MERGE, core, field, service, with},
    test,
};
use serde_json::{Value, json};

use crate::expect::{invalid, refuses, speaks_1_36, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(service_gets_defaults),
        test!(every_service_gets_its_own_address),
        test!(headless_service_has_no_address),
        test!(external_name_has_no_address),
        test!(node_ports_are_given_out),
        test!(chosen_node_port_is_taken_until_it_is_free_again),
        test!(chosen_node_port_must_be_in_the_range),
        test!(port_of_two_protocols_has_one_node_port),
        test!(chosen_address_is_taken_until_it_is_free_again),
        test!(chosen_address_must_be_an_address),
        test!(address_may_not_change),
        test!(update_without_address_keeps_it).since(1, 22),
        test!(external_name_takes_no_address),
        test!(what_the_type_needed_goes_with_it).since(1, 36),
        test!(families_are_named_once).since(1, 36),
        test!(ports_are_checked),
        test!(several_ports_need_unique_names_and_numbers),
        test!(types_and_selectors_are_checked),
    ]
}

fn spec(change: Value) -> Value {
    with(service("a"), field("spec", change))
}

async fn service_gets_defaults(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&core(&ns, "services"), service("a"))
        .await
        .expect(201);
    let spec = &made["spec"];
    assert_eq!(spec["type"], "ClusterIP");
    assert_eq!(spec["sessionAffinity"], "None");
    assert_eq!(
        spec["ports"],
        json!([{"protocol": "TCP", "port": 80, "targetPort": 80}])
    );
    assert!(
        spec["clusterIP"]
            .as_str()
            .is_some_and(|address| address.starts_with("10.")),
        "{spec:#}"
    );
    assert_eq!(spec["clusterIPs"], json!([spec["clusterIP"]]));
    assert_eq!(made["status"], json!({"loadBalancer": {}}));
    assert_eq!(made["metadata"]["generation"], Value::Null);
    if c.version() >= (1, 23) {
        assert_eq!(spec["ipFamilies"], json!(["IPv4"]));
        assert_eq!(spec["ipFamilyPolicy"], "SingleStack");
        assert_eq!(spec["internalTrafficPolicy"], "Cluster");
    }
}

async fn every_service_gets_its_own_address(c: Cluster) {
    let ns = c.namespace().await;
    let mut addresses = BTreeSet::new();
    for i in 0..5 {
        let made = c
            .api()
            .post(&core(&ns, "services"), service(&format!("a{i}")))
            .await
            .expect(201);
        addresses.insert(made["spec"]["clusterIP"].as_str().expect("an address").to_owned());
    }
    assert_eq!(addresses.len(), 5, "{addresses:?}");
}

async fn headless_service_has_no_address(c: Cluster) {
    let ns = c.namespace().await;
    // It does not even need ports.
    let body = spec(json!({"clusterIP": "None", "ports": null}));
    let made = c.api().post(&core(&ns, "services"), body).await.expect(201);
    assert_eq!(made["spec"]["clusterIP"], "None");
    assert_eq!(made["spec"]["clusterIPs"], json!(["None"]));
    assert_eq!(made["spec"]["type"], "ClusterIP");
}

async fn external_name_has_no_address(c: Cluster) {
    let ns = c.namespace().await;
    let body = with(
        service("a"),
        json!({"spec": {"type": "ExternalName", "externalName": "x.y", "ports": null, "selector": null}}),
    );
    let made = c.api().post(&core(&ns, "services"), body).await.expect(201);
    let spec = json!({"type": "ExternalName", "sessionAffinity": "None", "externalName": "x.y"});
    assert_eq!(made["spec"], spec);
}

async fn node_ports_are_given_out(c: Cluster) {
    let ns = c.namespace().await;
    let mut ports = BTreeSet::new();
    for (i, kind) in ["NodePort", "LoadBalancer", "NodePort"].into_iter().enumerate() {
        let body = with(service(&format!("a{i}")), json!({"spec": {"type": kind}}));
        let made = c.api().post(&core(&ns, "services"), body).await.expect(201);
        let port = made["spec"]["ports"][0]["nodePort"].as_u64().expect("a port");
        assert!((30000..=32767).contains(&port), "{port}");
        assert_eq!(made["spec"]["externalTrafficPolicy"], "Cluster");
        ports.insert(port);
    }
    assert_eq!(ports.len(), 3, "{ports:?}");
}

async fn chosen_node_port_is_taken_until_it_is_free_again(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "services");
    let node_port = |name: &str, port: &Value| {
        let ports = json!([{"name": "a", "port": 80, "nodePort": port}]);
        with(
            service(name),
            json!({"spec": {"type": "NodePort", "ports": ports}}),
        )
    };
    let made = c.api().post(&path, node_port("probe", &Value::Null)).await;
    let port = made.expect(201)["spec"]["ports"][0]["nodePort"].clone();
    let taken = format!("Invalid spec.ports[0].nodePort: {port}: provided port is already allocated");
    invalid(&c.api().post(&path, node_port("a", &port)).await, &[&taken]);
    c.api()
        .post(&path, node_port("b", &Value::Null))
        .await
        .expect(201);
    let change = json!({"spec": {"ports": [{"name": "a", "port": 80, "nodePort": port}]}});
    let path_of_b = format!("{path}/b");
    invalid(&c.api().patch(&path_of_b, MERGE, &change).await, &[&taken]);
    c.api().delete(&format!("{path}/probe"), ()).await.expect(200);
    let changed = c.api().patch(&path_of_b, MERGE, &change).await.expect(200);
    assert_eq!(changed["spec"]["ports"][0]["nodePort"], port);
}

async fn chosen_node_port_must_be_in_the_range(c: Cluster) {
    let ns = c.namespace().await;
    let ports = json!([{"port": 80, "nodePort": 80}]);
    let body = with(
        service("a"),
        json!({"spec": {"type": "NodePort", "ports": ports}}),
    );
    let cause = "Invalid spec.ports[0].nodePort: 80: provided port is not in the valid range. \
                 The range of valid ports is 30000-32767";
    invalid(&c.api().post(&core(&ns, "services"), body).await, &[cause]);
}

async fn port_of_two_protocols_has_one_node_port(c: Cluster) {
    let ns = c.namespace().await;
    let ports =
        json!([{"name": "a", "port": 53, "protocol": "TCP"}, {"name": "b", "port": 53, "protocol": "UDP"}]);
    let body = with(
        service("a"),
        json!({"spec": {"type": "NodePort", "ports": ports}}),
    );
    let made = c.api().post(&core(&ns, "services"), body).await.expect(201);
    let ports = &made["spec"]["ports"];
    assert!(ports[0]["nodePort"].is_u64(), "{ports}");
    assert_eq!(ports[0]["nodePort"], ports[1]["nodePort"]);
}

async fn chosen_address_is_taken_until_it_is_free_again(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "services");
    // An address that was free a moment ago, whatever the range is.
    let made = c.api().post(&path, service("probe")).await.expect(201);
    let address = made["spec"]["clusterIP"].clone();
    let chosen = |name: &str| with(service(name), json!({"spec": {"clusterIP": address}}));
    let reply = c.api().post(&path, chosen("a")).await;
    let cause = if speaks_1_36(&c) {
        format!(
            "Invalid spec.clusterIPs: failed to allocate IP {}: provided IP is already allocated",
            address.as_str().expect("text")
        )
    } else {
        "Invalid spec.clusterIPs: provided IP is already allocated".to_owned()
    };
    invalid(&reply, &[&cause]);
    c.api().delete(&format!("{path}/probe"), ()).await.expect(200);
    let made = c.api().post(&path, chosen("a")).await.expect(201);
    assert_eq!(made["spec"]["clusterIP"], address);
}

async fn chosen_address_must_be_an_address(c: Cluster) {
    let ns = c.namespace().await;
    let text =
        "Invalid spec.clusterIPs[0]: \"zzz\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    let range = if speaks_1_36(&c) {
        "Invalid spec.clusterIPs: failed to allocate IP 192.168.0.1: the provided network does not match the current range"
    } else {
        "Invalid spec.clusterIPs"
    };
    let rows = vec![
        (spec(json!({"clusterIP": "zzz"})), vec![text]),
        (spec(json!({"clusterIP": "192.168.0.1"})), vec![range]),
    ];
    refuses(&c, &core(&ns, "services"), rows).await;
}

async fn address_may_not_change(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "services/a");
    let made = c
        .api()
        .post(&core(&ns, "services"), service("a"))
        .await
        .expect(201);
    let other = if made["spec"]["clusterIP"] == "10.0.0.9" {
        "10.0.0.8"
    } else {
        "10.0.0.9"
    };
    let change = json!({"spec": {"clusterIP": other, "clusterIPs": [other]}});
    invalid(
        &c.api().patch(&path, MERGE, change).await,
        &["Invalid spec.clusterIPs[0]: may not change once set"],
    );
    unchanged(&c, &path, &made).await;
    let change = json!({"spec": {"type": "ExternalName", "externalName": "x.y"}});
    let changed = c.api().patch(&path, MERGE, change).await.expect(200);
    assert_eq!(changed["spec"]["clusterIP"], Value::Null, "no longer of use");
}

async fn update_without_address_keeps_it(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "services/a");
    let made = c
        .api()
        .post(&core(&ns, "services"), service("a"))
        .await
        .expect(201);
    let changed = c
        .api()
        .put(&path, spec(json!({"ports": [{"port": 81}]})))
        .await
        .expect(200);
    assert_eq!(changed["spec"]["clusterIP"], made["spec"]["clusterIP"]);
    assert_eq!(changed["spec"]["ports"][0]["port"], 81);
    let changed = c
        .api()
        .patch(&path, MERGE, json!({"spec": {"clusterIP": ""}}))
        .await
        .expect(200);
    assert_eq!(changed["spec"]["clusterIP"], made["spec"]["clusterIP"]);
}

async fn ports_are_checked(c: Cluster) {
    let ns = c.namespace().await;
    let between = |field: &str, value: u32| {
        format!("Invalid spec.ports[0].{field}: {value}: must be between 1 and 65535, inclusive")
    };
    let causes = [
        between("port", 0),
        between("targetPort", 0),
        between("port", 70000),
        between("targetPort", 70000),
    ];
    let protocol = "NotSupported spec.ports[0].protocol: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"";
    let rows = vec![
        (
            spec(json!({"ports": null})),
            vec!["Required spec.ports: Required value"],
        ),
        (
            spec(json!({"ports": [{"port": 0}]})),
            vec![&*causes[0], &*causes[1]],
        ),
        (
            spec(json!({"ports": [{"port": 70000}]})),
            vec![&*causes[2], &*causes[3]],
        ),
        (
            spec(json!({"ports": [{"port": 80, "protocol": "X"}]})),
            vec![protocol],
        ),
    ];
    refuses(&c, &core(&ns, "services"), rows).await;
}

async fn several_ports_need_unique_names_and_numbers(c: Cluster) {
    let ns = c.namespace().await;
    let two = |first: Value, second: Value| spec(json!({"ports": [first, second]}));
    let rows = vec![
        (
            two(json!({"port": 80}), json!({"port": 81})),
            vec![
                "Required spec.ports[0].name: Required value",
                "Required spec.ports[1].name: Required value",
            ],
        ),
        (
            two(json!({"port": 80, "name": "a"}), json!({"port": 81, "name": "a"})),
            vec!["Duplicate spec.ports[1].name: Duplicate value: \"a\""],
        ),
        (
            two(json!({"port": 80, "name": "a"}), json!({"port": 80, "name": "b"})),
            vec!["Duplicate spec.ports[1]"],
        ),
    ];
    refuses(&c, &core(&ns, "services"), rows).await;
    let udp = two(
        json!({"port": 80, "name": "a"}),
        json!({"port": 80, "name": "b", "protocol": "UDP"}),
    );
    c.api().post(&core(&ns, "services"), udp).await.expect(201);
}

async fn types_and_selectors_are_checked(c: Cluster) {
    let ns = c.namespace().await;
    let kinds = "NotSupported spec.type: \"Y\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"";
    let rows = vec![
        (spec(json!({"type": "Y"})), vec![kinds]),
        (
            spec(json!({"type": "ExternalName"})),
            vec!["Required spec.externalName: Required value"],
        ),
        (
            spec(json!({"selector": {"a b": "c"}})),
            vec!["Invalid spec.selector"],
        ),
    ];
    refuses(&c, &core(&ns, "services"), rows).await;
}

async fn external_name_takes_no_address(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "services");
    let taken = "Forbidden spec.clusterIPs: may not be set for ExternalName services";
    let change = json!({"type": "ExternalName", "externalName": "x.y", "clusterIP": "None"});
    if speaks_1_36(&c) {
        refuses(&c, &path, vec![(spec(change), vec![taken])]).await;
    }
    let external = json!({"type": "ExternalName", "externalName": "x.y"});
    c.api().post(&path, spec(external)).await.expect(201);
    if speaks_1_36(&c) {
        for change in [json!({"clusterIP": "None"}), json!({"clusterIPs": ["None"]})] {
            let change = json!({ "spec": change });
            let reply = c.api().patch(&format!("{path}/a"), MERGE, change).await;
            invalid(&reply, &[taken]);
        }
    }
    // An address of its own does not come along, another one would.
    c.api()
        .post(&path, with(service("b"), json!({})))
        .await
        .expect(201);
    let named = json!({"spec": {"type": "ExternalName", "externalName": "x.y"}});
    let changed = c
        .api()
        .patch(&format!("{path}/b"), MERGE, named)
        .await
        .expect(200);
    assert_eq!(changed["spec"].get("clusterIP"), None);
    assert_eq!(changed["spec"].get("clusterIPs"), None);
}

async fn what_the_type_needed_goes_with_it(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "services");
    let made = c
        .api()
        .post(&path, spec(json!({"externalIPs": ["1.2.3.4"]})))
        .await
        .expect(201);
    assert_eq!(made["spec"]["externalTrafficPolicy"], "Cluster");
    let change = json!({"spec": {"type": "ExternalName", "externalName": "x.y"}});
    let changed = c
        .api()
        .patch(&format!("{path}/a"), MERGE, change)
        .await
        .expect(200);
    for gone in [
        "externalTrafficPolicy",
        "internalTrafficPolicy",
        "ipFamilies",
        "ipFamilyPolicy",
    ] {
        assert_eq!(changed["spec"].get(gone), None, "{gone}");
    }
    // What is changed with the type is meant.
    let node = with(service("b"), json!({"spec": {"type": "NodePort"}}));
    let made = c.api().post(&path, node).await.expect(201);
    let change = json!({"spec": {"type": "ClusterIP", "externalTrafficPolicy": "Local"}});
    let reply = c.api().patch(&format!("{path}/b"), MERGE, change).await;
    invalid(
        &reply,
        &["Invalid spec.externalTrafficPolicy: may only be set for externally-accessible services"],
    );
    unchanged(&c, &format!("{path}/b"), &made).await;
}

async fn families_are_named_once(c: Cluster) {
    let ns = c.namespace().await;
    let rows = vec![
        (
            spec(json!({"ipFamilies": ["IPv4", "IPv4"]})),
            vec!["Duplicate spec.ipFamilies[1]: Duplicate value: \"IPv4\""],
        ),
        (
            spec(json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9", "10.0.0.8"]})),
            vec!["Invalid spec.clusterIPs: may specify no more than one IP for each IP family"],
        ),
    ];
    refuses(&c, &core(&ns, "services"), rows).await;
}
