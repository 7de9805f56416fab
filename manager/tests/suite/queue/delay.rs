//! Adding later.

use std::time::Duration;

use super::{Bed, Polled, bed, env, getter, ms, settle};
use coxswain_manager::env::Fault;
use coxswain_manager::queue::{Priority, Queue, default_limiter};

#[tokio::test(start_paused = true)]
async fn an_item_comes_when_it_is_due_and_not_before() {
    let bed = bed();
    bed.queue.add_after(1, ms(50));
    bed.sleep(49).await;
    assert_eq!(bed.try_get(), None);
    bed.sleep(1).await;
    assert_eq!(bed.try_get(), Some(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_is_woken() {
    let bed = bed();
    let before = bed.env.clock.now();
    bed.queue.add_after(1, ms(50));
    assert_eq!(bed.queue.get().await, Some(1));
    assert_eq!(bed.env.clock.now() - before, ms(50));
}

#[tokio::test(start_paused = true)]
async fn all_that_fall_due_together_wake_a_worker_each() {
    let bed = bed();
    let mut workers = [0; 3].map(|_| getter(&bed.queue));
    assert_eq!(workers.each_mut().map(Polled::poll), [None; 3]);
    for item in [1, 2] {
        bed.queue.add_after(item, ms(50));
    }
    bed.sleep(50).await;
    assert_eq!(
        workers.each_mut().map(Polled::poll),
        [Some(Some(1)), Some(Some(2)), None]
    );
}

#[tokio::test(start_paused = true)]
async fn no_delay_is_now() {
    let bed = bed();
    bed.queue.add_after(1, Duration::ZERO);
    assert_eq!(bed.take_all(), [1]);
}

#[tokio::test(start_paused = true)]
async fn the_earlier_time_counts_whichever_came_first() {
    for (first, second) in [(50, 20), (20, 50)] {
        let bed = bed();
        bed.queue.add_after(1, ms(first));
        settle().await;
        bed.queue.add_after(1, ms(second));
        bed.sleep(19).await;
        assert_eq!(bed.try_get(), None);
        bed.sleep(1).await;
        assert_eq!(bed.take_all(), [1]);
        bed.queue.done(&1);
        bed.sleep(100).await;
        assert_eq!(bed.try_get(), None, "one entry per item");
    }
}

#[tokio::test(start_paused = true)]
async fn a_direct_add_does_not_cancel_the_waiting_entry() {
    let bed = bed();
    bed.queue.add_after(1, ms(50));
    bed.queue.add(1);
    assert_eq!(bed.take_all(), [1]);
    bed.queue.done(&1);
    bed.sleep(50).await;
    assert_eq!(bed.take_all(), [1]);
}

#[tokio::test(start_paused = true)]
async fn items_come_by_due_time_then_by_arrival() {
    let bed = bed();
    for (item, millis) in [(1, 30), (2, 20), (3, 20), (4, 10), (2, 15)] {
        bed.queue.add_after(item, ms(millis));
    }
    bed.sleep(30).await;
    assert_eq!(bed.take_all(), [4, 2, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_entry_takes_the_higher_priority() {
    let bed = bed();
    bed.queue.add_with_priority(11, Priority::Low);
    bed.try_get();
    bed.queue.add_after(11, ms(50));
    bed.queue.done(&11);
    bed.queue.add_after(11, ms(60)); // not in process: normal
    bed.sleep(50).await;
    bed.queue.add(1);
    assert_eq!(bed.take_all(), [11, 1]);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_falls_due_in_process_comes_again_after_it() {
    let bed = bed();
    bed.queue.add(1);
    bed.try_get();
    bed.queue.add_after(1, ms(50));
    bed.sleep(50).await;
    assert_eq!(bed.try_get(), None);
    bed.queue.done(&1);
    assert_eq!(bed.take_all(), [1]);
}

#[tokio::test(start_paused = true)]
async fn for_ever_is_not_a_panic() {
    let bed = bed();
    bed.queue.add_after(1, Duration::MAX);
    bed.queue.add_after(2, ms(1));
    assert_eq!(bed.queue.get().await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_frozen_clock_makes_nothing_due() {
    let (env, tasks) = env();
    let (other, _tasks) = super::env();
    let queue = Queue::unnamed(&env, default_limiter());
    let bed = Bed {
        env,
        queue,
        _tasks: tasks,
    };
    bed.queue.add_after(1, ms(50));
    bed.env.clock.inject(Fault::Freeze);
    other.clock.sleep(ms(1000)).await;
    settle().await;
    assert_eq!(bed.try_get(), None);
    bed.env.clock.inject(Fault::Thaw);
    bed.sleep(50).await;
    assert_eq!(bed.take_all(), [1]);
}

#[tokio::test(start_paused = true)]
async fn the_queue_s_task_ends_with_its_last_handle_or_with_shutdown() {
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
async fn a_backoff_can_be_told_the_least_wait() {
    let bed = bed();
    bed.queue.add_rate_limited_after(1, ms(1000));
    bed.sleep(999).await;
    assert_eq!(bed.try_get(), None);
    bed.sleep(1).await;
    assert_eq!(bed.try_get(), Some(Some(1)));
    bed.queue.done(&1);
    // The second failure: a backoff of 10 ms, which is longer.
    bed.queue.add_rate_limited_after(1, ms(1));
    bed.sleep(9).await;
    assert_eq!(bed.try_get(), None);
    bed.sleep(1).await;
    assert_eq!(bed.try_get(), Some(Some(1)));
}
