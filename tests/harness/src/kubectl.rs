//! Runs the real `kubectl` on the cluster.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::cluster::Cluster;

/// The `kubectl` of this machine: `$KUBECTL`, or the first one on the path.
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
    /// The directory of the discovery cache.
    cache: PathBuf,
    /// Defaults to that of [`find`].
    program: Option<PathBuf>,
}

/// The output and the result of a call.
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
    /// Uses one namespace. If it is empty, the namespace of each object applies.
    pub fn new(cluster: &Cluster, namespace: &str) -> Self {
        Self {
            cluster: cluster.clone(),
            namespace: namespace.to_owned(),
            cache: cluster.kubeconfig().with_extension("kubectl-cache"),
            program: None,
        }
    }

    /// Runs another version of kubectl.
    pub fn with_program(self, program: PathBuf) -> Self {
        Self {
            program: Some(program),
            ..self
        }
    }

    /// Uses a separate discovery cache, because some commands do not refresh it.
    pub fn with_cache_of_its_own(self) -> Self {
        let cache = self
            .cluster
            .kubeconfig()
            .with_extension(format!("kubectl-cache-{}", self.namespace));
        Self { cache, ..self }
    }

    /// Runs kubectl with arguments that are separated by spaces.
    pub fn run(&self, arguments: &str) -> Printed {
        self.run_with(&arguments.split_whitespace().collect::<Vec<_>>(), "")
    }

    /// Runs kubectl with arguments and a standard input.
    pub fn run_with(&self, arguments: &[&str], input: &str) -> Printed {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        if let Some(mut stdin) = child.stdin.take() {
            // kubectl can end without reading. Its output shows the reason.
            let _ = stdin.write_all(input.as_bytes());
        }
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output().expect("kubectl ends");
        let printed = Printed {
            call: format!("kubectl {}", arguments.join(" ")),
            success: status.success(),
            out: String::from_utf8_lossy(&stdout).into_owned(),
            err: String::from_utf8_lossy(&stderr).into_owned(),
        };
        if self.cluster.is_sandbox() {
            printed
        } else {
            printed.without_deleted_groups()
        }
    }

    /// Returns the command for a call that keeps running.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let program = self.program.clone().or_else(find);
        let mut command = Command::new(program.expect("the test said that it needs kubectl"));
        command
            .arg("--kubeconfig")
            .arg(self.cluster.kubeconfig())
            // The cache is by address, and a later server can get the same port.
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

/// The error for a group that was deleted after it was listed.
const DELETED: &str = "the server could not find the requested resource";

/// Whether a group version belongs to a test.
fn is_of_test(version: &str) -> bool {
    let group = version.trim().split('/').next().unwrap_or_default();
    group == "example.com" || group.ends_with(".example.com")
}

/// Whether a line reports only deleted groups of tests.
fn reports_deleted_groups(line: &str) -> bool {
    if let Some((_, rest)) = line.split_once("couldn't get resource list for ") {
        return rest
            .split_once(": ")
            .is_some_and(|(version, why)| is_of_test(version) && why.starts_with(DELETED));
    }
    let Some((_, all)) = line.split_once("unable to retrieve the complete list of server APIs: ") else {
        return false;
    };
    all.split(", ").all(|one| {
        one.split_once(": ")
            .is_some_and(|(version, why)| is_of_test(version) && why == DELETED)
    })
}

impl Printed {
    /// Drops errors about deleted groups of other tests, which kubectl reads one by one from older servers. A call that failed
    /// only because of them succeeds.
    fn without_deleted_groups(mut self) -> Self {
        let (deleted, other): (Vec<&str>, Vec<&str>) =
            self.err.lines().partition(|it| reports_deleted_groups(it));
        if deleted.is_empty() {
            return self;
        }
        let err: String = other.iter().flat_map(|line| [*line, "\n"]).collect();
        self.success |= err.is_empty() && deleted.iter().any(|line| line.starts_with("error: "));
        self.err = err;
        self
    }

    /// The output of a call that must succeed without warnings.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.success && self.err.is_empty(), "{self:#?}");
        self.out
    }

    /// The error output of a call that must fail.
    #[track_caller]
    pub fn refused(self) -> String {
        assert!(!self.success, "{self:#?}");
        self.err
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(success: bool, err: &str) -> Printed {
        let printed = Printed {
            call: String::new(),
            success,
            out: String::new(),
            err: err.to_owned(),
        };
        printed.without_deleted_groups()
    }

    #[test]
    fn complaints_about_deleted_groups_are_dropped() {
        let cached = |version: &str, why: &str| {
            format!(
                "E1115 18:04:38.760501   27129 memcache.go:287] \"Unhandled Error\" err=\"couldn't get resource list for \
                 {version}: {why}\"\n"
            )
        };
        let listed =
            |parts: &str| format!("error: unable to retrieve the complete list of server APIs: {parts}\n");
        let went = printed(true, &cached("test-1.example.com/v1", DELETED));
        assert!(went.success && went.err.is_empty(), "{went:?}");
        let parts = format!("a.example.com/v1: {DELETED}, example.com/v2: {DELETED}");
        let went = printed(false, &listed(&parts));
        assert!(went.success && went.err.is_empty(), "{went:?}");
        // Other errors are kept.
        for err in [
            cached("apps/v1", DELETED),
            cached(
                "test-1.example.com/v1",
                "the server is currently unable to handle the request",
            ),
            listed(&format!("a.example.com/v1: {DELETED}, apps/v1: {DELETED}")),
            "error: the server doesn't have a resource type \"nope\"\n".to_owned(),
        ] {
            let said = printed(false, &err);
            assert_eq!((said.success, &said.err), (false, &err));
        }
        let both = format!("{}error: no\n", cached("a.example.com/v1", DELETED));
        let said = printed(false, &both);
        assert_eq!((said.success, said.err.as_str()), (false, "error: no\n"));
    }
}
