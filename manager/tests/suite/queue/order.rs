//! Deduplication, order, priorities, and the hand-over to workers.

use super::{Polled, fixture, getter, ms};
use steersman_manager::queue::{LOW_PRIORITY_INTERVAL, Priority};

#[tokio::test(start_paused = true)]
async fn items_are_first_in_first_out() {
    let fixture = fixture();
    for item in [3, 1, 2] {
        fixture.queue.add(item);
    }
    assert_eq!(fixture.queue.len(), 3);
    assert_eq!(fixture.take_all(), [3, 1, 2]);
    assert!(fixture.queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn adds_of_a_queued_item_are_deduplicated() {
    let fixture = fixture();
    for item in [1, 2, 1, 1] {
        fixture.queue.add(item);
    }
    assert_eq!(fixture.take_all(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn processing_item_is_not_handed_out_and_its_add_is_not_lost() {
    let fixture = fixture();
    fixture.queue.add(1);
    assert_eq!(fixture.try_get(), Some(Some(1)));
    fixture.queue.add(1);
    fixture.queue.add(1);
    fixture.queue.add(2);
    assert_eq!(fixture.queue.len(), 1, "processing items do not count");
    assert_eq!(fixture.take_all(), [2]);
    fixture.queue.done(&1);
    assert_eq!(fixture.take_all(), [1], "one further run");
    fixture.queue.done(&1);
    assert_eq!(fixture.try_get(), None);
}

#[tokio::test(start_paused = true)]
async fn item_added_while_processing_goes_to_the_tail_when_done() {
    let fixture = fixture();
    fixture.queue.add(1);
    fixture.try_get();
    fixture.queue.add(1);
    fixture.queue.add(2);
    fixture.queue.done(&1);
    assert_eq!(fixture.take_all(), [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn done_for_an_item_that_is_not_processing_does_nothing() {
    let fixture = fixture();
    fixture.queue.add(1);
    fixture.queue.done(&1);
    fixture.queue.done(&2);
    assert_eq!(fixture.take_all(), [1], "client-go would hand it out twice");
}

#[tokio::test(start_paused = true)]
async fn each_item_wakes_one_worker() {
    let fixture = fixture();
    let mut workers = [0; 3].map(|_| getter(&fixture.queue));
    assert_eq!(workers.each_mut().map(Polled::poll), [None; 3]);
    fixture.queue.add(1);
    fixture.queue.add(2);
    assert_eq!(
        workers.each_mut().map(Polled::poll),
        [Some(Some(1)), Some(Some(2)), None]
    );
}

#[tokio::test(start_paused = true)]
async fn cancelled_worker_passes_its_wake_up_on() {
    let fixture = fixture();
    let (mut first, mut second) = (getter(&fixture.queue), getter(&fixture.queue));
    assert_eq!((first.poll(), second.poll()), (None, None));
    fixture.queue.add(1);
    drop(first);
    assert_eq!(second.poll(), Some(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn normal_priority_precedes_low_and_each_keeps_its_order() {
    let fixture = fixture();
    for item in [11, 12] {
        fixture.queue.add_with_priority(item, Priority::Low);
    }
    for item in [1, 2] {
        fixture.queue.add(item);
    }
    assert_eq!(fixture.queue.len(), 4);
    assert_eq!(fixture.take_all(), [1, 2, 11, 12]);
}

#[tokio::test(start_paused = true)]
async fn repeated_add_raises_the_priority() {
    let fixture = fixture();
    for item in [11, 12, 13] {
        fixture.queue.add_with_priority(item, Priority::Low);
    }
    fixture.queue.add(1);
    fixture.queue.add(12);
    fixture.queue.add_with_priority(1, Priority::Low);
    assert_eq!(fixture.queue.len(), 4, "not queued twice");
    assert_eq!(fixture.take_all(), [1, 12, 11, 13]);

    fixture.queue.add_with_priority(1, Priority::Low);
    fixture.queue.add(1);
    fixture.queue.add_with_priority(11, Priority::Low);
    for item in [11, 1] {
        fixture.queue.done(&item);
    }
    assert_eq!(fixture.take_all(), [1, 11], "also for processing items");
}

#[tokio::test(start_paused = true)]
async fn retry_keeps_its_priority_and_new_add_does_not_inherit_it() {
    let fixture = fixture();
    fixture.queue.add_with_priority(11, Priority::Low);
    fixture.try_get();
    fixture.queue.add_rate_limited(11);
    fixture.queue.done(&11);
    fixture.sleep(5).await;
    fixture.queue.add(1);
    assert_eq!(fixture.take_all(), [1, 11]);

    for item in [11, 1] {
        fixture.queue.done(&item);
    }
    fixture.queue.add(11);
    fixture.queue.add(1);
    assert_eq!(fixture.take_all(), [11, 1]);
}

#[tokio::test(start_paused = true)]
async fn low_priority_is_never_starved() {
    let fixture = fixture();
    let mut fresh = 1000..;
    for item in [11, 12, 13] {
        fixture.queue.add_with_priority(item, Priority::Low);
    }
    let mut handed_out = Vec::new();
    for _ in 0..3 * LOW_PRIORITY_INTERVAL {
        // There are always more items of normal priority.
        fresh.by_ref().take(2).for_each(|item| fixture.queue.add(item));
        let item = fixture.try_get().flatten().expect("an item");
        fixture.queue.done(&item);
        handed_out.push(item);
    }
    for (before, low) in (1..).zip([11, 12, 13]) {
        let at = 1 + handed_out
            .iter()
            .position(|item| *item == low)
            .expect("handed out");
        assert!(
            at <= (before * LOW_PRIORITY_INTERVAL) as usize,
            "{low} was hand-out {at}"
        );
    }
    let low = handed_out.iter().filter(|item| **item < 1000).count();
    assert_eq!(low, 3, "low priority exceeds its share");
}

#[tokio::test(start_paused = true)]
async fn oldest_item_is_found_in_any_priority() {
    let fixture = fixture();
    assert_eq!(fixture.queue.oldest(), None);
    fixture.queue.add_with_priority(1, Priority::Low);
    fixture.sleep(10).await;
    fixture.queue.add(2);
    fixture.sleep(5).await;
    assert_eq!(fixture.queue.oldest(), Some((1, ms(15))));
    assert_eq!(fixture.try_get(), Some(Some(2)));
    assert_eq!(fixture.try_get(), Some(Some(1)));
    fixture.queue.add(1);
    assert_eq!(fixture.queue.oldest(), None, "processing items are not queued");
}
