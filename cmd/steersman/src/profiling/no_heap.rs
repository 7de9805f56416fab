//! Stands for `heap` in a build with the allocator of the C library.

use http::StatusCode;
use steersman_manager::serve::HttpResponse;

use super::text;

pub(super) fn activate() {}

#[expect(clippy::unused_async, reason = "as the profiler")]
pub(super) async fn profile() -> HttpResponse {
    text(
        StatusCode::NOT_IMPLEMENTED,
        "this build has no heap profiles: build it on Linux, with the cargo feature jemalloc\n",
    )
}
