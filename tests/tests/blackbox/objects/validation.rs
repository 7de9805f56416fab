//! What pods, secrets, config maps, leases, budgets and definitions may look like.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{
        CRDS, MERGE, budget, budgets, config_map, core, definition, field, lease, leases, named, pod, with,
    },
    test,
};
use serde_json::{Value, json};

use crate::expect::{invalid, not_found, refuses, speaks_1_36, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(pod_needs_containers_with_name_and_image),
        test!(container_names_are_unique_dns_labels),
        test!(container_ports_are_numbers_of_a_protocol),
        test!(pod_policies_are_known),
        test!(pod_references_must_resolve_inside_the_pod),
        test!(users_and_groups_are_numbers),
        test!(sources_of_variables_are_checked),
        test!(gated_pod_is_steered_to_fewer_nodes).since(1, 36),
        test!(requests_are_at_most_the_limits),
        test!(quantities_must_parse),
        test!(unknown_priority_class_is_forbidden),
        test!(config_keys_are_file_names),
        test!(config_map_key_is_text_or_bytes),
        test!(immutable_secrets_and_config_maps_keep_their_data),
        test!(secret_type_demands_keys),
        test!(secret_type_is_immutable),
        test!(secret_string_data_is_written_to_data_on_updates),
        test!(lease_numbers_are_checked),
        test!(lease_times_have_microseconds),
        test!(budget_has_one_of_two_numbers),
        test!(definition_is_named_by_plural_and_group),
        test!(definition_rules),
    ]
}

fn pods(change: Value) -> Value {
    with(pod("a"), field("spec", change))
}

fn container(change: Value) -> Value {
    pods(json!({"containers": [with(json!({"name": "c", "image": "i"}), change)]}))
}

async fn pod_needs_containers_with_name_and_image(c: Cluster) {
    let ns = c.namespace().await;
    let rows = vec![
        (
            pods(json!({"containers": []})),
            vec!["Required spec.containers: Required value"],
        ),
        (
            named("v1", "Pod", "a"),
            vec!["Required spec.containers: Required value"],
        ),
        (
            container(json!({"name": null})),
            vec!["Required spec.containers[0].name: Required value"],
        ),
        (
            container(json!({"image": null})),
            vec!["Required spec.containers[0].image: Required value"],
        ),
    ];
    refuses(&c, &core(&ns, "pods"), rows).await;
}

async fn container_names_are_unique_dns_labels(c: Cluster) {
    let ns = c.namespace().await;
    let label = "Invalid spec.containers[0].name: a lowercase RFC 1123 label must consist of lower case alphanumeric \
                 characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
                 regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let one = json!({"name": "c", "image": "i"});
    let rows = vec![
        (container(json!({"name": "C_"})), vec![label]),
        (
            pods(json!({"containers": [one, one]})),
            vec!["Duplicate spec.containers[1].name: Duplicate value: \"c\""],
        ),
        (
            pods(json!({"initContainers": [one]})),
            vec!["Duplicate spec.initContainers[0].name: Duplicate value: \"c\""],
        ),
    ];
    refuses(&c, &core(&ns, "pods"), rows).await;
}

