//! Webhooks that change objects: patches, their order, who is asked again, and what may not be changed.

use coxswain_tests::fixtures::{MERGE, apps, config_map, core, deployment, pod, with};
use coxswain_tests::webhook::{Response, Webhook, allow, change, deny};
use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::{NAME, hooked};
use crate::expect::invalid;

pub fn tests() -> Vec<Test> {
    vec![
        test!(a_patch_is_applied),
        test!(an_update_is_changed_too),
        test!(validating_ones_see_the_change),
        test!(they_are_asked_in_the_order_of_names),
        test!(who_wants_is_asked_again),
        test!(a_refusal_ends_it),
        test!(changes_are_defaulted_and_unknown_fields_dropped),
        test!(the_result_must_be_valid),
        test!(a_name_can_be_given),
        test!(identity_cannot_be_changed),
        test!(a_deletion_cannot_be_changed),
        test!(pods_are_completed_before),
        test!(changes_have_no_manager).since(1, 22),
        test!(managers_that_cannot_be_read).since(1, 30),
    ]
}

fn add(path: &str, value: &Value) -> Response {
    change(&json!([{"op": "add", "path": path, "value": value}]))
}

async fn a_patch_is_applied(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], |_| {
        change(&json!([
            {"op": "add", "path": "/data/added", "value": "yes"},
            {"op": "remove", "path": "/data/k"},
            {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        ]))
    })
    .await;
    let path = core(&ns, "configmaps");
    let made = c.create(&path, config_map("a")).await;
    assert_eq!(made["data"], json!({"added": "yes"}));
    assert_eq!(made["metadata"]["labels"], json!({"a": "b"}));
    let dry = c.create(&format!("{path}?dryRun=All"), config_map("b")).await;
    assert_eq!(dry["data"], json!({"added": "yes"}));
    let stored = c.read(&format!("{path}/a")).await;
    assert_eq!(stored, made);
}

async fn an_update_is_changed_too(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], |request| {
        let operation = request["operation"].clone();
        if operation == "DELETE" {
            allow()
        } else {
            add("/data/operation", &operation)
        }
    })
    .await;
    let path = core(&ns, "configmaps");
    c.create(&path, config_map("a")).await;
    let path = format!("{path}/a");
    let put = c.replace(&path, config_map("a")).await;
    assert_eq!(put["data"], json!({"k": "v", "operation": "UPDATE"}));
    let patched = c
        .api()
        .patch(&path, MERGE, json!({"data": {"operation": null, "k": "w"}}))
        .await;
    assert_eq!(
        patched.expect(200)["data"],
        json!({"k": "w", "operation": "UPDATE"})
    );
    // What comes to nothing changes nothing.
    let same = with(config_map("a"), json!({"data": {"k": "w"}}));
    assert_eq!(c.replace(&path, same).await, patched.json());
    c.delete(&path).await;
}

async fn validating_ones_see_the_change(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], |_| {
        add("/data/added", &json!("yes"))
    })
    .await;
    let judge = Webhook::start(|_, request| {
        if request["object"]["data"]["added"] == "yes" {
            deny(&json!({"message": "seen"}))
        } else {
            allow()
        }
    })
    .await;
    let hook = judge.hook("two.example.com", "/", &["configmaps"]);
    judge.install(&c, &ns, "Validating", &ns, vec![hook]).await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("a")).await;
    reply.check(
        reply.message().ends_with("denied the request: seen"),
        "expected the judge's word",
    );
}

/// Names of configurations go first, then the order within each.
async fn they_are_asked_in_the_order_of_names(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|path, request| {
        let name = path.trim_start_matches('/').split('?').next().unwrap_or_default();
        let before = request["object"]["data"]["order"].as_str().unwrap_or_default();
        add("/data/order", &json!(format!("{before}{name}")))
    })
    .await;
    let hook = |name: &str| webhook.path_hook(name, &["configmaps"]);
    webhook
        .install(
            &c,
            &ns,
            "Mutating",
            &format!("b-{ns}"),
            vec![hook("z"), hook("y")],
        )
        .await;
    webhook
        .install(
            &c,
            &ns,
            "Mutating",
            &format!("a-{ns}"),
            vec![hook("x"), hook("w")],
        )
        .await;
    let made = c.create(&core(&ns, "configmaps"), config_map("a")).await;
    assert_eq!(made["data"]["order"], "xwzy");
}

