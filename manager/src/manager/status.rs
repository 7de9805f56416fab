//! The status of a manager.

use super::Manager;
use crate::status::{Leader, Sources, StatusReporter};

impl Manager {
    /// Starts a reporter of the election and the controllers added so far.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn status(&self, version: &'static str) -> StatusReporter {
        let states = self.states.clone();
        #[cfg(feature = "election")]
        let election = self.elector.as_ref().map(crate::election::Elector::status);
        let sources = Sources {
            manager: self.options.name,
            version,
            caches: self.caches.clone(),
            checks: self.checks.clone(),
            leader: Box::new(move || {
                #[cfg(feature = "election")]
                if let Some(election) = &election {
                    return Leader::of(election);
                }
                Leader::without_election()
            }),
            controllers: self.controllers.clone(),
            is_running: Box::new(move |name| states.of(name).is_running()),
        };
        StatusReporter::start(&self.env, sources)
    }
}