async fn container_ports_are_numbers_of_a_protocol(c: Cluster) {
    let ns = c.namespace().await;
    let rows = vec![
        (
            container(json!({"ports": [{"containerPort": 0}]})),
            vec!["Required spec.containers[0].ports[0].containerPort: Required value"],
        ),
        (
            container(json!({"ports": [{"containerPort": 70000, "protocol": "X"}]})),
            vec![
                "Invalid spec.containers[0].ports[0].containerPort: 70000: must be between 1 and 65535, inclusive",
                "NotSupported spec.containers[0].ports[0].protocol: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ],
        ),
    ];
    refuses(&c, &core(&ns, "pods"), rows).await;
}

async fn pod_policies_are_known(c: Cluster) {
    let ns = c.namespace().await;
    let restart = "NotSupported spec.restartPolicy: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"";
    let pull = "NotSupported spec.containers[0].imagePullPolicy: \"x\": supported values: \"Always\", \"IfNotPresent\", \"Never\"";
    let rows = vec![
        (pods(json!({"restartPolicy": "Sometimes"})), vec![restart]),
        (container(json!({"imagePullPolicy": "x"})), vec![pull]),
        (pods(json!({"nodeName": "A_B"})), vec!["Invalid spec.nodeName"]),
        (
            container(json!({"env": [{"name": ""}]})),
            vec!["Required spec.containers[0].env[0].name: Required value"],
        ),
    ];
    refuses(&c, &core(&ns, "pods"), rows).await;
}

async fn pod_references_must_resolve_inside_the_pod(c: Cluster) {
    let ns = c.namespace().await;
    let body = container(json!({"volumeMounts": [{"name": "nope", "mountPath": "/x"}]}));
    let cause = "NotFound spec.containers[0].volumeMounts[0].name: Not found: \"nope\"";
    refuses(&c, &core(&ns, "pods"), vec![(body, vec![cause])]).await;
}

async fn requests_are_at_most_the_limits(c: Cluster) {
    let ns = c.namespace().await;
    let body = container(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}));
    let cause = if speaks_1_36(&c) {
        "Invalid spec.containers[0].resources.requests: \"2\": must be less than or equal to cpu limit of 1"
    } else {
        "Invalid spec.containers[0].resources.requests: \"2\": must be less than or equal to cpu limit"
    };
    refuses(&c, &core(&ns, "pods"), vec![(body, vec![cause])]).await;
}

async fn quantities_must_parse(c: Cluster) {
    let ns = c.namespace().await;
    let body = container(json!({"resources": {"requests": {"cpu": "lots"}}}));
    let reply = c.api().post(&core(&ns, "pods"), body).await;
    reply.expect_error(400, "BadRequest");
    let text = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    reply.check(reply.message().contains(text), &format!("expected {text}"));
}

async fn unknown_priority_class_is_forbidden(c: Cluster) {
    let ns = c.namespace().await;
    let reply = c
        .api()
        .post(&core(&ns, "pods"), pods(json!({"priorityClassName": "nope"})))
        .await;
    reply.expect_error(403, "Forbidden");
    let message = "pods \"a\" is forbidden: no PriorityClass with name nope was found";
    reply.check(reply.message() == message, "another message");
    not_found(&c.api().get(&core(&ns, "pods/a")).await, "pods", "a");
}

const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
     'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

async fn config_keys_are_file_names(c: Cluster) {
    let ns = c.namespace().await;
    let long = "x".repeat(254);
    let too_long = format!("Invalid data[{long}]: must be no more than 253 characters");
    for (kind, resource) in [("Secret", "secrets"), ("ConfigMap", "configmaps")] {
        let data = |key: &str| with(named("v1", kind, "a"), json!({"data": {key: "eA=="}}));
        let (space, slash) = (
            format!("Invalid data[a b]: {KEY}"),
            format!("Invalid data[a/b]: {KEY}"),
        );
        let (empty, dots) = (
            format!("Invalid data[]: {KEY}"),
            "Invalid data[..]: must not be '..'",
        );
        let rows = vec![
            (data("a b"), vec![&*space]),
            (data("a/b"), vec![&*slash]),
            (data(""), vec![&*empty]),
            (data(".."), vec![dots]),
            (data("."), vec!["Invalid data[.]: must not be '.'"]),
            (data("..a"), vec!["Invalid data[..a]: must not start with '..'"]),
            (data(&long), vec![&*too_long]),
        ];
        refuses(&c, &core(&ns, resource), rows).await;
        c.api()
            .post(&core(&ns, resource), data("A_b.c-d"))
            .await
            .expect(201);
    }
}

async fn config_map_key_is_text_or_bytes(c: Cluster) {
    let ns = c.namespace().await;
    let body = with(config_map("a"), json!({"binaryData": {"k": "eA=="}}));
    let cause = "Invalid data[k]: duplicate of key present in binaryData";
    refuses(&c, &core(&ns, "configmaps"), vec![(body, vec![cause])]).await;
}

