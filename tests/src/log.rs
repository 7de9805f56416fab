//! What one test logs, and nothing of what others log beside it.
//!
//! `tracing` remembers for each line of code whether anybody wants it, and while there is one subscriber it asks the thread that
//! comes to the line first: a subscriber of one test alone misses lines that another test came to before. So the process has
//! one subscriber, for good, and each thread has its own place to write to.

use std::cell::RefCell;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::sync::Once;

use tracing::callsite::rebuild_interest_cache;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::SubscriberExt;

thread_local! {
    static KEPT: RefCell<Option<(LevelFilter, Vec<u8>)>> = const { RefCell::new(None) };
}

/// What this thread has logged since it was made. It stays on its thread.
pub struct Log(PhantomData<*const ()>);

impl Log {
    /// Keeps what this thread logs from now on, up to this level.
    pub fn keep(level: LevelFilter) -> Self {
        static SUBSCRIBED: Once = Once::new();
        SUBSCRIBED.call_once(|| {
            let written = tracing_subscriber::fmt::layer()
                .with_writer(|| Kept)
                .with_ansi(false)
                .with_target(false)
                .without_time();
            let wanted = dynamic_filter_fn(|line, _| {
                KEPT.with_borrow(|kept| kept.as_ref().is_some_and(|(level, _)| line.level() <= level))
            });
            let subscriber = tracing_subscriber::registry().with(written).with(wanted);
            set_global_default(subscriber).expect("the only subscriber of these tests");
            // Whoever came to a line for the first time while it was being set was told that nobody wants it.
            rebuild_interest_cache();
        });
        KEPT.set(Some((level, Vec::new())));
        Self(PhantomData)
    }

    /// What was logged until now.
    pub fn text(&self) -> String {
        let bytes = KEPT.with_borrow(|kept| kept.as_ref().map(|(_, bytes)| bytes.clone()));
        String::from_utf8(bytes.unwrap_or_default()).expect("text")
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        KEPT.set(None);
    }
}

struct Kept;

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        KEPT.with_borrow_mut(|kept| {
            if let Some((_, kept)) = kept {
                kept.extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
