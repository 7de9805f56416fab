//! Validation rules (`x-kubernetes-validations`): CEL expressions over a value and its old value.
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/cel`. A rule validates every value of its schema. A transition rule,
//! which uses `oldSelf`, validates only values that existed before, unless `optionalOldSelf` is set. [`check`] infers
//! the types of an expression when the CRD is written. Evaluation has a budget. Unlike a real server, the sandbox
//! does not estimate the cost of a rule before it is evaluated.
//!
//! `kube-cel` provides the parser and the library of functions. Its validator is not used: it has no budget, no types, no
//! optional syntax, compares list items by index, and rejects unchanged values.

pub(crate) mod check;
pub(crate) mod condition;
pub(crate) mod declarations;
pub(crate) mod eval;
pub(crate) mod functions;
pub(crate) mod library;
pub(crate) mod operate;
pub(crate) mod path;
pub(crate) mod types;
pub(crate) mod value;

#[cfg(test)]
pub(crate) mod tests;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::parser::Parser;

use crate::apiextensions::structural::lists;
use crate::apiextensions::structural::node::{Node, Type};
use crate::apiextensions::structural::path::Path;
use crate::field::{FieldError, Report, Wrong};
use crate::json::Value;
use eval::{Budget, EvalError, Scope};
use value::Val;

pub(crate) use check::check;
pub use condition::{Condition, MatchResult, check_condition, conditions};
pub(crate) use path::field_path;

/// The cost budget of one evaluation.
const CALL_LIMIT: u64 = 1_000_000;
/// The cost budget of all rules of one object.
const OBJECT_LIMIT: u64 = 10_000_000;
/// The maximum length of an expression.
const MAX_LENGTH: usize = 20_000;
/// The syntax errors that a message shows, each with its line: a long text can have one per character.
const SYNTAX_ERRORS_MAX: usize = 20;
/// The maximum number of brackets.
const BRACKETS: usize = 100;
/// The maximum number of conditional operators.
const CONDITIONS: usize = 30;
/// The maximum number of operators.
const OPERATORS: usize = 200;
const PARSER_STACK: usize = 128 << 20;
/// The maximum length of a message from `messageExpression`.
const MAX_MESSAGE: usize = 5 * 1024;

#[derive(Debug)]
pub struct Rule {
    expression: IdedExpr,
    text: String,
    message: String,
    message_expression: Option<IdedExpr>,
    reason: Option<String>,
    field_path: String,
    uses_old: bool,
    optional_old: bool,
}

impl Rule {
    /// Compiles a rule of the schema `node`. Returns `None` if it does not parse, which [`check`] reports.
    pub fn compile(rule: &Value, node: &Node) -> Option<Self> {
        let text = |key: &str| rule[key].as_str().unwrap_or_default();
        let expression = parse(text("rule")).ok()?;
        let message_expression = match text("messageExpression") {
            "" => None,
            expression => Some(parse(expression).ok()?),
        };
        Some(Self {
            uses_old: check::mentions(&expression, "oldSelf"),
            expression,
            text: text("rule").trim().to_owned(),
            message: text("message").trim().to_owned(),
            message_expression,
            reason: rule["reason"].as_str().map(str::to_owned),
            field_path: field_path(node, text("fieldPath")).unwrap_or_default(),
            optional_old: rule["optionalOldSelf"] == true,
        })
    }

    /// Returns the name of the rule in messages.
    fn name(&self) -> &str {
        if self.message.is_empty() {
            &self.text
        } else {
            &self.message
        }
    }
}

/// Parses an expression. The error names the position.
///
/// The parser uses much stack per bracket, and panics on some texts. Deep nesting is rejected first, and the rest is parsed
/// on a thread with its own stack. The call blocks until the thread ends, and the result depends only on the text.
fn parse(text: &str) -> Result<IdedExpr, String> {
    let refused = |why: &str| format!("ERROR: <input>:1:1: {why}");
    let count = |those: &str| text.chars().filter(|c| those.contains(*c)).count();
    if text.len() > MAX_LENGTH
        || count("([{") > BRACKETS
        || count("?") > CONDITIONS
        || operators(text) > OPERATORS
    {
        return Err(refused("expression is too long, or nested too deep"));
    }
    let text = text.to_owned();
    let reader = std::thread::Builder::new()
        .stack_size(PARSER_STACK)
        .spawn(move || {
            let parser = Parser::new().enable_optional_syntax(true);
            parser.parse(&text).map_err(|mut all| {
                all.errors.truncate(SYNTAX_ERRORS_MAX);
                all.to_string()
            })
        });
    match reader.map(std::thread::JoinHandle::join) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) | Err(_) => Err(refused("Syntax error: expression cannot be read")),
    }
}

/// Returns an upper bound of the number of operators; those in strings count too.
fn operators(text: &str) -> usize {
    let is_one = |c: char| "+-*/%<>=!&|.:".contains(c);
    let mut before = false;
    let mut count = 0;
    for c in text.chars() {
        let now = is_one(c);
        // `!!` and `--` are two operators, `&&` is one.
        count += usize::from(now && (!before || "!-".contains(c)));
        before = now;
    }
    count
}

/// Validates an object. On an update, ratcheting ignores errors of unchanged values.
pub fn validate(root: &Node, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    run(root, new, old, &Path::Root)
}

/// Validates a default value, both as a new and as an unchanged value.
pub fn validate_at(node: &Node, default: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for old in [Some(default), None] {
        if errors.is_empty() && node.has_rules {
            errors = run(node, default, old, path);
        }
    }
    errors
}

fn run(node: &Node, value: &Value, old: Option<&Value>, path: &Path<'_>) -> Vec<FieldError> {
    let outer = None;
    let mut walk = Walk {
        left: OBJECT_LIMIT,
        errors: Vec::new(),
    };
    // The error that exceeded the budget has reported it.
    let _ = walk.place(node, &Place { value, old, outer }, path);
    walk.errors
}

/// A value, its old value, and its parent.
struct Place<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
    outer: Option<&'a Place<'a>>,
}

impl Place<'_> {
    /// Whether the value, or its nearest correlatable parent, is unchanged.
    fn is_unchanged(&self) -> bool {
        match (self.old, self.outer) {
            (Some(old), _) => old == self.value,
            (None, Some(outer)) => outer.is_unchanged(),
            (None, None) => false,
        }
    }
}

struct Walk {
    left: u64,
    errors: Vec<FieldError>,
}

/// The budget is exceeded: nothing more is evaluated.
struct Spent;

impl Walk {
    fn place(&mut self, node: &Node, at: &Place<'_>, path: &Path<'_>) -> Result<(), Spent> {
        if !node.has_rules || at.value.is_null() {
            return Ok(());
        }
        for rule in &node.rules {
            self.rule(rule, node, at, path)?;
        }
        match at.value {
            Value::Array(items) => {
                let Some(below) = &node.items else {
                    return Ok(());
                };
                let before = lists::by_key(&node.list, at.old);
                for (index, value) in items.iter().enumerate() {
                    let old = before.find(value);
                    let outer = Some(at);
                    self.place(below, &Place { value, old, outer }, &path.index(index))?;
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    let old = at.old.and_then(|old| old.get(key));
                    let outer = Some(at);
                    let below = Place { value, old, outer };
                    if let Some(field) = node.properties.get(key.as_str()) {
                        self.place(field, &below, &path.child(key))?;
                    } else if let Some(values) = node.values() {
                        self.place(values, &below, &path.key(key))?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rule(&mut self, rule: &Rule, node: &Node, at: &Place<'_>, path: &Path<'_>) -> Result<(), Spent> {
        let old = at.old.filter(|old| !old.is_null());
        if rule.uses_old && old.is_none() && !rule.optional_old {
            return Ok(());
        }
        let ty = node.ty.map_or("", Type::name);
        let own = Val::of(at.value, Some(node));
        let before = old.map(|old| Val::of(old, Some(node)));
        let plain = before.clone().unwrap_or(Val::Null);
        let seen = if rule.optional_old {
            Val::Optional(before.map(Into::into))
        } else {
            plain.clone()
        };
        let outcome = self.evaluate(&rule.expression, own.clone(), seen);
        let why = match outcome {
            Ok(Val::Bool(true)) => return Ok(()),
            Ok(_) => None,
            Err(EvalError::Budget) => {
                let why = if self.left == 0 {
                    "validation failed due to running out of cost budget, no further validation rules will be run"
                        .to_owned()
                } else {
                    format!(
                        "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                        EvalError::Budget,
                        rule.name()
                    )
                };
                self.errors.invalid(path.field(), ty, why);
                return Err(Spent);
            }
            Err(error @ EvalError::Overload) => Some(format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                rule.name()
            )),
            Err(error) => Some(format!("{error} evaluating rule: {}", rule.name())),
        };
        if let Some(why) = why {
            self.errors.invalid(path.field(), ty, why);
            return Ok(());
        }
        if !rule.uses_old && at.is_unchanged() {
            return Ok(());
        }
        let detail = match &rule.message_expression {
            Some(expression) => self.message(expression, own, plain),
            None => None,
        };
        let detail = detail.unwrap_or_else(|| {
            if rule.message.is_empty() {
                format!("failed rule: {}", rule.text)
            } else {
                rule.message.clone()
            }
        });
        let field = match (path.to_string(), rule.field_path.as_str()) {
            (_, "") => path.field(),
            (outer, below) if outer.is_empty() => below.to_owned(),
            (outer, below) => format!("{outer}.{below}"),
        };
        self.errors.push(told(rule, node, at.value, field, detail));
        Ok(())
    }

    fn evaluate<'a>(&mut self, expression: &IdedExpr, own: Val<'a>, old: Val<'a>) -> eval::Result<Val<'a>> {
        let limit = CALL_LIMIT.min(self.left);
        let mut budget = Budget::new(limit);
        let outer = Scope::new("oldSelf", old, None);
        let scope = Scope::new("self", own, Some(&outer));
        let outcome = eval::eval(expression, &scope, &mut budget);
        self.left -= limit - budget.left();
        if limit < CALL_LIMIT && outcome.as_ref().is_err_and(|error| *error == EvalError::Budget) {
            self.left = 0;
        }
        outcome
    }

    /// Evaluates `messageExpression`; returns `None` if the result is not usable as a message.
    fn message<'a>(&mut self, expression: &IdedExpr, own: Val<'a>, old: Val<'a>) -> Option<String> {
        let Ok(Val::Text(text)) = self.evaluate(expression, own, old) else {
            return None;
        };
        let text = text.trim();
        let fit = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
        fit.then(|| text.to_owned())
    }
}

/// Returns the error of a rule that is false. The message leaves out whole objects and lists.
fn told(rule: &Rule, node: &Node, value: &Value, field: String, detail: String) -> FieldError {
    let hidden = matches!(node.ty, Some(Type::Object | Type::Array));
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(field, detail),
        Some("FieldValueRequired") => FieldError::required(field, detail),
        Some("FieldValueDuplicate") if hidden => FieldError::new(field, Wrong::DuplicateHidden, ""),
        Some("FieldValueDuplicate") => FieldError::duplicate(field, value.clone()),
        _ if hidden => FieldError::new(field, Wrong::InvalidHidden, detail),
        _ => FieldError::invalid(field, value.clone(), detail),
    }
}
