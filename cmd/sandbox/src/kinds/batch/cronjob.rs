//! Cron jobs.

use serde_json::{Value, json};

use super::super::Rules;
use super::super::json::{default_text, flag, section, set_default, text, with};
use super::super::meta::non_negative;
use super::{job, schedule};
use crate::field::FieldError;

pub(in super::super) const RULES: Rules = Rules {
    default,
    generation: Some(Rules::spec_changed),
    validate: |cron_job| {
        let mut errors = validate(cron_job, None);
        let name = text(&cron_job["metadata"]["name"]);
        // Eleven characters are appended for the name of each job.
        if name.len() > 52 {
            errors.push(FieldError::invalid(
                "metadata.name",
                name,
                "must be no more than 52 characters",
            ));
        }
        errors
    },
    validate_update: |old, new| validate(new, Some(old)),
    ..Rules::GENERIC
};

fn default(cron_job: &mut Value) {
    let Some(spec) = section(cron_job, "spec") else {
        return;
    };
    default_text(spec, "concurrencyPolicy", "Allow");
    set_default(spec, "suspend", false);
    set_default(spec, "successfulJobsHistoryLimit", 3);
    set_default(spec, "failedJobsHistoryLimit", 1);
    set_default(spec, "jobTemplate", json!({}));
    with(spec, "jobTemplate", |template| {
        set_default(template, "metadata", json!({}));
        if let Some(job) = section(template, "spec") {
            job::default_template(job);
        }
    });
}

fn validate(cron_job: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &cron_job["spec"];
    let mut errors = validate_schedule(spec, old);
    errors.extend(non_negative(
        &spec["startingDeadlineSeconds"],
        "spec.startingDeadlineSeconds",
    ));
    if old.is_none_or(|old| old["spec"]["timeZone"] != spec["timeZone"]) {
        errors.extend(validate_zone(&spec["timeZone"]));
    }
    let policy = text(&spec["concurrencyPolicy"]);
    if !matches!(policy, "Allow" | "Forbid" | "Replace") {
        errors.push(FieldError::not_supported(
            "spec.concurrencyPolicy",
            policy,
            &["Allow", "Forbid", "Replace"],
        ));
    }
    let template = &spec["jobTemplate"]["spec"];
    errors.extend(job::validate_spec(template, "spec.jobTemplate.spec"));
    if !template["selector"].is_null() {
        errors.push(FieldError::invalid(
            "spec.jobTemplate.spec.selector",
            template["selector"].clone(),
            "`selector` will be auto-generated",
        ));
    }
    if flag(&template["manualSelector"]) {
        errors.push(FieldError::not_supported(
            "spec.jobTemplate.spec.manualSelector",
            true,
            &["nil", "false"],
        ));
    }
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.extend(non_negative(&spec[key], format!("spec.{key}")));
    }
    errors
}

fn validate_schedule(spec: &Value, old: Option<&Value>) -> Vec<FieldError> {
    const PATH: &str = "spec.schedule";
    let given = text(&spec["schedule"]);
    if given.is_empty() {
        return vec![FieldError::required(PATH, "")];
    }
    let mut errors = Vec::new();
    if let Err(wrong) = schedule::check(given) {
        errors.push(FieldError::invalid(PATH, given, wrong));
    }
    if given.contains("TZ") {
        let had_zone = old.is_some_and(|old| text(&old["spec"]["schedule"]).contains("TZ"));
        if !had_zone {
            errors.push(FieldError::invalid(
                PATH,
                given,
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            ));
        } else if !spec["timeZone"].is_null() {
            errors.push(FieldError::invalid(
                PATH,
                given,
                "cannot use both timeZone field and TZ or CRON_TZ in schedule",
            ));
        }
    }
    errors
}

fn validate_zone(zone: &Value) -> Option<FieldError> {
    const PATH: &str = "spec.timeZone";
    let name = zone.as_str()?;
    if name.is_empty() {
        return Some(FieldError::invalid(
            PATH,
            name,
            "timeZone must be nil or non-empty string",
        ));
    }
    if name.eq_ignore_ascii_case("local") {
        return Some(FieldError::invalid(
            PATH,
            name,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        ));
    }
    let fits = |part: &str| {
        (1..=14).contains(&part.len())
            && !part.starts_with('-')
            && part != "."
            && part != ".."
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    // Where the machine has no data on time zones, whatever looks like one is taken.
    let known = jiff::tz::db().is_definitively_empty() || jiff::tz::TimeZone::get(name).is_ok();
    (!known || !name.split('/').all(fits))
        .then(|| FieldError::invalid(PATH, name, format!("unknown time zone {name}")))
}
