//! Standard error, which can be held back while a tree is drawn on the same terminal.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// Bounds the held output in bytes. Further lines are written at once.
const HELD_MAX: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// The destination of log lines. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Output(Arc<Mutex<Option<Vec<u8>>>>);

/// Holds lines back until it is dropped; then they are written in order.
#[derive(Debug)]
pub struct HoldGuard(Output);

impl Output {
    /// Holds lines back until the guard is dropped.
    #[must_use]
    pub fn hold(&self) -> HoldGuard {
        self.lock().get_or_insert_default();
        HoldGuard(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        let held = self.0.lock().take();
        // A failure to write to standard error cannot be reported.
        let _ = io::stderr().write_all(&held.unwrap_or_default());
    }
}

impl Write for &Output {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut held = self.lock();
        match held.as_mut() {
            Some(held) if held.len() + line.len() <= HELD_MAX => {
                held.extend_from_slice(line);
                Ok(line.len())
            }
            // Under the lock, so that held lines stay in front.
            _ => io::stderr().write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl<'writer> MakeWriter<'writer> for Output {
    type Writer = &'writer Self;

    fn make_writer(&'writer self) -> Self::Writer {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_lines_are_bounded_and_written_on_drop() {
        let output = Output::default();
        let held = output.hold();
        (&output).write_all(b"one\n").expect("written");
        (&output).write_all(&[b'\n'; HELD_MAX]).expect("written at once");
        (&output).write_all(b"two\n").expect("written");
        assert_eq!(output.lock().as_deref(), Some(b"one\ntwo\n".as_slice()));
        drop(held);
        assert_eq!(*output.lock(), None);
    }
}
