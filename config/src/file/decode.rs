//! Decodes the tree of a file against the definitions of the flags.

use std::collections::BTreeMap;

use clap::{Arg, Command};

use super::Values;
use super::suggest::suggestion;
use super::tree::{Node, boolean, is_number, is_text};
use crate::effective::{API_VERSION, KIND};
use crate::flags::is_field;
use crate::kind::Kind;
use crate::parse::convert;

/// Most errors that are reported.
const ERRORS_MAX: usize = 20;

/// Returns the texts of the fields, or all errors.
pub(super) fn decode(root: Node, command: &Command) -> Result<Values, Vec<String>> {
    let mut decoder = Decoder {
        command: command.clone().no_binary_name(true),
        values: Values::new(),
        errors: Vec::new(),
    };
    decoder.document(root);
    let mut errors = decoder.errors;
    if errors.is_empty() {
        return Ok(decoder.values);
    }
    if errors.len() > ERRORS_MAX {
        let more = errors.len() - ERRORS_MAX;
        errors.truncate(ERRORS_MAX);
        errors.push(format!("and {more} more"));
    }
    Err(errors)
}

struct Decoder {
    command: Command,
    values: Values,
    errors: Vec<String>,
}

impl Decoder {
    fn document(&mut self, root: Node) {
        let Node::Map(mut entries) = root else {
            let shown = root.shown();
            return self.fail(format!("it must be a mapping of fields, not {shown}"));
        };
        for (key, allowed) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            let is_allowed = |node: &Node| matches!(node, Node::Scalar { text, .. } if text == allowed);
            match entries.iter().find(|(name, _)| name == key) {
                None => self.fail(format!("{key} is missing, it must be {allowed:?}")),
                Some((_, node)) if is_allowed(node) => {}
                Some((_, node)) => {
                    let shown = node.shown();
                    self.fail(format!("{key} must be {allowed:?}, not {shown}"));
                }
            }
            let count = entries.len();
            entries.retain(|(name, _)| name != key);
            if count - entries.len() > 1 {
                self.fail(format!("duplicate field {key}"));
            }
        }
        self.group(entries, "");
    }

    /// Decodes the fields of an object. `prefix` is its path with a trailing `.`, or empty for the document.
    fn group(&mut self, entries: Vec<(String, Node)>, prefix: &str) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, _) in &entries {
            *counts.entry(name).or_default() += 1;
        }
        for (name, count) in counts {
            if count > 1 {
                self.fail(format!("duplicate field {prefix}{}", name.escape_debug()));
            }
        }
        for (name, node) in entries {
            let path = format!("{prefix}{name}");
            let inner = format!("{path}.");
            let command = &self.command;
            let is_this = |arg: &&Arg| is_field(&path) && arg.get_id() == path.as_str();
            let field = command.get_arguments().find(is_this).cloned();
            let is_within = |arg: &Arg| arg.get_id().as_str().starts_with(&inner);
            let is_group = command.get_arguments().any(is_within);
            if let Some(arg) = field {
                self.field(&path, &arg, &node);
            } else if is_group {
                match node {
                    Node::Map(entries) => self.group(entries, &inner),
                    node if node.is_null() => {}
                    node => self.wrong_type(&path, "a mapping of fields", &node),
                }
            } else {
                // A suggestion takes time, and only the first errors are shown.
                let is_shown = self.errors.len() < ERRORS_MAX;
                let suggested = is_shown.then(|| suggestion(&path, &self.command)).flatten();
                let hint = suggested.map_or_else(
                    || "the schema lists all fields".to_owned(),
                    |it| format!("did you mean {it}?"),
                );
                let path = path.escape_debug();
                self.fail(format!("unknown field {path}; {hint}"));
            }
        }
    }

    fn field(&mut self, path: &str, arg: &Arg, node: &Node) {
        if node.is_null() {
            return;
        }
        let kind = Kind::of(arg);
        let Some(texts) = texts(kind, node) else {
            let expected = match arg.get_possible_values().as_slice() {
                [] => kind.expected().to_owned(),
                values => one_of(values.iter().map(clap::builder::PossibleValue::get_name)),
            };
            return self.wrong_type(path, &expected, node);
        };
        let arguments = arguments(arg, &texts);
        match self.command.try_get_matches_from_mut(arguments) {
            Ok(_) => drop(self.values.insert(path.to_owned(), texts)),
            Err(error) => match convert(&error, &self.command) {
                crate::Error::BadValue { value, reason, .. } => {
                    self.fail(format!("invalid value {value:?} for {path}: {reason}"));
                }
                error => self.fail(format!("{path}: {error}")),
            },
        }
    }

    fn wrong_type(&mut self, path: &str, expected: &str, node: &Node) {
        let shown = node.shown();
        self.fail(format!("{path} must be {expected}, not {shown}"));
    }

    fn fail(&mut self, error: String) {
        self.errors.push(error);
    }
}

/// Returns the arguments of the command line that set a field.
pub(super) fn arguments(arg: &Arg, texts: &[String]) -> Vec<String> {
    let long = arg.get_long().unwrap_or_default();
    let argument = |text: &str| format!("--{long}={text}");
    match texts {
        // An empty list differs from an absent one.
        [] => vec![argument("")],
        texts => texts.iter().map(|text| argument(text)).collect(),
    }
}

/// Returns the values as on the command line. None if the type is wrong.
fn texts(kind: Kind, node: &Node) -> Option<Vec<String>> {
    if let Kind::List | Kind::Repeated = kind {
        let Node::List(items) = node else {
            return None;
        };
        // A comma would split the item.
        let is_item = |text: &str| !text.is_empty() && (kind == Kind::Repeated || !text.contains(','));
        let item = |node: &Node| scalar(Kind::Text, node).filter(|text| is_item(text));
        return items.iter().map(item).collect();
    }
    Some(vec![scalar(kind, node)?])
}

fn scalar(kind: Kind, node: &Node) -> Option<String> {
    let Node::Scalar { text, quoted } = node else {
        return None;
    };
    match kind {
        Kind::Text | Kind::Duration => (*quoted || is_text(text)).then(|| text.clone()),
        _ if *quoted => None,
        Kind::Bool => Some(boolean(text)?.to_string()),
        Kind::Integer => Some(text.parse::<i64>().ok()?.to_string()),
        Kind::Number => is_number(text).then(|| text.clone()),
        Kind::List | Kind::Repeated => None,
    }
}

fn one_of<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let values: Vec<_> = values.map(|value| format!("{value:?}")).collect();
    values.join(" or ")
}
