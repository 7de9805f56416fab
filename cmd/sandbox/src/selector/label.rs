//! Label selectors, in the query's grammar (`app=web,tier in (a,b),!old`) and as a `LabelSelector` object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::SelectorError;

/// A conjunction of requirements. The default selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Reads the grammar of the `labelSelector` parameter.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let tokens = tokens(text)?;
        let mut parser = Parser {
            tokens: &tokens,
            at: 0,
        };
        let mut requirements = Vec::new();
        if parser.peek().is_some() {
            loop {
                requirements.push(parser.requirement()?);
                match parser.next() {
                    None => break,
                    Some(Token::Comma) if parser.peek().is_some() => {}
                    Some(Token::Comma) => {
                        return Err(SelectorError(
                            "found '', expected: identifier after ','".to_owned(),
                        ));
                    }
                    Some(other) => {
                        let why = format!("found '{}', expected: ',' or 'end of string'", other.text());
                        return Err(SelectorError(why));
                    }
                }
            }
        }
        Ok(Self {
            requirements,
            nothing: false,
        })
    }

    /// Whether labels fulfil all requirements.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.nothing
            && self.requirements.iter().all(|r| {
                let value = labels.get(&r.key);
                match &r.test {
                    Test::Exists => value.is_some(),
                    Test::Missing => value.is_none(),
                    Test::In(set) => value.is_some_and(|v| set.contains(v)),
                    Test::NotIn(set) => value.is_none_or(|v| !set.contains(v)),
                    Test::Greater(than) => value
                        .and_then(|v| v.parse::<i64>().ok())
                        .is_some_and(|v| v > *than),
                    Test::Less(than) => value
                        .and_then(|v| v.parse::<i64>().ok())
                        .is_some_and(|v| v < *than),
                }
            })
    }

    /// Whether there is no requirement.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }
}

/// A `LabelSelector` object (`matchLabels`, `matchExpressions`). A missing one selects nothing, an empty one everything.
#[must_use]
pub fn from_json(selector: Option<&Value>) -> LabelSelector {
    let Some(selector) = selector.filter(|s| !s.is_null()) else {
        return LabelSelector {
            requirements: Vec::new(),
            nothing: true,
        };
    };
    let mut requirements = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let set = BTreeSet::from([value.as_str().unwrap_or_default().to_owned()]);
        requirements.push(Requirement {
            key: key.clone(),
            test: Test::In(set),
        });
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let values = || {
            let values = expression["values"].as_array().into_iter().flatten();
            values.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let test = match expression["operator"].as_str() {
            Some("In") => Test::In(values()),
            Some("NotIn") => Test::NotIn(values()),
            Some("Exists") => Test::Exists,
            Some("DoesNotExist") => Test::Missing,
            // Validation refuses other operators; should one get here, it must not widen the selection.
            _ => {
                return LabelSelector {
                    requirements: Vec::new(),
                    nothing: true,
                };
            }
        };
        requirements.push(Requirement {
            key: expression["key"].as_str().unwrap_or_default().to_owned(),
            test,
        });
    }
    LabelSelector {
        requirements,
        nothing: false,
    }
}

