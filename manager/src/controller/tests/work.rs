//! From changes to reconciles.

use super::*;

use std::collections::BTreeSet;

use crate::predicate::Predicate;

#[tokio::test(start_paused = true)]
async fn a_key_is_in_one_reconcile_at_a_time_and_its_last_change_is_seen() {
    let bed = Bed::new();
    let rng = bed.env.rng.clone();
    let version = |pods: &Pods| pods.0.version.load(Ordering::SeqCst);
    let names: Vec<String> = (0..5).map(|n| format!("p{n}")).collect();
    let here = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let most = Arc::new(AtomicUsize::new(0));
    let options = Options {
        workers: 3,
        ..Options::default()
    };
    let controller = bed.controller(options, {
        let (pods, here, seen, most) = (bed.pods.clone(), here.clone(), seen.clone(), most.clone());
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
    let running = bed.run(&controller);
    let mut last = BTreeMap::new();
    for name in &names {
        bed.pods.add(name);
    }
    for _ in 0..2000 {
        let name = &names[usize::try_from(rng.below(5)).expect("small")];
        bed.pods.update(name);
        last.insert(name.clone(), version(&bed.pods));
        bed.sleep(rng.between(ms(0), ms(5))).await;
    }
    bed.sleep(secs(3600)).await;
    for (name, version) in &last {
        assert!(lock(&seen)[name] >= *version, "the last change of {name}");
    }
    assert_eq!(most.load(Ordering::SeqCst), 3, "all workers work");
    assert_eq!(bed.value("reconcile_panics_total"), "0");
    assert!(!running.end.is_finished());
}

#[tokio::test(start_paused = true)]
async fn an_event_during_a_reconcile_leads_to_another_one_after_it() {
    let bed = Bed::new();
    let journal = Journal::new();
    let log = journal.clone();
    let _running = bed.start(move |context, _| {
        let log = log.clone();
        async move {
            log.write(&context, context.cause.to_string());
            context.env.clock.sleep(ms(100)).await;
            Ok(Action::Done)
        }
    });
    bed.pods.add("a");
    bed.sleep(ms(50)).await;
    for _ in 0..3 {
        bed.pods.update("a");
        bed.sleep(ms(1)).await;
    }
    bed.pods.delete("a");
    bed.sleep(secs(10)).await;
    assert_eq!(
        journal.lines(),
        ["pods: initial", "pods: updated"],
        "the first cause"
    );
    assert_eq!(journal.times(), [0, 100]);
}

#[tokio::test(start_paused = true)]
async fn what_merely_exists_gives_way_to_what_has_changed() {
    let bed = Bed::new();
    for name in ["a", "b", "c"] {
        bed.pods.add(name);
    }
    let journal = Journal::new();
    let log = journal.clone();
    let _running = bed.start(move |context, key| {
        let log = log.clone();
        async move {
            log.write(&context, key.to_string());
            context.env.clock.sleep(ms(100)).await;
            Ok(Action::Done)
        }
    });
    bed.sleep(ms(50)).await;
    bed.pods.add("z");
    bed.sleep(secs(10)).await;
    assert_eq!(journal.lines(), ["ns/a", "ns/z", "ns/b", "ns/c"]);
}

#[tokio::test(start_paused = true)]
async fn the_cause_of_each_reconcile_is_told() {
    let bed = Bed::new();
    bed.pods.add("a");
    let journal = Journal::new();
    let log = journal.clone();
    let runs = AtomicUsize::new(0);
    let running = bed.start(move |context, _| {
        log.write(&context, context.cause.to_string());
        let answer = match runs.fetch_add(1, Ordering::SeqCst) {
            2 => Err(ReconcileError::retryable("for the test")),
            3 => Ok(Action::RequeueAfter(secs(1))),
            _ => Ok(Action::Done),
        };
        async { answer }
    });
    bed.sleep(secs(5)).await;
    bed.pods.update("a");
    bed.sleep(secs(5)).await;
    bed.pods.delete("a");
    bed.sleep(secs(5)).await;
    bed.pods.add("a");
    bed.sleep(secs(5)).await;
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
async fn what_does_not_pass_the_predicate_makes_no_key() {
    let bed = Bed::new();
    let journal = Journal::new();
    let log = journal.clone();
    let reconcile = move |context: Context, key: Key| {
        log.write(&context, format!("{key} {}", context.cause));
        async { Ok(Action::Done) }
    };
    let only_deleted = Predicate::new(|delta| matches!(delta, Delta::Deleted { .. }));
    let source = Source::new(bed.pods.clone(), Handler::for_object()).only(only_deleted);
    let controller =
        bed.build(Builder::new("test-controller", Options::default(), By(reconcile)).watch(source));
    let _running = bed.run(&controller);
    bed.sleep(ms(1)).await;
    bed.pods.add("a");
    bed.sleep(ms(1)).await;
    bed.pods.update("a");
    bed.sleep(ms(1)).await;
    bed.pods.delete("a");
    bed.sleep(ms(1)).await;
    assert_eq!(journal.lines(), ["ns/a pods: deleted"]);
}
