//! Events, keys and reconciles.

use super::*;

use std::collections::BTreeSet;

use crate::predicate::Predicate;

#[tokio::test(start_paused = true)]
async fn key_is_in_one_reconcile_at_a_time_and_its_last_change_is_reconciled() {
    let test = Fixture::new();
    let rng = test.env.rng.clone();
    let version = |pods: &Pods| pods.0.version.load(Ordering::SeqCst);
    let names: Vec<String> = (0..5).map(|n| format!("p{n}")).collect();
    let here = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let most = Arc::new(AtomicUsize::new(0));
    let options = Options {
        workers: 3,
        ..Options::default()
    };
    let controller = test.controller(options, {
        let (pods, here, seen, most) = (test.pods.clone(), here.clone(), seen.clone(), most.clone());
        move |context, key| {
            let (pods, here, seen, most) = (pods.clone(), here.clone(), seen.clone(), most.clone());
            async move {
                assert!(lock(&here).insert(key.clone()), "{key} is in two reconciles");
                most.fetch_max(lock(&here).len(), Ordering::SeqCst);
                lock(&seen).insert(key.name.to_string(), version(&pods));
                let long = context.env.rng.between(ms(0), ms(20));
                context.env.clock.sleep(long).await;
                lock(&here).remove(&key);
                match context.env.rng.below(4) {
                    0 => Err(ReconcileError::retryable("for the test")),
                    1 => Ok(Action::RequeueAfter(ms(3))),
                    _ => Ok(Action::Done),
                }
            }
        }
    });
    let running = test.run(&controller);
    let mut last = BTreeMap::new();
    for name in &names {
        test.pods.add(name);
    }
    for _ in 0..2000 {
        let name = &names[usize::try_from(rng.below(5)).expect("small")];
        test.pods.update(name);
        last.insert(name.clone(), version(&test.pods));
        test.sleep(rng.between(ms(0), ms(5))).await;
    }
    test.sleep(secs(3600)).await;
    for (name, version) in &last {
        assert!(lock(&seen)[name] >= *version, "the last change of {name}");
    }
    assert_eq!(most.load(Ordering::SeqCst), 3, "all workers work");
    assert_eq!(test.value("reconcile_panics_total"), "0");
    assert!(!running.end.is_finished());
}

#[tokio::test(start_paused = true)]
async fn event_during_a_reconcile_causes_another_one() {
    let test = Fixture::new();
    let journal = Journal::new();
    let log = journal.clone();
    let _running = test.start(move |context, _| {
        let log = log.clone();
        async move {
            log.write(&context, context.cause.to_string());
            context.env.clock.sleep(ms(100)).await;
            Ok(Action::Done)
        }
    });
    test.pods.add("a");
    test.sleep(ms(50)).await;
    for _ in 0..3 {
        test.pods.update("a");
        test.sleep(ms(1)).await;
    }
    test.pods.delete("a");
    test.sleep(secs(10)).await;
    assert_eq!(
        journal.lines(),
        ["pods: initial", "pods: updated"],
        "the first cause"
    );
    assert_eq!(journal.times(), [0, 100]);
}

#[tokio::test(start_paused = true)]
async fn changed_objects_are_reconciled_before_initial_ones() {
    let test = Fixture::new();
    for name in ["a", "b", "c"] {
        test.pods.add(name);
    }
    let journal = Journal::new();
    let log = journal.clone();
    let _running = test.start(move |context, key| {
        let log = log.clone();
        async move {
            log.write(&context, key.to_string());
            context.env.clock.sleep(ms(100)).await;
            Ok(Action::Done)
        }
    });
    test.sleep(ms(50)).await;
    test.pods.add("z");
    test.sleep(secs(10)).await;
    assert_eq!(journal.lines(), ["ns/a", "ns/z", "ns/b", "ns/c"]);
}

#[tokio::test(start_paused = true)]
async fn context_has_the_cause_of_the_reconcile() {
    let test = Fixture::new();
    test.pods.add("a");
    let journal = Journal::new();
    let log = journal.clone();
    let runs = AtomicUsize::new(0);
    let running = test.start(move |context, _| {
        log.write(&context, context.cause.to_string());
        let answer = match runs.fetch_add(1, Ordering::SeqCst) {
            2 => Err(ReconcileError::retryable("for the test")),
            3 => Ok(Action::RequeueAfter(secs(1))),
            _ => Ok(Action::Done),
        };
        async { answer }
    });
    test.sleep(secs(5)).await;
    test.pods.update("a");
    test.sleep(secs(5)).await;
    test.pods.delete("a");
    test.sleep(secs(5)).await;
    test.pods.add("a");
    test.sleep(secs(5)).await;
    assert_eq!(
        journal.lines(),
        [
            "pods: initial",
            "pods: updated",
            "pods: deleted",
            "retry",
            "requeue",
            "pods: added"
        ]
    );
    assert!(!running.end.is_finished());
}

#[tokio::test(start_paused = true)]
async fn filtered_event_enqueues_no_key() {
    let test = Fixture::new();
    let journal = Journal::new();
    let log = journal.clone();
    let reconcile = move |context: ReconcileContext, key: Key| {
        log.write(&context, format!("{key} {}", context.cause));
        async { Ok(Action::Done) }
    };
    let only_deleted = Predicate::new(|delta| matches!(delta, Delta::Deleted { .. }));
    let source = Source::new(test.pods.clone(), Handler::for_object()).only(only_deleted);
    let controller =
        test.build(Builder::new("test-controller", Options::default(), ReconcileFn(reconcile)).watch(source));
    let _running = test.run(&controller);
    test.sleep(ms(1)).await;
    test.pods.add("a");
    test.sleep(ms(1)).await;
    test.pods.update("a");
    test.sleep(ms(1)).await;
    test.pods.delete("a");
    test.sleep(ms(1)).await;
    assert_eq!(journal.lines(), ["ns/a pods: deleted"]);
}

#[tokio::test(start_paused = true)]
async fn existing_objects_are_resynced_once_a_day() {
    const HOUR: u128 = 60 * 60 * 1000;
    let answers: [fn() -> Result<Action, ReconcileError>; 2] = [
        || Ok(Action::Done),
        || Err(ReconcileError::terminal("for the test")),
    ];
    for answer in answers {
        let test = Fixture::new();
        test.pods.add("a");
        test.pods.add("gone");
        let journal = Journal::new();
        let log = journal.clone();
        let _running = test.start(move |context, key| {
            log.write(&context, format!("{} {}", key.name, context.cause));
            async move { answer() }
        });
        test.sleep(secs(1)).await;
        test.pods.delete("gone");
        test.sleep(3 * secs(24 * 60 * 60)).await;
        let resync = "a pods: resync";
        assert_eq!(
            journal.lines(),
            [
                "a pods: initial",
                "gone pods: initial",
                "gone pods: deleted",
                resync,
                resync
            ]
        );
        let days = &journal.times()[3..];
        assert!((24 * HOUR..27 * HOUR).contains(&days[0]), "{days:?}");
        assert!((24 * HOUR..27 * HOUR).contains(&(days[1] - days[0])), "{days:?}");
    }
}
