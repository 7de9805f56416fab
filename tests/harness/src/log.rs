//! The log lines of one test.
//!
//! `tracing` caches for each call site whether a subscriber is interested, so that a subscriber of one test misses call sites
//! that another test has reached before. The process therefore has one subscriber, which writes to a buffer per thread.

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

/// The log lines of the current thread since its creation.
pub struct Log(PhantomData<*const ()>);

impl Log {
    /// Starts collecting the lines of the current thread up to a level. Panics if the process has another subscriber.
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
            // Call sites that were reached before have cached that no subscriber is interested.
            rebuild_interest_cache();
        });
        KEPT.set(Some((level, Vec::new())));
        Self(PhantomData)
    }

    /// Returns the lines so far.
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
