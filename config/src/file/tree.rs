//! Parses YAML to a tree of untyped scalars. JSON is YAML.

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::Problem;

/// Deeper than every field.
const DEPTH_MAX: usize = 16;

/// A node of the file. Maps keep duplicate keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Scalar { text: String, quoted: bool },
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

/// A collection whose end has not been read. A map has the key whose value follows.
enum Open {
    List(Vec<Node>),
    Map(Vec<(String, Node)>, Option<String>),
}

/// Parses the only document of a text.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let (mut open, mut root): (Vec<Open>, Option<Node>) = (Vec::new(), None);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| Problem::Syntax {
            line: error.marker().line(),
            reason: error.info().to_owned(),
        })?;
        let wrong = |reason: &str| Problem::Syntax {
            line: span.start.line(),
            reason: reason.to_owned(),
        };
        let tag = match &event {
            Event::Scalar(_, _, _, tag) | Event::SequenceStart(_, tag) | Event::MappingStart(_, tag) => tag,
            _ => &None,
        };
        if tag.is_some() {
            return Err(wrong("tags are not supported"));
        }
        let node = match event {
            Event::Scalar(text, style, ..) => Node::Scalar {
                text: text.into_owned(),
                quoted: style != ScalarStyle::Plain,
            },
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if open.len() >= DEPTH_MAX {
                    return Err(wrong("it is nested too deeply"));
                }
                open.push(match event {
                    Event::SequenceStart(..) => Open::List(Vec::new()),
                    _ => Open::Map(Vec::new(), None),
                });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(items)) => Node::List(items),
                Some(Open::Map(entries, _)) => Node::Map(entries),
                None => continue,
            },
            // Aliases of aliases can expand to any size.
            Event::Alias(_) => return Err(wrong("aliases are not supported: repeat the value")),
            Event::DocumentStart(_) if root.is_some() => {
                return Err(wrong("it must contain one document, not several"));
            }
            _ => continue,
        };
        match open.last_mut() {
            None => root = Some(node),
            Some(Open::List(items)) => items.push(node),
            Some(Open::Map(entries, key)) => match (key.take(), node) {
                (Some(key), node) => entries.push((key, node)),
                (None, Node::Scalar { text, .. }) => *key = Some(text),
                (None, _) => return Err(wrong("the name of a field must be a text")),
            },
        }
    }
    root.ok_or_else(|| Problem::Fields(vec!["it is empty".to_owned()]))
}

impl Node {
    /// Whether a value is absent: `field:` or `field: null`.
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Scalar { text, quoted: false } if is_null(text))
    }

    /// Describes the value in a message.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Scalar { text, quoted } if *quoted || is_text(text) => format!("{:?}", short(text)),
            Self::Scalar { text, .. } => short(text),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Longest value in a message, in characters.
const SHOWN_MAX: usize = 80;

fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether a plain scalar is a text: not null, a boolean or a number of YAML.
pub(super) fn is_text(text: &str) -> bool {
    !is_null(text) && boolean(text).is_none() && !is_number(text)
}

pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// Whether a plain scalar is a number, with Rust's `nan` and `inf` excluded.
pub(super) fn is_number(text: &str) -> bool {
    let numeric = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let is_special = matches!(
        text.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str(),
        ".inf" | ".nan"
    );
    is_special || (text.chars().all(numeric) && text.parse::<f64>().is_ok())
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}
