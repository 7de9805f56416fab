//! Match conditions: expressions about a whole request, which decide whether a webhook is asked about it.

use kube_cel::cel::IdedExpr;
use serde_json::{Value, json};

use crate::apiextensions::structural::node::Node;
use crate::cel::authorizer::{Authority, Judge, Kind};
use crate::cel::check::infer_in;
use crate::cel::eval::{Budget, EvalError, Scope};
use crate::cel::types::Ty;
use crate::cel::value::Val;
use crate::cel::{CALL_LIMIT, eval, parse};

/// What all conditions of one webhook may cost.
const CONDITIONS_LIMIT: u64 = 2_500_000;

/// One condition.
#[derive(Debug)]
pub struct Condition {
    expression: IdedExpr,
    text: String,
}

/// Whether conditions hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All of them.
    Hold,
    /// One of them does not.
    DoNotHold,
    /// None that could be evaluated does not, but not all could be.
    Unknown(String),
}

impl Condition {
    /// Compiles a condition. None if it does not parse, which [`check_condition`] has told before.
    #[must_use]
    pub fn of(condition: &Value) -> Option<Self> {
        let text = condition["expression"].as_str().unwrap_or_default().trim();
        Some(Self {
            expression: parse(text).ok()?,
            text: text.to_owned(),
        })
    }
}

/// What is wrong with an expression as a condition.
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

/// The variable `request`: what may be asked of it.
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
        // Whatever the operation has; nothing is known of it here.
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
    judge: &dyn Judge,
) -> Verdict {
    let mut left = CONDITIONS_LIMIT;
    let mut errors = Vec::new();
    for condition in conditions {
        let limit = CALL_LIMIT.min(left);
        let mut budget = Budget::new(limit);
        let outcome = evaluate(&condition.expression, object, old, request, judge, &mut budget);
        left -= limit - budget.left();
        match outcome {
            Ok(Val::Bool(true)) => {}
            Ok(Val::Bool(false)) => return Verdict::DoNotHold,
            Ok(_) => errors.push(failure(condition, &EvalError::Overload)),
            Err(error) => errors.push(failure(condition, &error)),
        }
    }
    match errors.as_slice() {
        [] => Verdict::Hold,
        [one] => Verdict::Unknown(one.clone()),
        several => Verdict::Unknown(format!("[{}]", several.join(", "))),
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
    judge: &'a dyn Judge,
    budget: &mut Budget,
) -> eval::Result<Val<'a>> {
    let of = |value: Option<&'a Value>| value.map_or(Val::Null, |value| Val::of(value, None));
    let authorizer = Scope {
        name: "authorizer",
        value: Authority::variable(judge),
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

    fn judge(texts: &[&str]) -> Verdict {
        let compiled: Vec<Condition> = texts
            .iter()
            .map(|text| Condition::of(&json!({"expression": text})).expect("it parses"))
            .collect();
        let object = json!({"metadata": {"labels": {"a": "b"}, "name": "x"}});
        let request = json!({"operation": "CREATE", "userInfo": {"username": "me", "groups": ["g"], "extra": {"k": ["v"]}}});
        conditions(&compiled, Some(&object), None, &request, &Reader)
    }

    /// Lets everybody read pods, and the robot anything.
    #[derive(Debug)]
    struct Reader;

    impl Judge for Reader {
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
    fn they_may_ask_who_may_do_what() {
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
                Verdict::Hold
            } else {
                Verdict::DoNotHold
            };
            assert_eq!(judge(&[text]), expected, "{text}");
        }
        let dear = "[1, 2, 3].all(n, authorizer.requestResource.check('get').allowed())";
        assert!(matches!(judge(&[dear]), Verdict::Unknown(why) if why.contains("cost limit exceeded")));
    }

    #[test]
    fn all_of_them_must_hold() {
        assert_eq!(judge(&[]), Verdict::Hold);
        let yes = "object.metadata.labels['a'] == 'b' && oldObject == null && 'g' in request.userInfo.groups";
        assert_eq!(
            judge(&[yes, "request.userInfo.extra['k'][0] == 'v'"]),
            Verdict::Hold
        );
        assert_eq!(judge(&[yes, "request.operation == 'DELETE'"]), Verdict::DoNotHold);
        assert_eq!(
            judge(&["object.spec.x == 1", "false"]),
            Verdict::DoNotHold,
            "one that does not hold decides"
        );
        assert_eq!(
            judge(&["object.spec.x == 1"]),
            Verdict::Unknown(
                "expression 'object.spec.x == 1' resulted in error: no such key: spec".to_owned()
            )
        );
    }

    #[test]
    fn what_cannot_be_a_condition_is_refused() {
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
    fn they_do_not_run_for_ever() {
        let list = "[1,2,3,4,5,6,7,8,9,10]";
        let inner = format!("{list}.all(f, a + b + c + d + e + f > 0)");
        let text = ["e", "d", "c", "b", "a"]
            .iter()
            .fold(inner, |text, variable| format!("{list}.all({variable}, {text})"));
        assert!(matches!(judge(&[&text]), Verdict::Unknown(_)));
    }
}
