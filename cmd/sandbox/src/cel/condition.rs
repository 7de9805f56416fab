//! Match conditions of admission webhooks: expressions over the request and its objects.

use kube_cel::cel::IdedExpr;
use serde_json::{Value, json};

use crate::apiextensions::structural::node::Node;
use crate::cel::authorizer::{Authority, Authorizer, Kind};
use crate::cel::check::infer_in;
use crate::cel::eval::{Budget, EvalError, Scope};
use crate::cel::types::Ty;
use crate::cel::value::Val;
use crate::cel::{CALL_LIMIT, eval, parse};

/// The cost budget of all conditions of one webhook.
const CONDITIONS_LIMIT: u64 = 2_500_000;

/// One condition.
#[derive(Debug)]
pub struct Condition {
    expression: IdedExpr,
    text: String,
}

/// The result of match conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchResult {
    /// All conditions are true.
    Matches,
    /// A condition is false.
    DoesNotMatch,
    /// No condition is false, and at least one failed.
    Error(String),
}

impl Condition {
    /// Compiles a condition. Returns `None` if it does not parse, which [`check_condition`] reports.
    #[must_use]
    pub fn of(condition: &Value) -> Option<Self> {
        let text = condition["expression"].as_str().unwrap_or_default().trim();
        Some(Self {
            expression: parse(text).ok()?,
            text: text.to_owned(),
        })
    }
}

/// Returns the error of an expression that is not a match condition.
pub fn check_condition(text: &str) -> Result<(), String> {
    let expression = parse(text).map_err(|why| format!("compilation failed: {why}"))?;
    let failed = |why: &str| format!("compilation failed: ERROR: <input>:1:1: {why}");
    let node = Node::compile(&request_schema());
    let request = Ty::of(&node, false).unwrap_or(Ty::Dyn);
    let scope = vec![
        ("object".to_owned(), Ty::Dyn),
        ("oldObject".to_owned(), Ty::Dyn),
        ("request".to_owned(), request),
        ("authorizer".to_owned(), Ty::Authority(Kind::Authorizer)),
    ];
    let found = infer_in(&expression, scope).map_err(|why| failed(&why))?;
    match found {
        Ty::Bool => Ok(()),
        other => Err(format!("must evaluate to bool but got {}", other.name())),
    }
}

/// The type of the variable `request`.
fn request_schema() -> Value {
    let text = || json!({"type": "string"});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let kind = || object(json!({"group": text(), "version": text(), "kind": text()}));
    let resource = || object(json!({"group": text(), "version": text(), "resource": text()}));
    let texts = || json!({"type": "array", "items": text()});
    object(json!({
        "kind": kind(),
        "resource": resource(),
        "subResource": text(),
        "requestKind": kind(),
        "requestResource": resource(),
        "requestSubResource": text(),
        "name": text(),
        "namespace": text(),
        "operation": text(),
        "userInfo": object(json!({
            "username": text(),
            "uid": text(),
            "groups": texts(),
            "extra": {"type": "object", "additionalProperties": texts()},
        })),
        "dryRun": {"type": "boolean"},
        // The options depend on the operation, so that their type is unknown.
        "options": {"x-kubernetes-int-or-string": true},
    }))
}

/// Evaluates conditions about a request and its objects.
#[must_use]
pub fn conditions(
    conditions: &[Condition],
    object: Option<&Value>,
    old: Option<&Value>,
    request: &Value,
    authorizer: &dyn Authorizer,
) -> MatchResult {
    let mut left = CONDITIONS_LIMIT;
    let mut errors = Vec::new();
    for condition in conditions {
        let limit = CALL_LIMIT.min(left);
        let mut budget = Budget::new(limit);
        let outcome = evaluate(
            &condition.expression,
            object,
            old,
            request,
            authorizer,
            &mut budget,
        );
        left -= limit - budget.left();
        match outcome {
            Ok(Val::Bool(true)) => {}
            Ok(Val::Bool(false)) => return MatchResult::DoesNotMatch,
            Ok(_) => errors.push(failure(condition, &EvalError::Overload)),
            Err(error) => errors.push(failure(condition, &error)),
        }
    }
    match errors.as_slice() {
        [] => MatchResult::Matches,
        [one] => MatchResult::Error(one.clone()),
        several => MatchResult::Error(format!("[{}]", several.join(", "))),
    }
}

fn failure(condition: &Condition, error: &EvalError) -> String {
    format!("expression '{}' resulted in error: {error}", condition.text)
}

