//! JSON patch (RFC 6902), as the API server implements it.
//!
//! The server deviates from the RFC: `replace` of a missing member adds it, `test` of a missing member against null
//! succeeds, `copy` of a missing member yields null, negative indexes count from the end, and only `replace` and `test`
//! accept the empty path. `add` does not create missing parents, and `remove` of a missing member is an error.

use std::io;

use super::{MAX_OPERATIONS, PatchError, json_type};
use crate::json::{List, Map, Value};
use crate::schema::ParseError;

/// The maximum number of bytes that all `copy` operations of a patch may add. Without it, each `copy` could double a value.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// The maximum nesting depth of a value, equal to the limit of the parser. Without it, `copy` and `move` could build values
/// that overflow the stack of recursive functions.
const MAX_DEPTH: usize = 127;

/// One operation. Omitted members are `None`; an omitted `value` is null.
struct Operation {
    op: Option<String>,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

/// The result of an operation. The error is the reason only: all failures have the same status code.
type Applied<T = ()> = Result<T, String>;

pub(super) fn apply(current: &Value, patch: Result<Value, &ParseError>) -> Result<Value, PatchError> {
    let operations = decode(patch)
        .map_err(|reason| PatchError::NotDecodable(format!("error decoding patch: {reason}")))?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    let mut patched = current.clone();
    let mut copied = 0;
    for operation in operations {
        operation
            .apply(&mut patched, &mut copied)
            .map_err(PatchError::NotApplicable)?;
    }
    Ok(patched)
}

/// Returns the paths of unknown members of operations, at most one hundred.
pub(super) fn unknown_members(patch: &Value) -> Vec<String> {
    let operations = patch.as_array().into_iter().flatten().enumerate();
    operations
        .flat_map(|(n, operation)| {
            let members = operation.as_object().into_iter().flat_map(Map::keys);
            members
                .filter(|name| !matches!(name.as_str(), "op" | "path" | "from" | "value"))
                .map(move |name| format!("[{n}].{name}"))
        })
        .take(100)
        .collect()
}

fn decode(patch: Result<Value, &ParseError>) -> Result<Vec<Operation>, String> {
    match patch.map_err(ToString::to_string)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.into_iter().map(Operation::decode).collect(),
        other => Err(format!(
            "expected an array of operations, found {}",
            json_type(&other)
        )),
    }
}

impl Operation {
    fn decode(value: Value) -> Result<Self, String> {
        let mut members = match value {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            other => {
                return Err(format!("expected an operation, found {}", json_type(&other)));
            }
        };
        let mut text = |name: &str| match members.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.into())),
            Some(other) => Err(format!("{name}: expected string, found {}", json_type(&other))),
        };
        Ok(Self {
            op: text("op")?,
            path: text("path")?,
            from: text("from")?,
            value: members.remove("value").unwrap_or_default(),
        })
    }

    fn apply(self, doc: &mut Value, copied: &mut usize) -> Applied {
        let op = self.op.as_deref().unwrap_or("unknown");
        let need = |what: &str, member: Option<String>| {
            member.ok_or_else(|| format!("{op} operation failed to decode {what}: missing value"))
        };
        match op {
            "add" => {
                let path = need("path", self.path)?;
                add(doc, &path, self.value)
                    .map_err(|reason| format!("error in add for path: '{path}': {reason}"))
            }
            "remove" => {
                let path = need("path", self.path)?;
                remove(doc, &path)
                    .map(drop)
                    .map_err(|reason| format!("error in remove for path: '{path}': {reason}"))
            }
            "replace" => replace(doc, &need("path", self.path)?, self.value),
            "test" => test(doc, &need("path", self.path)?, &self.value),
            "move" => {
                let from = need("from", self.from)?;
                let path = need("path", self.path)?;
                let value = remove(doc, &from)
                    .map_err(|reason| format!("error in move for path: '{from}': {reason}"))?;
                add(doc, &path, value).map_err(|reason| format!("error in move for path: '{path}': {reason}"))
            }
            "copy" => {
                let from = need("from", self.from)?;
                let path = need("path", self.path)?;
                let value = get(doc, &from)
                    .map_err(|reason| format!("error in copy for from: '{from}': {reason}"))?;
                let value = value.cloned().unwrap_or_default();
                *copied += size(&value);
                if *copied > MAX_COPIED {
                    return Err(format!(
                        "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED}"
                    ));
                }
                add(doc, &path, value)
                    .map_err(|reason| format!("error while adding value during copy: {reason}"))
            }
            other => Err(format!("Unexpected kind: {other}")),
        }
    }
}

