//! TLS of the HTTPS port.

use std::fs;

use steersman_harness::tls::{Client, Version};
use steersman_harness::{Program, certs};
use tempfile::TempDir;

use crate::PROGRAM;

const AES_128: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
const AES_256: &str = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
/// The name of a TLS 1.3 suite in rustls.
const TLS13_AES_128: &str = "TLS13_AES_128_GCM_SHA256";

/// A certificate for `localhost` and `127.0.0.1` in files.
struct Issued {
    ca: String,
    certificate: String,
    key: String,
}

fn certificate(dir: &TempDir, name: &str) -> Issued {
    let issued = certs::generate().expect("certificates");
    let write = |extension: &str, text: &str| {
        let path = dir.path().join(format!("{name}.{extension}"));
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    Issued {
        certificate: write("crt", &issued.cert),
        key: write("key", &issued.key),
        ca: issued.ca,
    }
}

/// Starts a sandbox that serves `default`.
async fn start(default: &Issued, flags: &[&str]) -> Program {
    let certificate = format!("--tls-cert-file={}", default.certificate);
    let key = format!("--tls-private-key-file={}", default.key);
    let own = ["--sandbox", &certificate, &key];
    Program::start(PROGRAM, &[&own, flags].concat()).await
}

#[tokio::test]
async fn tls12_client_is_refused_if_the_min_version_is_tls13() {
    let dir = tempfile::tempdir().expect("a directory");
    let default = certificate(&dir, "default");
    // With a suite of TLS 1.2, so that only the version refuses.
    let suites = format!("--tls-cipher-suites=TLS_AES_256_GCM_SHA384,{AES_256}");
    let program = start(&default, &["--tls-min-version=VersionTLS13", &suites]).await;
    let client = Client {
        version: Version::Tls13,
        cipher_suites: &[],
        ca: &default.ca,
        server_name: "127.0.0.1",
    };
    let suite = client.connect(program.address()).await.expect("a connection");
    assert_eq!(suite, "TLS13_AES_256_GCM_SHA384");
    let tls12 = Client {
        version: Version::Tls12,
        ..client
    };
    let refused = tls12.connect(program.address()).await.expect_err("an alert");
    assert_eq!(refused.to_string(), "received fatal alert: ProtocolVersion");
    let other_suite = Client {
        cipher_suites: &[TLS13_AES_128],
        ..client
    };
    let refused = other_suite
        .connect(program.address())
        .await
        .expect_err("an alert");
    assert_eq!(refused.to_string(), "received fatal alert: HandshakeFailure");
}

#[tokio::test]
async fn certificate_of_the_server_name_is_served_with_the_selected_cipher_suite() {
    let dir = tempfile::tempdir().expect("a directory");
    let (default, named) = (certificate(&dir, "default"), certificate(&dir, "named"));
    let suites = format!("--tls-cipher-suites={AES_256}");
    let sni = format!("--tls-sni-cert-key={},{}:localhost", named.certificate, named.key);
    let program = start(&default, &[&suites, &sni]).await;
    // A client trusts one of the two authorities.
    let client = |authority, server_name| Client {
        version: Version::Tls12,
        cipher_suites: &[],
        ca: authority,
        server_name,
    };
    for (served, other, server_name) in [(&default, &named, "127.0.0.1"), (&named, &default, "localhost")] {
        let connected = client(&served.ca, server_name).connect(program.address()).await;
        assert_eq!(connected.expect("a connection"), AES_256, "{server_name}");
        let refused = client(&other.ca, server_name).connect(program.address()).await;
        let error = refused.expect_err("another authority").to_string();
        assert!(error.contains("invalid peer certificate"), "{error}");
    }
    let other_suite = Client {
        cipher_suites: &[AES_128],
        ..client(&default.ca, "127.0.0.1")
    };
    let refused = other_suite
        .connect(program.address())
        .await
        .expect_err("an alert");
    assert_eq!(refused.to_string(), "received fatal alert: HandshakeFailure");
    // Suites of TLS 1.2 do not restrict those of TLS 1.3.
    let tls13 = Client {
        version: Version::Tls13,
        cipher_suites: &[TLS13_AES_128],
        ..client(&default.ca, "127.0.0.1")
    };
    let connected = tls13.connect(program.address()).await;
    assert_eq!(connected.expect("a connection"), TLS13_AES_128);
}
