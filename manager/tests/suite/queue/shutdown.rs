//! Shutting down, with and without draining.

use super::{Polled, fixture, getter, ms};

#[tokio::test(start_paused = true)]
async fn queued_items_are_handed_out_before_the_end() {
    let fixture = fixture();
    for item in [1, 2] {
        fixture.queue.add(item);
    }
    assert!(!fixture.queue.is_shutting_down());
    fixture.queue.shut_down();
    assert!(fixture.queue.is_shutting_down());
    fixture.queue.add(3);
    fixture.queue.add_after(4, ms(0));
    fixture.queue.add_after(5, ms(5));
    assert_eq!(fixture.take_all(), [1, 2]);
    fixture.sleep(1000).await;
    assert_eq!(fixture.try_get(), Some(None));
}

#[tokio::test(start_paused = true)]
async fn shutdown_wakes_every_worker() {
    let fixture = fixture();
    let mut workers = [0; 3].map(|_| getter(&fixture.queue));
    assert_eq!(workers.each_mut().map(Polled::poll), [None; 3]);
    fixture.queue.shut_down();
    assert_eq!(workers.each_mut().map(Polled::poll), [Some(None); 3]);
}

#[tokio::test(start_paused = true)]
async fn shutdown_drops_delayed_items() {
    let fixture = fixture();
    fixture.queue.add_after(1, ms(50));
    fixture.queue.shut_down();
    fixture.sleep(1000).await;
    assert_eq!(fixture.try_get(), Some(None));
}

#[tokio::test(start_paused = true)]
async fn item_added_while_processing_is_handed_out_after_shutdown() {
    let fixture = fixture();
    fixture.queue.add(1);
    fixture.try_get();
    fixture.queue.add(1);
    fixture.queue.shut_down();
    fixture.queue.done(&1);
    assert_eq!(fixture.try_get(), Some(Some(1)));
    fixture.queue.add(1);
    fixture.queue.done(&1);
    assert_eq!(
        fixture.try_get(),
        Some(None),
        "adds after the shutdown are rejected"
    );
}

#[tokio::test(start_paused = true)]
async fn item_added_while_processing_is_not_held_after_shutdown() {
    let fixture = fixture();
    fixture.queue.add(1);
    fixture.try_get();
    fixture.queue.add(1);
    fixture.queue.shut_down();
    fixture.queue.add_rate_limited_after(1, ms(1000));
    fixture.queue.done(&1);
    assert_eq!(fixture.try_get(), Some(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_processing_items() {
    let fixture = fixture();
    for item in [1, 2, 3] {
        fixture.queue.add(item);
    }
    fixture.try_get();
    fixture.try_get();
    let queue = fixture.queue.clone();
    let mut drain: Polled<dyn Future<Output = ()>> =
        Polled::new(async move { queue.shut_down_with_drain().await });
    assert_eq!(drain.poll(), None);
    assert!(fixture.queue.is_shutting_down());
    fixture.queue.add(4);
    fixture.queue.done(&1);
    assert_eq!(drain.poll(), None);
    assert_eq!(fixture.take_all(), [3], "queued items are still handed out");
    fixture.queue.done(&2);
    assert_eq!(drain.poll(), None);
    fixture.queue.done(&3);
    assert_eq!(drain.poll(), Some(()));
    assert_eq!(fixture.try_get(), Some(None));
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_an_item_added_while_processing() {
    let fixture = fixture();
    fixture.queue.add(1);
    let queue = fixture.queue.clone();
    let worker = fixture.env.tasks.spawn(async move {
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
    fixture.queue.shut_down_with_drain().await;
    assert_eq!(worker.await.ok(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn drain_without_processing_items_ends_immediately() {
    let fixture = fixture();
    fixture.queue.add(1);
    fixture.queue.shut_down_with_drain().await;
    assert_eq!(fixture.take_all(), [1]);
}

#[tokio::test(start_paused = true)]
async fn shutdown_cancels_the_drain() {
    let fixture = fixture();
    fixture.queue.add(1);
    fixture.try_get();
    let queue = fixture.queue.clone();
    let mut drain: Polled<dyn Future<Output = ()>> =
        Polled::new(async move { queue.shut_down_with_drain().await });
    assert_eq!(drain.poll(), None);
    fixture.queue.shut_down();
    assert_eq!(drain.poll(), Some(()));
}
