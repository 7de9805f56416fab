//! JSON paths of printer columns: `.a.b`, `.a['b']`, `.list[0]`, `[-1]`, `[1:3]`, `[*]`, `.*`, `..name`,
//! `['a','b']` and filters such as `.conditions[?(@.type=="Ready")].status`.
//!
//! This is the Kubernetes dialect (`k8s.io/client-go/util/jsonpath`): `\.` escapes a dot in a key (also inside
//! `['a\.b']`), and comparing values of different types is an error, as is an index out of range. A missing key yields no
//! value and is not an error.

mod parse;

use std::cmp::Ordering;

use crate::json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Union(Vec<Vec<Step>>),
    Filter(Filter),
}

/// `[start:end:step]`. A single index has no end.
#[derive(Debug, Clone, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: End,
    step: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// `[i]`: one element.
    Single,
    /// `[i:]`: all elements from `i`.
    Rest,
    /// `[i:j]`.
    At(i64),
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Operand,
    test: Option<(Operator, Operand)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// An evaluation error: an index out of range, or values that cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Unusable;

impl JsonPath {
    /// Parses a path. Returns `None` if it is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        parse::steps(text).map(Self)
    }

    /// Returns the first value that the path selects, because a column shows one value.
    #[must_use]
    pub fn first<'a>(&'a self, object: &'a Value) -> Option<&'a Value> {
        walk(&self.0, vec![object]).ok()?.into_iter().next()
    }
}

fn walk<'a>(steps: &'a [Step], start: Vec<&'a Value>) -> Result<Vec<&'a Value>, Unusable> {
    steps.iter().try_fold(start, |values, step| match step {
        Step::Field(name) => Ok(values
            .into_iter()
            .filter_map(|value| value.get(name.as_str()))
            .collect()),
        Step::Wildcard => Ok(values.into_iter().flat_map(children).collect()),
        Step::Recursive => {
            let mut found = Vec::new();
            for value in values {
                descend(value, &mut found);
            }
            Ok(found)
        }
        Step::Slice(slice) => {
            let mut found = Vec::new();
            for value in values.into_iter().filter(|value| !value.is_null()) {
                found.extend(slice.of(value.as_array().ok_or(Unusable)?)?);
            }
            Ok(found)
        }
        Step::Union(paths) => {
            let mut found = Vec::new();
            for path in paths {
                found.extend(walk(path, values.clone())?);
            }
            Ok(found)
        }
        Step::Filter(filter) => {
            let mut found = Vec::new();
            for value in values {
                for item in value.as_array().ok_or(Unusable)? {
                    if filter.passes(item)? {
                        found.push(item);
                    }
                }
            }
            Ok(found)
        }
    })
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

/// Collects a value and its descendants that have children, parents before children.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let below = children(value);
    if !below.is_empty() {
        found.push(value);
        for child in below {
            descend(child, found);
        }
    }
}

impl Slice {
    fn of<'a>(&self, items: &'a [Value]) -> Result<Vec<&'a Value>, Unusable> {
        let length = i64::try_from(items.len()).map_err(|_| Unusable)?;
        let from_end = |index: i64| {
            if index < 0 {
                index.saturating_add(length)
            } else {
                index
            }
        };
        let start = from_end(self.start.unwrap_or(0));
        let end = match self.end {
            End::Single => start.saturating_add(1),
            End::Rest => length,
            End::At(index) => from_end(index),
        };
        if start == end {
            return Ok(Vec::new());
        }
        let step = match self.step {
            None => 1,
            Some(step) => usize::try_from(step)
                .ok()
                .filter(|step| *step > 0)
                .ok_or(Unusable)?,
        };
        let (start, end) = (usize::try_from(start), usize::try_from(end));
        let (Ok(start), Ok(end)) = (start, end) else {
            return Err(Unusable);
        };
        Ok(items
            .get(start..end)
            .ok_or(Unusable)?
            .iter()
            .step_by(step)
            .collect())
    }
}

impl Filter {
    fn passes(&self, item: &Value) -> Result<bool, Unusable> {
        let Some((operator, right)) = &self.test else {
            return Ok(!self.left.values(item).unwrap_or_default().is_empty());
        };
        let left = self.left.values(item)?;
        let right = right.values(item)?;
        match (left.as_slice(), right.as_slice()) {
            ([], _) | (_, []) => Ok(false),
            ([left], [right]) => operator.holds(left, right),
            _ => Err(Unusable),
        }
    }
}

impl Operand {
    fn values<'a>(&'a self, item: &'a Value) -> Result<Vec<&'a Value>, Unusable> {
        match self {
            Self::Path(steps) => walk(steps, vec![item]),
            Self::Literal(value) => Ok(vec![value]),
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, Unusable> {
        // Integers and floats cannot be compared, and neither can values of different types.
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) if matches!(self, Self::Equal | Self::NotEqual) => {
                left.cmp(right)
            }
            (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
                match (left.as_i64(), right.as_i64()) {
                    (Some(left), Some(right)) => left.cmp(&right),
                    _ => left.as_f64().partial_cmp(&right.as_f64()).ok_or(Unusable)?,
                }
            }
            _ => return Err(Unusable),
        };
        Ok(match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterEqual => order != Ordering::Less,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::JsonPath;

    #[test]
    fn malformed_path_is_rejected() {
        for text in [
            ".a[",
            ".a[x]",
            ".a[1:2:3:4]",
            ".a[?(@.b]",
            ".a[?(@.b=1)]",
            "....a",
            "a",
            ".a}",
            "'a'",
        ] {
            assert_eq!(JsonPath::parse(text), None, "{text}");
        }
    }
}
