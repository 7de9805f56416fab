//! Measures the memory of a cache of pods: `cargo bench -p steersman-manager --bench cache`.
//!
//! Prints heap bytes and allocations per cached pod, and the peaks of the first list and of a relist with 1% changed pods
//! as multiples of the memory in between. The number of pods is an argument. Pods are about 4 KB of JSON each, with one
//! owner per 50 pods; two subscribers receive their metadata.

#[path = "../tests/memory/measure.rs"]
mod measure;
#[path = "../tests/memory/pods.rs"]
mod pods;

const PODS: usize = 50_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` only checks that the benchmark builds and runs.
    let default = if arguments.iter().any(|it| it == "--bench") {
        PODS
    } else {
        1_000
    };
    let count = arguments.iter().find_map(|it| it.parse().ok()).unwrap_or(default);
    let figures = measure::measure::<500>(count);
    println!("pods          {count}");
    println!("heap          {:.0} bytes per pod", figures.bytes);
    println!("allocations   {:.2} per pod", figures.allocations);
    println!(
        "first list    {:.2} times that heap at its peak",
        figures.list_peak
    );
    println!(
        "relist        {:.2} times that heap at its peak",
        figures.relist_peak
    );
}
