//! What users and controllers see on Deployments and their kin that they did not send.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{
        MERGE, apps, core, cron_job, deployment, group, job, replica_set, replication_controller, template,
        with, workload,
    },
    test,
};
use serde_json::{Value, json};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(deployment_gets_defaults),
        test!(deployment_recreate_has_no_rolling_update),
        test!(replica_set_gets_defaults),
        test!(replication_controller_takes_selector_and_labels_from_its_template),
        test!(stateful_set_gets_defaults),
        test!(daemon_set_gets_defaults),
        test!(daemon_set_counts_its_templates_in_an_annotation),
        test!(job_gets_a_selector_and_labels).since(1, 27),
        test!(job_labels_before_they_had_a_prefix),
        test!(job_parallelism_and_completions),
        test!(cron_job_gets_defaults).since(1, 21),
        test!(status_of_the_body_is_ignored),
    ]
}

/// The template of the fixtures with its defaults. Older servers print a creationTimestamp of null, which is no news.
fn full_template() -> Value {
    let container = json!({
        "name": "c", "image": "i", "resources": {}, "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
    });
    let spec = json!({
        "containers": [container], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "default-scheduler",
    });
    with(template(), json!({"spec": spec}))
}

fn without_null(mut object: Value) -> Value {
    if let Some(meta) = object
        .pointer_mut("/spec/template/metadata")
        .and_then(Value::as_object_mut)
    {
        meta.retain(|_, value| !value.is_null());
    }
    object
}

async fn deployment_gets_defaults(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let spec = json!({
        "replicas": 1,
        "selector": {"matchLabels": {"app": "a"}},
        "template": full_template(),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    });
    let made = without_null(made);
    assert_eq!(made["spec"], spec);
    assert_eq!(made["status"], json!({}));
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["metadata"]["labels"], Value::Null);
}

async fn deployment_recreate_has_no_rolling_update(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments");
    let body = with(
        deployment("a"),
        json!({"spec": {"strategy": {"type": "Recreate"}}}),
    );
    let made = c.api().post(&path, body).await.expect(201);
    assert_eq!(made["spec"]["strategy"], json!({"type": "Recreate"}));
    let change = json!({"spec": {"strategy": {"type": "RollingUpdate"}}});
    let changed = c
        .api()
        .patch(&format!("{path}/a"), MERGE, change)
        .await
        .expect(200);
    let rolling = json!({"maxUnavailable": "25%", "maxSurge": "25%"});
    assert_eq!(
        changed["spec"]["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": rolling})
    );
}

async fn replica_set_gets_defaults(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&apps(&ns, "replicasets"), replica_set("a"))
        .await
        .expect(201);
    let made = without_null(made);
    let selector = json!({"matchLabels": {"app": "a"}});
    assert_eq!(
        made["spec"],
        json!({"replicas": 1, "selector": selector, "template": full_template()})
    );
    assert_eq!(made["status"], json!({"replicas": 0}));
    assert_eq!(made["metadata"]["generation"], 1);
}

async fn replication_controller_takes_selector_and_labels_from_its_template(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&core(&ns, "replicationcontrollers"), replication_controller("a"))
        .await
        .expect(201);
    let made = without_null(made);
    assert_eq!(
        made["spec"],
        json!({"replicas": 1, "selector": {"app": "a"}, "template": full_template()})
    );
    assert_eq!(made["status"], json!({"replicas": 0}));
    assert_eq!(made["metadata"]["labels"], json!({"app": "a"}));
    assert_eq!(made["metadata"]["generation"], 1);
}

async fn stateful_set_gets_defaults(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&apps(&ns, "statefulsets"), workload("StatefulSet", "a"))
        .await
        .expect(201);
    let made = without_null(made);
    let spec = &made["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["podManagementPolicy"], "OrderedReady");
    assert_eq!(
        spec["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    );
    assert_eq!(spec["revisionHistoryLimit"], 10);
    assert_eq!(spec["template"], full_template());
    assert_eq!(made["metadata"]["generation"], 1);
    if c.version() < (1, 27) {
        return;
    }
    let retention = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    assert_eq!(spec["persistentVolumeClaimRetentionPolicy"], retention);
    assert_eq!(made["status"], json!({"replicas": 0, "availableReplicas": 0}));
}

async fn daemon_set_gets_defaults(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&apps(&ns, "daemonsets"), workload("DaemonSet", "a"))
        .await
        .expect(201);
    let made = without_null(made);
    let rolling = if c.version() < (1, 22) {
        json!({"maxUnavailable": 1})
    } else {
        json!({"maxUnavailable": 1, "maxSurge": 0})
    };
    let spec = json!({
        "selector": {"matchLabels": {"app": "a"}},
        "template": full_template(),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "revisionHistoryLimit": 10,
    });
    assert_eq!(made["spec"], spec);
    let status = json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0});
    assert_eq!(made["status"], status);
    assert_eq!(made["metadata"]["generation"], 1);
}

