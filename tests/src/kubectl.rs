//! Runs the real `kubectl` against the cluster, as a user would.

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
    /// Where it keeps what it has discovered.
    cache: PathBuf,
    /// Defaults to that of [`find`].
    program: Option<PathBuf>,
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

    /// The same without what other calls have discovered: some commands do not look again for what is new.
    pub fn with_cache_of_its_own(self) -> Self {
        let cache = self
            .cluster
            .kubeconfig()
            .with_extension(format!("kubectl-cache-{}", self.namespace));
        Self { cache, ..self }
    }

    /// Runs it with arguments that are separated by spaces.
    pub fn run(&self, arguments: &str) -> Printed {
        self.run_with(&arguments.split_whitespace().collect::<Vec<_>>(), "")
    }

    /// Runs it with arguments and a standard input.
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
        let printed = Printed {
            call: format!("kubectl {}", arguments.join(" ")),
            success: status.success(),
            out: String::from_utf8_lossy(&stdout).into_owned(),
            err: String::from_utf8_lossy(&stderr).into_owned(),
        };
        if self.cluster.is_sandbox() {
            printed
        } else {
            printed.without_groups_that_went()
        }
    }

    /// The command line, for calls that go on for a while.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let program = self.program.clone().or_else(find);
        let mut command = Command::new(program.expect("the test said that it needs kubectl"));
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

/// What kubectl says of a group that is listed, and is gone when it asks for its kinds.
const GONE: &str = "the server could not find the requested resource";

/// Whether this is how kubectl names a version of a group of the tests.
fn is_of_a_test(version: &str) -> bool {
    let group = version.trim().split('/').next().unwrap_or_default();
    group == "example.com" || group.ends_with(".example.com")
}

/// Whether a line complains of nothing but groups of tests that have gone.
fn is_about_groups_that_went(line: &str) -> bool {
    if let Some((_, rest)) = line.split_once("couldn't get resource list for ") {
        return rest
            .split_once(": ")
            .is_some_and(|(version, why)| is_of_a_test(version) && why.starts_with(GONE));
    }
    let Some((_, all)) = line.split_once("unable to retrieve the complete list of server APIs: ") else {
        return false;
    };
    all.split(", ").all(|one| {
        one.split_once(": ")
            .is_some_and(|(version, why)| is_of_a_test(version) && why == GONE)
    })
}

impl Printed {
    /// Older servers answer for each group on its own, so that kubectl meets those of other tests that have just gone, and
    /// complains. A call that failed for that alone has not failed.
    fn without_groups_that_went(mut self) -> Self {
        let (went, said): (Vec<&str>, Vec<&str>) =
            self.err.lines().partition(|it| is_about_groups_that_went(it));
        if went.is_empty() {
            return self;
        }
        let err: String = said.iter().flat_map(|line| [*line, "\n"]).collect();
        self.success |= err.is_empty() && went.iter().any(|line| line.starts_with("error: "));
        self.err = err;
        self
    }

    /// The output of a call that must succeed, and quietly.
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
        printed.without_groups_that_went()
    }

    #[test]
    fn of_groups_that_went_nothing_is_said() {
        let cached = |version: &str, why: &str| {
            format!(
                "E1115 18:04:38.760501   27129 memcache.go:287] \"Unhandled Error\" err=\"couldn't get resource list for \
                 {version}: {why}\"\n"
            )
        };
        let listed =
            |parts: &str| format!("error: unable to retrieve the complete list of server APIs: {parts}\n");
        let went = printed(true, &cached("test-1.example.com/v1", GONE));
        assert!(went.success && went.err.is_empty(), "{went:?}");
        let parts = format!("a.example.com/v1: {GONE}, example.com/v2: {GONE}");
        let went = printed(false, &listed(&parts));
        assert!(went.success && went.err.is_empty(), "{went:?}");
        // All else is said, and counts.
        for err in [
            cached("apps/v1", GONE),
            cached(
                "test-1.example.com/v1",
                "the server is currently unable to handle the request",
            ),
            listed(&format!("a.example.com/v1: {GONE}, apps/v1: {GONE}")),
            "error: the server doesn't have a resource type \"nope\"\n".to_owned(),
        ] {
            let said = printed(false, &err);
            assert_eq!((said.success, &said.err), (false, &err));
        }
        let both = format!("{}error: no\n", cached("a.example.com/v1", GONE));
        let said = printed(false, &both);
        assert_eq!((said.success, said.err.as_str()), (false, "error: no\n"));
    }
}
