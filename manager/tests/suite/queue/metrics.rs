//! The metrics of a queue.

use prometheus::TextEncoder;

use steersman_manager::metrics::Registry;

use super::{env, ms};
use steersman_manager::queue::{Queue, default_limiter};

/// Returns the samples of a queue.
fn scrape(registry: &Registry, name: &str) -> Vec<String> {
    let label = format!("{{name=\"{name}\"}}");
    let text = TextEncoder::new()
        .encode_to_string(&registry.gather())
        .expect("a text");
    text.lines()
        .filter(|line| line.contains(&label) && !line.starts_with('#'))
        .map(|line| line.replace(&label, "").replace("workqueue_", ""))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn all_metrics_are_exposed_at_0_with_the_buckets_of_kcm() {
    let (env, _tasks) = env();
    let registry = Registry::new("test");
    let _queue: Queue<u32> = Queue::named(&env, "deployment", &registry, default_limiter()).expect("a queue");
    assert_eq!(
        scrape(&registry, "deployment"),
        [
            "test_oldest_item_seconds 0",
            "adds_total 0",
            "depth 0",
            "longest_running_processor_seconds 0",
            "queue_duration_seconds_sum 0",
            "queue_duration_seconds_count 0",
            "retries_total 0",
            "unfinished_work_seconds 0",
            "work_duration_seconds_sum 0",
            "work_duration_seconds_count 0",
        ]
    );
    let families = registry.gather();
    assert_eq!(families.len(), 8);
    for family in families
        .iter()
        .filter(|f| f.name().ends_with("_duration_seconds"))
    {
        let bounds: Vec<f64> = family.get_metric()[0]
            .get_histogram()
            .get_bucket()
            .iter()
            .map(prometheus::proto::Bucket::upper_bound)
            .collect();
        assert_eq!(bounds.len(), 10);
        for (n, bound) in (-8..).zip(bounds) {
            assert!(
                (bound / 10_f64.powi(n) - 1.0).abs() < 1e-9,
                "{bound} is not 1e{n}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_adds_depth_durations_and_retries() {
    let (env, _tasks) = env();
    let registry = Registry::new("test");
    let queue = Queue::named(&env, "a", &registry, default_limiter()).expect("a queue");
    let value = |metric: &str| {
        let prefix = format!("{metric} ");
        let found = scrape(&registry, "a")
            .iter()
            .find_map(|s| s.strip_prefix(&prefix).map(str::to_owned));
        found.unwrap_or_else(|| panic!("no {metric}"))
    };
    for item in [1, 1, 2] {
        queue.add(item);
    }
    assert_eq!(value("adds_total"), "2", "duplicates do not count");
    assert_eq!(value("depth"), "2");

    env.clock.sleep(ms(125)).await;
    assert_eq!(queue.get().await, Some(1));
    assert_eq!(
        (value("depth"), value("queue_duration_seconds_sum")),
        ("1".into(), "0.125".into())
    );

    env.clock.sleep(ms(1000)).await;
    assert_eq!(queue.get().await, Some(2));
    queue.add(1);
    assert_eq!(
        (value("adds_total"), value("depth")),
        ("3".into(), "1".into()),
        "while processing"
    );
    env.clock.sleep(ms(500)).await;
    assert_eq!(value("longest_running_processor_seconds"), "1.5");
    assert_eq!(value("unfinished_work_seconds"), "2");

    for item in [1, 2] {
        queue.done(&item);
    }
    assert_eq!(value("unfinished_work_seconds"), "0");
    assert_eq!(
        (
            value("work_duration_seconds_count"),
            value("work_duration_seconds_sum")
        ),
        ("2".into(), "2".into())
    );
    assert_eq!(value("adds_total"), "3", "requeueing by done is not an add");

    assert_eq!(queue.get().await, Some(1));
    assert_eq!(
        value("queue_duration_seconds_sum"),
        "1.75",
        "the wait starts with the add, not with done"
    );

    queue.add_after(7, ms(0));
    queue.add_after(8, ms(50));
    queue.add_rate_limited(9);
    assert_eq!(value("retries_total"), "3");
    assert_eq!(value("adds_total"), "4", "a delayed item is not added yet");
    queue.shut_down();
    queue.add_after(8, ms(50));
    queue.add(10);
    assert_eq!(
        (value("retries_total"), value("adds_total")),
        ("3".into(), "4".into()),
        "rejected"
    );
}

#[tokio::test(start_paused = true)]
async fn oldest_item_is_the_longest_waiting_one() {
    let (env, _tasks) = env();
    let registry = Registry::new("test");
    let queue = Queue::named(&env, "a", &registry, default_limiter()).expect("a queue");
    let oldest = || {
        let samples = scrape(&registry, "a");
        let sample = { samples.iter() }.find_map(|it| it.strip_prefix("test_oldest_item_seconds "));
        sample.expect("a sample").to_owned()
    };
    queue.add_after(1, ms(1000));
    env.clock.sleep(ms(500)).await;
    assert_eq!(oldest(), "0", "an item in backoff does not wait");
    queue.add(2);
    env.clock.sleep(ms(250)).await;
    queue.add(3);
    queue.add(2);
    env.clock.sleep(ms(125)).await;
    assert_eq!(oldest(), "0.375", "the first add of the first item");
    assert_eq!(queue.get().await, Some(2));
    assert_eq!(oldest(), "0.125", "an item in processing does not wait");
    env.clock.sleep(ms(250)).await;
    assert_eq!(queue.get().await, Some(3));
    env.clock.sleep(ms(125)).await;
    assert_eq!(oldest(), "0.25", "the end of the backoff");
    assert_eq!(queue.get().await, Some(1));
    assert_eq!(oldest(), "0");
}

#[tokio::test(start_paused = true)]
async fn name_is_in_use_while_its_queue_exists() {
    let (env, _tasks) = env();
    let registry = Registry::new("test");
    let build = |name| Queue::<u32>::named(&env, name, &registry, default_limiter());
    let (a, _b) = (build("a").expect("a queue"), build("b").expect("a queue"));
    assert_eq!(
        (scrape(&registry, "a").len(), scrape(&registry, "b").len()),
        (10, 10)
    );
    let error = build("a").err().map(|e| e.to_string());
    assert_eq!(
        error.as_deref(),
        Some("failed to register metrics of work queue \"a\"")
    );
    drop(a);
    assert_eq!(
        (scrape(&registry, "a").len(), scrape(&registry, "b").len()),
        (0, 10)
    );
    build("a").expect("a queue");
}

#[tokio::test(start_paused = true)]
async fn replaced_queue_is_empty_and_continues_the_metrics() {
    let (env, _tasks) = env();
    let registry = Registry::new("test");
    let old = Queue::named(&env, "a", &registry, default_limiter()).expect("a queue");
    for item in [1, 2] {
        old.add(item);
    }
    old.get().await;
    old.add_rate_limited(1);
    let new = old.replace(&env, default_limiter());
    let value = |metric: &str| {
        let samples = scrape(&registry, "a");
        samples
            .iter()
            .find_map(|s| s.strip_prefix(&format!("{metric} ")).map(str::to_owned))
    };
    assert_eq!(value("depth").as_deref(), Some("0"));
    assert_eq!(value("unfinished_work_seconds").as_deref(), Some("0"));
    assert_eq!(value("adds_total").as_deref(), Some("2"));
    old.add(3);
    old.done(&1);
    assert!(old.is_shutting_down() && !new.is_shutting_down() && new.is_empty());
    env.clock.sleep(ms(1000)).await;
    assert!(new.is_empty() && new.num_requeues(&1) == 0);
    drop(old);
    new.add(4);
    assert_eq!(
        (value("depth"), value("adds_total")),
        (Some("1".into()), Some("3".into()))
    );
    drop(new);
    assert_eq!(scrape(&registry, "a").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn help_texts_state_the_stability_level() {
    let (env, _tasks) = env();
    let registry = Registry::new("test");
    let _queue: Queue<u32> = Queue::named(&env, "a", &registry, default_limiter()).expect("a queue");
    assert!(registry.gather().iter().all(|family| family.help().starts_with(
        if family.name().starts_with("workqueue_") {
            "[BETA] "
        } else {
            "[ALPHA] "
        }
    )));
}
