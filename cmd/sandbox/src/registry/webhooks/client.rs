//! Validation of the client configuration of a webhook.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{number, text};
use crate::registry::names;

/// Checks where a webhook is to be found: a service of the cluster, or a URL, not both.
pub(crate) fn validate(client: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match (client["url"].as_str(), &client["service"]) {
        (Some(url), Value::Null) => {
            validate_url(url, &format!("{path}.url"), errors);
        }
        (None, service) if service.is_object() => {
            for key in ["name", "namespace"] {
                if text(&service[key]).is_empty() {
                    errors.required(format!("{path}.service.{key}"), "");
                }
            }
            if let Some(wrong) = names::port_number(number(&service["port"])) {
                errors.invalid(
                    format!("{path}.service.port"),
                    number(&service["port"]),
                    format!("port is not valid: {wrong}"),
                );
            }
            validate_path(text(&service["path"]), &format!("{path}.service.path"), errors);
        }
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

fn validate_url(url: &str, path: &str, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut wrong = |value: &str, why: String| errors.invalid(path, value, why);
    let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (url, query) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) = url.split_once("://").unwrap_or(("", ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if scheme != "https" {
        wrong(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        wrong(host, format!("host must be specified{FORM}"));
    }
    if !user.is_empty() {
        wrong(user, "user information is not permitted in the URL".to_owned());
    }
    if !fragment.is_empty() {
        wrong(fragment, "fragments are not permitted in the URL".to_owned());
    }
    if !query.is_empty() {
        wrong(query, "query parameters are not permitted in the URL".to_owned());
    }
    if !host.is_empty() && format!("https://{rest}").parse::<http::Uri>().is_err() {
        let why = format!("url must be a valid URL: parse {url:?}: it cannot be read{FORM}");
        errors.required(path, why);
    }
}

/// The path of a service: segments that are names.
fn validate_path(value: &str, path: &str, errors: &mut Vec<FieldError>) {
    let mut wrong = |why: String| errors.invalid(path, value, why);
    if matches!(value, "" | "/") {
        return;
    }
    if value == "//" {
        wrong("segment[0] may not be empty".to_owned());
        return;
    }
    let below = value.strip_prefix('/');
    if below.is_none() {
        wrong("must start with a '/'".to_owned());
    }
    let below = below.unwrap_or_else(|| value.get(1..).unwrap_or_default());
    for (i, step) in below.strip_suffix('/').unwrap_or(below).split('/').enumerate() {
        if step.is_empty() {
            wrong(format!("segment[{i}] may not be empty"));
            continue;
        }
        for why in names::dns_subdomain(step) {
            wrong(format!("segment[{i}]: {why}"));
        }
    }
}
