//! `fieldPath` of a rule: the path of the field that an error names.

use crate::apiextensions::structural::node::Node;

/// Returns the path in the form of error messages. Returns `None` if it is not a path of the schema.
pub fn field_path(node: &Node, path: &str) -> Option<String> {
    let mut at = node;
    let mut out = String::new();
    let mut rest = path.trim();
    while !rest.is_empty() {
        let (name, after) = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            (after[..end].to_owned(), &after[end..])
        } else {
            quoted(rest.strip_prefix("['")?)?
        };
        if name.is_empty() {
            return None;
        }
        if at.properties.is_empty() {
            at = at.values()?;
            out.extend(["[", &name, "]"]);
        } else {
            at = at.properties.get(&name)?;
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
        }
        rest = after;
    }
    Some(out)
}

/// Returns the text up to `']`, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((name, text.get(at + 1..)?.strip_prefix(']')?)),
            '\\' => name.push(match chars.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other @ ('\'' | '\\') => other,
                _ => return None,
            }),
            other => name.push(other),
        }
    }
    None
}