/// Once more, and only those that were asked before somebody else changed something.
async fn who_wants_is_asked_again(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|path, request| {
        let data = &request["object"]["data"];
        match path.split('?').next() {
            Some("/first") => {
                let n = data["first"].as_str().map_or(0, str::len);
                add("/data/first", &json!("x".repeat(n + 1)))
            }
            Some("/last") => {
                let n = data["last"].as_str().map_or(0, str::len);
                add("/data/last", &json!("x".repeat(n + 1)))
            }
            _ => allow(),
        }
    })
    .await;
    let hook = |name: &str, policy: &str| {
        let hook = webhook.path_hook(name, &["configmaps"]);
        with(hook, json!({"reinvocationPolicy": policy}))
    };
    let hooks = vec![
        hook("first", "IfNeeded"),
        hook("looks", "IfNeeded"),
        hook("once", "Never"),
        hook("last", "IfNeeded"),
        hook("after", "IfNeeded"),
    ];
    webhook.install(&c, &ns, "Mutating", &ns, hooks).await;
    let made = c.create(&core(&ns, "configmaps"), config_map("a")).await;
    let paths: Vec<String> = webhook
        .calls()
        .iter()
        .map(|asked| asked.path.split('?').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        paths,
        [
            "/first", "/looks", "/once", "/last", "/after", "/first", "/looks", "/last", "/after"
        ]
    );
    assert_eq!(made["data"], json!({"k": "v", "first": "xx", "last": "xx"}));
}

async fn a_refusal_ends_it(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|path, _| {
        if path.starts_with("/a") {
            deny(&json!({"message": "no"}))
        } else {
            allow()
        }
    })
    .await;
    let hooks = ["a", "b"].map(|name| webhook.path_hook(name, &["configmaps"]));
    webhook.install(&c, &ns, "Mutating", &ns, hooks.to_vec()).await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("x")).await;
    assert_eq!(reply.status, 400);
    assert_eq!(webhook.requests().len(), 1);
}

async fn changes_are_defaulted_and_unknown_fields_dropped(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["deployments"], |_| {
        change(&json!([
            {"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "side", "image": "car"}},
            {"op": "add", "path": "/spec/colour", "value": "red"},
        ]))
    })
    .await;
    let made = c.create(&apps(&ns, "deployments"), deployment("a")).await;
    let side = &made["spec"]["template"]["spec"]["containers"][1];
    assert_eq!(side["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(made["spec"]["colour"], json!(null));
}

async fn the_result_must_be_valid(c: Cluster) {
    let (ns, _webhook) =
        hooked(
            &c,
            "Mutating",
            &["deployments"],
            |request| match request["object"]["metadata"]["name"].as_str() {
                Some("negative") => add("/spec/replicas", &json!(-1)),
                Some("text") => add("/spec/replicas", &json!("many")),
                Some("nowhere") => add("/no/such/place", &json!(1)),
                _ => change(&json!([{"op": "test", "path": "/spec/replicas", "value": 77}])),
            },
        )
        .await;
    let path = apps(&ns, "deployments");
    let reply = c.api().post(&path, deployment("negative")).await;
    invalid(&reply, &["Invalid spec.replicas"]);
    for name in ["text", "nowhere", "test"] {
        let reply = c.api().post(&path, deployment(name)).await;
        reply.expect_error(500, "InternalError");
        let message = reply.message();
        reply.check(message.starts_with("Internal error occurred: "), name);
        reply.check(!message.contains("failed calling webhook"), name);
    }
    let list = c.read(&path).await;
    assert_eq!(list["items"], json!([]));
}

async fn a_name_can_be_given(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], |_| {
        add("/metadata/name", &json!("given"))
    })
    .await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}});
    let path = core(&ns, "configmaps");
    let made = c.create(&path, object).await;
    assert_eq!(made["metadata"]["name"], "given");
    c.read(&format!("{path}/given")).await;
}

