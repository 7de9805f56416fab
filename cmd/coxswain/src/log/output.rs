//! Standard error, which waits while something is drawn on the same terminal.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// The most that is kept back: what comes then is written at once, whatever it does to the drawing.
const KEPT: usize = 1 << 20;

/// Where lines go. All clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Output(Arc<Mutex<Option<Vec<u8>>>>);

/// While this lives, lines are kept back; then they are written, in their order.
#[derive(Debug)]
pub struct Held(Output);

impl Output {
    /// Keeps lines back.
    #[must_use]
    pub fn hold(&self) -> Held {
        self.lock().get_or_insert_default();
        Held(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let kept = self.0.lock().take();
        // There is nobody to tell that standard error is gone.
        let _ = io::stderr().write_all(&kept.unwrap_or_default());
    }
}

impl Write for &Output {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut kept = self.lock();
        match kept.as_mut() {
            Some(kept) if kept.len() + line.len() <= KEPT => {
                kept.extend_from_slice(line);
                Ok(line.len())
            }
            // Under the lock, so that nothing overtakes what was kept.
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
    fn lines_are_kept_back_up_to_a_bound_and_given_back() {
        let output = Output::default();
        let held = output.hold();
        (&output).write_all(b"one\n").expect("written");
        (&output).write_all(&vec![b'\n'; KEPT]).expect("written at once");
        (&output).write_all(b"two\n").expect("written");
        assert_eq!(output.lock().as_deref(), Some(b"one\ntwo\n".as_slice()));
        drop(held);
        assert_eq!(*output.lock(), None);
    }
}
