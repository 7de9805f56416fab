//! Field selectors: `metadata.name=web,status.phase!=Running`. Values escape `,`, `=` and `\` with `\`.

use super::SelectorError;

/// A conjunction of comparisons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Parses a field selector. `check` rejects fields that the resource does not support.
    pub fn parse(
        text: &str,
        check: impl Fn(&str) -> Result<(), SelectorError>,
    ) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split_terms(text) {
            if part.is_empty() {
                continue;
            }
            let (field, equal, value) = split_operator(&part).ok_or_else(|| {
                SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            check(field)?;
            terms.push(Term {
                field: field.to_owned(),
                equal,
                value: unescape(value, text)?,
            });
        }
        Ok(Self { terms })
    }

    /// Returns a selector for the object with this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            terms: vec![Term {
                field: "metadata.name".to_owned(),
                equal: true,
                value: name.to_owned(),
            }],
        }
    }

    /// Returns the conjunction of both selectors.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.terms.extend(other.terms);
        self
    }

    /// Reports whether all comparisons hold. `value` returns the value of a field, or an empty string if it is not set.
    #[must_use]
    pub fn matches(&self, value: impl Fn(&str) -> String) -> bool {
        let holds = |term: &Term| (value(&term.field) == term.value) == term.equal;
        self.terms.iter().all(holds)
    }

    /// Returns the name if the selector selects a single name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let term = self
            .terms
            .iter()
            .find(|term| term.field == "metadata.name" && term.equal)?;
        Some(term.value.as_str()).filter(|name| !name.is_empty())
    }

    /// Reports whether the selector has no comparisons.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }
}

fn split_terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = terms.last_mut() {
            last.push(c);
        }
    }
    terms
}

fn split_operator(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find('=')?;
    let (left, right) = (&term[..at], &term[at + 1..]);
    if let Some(field) = left.strip_suffix('!') {
        return Some((field, false, right));
    }
    Some((left, true, right.strip_prefix('=').unwrap_or(right)))
}

fn unescape(value: &str, whole: &str) -> Result<String, SelectorError> {
    let wrong = || {
        SelectorError(format!(
            "invalid field selector {whole:?}: invalid escape or bare separator"
        ))
    };
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                _ => return Err(wrong()),
            },
            ',' | '=' => return Err(wrong()),
            _ => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FieldSelector, SelectorError> {
        FieldSelector::parse(text, |f| match f {
            "metadata.name" | "status.phase" => Ok(()),
            _ => Err(SelectorError(f.to_owned())),
        })
    }

    #[test]
    fn missing_field_compares_as_empty() {
        let value = |field: &str| if field == "metadata.name" { "a,b" } else { "" }.to_owned();
        for (text, expected) in [
            ("", true),
            ("metadata.name=a\\,b", true),
            ("metadata.name==a\\,b", true),
            ("metadata.name!=a\\,b", false),
            ("status.phase=", true),
            ("status.phase!=Running,metadata.name=x", false),
        ] {
            assert_eq!(parse(text).map(|s| s.matches(value)), Ok(expected), "{text}");
        }
    }

    #[test]
    fn unknown_field_and_bad_syntax_are_rejected() {
        for text in [
            "spec.foo=1",
            "metadata.name",
            "metadata.name=a=b",
            "metadata.name=a\\b",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
