//! The running controller, beside hollow and foreign nodes.

use super::*;

#[tokio::test(start_paused = true)]
async fn controller_starts_only_beside_hollow_nodes() {
    let outside = Options::default();
    let fixture = fixture(outside.clone());
    may_start(&fixture.client, &outside).await.expect("no nodes");
    fixture
        .create(
            &NODES,
            "",
            &json!({"metadata": {"name": "a", "labels": {LABEL: "true"}}}),
        )
        .await;
    may_start(&fixture.client, &outside)
        .await
        .expect("only hollow nodes");
    for (name, label) in [("theirs", "no"), ("also-theirs", "")] {
        fixture
            .create(
                &NODES,
                "",
                &json!({"metadata": {"name": name, "labels": {LABEL: label}}}),
            )
            .await;
    }
    fixture
        .create(&NODES, "", &json!({"metadata": {"name": "all-theirs"}}))
        .await;
    let refused = may_start(&fixture.client, &outside)
        .await
        .expect_err("foreign nodes");
    assert!(
        matches!(&refused, StartError::ForeignNode(it) if it.node == "all-theirs"),
        "{refused}"
    );
    let inside = Options {
        sandbox: true,
        ..outside
    };
    may_start(&fixture.client, &inside)
        .await
        .expect("foreign nodes are allowed in the sandbox");
}

#[tokio::test(start_paused = true)]
async fn controller_keeps_nodes_and_pods_ready() {
    let fixture = fixture(Options::default());
    fixture.host();
    for i in 0..10 {
        fixture.pod(&format!("p{i}"), &json!({})).await;
    }
    let running = async |fixture: &Fixture| {
        let pods = fixture.list(&PODS).await;
        pods.iter()
            .filter(|it| it["status"]["phase"] == "Running")
            .count()
    };
    fixture.until(async |fixture| running(fixture).await == 10).await;
    let pods = fixture.list(&PODS).await;
    let ips: BTreeSet<&str> = pods
        .iter()
        .filter_map(|it| it["status"]["podIP"].as_str())
        .collect();
    assert_eq!(ips.len(), 10);
    assert_eq!(fixture.list(&NODES).await.len(), 3);

    // A deleted node is recreated; a deleted pod is removed.
    let uid = Uid::from(
        fixture.node("hollow-0").await["metadata"]["uid"]
            .as_str()
            .expect("a uid"),
    );
    let deleted = fixture
        .client
        .delete(&NODES, &Key::cluster("hollow-0"), &Delete::of(uid))
        .await;
    deleted.expect("deleted");
    fixture.delete(&pods[0]).await;
    fixture
        .until(async |fixture| fixture.list(&PODS).await.len() == 9)
        .await;
    fixture
        .until(async |fixture| {
            let nodes = fixture.list(&NODES).await;
            nodes.len() == 3 && nodes.iter().all(|it| it["status"]["addresses"].is_array())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn controller_binds_no_pods_while_a_foreign_node_exists() {
    let fixture = fixture(Options::default());
    fixture
        .create(&NODES, "", &json!({"metadata": {"name": "real"}}))
        .await;
    fixture.pod("p", &json!({})).await;
    fixture.host();
    fixture.env.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(fixture.list(&NODES).await.len(), 1);
    assert_eq!(fixture.get("p").await["spec"].get("nodeName"), None);

    let uid = Uid::from(
        fixture.node("real").await["metadata"]["uid"]
            .as_str()
            .expect("a uid"),
    );
    let deleted = fixture
        .client
        .delete(&NODES, &Key::cluster("real"), &Delete::of(uid))
        .await;
    deleted.expect("deleted");
    fixture
        .until(async |fixture| fixture.get("p").await["status"]["phase"] == "Running")
        .await;
}
