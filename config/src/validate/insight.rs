//! Logs, traces and profiles.

use super::{Validator, list};
use crate::config::{Debugging, Logging, Tracing};
use crate::flags::{DebuggingFlags, LoggingFlags, Switch, TracingFlags};

/// All traces are recorded.
const MILLION: u32 = 1_000_000;

impl Validator<'_> {
    pub(super) fn logging(&mut self, flags: &LoggingFlags) -> Logging {
        let LoggingFlags {
            logging_format,
            v,
            vmodule,
        } = flags;
        let verbosity = u8::try_from(*v);
        self.require(verbosity.is_ok(), "logging.verbosity", "from 0 to 255", v);
        let mut modules = Vec::new();
        for item in list(vmodule) {
            let module = item
                .split_once('=')
                .filter(|(pattern, _)| !pattern.is_empty())
                .and_then(|(pattern, verbosity)| Some((pattern.to_owned(), verbosity.parse().ok()?)));
            self.require(
                module.is_some(),
                "logging.vmodule",
                "a list of file patterns and verbosities from 0 to 255, as in `reflector=4,serve/*=5`",
                format_args!("{item:?}"),
            );
            modules.extend(module);
        }
        Logging {
            format: *logging_format,
            verbosity: verbosity.unwrap_or_default(),
            vmodule: modules,
        }
    }

    pub(super) fn tracing(&mut self, flags: TracingFlags) -> Tracing {
        let TracingFlags {
            tracing_endpoint: endpoint,
            tracing_sampling_rate_per_million: rate,
        } = flags;
        let field = "tracing.samplingRatePerMillion";
        // Spans name objects of the cluster.
        let endpoint = self.encrypted_url("tracing.endpoint", endpoint);
        let number = u32::try_from(rate).ok().filter(|rate| *rate <= MILLION);
        self.require(number.is_some(), field, format!("from 0 to {MILLION}"), rate);
        if endpoint.is_none() && self.sources.chosen(field) {
            let (place, required) = (self.place(field), self.place("tracing.endpoint"));
            self.contradiction(format!("{place} requires {required}"));
        }
        Tracing {
            endpoint,
            sampling_rate_per_million: number.unwrap_or_default(),
        }
    }

    #[expect(clippy::unused_self, reason = "as for the other groups")]
    pub(super) fn debugging(&self, flags: &DebuggingFlags) -> Debugging {
        let DebuggingFlags {
            profiling: Switch(profiling),
        } = *flags;
        Debugging { profiling }
    }
}
