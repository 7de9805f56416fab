//! The outside system, and a small one in a directory.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// The outside system. A request may be repeated: the response to an earlier one may have been lost.
pub trait Store: Send + Sync + 'static {
    /// Creates the bucket, or sets its quota in GiB. Returns false if there was nothing to do.
    fn ensure(&self, name: &str, quota: u32) -> impl Future<Output = io::Result<bool>> + Send;
    /// Deletes the bucket, if it exists.
    fn delete(&self, name: &str) -> impl Future<Output = io::Result<()>> + Send;
}

/// A store in a directory: a bucket is a file that contains its quota.
pub struct Folder(pub PathBuf);

impl Store for Folder {
    async fn ensure(&self, name: &str, quota: u32) -> io::Result<bool> {
        let (path, text) = (self.0.join(name), quota.to_string());
        if tokio::fs::read_to_string(&path).await.is_ok_and(|it| it == text) {
            return Ok(false);
        }
        tokio::fs::write(path, text).await.map(|()| true)
    }

    async fn delete(&self, name: &str) -> io::Result<()> {
        match tokio::fs::remove_file(self.0.join(name)).await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
