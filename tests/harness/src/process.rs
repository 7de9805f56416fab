//! Child processes that end with this process, even if it is killed.
//!
//! Each server runs under a shell that reads from a pipe. This process has the only write end. When it ends, the pipe closes,
//! and the shell kills the server and removes the directory of the run. A stop writes a line first, which keeps the directory.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// `$1` is the directory to remove, the rest is the command. Only the shell reads the pipe: the stdin of the server is empty,
/// and `read` is a builtin. The cleanup ignores SIGTERM.
const SUPERVISOR: &str = r#"
dir=$1; shift
exec 3<&0
"$@" </dev/null 3<&- & server=$!
{ read -r _ <&3 && dir=; trap '' TERM; kill -KILL "$server" 2>/dev/null; [ -z "$dir" ] || rm -rf "$dir"; } & supervisor=$!
wait "$server"; code=$?
kill "$supervisor" 2>/dev/null
exit "$code"
"#;

/// Number of log lines that a failure shows.
const TAIL_LINES: usize = 25;

/// A running server.
pub struct Process {
    name: &'static str,
    log: PathBuf,
    /// Its stdin is the pipe that keeps the server alive.
    supervisor: Child,
}

impl Process {
    /// Starts `command`, with its output in a log file in `dir`. `dir` is removed if this process ends without stopping it.
    pub fn start<A: AsRef<OsStr>>(
        name: &'static str,
        dir: &Path,
        command: &Path,
        arguments: &[A],
    ) -> io::Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let output = File::create(&log)?;
        let supervisor = Command::new("/bin/sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(dir)
            .arg(command)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Self {
            name,
            log,
            supervisor,
        })
    }

    /// The name in messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether the server has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.supervisor.try_wait(), Ok(None))
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Drop for Process {
    /// Kills the server and waits for its end.
    fn drop(&mut self) {
        if let Some(mut pipe) = self.supervisor.stdin.take() {
            // A server that has ended closes the pipe.
            let _ = pipe.write_all(b"\n");
        }
        let _ = self.supervisor.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::time;

    fn start(dir: &Path) -> Process {
        fs::write(dir.join("kept"), "").expect("a file");
        Process::start("sleep", dir, Path::new("/bin/sleep"), &["600"]).expect("it starts")
    }

    #[test]
    fn stopped_server_keeps_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        for attempt in 0..20 {
            drop(start(dir.path()));
            assert!(dir.path().join("kept").exists(), "attempt {attempt}");
        }
    }

    #[tokio::test]
    async fn dead_owner_removes_the_directory() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().expect("a directory");
            let mut process = start(dir.path());
            // The pipe closes as at the end of this process.
            drop(process.supervisor.stdin.take());
            let removed = time::eventually(time::ANSWER, async || (!dir.path().exists()).then_some(()));
            assert!(removed.await.is_some(), "the directory exists");
        }
    }
}
