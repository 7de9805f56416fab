//! The parser of JSON paths.

use crate::json::Value;
use crate::printers::jsonpath::{End, Filter, Operand, Operator, Slice, Step};

/// Characters that end a field name unless escaped.
const TERMINATORS: &[char] = &[' ', '\t', '\r', '\n', '.', ',', '[', ']', '$', '@', '{', '}'];

/// Parses the steps of a path. Returns `None` if the path is malformed.
pub fn steps(text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(filter) = rest.strip_prefix("[?(") {
            let end = filter_end(filter)?;
            steps.push(Step::Filter(filter_of(filter.get(..end)?)?));
            rest = filter.get(end..)?.strip_prefix(")]")?;
        } else if let Some(below) = rest.strip_prefix("..") {
            if steps.last() == Some(&Step::Recursive) {
                return None;
            }
            steps.push(Step::Recursive);
            rest = below;
            if rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
                rest = field(rest, &mut steps);
            }
        } else if let Some(name) = rest.strip_prefix('.') {
            rest = field(name, &mut steps);
        } else if let Some(inside) = rest.strip_prefix('[') {
            let (inside, after) = inside.split_once(']')?;
            subscript(inside, &mut steps)?;
            rest = after;
        } else {
            // Every path starts at the current object, so `@` and `$` are no-ops.
            rest = rest.strip_prefix([' ', '@', '$'])?;
        }
    }
    Some(steps)
}

/// Parses a field name and returns the remaining text.
fn field<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            c if TERMINATORS.contains(&c) => {
                end = at;
                break;
            }
            c => name.push(c),
        }
    }
    steps.push(if name == "*" {
        Step::Wildcard
    } else {
        Step::Field(name)
    });
    text.get(end..).unwrap_or_default()
}

/// Parses the text between brackets.
fn subscript(text: &str, out: &mut Vec<Step>) -> Option<()> {
    if text.contains(',') {
        let paths = text
            .split(',')
            .map(|part| steps(&format!("[{}]", part.trim_matches(' '))));
        out.push(Step::Union(paths.collect::<Option<_>>()?));
    } else if let Some(key) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        // A dot inside quotes separates two keys: `['a.b']` is `.a.b`.
        out.extend(steps(&format!(".{key}"))?);
    } else {
        out.push(Step::Slice(slice(if text == "*" { ":" } else { text })?));
    }
    Some(())
}

fn slice(text: &str) -> Option<Slice> {
    let number = |part: Option<&str>| match part {
        None | Some("") => Some(None),
        Some(digits) => digits.parse::<i64>().ok().map(Some),
    };
    let mut parts = text.split(':');
    let start = number(parts.next())?;
    let end = parts.next();
    let slice = Slice {
        start,
        end: match (end, number(end)?) {
            (None, _) => End::Single,
            (Some(_), None) => End::Rest,
            (Some(_), Some(index)) => End::At(index),
        },
        step: number(parts.next())?,
    };
    parts.next().is_none().then_some(slice)
}

/// Returns the index of the closing parenthesis of a filter, outside of quotes.
fn filter_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, ')') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open && !escaped => quote = None,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

fn filter_of(text: &str) -> Option<Filter> {
    let is_operator = |c: char| "!<>=".contains(c);
    let Some(at) = text.find(is_operator) else {
        return Some(Filter {
            left: operand(text)?,
            test: None,
        });
    };
    let (left, rest) = text.split_at_checked(at)?;
    let right = rest.trim_start_matches(is_operator);
    let operator = match rest.strip_suffix(right)? {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterEqual,
        _ => return None,
    };
    Some(Filter {
        left: operand(left)?,
        test: Some((operator, operand(right)?)),
    })
}

fn operand(text: &str) -> Option<Operand> {
    let text = text.trim_matches(' ');
    let literal = match text.chars().next()? {
        quote @ ('"' | '\'') => {
            let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
            Value::from(inside.replace(&format!("\\{quote}"), &quote.to_string()))
        }
        '+' | '-' | '0'..='9' => match text.parse::<i64>() {
            Ok(whole) => Value::from(whole),
            Err(_) => Value::from(text.parse::<f64>().ok()?),
        },
        _ => match text {
            "true" => Value::from(true),
            "false" => Value::from(false),
            path => return steps(path).map(Operand::Path),
        },
    };
    Some(Operand::Literal(literal))
}