fn add(doc: &mut Value, path: &str, value: Value) -> Applied {
    let (parents, last) = split(path)?;
    if !fits(&value, MAX_DEPTH.saturating_sub(parents.len() + 1)) {
        return Err("exceeded max depth".to_owned());
    }
    match container(doc, &parents, path)? {
        Container::Object(map) => {
            map.insert(last, value);
        }
        Container::List(items) if last == "-" => items.push(value),
        Container::List(items) => {
            let at = index(&last, items.len() + 1)?;
            items.insert(at, value);
        }
    }
    Ok(())
}

fn remove(doc: &mut Value, path: &str) -> Applied<Value> {
    let (parents, last) = split(path)?;
    match container(doc, &parents, path)? {
        Container::Object(map) => map
            .remove(&last)
            .ok_or_else(|| format!("Unable to remove nonexistent key: {last}: missing value")),
        Container::List(items) => {
            let at = index(&last, items.len())?;
            Ok(items.remove(at))
        }
    }
}

fn replace(doc: &mut Value, path: &str, value: Value) -> Applied {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".to_owned());
        }
        *doc = value;
        return Ok(());
    }
    let wrong = |reason| format!("replace operation does not apply: '{path}': {reason}");
    let (parents, last) = split(path).map_err(wrong)?;
    if let Container::List(items) = container(doc, &parents, path).map_err(wrong)? {
        let at = index(&last, items.len()).map_err(wrong)?;
        items.remove(at);
    }
    add(doc, path, value).map_err(wrong)
}

fn test(doc: &mut Value, path: &str, expected: &Value) -> Applied {
    let found = if path.is_empty() {
        Some(&*doc)
    } else {
        get(doc, path).map_err(|reason| format!("error in test for path: '{path}': {reason}"))?
    };
    if found.unwrap_or(&Value::Null) == expected {
        Ok(())
    } else {
        Err(format!("testing value {path} failed: test failed"))
    }
}

/// Returns a value, or `None` for a missing member of an object. Any other missing value is an error.
fn get<'a>(doc: &'a mut Value, path: &str) -> Applied<Option<&'a Value>> {
    let (parents, last) = split(path)?;
    match container(doc, &parents, path)? {
        Container::Object(map) => Ok(map.get(&last)),
        Container::List(items) => {
            let at = index(&last, items.len())?;
            Ok(items.get(at))
        }
    }
}

/// A value that has members.
enum Container<'a> {
    Object(&'a mut Map),
    List(&'a mut List),
}

/// Splits a pointer into its parents and its last token, unescaped.
fn split(path: &str) -> Applied<(Vec<String>, String)> {
    let mut tokens = path
        .split('/')
        .skip(1)
        .map(|token| token.replace("~1", "/").replace("~0", "~"))
        .collect::<Vec<_>>();
    match tokens.pop() {
        Some(last) => Ok((tokens, last)),
        None => Err(missing(path)),
    }
}

fn container<'a>(doc: &'a mut Value, parents: &[String], path: &str) -> Applied<Container<'a>> {
    let mut at = doc;
    for token in parents {
        let next = match at {
            Value::Object(map) => map.get_mut(token),
            Value::Array(items) => index(token, items.len())
                .ok()
                .and_then(|at| items.make_mut().get_mut(at)),
            _ => None,
        };
        at = next.ok_or_else(|| missing(path))?;
    }
    match at {
        Value::Object(map) => Ok(Container::Object(map)),
        Value::Array(items) => Ok(Container::List(items)),
        _ => Err(missing(path)),
    }
}

fn missing(path: &str) -> String {
    format!("doc is missing path: {path:?}: missing value")
}

/// Parses an index into `len` items. A negative index counts from the end.
fn index(token: &str, len: usize) -> Applied<usize> {
    let number: isize = token
        .parse()
        .map_err(|_| format!("value was not a proper array index: '{token}'"))?;
    let at = if number < 0 {
        len.checked_sub(number.unsigned_abs())
    } else {
        Some(number.unsigned_abs()).filter(|at| *at < len)
    };
    at.ok_or_else(|| format!("Unable to access invalid index: {number}: invalid index referenced"))
}

/// Reports whether a value is nested at most `depth` levels deep.
fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => depth > 0 && items.iter().all(|item| fits(item, depth - 1)),
        Value::Object(map) => depth > 0 && map.values().all(|item| fits(item, depth - 1)),
        _ => true,
    }
}

/// Returns the length of a value encoded as JSON.
fn size(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Neither encoding nor counting can fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
