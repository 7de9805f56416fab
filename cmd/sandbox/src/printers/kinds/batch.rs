//! Jobs and what starts them by the clock.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::printers::column::{AGE, CONTAINERS, IMAGES, NAME, SELECTOR, column, integer, string};
use crate::printers::duration::{age, human, parse, since};
use crate::printers::kinds::Kind;
use crate::printers::kinds::workload::containers;
use crate::printers::read::{condition, count, int, terminating, text, text_or};
use crate::printers::selector::selector;

pub static JOB: Kind = Kind {
    columns: &[
        NAME,
        string("Status", "State of the job."),
        string("Completions", "Pods that succeeded, of those that should."),
        string("Duration", "How long the job has run, or ran."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |job, now| {
        let [names, images] = containers(job, "/spec/template/spec/containers");
        vec![
            json!(text(job, "/metadata/name")),
            json!(status(job)),
            json!(completions(job)),
            json!(duration(job, now)),
            json!(age(job, now)),
            names,
            images,
            json!(selector(job.pointer("/spec/selector"))),
        ]
    },
};

fn status(job: &Value) -> &'static str {
    let is = |kind: &str| condition(job, kind) == "True";
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if terminating(job) {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(job: &Value) -> String {
    let succeeded = int(job, "/status/succeeded");
    match (
        job.pointer("/spec/completions").and_then(Value::as_i64),
        int(job, "/spec/parallelism"),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, workers @ 2..) => format!("{succeeded}/1 of {workers}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(job: &Value, now: Timestamp) -> String {
    let Some(start) = parse(job.pointer("/status/startTime")) else {
        return String::new();
    };
    let end = parse(job.pointer("/status/completionTime")).unwrap_or(now);
    human(end.duration_since(start).as_secs())
}

pub static CRON_JOB: Kind = Kind {
    columns: &[
        NAME,
        string("Schedule", "When jobs are started, in cron's form."),
        string("Timezone", "Time zone of the schedule."),
        column("Suspend", "boolean", "Whether no jobs are started for now."),
        integer("Active", "Number of jobs that are running."),
        string("Last Schedule", "Time since a job was started last."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let [names, images] = containers(object, "/spec/jobTemplate/spec/template/spec/containers");
        let last = object
            .pointer("/status/lastScheduleTime")
            .filter(|time| !time.is_null());
        // The column says boolean; the cell is a word all the same.
        let suspend = match object.pointer("/spec/suspend").and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        vec![
            json!(text(object, "/metadata/name")),
            json!(text(object, "/spec/schedule")),
            json!(text_or(object, "/spec/timeZone", "<none>")),
            json!(suspend),
            json!(count(object, "/status/active")),
            json!(last.map_or_else(|| "<none>".to_owned(), |last| since(Some(last), now))),
            json!(age(object, now)),
            names,
            images,
            json!(selector(object.pointer("/spec/jobTemplate/spec/selector"))),
        ]
    },
};