async fn daemon_set_counts_its_templates_in_an_annotation(c: Cluster) {
    const COUNT: &str = "deprecated.daemonset.template.generation";
    let ns = c.namespace().await;
    let path = apps(&ns, "daemonsets");
    let made = c.api().post(&path, workload("DaemonSet", "a")).await.expect(201);
    assert_eq!(made["metadata"]["annotations"], json!({COUNT: "1"}));
    let path = format!("{path}/a");
    let template = json!({"metadata": {"annotations": {"x": "y"}}});
    let changed = c
        .api()
        .patch(&path, MERGE, json!({"spec": {"template": template}}))
        .await
        .expect(200);
    assert_eq!(changed["metadata"]["annotations"], json!({COUNT: "2"}));
    let changed = c
        .api()
        .patch(&path, MERGE, json!({"spec": {"minReadySeconds": 5}}))
        .await
        .expect(200);
    assert_eq!(
        changed["metadata"]["annotations"],
        json!({COUNT: "2"}),
        "only for templates"
    );
    assert_eq!(changed["metadata"]["generation"], 3);
}

/// The labels with a prefix came with 1.27; the old ones stay beside them.
async fn job_gets_a_selector_and_labels(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&group("batch/v1", &ns, "jobs"), job("a"))
        .await
        .expect(201);
    let uid = &made["metadata"]["uid"];
    let labels = json!({
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "a", "controller-uid": uid, "job-name": "a",
    });
    assert_eq!(made["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(
        made["metadata"]["labels"], labels,
        "a job takes its template's labels"
    );
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    assert_eq!(made["spec"]["selector"], selector);
    assert_eq!(made["spec"]["completionMode"], "NonIndexed");
    assert_eq!(made["spec"]["suspend"], false);
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["status"], json!({}));
}

async fn job_labels_before_they_had_a_prefix(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&group("batch/v1", &ns, "jobs"), job("a"))
        .await
        .expect(201);
    let uid = &made["metadata"]["uid"];
    for labels in [
        &made["metadata"]["labels"],
        &made["spec"]["template"]["metadata"]["labels"],
    ] {
        assert_eq!(
            (&labels["controller-uid"], &labels["job-name"]),
            (uid, &json!("a"))
        );
    }
    assert_eq!(made["spec"]["template"]["spec"]["restartPolicy"], "Never");
}

async fn job_parallelism_and_completions(c: Cluster) {
    let ns = c.namespace().await;
    for (name, sent, parallelism, completions) in [
        ("neither", json!({}), json!(1), json!(1)),
        ("completions", json!({"completions": 5}), json!(1), json!(5)),
        // A work queue: any pod's success counts.
        ("parallelism", json!({"parallelism": 5}), json!(5), Value::Null),
    ] {
        let made = c
            .api()
            .post(
                &group("batch/v1", &ns, "jobs"),
                with(job(name), json!({"spec": sent})),
            )
            .await
            .expect(201);
        assert_eq!(
            (&made["spec"]["parallelism"], &made["spec"]["completions"]),
            (&parallelism, &completions),
            "{name}"
        );
        assert_eq!(made["spec"]["backoffLimit"], 6);
    }
}

async fn cron_job_gets_defaults(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&group("batch/v1", &ns, "cronjobs"), cron_job("a"))
        .await
        .expect(201);
    let spec = &made["spec"];
    assert_eq!(spec["concurrencyPolicy"], "Allow");
    assert_eq!(spec["suspend"], false);
    assert_eq!(
        (
            &spec["successfulJobsHistoryLimit"],
            &spec["failedJobsHistoryLimit"]
        ),
        (&json!(3), &json!(1))
    );
    let job = &spec["jobTemplate"]["spec"];
    assert_eq!(
        job["template"]["spec"]["terminationGracePeriodSeconds"], 30,
        "its pods have defaults"
    );
    assert_eq!(
        (&job["parallelism"], &job["backoffLimit"]),
        (&Value::Null, &Value::Null),
        "its jobs have none"
    );
    assert_eq!(made["status"], json!({}));
    assert_eq!(made["metadata"]["generation"], 1);
}

async fn status_of_the_body_is_ignored(c: Cluster) {
    let ns = c.namespace().await;
    for (kind, resource) in [
        ("Deployment", "deployments"),
        ("ReplicaSet", "replicasets"),
        ("StatefulSet", "statefulsets"),
    ] {
        let body = with(
            workload(kind, "a"),
            json!({"status": {"replicas": 7, "observedGeneration": 9}}),
        );
        let made = c.api().post(&apps(&ns, resource), body).await.expect(201);
        assert_eq!(made["status"]["observedGeneration"], Value::Null, "{kind}");
        assert_ne!(made["status"]["replicas"], 7, "{kind}");
    }
}
