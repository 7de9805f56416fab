//! Strategies of `ConfigMap`, `Secret` and `ServiceAccount`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{each, entries, flag, keep, remove, same, section, set, text};
use crate::registry::meta::immutable;
use crate::registry::{Rules, names};

/// The data of one object may not take more bytes than this.
const SIZE_LIMIT: usize = 1024 * 1024;

pub(crate) const CONFIG_MAP: Rules = Rules {
    name_on_update: names::subdomain_name,
    validate: validate_config,
    validate_update: |old, new, errors| validate_frozen(old, new, &["data", "binaryData"], errors),
    ..Rules::GENERIC
};

pub(crate) const SECRET: Rules = Rules {
    name_on_update: names::subdomain_name,
    default: fold_string_data,
    update: |old, new| {
        if text(&new["type"]).is_empty() {
            keep(old, new, "type");
        }
    },
    validate: validate_secret,
    validate_update: |old, new, errors| {
        errors.extend(immutable(&old["type"], &new["type"], "type"));
        validate_frozen(old, new, &["data"], errors);
    },
    ..Rules::GENERIC
};

pub(crate) const SERVICE_ACCOUNT: Rules = Rules {
    name_on_update: names::subdomain_name,
    create: only_names,
    update: |_, new| only_names(new),
    ..Rules::GENERIC
};

/// `stringData` is stored in `data`, and wins over it.
fn fold_string_data(secret: &mut Value) {
    let texts: Vec<(String, String)> = entries(&secret["stringData"])
        .map(|(key, value)| (key.to_owned(), STANDARD.encode(text(value))))
        .collect();
    remove(secret, "stringData");
    if texts.is_empty() {
        return;
    }
    if let Some(data) = section(secret, "data") {
        for (key, value) in texts {
            set(data, &key, value);
        }
    }
}

/// Drops all fields but the name from references to secrets.
fn only_names(account: &mut Value) {
    each(account, "secrets", |secret| {
        if let Some(fields) = secret.as_object_mut() {
            fields.retain(|key, _| key == "name");
        }
    });
}

/// Returns the number of bytes that a base64 text encodes.
fn decoded_len(value: &Value) -> usize {
    let text = text(value);
    let padding = text.bytes().rev().take_while(|&byte| byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// Validates the keys of a map, and returns the size of its values.
fn validate_data(
    object: &Value,
    field: &str,
    size: fn(&Value) -> usize,
    errors: &mut Vec<FieldError>,
) -> usize {
    let mut total = 0;
    for (key, value) in entries(&object[field]) {
        errors.format(&*format!("{field}[{key}]"), key, names::config_key);
        total += size(value);
    }
    total
}

fn validate_config(config: &Value, errors: &mut Vec<FieldError>) {
    let size = validate_data(config, "data", |value| text(value).len(), errors)
        + validate_data(config, "binaryData", decoded_len, errors);
    for (key, _) in entries(&config["data"]).filter(|(key, _)| !config["binaryData"][*key].is_null()) {
        errors.invalid(
            format!("data[{key}]"),
            key,
            "duplicate of key present in binaryData",
        );
    }
    if size > SIZE_LIMIT {
        // The path of the object as a whole, as the server writes it.
        errors.push(FieldError::too_long("[]", SIZE_LIMIT));
    }
}

fn validate_secret(secret: &Value, errors: &mut Vec<FieldError>) {
    const ACCOUNT: &str = "kubernetes.io/service-account.name";
    let data = &secret["data"];
    if validate_data(secret, "data", decoded_len, errors) > SIZE_LIMIT {
        errors.push(FieldError::too_long("data", SIZE_LIMIT));
    }
    let keys: &[&str] = match text(&secret["type"]) {
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/basic-auth" if data["username"].is_null() && data["password"].is_null() => {
            &["username", "password"]
        }
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/service-account-token" => {
            if text(&secret["metadata"]["annotations"][ACCOUNT]).is_empty() {
                errors.required(format!("metadata.annotations[{ACCOUNT}]"), "");
            }
            &[]
        }
        _ => &[],
    };
    for key in keys.iter().filter(|key| data[**key].is_null()) {
        errors.required(format!("data[{key}]"), "");
    }
}

/// Rejects changes of an immutable object.
fn validate_frozen(old: &Value, new: &Value, keys: &[&str], errors: &mut Vec<FieldError>) {
    const WHY: &str = "field is immutable when `immutable` is set";
    if !flag(&old["immutable"]) {
        return;
    }
    if !flag(&new["immutable"]) {
        errors.forbidden("immutable", WHY);
    }
    for key in keys.iter().filter(|key| !same(&old[**key], &new[**key])) {
        errors.forbidden(*key, WHY);
    }
}
