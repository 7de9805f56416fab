//! The real `kubectl`. Every command works without `--validate=false`, and prints no warning.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use coxswain_tests::kubectl::Kubectl;
use coxswain_tests::{Cluster, Need, Test, test};

use crate::support::soon;

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(api_resources_lists_resources),
        test!(get_all_lists_all_namespaces),
        test!(apply_reports_created_unchanged_and_configured),
        test!(apply_removes_dropped_fields),
        test!(apply_reports_unknown_field).since(1, 27),
        test!(create_of_existing_object_fails),
        test!(create_subcommands_create_objects),
        test!(get_supports_output_formats),
        test!(get_watch_prints_changes),
        test!(describe_prints_object),
        test!(patch_supports_all_types),
        test!(label_annotate_and_scale_update_object),
        test!(wait_returns_on_field_and_deletion),
        test!(delete_cascade_sets_finalizer),
        test!(custom_resources_are_found_by_short_name),
        test!(quota_is_described_and_enforced).needs(Need::Kcm),
    ];
    tests.into_iter().map(|test| test.needs(Need::Kubectl)).collect()
}

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {team: blue}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "nginx:1", ports: [{containerPort: 80}]}
      - {name: side, image: "side:1"}
"#;

async fn kubectl(c: &Cluster) -> Kubectl {
    Kubectl::new(c, &c.namespace().await)
}

fn apply(k: &Kubectl, manifest: &str) -> String {
    k.run_with(&["apply", "-f", "-"], manifest).ok()
}

