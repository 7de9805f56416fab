//! Log lines in the two shapes of Kubernetes components, on standard error.
//!
//! An event becomes one line: its message, its own fields, then those of the spans around it, the innermost first; of two
//! fields of one name the nearer one counts. Whatever a value holds, it cannot begin a line of its own. What is shown at
//! which verbosity, and what never, is in `filter`. Only `main` calls [`init`]; all else is told to a [`LogLayer`] by the
//! subscriber, and time, process id and output are given to it.

mod fields;
mod filter;
mod line;
mod output;
mod quote;
#[cfg(test)]
mod tests;

use std::io::Write as _;

use coxswain_config::{LogFormat, Logging};
use jiff::Timestamp;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

use fields::Fields;
use line::Line;
pub use output::Output;

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("logging was set up before: call it once, at the start of the process")]
pub struct InitError(#[from] tracing::subscriber::SetGlobalDefaultError);

/// From here on, what this process logs goes to standard error. To be called once, by `main`.
pub fn init(logging: Logging) -> Result<Output, InitError> {
    let output = Output::default();
    let layer = LogLayer::new(logging, std::process::id(), Timestamp::now, output.clone());
    set_global_default(Registry::default().with(layer))?;
    Ok(output)
}

/// Writes each event that is to be shown as one line, in one write.
pub struct LogLayer<T, W> {
    format: LogFormat,
    verbosity: u8,
    pid: u32,
    wall: T,
    out: W,
}

impl<T, W> LogLayer<T, W> {
    /// A layer that takes the time from `wall`, and a writer for each line from `out`.
    pub fn new(logging: Logging, pid: u32, wall: T, out: W) -> Self {
        let Logging { format, verbosity } = logging;
        Self {
            format,
            verbosity,
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
        // Verbosity never changes, so that what is not shown costs a comparison of one byte.
        if filter::shown(metadata, self.verbosity) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        filter::shown(metadata, self.verbosity)
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
        // There is nobody to tell that standard error is gone.
        let _ = self
            .out
            .make_writer_for(event.metadata())
            .write_all(text.as_bytes());
    }
}
