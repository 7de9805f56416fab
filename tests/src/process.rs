//! Child processes that die with this one, however it dies.
//!
//! Each server runs under a small shell that holds the read end of a pipe whose only write end is ours. When we stop it,
//! exit, or are killed, the pipe ends, and the shell kills the server and removes the run's directory.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// `$1` is the directory to remove, the rest is the command. The server's own stdin is empty, so that only the shell waits
/// on the pipe; `read` is a builtin, so that nothing but this shell is left to end.
const KEEPER: &str = r#"
dir=$1; shift
exec 3<&0
"$@" </dev/null 3<&- & server=$!
{ read -r _ <&3; kill -KILL "$server" 2>/dev/null; rm -rf "$dir"; } & keeper=$!
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
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.keeper.try_wait(), Ok(None))
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Drop for Process {
    /// Ends the pipe and waits until the server is gone, which takes no longer than a SIGKILL.
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
