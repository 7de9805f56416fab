//! The YAML parser of request bodies.
//!
//! Scalars are those of YAML 1.1, as in `sigs.k8s.io/yaml`: `yes` is true and `010` is eight. The last duplicate of a key
//! wins and is reported; only the first document is read. The depth and the number of aliased values are limited.

mod scalar;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use thiserror::Error;

use crate::json::{List, Map, Value};
use crate::schema::Parsed;

/// The depth limit of the JSON parser.
const MAX_DEPTH: usize = 127;
/// The maximum number of values that aliases add.
const MAX_ALIASED: usize = 100_000;
/// The maximum number of reported duplicate keys.
const MAX_REPORTED: usize = 100;

/// The body is not YAML, or JSON cannot represent it.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{0}")]
pub struct YamlError(String);

/// Parses the first document of a body. The duplicates are messages of the server.
pub fn parse(body: &[u8]) -> Result<Parsed, YamlError> {
    let text = String::from_utf8_lossy(body);
    documents(&text)
        .next()
        .unwrap_or_else(|| Ok(Reader::default().into_parsed()))
}

/// Reads the documents of a stream one by one, and ends after the first malformed one.
pub fn documents(text: &str) -> impl Iterator<Item = Result<Parsed, YamlError>> {
    let (ends_line, length) = (text.ends_with(['\n', '\r', ' ']), text.chars().count());
    let mut events = Some(Parser::new_from_str(text));
    std::iter::from_fn(move || {
        let mut reader = Reader::default();
        while let Some(event) = events.as_mut()?.next() {
            let read = event.map_err(|error| Reader::broken(&error));
            match read.and_then(|(event, span)| {
                // A block scalar at the end of a body without a final line break has none either.
                let cut = !ends_line && span.end.index() >= length;
                reader.read(event, span.start.line(), cut)
            }) {
                Ok(false) => {}
                Ok(true) => return Some(Ok(reader.into_parsed())),
                Err(error) => {
                    events = None;
                    return Some(Err(error));
                }
            }
        }
        None
    })
}

/// Returns duplicate keys as one error.
pub fn unmarshal_errors(duplicates: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  "))
}

/// An open collection. A map keeps the key of its next value.
enum Node {
    List(Vec<Value>),
    Map(Map, Option<Key>),
}

/// The key of a value in a map, or the merge key, which is a plain `<<`.
enum Key {
    Name(String),
    Merge,
}

/// The source of a value: the text of a scalar, because keys are strings.
#[derive(Clone, Copy, Default)]
struct Source<'a> {
    text: &'a str,
    plain: bool,
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
    /// Reads one event. `cut` removes the final line break of a block scalar. Returns whether the event ends the document.
    fn read(&mut self, event: Event<'_>, line: usize, cut: bool) -> Result<bool, YamlError> {
        match event {
            Event::DocumentEnd => return Ok(true),
            Event::Scalar(text, style, anchor, tag) => {
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let text = match text.strip_suffix('\n') {
                    Some(shorter) if block && cut => shorter,
                    _ => &text,
                };
                let quoted = style != ScalarStyle::Plain;
                let value = scalar::read(text, quoted, tag.as_deref()).map_err(YamlError)?;
                let plain = !quoted && tag.is_none();
                self.put(value, anchor, line, Source { text, plain })?;
            }
            Event::SequenceStart(anchor, _) => self.open(Node::List(Vec::new()), anchor)?,
            Event::MappingStart(anchor, _) => self.open(Node::Map(Map::new(), None), anchor)?,
            Event::SequenceEnd | Event::MappingEnd => self.close(line)?,
            Event::Alias(anchor) => self.alias(anchor, line)?,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {}
        }
        Ok(false)
    }

    fn into_parsed(self) -> Parsed {
        Parsed {
            value: self.root.unwrap_or_default(),
            duplicates: self.duplicates,
        }
    }

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
            Node::List(items) => Value::Array(items.into()),
            Node::Map(map, _) => Value::Object(map),
        };
        self.put(value, anchor, line, Source::default())
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<(), YamlError> {
        let value = self.anchors.get(&anchor).cloned().unwrap_or_default();
        self.aliased += size(&value);
        if self.aliased > MAX_ALIASED || value.depth() + self.open.len() > MAX_DEPTH {
            return Err(YamlError("yaml: document contains excessive aliasing".to_owned()));
        }
        self.put(value, 0, line, Source::default())
    }

    /// Adds a value to the open collection.
    fn put(&mut self, value: Value, anchor: usize, line: usize, source: Source<'_>) -> Result<(), YamlError> {
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut() {
            None => self.root = self.root.take().or(Some(value)),
            Some((Node::List(items), _)) => items.push(value),
            Some((Node::Map(_, key @ None), _)) => {
                *key = Some(match source {
                    Source {
                        text: "<<",
                        plain: true,
                    } => Key::Merge,
                    Source { text, .. } => Key::Name(scalar::key(&value, text).map_err(YamlError)?),
                });
            }
            Some((Node::Map(map, key), _)) => {
                let key = match key.take() {
                    Some(Key::Merge) if merges(&value) => {
                        merge_into(map, value);
                        return Ok(());
                    }
                    Some(Key::Merge) => "<<".to_owned(),
                    Some(Key::Name(name)) => name,
                    None => String::new(),
                };
                if map.insert(key.clone(), value).is_some() && self.duplicates.len() < MAX_REPORTED {
                    self.duplicates
                        .push(format!("line {line}: key {key:?} already set in map"));
                }
            }
        }
        Ok(())
    }
}

/// Whether a value of the key `<<` can be merged.
fn merges(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(items) => items.iter().all(Value::is_object),
        _ => false,
    }
}

/// Merges a map; keys that the target has win.
fn merge_into(map: &mut Map, merged: Value) {
    let all = match merged {
        Value::Array(items) => items,
        one => List::from([one]),
    };
    for (key, value) in all.iter().filter_map(Value::as_object).flatten() {
        map.get_or_insert_with(key, || value.clone());
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(size).sum::<usize>(),
        _ => 1,
    }
}
