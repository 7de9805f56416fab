use serde_json::{Value, json};

use crate::registry::testing::{create_errors, created, updated};

fn spec(fields: &Value) -> Value {
    json!({ "spec": fields })
}

#[test]
fn defaults_follow_the_type() {
    let ports = json!([{"port": 80}]);
    let full = json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]);
    let cases = [
        (
            json!({"ports": ports}),
            json!({"internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": full, "sessionAffinity": "None", "type": "ClusterIP"}),
        ),
        (
            json!({"clusterIP": "None", "ports": ports}),
            json!({"clusterIP": "None", "clusterIPs": ["None"], "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack", "ports": full,
                "sessionAffinity": "None", "type": "ClusterIP"}),
        ),
        (
            json!({"clusterIP": "None", "selector": {"a": "b"}}),
            json!({"clusterIP": "None", "clusterIPs": ["None"], "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "selector": {"a": "b"},
                "sessionAffinity": "None", "type": "ClusterIP"}),
        ),
        (
            json!({"type": "ExternalName", "externalName": "a.b"}),
            json!({"externalName": "a.b", "sessionAffinity": "None", "type": "ExternalName"}),
        ),
        (
            json!({"type": "NodePort", "sessionAffinity": "ClientIP", "ports": ports}),
            json!({"externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "ports": full, "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}, "type": "NodePort"}),
        ),
    ];
    for (given, expected) in cases {
        let service = created("services", spec(&given));
        assert_eq!(service["spec"], expected);
        assert_eq!(service["status"], json!({"loadBalancer": {}}));
    }
}

#[test]
fn what_is_wrong_is_named() {
    let cases = [
        (json!({}), vec!["spec.ports: Required value"]),
        (
            json!({"ports": [{"port": 0}, {"port": 70000, "name": "a"}]}),
            vec![
                "spec.ports[0].name: Required value",
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[1].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "spec.ports[1].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            json!({"type": "Magic", "ports": [{"port": 1}]}),
            vec![
                "spec.type: Unsupported value: \"Magic\": supported values: \"ClusterIP\", \"ExternalName\", \
                 \"LoadBalancer\", \"NodePort\"",
            ],
        ),
        (
            json!({"ports": [{"port": 1, "nodePort": 30000}]}),
            vec!["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (
            json!({"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]}),
            vec![
                "spec.ports[1]: Duplicate value: {\"AppProtocol\":null,\"Name\":\"\",\"NodePort\":0,\"Port\":1,\
                 \"Protocol\":\"TCP\",\"TargetPort\":0}",
            ],
        ),
        (
            json!({"type": "ExternalName"}),
            vec!["spec.externalName: Required value"],
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(create_errors("services", spec(&given)), expected, "{given}");
    }
}

#[test]
fn the_address_stays() {
    let old = || json!({"clusterIP": "10.0.0.9", "ports": [{"port": 80}]});
    let (kept, errors) = updated("services", spec(&old()), spec(&json!({"ports": [{"port": 81}]})));
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(kept["spec"]["clusterIPs"], json!(["10.0.0.9"]));

    let both = json!({"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.9"], "ports": [{"port": 80}]});
    for new in [both, json!({"clusterIP": "10.0.0.7", "ports": [{"port": 80}]})] {
        let (_, errors) = updated("services", spec(&old()), spec(&new));
        assert_eq!(
            errors,
            ["spec.clusterIPs[0]: Invalid value: [\"10.0.0.7\"]: may not change once set"]
        );
    }
}

#[test]
fn a_new_type_drops_what_the_old_one_needed() {
    let old = || {
        spec(
            &json!({"type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{"port": 80, "nodePort": 30000}],
            "externalTrafficPolicy": "Cluster"}),
        )
    };
    let mut new = created("services", old())["spec"].clone();
    new["type"] = "ClusterIP".into();
    let (inside, errors) = updated("services", old(), spec(&new));
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(
        inside["spec"]["ports"],
        json!([{"port": 80, "protocol": "TCP", "targetPort": 80}])
    );
    assert_eq!(inside["spec"]["externalTrafficPolicy"], Value::Null);

    new["type"] = "ExternalName".into();
    new["externalName"] = "a.b".into();
    let (outside, errors) = updated("services", old(), spec(&new));
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(
        outside["spec"],
        json!({"externalName": "a.b", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "sessionAffinity": "None", "type": "ExternalName"})
    );
}
