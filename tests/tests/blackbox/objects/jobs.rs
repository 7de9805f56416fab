//! What jobs and cron jobs may look like, and which of it may change.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{MERGE, cron_job, group, job, with},
    test,
};
use serde_json::{Value, json};

use crate::expect::{invalid, refuses, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(job_template_must_not_restart_always),
        test!(job_selector_is_generated),
        test!(job_numbers_are_not_negative),
        test!(job_completions_template_and_selector_are_immutable),
        test!(cron_job_rules).since(1, 25),
    ]
}

const NO_MATCH: &str = "Invalid spec.template.metadata.labels: `selector` does not match template `labels`";

fn jobs(ns: &str) -> String {
    group("batch/v1", ns, "jobs")
}

async fn job_template_must_not_restart_always(c: Cluster) {
    let ns = c.namespace().await;
    let cause = "Required spec.template.spec.restartPolicy: valid values: \"OnFailure\", \"Never\"";
    let rows = [json!(null), json!("Always")].map(|policy| {
        let change = json!({"template": {"spec": {"restartPolicy": policy}}});
        (with(job("a"), json!({"spec": change})), vec![cause])
    });
    refuses(&c, &jobs(&ns), rows.to_vec()).await;
    let body = with(
        job("a"),
        json!({"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}}),
    );
    c.api().post(&jobs(&ns), body).await.expect(201);
}

async fn job_selector_is_generated(c: Cluster) {
    let ns = c.namespace().await;
    let selector = json!({"matchLabels": {"app": "a"}});
    let body = with(job("a"), json!({"spec": {"selector": selector}}));
    let causes = vec!["Invalid spec.selector: `selector` not auto-generated", NO_MATCH];
    refuses(&c, &jobs(&ns), vec![(body, causes)]).await;
    let manual = json!({"selector": selector, "manualSelector": true, "template": {"metadata": {"labels": {"app": "a"}}}});
    let made = c
        .api()
        .post(&jobs(&ns), with(job("a"), json!({"spec": manual})))
        .await
        .expect(201);
    assert_eq!(made["spec"]["selector"], selector);
    assert_eq!(
        made["spec"]["template"]["metadata"]["labels"],
        json!({"app": "a"})
    );
}

async fn job_numbers_are_not_negative(c: Cluster) {
    let ns = c.namespace().await;
    let numbers =
        json!({"parallelism": -1, "completions": -1, "activeDeadlineSeconds": -1, "backoffLimit": -1});
    let causes = vec![
        "Invalid spec.parallelism: -1: must be greater than or equal to 0",
        "Invalid spec.completions: -1: must be greater than or equal to 0",
        "Invalid spec.activeDeadlineSeconds: -1: must be greater than or equal to 0",
        "Invalid spec.backoffLimit: -1: must be greater than or equal to 0",
    ];
    refuses(
        &c,
        &jobs(&ns),
        vec![(with(job("a"), json!({"spec": numbers})), causes)],
    )
    .await;
}

async fn job_completions_template_and_selector_are_immutable(c: Cluster) {
    let ns = c.namespace().await;
    let path = format!("{}/a", jobs(&ns));
    let made = c.api().post(&jobs(&ns), job("a")).await.expect(201);
    let image = json!([{"name": "c", "image": "other"}]);
    for (change, cause) in [
        (
            json!({"completions": 4}),
            "Invalid spec.completions: 4: field is immutable",
        ),
        (
            json!({"template": {"spec": {"containers": image}}}),
            "Invalid spec.template: field is immutable",
        ),
    ] {
        invalid(
            &c.api().patch(&path, MERGE, json!({"spec": change})).await,
            &[cause],
        );
    }
    unchanged(&c, &path, &made).await;
    let changed = c
        .api()
        .patch(&path, MERGE, json!({"spec": {"parallelism": 4}}))
        .await
        .expect(200);
    assert_eq!(changed["spec"]["parallelism"], 4);
}

async fn cron_job_rules(c: Cluster) {
    let ns = c.namespace().await;
    let cron = |change: Value| with(cron_job("a"), json!({"spec": change}));
    let always = json!({"jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}});
    let rows = vec![
        (
            cron(json!({"schedule": "x"})),
            vec!["Invalid spec.schedule: \"x\": expected exactly 5 fields, found 1: [x]"],
        ),
        (
            cron(with(always, json!({"schedule": ""}))),
            vec![
                "Required spec.schedule",
                "Required spec.jobTemplate.spec.template.spec.restartPolicy: valid values: \"OnFailure\", \"Never\"",
            ],
        ),
        (
            cron(json!({"timeZone": "Moon/Base", "concurrencyPolicy": "x"})),
            vec![
                "Invalid spec.timeZone: \"Moon/Base\": unknown time zone Moon/Base",
                "NotSupported spec.concurrencyPolicy: \"x\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            ],
        ),
    ];
    refuses(&c, &group("batch/v1", &ns, "cronjobs"), rows).await;
}
