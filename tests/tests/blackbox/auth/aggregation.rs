//! Cluster roles that are put together from others.

use coxswain_tests::{Cluster, Need, Test, test};
use serde_json::{Value, json};

use super::{cluster_wide, role, rule, user};
use crate::support::{MERGE, create, soon};

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(rules_are_gathered_by_label),
        test!(rules_follow_their_roles),
        test!(own_rules_are_overwritten),
        test!(admin_has_what_edit_and_view_have),
        test!(circle_is_harmless),
        test!(a_role_does_not_gather_from_itself),
    ];
    tests.into_iter().map(|test| test.needs(Need::Kcm)).collect()
}

/// A role that gathers those whose label `gather` has this value, and has it itself if `own` is given.
fn sum(name: &str, gathers: &str, own: Option<&str>) -> Value {
    let mut sum = role("ClusterRole", name, json!([]));
    sum["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"gather": gathers}}]});
    if let Some(own) = own {
        sum["metadata"]["labels"] = json!({"gather": own});
    }
    sum
}

fn part(name: &str, label: &str, resource: &str) -> Value {
    let mut part = role("ClusterRole", name, json!([rule(&["get"], "", &[resource])]));
    part["metadata"]["labels"] = json!({"gather": label});
    part
}

async fn make(c: &Cluster, role: &Value) {
    create(c, &cluster_wide("clusterroles"), role).await;
}

fn path(name: &str) -> String {
    format!("{}/{name}", cluster_wide("clusterroles"))
}

/// The resources of a role's rules, in order.
async fn resources(c: &Cluster, name: &str) -> Vec<String> {
    let role = c.api().get(&path(name)).await.expect(200);
    let rules = role["rules"].as_array().cloned().unwrap_or_default();
    let resource = |rule: &Value| rule["resources"][0].as_str().unwrap_or_default().to_owned();
    rules.iter().map(resource).collect()
}

async fn becomes(c: &Cluster, name: &str, expected: &[&str]) {
    soon(&format!("{name} has {expected:?}"), async || {
        (resources(c, name).await == expected).then_some(())
    })
    .await;
}

async fn rules_are_gathered_by_label(c: Cluster) {
    let ns = c.namespace().await;
    let [all, b, a, other] = ["all", "b", "a", "other"].map(|name| user(&ns, name));
    make(&c, &sum(&all, &ns, None)).await;
    make(&c, &part(&b, &ns, "secrets")).await;
    make(&c, &part(&a, &ns, "pods")).await;
    make(&c, &part(&other, "other", "nodes")).await;
    becomes(&c, &all, &["pods", "secrets"]).await;
}

async fn rules_follow_their_roles(c: Cluster) {
    let ns = c.namespace().await;
    let [all, a, b] = ["all", "a", "b"].map(|name| user(&ns, name));
    make(&c, &sum(&all, &ns, None)).await;
    make(&c, &part(&a, &ns, "pods")).await;
    make(&c, &part(&b, &ns, "secrets")).await;
    becomes(&c, &all, &["pods", "secrets"]).await;
    let patch = json!({"rules": [rule(&["get"], "", &["nodes"])]});
    c.api().patch(&path(&a), MERGE, patch).await.expect(200);
    becomes(&c, &all, &["nodes", "secrets"]).await;
    let patch = json!({"metadata": {"labels": {"gather": "other"}}});
    c.api().patch(&path(&a), MERGE, patch).await.expect(200);
    becomes(&c, &all, &["secrets"]).await;
    c.api().delete(&path(&b), ()).await.expect(200);
    becomes(&c, &all, &[]).await;
}

async fn own_rules_are_overwritten(c: Cluster) {
    let ns = c.namespace().await;
    let [all, a] = ["all", "a"].map(|name| user(&ns, name));
    let mut sum = sum(&all, &ns, None);
    sum["rules"] = json!([rule(&["get"], "", &["nodes"])]);
    make(&c, &part(&a, &ns, "pods")).await;
    make(&c, &sum).await;
    becomes(&c, &all, &["pods"]).await;
}

async fn admin_has_what_edit_and_view_have(c: Cluster) {
    let rules = async |name: &str| c.api().get(&path(name)).await.expect(200)["rules"].clone();
    soon("the default roles are put together", async || {
        let (admin, edit, view) = (rules("admin").await, rules("edit").await, rules("view").await);
        let has = |whole: &Value, part: &Value| {
            let whole = whole.as_array().cloned().unwrap_or_default();
            let part = part.as_array().cloned().unwrap_or_default();
            !part.is_empty() && part.iter().all(|rule| whole.contains(rule))
        };
        (has(&admin, &edit) && has(&edit, &view)).then_some(())
    })
    .await;
}

async fn circle_is_harmless(c: Cluster) {
    let ns = c.namespace().await;
    let [a, b, d, leaf] = ["a", "b", "d", "leaf"].map(|name| user(&ns, name));
    let labels = ["1", "2", "3"].map(|n| format!("{ns}-{n}"));
    make(&c, &sum(&a, &labels[0], Some(&labels[2]))).await;
    make(&c, &sum(&b, &labels[1], Some(&labels[0]))).await;
    make(&c, &sum(&d, &labels[2], Some(&labels[1]))).await;
    make(&c, &part(&leaf, &labels[0], "pods")).await;
    for role in [&a, &b, &d] {
        becomes(&c, role, &["pods"]).await;
    }
    // What goes round in it stays, but nothing hangs, and the roles can go.
    for role in [&leaf, &a, &b, &d] {
        c.api().delete(&path(role), ()).await.expect(200);
    }
}

async fn a_role_does_not_gather_from_itself(c: Cluster) {
    let ns = c.namespace().await;
    let [all, a] = ["all", "a"].map(|name| user(&ns, name));
    make(&c, &sum(&all, &ns, Some(&ns))).await;
    make(&c, &part(&a, &ns, "pods")).await;
    becomes(&c, &all, &["pods"]).await;
    c.api().delete(&path(&a), ()).await.expect(200);
    becomes(&c, &all, &[]).await;
}
