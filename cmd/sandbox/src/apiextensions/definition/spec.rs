//! Validation of a CRD's spec: group, scope, names, versions and conversion.

use std::collections::BTreeSet;

use crate::apiextensions::definition::names;
use crate::apiextensions::structural;
use crate::field::{FieldError, Report, Wrong};
use crate::json::Value;
use crate::registry::json::{flag, list, text};
use crate::registry::names::{dns_1035_label, dns_subdomain};
use crate::registry::webhooks;
use crate::schema::Path;

pub(crate) fn validate(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let group = text(&spec["group"]);
    let wrong = dns_subdomain(group);
    if group.is_empty() {
        errors.required("spec.group", "");
    } else if !wrong.is_empty() {
        errors.invalid("spec.group", group, wrong.join(","));
    } else if !group.contains('.') {
        errors.invalid("spec.group", group, "should be a domain with at least one dot");
    }
    match text(&spec["scope"]) {
        "Cluster" | "Namespaced" => {}
        "" => errors.required("spec.scope", ""),
        other => errors.not_supported("spec.scope", other, &["Cluster", "Namespaced"]),
    }
    versions(spec, &mut errors);
    for key in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"][key]).is_empty() {
            errors.required(format!("spec.names.{key}"), "");
        }
    }
    errors.extend(names::validate(&spec["names"], "spec.names"));
    conversion(spec, &mut errors);
    if flag(&spec["preserveUnknownFields"]) {
        errors.invalid(
            "spec.preserveUnknownFields",
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead");
    }
    errors
}

fn versions(spec: &Value, errors: &mut Vec<FieldError>) {
    let versions = list(&spec["versions"]);
    for (i, version) in versions.iter().enumerate() {
        if version["schema"]["openAPIV3Schema"].is_null() {
            errors.required(format!("spec.versions[{i}].schema.openAPIV3Schema"), "");
        }
    }
    let mut seen = BTreeSet::new();
    let mut unique = true;
    // A part that all versions share is validated once, at the top of the spec.
    let shared = |key: &str| versions.iter().all(|version| version[key] == versions[0][key]);
    let (shared_schema, shared_scale) = (shared("schema"), shared("subresources"));
    let (shared_columns, shared_fields) = (shared("additionalPrinterColumns"), shared("selectableFields"));
    let place = |shared: bool, i: usize| match (shared, i) {
        (false, _) => Some(format!("spec.versions[{i}]")),
        (true, 0) => Some("spec".to_owned()),
        (true, _) => None,
    };
    for (i, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{i}]");
        let name = text(&version["name"]);
        unique &= seen.insert(name);
        let wrong = dns_1035_label(name);
        if !wrong.is_empty() {
            errors.invalid(format!("{path}.name"), name, wrong.join(","));
        }
        if !flag(&version["deprecated"]) && !version["deprecationWarning"].is_null() {
            errors.invalid(
                format!("{path}.deprecationWarning"),
                version["deprecationWarning"].clone(),
                "can only be set for deprecated versions",
            );
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_null()
            && let Some(path) = place(shared_schema, i)
        {
            let key = if shared_schema { "validation" } else { "schema" };
            let status = |version: &Value| version["subresources"]["status"].is_object();
            let status = status(version) || (shared_schema && versions.iter().any(status));
            errors.extend(structural::check(
                schema,
                &format!("{path}.{key}.openAPIV3Schema"),
                status,
            ));
        }
        if let Some(path) = place(shared_scale, i) {
            let path = format!("{path}.subresources");
            scale(&version["subresources"]["scale"], &path, errors);
        }
        if let Some(path) = place(shared_columns, i) {
            for (j, column) in list(&version["additionalPrinterColumns"]).iter().enumerate() {
                printer_column(column, &format!("{path}.additionalPrinterColumns[{j}]"), errors);
            }
        }
        if let Some(path) = place(shared_fields, i) {
            let path = format!("{path}.selectableFields");
            selectable_fields(list(&version["selectableFields"]), schema, &path, errors);
        }
    }
    if !unique {
        errors.invalid(
            "spec.versions",
            spec["versions"].clone(),
            "must contain unique version names",
        );
    }
    if versions
        .iter()
        .filter(|version| flag(&version["storage"]))
        .count()
        != 1
    {
        errors.invalid(
            "spec.versions",
            spec["versions"].clone(),
            "must have exactly one version marked as storage version",
        );
    }
}

fn scale(scale: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if scale.is_null() {
        return;
    }
    for (key, below) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let field = format!("{path}.scale.{key}");
        match text(&scale[key]) {
            "" => errors.required(field, ""),
            given if !given.starts_with(below) => errors.invalid(
                field,
                given,
                format!("should be a json path under {}", below.trim_end_matches('.')),
            ),
            _ => {}
        }
    }
    let selector = text(&scale["labelSelectorPath"]);
    if !selector.is_empty() && !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        errors.invalid(
            format!("{path}.scale.labelSelectorPath"),
            selector,
            "should be a json path under either .spec or .status",
        );
    }
}

