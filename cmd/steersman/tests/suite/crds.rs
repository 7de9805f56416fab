//! `steersman crds`, and the CRDs in the sandbox.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::json;
use steersman_harness::{fixtures, program, time};

use crate::PROGRAM;
use crate::sandbox::{api, start};

/// File names and contents of `deploy/chart/files/crds`, including its `kustomization.yaml`.
fn files(printed: &str) -> Vec<(String, String)> {
    let documents = printed.split("---\n").filter(|it| !it.is_empty());
    let file = |document: &str| {
        let name = document.lines().find_map(|line| line.strip_prefix("  name: "));
        let (plural, group) = name.and_then(|it| it.split_once('.')).expect("a name");
        (format!("{group}_{plural}.yaml"), format!("---\n{document}"))
    };
    let mut files: Vec<_> = documents.map(file).collect();
    let list: String = files.iter().flat_map(|(name, _)| ["- ", name, "\n"]).collect();
    let head = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n";
    files.push(("kustomization.yaml".to_owned(), format!("{head}{list}")));
    files
}

#[tokio::test]
async fn printed_crds_equal_deployed_crds() {
    let ended = program::run(PROGRAM, &["crds"]).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let files = files(&ended.stdout);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/chart/files/crds");
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(&folder).expect("the folder can be made");
        for (name, text) in &files {
            fs::write(folder.join(name), text).expect("the file can be written");
        }
    }
    let there = fs::read_dir(&folder).into_iter().flatten().flatten();
    let there: BTreeSet<String> = there
        .map(|it| it.file_name().to_string_lossy().into_owned())
        .collect();
    let wanted: BTreeSet<String> = files.iter().map(|(name, _)| name.clone()).collect();
    let current =
        |(name, text): &(String, String)| fs::read_to_string(folder.join(name)).is_ok_and(|it| it == *text);
    assert!(
        there == wanted && files.iter().all(current),
        "deploy/chart/files/crds is out of date: run `UPDATE=1 cargo test -p steersman --test suite crds` and commit it"
    );
}

/// The files of `deploy/base` are those that its kustomization lists: `deploy/render` writes both.
#[tokio::test]
async fn manifests_are_the_crds_and_the_objects_of_the_base() {
    let crds = program::run(PROGRAM, &["crds"]).await.stdout;
    let ended = program::run(PROGRAM, &["manifests"]).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let others = ended.stdout.strip_prefix(&crds).expect("the CRDs first");
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/base");
    let mut length = 0;
    for folder in [base.clone(), base.join("roles")] {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let name = entry.file_name();
            // The list of the files, and the values that they were rendered with.
            if entry.path().is_dir() || name == "kustomization.yaml" || name == "values.yaml" {
                continue;
            }
            let text = format!("---\n{}", fs::read_to_string(entry.path()).expect("a file"));
            assert!(others.contains(&text), "no {}", name.display());
            length += text.len();
        }
    }
    assert_eq!(others.len(), length, "nothing else is printed");
    let first = others.find("kind: Namespace").expect("a namespace");
    assert!(
        others
            .find("namespace: steersman-system")
            .is_some_and(|it| first < it)
    );
}

#[tokio::test]
async fn crds_help_shows_the_kubectl_command() {
    let ended = program::run(PROGRAM, &["crds", "--help"]).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(
        ended.stdout.contains("steersman crds | kubectl apply -f -\n"),
        "{}",
        ended.stdout
    );
}

#[tokio::test]
async fn appreplicaset_becomes_ready_in_the_sandbox() {
    let program = start(&[]).await;
    let api = api(&program).await;
    let sets = "/apis/appcontroller.k8s.io/v1alpha1/namespaces/default/appreplicasets";
    let set = json!({
        "apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppReplicaSet", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": fixtures::template()},
    });
    api.post(sets, set).await.expect(201);
    let path = format!("{sets}/web");
    let ready = time::eventually(time::ANSWER, async || {
        let status = &api.get(&path).await.json()["status"];
        (status["readyReplicas"] == 3).then_some(())
    });
    assert!(
        ready.await.is_some(),
        "{}\n{}",
        api.get(&path).await,
        program.log()
    );
}
