//! What Deployments and their kin may look like, and which of it may change.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{MERGE, apps, core, field, named, replication_controller, template, with, workload},
    test,
};
use serde_json::{Value, json};

use crate::expect::{invalid, refuses, speaks_1_36, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(selector_must_match_the_template),
        test!(selector_must_be_there_and_not_be_empty),
        test!(selector_must_be_valid),
        test!(selector_is_immutable),
        test!(replicas_are_not_negative),
        test!(pods_of_a_template_restart_always),
        test!(template_needs_containers),
        test!(rolling_update_needs_room),
        test!(strategy_is_one_of_two),
        test!(deployment_numbers_are_not_negative),
        test!(progress_deadline_is_longer_than_min_ready),
        test!(stateful_set_spec_is_mostly_immutable),
        test!(stateful_set_policies_are_known),
        test!(replication_controller_rules),
    ]
}

const KINDS: [(&str, &str); 4] = [
    ("Deployment", "deployments"),
    ("ReplicaSet", "replicasets"),
    ("StatefulSet", "statefulsets"),
    ("DaemonSet", "daemonsets"),
];
const NO_MATCH: &str = "Invalid spec.template.metadata.labels: `selector` does not match template `labels`";

fn spec(kind: &str, change: Value) -> Value {
    with(workload(kind, "a"), field("spec", change))
}

async fn selector_must_match_the_template(c: Cluster) {
    let ns = c.namespace().await;
    for (kind, resource) in KINDS {
        let other = spec(kind, json!({"selector": {"matchLabels": {"app": "b"}}}));
        let more = spec(kind, json!({"selector": {"matchLabels": {"more": "b"}}}));
        let expression = json!([{"key": "app", "operator": "NotIn", "values": ["a"]}]);
        let not = spec(
            kind,
            json!({"selector": {"matchLabels": null, "matchExpressions": expression}}),
        );
        let unlabelled = spec(kind, json!({"template": {"metadata": null}}));
        let rows = [other, more, not, unlabelled].map(|body| (body, vec![NO_MATCH]));
        refuses(&c, &apps(&ns, resource), rows.to_vec()).await;
    }
}

async fn selector_must_be_there_and_not_be_empty(c: Cluster) {
    let ns = c.namespace().await;
    for (kind, resource) in KINDS {
        // A ReplicaSet is called a deployment, by the server.
        let noun = match kind {
            "StatefulSet" => "statefulset",
            "DaemonSet" => "daemonset",
            _ => "deployment",
        };
        let empty = format!("Invalid spec.selector: empty selector is invalid for {noun}");
        let missing = match kind {
            "DaemonSet" => vec![NO_MATCH],
            _ => vec!["Required spec.selector: Required value", NO_MATCH],
        };
        let rows = vec![
            (
                spec(kind, json!({"selector": {"matchLabels": null}})),
                vec![&*empty],
            ),
            (spec(kind, json!({"selector": null})), missing),
        ];
        refuses(&c, &apps(&ns, resource), rows).await;
    }
    let nothing = |kind: &str| named("apps/v1", kind, "a");
    let causes = vec![
        "Required spec.selector",
        NO_MATCH,
        "Required spec.template.spec.containers",
    ];
    refuses(
        &c,
        &apps(&ns, "deployments"),
        vec![(nothing("Deployment"), causes.clone())],
    )
    .await;
    refuses(
        &c,
        &apps(&ns, "replicasets"),
        vec![(nothing("ReplicaSet"), causes)],
    )
    .await;
}

async fn selector_must_be_valid(c: Cluster) {
    let ns = c.namespace().await;
    let expression = |operator: &str, values: Value| {
        let expression = json!([{"key": "app", "operator": operator, "values": values}]);
        spec(
            "Deployment",
            json!({"selector": {"matchLabels": null, "matchExpressions": expression}}),
        )
    };
    let selector = "Invalid spec.selector: invalid label selector";
    let operator =
        "Invalid spec.selector.matchExpressions[0].operator: \"Foo\": not a valid selector operator";
    let required = "Required spec.selector.matchExpressions[0].values: must be specified when `operator` is 'In' or 'NotIn'";
    let forbidden = "Forbidden spec.selector.matchExpressions[0].values: may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
    let rows = vec![
        (expression("Foo", json!(["a"])), vec![operator, selector]),
        (expression("In", json!([])), vec![required, selector]),
        (expression("Exists", json!(["a"])), vec![forbidden, selector]),
    ];
    refuses(&c, &apps(&ns, "deployments"), rows).await;
}

