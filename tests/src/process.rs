//! Child processes that die with this one, however it dies.
//!
//! Each server runs under a small shell that holds the read end of a pipe whose only write end is ours. When we exit or are
//! killed, the pipe ends, and the shell kills the server and removes the run's directory. When we stop it, we say so before:
//! then the directory stays, in which others may run, or the next attempt to start.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// `$1` is the directory to remove, the rest is the command. The server's own stdin is empty, so that only the shell waits
/// on the pipe; `read` is a builtin, so that nothing but this shell is left to end. Who has begun to clean up is not ended.
const KEEPER: &str = r#"
dir=$1; shift
exec 3<&0
"$@" </dev/null 3<&- & server=$!
{ read -r _ <&3 && dir=; trap '' TERM; kill -KILL "$server" 2>/dev/null; [ -z "$dir" ] || rm -rf "$dir"; } & keeper=$!
wait "$server"; code=$?
kill "$keeper" 2>/dev/null
exit "$code"
"#;

/// How much of a server's log a failure shows.
const TAIL_LINES: usize = 25;

/// A running server.
pub struct Process {
    name: &'static str,
    log: PathBuf,
    /// Its stdin is the pipe that keeps the server alive.
    keeper: Child,
}

impl Process {
    /// Starts `command`, with its output in a log file in `dir`. `dir` is removed if we die without stopping it.
    pub fn start<A: AsRef<OsStr>>(
        name: &'static str,
        dir: &Path,
        command: &Path,
        arguments: &[A],
    ) -> io::Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let output = File::create(&log)?;
        let keeper = Command::new("/bin/sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(dir)
            .arg(command)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Self { name, log, keeper })
    }

    /// What it is called in messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.keeper.try_wait(), Ok(None))
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
    /// Says that it is to end, and waits until the server is gone, which takes no longer than a SIGKILL.
    fn drop(&mut self) {
        if let Some(mut pipe) = self.keeper.stdin.take() {
            // One that has ended by itself does not listen.
            let _ = pipe.write_all(b"\n");
        }
        let _ = self.keeper.wait();
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
    fn a_stop_leaves_the_directory_to_the_next_attempt() {
        let dir = tempfile::tempdir().expect("a directory");
        for attempt in 0..20 {
            drop(start(dir.path()));
            assert!(dir.path().join("kept").exists(), "attempt {attempt}");
        }
    }

    #[tokio::test]
    async fn who_dies_leaves_no_directory() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().expect("a directory");
            let mut process = start(dir.path());
            // As the end of this process would.
            drop(process.keeper.stdin.take());
            let gone = time::eventually(time::ANSWER, async || (!dir.path().exists()).then_some(()));
            assert!(gone.await.is_some(), "it is still there");
        }
    }
}
