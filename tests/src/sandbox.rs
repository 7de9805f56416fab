//! The default cluster: the sandbox, served over HTTPS from this process.

use crate::endpoint::Endpoint;

/// Starts it on a free loopback port; it runs until the runtime ends.
#[expect(clippy::unused_async, reason = "binding a listener will wait")]
pub async fn start() -> Result<Endpoint, String> {
    Err("the sandbox does not serve yet; set KUBEBUILDER_ASSETS (see tests/real-apiserver.sh)".to_owned())
}
