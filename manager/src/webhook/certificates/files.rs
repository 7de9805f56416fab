//! A certificate of the user's own: `tls.crt` and `tls.key` in a folder, looked at again and again, because whoever renews it
//! only writes the files.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::pair::Pair;
use super::served::Served;
use crate::env::Clock;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(10);

/// A folder with a certificate and its key.
pub(crate) struct Files {
    folder: PathBuf,
    served: Arc<Served>,
}

impl Files {
    pub(crate) fn new(folder: &Path, served: &Arc<Served>) -> Self {
        Self {
            folder: folder.to_owned(),
            served: served.clone(),
        }
    }

    /// Reads them once: they have to be there and good when the process starts.
    pub(crate) async fn load(&self) -> Result<(), String> {
        let pair = read(&self.folder).await?;
        self.served.serve(pair.certified());
        Ok(())
    }

    /// Reads them again, for ever.
    pub(crate) async fn run(self, clock: Clock) -> Infallible {
        let folder = self.folder.display().to_string();
        loop {
            clock.sleep(LOOK).await;
            match read(&self.folder).await {
                Ok(pair) => {
                    if self.served.serve(pair.certified()) {
                        tracing::info!(folder, "Serving webhooks with a new certificate");
                    }
                }
                Err(reason) => {
                    if self.served.refuse(None, &reason) {
                        tracing::warn!(folder, reason, "The certificate for webhooks cannot be used");
                    }
                }
            }
        }
    }
}

async fn read(folder: &Path) -> Result<Pair, String> {
    let file = async |name: &str| {
        let path = folder.join(name);
        let text = tokio::fs::read(&path).await;
        text.map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let (certificate, key) = (file("tls.crt").await?, file("tls.key").await?);
    // The two are not written at once: a certificate may meet the key of the one before. The next look sees both.
    Pair::read(&certificate, &key).map_err(|error| error.to_string())
}
