//! Heap profiles: jemalloc records the stack of one allocation per 512 KiB on average.
//!
//! `.cargo/config.toml` compiles jemalloc with this profiler, inactive until [`activate`].

use coxswain_manager::serve::HttpResponse;
use http::StatusCode;
use jemalloc_pprof::PROF_CTL;

use super::{download, failed, text};

/// Starts sampling.
pub(super) fn activate() {
    let Some(control) = PROF_CTL.as_ref() else {
        return;
    };
    // No profile is taken before the endpoints are served.
    if let Ok(mut control) = control.try_lock()
        && let Err(error) = control.activate()
    {
        tracing::warn!(%error, "Failed to activate heap profiles");
    }
}

pub(super) async fn profile() -> HttpResponse {
    let Some(control) = PROF_CTL.as_ref() else {
        return text(
            StatusCode::NOT_IMPLEMENTED,
            "this build has no heap profiles: jemalloc was compiled without prof:true\n",
        );
    };
    let mut control = control.clone().lock_owned().await;
    match tokio::task::spawn_blocking(move || control.dump_pprof()).await {
        Ok(Ok(profile)) => download("heap", profile),
        Ok(Err(error)) => failed("heap", &error),
        Err(error) => failed("heap", &error),
    }
}
