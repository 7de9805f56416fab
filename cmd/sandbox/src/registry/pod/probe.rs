//! Validation of the probes and lifecycle hooks of a container.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{list, number, text};
use crate::registry::meta::non_negative;
use crate::registry::names;

/// Validates all probes and lifecycle hooks of one container.
pub(crate) fn validate_all(container: &Value, grace_period: i64, path: &str, errors: &mut Vec<FieldError>) {
    for hook in ["postStart", "preStop"] {
        let value = &container["lifecycle"][hook];
        if !value.is_null() {
            handler(value, grace_period, &format!("{path}.lifecycle.{hook}"), errors);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let value = &container[name];
        if value.is_null() {
            continue;
        }
        let path = format!("{path}.{name}");
        probe(value, grace_period, &path, errors);
        if name == "readinessProbe" {
            if !value["terminationGracePeriodSeconds"].is_null() {
                errors.invalid(
                    format!("{path}.terminationGracePeriodSeconds"),
                    value["terminationGracePeriodSeconds"].clone(),
                    "must not be set for readinessProbes",
                );
            }
        } else if number(&value["successThreshold"]) != 1 {
            errors.invalid(
                format!("{path}.successThreshold"),
                number(&value["successThreshold"]),
                "must be 1",
            );
        }
    }
}

fn probe(probe: &Value, grace_period: i64, path: &str, errors: &mut Vec<FieldError>) {
    handler(probe, grace_period, path, errors);
    for key in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        errors.extend(non_negative(&probe[key], format!("{path}.{key}")));
    }
    let own_grace = &probe["terminationGracePeriodSeconds"];
    if own_grace.as_i64().is_some_and(|seconds| seconds <= 0) {
        errors.invalid(
            format!("{path}.terminationGracePeriodSeconds"),
            own_grace.clone(),
            "must be greater than 0",
        );
    }
}

/// Checks that a handler has exactly one action.
fn handler(handler: &Value, grace_period: i64, path: &str, errors: &mut Vec<FieldError>) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let mut given = kinds.iter().filter(|kind| !handler[**kind].is_null());
    let Some(&kind) = given.next() else {
        errors.required(path, "must specify a handler type");
        return;
    };
    for extra in given {
        errors.forbidden(
            format!("{path}.{extra}"),
            "may not specify more than 1 handler type",
        );
    }
    let action = &handler[kind];
    let path = format!("{path}.{kind}");
    match kind {
        "exec" if list(&action["command"]).is_empty() => {
            errors.required(format!("{path}.command"), "");
        }
        "httpGet" => {
            port(&action["port"], &path, errors);
            let scheme = text(&action["scheme"]);
            if !matches!(scheme, "HTTP" | "HTTPS") {
                errors.not_supported(format!("{path}.scheme"), scheme, &["HTTP", "HTTPS"]);
            }
        }
        "tcpSocket" | "grpc" => port(&action["port"], &path, errors),
        "sleep" => {
            let seconds = number(&action["seconds"]);
            if !(0..=grace_period).contains(&seconds) {
                errors.invalid(
                    path,
                    seconds,
                    format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({grace_period})"
                    ),
                );
            }
        }
        _ => {}
    }
}

fn port(port: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let path = format!("{path}.port");
    match port {
        Value::String(name) => {
            for wrong in names::port_name(name) {
                errors.invalid(&path, name.as_str(), wrong);
            }
        }
        other => {
            let other = number(other);
            if let Some(wrong) = names::port_number(other) {
                errors.invalid(path, other, wrong);
            }
        }
    }
}
