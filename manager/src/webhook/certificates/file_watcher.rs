//! Loads the serving certificate from `tls.crt` and `tls.key` in a directory and polls them for changes.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::key_pair::KeyPair;
use super::serving::ServingCertificate;
use crate::env::Clock;

const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Reloads a certificate and its key from a directory.
pub(crate) struct FileWatcher {
    folder: PathBuf,
    serving: Arc<ServingCertificate>,
}

impl FileWatcher {
    pub(crate) fn new(folder: &Path, serving: &Arc<ServingCertificate>) -> Self {
        Self {
            folder: folder.to_owned(),
            serving: serving.clone(),
        }
    }

    /// Loads the files once, at startup.
    pub(crate) async fn load(&self) -> Result<(), String> {
        let pair = read(&self.folder).await?;
        self.serving.set(pair.certified());
        Ok(())
    }

    /// Polls the files.
    pub(crate) async fn run(self, clock: Clock) -> Infallible {
        let folder = self.folder.display().to_string();
        loop {
            clock.sleep(POLL_INTERVAL).await;
            match read(&self.folder).await {
                Ok(pair) => {
                    if self.serving.set(pair.certified()) {
                        tracing::info!(folder, "Reloaded webhook certificate");
                    }
                }
                Err(reason) => {
                    if self.serving.reject(None, &reason) {
                        tracing::warn!(folder, reason, "Failed to reload webhook certificate");
                    }
                }
            }
        }
    }
}

async fn read(folder: &Path) -> Result<KeyPair, String> {
    let file = async |name: &str| {
        let path = folder.join(name);
        let text = tokio::fs::read(&path).await;
        text.map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let (certificate, key) = (file("tls.crt").await?, file("tls.key").await?);
    // The two files are not written atomically, so they may not match for a moment. The next poll reads both again.
    KeyPair::read(&certificate, &key).map_err(|error| error.to_string())
}
