//! An object that the server gives addresses and ports to.

use serde_json::json;

use super::{Kind, place, with_metadata};

pub fn kind() -> Kind {
    let places = vec![
        place(
            "/spec/type",
            json!(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
            json!(["Odd", "", null]),
        ),
        place(
            "/spec/externalName",
            json!(["example.com"]),
            json!(["Bad_Name", "", 1]),
        ),
        place(
            "/spec/clusterIP",
            json!(["None"]),
            json!(["x", "", "192.168.1.1", "none", null]),
        ),
        place(
            "/spec/clusterIPs",
            json!([["None"]]),
            json!([["x"], [], ["None", "None"], null]),
        ),
        place(
            "/spec/selector",
            json!([{"app": "a"}, {"app": "b"}, {}]),
            json!([{"bad key": "x"}, null, {"app": null}]),
        ),
        place("/spec/selector/app", json!(["x", "y"]), json!([1])),
        place(
            "/spec/sessionAffinity",
            json!(["ClientIP", "None"]),
            json!(["Odd", ""]),
        ),
        place(
            "/spec/sessionAffinityConfig",
            json!([{"clientIP": {"timeoutSeconds": 10}}]),
            json!([{"clientIP": {"timeoutSeconds": 0}}, {}]),
        ),
        place(
            "/spec/publishNotReadyAddresses",
            json!([true, false]),
            json!(["x"]),
        ),
        place(
            "/spec/externalTrafficPolicy",
            json!(["Cluster", "Local"]),
            json!(["Odd", ""]),
        ),
        place(
            "/spec/internalTrafficPolicy",
            json!(["Cluster", "Local"]),
            json!(["Odd"]),
        ),
        place(
            "/spec/allocateLoadBalancerNodePorts",
            json!([true, false]),
            json!([null]),
        ),
        place(
            "/spec/loadBalancerClass",
            json!(["example.com/x"]),
            json!(["", "bad x"]),
        ),
        place(
            "/spec/externalIPs",
            json!([["1.2.3.4"], []]),
            json!([["127.0.0.1"], ["x"]]),
        ),
        place(
            "/spec/ipFamilies",
            json!([["IPv4"]]),
            json!([["IPv6"], ["IPv4", "IPv4"], ["Odd"]]),
        ),
        place(
            "/spec/ipFamilyPolicy",
            json!(["SingleStack", "PreferDualStack"]),
            json!(["RequireDualStack", "Odd"]),
        ),
        place("/spec/healthCheckNodePort", json!([]), json!([1, -1])),
        place(
            "/spec/ports/0/targetPort",
            json!([8080, "web"]),
            json!([0, "Bad_", -1]),
        ),
        place("/spec/ports/0/name", json!(["http"]), json!(["Bad_"])),
        place(
            "/spec/ports",
            json!([
                [{"port": 80}],
                [{"port": 80, "name": "a"}, {"port": 81, "name": "b", "protocol": "UDP"}],
                [{"port": 80, "name": "a", "targetPort": "web"}, {"port": 80, "name": "b", "protocol": "UDP"}],
                [{"port": 443, "appProtocol": "https"}],
            ]),
            json!([
                [],
                [{"port": 0}],
                [{"port": 80}, {"port": 81}],
                [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}],
                [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}],
                [{"port": 80, "protocol": "Odd"}],
                [{"port": 80, "nodePort": 5}],
                [{"port": "80"}],
                [{"name": "x"}],
                null,
            ]),
        ),
        place("/spec/nosuch", json!([]), json!([1])),
        place("/spec", json!([]), json!([null, {}])),
    ];
    let directives = vec![
        place(
            "/spec/ports",
            json!([
                [{"port": 82, "name": "c"}],
                [{"port": 80, "$patch": "delete"}],
                [{"port": 80, "targetPort": 9}],
                [{"$patch": "replace"}, {"port": 90}],
                [{"port": 80, "name": "a", "protocol": "UDP"}],
            ]),
            json!([[{"name": "x"}], [{"port": 80, "$patch": "odd"}]]),
        ),
        place(
            "/spec/$setElementOrder~1ports",
            json!([[{"port": 81}, {"port": 80}]]),
            json!([[{"name": "x"}]]),
        ),
        place(
            "/spec/selector",
            json!([{"$patch": "replace", "x": "y"}, {"$patch": "delete"}]),
            json!([]),
        ),
    ];
    let status = vec![
        place(
            "/status/loadBalancer",
            json!([{"ingress": [{"ip": "1.2.3.4"}]}, {"ingress": [{"hostname": "example.com"}]}, {}]),
            json!([{"ingress": [{"ip": "x"}]}, {"ingress": [{"hostname": "1.2.3.4"}]}]),
        ),
        place(
            "/status/conditions",
            json!([[{"type": "X", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2001-01-01T00:00:00Z"}], []]),
            json!([[{}], [{"type": "X", "status": "Odd", "reason": "", "message": ""}]]),
        ),
    ];
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
