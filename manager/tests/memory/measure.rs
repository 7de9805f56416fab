//! The memory of a cache of pods: counted, not timed. Only allocations of the current thread count, which runs all tasks.

use allocation_counter::AllocationInfo;
use jiff::Timestamp;
use serde::Deserialize;
use steersman_manager::cache::{Caches, Scope, Subscription};
use steersman_manager::client::Transport;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Interner, Meta, MetaObject, Object, Resource, Text, Version};

use super::pods::Pods;

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// A projection of a pod with the fields that workload controllers read, in pages of `PAGE` pods.
#[derive(Debug, PartialEq, Deserialize)]
pub struct Pod<const PAGE: u32> {
    metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Text,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Text,
    start_time: Option<Timestamp>,
}

impl<const PAGE: u32> Object for Pod<PAGE> {
    const INDEX_UNMANAGED: bool = true;
    const PAGE: u32 = PAGE;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn intern(&mut self, interner: &mut Interner) {
        self.metadata.intern(interner);
        interner.intern(&mut self.spec.node_name);
        interner.intern(&mut self.status.phase);
    }
}

/// The memory of a cache and of a relist.
pub struct Figures {
    /// Heap bytes per pod after the first list.
    pub bytes: f64,
    /// Allocations per pod after the first list.
    pub allocations: f64,
    /// The peak of the first list, as a multiple of the heap bytes after it.
    pub list_peak: f64,
    /// The peak of a relist with 1% changed pods, as a multiple of the heap bytes before it.
    pub relist_peak: f64,
}

/// Measures a cache of this number of pods with two subscribers of metadata.
#[expect(clippy::cast_precision_loss, reason = "figures of a measurement")]
pub fn measure<const PAGE: u32>(count: usize) -> Figures {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (tasks, registry, server) = (TaskSet::new(), Registry::new("test"), Pods::new(count));
    let caches = runtime.block_on(async {
        let env = Env::system(&tasks);
        let transport = Transport::from_service(server.clone(), "pods", "test", &env.clock, &registry);
        let client = transport.expect("a transport").reader("test", None);
        Caches::new(&env, client, Scope::default(), &registry).expect("caches")
    });
    let mut cache = None;
    let mut subscriptions = Vec::new();
    let listed = counted(|| {
        runtime.block_on(async {
            let cache = cache.insert(caches.of::<Pod<PAGE>>(&PODS));
            let metadata = caches.metadata(&PODS);
            subscriptions.extend([metadata.subscribe(), metadata.subscribe()]);
            cache.synced().await;
            drain(&mut subscriptions, count);
        });
    });
    let cache = cache.expect("a cache");
    let version = Version::from(&*server.change());
    let relisted = counted(|| {
        runtime.block_on(async {
            cache.relist();
            while cache.version() != version {
                tokio::task::yield_now().await;
            }
            drain(&mut subscriptions, count.div_ceil(100));
        });
    });
    assert_eq!(cache.len(), count);
    let (steady, pods) = (listed.bytes_current as f64, count as f64);
    Figures {
        bytes: steady / pods,
        allocations: listed.count_current as f64 / pods,
        list_peak: listed.bytes_max as f64 / steady,
        relist_peak: 1.0 + relisted.bytes_max as f64 / steady,
    }
}

fn counted(run: impl FnOnce()) -> AllocationInfo {
    allocation_counter::measure(run)
}

/// Takes all pending deltas of each subscription.
fn drain(subscriptions: &mut [Subscription<MetaObject>], expected: usize) {
    for subscription in subscriptions {
        let deltas = std::iter::from_fn(|| subscription.try_next()).count();
        assert_eq!(deltas, expected);
    }
}
