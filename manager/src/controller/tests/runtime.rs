//! A controller with several queues on [`Runtime`].

use super::*;

use crate::queue::Queue;

#[derive(Clone)]
struct TwoQueues(Queue<u32>, Queue<String>);

impl Queues for TwoQueues {
    fn replace(&self, env: &Env) -> Self {
        Self(
            self.0.replace(env, default_limiter()),
            self.1.replace(env, default_limiter()),
        )
    }

    fn depth(&self) -> usize {
        self.0.len() + self.1.len()
    }

    fn oldest(&self) -> Option<Waiting> {
        None
    }
}

/// Counts the terms that have ended.
#[derive(Clone, Default)]
struct Terms(Arc<AtomicUsize>);

impl TermState for Terms {
    fn ended(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs a term that is stopped after five seconds.
async fn run(
    test: &Fixture,
    start: impl FnOnce(TwoQueues, &mut Workers) + Send,
) -> (Vec<Key>, usize, Result<(), Fatal>) {
    let (numbers, names) = (default_limiter(), default_limiter());
    let queues = TwoQueues(
        Queue::unnamed(&test.env, numbers),
        Queue::unnamed(&test.env, names),
    );
    let limits = HealthLimits {
        workers: 2,
        timeout: secs(60),
        grace: secs(0),
        wait: secs(60),
    };
    let runtime = Runtime::new("two-queues", &test.env, limits, queues);
    let (stop, ended) = (CancellationToken::new(), Terms::default());
    let start = |queues, workers: &mut Workers| {
        start(queues, workers);
        Arc::new(ended.clone())
    };
    let term = test.fence.open_forever();
    let run = runtime.run(&test.fence, term, stop.clone(), async { Ok(()) }, start);
    let stop = async {
        test.sleep(secs(5)).await;
        let running = runtime.running();
        stop.cancel();
        running
    };
    let (ran, running) = tokio::join!(run, stop);
    (running, ended.0.load(Ordering::SeqCst), ran)
}

#[tokio::test(start_paused = true)]
async fn each_queue_has_its_own_workers_and_a_released_slot_admits_the_next_item() {
    let test = Fixture::new();
    let (clock, journal) = (test.env.clock.clone(), Arc::new(Mutex::new(Vec::new())));
    let log = journal.clone();
    let (running, ended, ran) = run(&test, move |queues, workers| {
        for number in 1..=3 {
            queues.0.add(number);
        }
        for name in ["a", "b"] {
            queues.1.add(name.to_owned());
        }
        let names = log.clone();
        let key = |number: &u32| Key::new("", number.to_string());
        workers.pool(queues.0, 1, key, move |number, slot| {
            let (clock, log) = (clock.clone(), log.clone());
            async move {
                lock(&log).push(format!("{number} begins"));
                if number == 1 {
                    slot.release();
                }
                clock.sleep(secs(10)).await;
                lock(&log).push(format!("{number} ends"));
            }
        });
        let key = |name: &String| Key::new("", name.clone());
        workers.pool(queues.1, 1, key, move |name, _| {
            lock(&names).push(name);
            async {}
        });
    })
    .await;
    ran.expect("not fatal");
    assert_eq!(running, [Key::new("", "1"), Key::new("", "2")]);
    let mut lines = lock(&journal).clone();
    // The order between queues is not defined.
    lines[..4].sort();
    assert_eq!(
        lines,
        ["1 begins", "2 begins", "a", "b", "1 ends", "2 ends"],
        "not 3"
    );
    assert_eq!(ended, 1);
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_pool_ends_the_term_with_an_error() {
    let test = Fixture::new();
    let (_, ended, ran) = run(&test, |queues, workers| {
        queues.0.add(1);
        let process = |_, _| async { panic!("for the test") };
        workers.pool(queues.0, 1, |_| Key::new("", "1"), process);
    })
    .await;
    assert_eq!(
        ran.expect_err("fatal").to_string(),
        "controller two-queues: a worker panicked: for the test"
    );
    assert_eq!(ended, 1);
}
