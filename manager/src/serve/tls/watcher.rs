//! The certificate watcher: a certificate from PEM files, reloaded when they change.
//!
//! Files are polled: see `files`. An unreadable file, or a key that does not match its certificate, is logged once. The
//! certificate in use stays, and so do all connections. The two files are not written atomically, so they may not match for
//! a moment; the next poll reads both again.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::{TlsError, key_pair};
use crate::env::Env;
use crate::serve::{CertificateMetrics, files};

/// The PEM files of a certificate chain and its private key.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub private_key: PathBuf,
}

/// The certificate watcher: serves the certificate of PEM files, and reloads it when they change.
///
/// [`ServingCertificates`](super::ServingCertificates) and [`webhook::Certificates`](crate::webhook::Certificates) use it.
/// For a server of your own, it is the certificate resolver of a [`Tls`](super::Tls):
///
/// ```no_run
/// # fn example(env: &steersman_manager::env::Env, registry: &steersman_manager::metrics::Registry) -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use steersman_manager::serve::{CertificateFiles, CertificateMetrics, CertificateWatcher, Tls};
///
/// let watcher = Arc::new(CertificateWatcher::new(CertificateFiles {
///     certificate: "/certs/tls.crt".into(),
///     private_key: "/certs/tls.key".into(),
/// })?);
/// watcher.watch(env, &CertificateMetrics::register(registry)?, |_| {});
/// let tls = Tls::resolving(watcher, None)?;
/// # drop(tls);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CertificateWatcher {
    files: CertificateFiles,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    current: Arc<CertifiedKey>,
    problem: Option<String>,
}

impl CertificateWatcher {
    /// Loads the files.
    pub fn new(files: CertificateFiles) -> Result<Self, TlsError> {
        let current = Arc::new(key_pair::load(&files)?);
        let problem = None;
        Ok(Self {
            files,
            state: Mutex::new(State { current, problem }),
        })
    }

    /// Starts polling the files. Calls `on_change` after a new certificate was loaded.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn watch(
        self: &Arc<Self>,
        env: &Env,
        metrics: &CertificateMetrics,
        on_change: impl Fn(&Arc<CertifiedKey>) + Send + Sync + 'static,
    ) {
        let (watcher, clock, metrics) = (self.clone(), env.clock.clone(), metrics.clone());
        env.tasks.spawn(async move {
            let CertificateFiles {
                certificate,
                private_key,
            } = watcher.files.clone();
            let on_read = |read: Result<[Vec<u8>; 2], String>| {
                metrics.total.inc();
                let loaded = read.and_then(|[certificate, key]| {
                    let pair = key_pair::parse_files(&watcher.files, &certificate, &key);
                    pair.map_err(|error| error.to_string())
                });
                match loaded {
                    Ok(pair) => {
                        if let Some(changed) = watcher.set(pair) {
                            on_change(&changed);
                        }
                    }
                    Err(problem) => {
                        metrics.errors.inc();
                        watcher.set_problem(problem);
                    }
                }
            };
            files::poll(&clock, [certificate, private_key], on_read).await
        });
    }

    /// Returns the certificate in use.
    #[must_use]
    pub fn current(&self) -> Arc<CertifiedKey> {
        self.state().current.clone()
    }

    /// Returns the reason why the files could not be reloaded; none if the certificate in use is that of the files.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.state().problem.clone()
    }

    /// Returns the certificate if it is another one.
    fn set(&self, pair: CertifiedKey) -> Option<Arc<CertifiedKey>> {
        let mut state = self.state();
        state.problem = None;
        if state.current.cert == pair.cert {
            return None;
        }
        state.current = Arc::new(pair);
        tracing::info!(certificate = %self.files.certificate.display(), "Reloaded serving certificate");
        Some(state.current.clone())
    }

    fn set_problem(&self, reason: String) {
        let mut state = self.state();
        if state.problem.as_ref() != Some(&reason) {
            let certificate = self.files.certificate.display();
            tracing::warn!(%certificate, reason, "Failed to reload serving certificate, using the previous one");
            state.problem = Some(reason);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for CertificateWatcher {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}
