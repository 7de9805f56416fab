//! Fuzzing of decoders, patches, selectors, configuration, endpoints and reviews, on the stable toolchain.
//!
//! A target draws inputs from a seed: it changes valid inputs of a corpus ([`mutate`]), runs the product on each, and checks a
//! property. An input fails if the product panics, also if it catches the panic, if the property does not hold, or if the
//! allocated bytes exceed a bound that depends on the length of the input. A failed input is shrunk and shown with the
//! command that replays it. `https::review_memory` has fixed inputs and bounds the peak of the allocated bytes.
//!
//! ```console
//! $ cargo test -p steersman-tests --test fuzz                                    # about a minute
//! $ STEERSMAN_SEED=5 cargo test -p steersman-tests --test fuzz sandbox::requests  # one seed of one target
//! $ STEERSMAN_SEEDS=1000 cargo test -p steersman-tests --test fuzz                # longer
//! ```

mod client;
mod config;
mod engine;
mod https;
mod mutate;
mod sandbox;
mod values;

use std::process::ExitCode;

use engine::{AllocatedMax, Input, Target};
use libtest_mimic::{Arguments, Trial};
use steersman_harness::time;
use tokio::runtime::Runtime;

const TARGETS: [Target; 8] = [
    sandbox::requests::TARGET,
    sandbox::definitions::TARGET,
    client::caches::TARGET,
    client::answers::TARGET,
    values::TARGET,
    config::TARGET,
    https::endpoints::TARGET,
    https::reviews::TARGET,
];

fn main() -> ExitCode {
    engine::start();
    // The first sandbox of a process decodes the schemas of all kinds, which is not the work of an input.
    drop(sandbox::corpus::builder().start());
    let trial =
        |target: &'static Target| Trial::test(target.name, move || engine::run(target).map_err(Into::into));
    let start = time::now();
    let mut trials: Vec<_> = TARGETS.iter().map(trial).collect();
    trials.push(Trial::test("https::review_memory", || {
        https::review_memory::check().map_err(Into::into)
    }));
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    let (targets, inputs) = (conclusion.num_passed + conclusion.num_failed, engine::inputs());
    let length = start.elapsed().as_secs_f64();
    println!("fuzz: {inputs} inputs of {targets} targets in {length:.1} s");
    conclusion.exit_code()
}

/// Returns a new runtime on this thread, with a paused clock.
fn paused() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

/// Runs a future on the paused runtime of this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: Runtime = paused();
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}
