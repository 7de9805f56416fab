//! Creating: what the server adds, which names it takes, and where an object may be created.

use std::collections::BTreeSet;

use coxswain_tests::{
    Cluster, Test,
    fixtures::{
        apps, config_map, core, cron_job, deployment, group, lease, leases, named, pod, service, with,
    },
    test,
};
use serde_json::{Value, json};

use crate::expect::{self, bad_request, invalid, not_found, refuses};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(create_fills_uid_time_version_and_generation),
        test!(create_returns_what_get_returns),
        test!(create_ignores_uid_times_and_self_link_of_the_body),
        test!(resource_version_may_not_be_set),
        test!(resource_version_zero_is_none),
        test!(existing_name_is_already_exists),
        test!(names_are_dns_subdomains),
        test!(names_have_at_most_253_characters),
        test!(services_and_namespaces_are_dns_labels),
        test!(cron_job_names_leave_room_for_a_suffix).since(1, 21),
        test!(role_names_may_be_any_path_segment),
        test!(generate_name_appends_five_characters),
        test!(generate_name_is_cut_to_63_characters),
        test!(generate_name_must_be_a_valid_prefix),
        test!(name_wins_over_generate_name),
        test!(taken_name_with_generate_name_is_already_exists_with_a_retry).since(1, 32),
        test!(namespace_of_the_body_must_be_the_one_of_the_path),
        test!(namespace_must_exist),
        test!(cluster_scoped_objects_lose_a_namespace),
    ]
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

async fn create_fills_uid_time_version_and_generation(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect(201);
    assert_eq!(
        (&made["kind"], &made["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
    let meta = &made["metadata"];
    assert_eq!(meta["name"], "a");
    assert_eq!(meta["namespace"], json!(ns));
    assert_eq!(meta["generation"], Value::Null, "a ConfigMap has no generation");
    assert_is_uuid(&meta["uid"]);
    assert_is_time(&meta["creationTimestamp"]);
    let first = version_of(&made);
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    assert!(version_of(&made) > first, "one counter for all kinds");
}

async fn create_returns_what_get_returns(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body) in [
        (core(&ns, "configmaps"), config_map("a")),
        (core(&ns, "pods"), pod("a")),
        (core(&ns, "services"), service("a")),
        (apps(&ns, "deployments"), deployment("a")),
        (leases(&ns), lease("a")),
    ] {
        let made = c.api().post(&path, body).await.expect(201);
        assert_eq!(c.api().get(&format!("{path}/a")).await.expect(200), made);
    }
}

async fn create_ignores_uid_times_and_self_link_of_the_body(c: Cluster) {
    let ns = c.namespace().await;
    let then = "2001-01-01T00:00:00Z";
    let meta = json!({
        "uid": "1234", "creationTimestamp": then, "selfLink": "/x", "deletionTimestamp": then,
        "deletionGracePeriodSeconds": 4,
    });
    let body = with(config_map("a"), json!({"metadata": meta}));
    let made = c.api().post(&core(&ns, "configmaps"), body).await.expect(201);
    let meta = &made["metadata"];
    assert_is_uuid(&meta["uid"]);
    assert_ne!(meta["creationTimestamp"], then);
    for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        assert_eq!(meta[field], Value::Null, "{field}");
    }
}

async fn resource_version_may_not_be_set(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let body = with(config_map("a"), json!({"metadata": {"resourceVersion": "5"}}));
    let reply = c.api().post(&path, body).await;
    // An error of the storage layer that nobody translates.
    reply.expect_error(500, "");
    reply.check(
        reply.message() == "resourceVersion should not be set on objects to be created",
        "another message",
    );
    not_found(&c.api().get(&format!("{path}/a")).await, "configmaps", "a");
}

async fn resource_version_zero_is_none(c: Cluster) {
    let ns = c.namespace().await;
    for (name, version) in [("a", "0"), ("b", "")] {
        let body = with(
            config_map(name),
            json!({"metadata": {"resourceVersion": version}}),
        );
        let made = c.api().post(&core(&ns, "configmaps"), body).await.expect(201);
        assert!(version_of(&made) > 0);
    }
}

async fn existing_name_is_already_exists(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body, resource) in [
        (core(&ns, "configmaps"), config_map("a"), "configmaps"),
        (apps(&ns, "deployments"), deployment("a"), "deployments.apps"),
    ] {
        let made = c.api().post(&path, &body).await.expect(201);
        let reply = c
            .api()
            .post(&path, with(body, json!({"metadata": {"labels": {"x": "y"}}})))
            .await;
        reply.expect_error(409, "AlreadyExists");
        let message = format!("{resource} \"a\" already exists");
        reply.check(reply.message() == message, "another message");
        let (kind, group) = resource.split_once('.').unwrap_or((resource, ""));
        let details = match group {
            "" => json!({"name": "a", "kind": kind}),
            _ => json!({"name": "a", "kind": kind, "group": group}),
        };
        reply.check(reply.json()["details"] == details, "other details");
        expect::unchanged(&c, &format!("{path}/a"), &made).await;
    }
}

