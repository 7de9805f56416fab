//! Validation of the client configuration of a webhook.

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{number, text};
use crate::registry::names;
use crate::schema::Path;

/// Validates the address of a webhook: a service of the cluster or a URL, not both.
pub(crate) fn validate(client: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match (client["url"].as_str(), &client["service"]) {
        (Some(url), Value::Null) => validate_url(url, &path.key("url"), errors),
        (None, service) if service.is_object() => {
            let path = path.key("service");
            for key in ["name", "namespace"] {
                if text(&service[key]).is_empty() {
                    errors.required(&path.key(key), "");
                }
            }
            let port = number(&service["port"]);
            if let Some(wrong) = names::port_number(port) {
                errors.invalid(&path.key("port"), port, format!("port is not valid: {wrong}"));
            }
            validate_path(text(&service["path"]), &path.key("path"), errors);
        }
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

fn validate_url(url: &str, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    for (value, violated, why) in [
        (
            scheme,
            scheme != "https",
            "'https' is the only allowed URL scheme",
        ),
        (host, host.is_empty(), "host must be specified"),
        (
            user,
            !user.is_empty(),
            "user information is not permitted in the URL",
        ),
        (
            fragment,
            !fragment.is_empty(),
            "fragments are not permitted in the URL",
        ),
        (
            query,
            !query.is_empty(),
            "query parameters are not permitted in the URL",
        ),
    ] {
        if violated {
            errors.invalid(path, value, why);
        }
    }
    if !host.is_empty() && format!("https://{rest}").parse::<http::Uri>().is_err() {
        errors.required(
            path,
            "url must be a valid URL; desired format: https://host[/path]",
        );
    }
}

/// The path of a service: segments that are names.
fn validate_path(value: &str, path: &Path<'_>, errors: &mut Vec<FieldError>) {
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
