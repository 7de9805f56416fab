//! As a controller, on caches, next to nodes of its own and of others.

use super::*;

#[tokio::test(start_paused = true)]
async fn it_starts_next_to_its_own_nodes_only() {
    let outside = Options::default();
    let bed = bed(outside.clone());
    may_start(&bed.client, &outside)
        .await
        .expect("there are no nodes");
    bed.create(
        &NODES,
        "",
        &json!({"metadata": {"name": "a", "labels": {LABEL: "true"}}}),
    )
    .await;
    may_start(&bed.client, &outside)
        .await
        .expect("all nodes are its own");
    for (name, label) in [("theirs", "no"), ("also-theirs", "")] {
        bed.create(
            &NODES,
            "",
            &json!({"metadata": {"name": name, "labels": {LABEL: label}}}),
        )
        .await;
    }
    bed.create(&NODES, "", &json!({"metadata": {"name": "all-theirs"}}))
        .await;
    let refused = may_start(&bed.client, &outside).await.expect_err("foreign nodes");
    assert!(
        matches!(&refused, StartError::Refused(it) if it.node == "all-theirs"),
        "{refused}"
    );
    let inside = Options {
        sandbox: true,
        ..outside
    };
    may_start(&bed.client, &inside)
        .await
        .expect("the sandbox is nobody's");
}

#[tokio::test(start_paused = true)]
async fn hosted_it_brings_a_cluster_to_life_and_keeps_it_so() {
    let bed = bed(Options::default());
    bed.host();
    for i in 0..10 {
        bed.pod(&format!("p{i}"), &json!({})).await;
    }
    let running = async |bed: &Bed| {
        let pods = bed.list(&PODS).await;
        pods.iter()
            .filter(|it| it["status"]["phase"] == "Running")
            .count()
    };
    bed.until(async |bed| running(bed).await == 10).await;
    let pods = bed.list(&PODS).await;
    let ips: BTreeSet<&str> = pods
        .iter()
        .filter_map(|it| it["status"]["podIP"].as_str())
        .collect();
    assert_eq!(ips.len(), 10);
    assert_eq!(bed.list(&NODES).await.len(), 3);

    // A node that somebody deletes comes back; a pod that somebody deletes goes.
    let uid = Uid::from(
        bed.node("hollow-0").await["metadata"]["uid"]
            .as_str()
            .expect("a uid"),
    );
    let deleted = bed
        .client
        .delete(&NODES, &Key::cluster("hollow-0"), &Delete::of(uid))
        .await;
    deleted.expect("deleted");
    bed.delete(&pods[0]).await;
    bed.until(async |bed| bed.list(&PODS).await.len() == 9).await;
    bed.until(async |bed| {
        let nodes = bed.list(&NODES).await;
        nodes.len() == 3 && nodes.iter().all(|it| it["status"]["addresses"].is_array())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn hosted_it_leaves_pods_alone_while_a_real_node_is_there() {
    let bed = bed(Options::default());
    bed.create(&NODES, "", &json!({"metadata": {"name": "real"}}))
        .await;
    bed.pod("p", &json!({})).await;
    bed.host();
    bed.env.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(bed.list(&NODES).await.len(), 1);
    assert_eq!(bed.get("p").await["spec"].get("nodeName"), None);

    let uid = Uid::from(bed.node("real").await["metadata"]["uid"].as_str().expect("a uid"));
    let deleted = bed
        .client
        .delete(&NODES, &Key::cluster("real"), &Delete::of(uid))
        .await;
    deleted.expect("deleted");
    bed.until(async |bed| bed.get("p").await["status"]["phase"] == "Running")
        .await;
}