async fn immutable_secrets_and_config_maps_keep_their_data(c: Cluster) {
    let ns = c.namespace().await;
    for (kind, resource) in [("Secret", "secrets"), ("ConfigMap", "configmaps")] {
        let path = core(&ns, resource);
        let body = with(
            named("v1", kind, "a"),
            json!({"data": {"k": "eA=="}, "immutable": true}),
        );
        let made = c.api().post(&path, body).await.expect(201);
        assert_eq!(made["immutable"], true);
        let path = format!("{path}/a");
        for (change, field) in [
            (json!({"data": {"k": "eQ=="}}), "data"),
            (json!({"data": {"l": "eQ=="}}), "data"),
            (json!({"immutable": false}), "immutable"),
            (json!({"immutable": null}), "immutable"),
        ] {
            let cause = format!("Forbidden {field}: field is immutable when `immutable` is set");
            invalid(&c.api().patch(&path, MERGE, change).await, &[&cause]);
        }
        unchanged(&c, &path, &made).await;
        let labels = json!({"metadata": {"labels": {"x": "y"}}});
        c.api().patch(&path, MERGE, labels).await.expect(200);
        c.api().delete(&path, ()).await.expect(200);
    }
}

async fn secret_type_demands_keys(c: Cluster) {
    let ns = c.namespace().await;
    let typed = |kind: &str| with(named("v1", "Secret", "a"), json!({"type": kind}));
    let token = "Required metadata.annotations[kubernetes.io/service-account.name]: Required value";
    let rows = vec![
        (
            typed("kubernetes.io/tls"),
            vec![
                "Required data[tls.crt]: Required value",
                "Required data[tls.key]: Required value",
            ],
        ),
        (typed("kubernetes.io/service-account-token"), vec![token]),
    ];
    refuses(&c, &core(&ns, "secrets"), rows).await;
}

async fn secret_type_is_immutable(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "secrets/a");
    let made = c
        .api()
        .post(&core(&ns, "secrets"), named("v1", "Secret", "a"))
        .await
        .expect(201);
    let reply = c.api().patch(&path, MERGE, json!({"type": "x/y"})).await;
    invalid(
        &reply,
        &["Invalid type: Invalid value: \"x/y\": field is immutable"],
    );
    unchanged(&c, &path, &made).await;
}

async fn secret_string_data_is_written_to_data_on_updates(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "secrets/a");
    let body = with(named("v1", "Secret", "a"), json!({"data": {"k": "eA=="}}));
    c.api().post(&core(&ns, "secrets"), body).await.expect(201);
    let changed = c
        .api()
        .patch(&path, MERGE, json!({"stringData": {"l": "b"}}))
        .await
        .expect(200);
    assert_eq!(changed["data"], json!({"k": "eA==", "l": "Yg=="}));
    assert_eq!(changed["stringData"], Value::Null);
}

async fn lease_numbers_are_checked(c: Cluster) {
    let ns = c.namespace().await;
    let body = with(
        lease("a"),
        json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
    );
    let transitions = if speaks_1_36(&c) {
        "Invalid spec.leaseTransitions: -1: must be greater than or equal to 0"
    } else {
        "Invalid spec.leaseTransitions: -1: must to greater or equal than 0"
    };
    let causes = vec![
        "Invalid spec.leaseDurationSeconds: 0: must be greater than 0",
        transitions,
    ];
    refuses(&c, &leases(&ns), vec![(body, causes)]).await;
}

async fn lease_times_have_microseconds(c: Cluster) {
    let ns = c.namespace().await;
    let layout = "2006-01-02T15:04:05.000000Z07:00";
    for (time, found, wanted) in [
        ("2024-01-02T03:04:05Z", "Z", ".000000"),
        ("2024-01-02T03:04:05.1Z", ".1Z", ".000000"),
        ("2024-01-02T03:04:05.123456789Z", "789Z", "Z07:00"),
        ("yesterday", "yesterday", "2006"),
    ] {
        let body = with(lease("a"), json!({"spec": {"renewTime": time}}));
        let reply = c.api().post(&leases(&ns), body).await;
        reply.expect_error(400, "BadRequest");
        let text = format!("parsing time {time:?} as {layout:?}: cannot parse {found:?} as {wanted:?}");
        reply.check(reply.message().contains(&text), &format!("expected {text}"));
    }
    // Any zone is read; UTC is written.
    let body = with(
        lease("a"),
        json!({"spec": {"renewTime": "2024-01-02T03:04:05.123456+02:00"}}),
    );
    let made = c.api().post(&leases(&ns), body).await.expect(201);
    assert_eq!(made["spec"]["renewTime"], "2024-01-02T01:04:05.123456Z");
}

