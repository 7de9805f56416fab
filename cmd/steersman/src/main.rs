//! `steersman`, a controller manager for Kubernetes.

use std::process::ExitCode;

#[cfg(all(feature = "jemalloc", target_os = "linux"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    steersman::main(std::env::args_os().skip(1))
}
