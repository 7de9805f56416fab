//! Stands for `cpu` in a build without CPU profiles.

use http::StatusCode;
use steersman_manager::env::Clock;
use steersman_manager::serve::HttpResponse;
use tokio_util::sync::CancellationToken;

use super::text;

pub(super) struct Profiler;

impl Profiler {
    pub(super) fn new(_: Clock, _: CancellationToken) -> Self {
        Self
    }

    #[expect(clippy::unused_async, reason = "as the profiler")]
    pub(super) async fn profile(&self, _: &str) -> HttpResponse {
        let Self = self;
        text(
            StatusCode::NOT_IMPLEMENTED,
            "this build has no CPU profiles: build it with the cargo feature pprof\n",
        )
    }
}
