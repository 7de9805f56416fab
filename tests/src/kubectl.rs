//! Runs the real `kubectl` against the cluster, as a user would.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::cluster::Cluster;

/// The `kubectl` of this machine: `$KUBECTL`, or the first one on the path.
#[must_use]
pub fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("KUBECTL") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join("kubectl"))
        .find(|file| file.is_file())
}

/// `kubectl` for one cluster and namespace.
pub struct Kubectl {
    cluster: Cluster,
    namespace: String,
    /// Where it keeps what it has discovered.
    cache: PathBuf,
}

/// What a call printed, and how it ended.
#[derive(Debug)]
pub struct Printed {
    /// The call, for messages.
    pub call: String,
    /// Exit code 0.
    pub success: bool,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Kubectl {
    /// In `namespace` of `cluster`; if it is empty, wherever each object says.
    #[must_use]
    pub fn new(cluster: &Cluster, namespace: &str) -> Self {
        Self {
            cluster: cluster.clone(),
            namespace: namespace.to_owned(),
            cache: cluster.kubeconfig().with_extension("kubectl-cache"),
        }
    }

    /// The same without what other calls have discovered: some commands do not look again for what is new.
    #[must_use]
    pub fn with_cache_of_its_own(self) -> Self {
        let cache = self
            .cluster
            .kubeconfig()
            .with_extension(format!("kubectl-cache-{}", self.namespace));
        Self { cache, ..self }
    }

    /// Runs it with arguments that are separated by spaces.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn run(&self, arguments: &str) -> Printed {
        self.run_with(&arguments.split_whitespace().collect::<Vec<_>>(), "")
    }

    /// Runs it with arguments and a standard input.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn run_with(&self, arguments: &[&str], input: &str) -> Printed {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        if let Some(mut stdin) = child.stdin.take() {
            // It may have ended without reading: then its output tells why.
            let _ = stdin.write_all(input.as_bytes());
        }
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output().expect("kubectl ends");
        Printed {
            call: format!("kubectl {}", arguments.join(" ")),
            success: status.success(),
            out: String::from_utf8_lossy(&stdout).into_owned(),
            err: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// The command line, for calls that go on for a while.
    ///
    /// # Panics
    /// If there is no `kubectl`.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(find().expect("the test said that it needs kubectl"));
        command
            .arg("--kubeconfig")
            .arg(self.cluster.kubeconfig())
            // Discovery is cached by address, and the next server may get the same port.
            .arg("--cache-dir")
            .arg(&self.cache);
        if !self.namespace.is_empty() {
            command.args(["--namespace", &self.namespace]);
        }
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

impl Printed {
    /// The output of a call that must succeed, and quietly.
    ///
    /// # Panics
    /// If it failed or warned.
    #[track_caller]
    #[must_use]
    pub fn ok(self) -> String {
        assert!(self.success && self.err.is_empty(), "{self:#?}");
        self.out
    }

    /// The error output of a call that must fail.
    ///
    /// # Panics
    /// If it did not.
    #[track_caller]
    #[must_use]
    pub fn refused(self) -> String {
        assert!(!self.success, "{self:#?}");
        self.err
    }
}
