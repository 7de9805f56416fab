//! All cases with few objects, and the measurement itself.

use std::thread;

use super::memory::{self, Outside, outside};
use super::{CASES, HOSTILE, run};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The fraction of the objects.
const SCALE: f64 = 0.0005;

#[test]
fn all_cases_hold_their_bounds_with_few_objects() {
    let reports: Vec<_> = thread::scope(|scope| {
        let spawn = |case| scope.spawn(move || run(case, SCALE));
        let threads: Vec<_> = CASES.iter().map(spawn).collect();
        let reports = threads.into_iter().map(|it| it.join().expect("a report"));
        reports.collect()
    });
    let broken: Vec<_> = reports.iter().flat_map(super::Report::broken).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(
        reports.iter().all(|it| it.peak > 100_000),
        "the product takes memory"
    );
}

/// Runs one case. It has a test of its own, so that a failure names it.
fn hostile(name: &str, scale: f64) {
    let case = HOSTILE.iter().find(|it| it.name == name).expect("a case");
    let broken = run(case, scale).broken();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn hostile_tenant_with_large_objects_does_not_stop_lists() {
    hostile("hostile-lists", 0.1);
}

#[test]
fn hostile_tenant_with_many_entries_of_appservices_does_not_delay_others() {
    hostile("hostile-appservices", 0.05);
}

#[test]
fn hostile_tenant_with_a_long_history_does_not_delay_others() {
    hostile("hostile-history", 0.05);
}

#[test]
fn hostile_tenant_with_many_references_does_not_delay_others() {
    hostile("hostile-references", 0.1);
}

#[test]
fn hostile_tenant_with_pods_of_unknown_owners_does_not_delay_others() {
    hostile("hostile-owners", 0.2);
}

#[test]
fn hostile_tenant_with_the_largest_lists_takes_linear_time_and_memory() {
    hostile("hostile-fields", 0.03);
}

#[test]
fn hostile_reviews_take_two_bytes_of_memory_for_a_byte_of_their_bodies() {
    hostile("hostile-reviews", 1.0);
}

#[test]
fn memory_outside_of_the_product_is_not_counted() {
    const BYTES: i64 = 1 << 20;
    let buffer = || vec![1_u8; 1 << 20];
    let before = memory::product();
    let kept = outside(buffer);
    assert!(memory::product() - before < BYTES);
    let future = Outside::new(|| async move { kept.len() });
    drop(future);
    assert!(
        memory::product() - before > -BYTES,
        "the future frees its memory outside"
    );
    memory::reset_peak();
    let own = buffer();
    outside(|| ());
    drop(own);
    assert!(memory::peak() - before >= BYTES);
    assert!(memory::product() - before < BYTES);
}
