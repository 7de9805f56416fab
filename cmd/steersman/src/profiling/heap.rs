//! Heap profiles: jemalloc records the stack of one allocation per 512 KiB on average.
//!
//! `.cargo/config.toml` compiles jemalloc with this profiler, inactive until [`activate`]. A jemalloc that follows frame pointers
//! is never activated: code without them would end the process with a segmentation fault.

use std::sync::Arc;

use http::StatusCode;
use jemalloc_pprof::{JemallocProfCtl, PROF_CTL};
use steersman_manager::serve::HttpResponse;
use tikv_jemalloc_ctl::{Access as _, AsName as _};
use tokio::sync::Mutex;

use super::{download, failed, text};

/// Starts sampling.
pub(super) fn activate() {
    let Some(control) = control() else {
        return;
    };
    // No profile is taken before the endpoints are served.
    if let Ok(mut control) = control.try_lock()
        && let Err(error) = control.activate()
    {
        tracing::warn!(%error, "Failed to activate heap profiles");
    }
}

/// Returns the profiler, if jemalloc has one that reads stacks by their unwind tables.
fn control() -> Option<&'static Arc<Mutex<JemallocProfCtl>>> {
    let unwinds = [&b"config.prof_libgcc\0"[..], b"config.prof_libunwind\0"]
        .into_iter()
        .any(|option| option.name().read().unwrap_or(false));
    PROF_CTL.as_ref().filter(|_| unwinds)
}

pub(super) async fn profile() -> HttpResponse {
    let Some(control) = control() else {
        return text(
            StatusCode::NOT_IMPLEMENTED,
            "this build has no heap profiles: jemalloc was compiled without prof:true, or without _Unwind_Backtrace\n",
        );
    };
    let mut control = control.clone().lock_owned().await;
    match tokio::task::spawn_blocking(move || control.dump_pprof()).await {
        Ok(Ok(profile)) => download("heap", profile),
        Ok(Err(error)) => failed("heap", &error),
        Err(error) => failed("heap", &error),
    }
}