async fn budget_has_one_of_two_numbers(c: Cluster) {
    let ns = c.namespace().await;
    let spec = |change: Value| with(budget(&c, "a"), json!({"spec": change}));
    let rows = vec![
        (
            spec(json!({"maxUnavailable": 1})),
            vec!["Invalid spec: minAvailable and maxUnavailable cannot be both set"],
        ),
        (
            spec(json!({"minAvailable": -1})),
            vec!["Invalid spec.minAvailable: -1: must be greater than or equal to 0"],
        ),
    ];
    refuses(&c, &budgets(&c, &ns), rows).await;
}

async fn definition_is_named_by_plural_and_group(c: Cluster) {
    let body = with(
        definition("misnamed", &json!({})),
        json!({"metadata": {"name": "other.example.com"}}),
    );
    let cause = "Invalid metadata.name: \"other.example.com\": must be spec.names.plural+\".\"+spec.group";
    invalid(&c.api().post(CRDS, body).await, &[cause]);
    let read = c.api().get(&format!("{CRDS}/other.example.com")).await;
    not_found(
        &read,
        "customresourcedefinitions.apiextensions.k8s.io",
        "other.example.com",
    );
}

async fn definition_rules(c: Cluster) {
    let bad = |change: Value| with(definition("ruled", &json!({})), json!({"spec": change}));
    let version = |change: Value| {
        let any = json!({"openAPIV3Schema": {"type": "object"}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": any});
        bad(json!({"versions": [with(version, change)]}))
    };
    let storage = "Invalid spec.versions: must have exactly one version marked as storage version";
    let stored = "Invalid status.storedVersions: must have at least one stored version";
    for (body, causes) in [
        (
            bad(json!({"scope": "Galaxy"})),
            vec!["NotSupported spec.scope: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\""],
        ),
        (bad(json!({"versions": []})), vec![storage, stored]),
        (version(json!({"storage": false})), vec![storage, stored]),
        (
            version(json!({"schema": null})),
            vec!["Required spec.versions[0].schema.openAPIV3Schema"],
        ),
        (
            bad(json!({"names": {"plural": "Ruleds"}})),
            vec!["Invalid metadata.name", "Invalid spec.names.plural"],
        ),
    ] {
        invalid(&c.api().post(CRDS, body).await, &causes);
        let read = c.api().get(&format!("{CRDS}/ruleds.example.com")).await;
        not_found(
            &read,
            "customresourcedefinitions.apiextensions.k8s.io",
            "ruleds.example.com",
        );
    }
}

async fn users_and_groups_are_numbers(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods");
    let range = "-5: must be between 0 and 2147483647, inclusive";
    let context = json!({"fsGroup": -5, "runAsUser": -5, "runAsGroup": -5, "supplementalGroups": [0, -5]});
    let causes = ["fsGroup", "runAsUser", "runAsGroup", "supplementalGroups[1]"]
        .map(|field| format!("Invalid spec.securityContext.{field}: {range}"));
    let causes: Vec<&str> = causes.iter().map(String::as_str).collect();
    let profile = json!({"seccompProfile": {"type": "Odd", "localhostProfile": "x"}});
    let kinds = "NotSupported spec.securityContext.seccompProfile.type: \"Odd\": supported values: \"Localhost\", \
                 \"RuntimeDefault\", \"Unconfined\"";
    let file = "Invalid spec.securityContext.seccompProfile.localhostProfile: can only be set when seccomp type is Localhost";
    let policy = "NotSupported spec.securityContext.fsGroupChangePolicy: \"Odd\"";
    let mut rows = vec![(pods(json!({"securityContext": context})), causes.clone())];
    if speaks_1_36(&c) {
        rows.push((pods(json!({"securityContext": profile})), vec![kinds, file]));
        let odd = json!({"fsGroupChangePolicy": "Odd"});
        let policy = format!("{policy}: supported values: \"Always\", \"OnRootMismatch\"");
        let policy: &'static str = policy.leak();
        rows.push((pods(json!({"securityContext": odd})), vec![policy]));
    }
    refuses(&c, &path, rows).await;
    // What may not change at all is checked first.
    let made = c.api().post(&path, pod("a")).await.expect(201);
    let change = json!({"spec": {"securityContext": {"fsGroup": -5}}});
    let reply = c.api().patch(&format!("{path}/a"), MERGE, change).await;
    reply.expect_error(422, "Invalid");
    let fields: Vec<String> = reply.causes().into_iter().map(|cause| cause.field).collect();
    assert_eq!(fields, ["spec.securityContext.fsGroup", "spec"]);
    unchanged(&c, &format!("{path}/a"), &made).await;
}

async fn sources_of_variables_are_checked(c: Cluster) {
    let ns = c.namespace().await;
    let from = |source: Value| container(json!({"env": [{"name": "A", "valueFrom": source}]}));
    let field = |path: &str| from(json!({"fieldRef": {"fieldPath": path}}));
    let at = |below: &str| format!("spec.containers[0].env[0].valueFrom.{below}");
    let path = at("fieldRef.fieldPath");
    let unknown = format!(
        "Invalid {path}: Invalid value: \"nosuch\": error converting fieldPath: field label not supported: nosuch"
    );
    let subscript = format!(
        "Invalid {path}: error converting fieldPath: field label does not support subscript: metadata.name['x']"
    );
    let elsewhere = format!("NotSupported {path}: ");
    let key = format!("Required {}: Required value", at("configMapKeyRef.key"));
    let resource = format!("Required {}: Required value", at("resourceFieldRef.resource"));
    let empty = format!("Required {path}: Required value");
    let rows: Vec<(Value, Vec<&str>)> = vec![
        (field("nosuch"), vec![&unknown]),
        (field("metadata.name['x']"), vec![&subscript]),
        (field(""), vec![&empty]),
        (
            from(json!({"configMapKeyRef": {"name": "c", "key": ""}})),
            vec![&key],
        ),
        (
            from(json!({"resourceFieldRef": {"resource": ""}})),
            vec![&resource],
        ),
    ];
    refuses(&c, &core(&ns, "pods"), rows).await;
    let reply = c.api().post(&core(&ns, "pods"), field("status.phase")).await;
    reply.expect_error(422, "Invalid");
    let cause = &reply.causes()[0];
    assert_eq!(format!("NotSupported {}: ", cause.field), elsewhere);
    let good = container(json!({"env": [
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['example.com/x']"}}},
        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]}));
    c.api().post(&core(&ns, "pods"), good).await.expect(201);
}

async fn gated_pod_is_steered_to_fewer_nodes(c: Cluster) {
    let ns = c.namespace().await;
    let gated = json!({"schedulingGates": [{"name": "example.com/gate"}], "nodeSelector": {"disk": "ssd"}});
    c.api().post(&core(&ns, "pods"), pods(gated)).await.expect(201);
    let path = core(&ns, "pods/a");
    let steer = async |spec: Value| {
        let change = json!({ "spec": spec });
        c.api().patch(&path, MERGE, change).await
    };
    let nodes = |expressions: Value| {
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
    };
    let (zone, rack) = (
        json!({"key": "zone", "operator": "Exists"}),
        json!({"key": "rack", "operator": "Exists"}),
    );
    steer(json!({"nodeSelector": {"rack": "1"}})).await.expect(200);
    steer(nodes(json!([zone]))).await.expect(200);
    let steered = steer(nodes(json!([zone, rack]))).await.expect(200);
    assert_eq!(
        steered["spec"]["nodeSelector"],
        json!({"disk": "ssd", "rack": "1"})
    );
    let selector = "Invalid spec.nodeSelector: only additions to spec.nodeSelector are allowed (no mutations or deletions)";
    invalid(
        &steer(json!({"nodeSelector": {"disk": "hdd"}})).await,
        &[selector],
    );
    let terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let fewer = format!("Invalid {terms}[0]: only additions are allowed (no mutations or deletions)");
    invalid(&steer(nodes(json!([rack]))).await, &[&*fewer]);
    let gone =
        format!("Invalid {terms}: no additions/deletions to non-empty NodeSelectorTerms list are allowed");
    let none = json!({"affinity": {"nodeAffinity": null}});
    invalid(&steer(none).await, &[&*gone]);
    let reply = steer(json!({"affinity": {"podAffinity": {}}})).await;
    reply.expect_error(422, "Invalid");
    assert_eq!(reply.causes()[0].field, "spec");
    unchanged(&c, &path, &steered).await;
}
