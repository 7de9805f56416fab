use crate::apiextensions::structural::node::Node;
use crate::cel::{check, check_condition, validate};
use crate::json::{Value, json};

fn list_with(rule: &str) -> Node {
    let rules = json!([{"rule": rule}]);
    Node::compile(&json!({"type": "object", "properties": {
        "l": {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": rules},
    }}))
}

fn told(node: &Node, value: &Value) -> Vec<String> {
    validate(node, value, None)
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// An expensive rule stops when its budget is exceeded, and no rule is evaluated after it.
#[test]
fn rules_are_bounded() {
    let items: Vec<String> = (0..3000).map(|n| format!("{n}")).collect();
    let value = json!({"l": items});
    for rule in [
        "self.all(x, self.all(y, x != y || x == y))",
        "self.map(x, self.map(y, x + y)).size() > 0",
        "self.all(x, self.filter(y, y.contains(x)).size() > 0)",
        "self.all(x, self.exists(y, self == self))",
        "self.all(x, sets.contains(self, self))",
    ] {
        let errors = told(&list_with(rule), &value);
        assert_eq!(errors.len(), 1, "{rule}");
        assert!(
            errors[0].contains("no further validation rules will be run"),
            "{errors:?}"
        );
    }
}

/// Costs equal those of the server: this number of items is just within the budget.
#[test]
fn rule_costs_equal_the_servers() {
    for (rule, most) in [
        (
            "self.all(x, self.all(y, x.size() > 0 ? y.size() > 0 : false))",
            333,
        ),
        ("self.map(x, self.map(y, y).size()).size() > 0", 276),
        ("self.all(x, self.all(y, y.contains(x) || size(self) > 5))", 333),
        ("self.all(x, self.exists_one(y, x + y == 'a') || true)", 499),
        ("self.all(x, x in self)", 997),
        ("self.all(x, self.all(y, [x, y].size() == 2))", 242),
        ("self.all(x, self.all(y, x.matches('^[0-9]+$') || y == x))", 407),
    ] {
        let node = list_with(rule);
        let list = |length: usize| json!({"l": (0..length).map(|n| n.to_string()).collect::<Vec<_>>()});
        assert_eq!(told(&node, &list(most)), [""; 0], "{rule}");
        assert_eq!(told(&node, &list(most + 1)).len(), 1, "{rule}");
    }
}

/// One pass over a list of the maximum request size is within the budget, and linear.
#[test]
fn list_pass_is_within_the_budget() {
    let items: Vec<String> = (0..50_000).map(|n| format!("{n}")).collect();
    let value = json!({"l": items});
    for rule in [
        "self.all(x, x != 'no')",
        "self.map(x, x).size() > 0",
        "self.filter(x, x.matches('^[0-9]+$')).size() > 0",
    ] {
        assert_eq!(told(&list_with(rule), &value), [""; 0], "{rule}");
    }
}

#[test]
fn unsupported_expression_is_rejected() {
    let node = Node::compile(&json!({"type": "integer"}));
    for rule in [
        "Message{a: 1} == self",
        "cel.bind(x, self, x > 1)",
        "math.greatest(self, 1) > 1",
        "[1].all(i, v, v > 0)",
        "self.x.y.z",
        "",
    ] {
        assert!(check(rule, &node, false, false, "bool").is_err(), "{rule}");
    }
    let nested = |open: &str, n: usize, close: &str| format!("{}self{} > 1", open.repeat(n), close.repeat(n));
    for rule in [
        nested("(", 5000, ")"),
        nested("[", 5000, "]"),
        nested("-", 5000, ""),
        nested("self > 1 ? 1 : ", 5000, ""),
        nested("1 + ", 5000, ""),
    ] {
        assert!(check(&rule, &node, false, false, "bool").is_err());
    }
    // An expression of the maximum depth is also evaluated.
    for rule in [nested("(", 60, ")"), nested("1 + ", 190, "")] {
        assert!(check(&rule, &node, false, false, "bool").is_ok());
        let schema = json!({"type": "integer", "x-kubernetes-validations": [{"rule": rule}]});
        assert_eq!(told(&Node::compile(&schema), &json!(5)), [""; 0]);
    }
}

/// The values of `lastIndexOf` and `%e` are those of CEL's documentation and conformance tests. A map has the format of version 2 of
/// the strings library, which API servers use.
#[test]
fn functions_of_strings_return_the_documented_values() {
    let node = list_with(
        "'hello mellow'.lastIndexOf('ello') == 7 \
         && 'hello mellow'.lastIndexOf('ello', 7) == 7 \
         && 'hello mellow'.lastIndexOf('ello', 6) == 1 \
         && '%.6e'.format([1052.032911275]) == '1.052033e+03' \
         && '%s'.format([{'a': 1}]) == '{\"a\":1}'",
    );
    assert_eq!(told(&node, &json!({"l": []})), [""; 0]);
}

#[test]
fn match_condition_with_authorizer_is_rejected() {
    let error = check_condition("authorizer.group('').resource('pods').check('get').allowed()").unwrap_err();
    assert!(error.contains("undeclared reference to 'authorizer'"), "{error}");
}

#[test]
fn message_about_many_syntax_errors_is_bounded() {
    let rule = "é".repeat(2000);
    let error = super::parse(&rule).expect_err("a syntax error");
    assert!(error.starts_with("ERROR: <input>:1:1: "), "{error}");
    assert!(error.len() <= 25 * 2 * rule.len(), "{} bytes", error.len());
}
