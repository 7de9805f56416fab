//! `/statusz`: start time, version and paths of the process; see `structured` for the formats.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::build_info::BuildInfo;
use super::endpoints::Endpoints;
use super::structured;
use crate::env::Clock;

struct Statusz {
    build: BuildInfo,
    started: Timestamp,
    uptime: Duration,
    paths: Vec<String>,
}

impl Endpoints {
    /// Adds `/statusz`. It lists the paths that were mounted before it, without those below `/debug/`.
    #[must_use]
    pub fn with_statusz(self, build: &BuildInfo, clock: &Clock) -> Self {
        let build = *build;
        let clock = clock.clone();
        let (started, start) = (clock.wall(), clock.now());
        let mut paths: BTreeSet<String> = self.paths().filter_map(first_segment).collect();
        paths.insert("/statusz".to_owned());
        let paths: Vec<String> = paths.into_iter().collect();
        self.mount("/statusz", move |request| {
            let status = Statusz {
                build,
                started,
                uptime: clock.now() - start,
                paths: paths.clone(),
            };
            std::future::ready(structured::respond(
                request.headers(),
                "Statusz",
                build.name,
                || status.fields(),
                || status.text(),
            ))
        })
    }
}

/// Returns `/healthz` of `/healthz/ping`; none for debugging paths.
fn first_segment(path: &str) -> Option<String> {
    let first = path.split('/').nth(1)?;
    (first != "debug").then(|| format!("/{first}"))
}

impl Statusz {
    fn fields(&self) -> Map<String, Value> {
        let fields = [
            ("startTime", json!(format!("{:.0}", self.started))),
            ("uptimeSeconds", json!(self.uptime.as_secs())),
            ("rustVersion", json!(self.build.rust_version)),
            ("binaryVersion", json!(self.build.version)),
            ("paths", json!(self.paths)),
        ];
        fields
            .map(|(key, value)| (key.to_owned(), value))
            .into_iter()
            .collect()
    }

    fn text(&self) -> String {
        let seconds = self.uptime.as_secs();
        format!(
            "{}\nStarted: {:.0}\nUp: {} hr {:02} min {:02} sec\nRust version: {}\nBinary version: {}\n\nPaths: {}\n",
            structured::title(self.build.name, "statusz"),
            self.started,
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            self.build.rust_version,
            self.build.version,
            self.paths.join(" "),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::build_info::tests::BUILD;
    use super::*;

    #[test]
    fn text_and_fields_show_the_same_status() {
        let status = Statusz {
            build: BUILD,
            started: Timestamp::UNIX_EPOCH,
            uptime: Duration::from_millis(3_723_900),
            paths: vec!["/".to_owned(), "/livez".to_owned()],
        };
        let text = status.text();
        assert!(
            text.ends_with(
                "\nStarted: 1970-01-01T00:00:00Z\nUp: 1 hr 02 min 03 sec\nRust version: rustc 1.95.0\n\
                 Binary version: v1.20.3-rc.1\n\nPaths: / /livez\n"
            ),
            "{text}"
        );
        assert_eq!(
            Value::Object(status.fields()),
            json!({
                "startTime": "1970-01-01T00:00:00Z",
                "uptimeSeconds": 3723,
                "rustVersion": "rustc 1.95.0",
                "binaryVersion": "v1.20.3-rc.1",
                "paths": ["/", "/livez"],
            })
        );
    }

    #[test]
    fn debugging_paths_are_not_listed() {
        for (path, listed) in [
            ("/", Some("/")),
            ("/healthz", Some("/healthz")),
            ("/healthz/", Some("/healthz")),
            ("/metrics/slis", Some("/metrics")),
            ("/debug/flags/v", None),
            ("/debug/", None),
        ] {
            assert_eq!(first_segment(path).as_deref(), listed, "{path}");
        }
    }
}
