//! Counts of objects.

use coxswain_tests::{Cluster, Need, Test, test};
use serde_json::json;

use super::{limited, observed, path, quota, refused, used};
use crate::support::{config_map, core, deployment, object, of, pod, soon, with};

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(status_reports_hard_and_used),
        test!(unlimited_resources_are_admitted),
        test!(object_counts_are_limited_by_kind),
        test!(deleted_objects_release_quota),
        test!(dry_run_uses_no_quota),
        test!(invalid_object_uses_no_quota),
        test!(all_quotas_of_namespace_apply),
        test!(limits_follow_the_spec),
        test!(concurrent_creates_never_exceed_quota),
        test!(quota_is_limited_to_namespace),
        test!(apply_and_generated_names_are_counted),
        test!(pods_over_quota_are_forbidden),
        test!(finished_pods_count_as_objects_only),
    ];
    tests.into_iter().map(|test| test.needs(Need::Kcm)).collect()
}

async fn status_reports_hard_and_used(c: Cluster) {
    let ns = c.namespace().await;
    c.create(&core(&ns, "pods"), &pod("a")).await;
    c.create(&core(&ns, "configmaps"), &config_map("a")).await;
    let hard = json!({"pods": "2", "count/pods": "3", "configmaps": "10", "secrets": "1", "count/deployments.apps": "1"});
    let expected = json!({"pods": "1", "count/pods": "1", "configmaps": "1", "secrets": "0", "count/deployments.apps": "0"});
    observed(&c, &ns, &expected).await;
    let made = c.create(&core(&ns, "resourcequotas"), &quota("q", hard)).await;
    assert_eq!(made["status"], json!({}));
    used(&c, &ns, "q", expected).await;
}

async fn unlimited_resources_are_admitted(c: Cluster) {
    let ns = limited(&c, json!({"pods": "0", "secrets": "0"})).await;
    c.create(&core(&ns, "configmaps"), &config_map("a")).await;
    // A pod template is not a pod.
    c.create(&of("apps/v1", &ns, "deployments"), &deployment("a"))
        .await;
    // Updates use no quota.
    c.merge(&core(&ns, "configmaps/a"), json!({"data": {"k": "v"}}))
        .await;
}

async fn object_counts_are_limited_by_kind(c: Cluster) {
    for (name, path, body) in [
        ("configmaps", "/api/v1", config_map("a")),
        ("count/configmaps", "/api/v1", config_map("a")),
        ("secrets", "/api/v1", object("v1", "Secret", "a")),
        (
            "count/serviceaccounts",
            "/api/v1",
            object("v1", "ServiceAccount", "a"),
        ),
        ("count/deployments.apps", "/apis/apps/v1", deployment("a")),
    ] {
        let ns = c.namespace().await;
        // The default service account is created with a delay.
        let existing = i32::from(name == "count/serviceaccounts");
        soon("the default service account exists", async || {
            (c.api().get(&core(&ns, "serviceaccounts/default")).await.status == 200).then_some(())
        })
        .await;
        let hard = existing.to_string();
        c.create(&core(&ns, "resourcequotas"), &quota("q", json!({name: hard})))
            .await;
        used(&c, &ns, "q", json!({name: hard})).await;
        let resource = name.trim_start_matches("count/");
        let plural = resource.split('.').next().unwrap_or_default();
        let reply = c
            .api()
            .post(&format!("{path}/namespaces/{ns}/{plural}"), body)
            .await;
        let message = format!(
            "{resource} \"a\" is forbidden: exceeded quota: q, requested: {name}=1, used: {name}={hard}, limited: {name}={hard}"
        );
        refused(&reply, &message);
    }
}

async fn deleted_objects_release_quota(c: Cluster) {
    let ns = limited(&c, json!({"pods": "1", "configmaps": "1"})).await;
    c.create(&core(&ns, "pods"), &pod("a")).await;
    c.create(&core(&ns, "configmaps"), &config_map("a")).await;
    used(&c, &ns, "q", json!({"pods": "1", "configmaps": "1"})).await;
    for gone in ["pods/a", "configmaps/a"] {
        c.delete(&core(&ns, gone)).await;
    }
    used(&c, &ns, "q", json!({"pods": "0", "configmaps": "0"})).await;
    c.create(&core(&ns, "pods"), &pod("b")).await;
    c.create(&core(&ns, "configmaps"), &config_map("b")).await;
}

async fn dry_run_uses_no_quota(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "1"})).await;
    let dry = core(&ns, "configmaps?dryRun=All");
    for _ in 0..3 {
        c.create(&dry, &config_map("a")).await;
    }
    used(&c, &ns, "q", json!({"configmaps": "0"})).await;
    c.create(&core(&ns, "configmaps"), &config_map("a")).await;
    let reply = c.api().post(&dry, config_map("b")).await;
    refused(
        &reply,
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1",
    );
}

async fn invalid_object_uses_no_quota(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "1"})).await;
    let wrong = with(config_map("a"), "/data", json!({"no key": "v"}));
    c.api()
        .post(&core(&ns, "configmaps"), wrong.clone())
        .await
        .expect_error(422, "Invalid");
    c.create(&core(&ns, "configmaps"), &config_map("a")).await;
    // Validation precedes the quota.
    c.api()
        .post(&core(&ns, "configmaps"), wrong)
        .await
        .expect_error(422, "Invalid");
    // The quota precedes the check for an existing object.
    c.api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect_error(403, "Forbidden");
    used(&c, &ns, "q", json!({"configmaps": "1"})).await;
}

