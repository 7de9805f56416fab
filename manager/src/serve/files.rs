//! Polls files for changes. Mounted Secrets and `ConfigMaps` are replaced by renaming a symbolic link, which file events
//! report differently on each system.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use crate::env::Clock;

const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Reads the files at every interval. `on_read` gets their contents, or the reason why one cannot be read.
pub(crate) async fn poll<const N: usize>(
    clock: &Clock,
    paths: [PathBuf; N],
    mut on_read: impl FnMut(Result<[Vec<u8>; N], String>),
) -> Infallible {
    loop {
        clock.sleep(POLL_INTERVAL).await;
        on_read(read(&paths).await);
    }
}

/// Reads the files once.
pub(crate) async fn read<const N: usize>(paths: &[PathBuf; N]) -> Result<[Vec<u8>; N], String> {
    let mut contents = [const { Vec::new() }; N];
    for (path, content) in paths.iter().zip(&mut contents) {
        let read = tokio::fs::read(path).await;
        *content = read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    }
    Ok(contents)
}