async fn selector_is_immutable(c: Cluster) {
    let ns = c.namespace().await;
    for (kind, resource) in [KINDS[0], KINDS[1], KINDS[3]] {
        let path = apps(&ns, resource);
        let made = c.api().post(&path, workload(kind, "a")).await.expect(201);
        let named = format!("{path}/a");
        let labels = json!({"app": "a", "x": "y"});
        let change = json!({"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}});
        for reply in [
            c.api()
                .put(&named, with(workload(kind, "a"), change.clone()))
                .await,
            c.api().patch(&named, MERGE, change).await,
        ] {
            invalid(&reply, &["Invalid spec.selector: field is immutable"]);
        }
        unchanged(&c, &named, &made).await;
    }
}

async fn replicas_are_not_negative(c: Cluster) {
    let ns = c.namespace().await;
    let cause = "Invalid spec.replicas: Invalid value: -1: must be greater than or equal to 0";
    for (kind, resource) in &KINDS[..3] {
        let path = apps(&ns, resource);
        refuses(
            &c,
            &path,
            vec![(spec(kind, json!({"replicas": -1})), vec![cause])],
        )
        .await;
        let made = c
            .api()
            .post(&path, spec(kind, json!({"replicas": 0})))
            .await
            .expect(201);
        assert_eq!(made["spec"]["replicas"], 0);
        let named = format!("{path}/a");
        invalid(
            &c.api()
                .patch(&named, MERGE, json!({"spec": {"replicas": -1}}))
                .await,
            &[cause],
        );
        unchanged(&c, &named, &made).await;
    }
}

async fn pods_of_a_template_restart_always(c: Cluster) {
    let ns = c.namespace().await;
    let cause = "NotSupported spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"";
    for (kind, resource) in KINDS {
        let body = spec(kind, json!({"template": {"spec": {"restartPolicy": "Never"}}}));
        refuses(&c, &apps(&ns, resource), vec![(body, vec![cause])]).await;
    }
}

async fn template_needs_containers(c: Cluster) {
    let ns = c.namespace().await;
    let cause = "Required spec.template.spec.containers: Required value";
    for (kind, resource) in KINDS {
        if kind == "StatefulSet" && !speaks_1_36(&c) {
            continue; // Its template was hardly looked at.
        }
        let body = spec(kind, json!({"template": {"spec": {"containers": []}}}));
        refuses(&c, &apps(&ns, resource), vec![(body, vec![cause])]).await;
    }
}

async fn rolling_update_needs_room(c: Cluster) {
    let ns = c.namespace().await;
    let rolling = |surge: Value, unavailable: Value| {
        let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        spec(
            "Deployment",
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}),
        )
    };
    let none = "Invalid spec.strategy.rollingUpdate.maxUnavailable: may not be 0 when `maxSurge` is 0";
    let negative =
        "Invalid spec.strategy.rollingUpdate.maxUnavailable: -1: must be greater than or equal to 0";
    let percent = "Invalid spec.strategy.rollingUpdate.maxSurge: a valid percent string must be a numeric string followed \
                   by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    let much = "Invalid spec.strategy.rollingUpdate.maxUnavailable: must not be greater than 100%";
    let rows = vec![
        (rolling(json!(0), json!(0)), vec![none]),
        (rolling(json!("0%"), json!(0)), vec![none]),
        (rolling(json!("x"), json!(-1)), vec![negative, percent]),
        (rolling(json!(1), json!("101%")), vec![much]),
    ];
    refuses(&c, &apps(&ns, "deployments"), rows).await;
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), rolling(json!("150%"), json!(0)))
        .await
        .expect(201);
    let rolling = json!({"maxSurge": "150%", "maxUnavailable": 0});
    assert_eq!(made["spec"]["strategy"]["rollingUpdate"], rolling);
}

async fn strategy_is_one_of_two(c: Cluster) {
    let ns = c.namespace().await;
    let strategy = |strategy: Value| spec("Deployment", json!({"strategy": strategy}));
    let unknown = "NotSupported spec.strategy: supported values: \"Recreate\", \"RollingUpdate\"";
    let both =
        "Forbidden spec.strategy.rollingUpdate: may not be specified when strategy `type` is 'Recreate'";
    let rows = vec![
        (strategy(json!({"type": "Nope"})), vec![unknown]),
        (
            strategy(json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}})),
            vec![both],
        ),
    ];
    let path = apps(&ns, "deployments");
    refuses(&c, &path, rows).await;
    let made = c
        .api()
        .post(&path, strategy(json!({"type": "Recreate"})))
        .await
        .expect(201);
    assert_eq!(made["spec"]["strategy"], json!({"type": "Recreate"}));
}

