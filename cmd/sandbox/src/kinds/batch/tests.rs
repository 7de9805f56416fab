use serde_json::{Value, json};

use crate::kinds::testing::{create_errors, created, resource, texts, updated};

fn job(extra: Value) -> Value {
    let mut spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}});
    if let (Some(spec), Value::Object(extra)) = (spec.as_object_mut(), extra) {
        spec.extend(extra);
    }
    json!({ "spec": spec })
}

#[test]
fn a_job_is_tied_to_its_pods_by_uid() {
    let job = created("jobs.batch", job(json!({})));
    let labels = json!({"batch.kubernetes.io/controller-uid": "u1", "batch.kubernetes.io/job-name": "web",
        "controller-uid": "u1", "job-name": "web"});
    assert_eq!(job["metadata"]["labels"], labels);
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(
        job["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}})
    );
    let mut spec = job["spec"].clone();
    crate::kinds::json::remove(&mut spec, "template");
    crate::kinds::json::remove(&mut spec, "selector");
    assert_eq!(
        spec,
        json!({"backoffLimit": 6, "completionMode": "NonIndexed", "completions": 1, "manualSelector": false,
            "parallelism": 1, "podReplacementPolicy": "TerminatingOrFailed", "suspend": false})
    );
    assert_eq!(job["status"], json!({}));
}

#[test]
fn a_manual_selector_is_left_alone() {
    let manual = job(json!({"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}}));
    assert_eq!(
        create_errors("jobs.batch", manual),
        ["spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"]
    );
}

#[test]
fn what_is_wrong_is_named() {
    let cases = [
        (
            json!({"parallelism": -1}),
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            json!({"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}),
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        ),
        (
            json!({"completionMode": "Indexed", "parallelism": 1}),
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        (
            json!({"backoffLimitPerIndex": 1}),
            "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
        ),
    ];
    for (extra, expected) in cases {
        assert_eq!(
            create_errors("jobs.batch", job(extra.clone())),
            [expected],
            "{extra}"
        );
    }
}

/// What a client sends back after reading the job and changing its spec.
fn changed(old: &Value, change: impl FnOnce(&mut Value)) -> Vec<String> {
    let res = resource("jobs.batch");
    let mut new = old.clone();
    change(&mut new["spec"]);
    crate::kinds::default(&res, &mut new);
    crate::kinds::prepare_update(&res, old, &mut new);
    texts(&crate::kinds::validate_update(&res, old, &new))
}

#[test]
fn what_a_job_does_is_fixed() {
    let old = created("jobs.batch", job(json!({})));
    assert_eq!(changed(&old, |spec| spec["parallelism"] = 3.into()), [""; 0]);
    assert_eq!(changed(&old, |spec| spec["suspend"] = true.into()), [""; 0]);
    assert_eq!(
        changed(&old, |spec| spec["completions"] = 5.into()),
        ["spec.completions: Invalid value: 5: field is immutable"]
    );
    let other_image = |spec: &mut Value| spec["template"]["spec"]["containers"][0]["image"] = "y".into();
    let errors = changed(&old, other_image);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].starts_with("spec.template: Invalid value: ") && errors[0].ends_with("field is immutable")
    );
}

#[test]
fn a_suspended_job_may_be_steered() {
    let old = created("jobs.batch", job(json!({"suspend": true})));
    let steer = |spec: &mut Value| {
        spec["template"]["spec"]["nodeSelector"] = json!({"zone": "a"});
        spec["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    };
    assert_eq!(changed(&old, steer), [""; 0]);
    let running = created("jobs.batch", job(json!({})));
    assert_eq!(changed(&running, steer).len(), 1);
}

#[test]
fn indexed_jobs_grow_as_a_whole() {
    let old = created(
        "jobs.batch",
        job(json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2})),
    );
    let both = |spec: &mut Value| {
        spec["completions"] = 4.into();
        spec["parallelism"] = 4.into();
    };
    assert_eq!(changed(&old, both), [""; 0]);
    assert_eq!(
        changed(&old, |spec| spec["completions"] = 4.into()),
        ["spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"]
    );
}

#[test]
fn what_ended_has_ended() {
    let res = resource("jobs.batch");
    let running = created("jobs.batch", job(json!({})));
    let step = |old: Value, new: Value| {
        let [old, new] = [old, new].map(|status| {
            let mut job = running.clone();
            job["status"] = status;
            job
        });
        texts(&crate::kinds::validate_status(&res, &old, &new))
    };
    let yes = |kinds: &[&str]| -> Value {
        kinds
            .iter()
            .map(|kind| json!({"type": kind, "status": "True"}))
            .collect::<Vec<_>>()
            .into()
    };
    let done = json!({"startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-01T00:01:00Z", "succeeded": 1,
        "conditions": yes(&["SuccessCriteriaMet", "Complete"])});
    assert_eq!(
        step(
            json!({"startTime": "2024-01-01T00:00:00Z", "active": 1}),
            done.clone()
        ),
        [""; 0]
    );
    assert_eq!(
        step(json!({}), json!({"conditions": yes(&["Complete"])})),
        [
            "status.conditions: Invalid value: cannot set Complete=True condition without the \
             SuccessCriteriaMet=true condition",
            "status.completionTime: Required value: completionTime is required for Complete jobs",
            "status.startTime: Required value: startTime is required for finished job",
        ]
    );
    assert_eq!(
        step(done, json!({"startTime": "2024-01-01T00:00:00Z"})),
        [
            "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
            "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
        ]
    );
    assert_eq!(
        step(json!({"failed": 2}), json!({"failed": 1})),
        ["status.failed: Invalid value: 1: cannot decrease the failed counter"]
    );
}

#[test]
fn cron_jobs() {
    let cron =
        |schedule: &str, template: Value| json!({"spec": {"schedule": schedule, "jobTemplate": template}});
    let template = || job(json!({}));
    let made = created("cronjobs.batch", cron("* * * * *", template()));
    let spec = &made["spec"];
    assert_eq!(
        [
            &spec["concurrencyPolicy"],
            &spec["suspend"],
            &spec["successfulJobsHistoryLimit"],
            &spec["failedJobsHistoryLimit"]
        ],
        [&json!("Allow"), &json!(false), &json!(3), &json!(1)]
    );
    assert_eq!(spec["jobTemplate"]["metadata"], json!({}));
    assert!(
        spec["jobTemplate"]["spec"]["completions"].is_null(),
        "the template's own defaults come with the job"
    );
    assert_eq!(
        create_errors("cronjobs.batch", cron("60 * * * *", template())),
        ["spec.schedule: Invalid value: \"60 * * * *\": end of range (60) above maximum (59): 60"]
    );
    assert_eq!(
        create_errors("cronjobs.batch", cron("TZ=UTC * * * * *", template())),
        [
            "spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone \
          field instead"
        ]
    );
    let long = json!({"metadata": {"name": "x".repeat(53)}, "spec": {"schedule": "@daily", "jobTemplate": template()}});
    assert!(create_errors("cronjobs.batch", long)[0].ends_with("must be no more than 52 characters"));
    let (cron_job, errors) = updated(
        "cronjobs.batch",
        cron("* * * * *", template()),
        cron("@daily", template()),
    );
    assert_eq!(errors, [""; 0]);
    assert_eq!(cron_job["metadata"]["generation"], 2);
}
