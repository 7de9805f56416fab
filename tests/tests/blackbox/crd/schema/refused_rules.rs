//! Rules that a definition may not have.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::super::{CRDS, Place};
use super::{crd_of, object_of};
use crate::expect::invalid;

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(rules_must_compile),
        test!(rules_must_be_true_or_false),
        test!(rules_must_be_affordable),
        test!(old_values_must_be_known),
        test!(what_stands_around_a_rule_is_checked),
        test!(defaults_must_keep_the_rules),
    ];
    tests.into_iter().map(|test| test.since(1, 36)).collect()
}

/// Asserts that a definition with a field of this schema is refused for one cause with this reason and field below the
/// schema of the field, whose message contains the text.
async fn refused(c: &Cluster, field: Value, reason: &str, at: &str, text: &str) {
    let place = Place::new(c).await;
    let reply = c
        .api()
        .post(CRDS, crd_of(&place, object_of(json!({"f": field}))))
        .await;
    reply.expect_error(422, "Invalid");
    let causes = reply.causes();
    let expected = format!("spec.validation.openAPIV3Schema.properties[f]{at}");
    let found = causes.len() == 1
        && causes[0].reason == format!("FieldValue{reason}")
        && causes[0].field == expected
        && causes[0].message.contains(text);
    reply.check(found, &format!("expected one cause {reason} {expected}: {text}"));
    c.api()
        .get(&place.crd_path("widgets"))
        .await
        .expect_error(404, "NotFound");
}

fn with_rule(mut schema: Value, rule: Value) -> Value {
    schema["x-kubernetes-validations"] = json!([rule]);
    schema
}

const RULE: &str = ".x-kubernetes-validations[0].rule";

async fn rules_must_compile(c: Cluster) {
    let object = json!({"type": "object", "properties": {"a": {"type": "integer"}, "s": {"type": "string"}}});
    for (text, why) in [
        ("self.", "Syntax error"),
        ("self.a > ", "Syntax error"),
        ("self.b == 1", "undefined field 'b'"),
        ("has(self.b)", "undefined field 'b'"),
        ("other == 1", "undeclared reference to 'other'"),
        ("unknown(self.a)", "undeclared reference to 'unknown'"),
        (
            "self.a == 'x'",
            "found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (
            "self.a + self.s == ''",
            "found no matching overload for '_+_' applied to '(int, string)'",
        ),
        (
            "self.s > 5",
            "found no matching overload for '_>_' applied to '(string, int)'",
        ),
        (
            "self.a.startsWith('x')",
            "found no matching overload for 'startsWith'",
        ),
        ("self.a.all(x, x)", "cannot be range of a comprehension"),
        (
            "!self.a",
            "found no matching overload for '!_' applied to '(int)'",
        ),
        ("self.a && true", "expected type 'bool' but found 'int'"),
    ] {
        refused(
            &c,
            with_rule(object.clone(), json!({"rule": text})),
            "Invalid",
            RULE,
            why,
        )
        .await;
    }
}

async fn rules_must_be_true_or_false(c: Cluster) {
    let number = json!({"type": "integer"});
    let why = "cel expression must evaluate to a bool";
    refused(
        &c,
        with_rule(number.clone(), json!({"rule": "self + 1"})),
        "Invalid",
        RULE,
        why,
    )
    .await;
    let rule = json!({"rule": "self > 1", "messageExpression": "self + 1"});
    let at = ".x-kubernetes-validations[0].messageExpression";
    refused(
        &c,
        with_rule(number.clone(), rule),
        "Invalid",
        at,
        "messageExpression must evaluate to a string",
    )
    .await;
    let rule = json!({"rule": "self > 1", "messageExpression": "self."});
    refused(
        &c,
        with_rule(number, rule),
        "Invalid",
        at,
        "messageExpression compilation failed",
    )
    .await;
}

/// Asserts that a rule is refused for its cost, and the schema for the sum of its rules.
async fn expensive(c: &Cluster, field: Value, why: &str) {
    let place = Place::new(c).await;
    let reply = c
        .api()
        .post(CRDS, crd_of(&place, object_of(json!({"f": field}))))
        .await;
    let root = "spec.validation.openAPIV3Schema";
    let rule = format!("Forbidden {root}.properties[f]{RULE}");
    let total =
        "estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x";
    invalid(
        &reply,
        &[
            &format!("{rule}: {why}"),
            &format!(
                "{rule}: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            ),
            &format!("Forbidden {root}: {total}{HINT}"),
        ],
    );
    c.api()
        .get(&place.crd_path("widgets"))
        .await
        .expect_error(404, "NotFound");
}

const HINT: &str = " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and \
                    strings are declared)";

async fn rules_must_be_affordable(c: Cluster) {
    let why = "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, \
               maxProperties, and maxLength where arrays, maps, and strings are declared)";
    let list = json!({"type": "array", "items": {"type": "string"}});
    for text in [
        "self.all(x, self.all(y, x == y))",
        "self.all(x, self.exists(y, y == x && self.exists(z, z == y)))",
        "self.map(x, self.map(y, self.filter(z, z == x))).size() > 0",
    ] {
        expensive(&c, with_rule(list.clone(), json!({"rule": text})), why).await;
    }
    let place = Place::new(&c).await;
    let small = json!({"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10}});
    let rule = json!({"rule": "self.all(x, self.all(y, x == y))"});
    let crd = crd_of(&place, object_of(json!({"f": with_rule(small, rule)})));
    c.api().post(CRDS, crd).await.expect(201);
    place.remove(&c).await;
}

async fn old_values_must_be_known(c: Cluster) {
    let item = with_rule(json!({"type": "integer"}), json!({"rule": "self == oldSelf"}));
    let list = json!({"type": "array", "maxItems": 5, "items": item});
    let why = "oldSelf cannot be used on the uncorrelatable portion of the schema within \
               spec.validation.openAPIV3Schema.properties[f]";
    refused(&c, list, "Invalid", &format!(".items{RULE}"), why).await;
    let rule = json!({"rule": "self > 1", "optionalOldSelf": true});
    let at = ".x-kubernetes-validations[0].optionalOldSelf";
    let why = "may not be set if oldSelf is not used in rule";
    refused(
        &c,
        with_rule(json!({"type": "integer"}), rule),
        "Invalid",
        at,
        why,
    )
    .await;
}

async fn what_stands_around_a_rule_is_checked(c: Cluster) {
    let number = json!({"type": "integer"});
    let at = |key: &str| format!(".x-kubernetes-validations[0].{key}");
    for (rule, reason, key, why) in [
        (json!({"rule": " "}), "Required", "rule", "rule is not specified"),
        (
            json!({"rule": "self > 1", "message": " "}),
            "Invalid",
            "message",
            "must be non-empty if specified",
        ),
        (
            json!({"rule": "self > 1", "message": "a\nb"}),
            "Invalid",
            "message",
            "must not contain line breaks",
        ),
        (
            json!({"rule": "self >\n1"}),
            "Required",
            "message",
            "message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "self > 1", "reason": "Because"}),
            "NotSupported",
            "reason",
            "supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
        (
            json!({"rule": "self > 1", "fieldPath": ".x"}),
            "Invalid",
            "fieldPath",
            "must be a valid path",
        ),
    ] {
        refused(&c, with_rule(number.clone(), rule), reason, &at(key), why).await;
    }
}

async fn defaults_must_keep_the_rules(c: Cluster) {
    let field = with_rule(
        json!({"type": "integer", "default": 1}),
        json!({"rule": "self > 1"}),
    );
    refused(&c, field, "Invalid", ".default", "failed rule: self > 1").await;
}
