//! Rules in CEL: what they refuse, and how a refusal says it.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::super::{install, patched};
use super::{Place, crd_of, installed_with, object_of, refuses, takes, widget};
use crate::expect::{invalid, unchanged};
use crate::support::{MERGE, create, with};

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(a_rule_is_asked_where_it_stands),
        test!(messages_say_why),
        test!(reasons_and_paths_are_as_the_rule_says),
        test!(lists_and_maps_are_walked),
        test!(fields_may_be_absent),
        test!(expressions_of_many_kinds),
        test!(errors_are_told),
        test!(transition_rules_look_back),
        test!(transition_rules_follow_map_keys),
        test!(optional_old_self_is_asked_on_create_too),
        test!(rules_are_not_asked_about_invalid_objects),
        test!(status_rules_hold_at_its_endpoint),
        test!(root_rules_see_the_name),
        test!(state_that_did_not_change_is_forgiven),
        test!(names_are_escaped),
        test!(one_rule_may_cost_so_much),
        test!(all_rules_of_an_object_may_cost_so_much),
    ];
    tests.into_iter().map(|test| test.since(1, 36)).collect()
}

fn rule(rule: &str) -> Value {
    json!([{"rule": rule}])
}

/// A field of a type with one rule.
fn field(ty: &str, text: &str) -> Value {
    json!({"type": ty, "x-kubernetes-validations": rule(text)})
}

