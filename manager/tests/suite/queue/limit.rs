//! Backoff and rate limits.

use std::time::Duration;

use tokio::time::Instant;

use super::{bed, env, ms};
use coxswain_manager::queue::{Bucket, Exponential, FastSlow, MaxOf, MaxWait, RateLimiter, default_limiter};

fn now() -> Instant {
    env().0.clock.now()
}

fn waits(limiter: &mut impl RateLimiter<u32>, item: u32, count: usize) -> Vec<Duration> {
    let now = now();
    (0..count).map(|_| limiter.when(&item, now)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_backoff_doubles_from_5_ms_to_1000_s() {
    let mut limiter = Exponential::new(ms(5), Duration::from_secs(1000));
    let waits = waits(&mut limiter, 1, 40);
    for (n, wait) in (0..).zip(&waits[..18]) {
        assert_eq!(*wait, ms(5 << n));
    }
    assert!(waits[18..].iter().all(|wait| *wait == Duration::from_secs(1000)));
    assert_eq!(limiter.num_requeues(&1), 40);
    assert_eq!(limiter.when(&2, now()), ms(5), "each item has its own");
    limiter.forget(&1);
    assert_eq!(limiter.num_requeues(&1), 0);
    assert_eq!(limiter.when(&1, now()), ms(5));
}

#[tokio::test(start_paused = true)]
async fn the_backoff_does_not_overflow() {
    let mut limiter = Exponential::new(Duration::from_nanos(1), Duration::MAX);
    let waits = waits(&mut limiter, 1, 200);
    assert_eq!(waits[40], Duration::from_nanos(1 << 40));
    assert!(waits.is_sorted());
    assert_eq!(waits[199], Duration::MAX);
    let mut none = Exponential::new(Duration::ZERO, Duration::MAX);
    assert_eq!(super::limit::waits(&mut none, 1, 200)[199], Duration::ZERO);
    let mut odd = Exponential::new(ms(5), ms(3));
    assert_eq!(odd.when(&1, now()), ms(3));
}

#[tokio::test(start_paused = true)]
async fn the_bucket_gives_its_burst_then_its_rate_and_fills_again() {
    let (env, _tasks) = env();
    let mut bucket = Bucket::new(ms(100), 100);
    let mut when = || RateLimiter::<u32>::when(&mut bucket, &1, env.clock.now());
    assert!((0..100).all(|_| when().is_zero()));
    assert_eq!(
        [when(), when(), when()],
        [ms(100), ms(200), ms(300)],
        "reservations add up"
    );
    env.clock.sleep(ms(250)).await;
    assert_eq!(when(), ms(150));
    env.clock.sleep(Duration::from_secs(1000)).await;
    assert!(
        (0..100).all(|_| when().is_zero()),
        "full again, and not more than full"
    );
    assert_eq!(when(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn the_longest_wait_counts_and_every_limiter_is_charged() {
    let mut limiter = MaxOf::new(vec![
        Box::new(Exponential::new(ms(5), Duration::from_secs(1000))),
        Box::new(Bucket::new(ms(100), 3)),
    ]);
    assert_eq!(waits(&mut limiter, 1, 3), [ms(5), ms(10), ms(20)]);
    assert_eq!(
        limiter.when(&2, now()),
        ms(100),
        "the bucket was charged for the others"
    );
    assert_eq!((limiter.num_requeues(&1), limiter.num_requeues(&2)), (3, 1));
    limiter.forget(&1);
    assert_eq!(limiter.num_requeues(&1), 0);
}

#[tokio::test(start_paused = true)]
async fn the_other_limiters() {
    let mut limiter = FastSlow::new(ms(1), ms(100), 2);
    assert_eq!(waits(&mut limiter, 1, 4), [ms(1), ms(1), ms(100), ms(100)]);
    assert_eq!(limiter.num_requeues(&1), 4);
    limiter.forget(&1);
    assert_eq!(limiter.when(&1, now()), ms(1));

    let mut limiter = MaxWait::new(Exponential::new(ms(5), Duration::from_secs(1000)), ms(15));
    assert_eq!(waits(&mut limiter, 1, 3), [ms(5), ms(10), ms(15)]);
    assert_eq!(limiter.num_requeues(&1), 3);
    limiter.forget(&1);
    assert_eq!(limiter.num_requeues(&1), 0);
}

#[tokio::test(start_paused = true)]
async fn the_default_is_the_one_of_kube_controller_manager() {
    let mut limiter = default_limiter();
    assert!((0..100).all(|item| limiter.when(&item, now()) == ms(5)));
    assert_eq!(limiter.when(&100, now()), ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_failing_item_backs_off_until_it_is_forgotten() {
    let bed = bed();
    let fail = async || {
        let before = bed.env.clock.now();
        bed.queue.add_rate_limited(1);
        bed.queue.done(&1);
        assert_eq!(bed.queue.get().await, Some(1));
        bed.env.clock.now() - before
    };
    assert_eq!(
        [fail().await, fail().await, fail().await],
        [ms(5), ms(10), ms(20)]
    );
    assert_eq!(bed.queue.num_requeues(&1), 3);
    bed.queue.forget(&1);
    assert_eq!(bed.queue.num_requeues(&1), 0);
    assert_eq!(fail().await, ms(5));
}

#[tokio::test(start_paused = true)]
async fn forget_takes_nothing_out_of_the_queue() {
    let bed = bed();
    bed.queue.add(1);
    bed.queue.add_rate_limited(2);
    for item in [1, 2] {
        bed.queue.forget(&item);
    }
    assert_eq!(bed.take_all(), [1]);
    bed.sleep(5).await;
    assert_eq!(bed.take_all(), [2]);
}

/// kubernetes#132805.
#[tokio::test(start_paused = true)]
async fn failures_during_a_backoff_do_not_lengthen_it() {
    let bed = bed();
    let fail_by_event = || {
        bed.queue.add(1);
        assert_eq!(bed.take_all(), [1]);
        bed.queue.add_rate_limited(1);
        bed.queue.done(&1);
    };
    // Brings the backoff to 160 ms.
    bed.queue.add(1);
    for _ in 0..6 {
        assert_eq!(bed.queue.get().await, Some(1));
        bed.queue.add_rate_limited(1);
        bed.queue.done(&1);
    }
    assert_eq!(bed.queue.num_requeues(&1), 6);
    for _ in 0..15 {
        bed.sleep(10).await;
        fail_by_event();
    }
    assert_eq!(bed.queue.num_requeues(&1), 6, "counted once");
    bed.sleep(9).await;
    assert_eq!(bed.try_get(), None, "not earlier than the first failure said");
    bed.sleep(1).await;
    assert_eq!(bed.take_all(), [1], "and not later");
    bed.queue.add_rate_limited(1);
    assert_eq!(
        bed.queue.num_requeues(&1),
        7,
        "the window is over: this one counts"
    );
}