fn evaluate<'a>(
    expression: &IdedExpr,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
    request: &'a Value,
    authorizer: &'a dyn Authorizer,
    budget: &mut Budget,
) -> eval::Result<Val<'a>> {
    let of = |value: Option<&'a Value>| value.map_or(Val::Null, |value| Val::of(value, None));
    let authorizer = Scope {
        name: "authorizer",
        value: Authority::variable(authorizer),
        outer: None,
    };
    let request = Scope {
        name: "request",
        value: of(Some(request)),
        outer: Some(&authorizer),
    };
    let old = Scope {
        name: "oldObject",
        value: of(old),
        outer: Some(&request),
    };
    let object = Scope {
        name: "object",
        value: of(object),
        outer: Some(&old),
    };
    eval::eval(expression, &object, budget)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::authz::{Attributes, On};

    fn authorizer(texts: &[&str]) -> MatchResult {
        let compiled: Vec<Condition> = texts
            .iter()
            .map(|text| Condition::of(&json!({"expression": text})).expect("it parses"))
            .collect();
        let object = json!({"metadata": {"labels": {"a": "b"}, "name": "x"}});
        let request = json!({"operation": "CREATE", "userInfo": {"username": "me", "groups": ["g"], "extra": {"k": ["v"]}}});
        conditions(&compiled, Some(&object), None, &request, &Reader)
    }

    /// Allows every user to read pods, and the robot everything.
    #[derive(Debug)]
    struct Reader;

    impl Authorizer for Reader {
        fn decide(&self, account: Option<&(String, String)>, wanted: &Attributes) -> (bool, String) {
            let robot = account.is_some_and(|(namespace, name)| namespace == "ns" && name == "robot");
            let pods = matches!(&wanted.on, On::Resource { resource, name, .. } if resource == "pods" && name != "secret");
            let path = wanted.on == On::Path("/healthz".to_owned());
            (
                robot || ((pods || path) && wanted.verb == "get"),
                format!("because of {}", wanted.verb),
            )
        }

        fn request(&self) -> On {
            Attributes::on_resource("", "", "pods", "ns", "a").on
        }
    }

    #[test]
    fn conditions_use_the_authorizer() {
        for (text, verdict) in [
            (
                "authorizer.group('').resource('pods').check('get').allowed()",
                true,
            ),
            (
                "authorizer.group('').resource('pods').name('secret').check('get').allowed()",
                false,
            ),
            (
                "authorizer.group('apps').resource('deployments').subresource('scale').namespace('x').check('get').allowed()",
                false,
            ),
            ("authorizer.path('/healthz').check('get').allowed()", true),
            ("authorizer.path('/metrics').check('get').allowed()", false),
            ("authorizer.requestResource.check('get').allowed()", true),
            ("authorizer.requestResource.check('delete').allowed()", false),
            (
                "authorizer.serviceAccount('ns', 'robot').path('/x').check('delete').allowed()",
                true,
            ),
            (
                "authorizer.requestResource.check('x').reason() == 'because of x'",
                true,
            ),
            (
                "authorizer.requestResource.check('x').errored() || authorizer.requestResource.check('x').error() != ''",
                false,
            ),
            (
                "authorizer.group('').resource('pods').labelSelector('a=b').fieldSelector('c=d').check('get').allowed()",
                true,
            ),
        ] {
            assert_eq!(check_condition(text), Ok(()), "{text}");
            let expected = if verdict {
                MatchResult::Matches
            } else {
                MatchResult::DoesNotMatch
            };
            assert_eq!(authorizer(&[text]), expected, "{text}");
        }
        let dear = "[1, 2, 3].all(n, authorizer.requestResource.check('get').allowed())";
        assert!(
            matches!(authorizer(&[dear]), MatchResult::Error(why) if why.contains("cost limit exceeded"))
        );
    }

    #[test]
    fn all_conditions_must_be_true() {
        assert_eq!(authorizer(&[]), MatchResult::Matches);
        let yes = "object.metadata.labels['a'] == 'b' && oldObject == null && 'g' in request.userInfo.groups";
        assert_eq!(
            authorizer(&[yes, "request.userInfo.extra['k'][0] == 'v'"]),
            MatchResult::Matches
        );
        assert_eq!(
            authorizer(&[yes, "request.operation == 'DELETE'"]),
            MatchResult::DoesNotMatch
        );
        assert_eq!(
            authorizer(&["object.spec.x == 1", "false"]),
            MatchResult::DoesNotMatch,
            "one that does not hold decides"
        );
        assert_eq!(
            authorizer(&["object.spec.x == 1"]),
            MatchResult::Error(
                "expression 'object.spec.x == 1' resulted in error: no such key: spec".to_owned()
            )
        );
    }

    #[test]
    fn invalid_condition_is_rejected() {
        for text in [
            "request.name ==",
            "request.colour == 'x'",
            "'a'",
            "object.spec.x",
            "variables.x == 1",
            "authorizer",
            "authorizer.group('').check('get').allowed()",
            "authorizer.group('').resource('pods').check('get')",
            "authorizer.group(1).resource('pods').check('get').allowed()",
            "authorizer.requestName.check('get').allowed()",
            "authorizer.serviceAccount('a', 'b').requestResource.check('get').allowed()",
            "authorizer.path('/x').name('y').check('get').allowed()",
        ] {
            assert!(check_condition(text).is_err(), "{text}");
        }
        for text in [
            "true",
            "has(object.metadata.labels) && object.metadata.labels.exists(k, k == 'x')",
            "request.userInfo.username.startsWith('system:')",
            "request.dryRun || request.options.kind == 'CreateOptions'",
            "!('x' in request.userInfo.extra)",
        ] {
            assert_eq!(check_condition(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn conditions_are_bounded() {
        let list = "[1,2,3,4,5,6,7,8,9,10]";
        let inner = format!("{list}.all(f, a + b + c + d + e + f > 0)");
        let text = ["e", "d", "c", "b", "a"]
            .iter()
            .fold(inner, |text, variable| format!("{list}.all({variable}, {text})"));
        assert!(matches!(authorizer(&[&text]), MatchResult::Error(_)));
    }
}
