//! The certificates of a server: a default one, and others by the server name that a client sends.
//!
//! A [`CertificateWatcher`] reloads each one from its files.

use std::borrow::Cow;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::{
    AnyCertificate, CertificateFiles, CertificateWatcher, Tls, TlsError, TlsOptions, key_pair, provider,
};
use crate::env::Env;
use crate::serve::CertificateMetrics;
use crate::serve::certificate_metrics::Usage;

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

/// One certificate and its names.
#[derive(Debug)]
struct Slot {
    certificate: Certificate,
    /// The configured names.
    names: Vec<String>,
}

#[derive(Debug)]
enum Certificate {
    SelfSigned(Arc<CertifiedKey>),
    Files(Arc<CertificateWatcher>),
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
            certificate: Certificate::SelfSigned(Arc::new(key_pair::self_signed(hosts)?)),
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
            if let Certificate::Files(watcher) = &slot.certificate {
                let (all, of_change) = (self.0.clone(), metrics.clone());
                watcher.watch(env, metrics, move |_| all.observe(&of_change));
            }
        }
    }
}

impl Slot {
    fn load(files: CertificateFiles, names: Vec<String>) -> Result<Self, TlsError> {
        Ok(Self {
            certificate: Certificate::Files(Arc::new(CertificateWatcher::new(files)?)),
            names,
        })
    }

    fn current(&self) -> Arc<CertifiedKey> {
        match &self.certificate {
            Certificate::SelfSigned(pair) => pair.clone(),
            Certificate::Files(watcher) => watcher.current(),
        }
    }

    /// Returns the precedence of the best name that matches `host`.
    fn precedence(&self, host: &str) -> Option<Precedence> {
        let configured = !self.names.is_empty();
        let names = if configured {
            Cow::Borrowed(&self.names)
        } else {
            Cow::Owned(names(&self.current()))
        };
        let whole = names.iter().filter_map(|name| matches(name, host)).max()?;
        Some(Precedence { whole, configured })
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.select(hello.server_name()).current())
    }
}

impl Resolver {
    fn observe(&self, metrics: &CertificateMetrics) {
        let slots = self.by_name.iter().chain([&self.default]);
        let pairs: Vec<_> = slots.map(|slot| slot.current()).collect();
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
