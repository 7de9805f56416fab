//! Loads the serving certificate from `tls.crt` and `tls.key` in a directory and polls them for changes.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::key_pair::KeyPair;
use super::serving::ServingCertificate;
use crate::env::Clock;
use crate::serve::files;

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
        let pair = parse(files::read(&self.paths()).await)?;
        self.serving.set(pair.certified());
        Ok(())
    }

    /// Polls the files.
    pub(crate) async fn run(self, clock: Clock) -> Infallible {
        let folder = self.folder.display().to_string();
        let on_read = |read| match parse(read) {
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
        };
        files::poll(&clock, self.paths(), on_read).await
    }

    fn paths(&self) -> [PathBuf; 2] {
        ["tls.crt", "tls.key"].map(|name| self.folder.join(name))
    }
}

fn parse(read: Result<[Vec<u8>; 2], String>) -> Result<KeyPair, String> {
    // The two files are not written atomically, so they may not match for a moment. The next poll reads both again.
    let [certificate, key] = read?;
    KeyPair::read(&certificate, &key).map_err(|error| error.to_string())
}
