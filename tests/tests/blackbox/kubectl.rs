//! The real `kubectl`: what people type. Every command works without `--validate=false`, and prints no warning.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use coxswain_tests::kubectl::Kubectl;
use coxswain_tests::{Cluster, Need, Test, test};

use crate::support::soon;

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(api_resources_names_what_is_served),
        test!(get_all_everywhere),
        test!(apply_creates_then_leaves_then_configures),
        test!(apply_removes_what_the_manifest_no_longer_has),
        test!(apply_names_an_unknown_field).since(1, 27),
        test!(create_from_a_file_refuses_a_second_one),
        test!(create_without_a_file),
        test!(get_in_every_output_format),
        test!(get_follows_changes),
        test!(describe_shows_the_object),
        test!(patch_in_all_three_ways),
        test!(label_annotate_and_scale),
        test!(wait_for_a_field_and_for_deletion),
        test!(delete_cascades_set_the_finalizer_and_it_stays),
        test!(custom_resources_by_short_name),
        test!(quota_is_shown_and_refuses).needs(Need::Kcm),
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

async fn api_resources_names_what_is_served(c: Cluster) {
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

async fn get_all_everywhere(c: Cluster) {
    let k = kubectl(&c).await;
    create(&k, DEPLOYMENT);
    let all = k.run("get all -A").ok();
    assert!(all.contains("service/kubernetes"), "{all}");
    assert!(all.contains("deployment.apps/web"), "{all}");
}

async fn apply_creates_then_leaves_then_configures(c: Cluster) {
    let k = kubectl(&c).await;
    assert_eq!(apply(&k, DEPLOYMENT), "deployment.apps/web created\n");
    let version = field(&k, "deployment/web", ".metadata.resourceVersion");
    assert_eq!(apply(&k, DEPLOYMENT), "deployment.apps/web unchanged\n");
    assert_eq!(field(&k, "deployment/web", ".metadata.resourceVersion"), version);
    assert_eq!(
        apply(&k, &DEPLOYMENT.replace("nginx:1", "nginx:2")),
        "deployment.apps/web configured\n"
    );
    assert_eq!(
        field(&k, "deployment/web", ".spec.template.spec.containers[*].image"),
        "nginx:2 side:1"
    );
    assert_eq!(field(&k, "deployment/web", ".metadata.generation"), "2");
}

async fn apply_removes_what_the_manifest_no_longer_has(c: Cluster) {
    let k = kubectl(&c).await;
    apply(&k, DEPLOYMENT);
    let _ = k.run("label deployment/web kept=yes").ok();
    let without = DEPLOYMENT
        .replace("      - {name: side, image: \"side:1\"}\n", "")
        .replace("team: blue", "");
    assert_eq!(apply(&k, &without), "deployment.apps/web configured\n");
    assert_eq!(
        field(&k, "deployment/web", ".spec.template.spec.containers[*].name"),
        "main"
    );
    assert_eq!(
        field(&k, "deployment/web", ".metadata.labels"),
        r#"{"kept":"yes"}"#
    );
}

async fn apply_names_an_unknown_field(c: Cluster) {
    let k = kubectl(&c).await;
    let wrong = DEPLOYMENT.replace("  replicas: 2", "  replicsa: 2");
    let error = k.run_with(&["apply", "-f", "-"], &wrong).refused();
    assert!(error.contains(r#"unknown field "spec.replicsa""#), "{error}");
    let error = k.run("get deployment/web").refused();
    assert!(error.contains(r#"deployments.apps "web" not found"#), "{error}");
}

async fn create_from_a_file_refuses_a_second_one(c: Cluster) {
    let k = kubectl(&c).await;
    assert_eq!(create(&k, DEPLOYMENT), "deployment.apps/web created\n");
    let error = k.run_with(&["create", "-f", "-"], DEPLOYMENT).refused();
    assert!(error.contains("(AlreadyExists)"), "{error}");
}

async fn create_without_a_file(c: Cluster) {
    let k = kubectl(&c).await;
    for (call, printed) in [
        (
            "create configmap settings --from-literal=a=1",
            "configmap/settings created\n",
        ),
        (
            "create secret generic keys --from-literal=k=v",
            "secret/keys created\n",
        ),
        (
            "create deployment web --image=nginx --replicas=3 --port=80",
            "deployment.apps/web created\n",
        ),
        (
            "create service clusterip web --tcp=80:8080",
            "service/web created\n",
        ),
        ("create serviceaccount robot", "serviceaccount/robot created\n"),
        (
            "create role reader --verb=get --resource=pods",
            "role.rbac.authorization.k8s.io/reader created\n",
        ),
        (
            "create job once --image=busybox -- date",
            "job.batch/once created\n",
        ),
        ("run alone --image=nginx", "pod/alone created\n"),
        (
            "expose deployment web --name=front --port=80",
            "service/front exposed\n",
        ),
    ] {
        assert_eq!(k.run(call).ok(), printed, "{call}");
    }
    assert_eq!(field(&k, "configmap/settings", ".data"), r#"{"a":"1"}"#);
    assert_eq!(field(&k, "secret/keys", ".data.k"), "dg==");
    assert_eq!(field(&k, "deployment/web", ".spec.replicas"), "3");
    assert_eq!(
        field(
            &k,
            "deployment/web",
            ".spec.template.spec.containers[0].ports[0].containerPort"
        ),
        "80"
    );
    assert_eq!(field(&k, "service/web", ".spec.ports[0].targetPort"), "8080");
    assert_eq!(
        field(&k, "job/once", ".spec.template.spec.containers[0].command"),
        r#"["date"]"#
    );
}

async fn get_in_every_output_format(c: Cluster) {
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
    assert!(plain.contains("0/2"), "{plain}");
    let wide = k.run("get deployments -o wide").ok();
    assert!(
        wide.contains("nginx:1,side:1") && wide.contains("app=web"),
        "{wide}"
    );
    let yaml = k.run("get deployment/web -o yaml").ok();
    assert!(
        yaml.starts_with("apiVersion: apps/v1\nkind: Deployment\n"),
        "{yaml}"
    );
    assert_eq!(k.run("get deployments -o name").ok(), "deployment.apps/web\n");
    assert_eq!(
        k.run("get deployments -l team=blue -o name").ok(),
        "deployment.apps/web\n"
    );
    assert_eq!(k.run("get deployments -l team!=blue -o name").ok(), "");
    assert_eq!(
        k.run("get deployments --field-selector=metadata.name=web -o name")
            .ok(),
        "deployment.apps/web\n"
    );
    let list = k.run("get deployments -o json").ok();
    assert!(
        list.contains(r#""kind": "List""#) && list.contains(r#""kind": "Deployment""#),
        "{list}"
    );
}

async fn get_follows_changes(c: Cluster) {
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

async fn describe_shows_the_object(c: Cluster) {
    let k = kubectl(&c).await;
    create(&k, DEPLOYMENT);
    let text = k.run("describe deployment/web").ok();
    for part in [
        "Name:",
        "web",
        "2 desired",
        "RollingUpdate",
        "25% max unavailable, 25% max surge",
        "nginx:1",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

async fn patch_in_all_three_ways(c: Cluster) {
    let k = kubectl(&c).await;
    create(&k, DEPLOYMENT);
    let patch = |kind: &str, patch: &str| {
        k.run_with(&["patch", "deployment/web", "--type", kind, "-p", patch], "")
            .ok()
    };
    let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:2"}]}}}}"#;
    assert_eq!(patch("strategic", strategic), "deployment.apps/web patched\n");
    assert_eq!(
        field(&k, "deployment/web", ".spec.template.spec.containers[*].image"),
        "nginx:1 side:2"
    );
    assert_eq!(
        patch("merge", r#"{"metadata":{"labels":{"team":null}}}"#),
        "deployment.apps/web patched\n"
    );
    assert_eq!(field(&k, "deployment/web", ".metadata.labels"), "");
    let json = r#"[{"op":"replace","path":"/spec/replicas","value":7}]"#;
    assert_eq!(patch("json", json), "deployment.apps/web patched\n");
    assert_eq!(field(&k, "deployment/web", ".spec.replicas"), "7");
    assert_eq!(patch("json", json), "deployment.apps/web patched (no change)\n");
}

async fn label_annotate_and_scale(c: Cluster) {
    let k = kubectl(&c).await;
    create(&k, DEPLOYMENT);
    assert_eq!(
        k.run("label deployment/web a=b").ok(),
        "deployment.apps/web labeled\n"
    );
    assert_eq!(
        k.run("annotate deployment/web note=x").ok(),
        "deployment.apps/web annotated\n"
    );
    assert_eq!(
        k.run("scale deployment/web --replicas=9").ok(),
        "deployment.apps/web scaled\n"
    );
    assert_eq!(field(&k, "deployment/web", ".spec.replicas"), "9");
    let error = k
        .run("scale deployment/web --current-replicas=1 --replicas=2")
        .refused();
    assert!(error.contains("Expected replicas to be 1, was 9"), "{error}");
    assert_eq!(
        k.run("label deployment/web a-").ok(),
        "deployment.apps/web unlabeled\n"
    );
    assert_eq!(
        field(&k, "deployment/web", ".metadata.labels"),
        r#"{"team":"blue"}"#
    );
}

async fn wait_for_a_field_and_for_deletion(c: Cluster) {
    let k = kubectl(&c).await;
    create(&k, DEPLOYMENT);
    let met = k
        .run("wait deployment/web --for=jsonpath={.spec.replicas}=2 --timeout=20s")
        .ok();
    assert_eq!(met, "deployment.apps/web condition met\n");
    let error = k
        .run("wait deployment/web --for=condition=Available --timeout=1s")
        .refused();
    assert!(error.contains("timed out waiting for the condition"), "{error}");
    let mut waiting = k
        .command(&["wait", "deployment/web", "--for=delete", "--timeout=20s"])
        .spawn()
        .expect("kubectl starts");
    let _ = k.run("delete deployment/web").ok();
    assert!(waiting.wait().expect("it ends").success());
}

async fn delete_cascades_set_the_finalizer_and_it_stays(c: Cluster) {
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
            "nobody collects"
        );
    }
    create(&k, DEPLOYMENT);
    let printed = k.run("delete deployment/web --cascade=background").ok();
    assert!(
        printed.starts_with(r#"deployment.apps "web" deleted"#),
        "{printed}"
    );
    let error = k.run("get deployment/web").refused();
    assert!(error.contains("(NotFound)"), "{error}");
}

async fn custom_resources_by_short_name(c: Cluster) {
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
    // A real server says Established a moment before it lists them.
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
    // It may warn that a definition is not in the namespace.
    let deleted = k.run(&format!("delete crd/boats.{group}"));
    assert!(deleted.success, "{deleted:?}");
}

async fn quota_is_shown_and_refuses(c: Cluster) {
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
    let refused = soon("the quota refuses", async || {
        let printed = k.run("create configmap b --dry-run=server");
        (!printed.success).then_some(printed.err)
    })
    .await;
    assert!(
        refused.contains("exceeded quota: q, requested: configmaps=1"),
        "{refused}"
    );
}
