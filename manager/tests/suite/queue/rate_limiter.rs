//! Rate limiters.

use std::time::Duration;

use tokio::time::Instant;

use super::{env, fixture, ms};
use steersman_manager::queue::{Bucket, Exponential, FastSlow, MaxOf, MaxWait, RateLimiter, default_limiter};

fn now() -> Instant {
    env().0.clock.now()
}

fn delays(limiter: &mut impl RateLimiter<u32>, item: u32, count: usize) -> Vec<Duration> {
    let now = now();
    (0..count).map(|_| limiter.when(&item, now)).collect()
}

#[tokio::test(start_paused = true)]
async fn exponential_backoff_doubles_from_5_ms_to_1000_s() {
    let mut limiter = Exponential::new(ms(5), Duration::from_secs(1000));
    let delays = delays(&mut limiter, 1, 40);
    for (n, wait) in (0..).zip(&delays[..18]) {
        assert_eq!(*wait, ms(5 << n));
    }
    assert!(delays[18..].iter().all(|wait| *wait == Duration::from_secs(1000)));
    assert_eq!(limiter.num_requeues(&1), 40);
    assert_eq!(limiter.when(&2, now()), ms(5), "items are independent");
    limiter.forget(&1);
    assert_eq!(limiter.num_requeues(&1), 0);
    assert_eq!(limiter.when(&1, now()), ms(5));
}

#[tokio::test(start_paused = true)]
async fn exponential_backoff_does_not_overflow() {
    let mut limiter = Exponential::new(Duration::from_nanos(1), Duration::MAX);
    let delays = delays(&mut limiter, 1, 200);
    assert_eq!(delays[40], Duration::from_nanos(1 << 40));
    assert!(delays.is_sorted());
    assert_eq!(delays[199], Duration::MAX);
    let mut none = Exponential::new(Duration::ZERO, Duration::MAX);
    assert_eq!(
        super::rate_limiter::delays(&mut none, 1, 200)[199],
        Duration::ZERO
    );
    let mut odd = Exponential::new(ms(5), ms(3));
    assert_eq!(odd.when(&1, now()), ms(3));
}

#[tokio::test(start_paused = true)]
async fn token_bucket_allows_a_burst_then_its_rate_and_refills() {
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
    assert!((0..100).all(|_| when().is_zero()), "full, but not more than full");
    assert_eq!(when(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn max_of_returns_the_longest_delay_and_charges_every_limiter() {
    let mut limiter = MaxOf::new(vec![
        Box::new(Exponential::new(ms(5), Duration::from_secs(1000))),
        Box::new(Bucket::new(ms(100), 3)),
    ]);
    assert_eq!(delays(&mut limiter, 1, 3), [ms(5), ms(10), ms(20)]);
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
async fn fast_slow_and_max_wait_limit_the_delay() {
    let mut limiter = FastSlow::new(ms(1), ms(100), 2);
    assert_eq!(delays(&mut limiter, 1, 4), [ms(1), ms(1), ms(100), ms(100)]);
    assert_eq!(limiter.num_requeues(&1), 4);
    limiter.forget(&1);
    assert_eq!(limiter.when(&1, now()), ms(1));

    let mut limiter = MaxWait::new(Exponential::new(ms(5), Duration::from_secs(1000)), ms(15));
    assert_eq!(delays(&mut limiter, 1, 3), [ms(5), ms(10), ms(15)]);
    assert_eq!(limiter.num_requeues(&1), 3);
    limiter.forget(&1);
    assert_eq!(limiter.num_requeues(&1), 0);
}

#[tokio::test(start_paused = true)]
async fn default_limiter_is_that_of_kube_controller_manager() {
    let mut limiter = default_limiter();
    assert!((0..100).all(|item| limiter.when(&item, now()) == ms(5)));
    assert_eq!(limiter.when(&100, now()), ms(100));
}

#[tokio::test(start_paused = true)]
async fn failing_item_backs_off_until_forgotten() {
    let fixture = fixture();
    let fail = async || {
        let before = fixture.env.clock.now();
        fixture.queue.add_rate_limited(1);
        fixture.queue.done(&1);
        assert_eq!(fixture.queue.get().await, Some(1));
        fixture.env.clock.now() - before
    };
    assert_eq!(
        [fail().await, fail().await, fail().await],
        [ms(5), ms(10), ms(20)]
    );
    assert_eq!(fixture.queue.num_requeues(&1), 3);
    fixture.queue.forget(&1);
    assert_eq!(fixture.queue.num_requeues(&1), 0);
    assert_eq!(fail().await, ms(5));
}

#[tokio::test(start_paused = true)]
async fn forget_does_not_remove_items() {
    let fixture = fixture();
    fixture.queue.add(1);
    fixture.queue.add_rate_limited(2);
    for item in [1, 2] {
        fixture.queue.forget(&item);
    }
    assert_eq!(fixture.take_all(), [1]);
    fixture.sleep(5).await;
    assert_eq!(fixture.take_all(), [2]);
}

/// kubernetes#132805.
#[tokio::test(start_paused = true)]
async fn failures_during_a_backoff_do_not_extend_it() {
    let fixture = fixture();
    let fail_by_event = || {
        fixture.queue.add(1);
        assert_eq!(fixture.take_all(), [1]);
        fixture.queue.add_rate_limited(1);
        fixture.queue.done(&1);
    };
    // Brings the backoff to 160 ms.
    fixture.queue.add(1);
    for _ in 0..6 {
        assert_eq!(fixture.queue.get().await, Some(1));
        fixture.queue.add_rate_limited(1);
        fixture.queue.done(&1);
    }
    assert_eq!(fixture.queue.num_requeues(&1), 6);
    for _ in 0..15 {
        fixture.sleep(10).await;
        fail_by_event();
    }
    assert_eq!(fixture.queue.num_requeues(&1), 6, "counted once");
    fixture.sleep(9).await;
    assert_eq!(fixture.try_get(), None, "earlier than the first failure requires");
    fixture.sleep(1).await;
    assert_eq!(fixture.take_all(), [1], "later than the first failure requires");
    fixture.queue.add_rate_limited(1);
    assert_eq!(
        fixture.queue.num_requeues(&1),
        7,
        "a failure after the window counts"
    );
}
