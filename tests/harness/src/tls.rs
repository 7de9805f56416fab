//! TLS handshakes with a server, by a client that offers one version and some cipher suites.

use std::{io, net::SocketAddr, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    version,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::time;

/// The version that a client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// A client without a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// The only version.
    pub version: Version,
    /// The cipher suites, as rustls names them. Empty for all.
    pub cipher_suites: &'a [&'a str],
    /// The only trusted authority, in PEM.
    pub ca: &'a str,
    /// The name that the certificate must contain. It is sent to the server unless it is an IP address.
    pub server_name: &'a str,
}

impl Client<'_> {
    /// Completes a handshake, verifies the certificate, and returns the cipher suite.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<String> {
        let name = ServerName::try_from(self.server_name.to_owned()).expect("a name or an address");
        let connector = TlsConnector::from(Arc::new(self.config()));
        let handshake = async {
            let stream = connector
                .connect(name, TcpStream::connect(address).await?)
                .await?;
            let (_, connection) = stream.get_ref();
            let suite = connection.negotiated_cipher_suite().expect("a cipher suite");
            Ok(format!("{:?}", suite.suite()))
        };
        let done = time::within(time::ANSWER, handshake).await;
        done.unwrap_or_else(|| panic!("no answer within {:?}", time::ANSWER))
    }

    fn config(&self) -> ClientConfig {
        let mut provider: CryptoProvider = ring::default_provider();
        if !self.cipher_suites.is_empty() {
            let offered = |name: &str| self.cipher_suites.contains(&name);
            provider
                .cipher_suites
                .retain(|it| offered(&format!("{:?}", it.suite())));
        }
        let version = match self.version {
            Version::Tls12 => &version::TLS12,
            Version::Tls13 => &version::TLS13,
        };
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.ca.as_bytes()).expect("PEM");
        roots.add(ca).expect("a certificate");
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version])
            .expect("a cipher suite of the version")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}