async fn all_quotas_of_namespace_apply(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "5"})).await;
    c.create(
        &core(&ns, "resourcequotas"),
        &quota("less", json!({"count/configmaps": "0"})),
    )
    .await;
    used(&c, &ns, "less", json!({"count/configmaps": "0"})).await;
    let reply = soon("the new quota applies", async || {
        let reply = c
            .api()
            .post(&core(&ns, "configmaps?dryRun=All"), config_map("a"))
            .await;
        (reply.status != 201).then_some(reply)
    })
    .await;
    refused(
        &reply,
        "configmaps \"a\" is forbidden: exceeded quota: less, requested: count/configmaps=1, used: count/configmaps=0, \
         limited: count/configmaps=0",
    );
    used(&c, &ns, "q", json!({"configmaps": "0"})).await;
}

async fn limits_follow_the_spec(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "2"})).await;
    for name in ["a", "b"] {
        c.create(&core(&ns, "configmaps"), &config_map(name)).await;
    }
    observed(&c, &ns, &json!({"configmaps": "2"})).await;
    let lower = json!({"spec": {"hard": {"configmaps": "1", "secrets": "1"}}});
    c.merge(&path(&ns, "q"), lower).await;
    // Existing objects over the limit stay.
    used(&c, &ns, "q", json!({"configmaps": "2", "secrets": "0"})).await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("c")).await;
    refused(
        &reply,
        "configmaps \"c\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=1",
    );
    let higher = json!({"spec": {"hard": {"configmaps": "3", "secrets": null}}});
    c.merge(&path(&ns, "q"), higher).await;
    used(&c, &ns, "q", json!({"configmaps": "2"})).await;
    soon("the new limit applies", async || {
        (c.api()
            .post(&core(&ns, "configmaps"), config_map("c"))
            .await
            .status
            == 201)
            .then_some(())
    })
    .await;
    c.delete(&path(&ns, "q")).await;
    soon("nothing is limited any more", async || {
        (c.api()
            .post(&core(&ns, "configmaps"), config_map("d"))
            .await
            .status
            == 201)
            .then_some(())
    })
    .await;
}

async fn concurrent_creates_never_exceed_quota(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "5"})).await;
    let path = core(&ns, "configmaps");
    let post = |n: usize| {
        let (c, path) = (c.clone(), path.clone());
        async move { c.api().post(&path, config_map(&format!("m{n}"))).await }
    };
    let replies = futures_util::future::join_all((0..20).map(post)).await;
    let made = replies.iter().filter(|reply| reply.status == 201).count();
    assert_eq!(made, 5);
    for reply in replies.iter().filter(|reply| reply.status != 201) {
        reply.expect_error(403, "Forbidden");
    }
    let list = c.read(&path).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(5));
    used(&c, &ns, "q", json!({"configmaps": "5"})).await;
}

async fn quota_is_limited_to_namespace(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "0"})).await;
    let other = c.namespace().await;
    c.create(&core(&other, "configmaps"), &config_map("a")).await;
    c.api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect_error(403, "Forbidden");
}

async fn apply_and_generated_names_are_counted(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "1"})).await;
    let mut generated = config_map("");
    generated["metadata"] = json!({"generateName": "g-"});
    let made = c.create(&core(&ns, "configmaps"), &generated).await;
    let apply = core(&ns, "configmaps/a?fieldManager=m");
    let reply = c
        .api()
        .patch(&apply, "application/apply-patch+yaml", config_map("a"))
        .await;
    refused(
        &reply,
        "configmaps \"a\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1",
    );
    let name = made["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    // An apply to an existing object creates none.
    let mut present = config_map(&name);
    present["data"] = json!({"k": "v"});
    c.api()
        .patch(
            &core(&ns, &format!("configmaps/{name}?fieldManager=m")),
            "application/apply-patch+yaml",
            present,
        )
        .await
        .expect(200);
}

async fn pods_over_quota_are_forbidden(c: Cluster) {
    let ns = limited(&c, json!({"pods": "2"})).await;
    c.create(&core(&ns, "pods"), &pod("a")).await;
    c.create(&core(&ns, "pods"), &pod("b")).await;
    let reply = c.api().post(&core(&ns, "pods"), pod("c")).await;
    refused(
        &reply,
        "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
    );
    assert_eq!(reply.json()["details"], json!({"name": "c", "kind": "pods"}));
    c.expect_absent(&core(&ns, "pods/c")).await;
    used(&c, &ns, "q", json!({"pods": "2"})).await;
}

async fn finished_pods_count_as_objects_only(c: Cluster) {
    let ns = limited(&c, json!({"pods": "1", "count/pods": "2"})).await;
    c.create(&core(&ns, "pods"), &pod("a")).await;
    used(&c, &ns, "q", json!({"pods": "1", "count/pods": "1"})).await;
    let done = json!({"status": {"phase": "Succeeded"}});
    c.merge(&core(&ns, "pods/a/status"), done).await;
    used(&c, &ns, "q", json!({"pods": "0", "count/pods": "1"})).await;
    c.create(&core(&ns, "pods"), &pod("b")).await;
    used(&c, &ns, "q", json!({"pods": "1", "count/pods": "2"})).await;
    let reply = c.api().post(&core(&ns, "pods"), pod("c")).await;
    refused(
        &reply,
        "pods \"c\" is forbidden: exceeded quota: q, requested: count/pods=1,pods=1, used: count/pods=2,pods=1, limited: \
         count/pods=2,pods=1",
    );
}
