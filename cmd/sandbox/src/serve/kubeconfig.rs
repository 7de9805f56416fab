//! The kubeconfig file of a running sandbox: readable by its owner only. A file of another cluster is never overwritten.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::schema::Parsed;
use crate::{CONTEXT, yaml};

/// A kubeconfig that was written. One in the temporary directory is removed when this is dropped; the private directory that
/// it was in stays: at a name that is free again, another user could put a kubeconfig that runs a program of theirs.
#[derive(Debug)]
pub struct KubeconfigFile {
    path: PathBuf,
    temporary: bool,
}

/// A failure to write a kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The file is not a kubeconfig of a sandbox.
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
            Ok(text) if is_ours(&text) => Ok(()),
            Ok(_) => Err(KubeconfigError::NotOurs(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(KubeconfigError::Write {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Writes `content` to `path`, or to a file in a private directory below the temporary one if there is none.
    pub fn write(path: Option<PathBuf>, content: &str) -> Result<Self, KubeconfigError> {
        let (path, temporary) = if let Some(path) = path {
            (path, false)
        } else {
            let file = format!("{}.kubeconfig", std::process::id());
            (private_directory(&std::env::temp_dir())?.join(file), true)
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

/// Whether a kubeconfig has one cluster, one user and one context, all of a sandbox. One that was merged with another has
/// more, even if its current context is a sandbox's.
fn is_ours(text: &str) -> bool {
    let Ok(Parsed { value, .. }) = yaml::parse(text.as_bytes()) else {
        return false;
    };
    let only_ours = |list: &str| {
        let entries = value[list].as_array();
        matches!(entries, Some([entry]) if entry["name"] == CONTEXT)
    };
    value["current-context"] == CONTEXT && ["clusters", "users", "contexts"].into_iter().all(only_ours)
}

/// The directory of this user below `parent`, which no other user can read or write. It is created if it is missing.
fn private_directory(parent: &Path) -> Result<PathBuf, KubeconfigError> {
    let user = rustix::process::geteuid().as_raw();
    let path = parent.join(format!("{CONTEXT}-{user}"));
    let created = match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Of the entry itself: a link could lead anywhere.
            fs::symlink_metadata(&path).and_then(|found| {
                let others = found.mode() & 0o077;
                if found.is_dir() && found.uid() == user && others == 0 {
                    return Ok(());
                }
                Err(io::Error::other(
                    "it is not a directory that only this user can read: remove it, or name a file for the kubeconfig",
                ))
            })
        }
        created => created,
    };
    match created {
        Ok(()) => Ok(path),
        Err(source) => Err(KubeconfigError::Write { path, source }),
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

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "apiVersion: v1\nkind: Config\ncurrent-context: steersman-sandbox\nclusters:\n- name: \
        steersman-sandbox\nusers:\n- name: steersman-sandbox\ncontexts:\n- name: steersman-sandbox\n";

    #[test]
    fn only_a_kubeconfig_without_foreign_entries_is_overwritten() {
        assert!(is_ours(OURS));
        let rewritten = OURS.replace("apiVersion: v1\n", "apiVersion: v1\npreferences: {}\n");
        assert!(is_ours(&rewritten), "as kubectl writes it again");
        let merged = "- name: production\n";
        for foreign in [
            String::new(),
            "current-context: steersman-sandbox\n".to_owned(),
            format!("{OURS}{merged}"),
            OURS.replace("users:\n", &format!("users:\n{merged}")),
            OURS.replace(
                "users:\n- name: steersman-sandbox\n",
                &format!("users:\n{merged}"),
            ),
            OURS.replace(
                "current-context: steersman-sandbox",
                "current-context: production",
            ),
            format!("{OURS}\t: {{"),
            format!("# {}", OURS.replace('\n', "\n# ")),
        ] {
            assert!(!is_ours(&foreign), "{foreign}");
        }
    }

    #[test]
    fn private_directory_is_created_reused_and_refused_if_others_can_use_it() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = private_directory(parent.path()).expect("it is created");
        let mode = || fs::metadata(&path).expect("it exists").mode() & 0o777;
        assert_eq!(mode(), 0o700);
        assert_eq!(private_directory(parent.path()).expect("it is reused"), path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("it is ours");
        let error = private_directory(parent.path()).expect_err("others can write it");
        assert!(error.to_string().contains("only this user"), "{error}");
        fs::remove_dir(&path).expect("it is empty");
        let elsewhere = tempfile::tempdir().expect("a directory");
        fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o700)).expect("it is ours");
        std::os::unix::fs::symlink(elsewhere.path(), &path).expect("a link");
        assert!(
            private_directory(parent.path()).is_err(),
            "a link is not followed"
        );
    }
}
