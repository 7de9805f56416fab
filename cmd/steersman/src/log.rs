//! Log output on standard error, as klog's text or JSON.
//!
//! An event becomes one line: its message, its fields, then the fields of the enclosing spans, innermost first. The innermost
//! of two fields of one name wins. Values are quoted, so that they cannot forge a line. `filter` decides which events are
//! logged; [`LogHandle`] changes that at run time.

mod fields;
mod filter;
mod line;
mod output;
mod quote;
#[cfg(test)]
mod tests;
mod vmodule;

use std::io::Write as _;

use jiff::Timestamp;
use steersman_config::{LogFormat, Logging};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

use fields::Fields;
pub use filter::LogHandle;
use line::Line;
pub use output::Output;

/// Logging was initialized twice.
#[derive(Debug, thiserror::Error)]
#[error("logging is already initialized")]
pub struct InitError(#[from] tracing::subscriber::SetGlobalDefaultError);

/// Sends the logs of this process to standard error. Only `main` calls it, once.
pub fn init(logging: &Logging) -> Result<Log, InitError> {
    let log = Log {
        output: Output::default(),
        handle: LogHandle::new(logging.verbosity, &logging.vmodule),
    };
    let Log { output, handle } = log.clone();
    let layer = LogLayer::new(logging.format, handle, std::process::id(), Timestamp::now, output);
    set_global_default(Registry::default().with(layer))?;
    Ok(log)
}

/// The log of this process. Clones share it.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug)]
pub struct Log {
    pub output: Output,
    pub handle: LogHandle,
}

/// A layer that writes each enabled event as one line, in one write.
pub struct LogLayer<T, W> {
    format: LogFormat,
    handle: LogHandle,
    pid: u32,
    wall: T,
    out: W,
}

impl<T, W> LogLayer<T, W> {
    /// Creates a layer with the clock `wall` and the writer `out`.
    pub fn new(format: LogFormat, handle: LogHandle, pid: u32, wall: T, out: W) -> Self {
        Self {
            format,
            handle,
            pid,
            wall,
            out,
        }
    }
}

impl<S, T, W> Layer<S> for LogLayer<T, W>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    T: Fn() -> Timestamp + 'static,
    W: for<'writer> MakeWriter<'writer> + 'static,
{
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.handle.interest(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.handle.is_enabled(metadata)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.add_missing(outer);
            }
        }
        let line = Line {
            level: *event.metadata().level(),
            wall: (self.wall)(),
            pid: self.pid,
            file: event.metadata().file(),
            number: event.metadata().line(),
            fields: &fields,
        };
        let text = match self.format {
            LogFormat::Text => line.text(),
            LogFormat::Json => line.json(),
        };
        // A failure to write to standard error cannot be reported.
        let _ = self
            .out
            .make_writer_for(event.metadata())
            .write_all(text.as_bytes());
    }
}