async fn names_are_dns_subdomains(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for name in [
        "A", "a_b", "-a", "a-", "a..b", ".a", "a.", "a/b", ".", "..", "a%b", "a b", "ä",
    ] {
        let reply = c.api().post(&path, config_map(name)).await;
        invalid(&reply, &[&format!("Invalid metadata.name: {SUBDOMAIN}")]);
        reply.check(
            reply.json()["details"]["name"] == name,
            "expected the name in the details",
        );
    }
    let required = ["Required metadata.name: name or generateName is required"];
    for body in [config_map(""), json!({"metadata": {}}), json!({})] {
        invalid(&c.api().post(&path, body).await, &required);
    }
    let list = c.api().get(&path).await.expect(200);
    let names: Vec<&Value> = items(&list)
        .iter()
        .map(|item| &item["metadata"]["name"])
        .collect();
    assert!(names.iter().all(|name| **name == "kube-root-ca.crt"), "{names:?}");
    for name in ["0", "a.b-c.d", "1.2.3"] {
        c.api().post(&path, config_map(name)).await.expect(201);
    }
}

async fn names_have_at_most_253_characters(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = c
        .api()
        .post(&path, config_map(&"a".repeat(253)))
        .await
        .expect(201);
    assert_eq!(made["metadata"]["name"], "a".repeat(253));
    let reply = c.api().post(&path, config_map(&"a".repeat(254))).await;
    invalid(
        &reply,
        &["Invalid metadata.name: must be no more than 253 characters"],
    );
}

async fn services_and_namespaces_are_dns_labels(c: Cluster) {
    let ns = c.namespace().await;
    let long = "a".repeat(64);
    let too_long = "Invalid metadata.name: must be no more than 63 characters";
    let dots = if expect::speaks_1_36(&c) {
        "Invalid metadata.name: must not contain dots"
    } else {
        "Invalid metadata.name"
    };
    let services = vec![
        (service(&long), vec![too_long]),
        (service("a.b"), vec![dots]),
        (service("A"), vec!["Invalid metadata.name"]),
    ];
    refuses(&c, &core(&ns, "services"), services).await;
    // Since 1.21 the name of a namespace is one of its labels, and a bad one then.
    let label = "Invalid metadata.labels: must be no more than 63 bytes";
    let both = if c.version() < (1, 21) {
        vec![too_long]
    } else {
        vec![too_long, label]
    };
    let invalid_name = "Invalid metadata.name";
    for (name, causes) in [(&*long, both), ("a.b", vec![dots]), ("A", vec![invalid_name])] {
        let body = named("v1", "Namespace", name);
        invalid(&c.api().post("/api/v1/namespaces", body).await, &causes);
        let read = c.api().get(&format!("/api/v1/namespaces/{name}")).await;
        not_found(&read, "namespaces", name);
    }
}

async fn cron_job_names_leave_room_for_a_suffix(c: Cluster) {
    let ns = c.namespace().await;
    let path = group("batch/v1", &ns, "cronjobs");
    let too_long = vec!["Invalid metadata.name: must be no more than 52 characters"];
    refuses(&c, &path, vec![(cron_job(&"a".repeat(53)), too_long)]).await;
    c.api().post(&path, cron_job(&"a".repeat(52))).await.expect(201);
}

async fn role_names_may_be_any_path_segment(c: Cluster) {
    let ns = c.namespace().await;
    let path = group("rbac.authorization.k8s.io/v1", &ns, "roles");
    let role = |name: &str| named("rbac.authorization.k8s.io/v1", "Role", name);
    c.api().post(&path, role("system:Some_Role")).await.expect(201);
    let read = c.api().get(&format!("{path}/system:Some_Role")).await.expect(200);
    assert_eq!(read["metadata"]["name"], "system:Some_Role");
    for (name, cause) in [
        ("a/b", "Invalid metadata.name: may not contain '/'"),
        ("a%b", "Invalid metadata.name: may not contain '%'"),
        (".", "Invalid metadata.name: may not be '.'"),
        ("..", "Invalid metadata.name: may not be '..'"),
    ] {
        invalid(&c.api().post(&path, role(name)).await, &[cause]);
    }
}

async fn generate_name_appends_five_characters(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let mut names = BTreeSet::new();
    for _ in 0..5 {
        let made = c
            .api()
            .post(&path, json!({"metadata": {"generateName": "gen-"}}))
            .await
            .expect(201);
        assert_eq!(made["metadata"]["generateName"], "gen-");
        let name = made["metadata"]["name"].as_str().expect("a name").to_owned();
        let suffix = name.strip_prefix("gen-").expect("the prefix");
        // No vowels, and nothing that looks like another character.
        let readable = suffix
            .chars()
            .all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter));
        assert!(suffix.len() == 5 && readable, "{name}");
        assert_eq!(c.api().get(&format!("{path}/{name}")).await.expect(200), made);
        names.insert(name);
    }
    assert_eq!(names.len(), 5);
}

