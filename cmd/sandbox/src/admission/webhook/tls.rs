//! TLS verification of webhooks by the CA bundle of their configuration.
//!
//! The server accepts a certificate that the bundle itself contains, even if it is a CA certificate. Self-signed webhooks
//! rely on that.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Returns a TLS configuration that trusts only the certificates of a bundle (PEM in base64).
pub(crate) fn client_config(bundle: &str) -> Result<Arc<ClientConfig>, String> {
    let unusable = || "unable to load root certificates: unable to parse bytes as PEM block".to_owned();
    let pem = STANDARD.decode(bundle).map_err(|_| unusable())?;
    let mut roots = RootCertStore::empty();
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|_| unusable())?;
        roots.add(certificate.clone()).map_err(|_| unusable())?;
        certificates.push(certificate);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = if certificates.is_empty() {
        if !pem.is_empty() {
            return Err(unusable());
        }
        config.with_root_certificates(roots).with_no_client_auth()
    } else {
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let signed = signed.build().map_err(|error| error.to_string())?;
        config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Bundle { certificates, signed }))
            .with_no_client_auth()
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Bundle {
    certificates: Vec<CertificateDer<'static>>,
    /// Verifies certificates that the bundle has signed.
    signed: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Bundle {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.signed
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The only complaint is the CA flag; validity was verified before.
            Err(Error::InvalidCertificate(CertificateError::Other(why)))
                if why.to_string() == "CaUsedAsEndEntity" && self.certificates.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}
