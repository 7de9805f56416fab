//! The checks of single values that `rules.txt` can name.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{entries, list, number, text};
use crate::registry::names;
use crate::schema::Path;

/// A check of one value.
pub(super) enum Check {
    Supported(Vec<&'static str>),
    Range(i64, i64),
    /// A text; returns the violations.
    Format(fn(&str) -> Vec<String>),
    /// A port number or the name of a port.
    Port,
    CountOrPercent,
    AtMost100Percent,
    Labels,
    /// The items of a list differ in this field.
    Unique(&'static str),
}

impl Check {
    pub(super) fn parse(word: &'static str) -> Self {
        if let Some(key) = word.strip_prefix("unique:") {
            return Self::Unique(key);
        }
        if let Some((low, high)) = word.split_once("..") {
            let bound = |text: &str, open| text.parse().unwrap_or(open);
            return Self::Range(bound(low, i64::MIN), bound(high, i64::MAX));
        }
        match word {
            "config-key" => Self::Format(names::config_key),
            "dns-1035-label" => Self::Format(names::dns_1035_label),
            "dns-label" => Self::Format(names::dns_label),
            "dns-subdomain" => Self::Format(names::dns_subdomain),
            "env-name" => Self::Format(names::env_name),
            "ip" => Self::Format(ip),
            "label-value" => Self::Format(names::label_value),
            "name-prefix" => Self::Format(|name| names::subdomain_name(name, true)),
            "path-segment" => Self::Format(names::path_segment),
            "port-name" => Self::Format(names::port_name),
            "qualified-name" => Self::Format(names::qualified),
            "count-or-percent" => Self::CountOrPercent,
            "at-most-100%" => Self::AtMost100Percent,
            "labels" => Self::Labels,
            "port" => Self::Port,
            values => Self::Supported(values.split('|').collect()),
        }
    }

    /// Adds an error for each violation.
    pub(super) fn run(&self, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        match self {
            Self::Unique(key) => unique(list(value), key, path, errors),
            Self::Labels => validate_labels(value, path, errors),
            _ => match value {
                Value::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        self.scalar(item, &path.index(index), errors);
                    }
                }
                value => self.scalar(value, path, errors),
            },
        }
    }

    fn scalar(&self, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        match self {
            Self::Supported(supported) => {
                let is_supported = |known: &&str| match known.strip_suffix('*') {
                    Some(prefix) if !prefix.is_empty() => text(value).starts_with(prefix),
                    _ => text(value) == *known,
                };
                if !supported.iter().any(is_supported) {
                    errors.not_supported(path, text(value), supported);
                }
            }
            Self::Range(low, high) => range(value, *low, *high, path, errors),
            Self::Format(format) => errors.format(path, text(value), *format),
            Self::Port => match value {
                Value::String(name) => errors.format(path, name, names::port_name),
                number => range(number, 1, 65535, path, errors),
            },
            Self::CountOrPercent if value.is_string() => errors.format(path, text(value), percent),
            Self::CountOrPercent => range(value, 0, i64::MAX, path, errors),
            Self::AtMost100Percent if percent_of(value).is_some_and(|percent| percent > 100) => {
                errors.invalid(path, value.clone(), "must not be greater than 100%");
            }
            _ => {}
        }
    }
}

fn range(value: &Value, low: i64, high: i64, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let value = number(value);
    if (low..=high).contains(&value) {
        return;
    }
    let why = match high {
        i64::MAX => format!("must be greater than or equal to {low}"),
        high => names::between(low, high),
    };
    errors.invalid(path, value, why);
}

fn unique(items: &[Value], key: &str, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let name = text(&item[key]);
        if !name.is_empty() && !seen.insert(name) {
            errors.duplicate(&path.index(index).key(key), name);
        }
    }
}

/// Validates a map of labels.
pub(crate) fn validate_labels(labels: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for (key, value) in entries(labels) {
        errors.format(path, key, names::qualified);
        errors.format(path, text(value), names::label_value);
    }
}

/// Validates one IP address.
pub(crate) fn ip(text: &str) -> Vec<String> {
    let wrong = text.parse::<IpAddr>().is_err();
    let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    wrong.then(|| why.to_owned()).into_iter().collect()
}

fn percent(text: &str) -> Vec<String> {
    let wrong = percent_of(&text.into()).is_none();
    let why = "a valid percent string must be a numeric string followed by an ending '%'";
    wrong.then(|| why.to_owned()).into_iter().collect()
}

/// The number of a percentage.
pub(crate) fn percent_of(value: &Value) -> Option<u64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}