async fn identity_cannot_be_changed(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], |request| {
        match (
            request["operation"].as_str(),
            request["object"]["data"]["k"].as_str(),
        ) {
            (Some("UPDATE"), Some("uid")) => {
                add("/metadata/uid", &json!("00000000-0000-0000-0000-000000000000"))
            }
            (Some("UPDATE"), Some("name")) => add("/metadata/name", &json!("other")),
            (_, Some("namespace")) => add("/metadata/namespace", &json!("default")),
            (Some("CREATE"), _) => add("/metadata/uid", &json!("00000000-0000-0000-0000-000000000000")),
            _ => allow(),
        }
    })
    .await;
    let all = core(&ns, "configmaps");
    let made = c.create(&all, config_map("a")).await;
    assert_ne!(made["metadata"]["uid"], "00000000-0000-0000-0000-000000000000");
    let path = format!("{all}/a");
    let object = |k: &str| with(config_map("a"), json!({"data": {"k": k}}));
    invalid(
        &c.api().put(&path, object("uid")).await,
        &["Invalid metadata.uid"],
    );
    invalid(
        &c.api().put(&path, object("name")).await,
        &["Invalid metadata.name"],
    );
    let moved = with(config_map("b"), json!({"data": {"k": "namespace"}}));
    c.api().post(&all, moved).await.expect_error(400, "BadRequest");
    assert_eq!(c.read(&path).await, made);
}

async fn a_deletion_cannot_be_changed(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], |request| {
        if request["operation"] == "DELETE" {
            add("/data", &json!({}))
        } else {
            allow()
        }
    })
    .await;
    let path = core(&ns, "configmaps");
    c.create(&path, config_map("a")).await;
    let reply = c.api().delete(&format!("{path}/a"), ()).await;
    reply.expect_error(500, "InternalError");
    let why = format!(
        "Internal error occurred: admission webhook {NAME:?} attempted to modify the object, which is not supported for this \
         operation"
    );
    assert_eq!(reply.message(), why);
    c.read(&format!("{path}/a")).await;
}

/// The server's own plugins come first.
async fn pods_are_completed_before(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Mutating", &["pods"], super::yes).await;
    c.create(&core(&ns, "pods"), pod("a")).await;
    let requests = webhook.requests();
    let spec = &requests[0]["object"]["spec"];
    assert_eq!(spec["priority"], 0);
    assert_eq!(spec["tolerations"].as_array().map(Vec::len), Some(2));
    assert_eq!(spec["restartPolicy"], "Always");
}

async fn changes_have_no_manager(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], |_| {
        add("/data/added", &json!("yes"))
    })
    .await;
    let path = format!("{}?fieldManager=me", core(&ns, "configmaps"));
    let made = c.create(&path, config_map("a")).await;
    let managers = made["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert_eq!(managers.len(), 1);
    assert_eq!(managers[0]["fieldsV1"], json!({"f:data": {".": {}, "f:k": {}}}));
}

/// They stay what they were, and the client is told.
async fn managers_that_cannot_be_read(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], |_| {
        let entry = json!({"manager": "x", "operation": "Guess", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}});
        add("/metadata/managedFields", &json!([entry]))
    })
    .await;
    let path = format!("{}?fieldManager=me", core(&ns, "configmaps"));
    let reply = c.api().post(&path, config_map("a")).await;
    let made = reply.expect(201);
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "me", "{made:#}");
    let told = reply.headers.get("warning").and_then(|value| value.to_str().ok());
    let start = "299 - \".metadata.managedFields was in an invalid state after admission; ";
    reply.check(
        told.is_some_and(|told| told.starts_with(start)),
        "expected a warning",
    );
}