async fn generate_name_is_cut_to_63_characters(c: Cluster) {
    let ns = c.namespace().await;
    let body = json!({"metadata": {"generateName": "g".repeat(100)}});
    let made = c.api().post(&core(&ns, "configmaps"), body).await.expect(201);
    let name = made["metadata"]["name"].as_str().expect("a name");
    assert!(name.len() == 63 && name.starts_with(&"g".repeat(58)), "{name}");
}

async fn generate_name_must_be_a_valid_prefix(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let reply = c
        .api()
        .post(&path, json!({"metadata": {"generateName": "G"}}))
        .await;
    let (prefix, name) = (
        format!("Invalid metadata.generateName: \"G\": {SUBDOMAIN}"),
        format!("Invalid metadata.name: {SUBDOMAIN}"),
    );
    invalid(&reply, &[&prefix, &name]);
    let reply = c
        .api()
        .post(&path, json!({"metadata": {"generateName": "g".repeat(254)}}))
        .await;
    invalid(
        &reply,
        &["Invalid metadata.generateName: must be no more than 253 characters"],
    );
}

async fn name_wins_over_generate_name(c: Cluster) {
    let ns = c.namespace().await;
    let body = with(config_map("fixed"), json!({"metadata": {"generateName": "gen-"}}));
    let made = c.api().post(&core(&ns, "configmaps"), body).await.expect(201);
    assert_eq!(made["metadata"]["name"], "fixed");
    assert_eq!(made["metadata"]["generateName"], "gen-");
}

/// Before, it was a 500 `ServerTimeout`.
async fn taken_name_with_generate_name_is_already_exists_with_a_retry(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let body = with(config_map("fixed"), json!({"metadata": {"generateName": "gen-"}}));
    c.api().post(&path, &body).await.expect(201);
    let reply = c.api().post(&path, body).await;
    reply.expect_error(409, "AlreadyExists");
    let message = "configmaps \"fixed\" already exists, the server was not able to generate a unique name for the object";
    reply.check(reply.message() == message, "another message");
    let details = json!({"name": "fixed", "kind": "configmaps", "retryAfterSeconds": 1});
    reply.check(reply.json()["details"] == details, "other details");
}

async fn namespace_of_the_body_must_be_the_one_of_the_path(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let other = with(config_map("a"), json!({"metadata": {"namespace": "default"}}));
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    bad_request(&c.api().post(&path, other).await, message);
    not_found(
        &c.api().get(&core("default", "configmaps/a")).await,
        "configmaps",
        "a",
    );
    not_found(&c.api().get(&format!("{path}/a")).await, "configmaps", "a");
    let same = with(config_map("a"), json!({"metadata": {"namespace": ns}}));
    c.api().post(&path, same).await.expect(201);
}

async fn namespace_must_exist(c: Cluster) {
    let nowhere = core("nowhere", "configmaps");
    // Also for an object that is invalid: admission comes first.
    for body in [
        config_map("a"),
        config_map("A"),
        json!({"metadata": {"generateName": "a"}}),
    ] {
        let reply = c.api().post(&nowhere, body).await;
        not_found(&reply, "namespaces", "nowhere");
        reply.check(reply.json()["details"]["kind"] == "namespaces", "other details");
    }
    let list = c.api().get(&nowhere).await.expect(200);
    assert_eq!(list["items"], json!([]));
}

async fn cluster_scoped_objects_lose_a_namespace(c: Cluster) {
    let meta = json!({"metadata": {"namespace": "default"}});
    let body = with(named("v1", "Node", "objects-create-lost"), meta);
    let made = c.api().post("/api/v1/nodes", body).await.expect(201);
    assert_eq!(made["metadata"]["namespace"], Value::Null);
    c.api()
        .delete("/api/v1/nodes/objects-create-lost", ())
        .await
        .expect(200);
}

fn items(list: &Value) -> &Vec<Value> {
    list["items"].as_array().expect("items is a list")
}

/// The resourceVersion as the number it is, so that two can be compared.
fn version_of(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"]
        .as_str()
        .expect("a resourceVersion");
    text.parse().expect("a number")
}

#[track_caller]
fn assert_is_uuid(value: &Value) {
    let text = value.as_str().unwrap_or_default();
    let shape: Vec<usize> = text.split('-').map(str::len).collect();
    let hex = text
        .chars()
        .all(|letter| letter == '-' || matches!(letter, '0'..='9' | 'a'..='f'));
    assert!(shape == [8, 4, 4, 4, 12] && hex, "{value} is no uuid");
}

/// RFC 3339 in UTC, to the second.
#[track_caller]
fn assert_is_time(value: &Value) {
    let text = value.as_str().unwrap_or_default();
    let shape: String = text
        .chars()
        .map(|letter| if letter.is_ascii_digit() { '0' } else { letter })
        .collect();
    assert_eq!(shape, "0000-00-00T00:00:00Z", "{value}");
}