async fn a_rule_is_asked_where_it_stands(c: Cluster) {
    let schema = json!({
        "type": "object",
        "x-kubernetes-validations": rule("self.min <= self.max"),
        "properties": {
            "min": {"type": "integer"},
            "max": {"type": "integer"},
            "name": field("string", "self.startsWith('a')"),
        },
    });
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![
        (
            json!({"min": 2, "max": 1}),
            vec!["Invalid spec: Invalid value: failed rule: self.min <= self.max"],
        ),
        (
            json!({"min": 1, "max": 1, "name": "b"}),
            vec!["Invalid spec.name: Invalid value: \"b\": failed rule: self.startsWith('a')"],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    takes(&c, &place, &path, vec![json!({"min": 1, "max": 2, "name": "a"})]).await;
    place.remove(&c).await;
}

async fn messages_say_why(c: Cluster) {
    let schema = object_of(json!({
        "plain": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5", "message": "too big"}]},
        "made": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [
            {"rule": "size(self) < 5", "message": "unused", "messageExpression": "'is ' + self"},
        ]},
        "failing": {"type": "integer", "x-kubernetes-validations": [
            {"rule": "self < 5", "message": "instead", "messageExpression": "string(1 / (self - self))"},
        ]},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![
        (
            json!({"plain": 7}),
            vec!["Invalid spec.plain: Invalid value: 7: too big"],
        ),
        (
            json!({"made": "longer"}),
            vec!["Invalid spec.made: Invalid value: \"longer\": is longer"],
        ),
        (
            json!({"failing": 7}),
            vec!["Invalid spec.failing: Invalid value: 7: instead"],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    place.remove(&c).await;
}

async fn reasons_and_paths_are_as_the_rule_says(c: Cluster) {
    let of = |reason: &str, path: &str| {
        let rule = json!({"rule": "!has(self.bad)", "message": "m", "reason": reason, "fieldPath": path});
        json!({"type": "object", "properties": {
            "bad": {"type": "integer"},
            "o": {"type": "object", "properties": {"x": {"type": "string"}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }, "x-kubernetes-validations": [rule]})
    };
    let schema = object_of(json!({
        "a": of("FieldValueForbidden", ".bad"),
        "b": of("FieldValueRequired", ".o.x"),
        "c": of("FieldValueDuplicate", ".bad"),
        "d": of("FieldValueInvalid", ".map['some.key']"),
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![
        (
            json!({"a": {"bad": 1}}),
            vec!["Forbidden spec.a.bad: Forbidden: m"],
        ),
        (
            json!({"b": {"bad": 1}}),
            vec!["Required spec.b.o.x: Required value: m"],
        ),
        (
            json!({"c": {"bad": 1}}),
            vec!["Duplicate spec.c.bad: Duplicate value"],
        ),
        (
            json!({"d": {"bad": 1}}),
            vec!["Invalid spec.d.map[some.key]: Invalid value: m"],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    place.remove(&c).await;
}

async fn lists_and_maps_are_walked(c: Cluster) {
    let schema = object_of(json!({
        "list": {"type": "array", "maxItems": 10, "items": field("integer", "self % 2 == 0")},
        "map": {"type": "object", "maxProperties": 10, "additionalProperties": field("string", "size(self) < 3")},
        "all": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10},
            "x-kubernetes-validations": rule("self.all(x, x.startsWith('a')) && self.exists_one(x, x == 'a')")},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![
        (
            json!({"list": [2, 3]}),
            vec!["Invalid spec.list[1]: Invalid value: 3: failed rule: self % 2 == 0"],
        ),
        (
            json!({"map": {"k": "long"}}),
            vec!["Invalid spec.map[k]: Invalid value: \"long\": failed rule: size(self) < 3"],
        ),
        (
            json!({"all": ["a", "b"]}),
            vec!["Invalid spec.all: self.exists_one(x, x == 'a')"],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    takes(
        &c,
        &place,
        &path,
        vec![json!({"list": [2], "map": {"k": "ab"}, "all": ["a", "ab"]})],
    )
    .await;
    place.remove(&c).await;
}

async fn fields_may_be_absent(c: Cluster) {
    let schema = json!({
        "type": "object",
        "x-kubernetes-validations": rule("!has(self.a) || self.a == self.b"),
        "properties": {"a": {"type": "string"}, "b": {"type": "string", "nullable": true}},
    });
    let (place, path) = installed_with(&c, schema).await;
    let why = "Invalid spec: Invalid value: \"object\": no such key: b evaluating rule: !has(self.a) || self.a == self.b";
    refuses(&c, &place, &path, vec![(json!({"a": "1"}), vec![why])]).await;
    takes(
        &c,
        &place,
        &path,
        vec![json!({}), json!({"b": "1"}), json!({"a": "1", "b": "1"})],
    )
    .await;
    place.remove(&c).await;
}

/// Each expression holds: what does not refuses the object, and names itself.
async fn expressions_of_many_kinds(c: Cluster) {
    const TRUE: [&str; 30] = [
        "self.text.matches('^[a-c]+$') && self.text.size() == 3",
        "self.text.upperAscii() == 'ABC' && self.text.indexOf('c') == 2",
        "self.text.replace('b', '') == 'ac' && self.text.substring(1) == 'bc'",
        "self.text.split('b') == ['a', 'c'] && self.set.join('-') == 'a-b'",
        "self.text + 'd' == 'abcd' && 'abb' < self.text",
        "self.list.map(x, x * 2) == [2, 4, 6]",
        "self.list.filter(x, x > 1) == [2, 3] && self.list.filter(x, x > 1).map(x, x + 1) == [3, 4]",
        "self.list.map(x, x > 1, x) == [2, 3]",
        "self.list.sum() == 6 && self.list.max() == 3 && self.list.isSorted() && self.list.indexOf(2) == 1",
        "2 in self.list && !(5 in self.list) && self.list[0] == 1 && self.list + [4] == [1, 2, 3, 4]",
        "self.map.all(k, self.map[k] == 'v') && 'k' in self.map && self.map.k == 'v' && self.map == {'k': 'v'}",
        "self.set == ['b', 'a'] && sets.contains(self.set, ['a']) && sets.equivalent(self.set, ['b', 'a'])",
        "self.real > 1 && self.real == 1.5 && double(self.list[0]) == 1.0 && int(self.real) == 1",
        "type(self.either) == string && self.either.matches('^[0-9]+%$')",
        "string(self.list[0]) == '1' && int('7') == 7 && bool('true')",
        "self.time > timestamp('2020-01-01T00:00:00Z') && self.time.getFullYear() == 2026",
        "self.time - timestamp('2026-01-01T00:00:00Z') == duration('1h') && self.span < duration('2h')",
        "quantity('1Gi').isGreaterThan(quantity('500Mi')) && isQuantity('1k') && quantity('1').compareTo(quantity('2')) == -1",
        "isIP('10.0.0.1') && ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
        "isURL('https://a:80/b') && url('https://a:80/b').getHostname() == 'a'",
        "self.?missing.orValue('d') == 'd' && self.?text.hasValue() && self.?text.value() == 'abc'",
        "self.?text.optMap(t, t.size()).orValue(0) == 3 && optional.of(1).orValue(2) == 1",
        "has(self.text) && !has(self.missing) && (has(self.missing) ? self.missing == 'x' : true)",
        "self.list.exists(x, x == 3) && self.list.exists_one(x, x == 3) && [].all(x, x > 0)",
        "[1, 2, 3].exists(x, 10 / (x - 1) == 10) && (1 / 0 == 1 || true)",
        "-self.list[0] == -1 && 7 / 2 == 3 && -7 % 3 == -1 && 7u > 6u && 0.1 + 0.2 > 0.3",
        "!has(self.nothing) && dyn(self.text) != 1",
        "'%s-%s'.format(['a', 'b']) == 'a-b' && [3, 1, 2].sort() == [1, 2, 3]",
        "self.objects.all(o, o.name != '' && self.objects.exists_one(p, p.name == o.name))",
        "!format.dns1123Label().validate('a-b').hasValue() && semver('1.2.3').isLessThan(semver('1.10.0'))",
    ];
    let rules: Vec<Value> = TRUE.iter().map(|text| json!({"rule": text})).collect();
    let text = json!({"type": "string", "maxLength": 10});
    let schema = json!({
        "type": "object",
        "x-kubernetes-validations": rules,
        "properties": {
            "text": text, "missing": text, "real": {"type": "number"},
            "nothing": {"type": "string", "nullable": true, "maxLength": 10},
            "list": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
            "set": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "set", "items": text},
            "map": {"type": "object", "maxProperties": 5, "additionalProperties": text},
            "either": {"x-kubernetes-int-or-string": true, "maxLength": 10},
            "time": {"type": "string", "format": "date-time"},
            "span": {"type": "string", "format": "duration"},
            "objects": {"type": "array", "maxItems": 5, "items": {"type": "object", "properties": {"name": text}}},
        },
    });
    let (place, path) = installed_with(&c, schema).await;
    let spec = json!({
        "text": "abc", "real": 1.5, "nothing": null, "list": [1, 2, 3], "set": ["a", "b"], "map": {"k": "v"},
        "either": "50%", "time": "2026-01-01T01:00:00Z", "span": "90m", "objects": [{"name": "x"}, {"name": "y"}],
    });
    takes(&c, &place, &path, vec![spec]).await;
    place.remove(&c).await;
}

async fn errors_are_told(c: Cluster) {
    let schema = object_of(json!({
        "zero": field("integer", "10 / self > 1"),
        "list": {"type": "array", "maxItems": 3, "items": {"type": "integer"}, "x-kubernetes-validations": rule("self[1] > 0")},
        "either": {"x-kubernetes-int-or-string": true, "x-kubernetes-validations": rule("self > 1")},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![
        (
            json!({"zero": 0}),
            vec![
                "Invalid spec.zero: Invalid value: \"integer\": division by zero evaluating rule: 10 / self > 1",
            ],
        ),
        (
            json!({"list": [1]}),
            vec![
                "Invalid spec.list: Invalid value: \"array\": index out of bounds: 1 evaluating rule: self[1] > 0",
            ],
        ),
        (
            json!({"either": "x"}),
            vec![
                "Invalid spec.either: Invalid value: \"\": 'no such overload': call arguments did not match a supported \
                 operator, function or macro signature for rule: self > 1",
            ],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    place.remove(&c).await;
}

async fn transition_rules_look_back(c: Cluster) {
    let schema = object_of(json!({
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]},
        "grows": field("integer", "self >= oldSelf"),
    }));
    let (place, path) = installed_with(&c, schema).await;
    let made = create(&c, &path, &widget(&place, "a", json!({"fixed": "x", "grows": 2}))).await;
    let path = format!("{path}/a");
    let reply = c.api().patch(&path, MERGE, json!({"spec": {"fixed": "y"}})).await;
    invalid(
        &reply,
        &["Invalid spec.fixed: Invalid value: \"y\": is immutable"],
    );
    let reply = c.api().patch(&path, MERGE, json!({"spec": {"grows": 1}})).await;
    invalid(
        &reply,
        &["Invalid spec.grows: Invalid value: 1: failed rule: self >= oldSelf"],
    );
    unchanged(&c, &path, &made).await;
    patched(&c, &path, json!({"spec": {"grows": 3}})).await;
    // What is not there is not asked about, before or after.
    patched(&c, &path, json!({"spec": {"fixed": null}})).await;
    patched(&c, &path, json!({"spec": {"fixed": "z"}})).await;
    place.remove(&c).await;
}

async fn transition_rules_follow_map_keys(c: Cluster) {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "v": field("integer", "self >= oldSelf"),
    }});
    let schema = object_of(json!({
        "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let spec = json!({"m": [{"name": "a", "v": 1}, {"name": "b", "v": 5}]});
    create(&c, &path, &widget(&place, "a", spec)).await;
    let path = format!("{path}/a");
    let moved = json!({"spec": {"m": [{"name": "b", "v": 5}, {"name": "c", "v": 0}, {"name": "a", "v": 1}]}});
    patched(&c, &path, moved).await;
    let less = json!({"spec": {"m": [{"name": "b", "v": 4}]}});
    let reply = c.api().patch(&path, MERGE, less).await;
    invalid(
        &reply,
        &["Invalid spec.m[0].v: Invalid value: 4: failed rule: self >= oldSelf"],
    );
    place.remove(&c).await;
}

async fn optional_old_self_is_asked_on_create_too(c: Cluster) {
    let rule = json!([{"rule": "oldSelf.hasValue() || self == 0", "optionalOldSelf": true, "message": "starts at 0"}]);
    let schema = object_of(json!({"n": {"type": "integer", "x-kubernetes-validations": rule}}));
    let (place, path) = installed_with(&c, schema).await;
    refuses(
        &c,
        &place,
        &path,
        vec![(
            json!({"n": 1}),
            vec!["Invalid spec.n: Invalid value: 1: starts at 0"],
        )],
    )
    .await;
    create(&c, &path, &widget(&place, "a", json!({"n": 0}))).await;
    patched(&c, &format!("{path}/a"), json!({"spec": {"n": 5}})).await;
    place.remove(&c).await;
}

async fn rules_are_not_asked_about_invalid_objects(c: Cluster) {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}},
        "x-kubernetes-validations": rule("self.n > 5")});
    let (place, path) = installed_with(&c, schema).await;
    let causes = vec![
        "Required spec.n: Required value",
        "Invalid <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct \
         the existing errors to complete validation",
    ];
    refuses(&c, &place, &path, vec![(json!({}), causes)]).await;
    place.remove(&c).await;
}

async fn status_rules_hold_at_its_endpoint(c: Cluster) {
    let place = Place::new(&c).await;
    let schema = object_of(json!({
        "spec": object_of(json!({"n": {"type": "integer"}})),
        "status": object_of(json!({"n": field("integer", "self < 5")})),
    }));
    let crd = with(
        crd_of(&place, schema),
        "/spec/versions/0/subresources",
        json!({"status": {}}),
    );
    install(&c, &crd).await;
    let path = place.widgets("v1");
    create(&c, &path, &widget(&place, "a", json!({"n": 1}))).await;
    let status = format!("{path}/a/status");
    let reply = c.api().patch(&status, MERGE, json!({"status": {"n": 7}})).await;
    invalid(
        &reply,
        &["Invalid status.n: Invalid value: 7: failed rule: self < 5"],
    );
    patched(&c, &status, json!({"status": {"n": 4}})).await;
    place.remove(&c).await;
}

async fn root_rules_see_the_name(c: Cluster) {
    let place = Place::new(&c).await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}},
        "x-kubernetes-validations": rule("self.metadata.name.startsWith('ok') && self.kind == 'Widget'")});
    install(&c, &crd_of(&place, schema)).await;
    let path = place.widgets("v1");
    let reply = c.api().post(&path, place.widget("bad")).await;
    let why = "failed rule: self.metadata.name.startsWith('ok') && self.kind == 'Widget'";
    invalid(&reply, &[&format!("Invalid <nil>: Invalid value: {why}")]);
    create(&c, &path, &place.widget("ok")).await;
    place.remove(&c).await;
}

async fn state_that_did_not_change_is_forgiven(c: Cluster) {
    let place = Place::new(&c).await;
    let schema = |text: &str| {
        object_of(json!({"spec": object_of(json!({"a": field("integer", text), "b": {"type": "integer"}}))}))
    };
    let crd = install(&c, &crd_of(&place, schema("self < 100"))).await;
    let path = place.widgets("v1");
    create(&c, &path, &widget(&place, "a", json!({"a": 50, "b": 1}))).await;
    let changed = with(
        crd,
        "/spec/versions/0/schema/openAPIV3Schema",
        schema("self < 10"),
    );
    c.api().put(&place.crd_path("widgets"), changed).await.expect(200);
    crate::support::soon("the new rule is in force", async || {
        let body = widget(&place, "b", json!({"a": 50}));
        (c.api().post(&format!("{path}?dryRun=All"), body).await.status == 422).then_some(())
    })
    .await;
    let path = format!("{path}/a");
    patched(&c, &path, json!({"spec": {"b": 2}})).await;
    let reply = c.api().patch(&path, MERGE, json!({"spec": {"a": 51}})).await;
    invalid(
        &reply,
        &["Invalid spec.a: Invalid value: 51: failed rule: self < 10"],
    );
    place.remove(&c).await;
}

async fn names_are_escaped(c: Cluster) {
    let schema = json!({"type": "object",
    "x-kubernetes-validations": rule("self.a__dash__b == 1 && self.__namespace__ == 2 && self.x_y == 3 && self.p__dot__q == 4"),
    "properties": {
        "a-b": {"type": "integer"}, "namespace": {"type": "integer"}, "x_y": {"type": "integer"}, "p.q": {"type": "integer"},
    }});
    let (place, path) = installed_with(&c, schema).await;
    takes(
        &c,
        &place,
        &path,
        vec![json!({"a-b": 1, "namespace": 2, "x_y": 3, "p.q": 4})],
    )
    .await;
    place.remove(&c).await;
}

/// A list of short texts with these rules, so small by its schema that they may be written.
fn short_texts(rules: &[String]) -> Value {
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    object_of(json!({"l": {
        "type": "array", "maxItems": 700, "items": {"type": "string", "maxLength": 3}, "x-kubernetes-validations": rules,
    }}))
}

/// A list of so many texts.
fn texts(count: usize) -> Value {
    json!({"l": (0..count).map(|n| n.to_string()).collect::<Vec<_>>()})
}

/// What is affordable by its estimate may still be too dear: it ends when its budget is spent, to the step.
async fn one_rule_may_cost_so_much(c: Cluster) {
    for (text, most) in [
        ("self.all(x, self.all(y, x == y || x != y))", 333),
        ("self.map(x, self.map(y, y).size()).size() > 0", 276),
    ] {
        let (place, path) = installed_with(&c, short_texts(&[text.to_owned()])).await;
        let why = format!(
            "Invalid spec.l: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation \
             rules will be run due to call cost exceeds limit for rule: {text}"
        );
        refuses(&c, &place, &path, vec![(texts(most + 1), vec![why.as_str()])]).await;
        takes(&c, &place, &path, vec![texts(most)]).await;
        place.remove(&c).await;
    }
}

async fn all_rules_of_an_object_may_cost_so_much(c: Cluster) {
    // Each of them costs some 800,000 steps of 1,000,000, and all of them more than 10,000,000.
    let rules: Vec<String> = (0..14)
        .map(|n| format!("self.all(x, self.all(y, x == y || x != y)) && {n} >= 0"))
        .collect();
    let (place, path) = installed_with(&c, short_texts(&rules)).await;
    let why = "Invalid spec.l: Invalid value: \"array\": validation failed due to running out of cost budget, no further \
               validation rules will be run";
    refuses(&c, &place, &path, vec![(texts(300), vec![why])]).await;
    takes(&c, &place, &path, vec![texts(250)]).await;
    place.remove(&c).await;
}
