//! Mutating webhooks: patches, call order, reinvocation, and immutable fields.

use coxswain_tests::fixtures::{MERGE, apps, config_map, core, deployment, pod, with};
use coxswain_tests::webhook::{Response, Webhook, allow, change, deny};
use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::{NAME, hooked};
use crate::expect::invalid;

pub fn tests() -> Vec<Test> {
    vec![
        test!(patch_of_create_is_applied),
        test!(patch_of_update_is_applied),
        test!(validating_webhook_sees_mutated_object),
        test!(webhooks_are_called_in_order_of_configuration_names),
        test!(changed_object_reinvokes_webhooks),
        test!(denial_ends_mutating_admission),
        test!(mutated_object_is_defaulted_and_pruned),
        test!(invalid_mutated_object_is_rejected),
        test!(webhook_sets_generated_name),
        test!(identity_is_immutable_for_webhooks),
        test!(patch_of_delete_is_rejected),
        test!(built_in_plugins_run_before_webhooks),
        test!(mutated_fields_have_no_manager).since(1, 22),
        test!(invalid_managed_fields_are_dropped_with_warning).since(1, 30),
    ]
}

fn add(path: &str, value: &Value) -> Response {
    change(&json!([{"op": "add", "path": path, "value": value}]))
}

async fn patch_of_create_is_applied(c: Cluster) {
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

async fn patch_of_update_is_applied(c: Cluster) {
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
    // A patch without effect writes nothing.
    let same = with(config_map("a"), json!({"data": {"k": "w"}}));
    assert_eq!(c.replace(&path, same).await, patched.json());
    c.delete(&path).await;
}

async fn validating_webhook_sees_mutated_object(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], |_| {
        add("/data/added", &json!("yes"))
    })
    .await;
    let validating = Webhook::start(|_, request| {
        if request["object"]["data"]["added"] == "yes" {
            deny(&json!({"message": "seen"}))
        } else {
            allow()
        }
    })
    .await;
    let hook = validating.hook("two.example.com", "/", &["configmaps"]);
    validating.install(&c, &ns, "Validating", &ns, vec![hook]).await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("a")).await;
    reply.check(
        reply.message().ends_with("denied the request: seen"),
        "expected a denial",
    );
}

/// Configurations are ordered by name, webhooks by their position.
async fn webhooks_are_called_in_order_of_configuration_names(c: Cluster) {
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

/// A webhook is called once more if a later webhook has changed the object.
async fn changed_object_reinvokes_webhooks(c: Cluster) {
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
        .map(|call| call.path.split('?').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        paths,
        [
            "/first", "/looks", "/once", "/last", "/after", "/first", "/looks", "/last", "/after"
        ]
    );
    assert_eq!(made["data"], json!({"k": "v", "first": "xx", "last": "xx"}));
}

async fn denial_ends_mutating_admission(c: Cluster) {
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

async fn mutated_object_is_defaulted_and_pruned(c: Cluster) {
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

async fn invalid_mutated_object_is_rejected(c: Cluster) {
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

async fn webhook_sets_generated_name(c: Cluster) {
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

async fn identity_is_immutable_for_webhooks(c: Cluster) {
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

async fn patch_of_delete_is_rejected(c: Cluster) {
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

async fn built_in_plugins_run_before_webhooks(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Mutating", &["pods"], super::yes).await;
    c.create(&core(&ns, "pods"), pod("a")).await;
    let requests = webhook.requests();
    let spec = &requests[0]["object"]["spec"];
    assert_eq!(spec["priority"], 0);
    assert_eq!(spec["tolerations"].as_array().map(Vec::len), Some(2));
    assert_eq!(spec["restartPolicy"], "Always");
}

async fn mutated_fields_have_no_manager(c: Cluster) {
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

async fn invalid_managed_fields_are_dropped_with_warning(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], |_| {
        let entry = json!({"manager": "x", "operation": "Guess", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}});
        add("/metadata/managedFields", &json!([entry]))
    })
    .await;
    let path = format!("{}?fieldManager=me", core(&ns, "configmaps"));
    let reply = c.api().post(&path, config_map("a")).await;
    let made = reply.expect(201);
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "me", "{made:#}");
    let warning = reply.headers.get("warning").and_then(|value| value.to_str().ok());
    let start = "299 - \".metadata.managedFields was in an invalid state after admission; ";
    reply.check(
        warning.is_some_and(|warning| warning.starts_with(start)),
        "expected a warning",
    );
}
