//! The effective configuration in text: the value of every flag, and a configuration file.

use std::collections::BTreeMap;

use clap::Arg;
use serde_json::{Number, Value, json};

use crate::duration::GoDuration;
use crate::flags::{Switch, is_field};
use crate::kind::Kind;
use crate::sources::Sources;

/// The version of the configuration file.
pub(crate) const API_VERSION: &str = "config.steersman.dev/v1alpha1";
/// The kind of the configuration file.
pub(crate) const KIND: &str = "ControllerManagerConfiguration";

/// Values, by field, of fields that were not given and whose default depends on other fields. None is not set.
pub(crate) type Overrides = BTreeMap<&'static str, Option<String>>;

/// Returns the value of every flag by its name.
pub(crate) fn flags(sources: &Sources<'_>, overrides: &Overrides) -> BTreeMap<String, String> {
    let flag = |arg: &Arg| {
        let items = items(arg, sources, overrides).unwrap_or_default();
        let separator = if Kind::of(arg) == Kind::Repeated { ";" } else { "," };
        Some((arg.get_long()?.to_owned(), items.join(separator)))
    };
    sources.command.get_arguments().filter_map(flag).collect()
}

/// Returns the configuration file that results in the same configuration. Fields that are not set are omitted.
pub(crate) fn document(sources: &Sources<'_>, overrides: &Overrides) -> Value {
    let mut document = json!({"apiVersion": API_VERSION, "kind": KIND});
    for arg in sources.command.get_arguments() {
        let id = arg.get_id().as_str();
        let items = is_field(id).then(|| items(arg, sources, overrides)).flatten();
        if let Some(value) = items.and_then(|items| value(Kind::of(arg), items)) {
            let field = id
                .split('.')
                .fold(&mut document, |object, name| &mut object[name]);
            *field = value;
        }
    }
    document
}

/// Returns the items of a list, or the only item of another value, in its normal form. None if the value is not set.
fn items(arg: &Arg, sources: &Sources<'_>, overrides: &Overrides) -> Option<Vec<String>> {
    let id = arg.get_id().as_str();
    if let Some(text) = overrides.get(id) {
        return text.clone().map(|text| vec![text]);
    }
    let pieces: Vec<String> = sources
        .matches
        .get_raw(id)?
        .map(|piece| piece.to_string_lossy().into_owned())
        .collect();
    let is_set = |piece: &String| !piece.is_empty() || !arg.get_default_values().is_empty();
    match Kind::of(arg) {
        Kind::Repeated => Some(pieces),
        Kind::List => {
            let pieces = pieces.iter().filter(|piece| !piece.is_empty());
            Some(
                pieces
                    .flat_map(|piece| piece.split(','))
                    .map(str::to_owned)
                    .collect(),
            )
        }
        kind => {
            let text = pieces.into_iter().next_back().filter(is_set)?;
            Some(vec![normal(kind, text)])
        }
    }
}

fn normal(kind: Kind, text: String) -> String {
    match kind {
        Kind::Bool => text.parse().map_or(text, |Switch(on)| on.to_string()),
        Kind::Duration => text
            .parse()
            .map_or(text, |duration: GoDuration| duration.to_string()),
        _ => text,
    }
}

/// Returns the value of a field.
pub(crate) fn value(kind: Kind, items: Vec<String>) -> Option<Value> {
    if matches!(kind, Kind::List | Kind::Repeated) {
        return Some(items.into());
    }
    let text = items.into_iter().next()?;
    Some(match kind {
        Kind::Bool => Value::Bool(text == "true"),
        Kind::Integer => Value::Number(text.parse::<i64>().ok()?.into()),
        Kind::Number => {
            let whole = text.parse::<i64>().ok().map(Number::from);
            Value::Number(whole.or_else(|| Number::from_f64(text.parse().ok()?))?)
        }
        _ => text.into(),
    })
}
