//! Validation of the names of a CRD, and the approval of protected groups.

use crate::field::{FieldError, Report};
use crate::json::Value;
use crate::registry::json::{list, text};
use crate::registry::names::dns_1035_label;

const APPROVAL: &str = "api-approved.kubernetes.io";
const POLICY: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// The name of a CRD consists of its plural and its group, so that no two define the same resource.
pub(crate) fn object_name(crd: &Value) -> Option<FieldError> {
    let name = text(&crd["metadata"]["name"]);
    let needed = format!(
        "{}.{}",
        text(&crd["spec"]["names"]["plural"]),
        text(&crd["spec"]["group"])
    );
    (name != needed).then(|| {
        FieldError::invalid(
            "metadata.name",
            name,
            "must be spec.names.plural+\".\"+spec.group",
        )
    })
}

/// Validates requested or accepted names that are set.
pub(crate) fn validate(names: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut check = |value: &str, path: String, mixed_case: bool| {
        if value.is_empty() {
            return;
        }
        let wrong = if mixed_case {
            dns_1035_label(&value.to_lowercase())
        } else {
            dns_1035_label(value)
        };
        if !wrong.is_empty() {
            let hint = if mixed_case {
                "may have mixed case, but should otherwise match: "
            } else {
                ""
            };
            errors.invalid(path, value, format!("{hint}{}", wrong.join(",")));
        }
    };
    for (key, mixed_case) in [
        ("plural", false),
        ("singular", false),
        ("kind", true),
        ("listKind", true),
    ] {
        check(text(&names[key]), format!("{path}.{key}"), mixed_case);
    }
    for key in ["shortNames", "categories"] {
        for (i, name) in list(&names[key]).iter().enumerate() {
            check(text(name), format!("{path}.{key}[{i}]"), false);
        }
    }
    let (kind, list_kind) = (text(&names["kind"]), text(&names["listKind"]));
    if !kind.is_empty() && kind == list_kind {
        errors.invalid(
            format!("{path}.listKind"),
            list_kind,
            "kind and listKind may not be the same",
        );
    }
    errors
}

#[derive(PartialEq)]
enum Approval {
    Missing,
    Given,
    Unreadable,
}

fn approval_of(crd: &Value) -> Approval {
    let note = text(&crd["metadata"]["annotations"][APPROVAL]);
    let is_url = note.split_once("://").is_some_and(|(scheme, rest)| {
        scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && !scheme.is_empty()
            && !rest.starts_with('/')
            && !rest.is_empty()
    });
    match note {
        "" => Approval::Missing,
        _ if note.starts_with("unapproved") || is_url => Approval::Given,
        _ => Approval::Unreadable,
    }
}

/// Groups of the Kubernetes community need an annotation of the API approval. An unapproved CRD may stay unapproved.
pub(crate) fn approval(crd: &Value, old: Option<&Value>) -> Option<FieldError> {
    let group = text(&crd["spec"]["group"]);
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')));
    let state = approval_of(crd);
    if !protected || old.is_some_and(|old| approval_of(old) == state) {
        return None;
    }
    let path = format!("metadata.annotations[{APPROVAL}]");
    let needed = format!("protected groups must have approval annotation \"{APPROVAL}\"");
    match state {
        Approval::Given => None,
        Approval::Missing => Some(FieldError::required(path, format!("{needed}, {POLICY}"))),
        Approval::Unreadable => Some(FieldError::invalid(
            path,
            text(&crd["metadata"]["annotations"][APPROVAL]),
            format!("{needed} with either a URL or a reason starting with \"unapproved\", {POLICY}"),
        )),
    }
}
