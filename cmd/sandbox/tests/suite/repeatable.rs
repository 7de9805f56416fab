//! The same seed and the same requests give the same answers.

use serde_json::{Value, json};

use crate::client::{MAPS, get, post, sandbox};

async fn run() -> Vec<(u16, Value)> {
    let api_service = sandbox().service();
    let mut transcript = Vec::new();
    for n in 0..5 {
        let map = json!({"metadata": {"generateName": "map-"}, "data": {"n": n.to_string()}});
        transcript.push(post(&api_service, MAPS, &map).await);
        tokio::time::advance(std::time::Duration::from_secs(3)).await;
    }
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    transcript.push(post(&api_service, "/api/v1/namespaces/default/services", &service).await);
    transcript.push(get(&api_service, MAPS).await);
    transcript
}

#[tokio::test(start_paused = true)]
async fn runs_with_same_seed_are_identical() {
    let first = run().await;
    assert!(first.iter().all(|(status, _)| *status < 300), "{first:?}");
    assert_eq!(first, run().await);
}
