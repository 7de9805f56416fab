//! The kubeconfig file of a running sandbox: readable by its owner only, and never written over somebody else's.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::CONTEXT;

/// A kubeconfig that was written. One in the temporary directory is removed when this is dropped.
#[derive(Debug)]
pub struct KubeconfigFile {
    path: PathBuf,
    temporary: bool,
}

/// Why there is no kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The file is somebody else's.
    #[error("{0} exists and is not a kubeconfig of a sandbox: choose another file, or remove it first")]
    NotOurs(PathBuf),
    /// It could not be written.
    #[error("cannot write the kubeconfig {path}: {source}")]
    Write {
        /// Where to.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl KubeconfigFile {
    /// Whether `path` may be written: a file that is there already is only overwritten if a sandbox wrote it, because it
    /// may be the keys to a real cluster.
    pub fn check(path: &Path) -> Result<(), KubeconfigError> {
        match fs::read_to_string(path) {
            Ok(text) if text.contains(&format!("current-context: {CONTEXT}\n")) => Ok(()),
            Ok(_) => Err(KubeconfigError::NotOurs(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(KubeconfigError::Write {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Writes `content` to `path`, or to a file in the temporary directory if there is none.
    pub fn write(path: Option<PathBuf>, content: &str) -> Result<Self, KubeconfigError> {
        let (path, temporary) = match path {
            Some(path) => (path, false),
            None => (
                std::env::temp_dir().join(format!("{CONTEXT}-{}.kubeconfig", std::process::id())),
                true,
            ),
        };
        if !temporary {
            Self::check(&path)?;
        }
        match write_private(&path, content) {
            Ok(()) => Ok(Self { path, temporary }),
            Err(source) => Err(KubeconfigError::Write { path, source }),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        if self.temporary {
            // Its token is worthless now; that it lies around is untidy, not wrong.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes a file that only its owner can read, in one step.
fn write_private(path: &Path, content: &str) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}", std::process::id()));
    let fresh = path.with_file_name(name);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(content.as_bytes())?;
        fs::rename(&fresh, path)
    })();
    // One that was there before is not ours to remove.
    if written
        .as_ref()
        .is_err_and(|e| e.kind() != io::ErrorKind::AlreadyExists)
    {
        let _ = fs::remove_file(&fresh);
    }
    written
}
