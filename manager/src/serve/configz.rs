//! `/configz`: the effective configuration as JSON, by its API group.

use serde_json::{Value, json as value};

use super::endpoints::{Endpoints, json};

impl Endpoints {
    /// Adds `/configz`. `document` returns the effective configuration as a configuration file has it. It may change at run
    /// time, and must not contain credentials.
    #[must_use]
    pub fn with_configz(
        self,
        group: &'static str,
        document: impl Fn() -> Value + Send + Sync + 'static,
    ) -> Self {
        self.mount("/configz", move |_| {
            std::future::ready(json(&value!({ group: document() })))
        })
    }
}
