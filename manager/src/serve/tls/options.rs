//! Versions and cipher suites.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use super::{TlsError, provider};

/// The options of a TLS server.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// The lowest version that is accepted. Defaults to TLS 1.2.
    pub min_version: TlsVersion,
    /// The IANA names of the cipher suites, in the order of preference. Empty for the default. Without a suite of TLS 1.3
    /// all suites of TLS 1.3 stay enabled, as in Go, where they are not configurable.
    pub cipher_suites: Vec<String>,
    /// Whether to request a certificate from clients, without requiring one.
    pub request_client_certificates: bool,
}

/// A version of TLS.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    #[default]
    Tls12,
    Tls13,
}

impl TlsOptions {
    pub(super) fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        static SINCE_TLS12: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        match self.min_version {
            TlsVersion::Tls12 => &SINCE_TLS12,
            TlsVersion::Tls13 => &SINCE_TLS12[..1],
        }
    }

    /// Returns the provider with the selected cipher suites.
    pub(super) fn provider(&self) -> Result<Arc<CryptoProvider>, TlsError> {
        let all = provider();
        if self.cipher_suites.is_empty() {
            return Ok(all);
        }
        let mut selected = Vec::new();
        for name in &self.cipher_suites {
            let suite = { all.cipher_suites.iter() }.find(|suite| is_named(suite, name));
            selected.push(*suite.ok_or_else(|| TlsError::CipherSuite {
                name: name.clone(),
                known: all.cipher_suites.iter().map(iana_name).collect(),
            })?);
        }
        if !selected.iter().any(|suite| suite.tls13().is_some()) {
            let tls13 = { all.cipher_suites.iter() }.filter(|suite| suite.tls13().is_some());
            selected.extend(tls13);
        }
        Ok(Arc::new(CryptoProvider {
            cipher_suites: selected,
            ..(*all).clone()
        }))
    }
}

/// rustls marks the names of TLS 1.3 suites.
fn iana_name(suite: &SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    name.strip_prefix("TLS13_")
        .map_or_else(|| name.clone(), |rest| format!("TLS_{rest}"))
}

/// Go has a second name of the `ChaCha20` suites, without the hash.
fn is_named(suite: &SupportedCipherSuite, name: &str) -> bool {
    let known = iana_name(suite);
    known == name || (known.contains("CHACHA20") && known.strip_suffix("_SHA256") == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(selected: &[&str]) -> Result<Vec<String>, TlsError> {
        let options = TlsOptions {
            cipher_suites: selected.iter().map(|&it| it.to_owned()).collect(),
            ..TlsOptions::default()
        };
        let provider = options.provider()?;
        Ok(provider.cipher_suites.iter().map(iana_name).collect())
    }

    #[test]
    fn selected_suites_of_tls12_leave_tls13_enabled() {
        let suites = names(&[
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        ]);
        let suites = suites.expect("known names");
        assert_eq!(
            suites[..2],
            [
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
            ]
        );
        assert_eq!(suites.len(), 5);
        let suites = names(&["TLS_AES_128_GCM_SHA256"]).expect("a known name");
        assert_eq!(suites, ["TLS_AES_128_GCM_SHA256"]);
    }

    #[test]
    fn unknown_suite_is_rejected_with_the_known_ones() {
        let error = names(&["TLS_RSA_WITH_RC4_128_SHA"]).expect_err("an error");
        let text = error.to_string();
        assert!(text.starts_with("unknown cipher suite \"TLS_RSA_WITH_RC4_128_SHA\" in cipher_suites"));
        for known in names(&[]).expect("all") {
            assert!(text.contains(&known), "{text}");
        }
    }
}
