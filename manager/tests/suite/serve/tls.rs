//! Certificates and startup errors.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use steersman_manager::serve::{Server, Tls, TlsError};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{connector, fixture, start};

/// A directory for one test, unique per process and removed on drop.
#[must_use]
struct Folder(PathBuf);

fn folder(test: &str) -> Folder {
    let own = format!("serve-{test}-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(own);
    fs::create_dir_all(&folder).expect("a folder");
    Folder(folder)
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pair(folder: &Path, name: &str) -> (PathBuf, PathBuf, CertificateDer<'static>) {
    let issued = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate");
    let (certificate, key) = (
        folder.join(format!("{name}.crt")),
        folder.join(format!("{name}.key")),
    );
    fs::write(&certificate, issued.cert.pem()).expect("a file");
    fs::write(&key, issued.signing_key.serialize_pem()).expect("a file");
    (certificate, key, issued.cert.der().clone())
}

fn load_error(certificate: &Path, key: &Path) -> String {
    let error: TlsError = Tls::from_files(certificate, key).err().expect("an error");
    error.to_string()
}

/// Reports whether a client that trusts only `certificate` accepts the server as `host`.
async fn verifies(address: std::net::SocketAddr, certificate: CertificateDer<'static>, host: &str) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).expect("a name");
    let socket = TcpStream::connect(address).await.expect("a connection");
    TlsConnector::from(Arc::new(config))
        .connect(name, socket)
        .await
        .is_ok()
}

#[tokio::test]
async fn self_signed_certificate_is_valid_for_localhost_and_given_names() {
    let names = ["10.1.2.3", "steersman.example", "0.0.0.0"].map(str::to_owned);
    let tls = Tls::self_signed(names).expect("a certificate");
    let fixture = start(tls, |endpoints| endpoints).await;
    let address = fixture.address;
    let socket = TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::try_from("anything").expect("a name");
    let stream = connector(&[]).connect(name, socket).await.expect("a handshake");
    let shown = stream.get_ref().1.peer_certificates().expect("a certificate")[0]
        .clone()
        .into_owned();
    for host in ["localhost", "127.0.0.1", "::1", "10.1.2.3", "steersman.example"] {
        assert!(verifies(address, shown.clone(), host).await, "{host}");
    }
    for host in ["10.1.2.4", "example", "0.0.0.0"] {
        assert!(!verifies(address, shown.clone(), host).await, "{host}");
    }
}

#[tokio::test]
async fn certificate_from_files_is_served() {
    let folder = folder("served");
    let (certificate, key, shown) = pair(&folder, "manager.example");
    let tls = Tls::from_files(&certificate, &key).expect("a pair");
    let fixture = start(tls, |endpoints| endpoints).await;
    let address = fixture.address;
    assert!(verifies(address, shown.clone(), "manager.example").await);
    assert!(!verifies(address, shown, "localhost").await);
}

#[test]
fn unreadable_file_is_reported() {
    let folder = folder("unreadable");
    let (certificate, key, _) = pair(&folder, "a.example");
    let missing = folder.join("missing.pem");
    let text = load_error(&missing, &key);
    assert!(
        text.starts_with(&format!("cannot read {}: No such file", missing.display())),
        "{text}"
    );
    let text = load_error(&certificate, &folder);
    assert!(
        text.starts_with(&format!("cannot read {}: Is a directory", folder.display())),
        "{text}"
    );
}

#[test]
fn file_without_expected_pem_is_reported() {
    let folder = folder("not-pem");
    let (certificate, key, _) = pair(&folder, "a.example");
    let (empty, noise) = (folder.join("empty"), folder.join("noise"));
    fs::write(&empty, "").expect("a file");
    fs::write(&noise, [0xff, 0x30, 0x82, 0x0a]).expect("a file");
    let broken = folder.join("broken");
    fs::write(
        &broken,
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    )
    .expect("a file");
    for wrong in [&empty, &noise, &key, &broken] {
        let text = load_error(wrong, &key);
        assert!(
            text.starts_with(&format!("{} contains no certificate: ", wrong.display())),
            "{text}"
        );
    }
    for wrong in [&empty, &noise, &certificate] {
        let text = load_error(&certificate, wrong);
        let start = format!(
            "{} contains no private key without a passphrase: ",
            wrong.display()
        );
        assert!(text.starts_with(&start), "{text}");
    }
}

#[test]
fn mismatched_private_key_is_rejected() {
    let folder = folder("mismatch");
    let (certificate, _, _) = pair(&folder, "a.example");
    let (_, other, _) = pair(&folder, "b.example");
    assert_eq!(
        load_error(&certificate, &other),
        format!(
            "the private key in {} does not match the certificate in {}",
            other.display(),
            certificate.display()
        )
    );
}

#[test]
fn malformed_certificate_is_rejected() {
    let folder = folder("rejected");
    let (_, key, _) = pair(&folder, "a.example");
    let nonsense = folder.join("nonsense");
    fs::write(
        &nonsense,
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .expect("a file");
    let text = load_error(&nonsense, &key);
    let start = format!("invalid certificate in {}", nonsense.display());
    assert!(text.starts_with(&start), "{text}");
}

#[tokio::test]
async fn port_in_use_is_reported() {
    let fixture = fixture().await;
    let tls = Tls::self_signed([]).expect("a certificate");
    let error = Server::bind(fixture.address, tls).await.err().expect("an error");
    let text = error.to_string();
    let start = format!("cannot listen on {}: Address already in use", fixture.address);
    assert!(text.starts_with(&start), "{text}");
}
