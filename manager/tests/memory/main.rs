//! Bounds on the memory of caches, in a process with a counting allocator.

mod measure;
mod pods;

/// The bound on heap bytes per pod, with indexes, in a projection for workload controllers.
const BYTES_MAX: f64 = 460.0;
/// The bound on the peak of the first list, as a multiple of the memory after it.
const LIST_PEAK_MAX: f64 = 1.5;
/// The bound on the peak of a relist with 1% changed pods, as a multiple of the memory before it.
const RELIST_PEAK_MAX: f64 = 1.3;

#[test]
fn cache_of_pods_stays_within_its_memory() {
    // Small pages, as those of a larger cache would be.
    let figures = measure::measure::<50>(5_000);
    let measure::Figures {
        bytes,
        allocations,
        list_peak,
        relist_peak,
    } = figures;
    println!("{bytes:.0} bytes and {allocations:.2} allocations per pod");
    println!("peaks: first list {list_peak:.2}, relist {relist_peak:.2}");
    assert!(bytes < BYTES_MAX, "{bytes:.0} bytes per pod");
    assert!(
        list_peak < LIST_PEAK_MAX,
        "the first list takes {list_peak:.2} times the memory"
    );
    assert!(
        relist_peak < RELIST_PEAK_MAX,
        "a relist takes {relist_peak:.2} times the memory"
    );
}
