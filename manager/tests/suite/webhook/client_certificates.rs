//! Client certificates of API servers.

use std::sync::Arc;

use rcgen::{CertifiedKey, KeyPair};
use rustls::ClientConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use steersman_manager::health::Checks;
use steersman_manager::metrics::Registry;
use steersman_manager::serve::Tls;
use steersman_manager::webhook::{Certificates, Source, WebhookError};
use tokio_rustls::TlsConnector;

use super::files::{Folder, folder};
use super::{HOST, connector, metrics};

fn verifying(folder: &Folder) -> Result<Certificates, WebhookError> {
    let source = Source::Folder(folder.0.clone());
    let certificates = Certificates::new(source, &metrics(&Registry::new("test")), &Checks::new());
    certificates
        .expect("a pair")
        .verifying_clients(&folder.0.join("clients.crt"))
}

/// Reports whether the server accepts a client with this certificate, or none.
async fn accepted(tls: &Tls, bundle: &str, shown: Option<&CertifiedKey<KeyPair>>) -> bool {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut connector = connector(bundle, None).expect("an authority");
    if let Some(shown) = shown {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(shown.signing_key.serialize_der()));
        let mut roots = rustls::RootCertStore::empty();
        for certificate in rustls::pki_types::pem::PemObject::pem_slice_iter(bundle.as_bytes()) {
            roots.add(certificate.expect("PEM")).expect("an authority");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![shown.cert.der().clone()], key)
            .expect("a pair");
        connector = TlsConnector::from(Arc::new(config));
    }
    let name = ServerName::try_from(HOST).expect("a name");
    let (accepted, _) = tokio::join!(tls.acceptor().accept(theirs), connector.connect(name, ours));
    accepted.is_ok()
}

fn client() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(vec!["kube-apiserver".to_owned()]).expect("a certificate")
}

#[tokio::test]
async fn client_without_certificate_of_the_authority_is_rejected() {
    let folder = folder("client-ca");
    let bundle = folder.pair();
    let (api_server, other) = (client(), client());
    folder.write("clients.crt", &api_server.cert.pem());
    let tls = verifying(&folder).expect("an authority").tls();
    assert!(accepted(&tls, &bundle, Some(&api_server)).await);
    assert!(!accepted(&tls, &bundle, Some(&other)).await);
    assert!(!accepted(&tls, &bundle, None).await);
}

#[test]
fn invalid_client_ca_file_is_a_startup_error() {
    let folder = folder("bad-client-ca");
    folder.pair();
    let expect = |error: Result<Certificates, WebhookError>, message: &str| match error {
        Ok(_) => panic!("accepted"),
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains(message), "{error}");
        }
    };
    expect(verifying(&folder), "cannot read");
    folder.write("clients.crt", "hunter2");
    expect(verifying(&folder), "invalid client CA file");
    let cut = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n";
    folder.write("clients.crt", cut);
    expect(verifying(&folder), "clients.crt");
    folder.write("clients.crt", &format!("{cut}-----END CERTIFICATE-----\n"));
    expect(verifying(&folder), "invalid client CA file");
}
