//! Reading YAML bodies: a tree as JSON would have given it.
//!
//! Scalars are read as the server reads them, which is YAML 1.1: `yes` is true and `010` is eight. The last of two equal
//! keys wins, and is reported; only the first document counts. Nesting is bounded as it is for JSON, and so is what
//! aliases make of a body.

mod scalar;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::schema::Parsed;

/// As deep as the JSON parser goes.
const MAX_DEPTH: usize = 127;
/// How many values aliases may add.
const MAX_ALIASED: usize = 100_000;
/// How many keys that stand twice are reported.
const MAX_REPORTED: usize = 100;

/// The body is not YAML, or holds what JSON cannot.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{0}")]
pub struct YamlError(String);

/// Reads the first document of a body. The duplicates are sentences, as the server puts them.
pub fn parse(body: &[u8]) -> Result<Parsed, YamlError> {
    let text = String::from_utf8_lossy(body);
    let (ends_line, length) = (text.ends_with(['\n', '\r', ' ']), text.chars().count());
    let mut reader = Reader::default();
    for event in Parser::new_from_str(&text) {
        let (event, span) = event.map_err(|error| Reader::broken(&error))?;
        let line = span.start.line();
        match event {
            Event::DocumentEnd | Event::StreamEnd => break,
            Event::Scalar(text, style, anchor, tag) => {
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                // A block scalar at the end of a body without a final line break has none either.
                let text = match text.strip_suffix('\n') {
                    Some(cut) if block && !ends_line && span.end.index() >= length => cut,
                    _ => &text,
                };
                let quoted = style != ScalarStyle::Plain;
                let value = scalar::read(text, quoted, tag.as_deref()).map_err(YamlError)?;
                reader.put(value, anchor, line, text)?;
            }
            Event::SequenceStart(anchor, _) => reader.open(Node::List(Vec::new()), anchor)?,
            Event::MappingStart(anchor, _) => reader.open(Node::Map(Map::new(), None), anchor)?,
            Event::SequenceEnd | Event::MappingEnd => reader.close(line)?,
            Event::Alias(anchor) => reader.alias(anchor, line)?,
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => {}
        }
    }
    Ok(Parsed {
        value: reader.root.unwrap_or_default(),
        duplicates: reader.duplicates,
    })
}

/// Keys that stand twice, as one error.
#[must_use]
pub fn unmarshal_errors(duplicates: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  "))
}

/// A collection that is being read. A map remembers the key whose value comes next.
enum Node {
    List(Vec<Value>),
    Map(Map<String, Value>, Option<String>),
}

#[derive(Default)]
struct Reader {
    open: Vec<(Node, usize)>,
    root: Option<Value>,
    anchors: BTreeMap<usize, Value>,
    aliased: usize,
    duplicates: Vec<String>,
}

impl Reader {
    fn broken(error: &ScanError) -> YamlError {
        let line = match error.marker().line() {
            0 | 1 => String::new(),
            line => format!("line {line}: "),
        };
        YamlError(format!("yaml: {line}{}", error.info()))
    }

    fn open(&mut self, node: Node, anchor: usize) -> Result<(), YamlError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(YamlError("yaml: exceeded max depth".to_owned()));
        }
        self.open.push((node, anchor));
        Ok(())
    }

    fn close(&mut self, line: usize) -> Result<(), YamlError> {
        let Some((node, anchor)) = self.open.pop() else {
            return Ok(());
        };
        let value = match node {
            Node::List(items) => Value::Array(items),
            Node::Map(map, _) => Value::Object(map),
        };
        self.put(value, anchor, line, "")
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<(), YamlError> {
        let value = self.anchors.get(&anchor).cloned().unwrap_or_default();
        self.aliased += size(&value);
        if self.aliased > MAX_ALIASED || depth(&value) + self.open.len() > MAX_DEPTH {
            return Err(YamlError("yaml: document contains excessive aliasing".to_owned()));
        }
        self.put(value, 0, line, "")
    }

    /// Puts a value where it belongs. `text` is what a scalar was written as: keys are texts.
    fn put(&mut self, value: Value, anchor: usize, line: usize, text: &str) -> Result<(), YamlError> {
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut() {
            None => self.root = self.root.take().or(Some(value)),
            Some((Node::List(items), _)) => items.push(value),
            Some((Node::Map(_, key @ None), _)) => *key = Some(scalar::key(&value, text).map_err(YamlError)?),
            Some((Node::Map(map, key), _)) => {
                let key = key.take().unwrap_or_default();
                if key == "<<" && merges(&value) {
                    merge_into(map, value);
                } else if map.insert(key.clone(), value).is_some() && self.duplicates.len() < MAX_REPORTED {
                    self.duplicates
                        .push(format!("line {line}: key {key:?} already set in map"));
                }
            }
        }
        Ok(())
    }
}

/// Whether a value can be merged into the map that has it under `<<`.
fn merges(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(items) => items.iter().all(Value::is_object),
        _ => false,
    }
}

/// What the map says itself goes before what is merged into it.
fn merge_into(map: &mut Map<String, Value>, merged: Value) {
    let all: Cow<'_, [Value]> = match merged {
        Value::Array(items) => items.into(),
        one => vec![one].into(),
    };
    for (key, value) in all.iter().filter_map(Value::as_object).flatten() {
        map.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

fn depth(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(map) => map.values().map(depth).max(),
        _ => return 0,
    };
    1 + deepest.unwrap_or(0)
}