async fn deployment_numbers_are_not_negative(c: Cluster) {
    let ns = c.namespace().await;
    let numbers = json!({"minReadySeconds": -1, "revisionHistoryLimit": -1, "progressDeadlineSeconds": -5});
    let causes = vec![
        "Invalid spec.minReadySeconds: -1: must be greater than or equal to 0",
        "Invalid spec.revisionHistoryLimit: -1: must be greater than or equal to 0",
        "Invalid spec.progressDeadlineSeconds: -5: must be greater than or equal to 0",
        "Invalid spec.progressDeadlineSeconds: -5: must be greater than minReadySeconds",
    ];
    refuses(
        &c,
        &apps(&ns, "deployments"),
        vec![(spec("Deployment", numbers), causes)],
    )
    .await;
}

async fn progress_deadline_is_longer_than_min_ready(c: Cluster) {
    let ns = c.namespace().await;
    let cause = "Invalid spec.progressDeadlineSeconds: 600: must be greater than minReadySeconds";
    let rows = [
        json!({"minReadySeconds": 600}),
        json!({"minReadySeconds": 700, "progressDeadlineSeconds": 600}),
    ]
    .map(|numbers| (spec("Deployment", numbers), vec![cause]));
    refuses(&c, &apps(&ns, "deployments"), rows.to_vec()).await;
}

async fn stateful_set_spec_is_mostly_immutable(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "statefulsets/a");
    let made = c
        .api()
        .post(
            &apps(&ns, "statefulsets"),
            spec("StatefulSet", json!({"serviceName": "s"})),
        )
        .await
        .expect(201);
    let cause = if speaks_1_36(&c) {
        "Forbidden spec: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
         'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    } else {
        "Forbidden spec: updates to statefulset spec for fields other than 'replicas', 'template', and 'updateStrategy' \
         are forbidden"
    };
    let labels = json!({"app": "a", "x": "y"});
    for change in [
        json!({"serviceName": "other"}),
        json!({"podManagementPolicy": "Parallel"}),
        json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}),
    ] {
        invalid(
            &c.api().patch(&path, MERGE, json!({"spec": change})).await,
            &[cause],
        );
    }
    unchanged(&c, &path, &made).await;
    let template = json!({"metadata": {"annotations": {"x": "y"}}});
    let change = json!({"spec": {"replicas": 3, "template": template, "updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}});
    let changed = c.api().patch(&path, MERGE, change).await.expect(200);
    assert_eq!(changed["spec"]["replicas"], 3);
    assert_eq!(changed["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
}

async fn stateful_set_policies_are_known(c: Cluster) {
    let ns = c.namespace().await;
    let body = spec(
        "StatefulSet",
        json!({"podManagementPolicy": "x", "updateStrategy": {"type": "y"}}),
    );
    let causes = vec![
        "Invalid spec.podManagementPolicy: must be 'OrderedReady' or 'Parallel'",
        "Invalid spec.updateStrategy: must be 'RollingUpdate' or 'OnDelete'",
    ];
    refuses(&c, &apps(&ns, "statefulsets"), vec![(body, causes)]).await;
}

async fn replication_controller_rules(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "replicationcontrollers");
    let rc = |change: Value| with(replication_controller("a"), json!({"spec": change}));
    let rows = vec![
        (
            rc(json!({"replicas": -1, "selector": {"app": "b"}})),
            vec![
                "Invalid spec.replicas: -1: must be greater than or equal to 0",
                NO_MATCH,
            ],
        ),
        (
            rc(json!({"template": null})),
            vec!["Required spec.selector", "Required spec.template"],
        ),
    ];
    refuses(&c, &path, rows).await;
    c.api().post(&path, rc(json!({}))).await.expect(201);
    // The selector may change, other than with the kinds of apps.
    let template = with(template(), json!({"metadata": {"labels": {"app": "z"}}}));
    let changed = rc(json!({"selector": {"app": "z"}, "template": template}));
    let changed = c.api().put(&format!("{path}/a"), changed).await.expect(200);
    assert_eq!(changed["spec"]["selector"], json!({"app": "z"}));
}