fn unparsable(why: &str) -> SelectorError {
    SelectorError(format!("unable to parse requirement: {why}"))
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Comma,
    Open,
    Close,
    Not,
    Equal,
    NotEqual,
    Greater,
    Less,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Comma => ",",
            Self::Open => "(",
            Self::Close => ")",
            Self::Not => "!",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::Less => "<",
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, SelectorError> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(&c) = chars.peek() {
        if c.is_whitespace() {
            chars.next();
            continue;
        }
        if !",()!=<>".contains(c) {
            let mut word = String::new();
            while let Some(&c) = chars
                .peek()
                .filter(|c| !c.is_whitespace() && !",()!=<>".contains(**c))
            {
                word.push(c);
                chars.next();
            }
            out.push(Token::Word(word));
            continue;
        }
        chars.next();
        let followed_by_equal = chars.peek() == Some(&'=');
        out.push(match c {
            ',' => Token::Comma,
            '(' => Token::Open,
            ')' => Token::Close,
            '>' => Token::Greater,
            '<' => Token::Less,
            '!' if followed_by_equal => {
                chars.next();
                Token::NotEqual
            }
            '!' => Token::Not,
            _ => {
                if followed_by_equal {
                    chars.next();
                }
                Token::Equal
            }
        });
    }
    if text.len() > 64 * 1024 {
        Err(unparsable("the selector is too long"))
    } else {
        Ok(out)
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<&'a Token> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.peek() == Some(&Token::Not) {
            self.next();
            let key = self.key("identifier")?;
            return Ok(Requirement {
                key,
                test: Test::Missing,
            });
        }
        let key = self.key("!, identifier, or 'end of string'")?;
        let test = match self.peek() {
            None | Some(Token::Comma) => Test::Exists,
            Some(Token::Equal) => Test::In(BTreeSet::from([self.operand(&key)?])),
            Some(Token::NotEqual) => Test::NotIn(BTreeSet::from([self.operand(&key)?])),
            Some(Token::Greater) => Test::Greater(self.number(&key)?),
            Some(Token::Less) => Test::Less(self.number(&key)?),
            Some(Token::Word(word)) if word == "in" => Test::In(self.set(&key)?),
            Some(Token::Word(word)) if word == "notin" => Test::NotIn(self.set(&key)?),
            Some(other) => {
                let why = format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text());
                return Err(unparsable(&why));
            }
        };
        Ok(Requirement { key, test })
    }

    fn key(&mut self, expected: &str) -> Result<String, SelectorError> {
        match self.next() {
            Some(Token::Word(word)) if is_qualified_name(word) => Ok(word.clone()),
            Some(Token::Word(word)) => Err(unparsable(&format!(
                "<nil>: Invalid value: {word:?}: name part must consist of alphanumeric characters, '-', '_' or '.', \
                 and must start and end with an alphanumeric character"
            ))),
            other => {
                let found = other.map_or("", Token::text);
                Err(unparsable(&format!("found '{found}', expected: {expected}")))
            }
        }
    }

    /// The operator, and the value behind it, which may be missing: that is the empty one.
    fn operand(&mut self, key: &str) -> Result<String, SelectorError> {
        self.next();
        match self.peek() {
            Some(Token::Word(word)) => {
                self.next();
                value(key, word)
            }
            None | Some(Token::Comma) => Ok(String::new()),
            Some(other) => Err(unparsable(&format!(
                "found '{}', expected: identifier",
                other.text()
            ))),
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, SelectorError> {
        let operand = self.operand(key)?;
        operand.parse().map_err(|_| {
            unparsable(&format!(
                "values[0]: Invalid value: {operand:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ))
        })
    }

    fn set(&mut self, key: &str) -> Result<BTreeSet<String>, SelectorError> {
        self.next();
        let open = self.next();
        if open != Some(&Token::Open) {
            return Err(unparsable(&format!(
                "found '{}' expected: '('",
                open.map_or("", Token::text)
            )));
        }
        let mut set = BTreeSet::new();
        loop {
            match self.next() {
                Some(Token::Word(word)) => {
                    set.insert(value(key, word)?);
                    match self.next() {
                        Some(Token::Comma) => {
                            // A trailing comma stands for an empty value.
                            if self.peek() == Some(&Token::Close) {
                                set.insert(String::new());
                            }
                        }
                        Some(Token::Close) => return Ok(set),
                        other => {
                            let found = other.map_or("", Token::text);
                            return Err(unparsable(&format!("found '{found}', expected: ',' or ')'")));
                        }
                    }
                }
                Some(Token::Comma) => {
                    set.insert(String::new());
                }
                Some(Token::Close) => {
                    set.insert(String::new());
                    return Ok(set);
                }
                other => {
                    let found = other.map_or("", Token::text);
                    return Err(unparsable(&format!(
                        "found '{found}', expected: ',', ')' or identifier"
                    )));
                }
            }
        }
    }
}

fn value(key: &str, word: &str) -> Result<String, SelectorError> {
    if is_name(word) {
        Ok(word.to_owned())
    } else {
        Err(unparsable(&format!(
            "values[0][{key}]: Invalid value: {word:?}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
        )))
    }
}

/// Up to 63 characters, alphanumeric at both ends.
fn is_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63 && ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(|b| inner(*b))
}

fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        None => is_name(key),
        Some((prefix, name)) => {
            let label = |l: &str| {
                is_name(l)
                    && l.bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            };
            is_name(name) && prefix.len() <= 253 && prefix.split('.').all(label)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn grammar() {
        let web = labels(&[("app", "web"), ("x.io/tier", "a"), ("n", "5"), ("empty", "")]);
        for (text, expected) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!gone", true),
            ("app=web", true),
            ("app==web,x.io/tier=a", true),
            ("app=web,x.io/tier=b", false),
            ("app!=web", false),
            ("gone!=web", true),
            ("app in (db, web)", true),
            ("app notin (db,web)", false),
            ("gone notin (db)", true),
            ("gone in (db)", false),
            ("n>4", true),
            ("n > 5", false),
            ("n<6", true),
            ("empty=", true),
            ("empty=,app", true),
            ("empty in (,x)", true),
        ] {
            assert_eq!(
                LabelSelector::parse(text).map(|s| s.matches(&web)),
                Ok(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn bad_grammar() {
        for text in [
            "=", "a=b=c", "a in", "a in (", "a in (b", "a,,b", ",", "a,", "-a", "a b", "a=-", "a>x", "(a)",
            "x/y/z",
        ] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn objects() {
        let web = labels(&[("app", "web")]);
        assert!(!from_json(None).matches(&web), "no selector selects nothing");
        assert!(
            from_json(Some(&json!({}))).matches(&web),
            "an empty one everything"
        );
        let in_set = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]});
        assert!(from_json(Some(&in_set)).matches(&web));
        let odd = json!({"matchExpressions": [{"key": "app", "operator": "Near"}]});
        assert!(
            !from_json(Some(&odd)).matches(&web),
            "what is not understood selects nothing"
        );
    }
}
