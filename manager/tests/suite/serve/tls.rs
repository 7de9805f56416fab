//! Certificates, and what is said when they, or the port, are no good.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coxswain_manager::serve::{Server, Tls, TlsError};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{bed, connector, start};

/// A folder for the files of one test, also if the suite runs twice at a time; it goes with the test.
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

/// Writes a certificate for `name`, and its key.
fn pair(folder: &Path, name: &str) -> (PathBuf, PathBuf, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate");
    let (certificate, key) = (
        folder.join(format!("{name}.crt")),
        folder.join(format!("{name}.key")),
    );
    fs::write(&certificate, made.cert.pem()).expect("it is written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("it is written");
    (certificate, key, made.cert.der().clone())
}

fn refused(certificate: &Path, key: &Path) -> String {
    let error: TlsError = Tls::from_files(certificate, key).err().expect("it is refused");
    error.to_string()
}

/// Whether a client that trusts `certificate` alone, and nobody else, gets through to `host`.
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
async fn a_certificate_of_its_own_is_for_this_machine_and_the_names_given() {
    let names = ["10.1.2.3", "coxswain.example", "0.0.0.0"].map(str::to_owned);
    let tls = Tls::self_signed(names).expect("a certificate");
    let bed = start(tls, |endpoints| endpoints).await;
    let address = bed.address;
    let socket = TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::try_from("anything").expect("a name");
    let stream = connector(&[]).connect(name, socket).await.expect("a handshake");
    let shown = stream.get_ref().1.peer_certificates().expect("a certificate")[0]
        .clone()
        .into_owned();
    for host in ["localhost", "127.0.0.1", "::1", "10.1.2.3", "coxswain.example"] {
        assert!(verifies(address, shown.clone(), host).await, "{host}");
    }
    for host in ["10.1.2.4", "example", "0.0.0.0"] {
        assert!(!verifies(address, shown.clone(), host).await, "{host}");
    }
}

#[tokio::test]
async fn a_certificate_from_files_is_served() {
    let folder = folder("served");
    let (certificate, key, shown) = pair(&folder, "manager.example");
    let tls = Tls::from_files(&certificate, &key).expect("a pair");
    let bed = start(tls, |endpoints| endpoints).await;
    let address = bed.address;
    assert!(verifies(address, shown.clone(), "manager.example").await);
    assert!(!verifies(address, shown, "localhost").await);
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_its_flag() {
    let folder = folder("unreadable");
    let (certificate, key, _) = pair(&folder, "a.example");
    let missing = folder.join("missing.pem");
    let text = refused(&missing, &key);
    assert!(
        text.starts_with(&format!("cannot read {}: No such file", missing.display())),
        "{text}"
    );
    assert!(
        text.ends_with("; --tls-cert-file must name a file that this process may read"),
        "{text}"
    );
    let text = refused(&certificate, &folder);
    assert!(
        text.starts_with(&format!("cannot read {}: Is a directory", folder.display())),
        "{text}"
    );
    assert!(text.contains("--tls-private-key-file"), "{text}");
}

#[test]
fn a_file_that_holds_something_else_is_named_with_its_flag() {
    let folder = folder("not-pem");
    let (certificate, key, _) = pair(&folder, "a.example");
    let (empty, noise) = (folder.join("empty"), folder.join("noise"));
    fs::write(&empty, "").expect("it is written");
    fs::write(&noise, [0xff, 0x30, 0x82, 0x0a]).expect("it is written");
    let broken = folder.join("broken");
    fs::write(
        &broken,
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    )
    .expect("it is written");
    for wrong in [&empty, &noise, &key, &broken] {
        let text = refused(wrong, &key);
        assert!(
            text.starts_with(&format!("{} holds no certificate: ", wrong.display())),
            "{text}"
        );
        assert!(
            text.ends_with("; --tls-cert-file must name one in PEM form"),
            "{text}"
        );
    }
    for wrong in [&empty, &noise, &certificate] {
        let text = refused(&certificate, wrong);
        let start = format!("{} holds no private key without a passphrase: ", wrong.display());
        assert!(text.starts_with(&start), "{text}");
        assert!(
            text.ends_with("; --tls-private-key-file must name one in PEM form"),
            "{text}"
        );
    }
}

#[test]
fn a_key_of_another_certificate_is_said_to_be_one() {
    let folder = folder("mismatch");
    let (certificate, _, _) = pair(&folder, "a.example");
    let (_, other, _) = pair(&folder, "b.example");
    assert_eq!(
        refused(&certificate, &other),
        format!(
            "the key in {} does not belong to the certificate in {}; give --tls-private-key-file the key that this \
             certificate was made for",
            other.display(),
            certificate.display()
        )
    );
}

#[test]
fn what_is_no_certificate_inside_is_refused() {
    let folder = folder("rejected");
    let (_, key, _) = pair(&folder, "a.example");
    let nonsense = folder.join("nonsense");
    fs::write(
        &nonsense,
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .expect("it is written");
    let text = refused(&nonsense, &key);
    let start = format!("cannot serve with the certificate in {}", nonsense.display());
    assert!(text.starts_with(&start), "{text}");
    assert!(text.contains("--tls-cert-file"), "{text}");
}

#[tokio::test]
async fn a_port_in_use_is_said_to_be_one() {
    let bed = bed().await;
    let tls = Tls::self_signed([]).expect("a certificate");
    let error = Server::bind(bed.address, tls).await.err().expect("it is in use");
    let text = error.to_string();
    let start = format!("cannot listen on {}: Address already in use", bed.address);
    assert!(text.starts_with(&start), "{text}");
    assert!(text.contains("--secure-port"), "{text}");
    assert!(text.contains("--bind-address"), "{text}");
}
