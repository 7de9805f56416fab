//! The parser of label selectors in query parameters.

use std::collections::BTreeSet;

use super::super::SelectorError;
use super::{Requirement, Test};

/// Parses the requirements of a label selector, in order.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorError> {
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
    Ok(requirements)
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
        // Only a word can start a requirement.
        if let Some(other) = self.peek().filter(|token| !matches!(token, Token::Word(_))) {
            let why = format!(
                "found '{}', expected: !, identifier, or 'end of string'",
                other.text()
            );
            return Err(SelectorError(why));
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

    /// Parses an operator and its value. A missing value is the empty string.
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
                            // A trailing comma adds an empty value.
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

/// Reports whether the text has at most 63 characters and is alphanumeric at both ends.
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
