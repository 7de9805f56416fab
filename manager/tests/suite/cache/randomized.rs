//! Random writes and faults: the cache and its subscribers converge to the state of the API server, and the cache never
//! goes back in time.

use proptest::prelude::*;
use steersman_sandbox::faults::Effect;

use super::server::{StreamFault, Verb, answer, status};
use super::sync::replay;
use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Create(u8),
    Set(u8),
    Invalidate(u8),
    Delete(u8),
    /// Deletes and creates an object of the same name.
    Recreate(u8),
    Streams(StreamFault),
    /// Returns this code to the next requests of a verb.
    Answer(Verb, u16, usize),
    Hang(Verb),
    Compact,
    /// Starts or ends a lag of the watches.
    Lag(bool),
    /// Repeats an event.
    Repeat(u8),
    Relist,
    Subscribe,
    Take,
    Wait(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let verb = prop_oneof![Just(Verb::List), Just(Verb::Watch)];
    let fault = prop_oneof![
        Just(StreamFault::End),
        Just(StreamFault::Drop),
        Just(StreamFault::Silence)
    ];
    let code = prop_oneof![Just(410), Just(429), Just(500), Just(403), Just(404), Just(200)];
    prop_oneof![
        4 => (0..6u8).prop_map(Step::Create),
        6 => (0..6u8).prop_map(Step::Set),
        1 => (0..6u8).prop_map(Step::Invalidate),
        3 => (0..6u8).prop_map(Step::Delete),
        2 => (0..6u8).prop_map(Step::Recreate),
        2 => fault.prop_map(Step::Streams),
        2 => (verb.clone(), code, 1..4usize).prop_map(|(verb, code, times)| Step::Answer(verb, code, times)),
        1 => verb.prop_map(Step::Hang),
        1 => Just(Step::Compact),
        1 => any::<bool>().prop_map(Step::Lag),
        1 => (0..6u8).prop_map(Step::Repeat),
        1 => Just(Step::Relist),
        1 => Just(Step::Subscribe),
        2 => Just(Step::Take),
        4 => (0..40u8).prop_map(Step::Wait),
    ]
}

struct Subscriber {
    view: BTreeMap<Key, Arc<Map>>,
    subscription: Subscription<Map>,
}

fn version_of(map: &ConfigMap) -> Version {
    Version::from(map.metadata.resource_version.as_deref().unwrap_or_default())
}

async fn run(seed: u64, steps: Vec<Step>) {
    let f = fixture_with(Scope::default(), seed);
    let cache = f.maps();
    let service = f.sandbox.service();
    f.server.switch(service.clone());
    let subscribe = || Subscriber {
        view: BTreeMap::new(),
        subscription: cache.subscribe(),
    };
    let mut subscribers = vec![subscribe()];
    let mut last: BTreeMap<u8, ConfigMap> = BTreeMap::new();
    let mut reached = Version::none();
    let mut objects: BTreeMap<Key, Arc<Map>> = BTreeMap::new();
    for (n, step) in steps.into_iter().enumerate() {
        let name = |i: u8| format!("m{i}");
        match step {
            Step::Create(i) if !last.contains_key(&i) => {
                last.insert(i, create(&f.sandbox, &name(i), "1").await);
            }
            Step::Set(i) if last.contains_key(&i) => {
                set(&f.sandbox, &name(i), &n.to_string()).await;
            }
            Step::Invalidate(i) if last.contains_key(&i) => {
                patch(
                    &f.sandbox,
                    &name(i),
                    serde_json::json!({"data": {"invalid": "x"}}),
                )
                .await;
            }
            Step::Delete(i) if last.remove(&i).is_some() => delete(&f.sandbox, &name(i)).await,
            Step::Recreate(i) if last.contains_key(&i) => {
                delete(&f.sandbox, &name(i)).await;
                last.insert(i, create(&f.sandbox, &name(i), "again").await);
            }
            Step::Repeat(i)
                if last
                    .get(&i)
                    .is_some_and(|map| reached.has_reached(&version_of(map))) =>
            {
                let old = serde_json::to_string(&last[&i]).expect("JSON");
                f.server
                    .inject(&format!(r#"{{"type":"MODIFIED","object":{old}}}"#));
            }
            Step::Streams(fault) => f.server.streams(fault),
            Step::Answer(verb, code, times) => {
                let body = if code == 200 {
                    String::new()
                } else {
                    status(code, "Reason")
                };
                f.server.next(verb, times, answer(code, body, 0));
            }
            Step::Hang(verb) => f.server.next(verb, 1, Effect::Hang),
            Step::Compact => f.sandbox.compact(f.sandbox.revision()),
            Step::Lag(true) => service.lag().hold_all_at(f.sandbox.revision()),
            Step::Lag(false) => service.lag().release(),
            Step::Relist => cache.relist(),
            Step::Subscribe => subscribers.push(subscribe()),
            Step::Take => subscribers
                .iter_mut()
                .for_each(|it| replay(&mut it.view, &mut it.subscription)),
            Step::Wait(seconds) => f.sleep(u64::from(seconds) * 5).await,
            _ => {}
        }
        settle().await;
        let version = cache.version();
        assert!(
            reached.is_none() || version.has_reached(&reached),
            "{version} after {reached}"
        );
        reached = version;
        let now: BTreeMap<Key, Arc<Map>> = cache
            .all()
            .into_iter()
            .map(|map| (map.metadata.key(), map))
            .collect();
        for (key, map) in &now {
            if let Some(before) = objects.get(key) {
                let (before, after) = (&before.metadata.resource_version, &map.metadata.resource_version);
                assert!(after.has_reached(before), "{key}: {after} after {before}");
            }
        }
        objects = now;
    }
    f.server.heal();
    service.lag().release();
    for i in last.keys() {
        patch(
            &f.sandbox,
            &format!("m{i}"),
            serde_json::json!({"data": {"invalid": null}}),
        )
        .await;
    }
    f.equal(&cache, 300).await;
    for it in &mut subscribers {
        replay(&mut it.view, &mut it.subscription);
        let view: Vec<Arc<Map>> = it.view.values().cloned().collect();
        assert_eq!(shown(&view), shown(&cache.all()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn cache_converges_to_the_api_server(
        seed in any::<u64>(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(run(seed, steps));
    }
}
