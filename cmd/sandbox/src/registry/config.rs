//! Strategies of `ConfigMap`, `Secret` and `ServiceAccount`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::field::{FieldError, Report as _};
use crate::registry::json::{default_text, each, entries, flag, keep, remove, same, section, set, text};
use crate::registry::meta::immutable;
use crate::registry::{Rules, names};

/// The data of one object may not take more bytes than this.
const SIZE_LIMIT: usize = 1024 * 1024;

pub(crate) const CONFIG_MAP: Rules = Rules {
    name_on_update: names::subdomain_name,
    validate: validate_config,
    validate_update: |old, new| {
        let mut errors = validate_frozen(old, new, &["data", "binaryData"]);
        errors.extend(validate_config(new));
        errors
    },
    ..Rules::GENERIC
};

pub(crate) const SECRET: Rules = Rules {
    name_on_update: names::subdomain_name,
    default: |secret| {
        fold_string_data(secret);
        default_text(secret, "type", "Opaque");
    },
    update: |old, new| {
        if text(&new["type"]).is_empty() {
            keep(old, new, "type");
        }
    },
    validate: validate_secret,
    validate_update: |old, new| {
        let mut errors: Vec<FieldError> = immutable(&old["type"], &new["type"], "type")
            .into_iter()
            .collect();
        errors.extend(validate_frozen(old, new, &["data"]));
        errors.extend(validate_secret(new));
        errors
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

/// References to secrets carry a name and nothing else.
fn only_names(account: &mut Value) {
    each(account, "secrets", |secret| {
        let name = secret["name"].clone();
        *secret = if name.is_null() {
            json!({})
        } else {
            json!({ "name": name })
        };
    });
}

/// How many bytes a base64 text stands for.
fn decoded_len(value: &Value) -> usize {
    let text = text(value);
    let padding = text.bytes().rev().take_while(|&byte| byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

fn validate_config(config: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in entries(&config["data"]) {
        for wrong in names::config_key(key) {
            errors.invalid(format!("data[{key}]"), key, wrong);
        }
        if !config["binaryData"][key].is_null() {
            errors.invalid(
                format!("data[{key}]"),
                key,
                "duplicate of key present in binaryData",
            );
        }
        size += text(value).len();
    }
    for (key, value) in entries(&config["binaryData"]) {
        for wrong in names::config_key(key) {
            errors.invalid(format!("binaryData[{key}]"), key, wrong);
        }
        size += decoded_len(value);
    }
    if size > SIZE_LIMIT {
        // The path of the object as a whole, as the server writes it.
        errors.push(FieldError::too_long("[]", SIZE_LIMIT));
    }
    errors
}

fn validate_secret(secret: &Value) -> Vec<FieldError> {
    let data = &secret["data"];
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in entries(data) {
        for wrong in names::config_key(key) {
            errors.invalid(format!("data[{key}]"), key, wrong);
        }
        size += decoded_len(value);
    }
    if size > SIZE_LIMIT {
        errors.push(FieldError::too_long("data", SIZE_LIMIT));
    }
    let mut need = |keys: &[&str]| {
        for key in keys.iter().filter(|key| data[**key].is_null()) {
            errors.required(format!("data[{key}]"), "");
        }
    };
    match text(&secret["type"]) {
        "kubernetes.io/dockercfg" => need(&[".dockercfg"]),
        "kubernetes.io/dockerconfigjson" => need(&[".dockerconfigjson"]),
        "kubernetes.io/basic-auth" if data["username"].is_null() && data["password"].is_null() => {
            need(&["username", "password"]);
        }
        "kubernetes.io/ssh-auth" => need(&["ssh-privatekey"]),
        "kubernetes.io/tls" => need(&["tls.crt", "tls.key"]),
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if text(&secret["metadata"]["annotations"][ACCOUNT]).is_empty() {
                errors.required(format!("metadata.annotations[{ACCOUNT}]"), "");
            }
        }
        _ => {}
    }
    errors
}

/// Refuses a change of an immutable object, or of its mark.
fn validate_frozen(old: &Value, new: &Value, keys: &[&str]) -> Vec<FieldError> {
    const WHY: &str = "field is immutable when `immutable` is set";
    if !flag(&old["immutable"]) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if !flag(&new["immutable"]) {
        errors.forbidden("immutable", WHY);
    }
    for key in keys {
        if !same(&old[*key], &new[*key]) {
            errors.forbidden(*key, WHY);
        }
    }
    errors
}
