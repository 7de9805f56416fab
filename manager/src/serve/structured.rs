//! Content negotiation of `/flagz` and `/statusz`, as in kube-controller-manager.
//!
//! Text is the default. JSON and YAML need the parameters of a versioned kind:
//! `application/json;v=v1beta1;g=config.k8s.io;as=Flagz`. An older version is served with a `Warning` header. Any other
//! `Accept` is rejected with 406.

use http::header::{ACCEPT, WARNING};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Map, Value, json};

use super::connection::HttpResponse;
use super::endpoints::{pretty, response, text};

const GROUP: &str = "config.k8s.io";
const VERSION: &str = "v1beta1";
const DEPRECATED_VERSION: &str = "v1alpha1";

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json(&'static str),
    Yaml(&'static str),
}

/// Returns the title of a text page.
pub(super) fn title(component: &str, page: &str) -> String {
    format!(
        "\n{component} {page}\nWarning: the format of this text may change. Programs should request JSON.\n"
    )
}

/// Responds with `fields` as an object of `kind`, or with `plain`.
pub(super) fn respond(
    headers: &HeaderMap,
    kind: &str,
    component: &str,
    fields: impl FnOnce() -> Map<String, Value>,
    plain: impl FnOnce() -> String,
) -> HttpResponse {
    let accept = headers
        .get(ACCEPT)
        .map_or(Some(""), |accept| accept.to_str().ok());
    let (version, content_type, encode): (_, _, fn(&Value) -> String) =
        match accept.and_then(|accept| negotiate(accept, kind)) {
            Some(Format::Text) => return text(StatusCode::OK, plain()),
            Some(Format::Json(version)) => (version, "application/json", pretty),
            Some(Format::Yaml(version)) => (version, "application/yaml", yaml),
            None => return not_acceptable(kind),
        };
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(format!("{GROUP}/{version}")));
    object.insert("kind".to_owned(), json!(kind));
    object.insert("metadata".to_owned(), json!({"name": component}));
    object.extend(fields());
    let mut response = response(StatusCode::OK, content_type, encode(&Value::Object(object)));
    if version == DEPRECATED_VERSION {
        let warning = HeaderValue::from_static("299 - \"v1alpha1 is deprecated: request v1beta1\"");
        response.headers_mut().insert(WARNING, warning);
    }
    response
}

/// Selects the format of the media type with the highest quality.
fn negotiate(accept: &str, kind: &str) -> Option<Format> {
    if accept.trim().is_empty() {
        return Some(Format::Text);
    }
    let mut best: Option<(u16, Format)> = None;
    for clause in accept.split(',') {
        let Some((quality, format)) = parse(clause, kind) else {
            continue;
        };
        // The first of equal clauses wins.
        if quality > best.map_or(0, |(quality, _)| quality) {
            best = Some((quality, format));
        }
    }
    best.map(|(_, format)| format)
}

/// Parses one clause of an `Accept` header. Returns its quality in thousandths; none if it matches no format.
fn parse(clause: &str, kind: &str) -> Option<(u16, Format)> {
    let mut parts = clause.split(';').map(str::trim);
    let media_type = parts.next()?.to_ascii_lowercase();
    let (mut quality, mut group, mut version, mut requested) = (1.0_f32, None, None, None);
    for part in parts {
        let (key, value) = part.split_once('=')?;
        match key.trim() {
            "q" => quality = value.trim().parse().ok()?,
            "g" => group = Some(value),
            "v" => version = Some(value),
            "as" => requested = Some(value),
            _ => {}
        }
    }
    let format = match (group, version, requested) {
        (None, None, None) => match &*media_type {
            "text/plain" | "text/*" | "*/*" => Format::Text,
            _ => return None,
        },
        (Some(GROUP), Some(version), Some(requested)) if requested == kind => {
            let version = [VERSION, DEPRECATED_VERSION]
                .into_iter()
                .find(|it| *it == version)?;
            match &*media_type {
                "application/json" | "application/*" | "*/*" => Format::Json(version),
                "application/yaml" => Format::Yaml(version),
                _ => return None,
            }
        }
        _ => return None,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 1000"
    )]
    let quality = (quality.clamp(0.0, 1.0) * 1000.0) as u16;
    Some((quality, format))
}

fn not_acceptable(kind: &str) -> HttpResponse {
    let parameters = format!("v={VERSION};g={GROUP};as={kind}");
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!(
            "only the following media types are accepted: text/plain, application/json;{parameters}, \
             application/yaml;{parameters}"
        ),
        "reason": "NotAcceptable",
        "code": 406,
    });
    response(StatusCode::NOT_ACCEPTABLE, "application/json", pretty(&status))
}

/// Writes objects and lists of scalars in block style. JSON scalars are YAML scalars.
fn yaml(value: &Value) -> String {
    let mut lines = Vec::new();
    block(value, 0, &mut lines);
    lines.push(String::new());
    lines.join("\n")
}

fn block(value: &Value, indent: usize, lines: &mut Vec<String>) {
    let Value::Object(fields) = value else { return };
    let spaces = " ".repeat(indent);
    // Keys are field names and flag names: they need no quotes.
    for (key, value) in fields {
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                lines.push(format!("{spaces}{key}:"));
                block(value, indent + 2, lines);
            }
            Value::Array(items) if !items.is_empty() => {
                lines.push(format!("{spaces}{key}:"));
                lines.extend(items.iter().map(|item| format!("{spaces}- {item}")));
            }
            scalar => lines.push(format!("{spaces}{key}: {scalar}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Option<Format> = Some(Format::Json("v1beta1"));
    const TEXT: Option<Format> = Some(Format::Text);

    #[test]
    fn accept_header_selects_the_format() {
        let kind = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
        for (accept, format) in [
            ("", TEXT),
            ("*/*", TEXT),
            ("text/html, application/xml;q=0.9, */*;q=0.8", TEXT),
            ("text/plain; charset=utf-8", TEXT),
            (kind, JSON),
            ("application/*; as=Flagz; g=config.k8s.io; v=v1beta1", JSON),
            (
                "application/yaml;v=v1alpha1;g=config.k8s.io;as=Flagz",
                Some(Format::Yaml("v1alpha1")),
            ),
            (&format!("text/plain;q=0.5, {kind}"), JSON),
            (&format!("text/plain, {kind};q=0.5"), TEXT),
            ("application/json", None),
            ("application/json;v=v1;g=config.k8s.io;as=Flagz", None),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Statusz", None),
            ("application/json;v=v1beta1;as=Flagz", None),
            ("text/plain;v=v1beta1;g=config.k8s.io;as=Flagz", None),
            ("*/*;q=0", None),
            ("text/plain;q=much", None),
            ("image/png", None),
        ] {
            assert_eq!(negotiate(accept, "Flagz"), format, "{accept}");
        }
    }

    #[test]
    fn yaml_has_one_line_per_field() {
        let value = json!({"kind": "Flagz", "flags": {"v": "2", "log": "a: \"b\"\n"}, "paths": ["/a"], "none": {}, "n": 7});
        assert_eq!(
            yaml(&value),
            "flags:\n  log: \"a: \\\"b\\\"\\n\"\n  v: \"2\"\nkind: \"Flagz\"\nn: 7\nnone: {}\npaths:\n- \"/a\"\n"
        );
    }
}
