//! De-duplication, order, priorities, and the hand-over to workers.

use super::{Polled, bed, getter, ms};
use coxswain_manager::queue::{LOW_PRIORITY_INTERVAL, Priority};

#[tokio::test(start_paused = true)]
async fn items_come_out_in_the_order_they_went_in() {
    let bed = bed();
    for item in [3, 1, 2] {
        bed.queue.add(item);
    }
    assert_eq!(bed.queue.len(), 3);
    assert_eq!(bed.take_all(), [3, 1, 2]);
    assert!(bed.queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn adds_of_a_queued_item_collapse() {
    let bed = bed();
    for item in [1, 2, 1, 1] {
        bed.queue.add(item);
    }
    assert_eq!(bed.take_all(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn an_item_in_process_is_not_handed_out_and_an_add_is_not_lost() {
    let bed = bed();
    bed.queue.add(1);
    assert_eq!(bed.try_get(), Some(Some(1)));
    bed.queue.add(1);
    bed.queue.add(1);
    bed.queue.add(2);
    assert_eq!(bed.queue.len(), 1, "what is in process does not count");
    assert_eq!(bed.take_all(), [2]);
    bed.queue.done(&1);
    assert_eq!(bed.take_all(), [1], "one further run");
    bed.queue.done(&1);
    assert_eq!(bed.try_get(), None);
}

#[tokio::test(start_paused = true)]
async fn an_item_added_during_processing_goes_to_the_tail_when_done() {
    let bed = bed();
    bed.queue.add(1);
    bed.try_get();
    bed.queue.add(1);
    bed.queue.add(2);
    bed.queue.done(&1);
    assert_eq!(bed.take_all(), [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn done_of_what_is_not_in_process_does_nothing() {
    let bed = bed();
    bed.queue.add(1);
    bed.queue.done(&1);
    bed.queue.done(&2);
    assert_eq!(bed.take_all(), [1], "client-go would hand it out twice");
}

#[tokio::test(start_paused = true)]
async fn each_item_wakes_one_more_worker() {
    let bed = bed();
    let mut workers = [0; 3].map(|_| getter(&bed.queue));
    assert_eq!(workers.each_mut().map(Polled::poll), [None; 3]);
    bed.queue.add(1);
    bed.queue.add(2);
    assert_eq!(
        workers.each_mut().map(Polled::poll),
        [Some(Some(1)), Some(Some(2)), None]
    );
}

#[tokio::test(start_paused = true)]
async fn a_worker_woken_and_cancelled_passes_it_on() {
    let bed = bed();
    let (mut first, mut second) = (getter(&bed.queue), getter(&bed.queue));
    assert_eq!((first.poll(), second.poll()), (None, None));
    bed.queue.add(1);
    drop(first);
    assert_eq!(second.poll(), Some(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn normal_goes_before_low_and_each_keeps_its_order() {
    let bed = bed();
    for item in [11, 12] {
        bed.queue.add_with_priority(item, Priority::Low);
    }
    for item in [1, 2] {
        bed.queue.add(item);
    }
    assert_eq!(bed.queue.len(), 4);
    assert_eq!(bed.take_all(), [1, 2, 11, 12]);
}

#[tokio::test(start_paused = true)]
async fn a_re_add_takes_the_higher_priority() {
    let bed = bed();
    for item in [11, 12, 13] {
        bed.queue.add_with_priority(item, Priority::Low);
    }
    bed.queue.add(1);
    bed.queue.add(12);
    bed.queue.add_with_priority(1, Priority::Low);
    assert_eq!(bed.queue.len(), 4, "raised, not doubled");
    assert_eq!(bed.take_all(), [1, 12, 11, 13]);

    bed.queue.add_with_priority(1, Priority::Low);
    bed.queue.add(1);
    bed.queue.add_with_priority(11, Priority::Low);
    for item in [11, 1] {
        bed.queue.done(&item);
    }
    assert_eq!(bed.take_all(), [1, 11], "also of what is in process");
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_the_priority_and_a_fresh_add_does_not_inherit_it() {
    let bed = bed();
    bed.queue.add_with_priority(11, Priority::Low);
    bed.try_get();
    bed.queue.add_rate_limited(11);
    bed.queue.done(&11);
    bed.sleep(5).await;
    bed.queue.add(1);
    assert_eq!(bed.take_all(), [1, 11]);

    for item in [11, 1] {
        bed.queue.done(&item);
    }
    bed.queue.add(11);
    bed.queue.add(1);
    assert_eq!(bed.take_all(), [11, 1]);
}

#[tokio::test(start_paused = true)]
async fn low_priority_is_never_starved() {
    let bed = bed();
    let mut fresh = 1000..;
    for item in [11, 12, 13] {
        bed.queue.add_with_priority(item, Priority::Low);
    }
    let mut handed_out = Vec::new();
    for _ in 0..3 * LOW_PRIORITY_INTERVAL {
        // There is always more than enough of normal priority.
        fresh.by_ref().take(2).for_each(|item| bed.queue.add(item));
        let item = bed.try_get().flatten().expect("an item");
        bed.queue.done(&item);
        handed_out.push(item);
    }
    for (before, low) in (1..).zip([11, 12, 13]) {
        let at = 1 + handed_out.iter().position(|item| *item == low).expect("it came");
        assert!(
            at <= (before * LOW_PRIORITY_INTERVAL) as usize,
            "{low} was hand-out {at}"
        );
    }
    let low = handed_out.iter().filter(|item| **item < 1000).count();
    assert_eq!(low, 3, "and it does not take more than its turn");
}

#[tokio::test(start_paused = true)]
async fn the_wait_of_the_first_in_line_is_known() {
    let bed = bed();
    assert_eq!(bed.queue.head_wait(), None);
    bed.queue.add_with_priority(1, Priority::Low);
    bed.sleep(10).await;
    bed.queue.add(2);
    bed.sleep(5).await;
    assert_eq!(bed.queue.head_wait(), Some(ms(15)));
    assert_eq!(bed.try_get(), Some(Some(2)));
    assert_eq!(bed.try_get(), Some(Some(1)));
    bed.queue.add(1);
    assert_eq!(bed.queue.head_wait(), None, "what is in process is not in line");
}