fn create(k: &Kubectl, manifest: &str) -> String {
    k.run_with(&["create", "-f", "-"], manifest).ok()
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

fn field(k: &Kubectl, object: &str, path: &str) -> String {
    k.run(&format!("get {object} -o jsonpath={{{path}}}")).ok()
}

/// Asserts the output of a call: `arguments => line`.
#[track_caller]
fn prints(k: &Kubectl, call: &str) {
    let (arguments, line) = call.split_once(" => ").expect("arguments and output");
    assert_eq!(k.run(arguments).ok().trim_end(), line, "{arguments}");
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

fn web(k: &Kubectl, path: &str) -> String {
    field(k, "deployment/web", path)
}

async fn api_resources_lists_resources(c: Cluster) {
    let table = kubectl(&c).await.run("api-resources").ok();
    for row in [
        "deployments deploy apps/v1 true Deployment",
        "pods po v1 true Pod",
        "leases coordination.k8s.io/v1 true Lease",
    ] {
        let found = table
            .lines()
            .any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == row);
        assert!(found, "no row {row:?} in\n{table}");
    }
}

async fn get_all_lists_all_namespaces(c: Cluster) {
    let k = kubectl(&c).await;
    create(&k, DEPLOYMENT);
    let all = k.run("get all -A").ok();
    assert_contains(&all, &["service/kubernetes"]);
    assert_contains(&all, &["deployment.apps/web"]);
}

async fn apply_reports_created_unchanged_and_configured(c: Cluster) {
    let k = kubectl(&c).await;
    assert_eq!(apply(&k, DEPLOYMENT), "deployment.apps/web created\n");
    let version = web(&k, ".metadata.resourceVersion");
    assert_eq!(apply(&k, DEPLOYMENT), "deployment.apps/web unchanged\n");
    assert_eq!(web(&k, ".metadata.resourceVersion"), version);
    assert_eq!(
        apply(&k, &DEPLOYMENT.replace("nginx:1", "nginx:2")),
        "deployment.apps/web configured\n"
    );
    assert_eq!(
        web(&k, ".spec.template.spec.containers[*].image"),
        "nginx:2 side:1"
    );
    assert_eq!(web(&k, ".metadata.generation"), "2");
}

async fn apply_removes_dropped_fields(c: Cluster) {
    let k = kubectl(&c).await;
    apply(&k, DEPLOYMENT);
    let _ = k.run("label deployment/web kept=yes").ok();
    let without = DEPLOYMENT
        .replace("      - {name: side, image: \"side:1\"}\n", "")
        .replace("team: blue", "");
    assert_eq!(apply(&k, &without), "deployment.apps/web configured\n");
    assert_eq!(web(&k, ".spec.template.spec.containers[*].name"), "main");
    assert_eq!(web(&k, ".metadata.labels"), r#"{"kept":"yes"}"#);
}

async fn apply_reports_unknown_field(c: Cluster) {
    let k = kubectl(&c).await;
    let wrong = DEPLOYMENT.replace("  replicas: 2", "  replicsa: 2");
    let error = k.run_with(&["apply", "-f", "-"], &wrong).refused();
    assert!(error.contains(r#"unknown field "spec.replicsa""#), "{error}");
    let error = k.run("get deployment/web").refused();
    assert!(error.contains(r#"deployments.apps "web" not found"#), "{error}");
}

async fn create_of_existing_object_fails(c: Cluster) {
    let k = kubectl(&c).await;
    assert_eq!(create(&k, DEPLOYMENT), "deployment.apps/web created\n");
    let error = k.run_with(&["create", "-f", "-"], DEPLOYMENT).refused();
    assert_contains(&error, &["(AlreadyExists)"]);
}

async fn create_subcommands_create_objects(c: Cluster) {
    let k = kubectl(&c).await;
    for line in [
        "create configmap settings --from-literal=a=1 => configmap/settings created",
        "create secret generic keys --from-literal=k=v => secret/keys created",
        "create deployment web --image=nginx --replicas=3 --port=80 => deployment.apps/web created",
        "create service clusterip web --tcp=80:8080 => service/web created",
        "create serviceaccount robot => serviceaccount/robot created",
        "create role reader --verb=get --resource=pods => role.rbac.authorization.k8s.io/reader created",
        "create job once --image=busybox -- date => job.batch/once created",
        "run alone --image=nginx => pod/alone created",
        "expose deployment web --name=front --port=80 => service/front exposed",
    ] {
        prints(&k, line);
    }
    assert_eq!(field(&k, "configmap/settings", ".data"), r#"{"a":"1"}"#);
    assert_eq!(field(&k, "secret/keys", ".data.k"), "dg==");
    assert_eq!(web(&k, ".spec.replicas"), "3");
    assert_eq!(
        web(&k, ".spec.template.spec.containers[0].ports[0].containerPort"),
        "80"
    );
    assert_eq!(field(&k, "service/web", ".spec.ports[0].targetPort"), "8080");
    assert_eq!(
        field(&k, "job/once", ".spec.template.spec.containers[0].command"),
        r#"["date"]"#
    );
}

async fn get_supports_output_formats(c: Cluster) {
    let k = kubectl(&c).await;
    create(&k, DEPLOYMENT);
    let columns = |text: &str| {
        text.lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let plain = k.run("get deployments").ok();
    assert_eq!(
        columns(&plain),
        ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    );
    assert_contains(&plain, &["0/2"]);
    let wide = k.run("get deployments -o wide").ok();
    assert_contains(&wide, &["nginx:1,side:1", "app=web"]);
    let yaml = k.run("get deployment/web -o yaml").ok();
    assert!(
        yaml.starts_with("apiVersion: apps/v1\nkind: Deployment\n"),
        "{yaml}"
    );
    prints(&k, "get deployments -o name => deployment.apps/web");
    prints(&k, "get deployments -l team=blue -o name => deployment.apps/web");
    prints(&k, "get deployments -l team!=blue -o name => ");
    prints(
        &k,
        "get deployments --field-selector=metadata.name=web -o name => deployment.apps/web",
    );
    let list = k.run("get deployments -o json").ok();
    assert_contains(&list, &[r#""kind": "List""#, r#""kind": "Deployment""#]);
}

async fn get_watch_prints_changes(c: Cluster) {
    let k = kubectl(&c).await;
    let _ = k.run_with(&["create", "-f", "-"], &config_map("first")).ok();
    let arguments = [
        "get",
        "configmaps",
        "-w",
        "-o",
        "name",
        "--field-selector=metadata.name!=kube-root-ca.crt",
    ];
    let mut child = k
        .command(&arguments)
        .stderr(Stdio::null())
        .spawn()
        .expect("kubectl starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert_eq!(next(), "configmap/first");
    let _ = k.run_with(&["create", "-f", "-"], &config_map("second")).ok();
    assert_eq!(next(), "configmap/second");
    let _ = k.run("delete configmap/second").ok();
    assert_eq!(next(), "configmap/second");
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

async fn describe_prints_object(c: Cluster) {
    let k = kubectl(&c).await;
    create(&k, DEPLOYMENT);
    let text = k.run("describe deployment/web").ok();
    assert_contains(
        &text,
        &[
            "Name:",
            "web",
            "2 desired",
            "RollingUpdate",
            "25% max unavailable, 25% max surge",
            "nginx:1",
        ],
    );
}

async fn patch_supports_all_types(c: Cluster) {
    let k = kubectl(&c).await;
    create(&k, DEPLOYMENT);
    let patch = |kind: &str, patch: &str| {
        k.run_with(&["patch", "deployment/web", "--type", kind, "-p", patch], "")
            .ok()
    };
    let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:2"}]}}}}"#;
    assert_eq!(patch("strategic", strategic), "deployment.apps/web patched\n");
    assert_eq!(
        web(&k, ".spec.template.spec.containers[*].image"),
        "nginx:1 side:2"
    );
    assert_eq!(
        patch("merge", r#"{"metadata":{"labels":{"team":null}}}"#),
        "deployment.apps/web patched\n"
    );
    assert_eq!(web(&k, ".metadata.labels"), "");
    let json = r#"[{"op":"replace","path":"/spec/replicas","value":7}]"#;
    assert_eq!(patch("json", json), "deployment.apps/web patched\n");
    assert_eq!(web(&k, ".spec.replicas"), "7");
    assert_eq!(patch("json", json), "deployment.apps/web patched (no change)\n");
}

async fn label_annotate_and_scale_update_object(c: Cluster) {
    let k = kubectl(&c).await;
    create(&k, DEPLOYMENT);
    prints(&k, "label deployment/web a=b => deployment.apps/web labeled");
    prints(
        &k,
        "annotate deployment/web note=x => deployment.apps/web annotated",
    );
    prints(
        &k,
        "scale deployment/web --replicas=9 => deployment.apps/web scaled",
    );
    assert_eq!(web(&k, ".spec.replicas"), "9");
    let error = k
        .run("scale deployment/web --current-replicas=1 --replicas=2")
        .refused();
    assert_contains(&error, &["Expected replicas to be 1, was 9"]);
    prints(&k, "label deployment/web a- => deployment.apps/web unlabeled");
    assert_eq!(web(&k, ".metadata.labels"), r#"{"team":"blue"}"#);
}

async fn wait_returns_on_field_and_deletion(c: Cluster) {
    let k = kubectl(&c).await;
    create(&k, DEPLOYMENT);
    let met = k
        .run("wait deployment/web --for=jsonpath={.spec.replicas}=2 --timeout=20s")
        .ok();
    assert_eq!(met, "deployment.apps/web condition met\n");
    let error = k
        .run("wait deployment/web --for=condition=Available --timeout=1s")
        .refused();
    assert_contains(&error, &["timed out waiting for the condition"]);
    let mut waiting = k
        .command(&["wait", "deployment/web", "--for=delete", "--timeout=20s"])
        .spawn()
        .expect("kubectl starts");
    let _ = k.run("delete deployment/web").ok();
    assert!(waiting.wait().expect("it ends").success());
}

async fn delete_cascade_sets_finalizer(c: Cluster) {
    let k = kubectl(&c).await;
    for (cascade, finalizers) in [
        ("foreground", r#"["foregroundDeletion"]"#),
        ("orphan", r#"["orphan"]"#),
    ] {
        create(&k, &DEPLOYMENT.replace("name: web", &format!("name: {cascade}")));
        let printed = k
            .run(&format!(
                "delete deployment/{cascade} --cascade={cascade} --wait=false"
            ))
            .ok();
        assert!(
            printed.starts_with(&format!(r#"deployment.apps "{cascade}" deleted"#)),
            "{printed}"
        );
        assert_eq!(
            field(&k, &format!("deployment/{cascade}"), ".metadata.finalizers"),
            finalizers,
            "no garbage collector runs"
        );
    }
    create(&k, DEPLOYMENT);
    let printed = k.run("delete deployment/web --cascade=background").ok();
    assert!(
        printed.starts_with(r#"deployment.apps "web" deleted"#),
        "{printed}"
    );
    let error = k.run("get deployment/web").refused();
    assert_contains(&error, &["(NotFound)"]);
}

async fn custom_resources_are_found_by_short_name(c: Cluster) {
    let k = kubectl(&c).await.with_cache_of_its_own();
    let group = "kubectl-test.example.com";
    let crd = format!(
        r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: boats.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: boats, singular: boat, kind: Boat, shortNames: [bt]}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
    subresources: {{status: {{}}, scale: {{specReplicasPath: .spec.oars, statusReplicasPath: .status.oars}}}}
    additionalPrinterColumns: [{{name: Oars, type: integer, jsonPath: .spec.oars}}]
"
    );
    apply(&k, &crd);
    let _ = k
        .run(&format!(
            "wait crd/boats.{group} --for=condition=Established --timeout=20s"
        ))
        .ok();
    // A real server reports Established before the resource is in discovery.
    soon("boats are in discovery", async || {
        let groups = c.read("/apis").await;
        let groups = groups["groups"].as_array().cloned().unwrap_or_default();
        groups.iter().find(|it| it["name"] == group)?;
        let listed = c.api().get(&format!("/apis/{group}/v1")).await;
        let listed = (listed.status == 200).then(|| listed.json())?;
        (!listed["resources"].as_array()?.is_empty()).then_some(())
    })
    .await;
    apply(
        &k,
        &format!(
            "apiVersion: {group}/v1
kind: Boat
metadata: {{name: eight}}
spec: {{oars: 8}}
"
        ),
    );
    let table = k.run("get bt").ok();
    let cells: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(cells[0], ["NAME", "OARS"]);
    assert_eq!(cells[1], ["eight", "8"]);
    assert!(k.run("scale boat/eight --replicas=9").ok().contains("scaled"));
    assert_eq!(field(&k, "boat/eight", ".spec.oars"), "9");
    // kubectl may warn that a CRD is not namespaced.
    let deleted = k.run(&format!("delete crd/boats.{group}"));
    assert!(deleted.success, "{deleted:?}");
}

async fn quota_is_described_and_enforced(c: Cluster) {
    let k = kubectl(&c).await;
    let _ = k.run("create quota q --hard=configmaps=1,pods=3").ok();
    let described = soon("the quota is counted", async || {
        let text = k.run("describe quota q").ok();
        text.contains("configmaps  0").then_some(text)
    })
    .await;
    let rows: Vec<Vec<&str>> = described
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    for row in [["configmaps", "0", "1"], ["pods", "0", "3"]] {
        assert!(
            rows.iter().any(|found| found[..] == row),
            "no {row:?} in\n{described}"
        );
    }
    let _ = k.run("create configmap a").ok();
    let refused = soon("the quota is enforced", async || {
        let printed = k.run("create configmap b --dry-run=server");
        (!printed.success).then_some(printed.err)
    })
    .await;
    assert!(
        refused.contains("exceeded quota: q, requested: configmaps=1"),
        "{refused}"
    );
}
