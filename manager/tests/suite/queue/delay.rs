//! Delayed adds.

use std::time::Duration;

use super::{Fixture, Polled, env, fixture, getter, ms, settle};
use steersman_manager::env::Fault;
use steersman_manager::queue::{Priority, Queue, default_limiter};

#[tokio::test(start_paused = true)]
async fn delayed_item_is_queued_when_due() {
    let fixture = fixture();
    fixture.queue.add_after(1, ms(50));
    fixture.sleep(49).await;
    assert_eq!(fixture.try_get(), None);
    fixture.sleep(1).await;
    assert_eq!(fixture.try_get(), Some(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn due_item_wakes_a_worker() {
    let fixture = fixture();
    let before = fixture.env.clock.now();
    fixture.queue.add_after(1, ms(50));
    assert_eq!(fixture.queue.get().await, Some(1));
    assert_eq!(fixture.env.clock.now() - before, ms(50));
}

#[tokio::test(start_paused = true)]
async fn items_due_together_wake_one_worker_each() {
    let fixture = fixture();
    let mut workers = [0; 3].map(|_| getter(&fixture.queue));
    assert_eq!(workers.each_mut().map(Polled::poll), [None; 3]);
    for item in [1, 2] {
        fixture.queue.add_after(item, ms(50));
    }
    fixture.sleep(50).await;
    assert_eq!(
        workers.each_mut().map(Polled::poll),
        [Some(Some(1)), Some(Some(2)), None]
    );
}

#[tokio::test(start_paused = true)]
async fn zero_delay_adds_immediately() {
    let fixture = fixture();
    fixture.queue.add_after(1, Duration::ZERO);
    assert_eq!(fixture.take_all(), [1]);
}

#[tokio::test(start_paused = true)]
async fn earlier_of_two_delays_counts() {
    for (first, second) in [(50, 20), (20, 50)] {
        let fixture = fixture();
        fixture.queue.add_after(1, ms(first));
        settle().await;
        fixture.queue.add_after(1, ms(second));
        fixture.sleep(19).await;
        assert_eq!(fixture.try_get(), None);
        fixture.sleep(1).await;
        assert_eq!(fixture.take_all(), [1]);
        fixture.queue.done(&1);
        fixture.sleep(100).await;
        assert_eq!(fixture.try_get(), None, "one entry per item");
    }
}

#[tokio::test(start_paused = true)]
async fn direct_add_does_not_cancel_the_delayed_one() {
    let fixture = fixture();
    fixture.queue.add_after(1, ms(50));
    fixture.queue.add(1);
    assert_eq!(fixture.take_all(), [1]);
    fixture.queue.done(&1);
    fixture.sleep(50).await;
    assert_eq!(fixture.take_all(), [1]);
}

#[tokio::test(start_paused = true)]
async fn delayed_items_are_ordered_by_due_time_then_arrival() {
    let fixture = fixture();
    for (item, millis) in [(1, 30), (2, 20), (3, 20), (4, 10), (2, 15)] {
        fixture.queue.add_after(item, ms(millis));
    }
    fixture.sleep(30).await;
    assert_eq!(fixture.take_all(), [4, 2, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn delayed_item_keeps_the_higher_priority() {
    let fixture = fixture();
    fixture.queue.add_with_priority(11, Priority::Low);
    fixture.try_get();
    fixture.queue.add_after(11, ms(50));
    fixture.queue.done(&11);
    fixture.queue.add_after(11, ms(60)); // not processing: normal priority
    fixture.sleep(50).await;
    fixture.queue.add(1);
    assert_eq!(fixture.take_all(), [11, 1]);
}

#[tokio::test(start_paused = true)]
async fn item_due_while_processing_is_queued_when_done() {
    let fixture = fixture();
    fixture.queue.add(1);
    fixture.try_get();
    fixture.queue.add_after(1, ms(50));
    fixture.sleep(50).await;
    assert_eq!(fixture.try_get(), None);
    fixture.queue.done(&1);
    assert_eq!(fixture.take_all(), [1]);
}

#[tokio::test(start_paused = true)]
async fn longest_delay_does_not_panic() {
    let fixture = fixture();
    fixture.queue.add_after(1, Duration::MAX);
    fixture.queue.add_after(2, ms(1));
    assert_eq!(fixture.queue.get().await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn frozen_clock_makes_no_item_due() {
    let (env, tasks) = env();
    let (other, _tasks) = super::env();
    let queue = Queue::unnamed(&env, default_limiter());
    let fixture = Fixture {
        env,
        queue,
        _tasks: tasks,
    };
    fixture.queue.add_after(1, ms(50));
    fixture.env.clock.inject(Fault::Freeze);
    other.clock.sleep(ms(1000)).await;
    settle().await;
    assert_eq!(fixture.try_get(), None);
    fixture.env.clock.inject(Fault::Thaw);
    fixture.sleep(50).await;
    assert_eq!(fixture.take_all(), [1]);
}

#[tokio::test(start_paused = true)]
async fn queue_task_ends_with_last_handle_or_shutdown() {
    for shut_down in [true, false] {
        let (env, tasks) = env();
        let queue = Queue::unnamed(&env, default_limiter());
        queue.add_after(1, Duration::from_hours(1));
        settle().await;
        assert_eq!(tasks.len(), 1);
        if shut_down {
            queue.shut_down();
        } else {
            drop(queue);
        }
        settle().await;
        assert!(tasks.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn rate_limited_add_respects_a_minimum_delay() {
    let fixture = fixture();
    fixture.queue.add_rate_limited_after(1, ms(1000));
    fixture.sleep(999).await;
    assert_eq!(fixture.try_get(), None);
    fixture.sleep(1).await;
    assert_eq!(fixture.try_get(), Some(Some(1)));
    fixture.queue.done(&1);
    // The second failure: a backoff of 10 ms, which is longer.
    fixture.queue.add_rate_limited_after(1, ms(1));
    fixture.sleep(9).await;
    assert_eq!(fixture.try_get(), None);
    fixture.sleep(1).await;
    assert_eq!(fixture.try_get(), Some(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn item_is_held_for_its_minimum_delay() {
    let fixture = fixture();
    fixture.queue.add_after(1, ms(500));
    fixture.queue.add(1);
    assert_eq!(fixture.try_get(), Some(Some(1)));
    // Adds before, during and after the run.
    fixture.queue.add(1);
    fixture.queue.add_rate_limited_after(1, ms(1000));
    fixture.queue.add(1);
    fixture.queue.done(&1);
    fixture.queue.add(1);
    fixture.queue.add_first(1);
    fixture.queue.add_after(1, ms(1));
    fixture.sleep(999).await;
    assert_eq!(fixture.try_get(), None);
    fixture.sleep(1).await;
    assert_eq!(fixture.try_get(), Some(Some(1)));
    fixture.queue.done(&1);
    assert_eq!(fixture.try_get(), None, "all adds are one run");
    fixture.queue.add(1);
    assert_eq!(fixture.try_get(), Some(Some(1)), "the hold has ended");
}

#[tokio::test(start_paused = true)]
async fn add_ends_a_backoff_that_is_longer_than_the_minimum_delay() {
    let fixture = fixture();
    for _ in 0..10 {
        fixture.queue.add_rate_limited(1);
        fixture.sleep(10_000).await;
        assert_eq!(fixture.try_get(), Some(Some(1)));
        fixture.queue.done(&1);
    }
    fixture.queue.add_rate_limited_after(1, ms(1000));
    fixture.queue.add(1);
    fixture.sleep(999).await;
    assert_eq!(fixture.try_get(), None);
    fixture.sleep(1).await;
    assert_eq!(fixture.try_get(), Some(Some(1)), "the backoff is 5 s");
}
