//! A kind with allocated addresses and ports.

use serde_json::json;

use super::{Kind, with_metadata};

pub fn kind() -> Kind {
    let places = places! {
        "/spec/type": ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"] / ["Odd", "", null],
        "/spec/externalName": ["example.com"] / ["Bad_Name", "", 1],
        "/spec/clusterIP": ["None"] / ["x", "", "192.168.1.1", "none", null],
        "/spec/clusterIPs": [["None"]] / [["x"], [], ["None", "None"], null],
        "/spec/selector": [{"app": "a"}, {"app": "b"}, {}] / [{"bad key": "x"}, null, {"app": null}],
        "/spec/selector/app": ["x", "y"] / [1],
        "/spec/sessionAffinity": ["ClientIP", "None"] / ["Odd", ""],
        "/spec/sessionAffinityConfig": [{"clientIP": {"timeoutSeconds": 10}}]
            / [{"clientIP": {"timeoutSeconds": 0}}, {}],
        "/spec/publishNotReadyAddresses": [true, false] / ["x"],
        "/spec/externalTrafficPolicy": ["Cluster", "Local"] / ["Odd", ""],
        "/spec/internalTrafficPolicy": ["Cluster", "Local"] / ["Odd"],
        "/spec/allocateLoadBalancerNodePorts": [true, false] / [null],
        "/spec/loadBalancerClass": ["example.com/x"] / ["", "bad x"],
        "/spec/externalIPs": [["1.2.3.4"], []] / [["127.0.0.1"], ["x"]],
        "/spec/ipFamilies": [["IPv4"]] / [["IPv6"], ["IPv4", "IPv4"], ["Odd"]],
        "/spec/ipFamilyPolicy": ["SingleStack", "PreferDualStack"] / ["RequireDualStack", "Odd"],
        "/spec/healthCheckNodePort": [] / [1, -1],
        "/spec/ports/0/targetPort": [8080, "web"] / [0, "Bad_", -1],
        "/spec/ports/0/name": ["http"] / ["Bad_"],
        "/spec/ports": [
            [{"port": 80}], [{"port": 80, "name": "a"}, {"port": 81, "name": "b", "protocol": "UDP"}],
            [{"port": 80, "name": "a", "targetPort": "web"}, {"port": 80, "name": "b", "protocol": "UDP"}],
            [{"port": 443, "appProtocol": "https"}],
        ] / [
            [], [{"port": 0}], [{"port": 80}, {"port": 81}],
            [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}],
            [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}], [{"port": 80, "protocol": "Odd"}],
            [{"port": 80, "nodePort": 5}], [{"port": "80"}], [{"name": "x"}], null,
        ],
        "/spec/nosuch": [] / [1],
        "/spec": [] / [null, {}],
    };
    let directives = places! {
        "/spec/ports": [
            [{"port": 82, "name": "c"}], [{"port": 80, "$patch": "delete"}], [{"port": 80, "targetPort": 9}],
            [{"$patch": "replace"}, {"port": 90}], [{"port": 80, "name": "a", "protocol": "UDP"}],
        ] / [[{"name": "x"}], [{"port": 80, "$patch": "odd"}]],
        "/spec/$setElementOrder~1ports": [[{"port": 81}, {"port": 80}]] / [[{"name": "x"}]],
        "/spec/selector": [{"$patch": "replace", "x": "y"}, {"$patch": "delete"}] / [],
    };
    let status = places! {
        "/status/loadBalancer": [{"ingress": [{"ip": "1.2.3.4"}]}, {"ingress": [{"hostname": "example.com"}]}, {}]
            / [{"ingress": [{"ip": "x"}]}, {"ingress": [{"hostname": "1.2.3.4"}]}],
        "/status/conditions": [
            [{"type": "X", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2001-01-01T00:00:00Z"}],
            [],
        ] / [[{}], [{"type": "X", "status": "Odd", "reason": "", "message": ""}]],
    };
    Kind {
        root: "/api/v1",
        plural: "services",
        api_version: "v1",
        title: "Service",
        rest: json!({"spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}}),
        places: with_metadata(places),
        directives,
        status,
        has_scale: false,
    }
}
