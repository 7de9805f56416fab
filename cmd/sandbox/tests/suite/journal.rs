//! The journal of commits.

use serde_json::{Value, json};
use steersman_sandbox::{Commit, Sandbox};

use crate::client::{MAPS, builder, create, delete, get, patch, post, version};

fn sandbox() -> Sandbox {
    builder().journal(true).start().expect("a sandbox")
}

fn json(version: Option<&bytes::Bytes>) -> Value {
    version.map_or(Value::Null, |json| serde_json::from_slice(json).expect("JSON"))
}

fn brief(commits: &[Commit]) -> Vec<String> {
    let verb = |it: &Commit| match (&it.before, &it.after) {
        (None, Some(_)) => "create",
        (Some(_), Some(_)) => "update",
        (Some(_), None) => "delete",
        (None, None) => "nothing",
    };
    let brief = |it: &Commit| format!("{} {} {}", verb(it), it.collection, it.key);
    commits.iter().map(brief).collect()
}

#[tokio::test(start_paused = true)]
async fn commits_have_both_versions_as_stored() {
    let sandbox = sandbox();
    let service = sandbox.service();
    assert_eq!(
        sandbox.take_commits().last().map(|it| it.revision),
        Some(sandbox.revision())
    );
    create(&service, "a").await;
    let path = format!("{MAPS}/a");
    let (_, first) = get(&service, &path).await;
    let (_, second) = patch(&service, &path, &json!({"data": {"k": "v"}})).await;
    // A write that changes nothing is not a commit.
    patch(&service, &path, &json!({"data": {"k": "v"}})).await;
    delete(&service, &path).await;

    let commits = sandbox.take_commits();
    assert_eq!(
        brief(&commits),
        [
            "create configmaps default/a",
            "update configmaps default/a",
            "delete configmaps default/a"
        ]
    );
    let versions = |it: &Commit| (json(it.before.as_ref()), json(it.after.as_ref()));
    let expected = [
        (Value::Null, first.clone()),
        (first.clone(), second.clone()),
        (second, Value::Null),
    ];
    assert_eq!(commits.iter().map(versions).collect::<Vec<_>>(), expected);
    let revisions: Vec<u64> = commits.iter().map(|it| it.revision).collect();
    let start = version(&first);
    assert_eq!(revisions, [start, start + 1, start + 2]);
    assert_eq!(sandbox.take_commits(), []);
}

#[tokio::test(start_paused = true)]
async fn commits_of_internal_controllers_are_complete() {
    let sandbox = sandbox();
    let service = sandbox.service();
    let before = sandbox.take_commits().last().expect("initial objects").revision;
    post(
        &service,
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "n"}}),
    )
    .await;
    post(
        &service,
        "/api/v1/namespaces/n/configmaps",
        &json!({"metadata": {"name": "m"}}),
    )
    .await;
    delete(&service, "/api/v1/namespaces/n").await;
    let commits = sandbox.take_commits();
    let expected: Vec<u64> = (before + 1..=sandbox.revision()).collect();
    assert_eq!(commits.iter().map(|it| it.revision).collect::<Vec<_>>(), expected);
    let brief = brief(&commits);
    for change in [
        "create serviceaccounts n/default",
        "delete serviceaccounts n/default",
        "delete configmaps n/m",
        "delete namespaces n",
    ] {
        assert!(brief.iter().any(|it| it == change), "{change}: {brief:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn fork_starts_with_an_empty_journal() {
    let sandbox = sandbox();
    create(&sandbox.service(), "a").await;
    let fork = sandbox.fork();
    create(&fork.service(), "b").await;
    assert_eq!(brief(&fork.take_commits()), ["create configmaps default/b"]);
    let own = brief(&sandbox.take_commits());
    assert_eq!(
        own.last().map(String::as_str),
        Some("create configmaps default/a")
    );
}

#[tokio::test(start_paused = true)]
async fn import_is_not_a_commit() {
    let sandbox = sandbox();
    let _ = sandbox.take_commits();
    sandbox.import(&sandbox.export()).expect("a snapshot");
    assert_eq!(sandbox.take_commits(), []);
}

#[tokio::test(start_paused = true)]
async fn journal_is_disabled_by_default() {
    let sandbox = builder().start().expect("a sandbox");
    create(&sandbox.service(), "a").await;
    assert_eq!(sandbox.take_commits(), []);
}
