//! The parser of label selectors in query parameters.

use std::collections::BTreeSet;

use super::super::SelectorError;
use super::{Requirement, Test};
use crate::registry::names;

/// Parses the requirements of a label selector, in order.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let tokens = tokens(text)?;
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
    };
    let mut requirements = Vec::new();
    while parser.peek().is_some() {
        requirements.push(parser.requirement()?);
        match parser.next() {
            Some(Token::Comma) if parser.peek().is_none() => {
                return Err(unexpected(None, "identifier after ','"));
            }
            None | Some(Token::Comma) => {}
            other => return Err(unexpected(other, "',' or 'end of string'")),
        }
    }
    Ok(requirements)
}

fn unparsable(why: &str) -> SelectorError {
    SelectorError(format!("unable to parse requirement: {why}"))
}

fn unexpected(found: Option<&Token>, expected: &str) -> SelectorError {
    let found = found.map_or("", Token::text);
    unparsable(&format!("found '{found}', expected: {expected}"))
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
            let (key, test) = (self.key()?, Test::Missing);
            return Ok(Requirement { key, test });
        }
        let key = self.key()?;
        let test = match self.peek() {
            None | Some(Token::Comma) => Test::Exists,
            Some(Token::Equal) => Test::In(BTreeSet::from([self.operand()?])),
            Some(Token::NotEqual) => Test::NotIn(BTreeSet::from([self.operand()?])),
            Some(Token::Greater) => Test::Greater(self.number()?),
            Some(Token::Less) => Test::Less(self.number()?),
            Some(Token::Word(word)) if word == "in" => Test::In(self.set()?),
            Some(Token::Word(word)) if word == "notin" => Test::NotIn(self.set()?),
            other => return Err(unexpected(other, "in, notin, =, ==, !=, gt, lt")),
        };
        Ok(Requirement { key, test })
    }

    fn key(&mut self) -> Result<String, SelectorError> {
        match self.next() {
            Some(Token::Word(word)) => valid(word, names::qualified),
            other => Err(unexpected(other, "!, identifier, or 'end of string'")),
        }
    }

    /// Parses an operator and its value. A missing value is the empty string.
    fn operand(&mut self) -> Result<String, SelectorError> {
        self.next();
        match self.peek() {
            Some(Token::Word(word)) => {
                self.next();
                valid(word, names::label_value)
            }
            None | Some(Token::Comma) => Ok(String::new()),
            other => Err(unexpected(other, "identifier")),
        }
    }

    fn number(&mut self) -> Result<i64, SelectorError> {
        let operand = self.operand()?;
        let why = || {
            unparsable(&format!(
                "{operand:?}: the value of 'Gt' and 'Lt' must be an integer"
            ))
        };
        operand.parse().map_err(|_| why())
    }

    /// Parses an operator and its set of values. A missing value is the empty string.
    fn set(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        self.next();
        match self.next() {
            Some(Token::Open) => {}
            other => return Err(unexpected(other, "'('")),
        }
        let mut set = BTreeSet::new();
        loop {
            let value = match self.peek() {
                Some(Token::Word(word)) => {
                    self.next();
                    valid(word, names::label_value)?
                }
                _ => String::new(),
            };
            set.insert(value);
            match self.next() {
                Some(Token::Comma) => {}
                Some(Token::Close) => return Ok(set),
                other => return Err(unexpected(other, "',' or ')'")),
            }
        }
    }
}

fn valid(word: &str, format: fn(&str) -> Vec<String>) -> Result<String, SelectorError> {
    match format(word).as_slice() {
        [] => Ok(word.to_owned()),
        [why, ..] => Err(unparsable(&format!("Invalid value: {word:?}: {why}"))),
    }
}
