//! `/debug/pprof/`: profiles of the process, in the format that `pprof` reads.
//!
//! A build without a profiler answers 501 on its path. Both profilers need a small file for temporary data.

#[cfg_attr(not(feature = "pprof"), path = "profiling/no_cpu.rs")]
mod cpu;
#[cfg_attr(
    not(all(feature = "jemalloc", target_os = "linux")),
    path = "profiling/no_heap.rs"
)]
mod heap;

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use steersman_manager::env::Clock;
use steersman_manager::serve::{Endpoints, HttpResponse};
use tokio_util::sync::CancellationToken;

const INDEX: &str = "\
/debug/pprof/cmdline: the command line, separated by NUL bytes
/debug/pprof/heap: allocated memory by stack (pprof)
/debug/pprof/profile?seconds=30: CPU time by stack (pprof), for 1 to 120 seconds
";

/// A writable folder in a container whose root filesystem is read-only or has no `/tmp`.
const SHARED_MEMORY: &str = "/dev/shm";

/// Adds the profiles and starts sampling the heap. A CPU profile ends early when `stop` is cancelled.
pub(crate) fn mount(endpoints: Endpoints, clock: &Clock, stop: &CancellationToken) -> Endpoints {
    choose_temporary_folder();
    heap::activate();
    let cpu = Arc::new(cpu::Profiler::new(clock.clone(), stop.clone()));
    endpoints
        .mount("/debug/pprof", |_| std::future::ready(redirect()))
        .mount("/debug/pprof/", |request| {
            std::future::ready(if request.uri().path() == "/debug/pprof/" {
                text(StatusCode::OK, INDEX)
            } else {
                text(StatusCode::NOT_FOUND, "404 page not found\n")
            })
        })
        .mount("/debug/pprof/cmdline", |_| std::future::ready(command_line()))
        .mount("/debug/pprof/heap", |_| heap::profile())
        .mount("/debug/pprof/profile", move |request| {
            let cpu = cpu.clone();
            async move { cpu.profile(request.uri().query().unwrap_or_default()).await }
        })
}

/// Lets the profilers use shared memory if the default folder is not writable.
fn choose_temporary_folder() {
    let shared = Path::new(SHARED_MEMORY);
    if tempfile::tempfile().is_err() && tempfile::tempfile_in(shared).is_ok() {
        // Fails only if the folder was overridden before.
        let _ = tempfile::env::override_temp_dir(shared);
    }
}

fn command_line() -> HttpResponse {
    let arguments: Vec<_> = std::env::args_os().collect();
    let arguments: Vec<&[u8]> = arguments.iter().map(|it| it.as_bytes()).collect();
    text(StatusCode::OK, arguments.join(&0))
}

fn redirect() -> HttpResponse {
    let mut response = text(StatusCode::MOVED_PERMANENTLY, "");
    let index = HeaderValue::from_static("/debug/pprof/");
    response.headers_mut().insert(LOCATION, index);
    response
}

/// Returns a profile in the gzip-compressed format of `pprof`.
#[cfg(any(all(feature = "jemalloc", target_os = "linux"), feature = "pprof"))]
fn download(name: &str, profile: Vec<u8>) -> HttpResponse {
    let mut response = Response::new(Full::from(profile));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    if let Ok(attachment) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(http::header::CONTENT_DISPOSITION, attachment);
    }
    response
}

#[cfg(any(all(feature = "jemalloc", target_os = "linux"), feature = "pprof"))]
fn failed(profile: &str, error: &dyn std::fmt::Display) -> HttpResponse {
    tracing::warn!(profile, %error, "Failed to take profile");
    let message = format!("cannot take a {profile} profile: {error}\n");
    text(StatusCode::INTERNAL_SERVER_ERROR, message)
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> HttpResponse {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}
