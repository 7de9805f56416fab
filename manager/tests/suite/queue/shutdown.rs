//! Shutting down, with and without draining.

use super::{Polled, bed, getter, ms};

#[tokio::test(start_paused = true)]
async fn what_is_queued_is_handed_out_then_comes_the_end() {
    let bed = bed();
    for item in [1, 2] {
        bed.queue.add(item);
    }
    assert!(!bed.queue.is_shutting_down());
    bed.queue.shut_down();
    assert!(bed.queue.is_shutting_down());
    bed.queue.add(3);
    bed.queue.add_after(4, ms(0));
    bed.queue.add_after(5, ms(5));
    assert_eq!(bed.take_all(), [1, 2]);
    bed.sleep(1000).await;
    assert_eq!(bed.try_get(), Some(None));
}

#[tokio::test(start_paused = true)]
async fn every_waiting_worker_learns_of_the_end() {
    let bed = bed();
    let mut workers = [0; 3].map(|_| getter(&bed.queue));
    assert_eq!(workers.each_mut().map(Polled::poll), [None; 3]);
    bed.queue.shut_down();
    assert_eq!(workers.each_mut().map(Polled::poll), [Some(None); 3]);
}

#[tokio::test(start_paused = true)]
async fn waiting_entries_are_dropped() {
    let bed = bed();
    bed.queue.add_after(1, ms(50));
    bed.queue.shut_down();
    bed.sleep(1000).await;
    assert_eq!(bed.try_get(), Some(None));
}

#[tokio::test(start_paused = true)]
async fn what_was_added_during_processing_is_still_handed_out() {
    let bed = bed();
    bed.queue.add(1);
    bed.try_get();
    bed.queue.add(1);
    bed.queue.shut_down();
    bed.queue.done(&1);
    assert_eq!(bed.try_get(), Some(Some(1)));
    bed.queue.add(1);
    bed.queue.done(&1);
    assert_eq!(bed.try_get(), Some(None), "but adds after the shutdown are not");
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_what_is_in_process() {
    let bed = bed();
    for item in [1, 2, 3] {
        bed.queue.add(item);
    }
    bed.try_get();
    bed.try_get();
    let queue = bed.queue.clone();
    let mut drain: Polled<dyn Future<Output = ()>> =
        Polled::new(async move { queue.shut_down_with_drain().await });
    assert_eq!(drain.poll(), None);
    assert!(bed.queue.is_shutting_down());
    bed.queue.add(4);
    bed.queue.done(&1);
    assert_eq!(drain.poll(), None);
    assert_eq!(bed.take_all(), [3], "queued items go on");
    bed.queue.done(&2);
    assert_eq!(drain.poll(), None);
    bed.queue.done(&3);
    assert_eq!(drain.poll(), Some(()));
    assert_eq!(bed.try_get(), Some(None));
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_an_item_that_is_wanted_again() {
    let bed = bed();
    bed.queue.add(1);
    let queue = bed.queue.clone();
    let worker = bed.env.tasks.spawn(async move {
        let mut runs = 0;
        while let Some(item) = queue.get().await {
            runs += 1;
            if runs == 1 {
                queue.add(item);
            }
            tokio::task::yield_now().await;
            queue.done(&item);
        }
        runs
    });
    tokio::task::yield_now().await;
    bed.queue.shut_down_with_drain().await;
    assert_eq!(worker.await.ok(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn draining_with_nothing_in_process_is_over_at_once() {
    let bed = bed();
    bed.queue.add(1);
    bed.queue.shut_down_with_drain().await;
    assert_eq!(bed.take_all(), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_calls_off_the_draining() {
    let bed = bed();
    bed.queue.add(1);
    bed.try_get();
    let queue = bed.queue.clone();
    let mut drain: Polled<dyn Future<Output = ()>> =
        Polled::new(async move { queue.shut_down_with_drain().await });
    assert_eq!(drain.poll(), None);
    bed.queue.shut_down();
    assert_eq!(drain.poll(), Some(()));
}
