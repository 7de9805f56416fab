//! Flipped bits in stored labels, selectors, uids, ownerReferences and finalizers.
//!
//! The collector deletes nothing with a live owner, other Deployments are unaffected, and the number of writes is bounded.

use steersman_harness::seeds;
use steersman_manager::client::Patch;
use steersman_manager::env::Rng;
use steersman_manager::object::Key;

use super::*;

/// Number of seeds by default.
const SEEDS: u64 = 4;
/// Number of flips per seed. The API server rejects some.
const FLIPS: usize = 12;
/// Maximum writes per flip: the replacement of a pod or of a `ReplicaSet` with its pods, and statuses.
const WRITES_PER_FLIP_MAX: usize = 60;

/// Resources and JSON pointers of the fields.
const FIELDS: [(&Resource, &str); 10] = [
    (&PODS, "/metadata/labels/app"),
    (&PODS, "/metadata/labels/pod-template-hash"),
    (&PODS, "/metadata/ownerReferences/0/uid"),
    (&PODS, "/metadata/ownerReferences/0/name"),
    (&PODS, "/metadata/finalizers/0"),
    (&SETS, "/metadata/labels/app"),
    (&SETS, "/metadata/labels/pod-template-hash"),
    (&SETS, "/metadata/ownerReferences/0/uid"),
    (&SETS, "/spec/selector/matchLabels/app"),
    (&DEPLOYMENTS, "/spec/selector/matchLabels/app"),
];

/// Flips one of the lower five bits of one character, so that it stays printable.
fn flip(text: &str, rng: &Rng) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let at = usize::try_from(rng.below(bytes.len() as u64)).expect("small");
    bytes[at] ^= 1 << rng.below(5);
    String::from_utf8(bytes).expect("ASCII")
}

/// Flips a bit in a random object of the Deployment `chosen`; returns whether the API server accepted it.
async fn corrupt(cluster: &Cluster, rng: &Rng) -> bool {
    let (resource, pointer) = FIELDS[usize::try_from(rng.below(FIELDS.len() as u64)).expect("small")];
    let objects = cluster.list(resource).await;
    let name = |it: &Value| it["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let candidates: Vec<&Value> = objects
        .iter()
        .filter(|it| name(it).starts_with("chosen"))
        .collect();
    if candidates.is_empty() {
        return false;
    }
    let chosen = candidates[usize::try_from(rng.below(candidates.len() as u64)).expect("small")];
    let mut corrupted = chosen.clone();
    let Some(field) = corrupted.pointer_mut(pointer) else {
        return false;
    };
    *field = json!(flip(field.as_str().unwrap_or_default(), rng));
    // A merge patch replaces whole lists.
    let mut parts = pointer.split('/').skip(1);
    let (outer, inner) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let patch = json!({outer: {inner: corrupted[outer][inner]}});
    let key = Key::new("default", name(chosen));
    let patched: Result<Value, _> = cluster.admin.patch(resource, &key, Patch::merge(&patch)).await;
    patched.is_ok()
}

async fn run(seed: u64) {
    let rng = Rng::from_seed(seed);
    let cluster = Cluster::new();
    let process = cluster.start("process", "steersman", 100);
    cluster.leads(&process).await;
    let healthy = cluster.deploy("healthy", 3).await;
    cluster.deploy("chosen", 3).await;
    cluster.complete("healthy").await;
    cluster.complete("chosen").await;
    let uids = async || {
        let pods = cluster.list(&PODS).await;
        let healthy = pods
            .iter()
            .filter(|it| it["metadata"]["labels"]["app"] == "healthy");
        let mut uids: Vec<String> = healthy.map(|it| it["metadata"]["uid"].to_string()).collect();
        uids.sort();
        uids
    };
    let (pods, before) = (uids().await, cluster.writes().len());
    let mut flips = 0;
    for _ in 0..FLIPS {
        // Pods have no finalizers by default.
        for pod in cluster.list(&PODS).await {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            if name.starts_with("chosen") && pod["metadata"]["finalizers"].is_null() && rng.below(4) == 0 {
                let patch = json!({"metadata": {"finalizers": ["example.com/held"]}});
                cluster.patch(&PODS, name, &patch).await;
            }
        }
        flips += usize::from(corrupt(&cluster, &rng).await);
        cluster.sleep(rng.between(Duration::ZERO, 20 * SECOND)).await;
    }
    assert!(flips >= 2, "the API server accepted only {flips}");
    assert_eq!(cluster.collected_with_owner(), [""; 0]);
    cluster.assert_idle().await;
    let writes = cluster.writes().len() - before;
    assert!(
        writes <= WRITES_PER_FLIP_MAX * flips,
        "{writes} writes for {flips} flips"
    );
    assert_eq!(uids().await, pods, "pods of another Deployment were replaced");
    let deployment = cluster.read(&DEPLOYMENTS, "healthy").await.expect("it exists");
    assert_eq!(deployment["metadata"]["uid"], healthy["metadata"]["uid"]);
    let chosen = cluster.read(&DEPLOYMENTS, "chosen").await.expect("it exists");
    assert_eq!(chosen["status"]["availableReplicas"], 3, "{}", chosen["status"]);
    assert_eq!(chosen["status"]["updatedReplicas"], 3, "{}", chosen["status"]);
}

#[test]
fn flipped_bits_affect_only_their_deployment() {
    for seed in seeds::of(SEEDS) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(run(seed));
    }
}
