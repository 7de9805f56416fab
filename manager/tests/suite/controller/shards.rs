//! A controller of requests that are not keys: each object is reconciled in two shards.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use steersman_manager::cache::{Caches, Scope};
use steersman_manager::client::Fence;
use steersman_manager::controller::{
    Action, Builder, Options, ReconcileContext, ReconcileError, Reconciler, Request, Runnable as _,
};
use steersman_manager::handler::Handler;
use steersman_manager::object::{Key, MetaObject};
use steersman_manager::queue::Item;
use steersman_manager::source::{Source, Trigger};
use tokio_util::sync::CancellationToken;

use super::MAPS;
use crate::fixture::fixture;

const SECOND: Duration = Duration::from_secs(1);
/// The duration of a reconcile.
const DURATION: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Shard(Key, u8);

impl Item for Shard {
    fn namespace(&self) -> &str {
        &self.0.namespace
    }
}

impl Request for Shard {
    fn key(&self) -> Key {
        self.0.clone()
    }
}

/// The numbers of the shards, in order.
#[derive(Clone, Default)]
struct Shards {
    running: Arc<Mutex<Vec<u8>>>,
    ended: Arc<Mutex<Vec<u8>>>,
}

impl Reconciler<Shard> for Shards {
    async fn reconcile(
        &self,
        context: ReconcileContext,
        Shard(_, shard): Shard,
    ) -> Result<Action, ReconcileError> {
        self.running.lock().expect("no panic").push(shard);
        context.env.clock.sleep(DURATION).await;
        self.running.lock().expect("no panic").retain(|it| *it != shard);
        self.ended.lock().expect("no panic").push(shard);
        Ok(Action::Done)
    }
}

fn sorted(shards: &Mutex<Vec<u8>>) -> Vec<u8> {
    let mut shards = shards.lock().expect("no panic").clone();
    shards.sort_unstable();
    shards
}

#[tokio::test(start_paused = true)]
async fn shards_of_a_key_run_at_the_same_time_and_one_shard_never_twice() {
    let f = fixture();
    let reader = f.transport.reader("cache", None);
    let caches = Caches::new(&f.env, reader, Scope::default(), &f.registry).expect("caches");
    let (shards, trigger, key) = (Shards::default(), Trigger::new(), Key::new("default", "a"));
    let mapped = key.clone();
    let handler = Handler::map(move |map: &MetaObject| {
        let of_key = |shard| Shard(map.metadata.key(), shard);
        let shards = [of_key(0), of_key(1)].into_iter();
        shards.filter(|shard| shard.0 == mapped).collect()
    });
    let options = Options {
        workers: 4,
        ..Options::default()
    };
    let controller = Builder::new("shards", options, shards.clone())
        .watch(Source::new(caches.of(&MAPS), handler))
        .triggered_by(&trigger)
        .build(&f.env, f.transport.reader("shards", None), &f.registry)
        .expect("a controller");
    let fence = Fence::new(f.env.clock.clone());
    let term = fence.open_forever();
    f.env.tasks.spawn(async move {
        let ended = controller.run(&fence, term, CancellationToken::new()).await;
        ended.expect("not fatal");
    });

    f.create(&MAPS, "default", &json!({"metadata": {"name": "a"}}))
        .await;
    f.env.clock.sleep(SECOND).await;
    assert_eq!(sorted(&shards.running), [0, 1]);
    trigger.send(Shard(key, 1));
    f.env.clock.sleep(SECOND).await;
    assert_eq!(sorted(&shards.running), [0, 1], "the second shard runs already");
    f.env.clock.sleep(DURATION).await;
    assert_eq!(sorted(&shards.ended), [0, 1]);
    assert_eq!(sorted(&shards.running), [1], "again, and not the other shard");
    f.env.clock.sleep(DURATION).await;
    assert_eq!(sorted(&shards.ended), [0, 1, 1]);
    assert_eq!(sorted(&shards.running), [0; 0]);
}
