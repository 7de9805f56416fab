//! Jobs.

use serde_json::{Value, json};

use super::super::json::{empty, flag, keep, list, number, section, set, set_default, text, with};
use super::super::meta::{immutable, non_negative};
use super::super::{Rules, labels, names, pod};
use super::job_status;
use crate::field::{FieldError, Wrong};

/// The labels that tie pods to their job, each under its old and its new name.
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID_LABELS: [&str; 2] = ["controller-uid", UID_LABEL];
const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

/// More pods than this at once only with few enough indexes to remember.
const INDEXED_LIMIT: i64 = 100_000;
const FAILURE_RULES_LIMIT: usize = 20;

pub(in super::super) const RULES: Rules = Rules {
    name_on_update: names::subdomain_name,
    default,
    create: |job| {
        if !flag(&job["spec"]["manualSelector"]) {
            generate_selector(job);
        }
        labels_from_template(job);
    },
    update: |_, new| labels_from_template(new),
    generation: Some(Rules::spec_changed),
    validate: |job| {
        let mut errors = validate_generated_selector(job);
        errors.extend(validate(job));
        errors
    },
    validate_update,
    validate_status: job_status::validate,
    ..Rules::GENERIC
};

fn default(job: &mut Value) {
    let Some(spec) = section(job, "spec") else { return };
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        set(spec, "completions", 1);
    }
    set_default(spec, "parallelism", 1);
    let retries = if spec["backoffLimitPerIndex"].is_null() {
        6
    } else {
        i32::MAX
    };
    set_default(spec, "backoffLimit", retries);
    set_default(spec, "completionMode", "NonIndexed");
    set_default(spec, "suspend", false);
    let replacement = if spec["podFailurePolicy"].is_null() {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    set_default(spec, "podReplacementPolicy", replacement);
    set_default(spec, "manualSelector", false);
    default_template(spec);
}

/// What a job spec gets even inside a cron job.
pub(super) fn default_template(spec: &mut Value) {
    set_default(spec, "template", json!({}));
    pod::default_template(spec, "template");
    with(spec, "podFailurePolicy", |policy| {
        super::super::json::each(policy, "rules", |rule| {
            super::super::json::each(rule, "onPodConditions", |pattern| {
                super::super::json::default_text(pattern, "status", "True");
            });
        });
    });
}

/// Pods of one job are told from those of any other by the job's uid.
fn generate_selector(job: &mut Value) {
    let [name, uid] = ["name", "uid"].map(|key| text(&job["metadata"][key]).to_owned());
    let Some(spec) = section(job, "spec") else { return };
    if let Some(template) = section(spec, "template")
        && let Some(meta) = section(template, "metadata")
        && let Some(labels) = section(meta, "labels")
    {
        for label in NAME_LABELS {
            set_default(labels, label, name.as_str());
        }
        for label in UID_LABELS {
            set_default(labels, label, uid.as_str());
        }
    }
    if let Some(selector) = section(spec, "selector")
        && let Some(matched) = section(selector, "matchLabels")
    {
        set_default(matched, UID_LABEL, uid);
    }
}

/// A job without labels carries those of its template.
fn labels_from_template(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if empty(&job["metadata"]["labels"])
        && !empty(&labels)
        && let Some(meta) = section(job, "metadata")
    {
        set(meta, "labels", labels);
    }
}

fn validate_generated_selector(job: &Value) -> Vec<FieldError> {
    let spec = &job["spec"];
    if flag(&spec["manualSelector"]) || spec["selector"].is_null() {
        return Vec::new();
    }
    let [name, uid] = ["name", "uid"].map(|key| &job["metadata"][key]);
    let mut errors = Vec::new();
    let given = &spec["template"]["metadata"]["labels"];
    let mut generated = json!({});
    for (label, expected) in [
        (UID_LABELS[0], uid),
        (NAME_LABELS[0], name),
        (UID_LABELS[1], uid),
        (NAME_LABELS[1], name),
    ] {
        set(&mut generated, label, expected.clone());
        let path = "spec.template.metadata.labels";
        match &given[label] {
            Value::Null => errors.push(FieldError::required(
                format!("{path}[{label}]"),
                format!("must be '{}'", text(expected)),
            )),
            value if value != expected => errors.push(FieldError::invalid(
                format!("{path}[{label}]"),
                given.clone(),
                format!("must be '{}'", text(expected)),
            )),
            _ => {}
        }
    }
    if labels::validate_selector(&spec["selector"], "").is_empty()
        && !labels::matches(&spec["selector"], &generated)
    {
        errors.push(FieldError::invalid(
            "spec.selector",
            spec["selector"].clone(),
            "`selector` not auto-generated",
        ));
    }
    errors
}

fn validate(job: &Value) -> Vec<FieldError> {
    let spec = &job["spec"];
    let mut errors = validate_spec(spec, "spec");
    let before = errors.len();
    errors.extend(labels::validate_selector(&spec["selector"], "spec.selector"));
    let template_labels = &spec["template"]["metadata"]["labels"];
    let mismatch = errors.len() == before && !labels::matches(&spec["selector"], template_labels);
    if spec["selector"].is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    if mismatch {
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            template_labels.clone(),
            "`selector` does not match template `labels`",
        ));
    }
    let completions = number(&spec["completions"]);
    if text(&spec["completionMode"]) == "Indexed" && completions > 0 {
        let name = text(&job["metadata"]["name"]);
        let longest = format!("{name}-{}", completions - 1);
        if !names::dns_label(&longest).is_empty() {
            errors.push(FieldError::invalid(
                "metadata.name",
                name,
                format!("will not able to create pod with invalid DNS label: {longest}"),
            ));
        }
    }
    errors
}

