//! Metrics of certificates: reads, with the names of controller-runtime's certwatcher, and the end of the validity.

use crate::metrics::Registry;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::config::AuthInfo;
use prometheus::{IntCounter, IntGaugeVec, Opts};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The metrics of all certificates of a process. Clones share them.
#[derive(Clone, Debug)]
pub struct CertificateMetrics {
    pub(crate) total: IntCounter,
    pub(crate) errors: IntCounter,
    expiration: IntGaugeVec,
}

/// The label of the end of the validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// The HTTPS port.
    Serving,
    #[cfg(feature = "webhook")]
    Webhook,
    /// Requests to the API server.
    Client,
}

impl CertificateMetrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(format!("certwatcher_{name}"), format!("[ALPHA] {help}"))?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let expiration = IntGaugeVec::new(
            Opts::new(
                registry.prefixed("certificate_expiration_timestamp_seconds"),
                "[ALPHA] End of the validity of the certificate in use, in seconds since the epoch. The earliest one if there \
                 are several.",
            ),
            &["usage"],
        )?;
        registry.register(Box::new(expiration.clone()))?;
        Ok(Self {
            total: counter("read_certificate_total", "Total number of certificate reads")?,
            errors: counter(
                "read_certificate_errors_total",
                "Total number of certificate read errors",
            )?,
            expiration,
        })
    }

    /// Records the client certificate of a kubeconfig, if it has one.
    pub fn observe_client(&self, auth: &AuthInfo) {
        let pem = match (&auth.client_certificate_data, &auth.client_certificate) {
            (Some(data), _) => BASE64_STANDARD.decode(data).ok(),
            (None, Some(path)) => std::fs::read(path).ok(),
            (None, None) => None,
        };
        // An invalid certificate is an error of the connection.
        let chain = CertificateDer::pem_slice_iter(pem.as_deref().unwrap_or_default());
        let chain: Vec<_> = chain.filter_map(Result::ok).collect();
        self.observe(Usage::Client, &chain);
    }

    /// Records the certificates in use, including those of CAs that are sent with them.
    pub(crate) fn observe<'a>(
        &self,
        usage: Usage,
        certificates: impl IntoIterator<Item = &'a CertificateDer<'a>>,
    ) {
        let ends = certificates.into_iter().filter_map(|it| {
            let (_, certificate) = X509Certificate::from_der(it).ok()?;
            Some(certificate.validity().not_after.timestamp())
        });
        if let Some(earliest) = ends.min() {
            let usage = match usage {
                Usage::Serving => "serving",
                #[cfg(feature = "webhook")]
                Usage::Webhook => "webhook",
                Usage::Client => "client",
            };
            self.expiration.with_label_values(&[usage]).set(earliest);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use rcgen::{CertificateParams, KeyPair};

    /// Returns a certificate that is valid until January 1 of the year, and its private key, in PEM form.
    pub(crate) fn expiring(names: &[&str], year: i32) -> (String, String) {
        let names: Vec<String> = names.iter().map(|&it| it.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    /// Returns the year of the end of the validity; none without the series.
    pub(crate) fn year(registry: &Registry, usage: &str) -> Option<i16> {
        let families = registry.gather();
        let is_named = |name: &str| name == registry.prefixed("certificate_expiration_timestamp_seconds");
        let family = families.iter().find(|it| is_named(it.name()))?;
        let is_usage = |it: &&prometheus::proto::Metric| it.get_label()[0].value() == usage;
        let series = family.get_metric().iter().find(is_usage)?;
        #[expect(clippy::cast_possible_truncation, reason = "a number of seconds")]
        let end = jiff::Timestamp::from_second(series.get_gauge().get_value() as i64).expect("a time");
        let end = end.to_zoned(jiff::tz::TimeZone::UTC);
        assert_eq!((end.month(), end.day(), end.hour()), (1, 1, 0));
        Some(end.year())
    }

    #[test]
    fn client_certificate_of_the_kubeconfig_is_recorded() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let (in_file, _) = expiring(&["a"], 2041);
        let (inline, key) = expiring(&["b"], 2042);
        let (authority, _) = expiring(&["c"], 2040);
        std::fs::write(file.path(), &in_file).expect("written");
        let path = file.path().to_str().map(str::to_owned);
        let data = |pem: String| Some(BASE64_STANDARD.encode(pem));
        for (certificate, data, expected) in [
            (None, None, None),
            (path.clone(), None, Some(2041)),
            (path, data(inline.clone()), Some(2042)),
            (None, data(format!("{inline}{authority}")), Some(2040)),
            (None, data(key), None),
            (Some("/nonexistent".to_owned()), None, None),
        ] {
            let registry = Registry::new("test");
            let metrics = CertificateMetrics::register(&registry).expect("registered");
            let auth = AuthInfo {
                client_certificate: certificate,
                client_certificate_data: data,
                ..AuthInfo::default()
            };
            metrics.observe_client(&auth);
            assert_eq!(year(&registry, "client"), expected, "{auth:?}");
        }
    }
}
