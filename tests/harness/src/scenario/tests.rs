use std::{fs, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;

use super::{
    Action, File,
    compare::{self, Mode},
    files::Files,
    normalize,
    parse::parse,
    run,
    template::Bindings,
};
use crate::cluster;

const TEXT: &str = r#"# A file.

## one
# A comment.
since 1.27
needs kube-controller-manager
managedFields
until anonymous PUT /a/{{ns}}?dryRun=All
content-type: application/yaml
> a: |
>   b
>
ignore items,metadata.generation
differs a reason
< 201
< warning: 299 - "w"
< {"a":"{{uid1}}"}
WATCH w /a?watch=1
< 200
EVENT w
< {"type":"ADDED"}
END w
WEBHOOK h Mutating
> {"name":"a.example.com"}
ANSWER h /a
> {"allowed":true}
REVIEW h
< {"request":{}}
CALLS h
< []
RUN kubectl get pods -A
only /kind /items/name=a
< failed
"#;

fn parsed(text: &str) -> File {
    parse("dir/file", text).expect("valid")
}

/// Runs a scenario that fails, and returns the message.
async fn failure(steps: &str) -> String {
    let running = cluster::start_sandbox().await.expect("a sandbox");
    let file = parsed(&format!("## a\n{steps}"));
    let check = run::check(running.cluster.clone(), &file.name, &file.scenarios[0]);
    let panic = AssertUnwindSafe(check).catch_unwind().await;
    let panic = panic.expect_err("a failure");
    panic.downcast_ref::<String>().expect("a message").clone()
}

/// The differences of two bodies of one release.
fn differences(bindings: &mut Bindings, recorded: &str, actual: &str) -> Vec<String> {
    compare::body(bindings, Mode::Same, recorded, actual, &[])
}

#[test]
fn written_file_is_parsed_to_the_same() {
    let file = parsed(TEXT);
    assert_eq!(file.to_string(), TEXT);
    let step = &file.scenarios[0].steps[0];
    let Action::Request(request) = &step.action else {
        panic!("{step:?}");
    };
    assert_eq!((step.line, request.body.as_str()), (8, "a: |\n  b\n"));
}

#[test]
fn malformed_lines_are_named() {
    for (text, problem) in [
        ("## a\nFETCH /a", "2: \"FETCH\" is not a step"),
        (
            "## a\nWEBHOOK h",
            "2: WEBHOOK needs a kind: Mutating or Validating",
        ),
        ("## a\nGET", "2: GET needs a path"),
        ("## a\nGET /a b", "2: \"b\" follows the step"),
        ("## a\nGET /a\n< ok", "3: \"ok\" is not an HTTP status"),
        ("## a\nsince x", "2: \"x\" is not a version like 1.27"),
        ("## a\n< 200", "2: expected a step first"),
        ("## a\nEVENT w\n> {}", "3: the step is not a request"),
        ("## a\n", "2: the scenario \"a\" has no step"),
        ("## a\nGET /a\n## a", "3: the scenario \"a\" exists already"),
        ("GET /a", "1: expected a comment or a scenario (## name)"),
    ] {
        let error = parse("dir/file", &format!("{text}\n")).expect_err("malformed");
        assert_eq!(error.to_string(), format!("dir/file.http, line {problem}"));
    }
}

#[test]
fn malformed_file_is_named_with_its_line() {
    let root = tempfile::tempdir().expect("a directory");
    fs::create_dir(root.path().join("dir")).expect("a directory");
    fs::write(root.path().join("dir/file.http"), "## a\nGET /a\n< ok\n").expect("a file");
    let error = Files::load(root.path()).err().expect("malformed").to_string();
    assert_eq!(error, "dir/file.http, line 3: \"ok\" is not an HTTP status");
}

#[tokio::test]
async fn mismatch_names_file_and_step_and_shows_both_answers() {
    let message = failure("GET /version\n< 200\nGET /api\n< 201\n< {\"kind\":\"Other\"}\n").await;
    for part in [
        "dir/file.http, line 4: GET /api\n",
        "recorded status 201, got 200",
        ".kind: recorded \"Other\", got \"APIVersions\"",
        "--- recorded\n201\n{\n  \"kind\": \"Other\"\n}",
        "--- got\n200\n{",
    ] {
        assert!(message.contains(part), "no {part:?} in\n{message}");
    }
}

#[tokio::test]
async fn failed_webhook_step_is_named() {
    for (steps, problem) in [
        ("REVIEW h\n", "line 2: REVIEW h: no step starts the webhook \"h\""),
        (
            "WEBHOOK h Validating\n> {\n",
            "line 2: WEBHOOK h: \"{\" is not JSON",
        ),
        (
            "WEBHOOK h Validating\n> {\"rules\":[{\"resources\":[\"secrets\"]}]}\nREVIEW h\n",
            "line 4: REVIEW h: the webhook was not called",
        ),
    ] {
        let message = failure(steps).await;
        assert!(message.contains(problem), "no {problem:?} in\n{message}");
    }
}

#[test]
fn list_of_other_length_is_a_difference() {
    for (recorded, actual, difference) in [
        (r#"{"a":[1,2]}"#, r#"{"a":[1]}"#, ".a: recorded 2 elements, got 1"),
        (r#"{"a":[1]}"#, r#"{"a":[1,2]}"#, ".a: recorded 1 elements, got 2"),
    ] {
        assert_eq!(
            differences(&mut Bindings::default(), recorded, actual),
            [difference]
        );
    }
}

#[test]
fn variable_binds_once_and_then_compares() {
    let mut bindings = Bindings::default();
    let recorded = r#"{"uid":"{{uid1}}"}"#;
    assert!(differences(&mut bindings, recorded, r#"{"uid":"x"}"#).is_empty());
    assert!(differences(&mut bindings, recorded, r#"{"uid":"x"}"#).is_empty());
    assert_eq!(
        differences(&mut bindings, recorded, r#"{"uid":"y"}"#),
        [r#".uid: recorded "{{uid1}}", got "y""#]
    );
    assert_eq!(bindings.substitute("/{{uid1}}/z"), Ok("/x/z".to_owned()));
    assert!(bindings.substitute("/{{uid2}}").is_err());
}

#[test]
fn two_variables_of_a_distinct_class_have_different_values() {
    let mut bindings = Bindings::default();
    assert!(bindings.matches("{{version1}}", "7"));
    assert!(!bindings.matches("{{version2}}", "7"));
    assert!(bindings.matches("{{list1}}", "7"));
}

#[test]
fn times_match_by_precision() {
    let mut bindings = Bindings::default();
    assert!(bindings.matches("{{time}}", "2020-01-02T03:04:05Z"));
    assert!(!bindings.matches("{{time}}", "2020-01-02T03:04:05.000006Z"));
    assert!(bindings.matches("{{microtime}}", "2020-01-02T03:04:05.000006Z"));
    assert!(!bindings.matches("{{time}}", "yesterday"));
}

#[test]
fn empty_values_are_missing_fields() {
    let same = |recorded, actual| differences(&mut Bindings::default(), recorded, actual).is_empty();
    assert!(same(r#"{"a":null}"#, r#"{"b":[],"c":""}"#));
    assert!(!same(r#"{"a":{}}"#, "{}"));
    assert!(!same("{}", r#"{"a":false}"#));
}

#[test]
fn other_release_may_lack_and_add_fields() {
    let other = |recorded: &str, actual: &str| {
        compare::body(&mut Bindings::default(), Mode::Other, recorded, actual, &[])
    };
    assert!(other(r#"{"a":1,"b":2}"#, r#"{"a":1,"c":3}"#).is_empty());
    assert_eq!(other(r#"{"a":1}"#, r#"{"a":2}"#), [".a: recorded 1, got 2"]);
}

#[test]
fn causes_are_a_set_and_messages_are_free() {
    let failure = |causes: &str, message: &str| {
        format!(
            r#"{{"kind":"Status","status":"Failure","reason":"Invalid","message":"{message}","details":{{"causes":[{causes}]}}}}"#
        )
    };
    let (a, b) = (
        r#"{"reason":"r","field":"a","message":"x"}"#,
        r#"{"reason":"r","field":"b"}"#,
    );
    let again = r#"{"reason":"r","field":"a","message":"y"}"#;
    let mut bindings = Bindings::default();
    let recorded = failure(&format!("{a},{b}"), "m");
    assert!(
        differences(
            &mut bindings,
            &recorded,
            &failure(&format!("{b},{a},{again}"), "n")
        )
        .is_empty()
    );
    assert!(!differences(&mut bindings, &recorded, &failure(b, "m")).is_empty());
    let conflict = |message: &str| failure("", message).replace("Invalid", "Conflict");
    assert!(!differences(&mut bindings, &conflict("m"), &conflict("n")).is_empty());
}

#[test]
fn recording_replaces_values_of_the_server_only() {
    let mut bindings = Bindings::default();
    bindings.bind("ns", "test-00001");
    let uid = "12345678-1234-1234-1234-123456789012";
    let answer = format!(
        r#"{{"metadata":{{"generateName":"a-","name":"a-x2x4z","namespace":"test-00001","uid":"{uid}","resourceVersion":"7",
        "creationTimestamp":"2020-01-02T03:04:05Z","managedFields":[]}},"spec":{{"time":"2001-01-01T00:00:00Z","port":7}}}}"#
    );
    let recorded = normalize::body(
        &mut bindings,
        "2001-01-01T00:00:00Z",
        &answer,
        false,
        &["spec.port".to_owned()],
    );
    assert_eq!(
        recorded,
        r#"{"metadata":{"creationTimestamp":"{{created1}}","generateName":"a-","name":"{{name1}}","namespace":"{{ns}}","resourceVersion":"{{version1}}","uid":"{{uid1}}"},"spec":{"time":"2001-01-01T00:00:00Z"}}"#
    );
    assert!(differences(&mut bindings, &recorded, &answer.replace(r#","port":7"#, "")).is_empty());
}
