//! A controller on a `kube::Client`, tested without a cluster: it must label every `ConfigMap`, although the answer to its
//! first write is lost and its first watch ends early.
//!
//! `cargo run -p steersman-sandbox --example controller`

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use serde_json::json;
use steersman_sandbox::Sandbox;
use steersman_sandbox::faults::{Cut, Faults, Matcher};

/// The controller under test: labels every config map until an error.
async fn run(maps: &Api<ConfigMap>) -> Result<(), kube::Error> {
    let mut events = maps.watch(&WatchParams::default(), "0").await?.boxed();
    while let Some(event) = events.try_next().await? {
        let (WatchEvent::Added(map) | WatchEvent::Modified(map)) = event else {
            continue;
        };
        let (name, labels) = (map.metadata.name.unwrap_or_default(), map.metadata.labels);
        if !labels.is_some_and(|it| it.contains_key("seen")) {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "true"}}}));
            maps.patch(&name, &PatchParams::default(), &patch).await?;
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let objects = "
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}";
    let sandbox = Sandbox::builder().seed(7).objects(objects).start()?;
    let faults = Faults::new();
    let patches = Matcher::verb("patch").resource("configmaps");
    faults.on(patches.clone()).times(1).lose_answer();
    faults
        .on(Matcher::verb("watch"))
        .after(1)
        .times(1)
        .cut_watch(Cut::Events(1));

    let client = kube::Client::new(faults.wrap(sandbox.service()), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    assert!(run(&maps).await.is_err(), "the first answer is lost");
    run(&maps).await?;
    let labeled = async || maps.list(&ListParams::default().labels("seen=true")).await;
    assert_eq!(
        labeled().await?.items.len(),
        1,
        "the second watch ended after one event"
    );
    tokio::select! {
        ended = run(&maps) => ended?,
        () = async { while labeled().await.is_ok_and(|it| it.items.len() < 2) {} } => {}
    }
    assert_eq!(faults.count(&patches), 2, "no object is patched twice");
    println!(
        "All config maps are labeled after {} requests",
        faults.count(&Matcher::any())
    );
    Ok(())
}
