//! The certificate in use: read at every TLS handshake, replaced without closing connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::health::Health;
use crate::serve::CertificateMetrics;
use crate::serve::certificate_metrics::Usage;

#[derive(Debug)]
pub(crate) struct ServingCertificate {
    state: Mutex<State>,
    metrics: CertificateMetrics,
}

#[derive(Debug, Default)]
struct State {
    pair: Option<Arc<CertifiedKey>>,
    /// The certificate has become invalid. It is still served: without one no handshake can succeed.
    expired: bool,
    /// The last error of loading a certificate.
    problem: Option<String>,
}

impl ServingCertificate {
    pub(crate) fn new(metrics: CertificateMetrics) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            metrics,
        })
    }

    /// Serves a valid certificate from now on. Returns whether it is a new one.
    pub(crate) fn set(&self, pair: &Arc<CertifiedKey>) -> bool {
        self.metrics.total.inc();
        let mut state = self.state();
        (state.problem, state.expired) = (None, false);
        let same = state.pair.as_ref().is_some_and(|it| it.cert == pair.cert);
        if !same {
            state.pair = Some(pair.clone());
            self.metrics.observe(Usage::Webhook, &pair.cert);
        }
        !same
    }

    /// Records that an invalid certificate was loaded: `pair`, if it could be parsed. The current one stays. Returns whether
    /// the problem is new.
    pub(crate) fn reject(&self, pair: Option<&Arc<CertifiedKey>>, problem: &str) -> bool {
        self.metrics.total.inc();
        self.metrics.errors.inc();
        let mut state = self.state();
        state.expired = match (&state.pair, pair) {
            (Some(served), Some(read)) => served.cert == read.cert,
            _ => false,
        };
        state.set_problem(problem)
    }

    /// Records that the source cannot be read, unless a certificate is loaded already. Returns whether the problem is new.
    pub(crate) fn set_unavailable(&self, problem: &str) -> bool {
        let mut state = self.state();
        state.pair.is_none() && state.set_problem(problem)
    }

    /// Records that the source has no certificate. The current one stays. Returns whether the problem is new and a certificate
    /// is in use.
    pub(crate) fn set_missing(&self, problem: &str) -> bool {
        let mut state = self.state();
        let is_new = state.set_problem(problem);
        is_new && state.pair.is_some()
    }

    pub(crate) fn health(&self) -> Health {
        let state = self.state();
        match (&state.pair, &state.problem) {
            (Some(_), Some(problem)) if state.expired => {
                Health::Failed(format!("invalid certificate: {problem}"))
            }
            (Some(_), Some(problem)) => Health::Note(format!("serving the previous certificate: {problem}")),
            (Some(_), None) => Health::Ok,
            (None, Some(problem)) => Health::Failed(format!("no certificate: {problem}")),
            (None, None) => Health::Failed("no certificate loaded yet".to_owned()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Records a problem. Returns whether it differs from the previous one.
    fn set_problem(&mut self, problem: &str) -> bool {
        let same = self.problem.as_deref() == Some(problem);
        self.problem = Some(problem.to_owned());
        !same
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.state().pair.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::metrics::Registry;

    use crate::serve::certificate_metrics::tests::{expiring, year};
    use crate::webhook::certificates::key_pair::KeyPair;

    #[test]
    fn expiration_is_that_of_the_served_certificate() {
        let registry = Registry::new("test");
        let metrics = CertificateMetrics::register(&registry).expect("registered");
        let serving = ServingCertificate::new(metrics);
        serving.set_unavailable("no Secret");
        assert_eq!(year(&registry, "webhook"), None, "without a certificate");
        let pair = |year| {
            let (certificate, key) = expiring(&["hooks.system.svc"], year);
            KeyPair::read(certificate.as_bytes(), key.as_bytes()).expect("a pair")
        };
        serving.set(pair(2041).certified());
        assert_eq!(year(&registry, "webhook"), Some(2041));
        serving.reject(Some(pair(2020).certified()), "expired");
        assert_eq!(year(&registry, "webhook"), Some(2041), "not served");
        serving.set(pair(2040).certified());
        assert_eq!(year(&registry, "webhook"), Some(2040));
    }
}
