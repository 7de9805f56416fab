//! The certificates of a server: a default one, and others by the server name that a client sends.
//!
//! Files are polled for changes. An unreadable file, or a key that does not match its certificate, is logged once; the
//! certificate in use stays, and so do all connections.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::key_pair;
use super::{AnyCertificate, Tls, TlsError, TlsOptions, provider};
use crate::env::Env;
use crate::serve::certificate_metrics::Usage;
use crate::serve::{CertificateMetrics, files};

/// The PEM files of a certificate chain and its private key.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub private_key: PathBuf,
}

/// A certificate for some server names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniCertificate {
    /// The files of the certificate.
    pub files: CertificateFiles,
    /// Domain names, with a leading `*.` for one label. Empty for the names of the certificate.
    pub names: Vec<String>,
}

/// The certificates of a server.
#[derive(Clone, Debug)]
pub struct ServingCertificates(Arc<Resolver>);

#[derive(Debug)]
struct Resolver {
    default: Arc<Slot>,
    by_name: Vec<Arc<Slot>>,
}

/// One certificate, which a change of its files replaces.
#[derive(Debug)]
struct Slot {
    files: Option<CertificateFiles>,
    /// The configured names.
    names: Vec<String>,
    current: Mutex<Current>,
}

#[derive(Clone, Debug)]
struct Current {
    pair: Arc<CertifiedKey>,
    /// The names of the certificate.
    names: Arc<[String]>,
}

/// The precedence of a name: a whole name wins over a wildcard, a configured one over one of the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Precedence {
    whole: bool,
    configured: bool,
}

impl ServingCertificates {
    /// Generates a self-signed certificate for `localhost`, the loopback addresses and `hosts`, kept in memory only.
    /// Clients cannot verify it, but the connection is encrypted.
    pub fn self_signed(hosts: impl IntoIterator<Item = String>) -> Result<Self, TlsError> {
        Ok(Self::new(Slot {
            current: Mutex::new(Current::new(key_pair::self_signed(hosts)?)),
            files: None,
            names: Vec::new(),
        }))
    }

    /// Loads the default certificate.
    pub fn from_files(files: CertificateFiles) -> Result<Self, TlsError> {
        Ok(Self::new(Slot::load(files, Vec::new())?))
    }

    fn new(default: Slot) -> Self {
        Self(Arc::new(Resolver {
            default: Arc::new(default),
            by_name: Vec::new(),
        }))
    }

    /// Adds a certificate for some server names.
    pub fn with_sni(self, certificate: SniCertificate) -> Result<Self, TlsError> {
        let mut by_name = self.0.by_name.clone();
        let SniCertificate { files, names } = certificate;
        by_name.push(Arc::new(Slot::load(files, names)?));
        Ok(Self(Arc::new(Resolver {
            default: self.0.default.clone(),
            by_name,
        })))
    }

    /// Returns a TLS configuration that always serves the current certificates.
    pub fn tls(&self, options: &TlsOptions) -> Result<Tls, TlsError> {
        let algorithms = provider().signature_verification_algorithms;
        let verifier = options.request_client_certificates;
        let verifier = verifier.then(|| Arc::new(AnyCertificate(algorithms)) as _);
        Tls::build(self.0.clone(), options, verifier)
    }

    /// Starts reloading the files when they change.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn watch(&self, env: &Env, metrics: &CertificateMetrics) {
        self.0.observe(metrics);
        for slot in self.0.by_name.iter().chain([&self.0.default]) {
            if let Some(files) = slot.files.clone() {
                let (slot, clock, metrics) = (slot.clone(), env.clock.clone(), metrics.clone());
                let all = self.0.clone();
                env.tasks.spawn(async move {
                    let mut problem = None;
                    let paths = [files.certificate.clone(), files.private_key.clone()];
                    let on_read = |read: Result<[Vec<u8>; 2], String>| {
                        metrics.total.inc();
                        let loaded = read.and_then(|[certificate, key]| {
                            let pair = key_pair::parse(&files, &certificate, &key);
                            pair.map_err(|error| error.to_string())
                        });
                        slot.reload(&files, loaded, &metrics, &mut problem);
                        all.observe(&metrics);
                    };
                    files::poll(&clock, paths, on_read).await
                });
            }
        }
    }
}

impl Slot {
    fn load(files: CertificateFiles, names: Vec<String>) -> Result<Self, TlsError> {
        Ok(Self {
            current: Mutex::new(Current::new(key_pair::load(&files)?)),
            files: Some(files),
            names,
        })
    }

    fn reload(
        &self,
        files: &CertificateFiles,
        loaded: Result<CertifiedKey, String>,
        metrics: &CertificateMetrics,
        problem: &mut Option<String>,
    ) {
        let certificate = files.certificate.display();
        match loaded {
            Ok(pair) => {
                *problem = None;
                let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
                if current.pair.cert != pair.cert {
                    *current = Current::new(pair);
                    tracing::info!(%certificate, "Reloaded serving certificate");
                }
            }
            Err(reason) => {
                metrics.errors.inc();
                if problem.as_ref() != Some(&reason) {
                    tracing::warn!(%certificate, reason, "Failed to reload serving certificate, using the previous one");
                    *problem = Some(reason);
                }
            }
        }
    }

    fn current(&self) -> Current {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    /// Returns the precedence of the best name that matches `host`.
    fn precedence(&self, host: &str) -> Option<Precedence> {
        let configured = !self.names.is_empty();
        let current = self.current();
        let names = if configured {
            &self.names[..]
        } else {
            &*current.names
        };
        let whole = names.iter().filter_map(|name| matches(name, host)).max()?;
        Some(Precedence { whole, configured })
    }
}

impl Current {
    fn new(pair: CertifiedKey) -> Self {
        Self {
            names: names(&pair).into(),
            pair: Arc::new(pair),
        }
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.select(hello.server_name()).current().pair)
    }
}

impl Resolver {
    fn observe(&self, metrics: &CertificateMetrics) {
        let slots = self.by_name.iter().chain([&self.default]);
        let pairs: Vec<_> = slots.map(|slot| slot.current().pair).collect();
        metrics.observe(Usage::Serving, pairs.iter().flat_map(|pair| &pair.cert));
    }

    fn select(&self, host: Option<&str>) -> &Slot {
        let Some(host) = host else { return &self.default };
        let matching = { self.by_name.iter() }.filter_map(|slot| Some((slot.precedence(host)?, slot)));
        // Of equal ones the first.
        let best = matching.rev().max_by_key(|(precedence, _)| *precedence);
        best.map_or(&self.default, |(_, slot)| slot)
    }
}

/// Reports whether a name matches, and whether it is a whole name; none if it does not match.
fn matches(name: &str, host: &str) -> Option<bool> {
    if name.eq_ignore_ascii_case(host) {
        return Some(true);
    }
    let (pattern, (_, parent)) = (name.strip_prefix("*.")?, host.split_once('.')?);
    pattern.eq_ignore_ascii_case(parent).then_some(false)
}

/// Returns the DNS names of a certificate; its common name without any.
fn names(pair: &CertifiedKey) -> Vec<String> {
    let Some((_, certificate)) = { pair.cert.first() }.and_then(|it| X509Certificate::from_der(it).ok())
    else {
        return Vec::new();
    };
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let dns = alternative.iter().flat_map(|it| &it.value.general_names);
    let dns: Vec<String> = dns
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    if !dns.is_empty() {
        return dns;
    }
    let common = certificate.subject().iter_common_name();
    common
        .filter_map(|name| name.as_str().ok().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests;
