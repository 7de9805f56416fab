//! Changes of JSON values: other types, missing and duplicate members, deep nesting, long lists.

use serde_json::{Value, json};
use steersman_harness::draw::Draw;

use super::bytes;
use super::tokens::{self, TOKENS};

/// Depths around the limit of parsers, and beyond any stack.
const DEPTHS: [usize; 6] = [100, 126, 127, 128, 500, 100_000];
/// Marks a text that is replaced in the encoded JSON, because a value cannot hold its replacement.
const MARK: &str = "\u{1}";
const ENCODED_MARK: &str = "\\u0001";

/// Changes a value, and encodes it. The result may be malformed.
pub fn json(draw: &mut Draw, value: &Value) -> Vec<u8> {
    let (mut value, mut raw) = (value.clone(), Vec::new());
    for _ in 0..=draw.below(3) {
        edit(draw, &mut value, &mut raw);
    }
    let mut text = value.to_string();
    for (number, raw) in raw.iter().enumerate() {
        // Once: later changes may have copied the mark many times.
        text = text.replacen(&format!("\"{ENCODED_MARK}{number}\""), raw, 1);
    }
    let text = text.replace(ENCODED_MARK, "");
    if draw.once_in(10) {
        return bytes(draw, text.as_bytes());
    }
    text.into_bytes()
}

fn edit(draw: &mut Draw, value: &mut Value, raw: &mut Vec<String>) {
    let mut at = draw.below(count(value));
    let other = nth(value, &mut at).map(|it| it.clone()).unwrap_or_default();
    let mut at = draw.below(count(value));
    let Some(node) = nth(value, &mut at) else { return };
    match node {
        Value::Object(map) if !map.is_empty() && !draw.once_in(4) => {
            let name = map.keys().nth(draw.below(map.len())).cloned().unwrap_or_default();
            match draw.below(5) {
                0 | 1 => drop(map.remove(&name)),
                2 => drop(map.insert(format!("{MARK}{name}"), other)),
                3 => drop(map.insert(draw.one(&TOKENS.names).clone(), other)),
                _ => {
                    let moved = map.remove(&name).unwrap_or_default();
                    map.insert(tokens::text(draw), moved);
                }
            }
        }
        Value::Array(items) if !items.is_empty() && !draw.once_in(4) => {
            let at = draw.below(items.len());
            match draw.below(4) {
                0 => drop(items.remove(at)),
                1 => items.insert(at, items[at].clone()),
                2 => items.insert(at, other),
                _ => items.swap(at, 0),
            }
        }
        Value::String(text) if draw.once_in(2) => *text = super::text(draw, text),
        Value::Number(number) if draw.once_in(2) => {
            let number = number.as_i64().unwrap_or_default();
            *node = json!(*draw.one(&[
                number.wrapping_add(1),
                number.wrapping_neg(),
                number.wrapping_mul(1000)
            ]));
        }
        node => replace(draw, node, other, raw),
    }
}

/// Replaces a value by one of another type or size.
fn replace(draw: &mut Draw, node: &mut Value, other: Value, raw: &mut Vec<String>) {
    *node = match draw.below(24) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(""),
        3 => json!([]),
        4 => json!({}),
        5..9 => other,
        9 => Value::String(node.to_string()),
        10 => json!([node]),
        11 => json!({ "a": node }),
        12 if node.to_string().len() < 20 => Value::Array(vec![node.take(); 10_000]),
        13..16 => {
            let depth = *draw.one(&DEPTHS);
            let (open, close) = *draw.one(&[("[", "]"), (r#"{"a":"#, "}"), (r#"{"not":"#, "}")]);
            encoded(format!("{}0{}", open.repeat(depth), close.repeat(depth)), raw)
        }
        16..19 => encoded(draw.one(&TOKENS.numbers).clone(), raw),
        19 => encoded(draw.one(&TOKENS.escaped).clone(), raw),
        _ => Value::String(tokens::text(draw)),
    };
}

/// Returns a value that stands for encoded JSON.
fn encoded(text: String, raw: &mut Vec<String>) -> Value {
    raw.push(text);
    Value::String(format!("{MARK}{}", raw.len() - 1))
}

/// Returns the number of values in a value, with itself.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// Returns the value with this number in depth-first order.
fn nth<'a>(value: &'a mut Value, number: &mut usize) -> Option<&'a mut Value> {
    if *number == 0 {
        return Some(value);
    }
    *number -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, number)),
        Value::Object(map) => map.values_mut().find_map(|item| nth(item, number)),
        _ => None,
    }
}
