//! The memory of a pod in the caches of all controllers and in the graph: counted, not timed.

#[path = "../../../../../manager/tests/memory/pods.rs"]
mod pods;

use steersman_manager::cache::{Caches, Delta, Scope};
use steersman_manager::client::Transport;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;

use super::*;

const PODS: usize = 5_000;
/// The bound on heap bytes per pod in the cache of workload controllers and in the graph.
const BYTES_MAX: f64 = 900.0;

#[test]
#[expect(clippy::cast_precision_loss, reason = "figures of a measurement")]
fn pod_in_all_caches_and_the_graph_stays_within_its_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (tasks, registry) = (TaskSet::new(), Registry::new("steersman"));
    let (caches, now) = runtime.block_on(async {
        let env = Env::system(&tasks);
        let server = pods::Pods::new(PODS);
        let transport = Transport::from_service(server, "pods", "test", &env.clock, &registry);
        let client = transport.expect("a transport").reader("test", None);
        let caches = Caches::new(&env, client, Scope::default(), &registry).expect("caches");
        (caches, env.clock.now())
    });
    let _runtime = runtime.enter();
    let bytes = |step: &str, run: &mut dyn FnMut()| {
        let counted = allocation_counter::measure(run);
        let bytes = counted.bytes_current as f64 / PODS as f64;
        println!("{step}: {bytes:.0} bytes per pod");
        bytes
    };
    let mut pods = None;
    let objects = bytes("cache of workload controllers", &mut || {
        let cache = pods.insert(caches.of::<crate::support::pod::Pod>(&POD));
        runtime.block_on(cache.synced());
        assert_eq!(cache.len(), PODS);
    });
    let mut graph = Graph::default();
    let (kind, owner_kind) = (kind(&POD), kind(&SET));
    let _ = graph.set_kinds(kinds(&ALL, &WATCHED), now);
    let nodes = bytes("graph", &mut || {
        let mut subscription = caches.metadata(&POD).subscribe();
        while let Some(Delta::Added { new, .. }) = subscription.try_next() {
            let controller = new.metadata.controller().expect("a controller");
            let owner = Meta {
                namespace: new.metadata.namespace.clone(),
                name: controller.name.clone(),
                uid: controller.uid.clone(),
                resource_version: "1".into(),
                ..Meta::default()
            };
            let _ = graph.observe(&owner_kind, &owner);
            let _ = graph.observe(&kind, &new.metadata);
        }
    });
    let sizes = graph.sizes();
    assert!(sizes.observed > PODS && sizes.virtual_owners == 0, "{sizes:?}");
    let mut hollow = None;
    bytes("cache of hollow-kubelet", &mut || {
        let cache = hollow.insert(caches.of::<crate::hollow_kubelet::Pod>(&POD));
        runtime.block_on(cache.synced());
    });
    let all = objects + nodes;
    assert!(all < BYTES_MAX, "{all:.0} bytes per pod");
}
