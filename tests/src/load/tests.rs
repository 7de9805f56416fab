//! All cases with few objects, and the measurement itself.

use std::thread;

use super::memory::{self, Outside, outside};
use super::{CASES, run};

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