/// Validates `selectableFields`: paths to fields of a simple type, each once.
fn selectable_fields(fields: &[Value], schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const MAX: usize = 8;
    let mut seen = BTreeSet::new();
    for (i, field) in fields.iter().enumerate() {
        let at = format!("{path}[{i}].jsonPath");
        let given = text(&field["jsonPath"]);
        if given.is_empty() {
            errors.required(at, "");
            continue;
        }
        let found = match selected_schema(given, schema) {
            Ok(found) => found,
            Err(why) => {
                errors.invalid(at, given, format!("is an invalid path: {why}"));
                continue;
            }
        };
        if given.split('.').nth(1) == Some("metadata") {
            let why = "must not point to fields in metadata";
            errors.invalid(at.clone(), given, why);
        }
        if !matches!(text(&found["type"]), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                       formats are allowed.";
            errors.invalid(at.clone(), given, why);
        }
        if !seen.insert(given) {
            errors.duplicate(at, given);
        }
    }
    if seen.len() > MAX {
        errors.push(FieldError::new(path, Wrong::TooMany(seen.len(), MAX), ""));
    }
}

/// Returns the schema that a path such as `.spec.color` refers to, or the reason why it is not a path of the schema.
fn selected_schema<'s>(path: &str, schema: &'s Value) -> Result<&'s Value, String> {
    let unknown = || "does not refer to a valid field".to_owned();
    if let Some(first) = path
        .split(['.', '[', ']'])
        .next()
        .filter(|first| !first.is_empty())
    {
        return Err(format!("expected [ or . but got: {first}"));
    }
    let mut found = schema;
    for name in path.split('.').skip(1) {
        let (name, rest) = name.split_at(name.find(['[', ']']).unwrap_or(name.len()));
        if name.is_empty() && rest.is_empty() {
            return Err("unexpected end of JSON path".to_owned());
        }
        found = match (found.get("properties"), found.get("additionalProperties")) {
            (Some(properties), _) => properties.get(name).ok_or_else(unknown)?,
            (None, Some(values)) => values,
            (None, None) => return Err(unknown()),
        };
        match rest.chars().next() {
            Some('[') => return Err("array notation is not allowed".to_owned()),
            Some(other) => return Err(format!("expected [ or . but got: {other}")),
            None => {}
        }
    }
    if path.starts_with(['[', ']']) {
        return Err("array notation is not allowed".to_owned());
    }
    Ok(found)
}

fn printer_column(column: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const TYPES: &str = "must be one of boolean,date,integer,number,string";
    const FORMATS: &str = "must be one of byte,date,date-time,double,float,int32,int64,password";
    if text(&column["name"]).is_empty() {
        errors.required(format!("{path}.name"), "");
    }
    match text(&column["type"]) {
        "boolean" | "date" | "integer" | "number" | "string" => {}
        "" => errors.required(format!("{path}.type"), TYPES),
        other => errors.invalid(format!("{path}.type"), other, TYPES),
    }
    let format = text(&column["format"]);
    if !matches!(
        format,
        "" | "byte" | "date" | "date-time" | "double" | "float" | "int32" | "int64" | "password"
    ) {
        errors.invalid(format!("{path}.format"), format, FORMATS);
    }
    let json_path = text(&column["jsonPath"]);
    if json_path.is_empty() {
        errors.required(format!("{path}.JSONPath"), "");
    } else if !json_path.starts_with('.') {
        errors.invalid(format!("{path}.JSONPath"), json_path, "must start with .");
    }
}

fn conversion(spec: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.conversion";
    let conversion = &spec["conversion"];
    let webhook = &conversion["webhook"];
    match text(&conversion["strategy"]) {
        "None" if webhook.is_null() => {}
        "None" => errors.forbidden(
            format!("{PATH}.webhookClientConfig"),
            "should not be set when strategy is not set to Webhook",
        ),
        "Webhook" => {
            if webhook["clientConfig"].is_null() {
                errors.required(
                    format!("{PATH}.webhookClientConfig"),
                    "required when strategy is set to Webhook",
                );
            } else {
                let path = format!("{PATH}.webhookClientConfig");
                webhooks::client::validate(&webhook["clientConfig"], &Path::Root.key(&path), errors);
            }
            if list(&webhook["conversionReviewVersions"]).is_empty() {
                errors.required(format!("{PATH}.conversionReviewVersions"), "");
            }
            // Objects of a single version are never converted.
            if list(&spec["versions"]).len() > 1 {
                let why = "the sandbox does not call conversion webhooks: use None, which changes only the apiVersion, \
                           or define one version";
                errors.invalid(format!("{PATH}.strategy"), "Webhook", why);
            }
        }
        "" => errors.required(format!("{PATH}.strategy"), ""),
        other => errors.not_supported(format!("{PATH}.strategy"), other, &["None", "Webhook"]),
    }
}

/// A version that may have stored objects must stay.
pub(crate) fn stored_versions(crd: &Value) -> Vec<FieldError> {
    const PATH: &str = "status.storedVersions";
    let stored = list(&crd["status"]["storedVersions"]);
    if stored.is_empty() {
        return vec![FieldError::invalid(
            PATH,
            Value::Null,
            "must have at least one stored version",
        )];
    }
    let versions = list(&crd["spec"]["versions"]);
    let storage = versions
        .iter()
        .filter(|version| flag(&version["storage"]) && !stored.contains(&version["name"]));
    let mut errors: Vec<FieldError> = storage
        .map(|version| {
            let why = format!("must have the storage version {}", text(&version["name"]));
            FieldError::invalid(PATH, stored.to_vec(), why)
        })
        .collect();
    for (i, version) in stored.iter().enumerate() {
        if !versions.iter().any(|served| served["name"] == *version) {
            let name = text(version);
            errors.invalid(
                format!("{PATH}[{i}]"),
                name,
                format!(
                    "missing from spec.versions; {name} was previously a storage version, and must remain in \
                     spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                     {name} from status.storedVersions"
                ));
        }
    }
    errors
}
