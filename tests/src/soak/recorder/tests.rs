//! Commits are attributed to requests, and violations are found.

use http::Method;
use serde_json::{Value, json};

use super::*;

const GC: &str = "steersman/generic-garbage-collector";
const X: &str = "/api/v1/namespaces/n/configmaps/x";

/// A record with the `ConfigMap` `x` and its owner, and one process.
struct Run {
    recorder: Recorder,
    process: usize,
}

fn object(name: &str, owner: Option<&str>) -> Value {
    let references: Vec<Value> = owner
        .iter()
        .map(|it| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": it, "uid": it}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "n", "uid": name, "ownerReferences": references},
    })
}

fn bytes(object: &Value) -> Bytes {
    object.to_string().into()
}

impl Run {
    fn new() -> Self {
        let run = Self {
            recorder: Recorder::new(Duration::from_mins(1)),
            process: 0,
        };
        run.commit(1, "owner", None, Some(&object("owner", None)));
        run.commit(2, "x", None, Some(&object("x", Some("owner"))));
        Self {
            process: run.recorder.started(),
            ..run
        }
    }

    fn commit(&self, revision: u64, name: &str, before: Option<&Value>, after: Option<&Value>) {
        self.recorder.change(Change {
            revision,
            collection: "configmaps".to_owned(),
            key: format!("n/{name}"),
            uid: name.to_owned(),
            before: before.map(bytes),
            after: after.map(bytes),
        });
    }

    /// Sends a request of the garbage collector with preconditions.
    fn send(&self, method: Method, body: &Value) -> Request {
        let request = http::Request::builder()
            .method(method)
            .uri(X)
            .header("user-agent", GC);
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        self.recorder.sent(self.process, &parts, &bytes(body))
    }

    /// The API server executes a request.
    fn execute(&self, request: &Request, answer: &Value) {
        self.recorder.executed(&Executed {
            number: request.number,
            sent: request.at,
            verb: request.verb,
            code: 200,
            body: answer.to_string().as_bytes(),
        });
    }

    fn delete(&self) -> Request {
        self.send(Method::DELETE, &json!({"preconditions": {"uid": "x"}}))
    }

    /// Evaluates all facts, and returns the broken invariants.
    fn found(&self) -> Vec<&'static str> {
        self.recorder.state().evaluate(Duration::MAX);
        let violations = self.recorder.take_violations();
        violations.iter().map(|it| it.invariant).collect()
    }
}

#[test]
fn removal_belongs_to_the_request_that_received_its_uid() {
    for response_is_first in [true, false] {
        let run = Run::new();
        let request = run.delete();
        let removed = || run.commit(3, "x", Some(&object("x", Some("owner"))), None);
        let answer = json!({"kind": "Status", "status": "Success", "details": {"name": "x", "uid": "x"}});
        if response_is_first {
            run.execute(&request, &answer);
            removed();
        } else {
            removed();
            run.execute(&request, &answer);
        }
        run.recorder.answered(&request, None);
        assert_eq!(run.found(), ["S1"], "{response_is_first}");
        assert_eq!(run.recorder.counts().own_commits, 1);
    }
}

#[test]
fn removal_without_a_request_is_allowed() {
    let run = Run::new();
    let request = run.delete();
    run.commit(3, "x", Some(&object("x", Some("owner"))), None);
    run.recorder.answered(&request, Some(404));
    assert!(run.found().is_empty());
    assert_eq!(run.recorder.counts().own_commits, 0);
}

#[test]
fn commit_belongs_to_the_request_with_its_revision() {
    let run = Run::new();
    let request = run.send(
        Method::PATCH,
        &json!({"metadata": {"uid": "x", "ownerReferences": []}}),
    );
    let before = object("x", Some("owner"));
    let mut after = object("x", None);
    run.commit(3, "x", Some(&before), Some(&after));
    after["metadata"]["resourceVersion"] = json!("3");
    run.execute(&request, &after);
    run.recorder.answered(&request, Some(200));
    // The reference to an existing owner was removed.
    assert_eq!(run.found(), ["S1"]);
}

#[test]
fn unchanged_object_belongs_to_its_earlier_request() {
    let run = Run::new();
    let request = run.send(Method::PATCH, &json!({"metadata": {"uid": "x"}}));
    let mut after = object("x", Some("owner"));
    after["metadata"]["resourceVersion"] = json!("2");
    run.execute(&request, &after);
    run.recorder.answered(&request, Some(200));
    assert!(run.found().is_empty());
    assert_eq!(run.recorder.counts().own_commits, 0);
}

#[test]
fn response_is_evaluated_after_its_commit() {
    let run = Run::new();
    let request = run.send(Method::PATCH, &json!({"metadata": {"uid": "x"}}));
    let mut after = object("x", Some("owner"));
    after["metadata"]["resourceVersion"] = json!("3");
    run.execute(&request, &after);
    run.recorder.answered(&request, Some(200));
    // etcd has not reported the commit.
    assert!(run.found().is_empty());
    assert_eq!(run.recorder.counts().own_commits, 0);
    run.commit(3, "x", Some(&object("x", Some("owner"))), Some(&after));
    assert!(run.found().is_empty());
    assert_eq!(run.recorder.counts().own_commits, 1);
    assert!(run.recorder.state().entries.is_empty());
}

#[test]
fn report_has_the_history_of_the_object() {
    let run = Run::new();
    let request = run.delete();
    run.recorder.fault(Class::F04, "process 0");
    run.commit(3, "x", Some(&object("x", Some("owner"))), None);
    run.execute(&request, &json!({"kind": "Status", "details": {"uid": "x"}}));
    run.recorder.state().evaluate(Duration::MAX);
    let violations = run.recorder.take_violations();
    let report = run.recorder.report(&violations[0]).join("\n");
    for text in [
        "F04 process 0",
        "configmaps n/x:",
        "revision 3, delete by",
        "removed",
    ] {
        assert!(report.contains(text), "{text}: {report}");
    }
}
