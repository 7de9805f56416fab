//! Bounds on the memory of caches, in a process with a counting allocator.

mod large;
mod measure;
mod pods;

use serde::Deserialize;
use steersman_manager::cache::{Cache, Caches, Scope};
use steersman_manager::client::Transport;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Meta, Object, Resource};

use large::{LargeObjects, SMALL};

const SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

/// The bound on heap bytes per pod, with indexes, in a projection for workload controllers.
const BYTES_MAX: f64 = 460.0;
/// The bound on the peak of the first list, as a multiple of the memory after it.
const LIST_PEAK_MAX: f64 = 1.5;
/// The bound on the peak of a relist with 1% changed pods, as a multiple of the memory before it.
const RELIST_PEAK_MAX: f64 = 1.3;
/// The bound on the peak of a list of large objects in bytes: a few of them.
const LARGE_PEAK_MAX: u64 = 64 * 1024 * 1024;

#[test]
fn cache_of_pods_stays_within_its_memory() {
    // Small pages, as those of a larger cache would be.
    let figures = measure::measure::<50>(5_000);
    let measure::Figures {
        bytes,
        allocations,
        list_peak,
        relist_peak,
    } = figures;
    println!("{bytes:.0} bytes and {allocations:.2} allocations per pod");
    println!("peaks: first list {list_peak:.2}, relist {relist_peak:.2}");
    assert!(bytes < BYTES_MAX, "{bytes:.0} bytes per pod");
    assert!(
        list_peak < LIST_PEAK_MAX,
        "the first list takes {list_peak:.2} times the memory"
    );
    assert!(
        relist_peak < RELIST_PEAK_MAX,
        "a relist takes {relist_peak:.2} times the memory"
    );
}

/// A projection without the large field.
#[derive(Debug, PartialEq, Deserialize)]
struct Projected {
    metadata: Meta,
}

impl Object for Projected {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }
}

#[test]
fn list_of_large_objects_holds_few_of_them() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let _entered = runtime.enter();
    let (tasks, registry) = (TaskSet::new(), Registry::new("test"));
    let env = Env::system(&tasks);
    // 1.57 MB of `<` each, which are six times as long in JSON: 188 MB on one page.
    let server = LargeObjects::new(&env.clock, 20, 157);
    let transport = Transport::from_service(server, "large", "test", &env.clock, &registry);
    let client = transport.expect("a transport").reader("test", None);
    let caches = Caches::new(&env, client, Scope::default(), &registry).expect("caches");
    let listed = allocation_counter::measure(|| {
        runtime.block_on(async {
            let sets: Cache<Projected> = caches.of(&SETS);
            let maps: Cache<Projected> = caches.of(&MAPS);
            sets.synced().await;
            assert_eq!((sets.len(), maps.len()), (20, SMALL));
        });
    });
    let peak = listed.bytes_max;
    println!("large objects: {peak} bytes");
    assert!(peak < LARGE_PEAK_MAX, "the list takes {peak} bytes");
}