/// Checks a job spec but for its selector, which cron jobs leave to be generated.
pub(super) fn validate_spec(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.extend(non_negative(&spec[key], format!("{path}.{key}")));
    }
    validate_mode(spec, path, &mut errors);
    let failure_rules = list(&spec["podFailurePolicy"]["rules"]).len();
    if failure_rules > FAILURE_RULES_LIMIT {
        errors.push(FieldError::new(
            format!("{path}.podFailurePolicy.rules"),
            Wrong::TooMany(failure_rules, FAILURE_RULES_LIMIT),
            "",
        ));
    }
    let with_policy = !spec["podFailurePolicy"].is_null();
    let replacement = text(&spec["podReplacementPolicy"]);
    if with_policy && !matches!(replacement, "" | "Failed") {
        errors.push(FieldError::not_supported(
            format!("{path}.podReplacementPolicy"),
            replacement,
            &["Failed"],
        ));
    } else if !matches!(replacement, "" | "Failed" | "TerminatingOrFailed") {
        errors.push(FieldError::not_supported(
            format!("{path}.podReplacementPolicy"),
            replacement,
            &["Failed", "TerminatingOrFailed"],
        ));
    }
    errors.extend(pod::validate_template(
        &spec["template"],
        &format!("{path}.template"),
    ));
    let policy_path = format!("{path}.template.spec.restartPolicy");
    match text(&spec["template"]["spec"]["restartPolicy"]) {
        "Always" | "" => {
            errors.push(FieldError::required(
                policy_path,
                "valid values: \"OnFailure\", \"Never\"",
            ));
        }
        "OnFailure" if with_policy => errors.push(FieldError::invalid(
            policy_path,
            "OnFailure",
            "only \"Never\" is supported when podFailurePolicy is specified",
        )),
        "OnFailure" | "Never" => {}
        other => errors.push(FieldError::not_supported(
            policy_path,
            other,
            &["OnFailure", "Never"],
        )),
    }
    errors
}

fn validate_mode(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let field = |key: &str| format!("{path}.{key}");
    match spec["completionMode"].as_str() {
        Some("Indexed") => {
            if spec["completions"].is_null() {
                errors.push(FieldError::required(
                    field("completions"),
                    "when completion mode is Indexed",
                ));
            }
            if number(&spec["parallelism"]) > INDEXED_LIMIT {
                errors.push(FieldError::invalid(
                    field("parallelism"),
                    number(&spec["parallelism"]),
                    format!("must be less than or equal to {INDEXED_LIMIT} when completion mode is Indexed"),
                ));
            }
        }
        Some("NonIndexed") | None => {
            for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if !spec[key].is_null() {
                    errors.push(FieldError::invalid(
                        field(key),
                        spec[key].clone(),
                        "requires indexed completion mode",
                    ));
                }
            }
            if !spec["successPolicy"].is_null() {
                errors.push(FieldError::invalid(
                    field("successPolicy"),
                    spec["successPolicy"].clone(),
                    "requires indexed completion mode",
                ));
            }
        }
        Some(other) => errors.push(FieldError::not_supported(
            field("completionMode"),
            other,
            &["NonIndexed", "Indexed"],
        )),
    }
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        errors.push(FieldError::required(
            field("backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        ));
    }
}

fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = validate_generated_selector(new);
    errors.extend(validate(new));
    let (before, after) = (&old["spec"], &new["spec"]);
    errors.extend(validate_completions(before, after));
    errors.extend(immutable(
        &before["selector"],
        &after["selector"],
        "spec.selector",
    ));
    errors.extend(validate_template_update(old, new));
    for key in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        errors.extend(immutable(&before[key], &after[key], &format!("spec.{key}")));
    }
    errors
}

/// The number of completions is fixed, but an indexed job may grow and shrink as a whole.
fn validate_completions(before: &Value, after: &Value) -> Option<FieldError> {
    const PATH: &str = "spec.completions";
    if text(&after["completionMode"]) != "Indexed" {
        return immutable(&before["completions"], &after["completions"], PATH);
    }
    let changed = before["completions"] != after["completions"] && !after["completions"].is_null();
    (changed && after["completions"] != after["parallelism"]).then(|| {
        FieldError::invalid(
            PATH,
            after["completions"].clone(),
            "can only be modified in tandem with spec.parallelism",
        )
    })
}

/// A suspended job that runs nothing may still be steered to other nodes and given other resources.
fn validate_template_update(old: &Value, new: &Value) -> Option<FieldError> {
    let (before, mut after) = (old["spec"]["template"].clone(), new["spec"]["template"].clone());
    let suspended_condition = list(&old["status"]["conditions"])
        .iter()
        .any(|condition| condition["type"] == "Suspended" && condition["status"] == "True");
    let steerable = flag(&old["spec"]["suspend"])
        && (old["status"]["startTime"].is_null() || suspended_condition)
        && number(&old["status"]["active"]) == 0;
    if steerable {
        for key in ["labels", "annotations"] {
            if let Some(meta) = section(&mut after, "metadata") {
                keep(&before["metadata"], meta, key);
            }
        }
        if let Some(spec) = section(&mut after, "spec") {
            for key in ["nodeSelector", "tolerations", "schedulingGates", "affinity"] {
                keep(&before["spec"], spec, key);
            }
            for kind in ["containers", "initContainers"] {
                let mut containers = list(&spec[kind]).to_vec();
                for (container, old) in containers.iter_mut().zip(list(&before["spec"][kind])) {
                    keep(old, container, "resources");
                }
                if !containers.is_empty() {
                    set(spec, kind, containers);
                }
            }
        }
    }
    (before != after).then(|| {
        FieldError::new(
            "spec.template",
            Wrong::Invalid(new["spec"]["template"].clone()),
            "field is immutable",
        )
    })
}
