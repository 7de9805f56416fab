//! Client certificates and request headers.

use super::*;

use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::CertificateDer;

use crate::client::Patch;
use crate::object::{Key, Resource};

struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "ca");
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a CA"))
    }

    /// Returns a client with a certificate for 2026.
    fn client(&self, common_name: &str, organizations: &[&str], usage: ExtendedKeyUsagePurpose) -> Peer {
        let mut params = CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        params.extended_key_usages = vec![usage];
        params.distinguished_name = rcgen::DistinguishedName::new();
        if !common_name.is_empty() {
            params.distinguished_name.push(DnType::CommonName, common_name);
        }
        for organization in organizations {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *organization);
        }
        let key = KeyPair::generate().expect("a key");
        let issued = params.signed_by(&key, &self.0).expect("a certificate");
        peer(vec![issued.der().clone()])
    }

    fn file(&self, folder: &std::path::Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, self.0.pem()).expect("a file");
        path
    }
}

fn peer(certificates: Vec<CertificateDer<'static>>) -> Peer {
    Peer {
        certificates,
        ..Peer::at(Ipv4Addr::LOCALHOST.into())
    }
}

const CLIENT: ExtendedKeyUsagePurpose = ExtendedKeyUsagePurpose::ClientAuth;

#[tokio::test(start_paused = true)]
async fn client_certificate_of_the_ca_is_the_user() {
    let (ca, other) = (Ca::new(), Ca::new());
    let folder = tempfile::tempdir().expect("a folder");
    let file = ca.file(folder.path(), "ca.crt");
    let fixture = fixture(|options| options.client_ca = Some(file));
    fixture.accept("good", "prometheus");
    let admin = ca.client("admin", &["system:masters"], CLIENT);
    let (code, user) = fixture.send(&admin, &[], "/metrics").await;
    let user = user.expect("a user");
    assert_eq!((code, user.name.as_str()), (200, "admin"));
    assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
    assert_eq!(fixture.reviews(), (0, 0));

    let guest = ca.client("guest", &[], CLIENT);
    assert_eq!(fixture.send(&guest, &[], "/metrics").await, (403, None));
    for (peer, problem) in [
        (other.client("admin", &["system:masters"], CLIENT), "another CA"),
        (ca.client("", &["system:masters"], CLIENT), "no common name"),
        (
            ca.client("admin", &["system:masters"], ExtendedKeyUsagePurpose::ServerAuth),
            "a certificate of a server",
        ),
        (peer(vec![CertificateDer::from(vec![0x30, 0])]), "malformed"),
    ] {
        assert_eq!(
            fixture.send(&peer, &[], "/metrics").await,
            (401, None),
            "{problem}"
        );
        assert_eq!(fixture.send(&peer, &[], "/healthz").await.0, 200, "{problem}");
        let token = [("authorization", "Bearer good")];
        assert_eq!(fixture.send(&peer, &token, "/metrics").await.0, 200, "{problem}");
    }

    let year = jiff::SignedDuration::from_hours(24 * 365);
    fixture.env.clock.inject(crate::env::Fault::Skew(year));
    fixture.env.clock.sleep(TTL).await;
    assert_eq!(
        fixture.send(&admin, &[], "/metrics").await,
        (401, None),
        "expired"
    );
}

#[tokio::test(start_paused = true)]
async fn request_headers_are_trusted_from_the_proxy_only() {
    let (ca, clients) = (Ca::new(), Ca::new());
    let folder = tempfile::tempdir().expect("a folder");
    let (file, of_clients) = (
        ca.file(folder.path(), "proxy.crt"),
        clients.file(folder.path(), "ca.crt"),
    );
    let fixture = fixture(|options| {
        options.client_ca = Some(of_clients);
        options.request_header = Some(RequestHeaderOptions {
            client_ca: file,
            names: RequestHeaderNames {
                allowed_names: vec!["front-proxy".to_owned()],
                username_headers: vec!["X-Remote-User".to_owned()],
                group_headers: vec!["X-Remote-Group".to_owned()],
                ..RequestHeaderNames::default()
            },
        });
    });
    let headers = [("x-remote-user", "jane"), ("x-remote-group", "system:masters")];
    let proxy = ca.client("front-proxy", &[], CLIENT);
    let (code, user) = fixture.send(&proxy, &headers, "/metrics").await;
    let user = user.expect("a user");
    assert_eq!((code, user.name.as_str()), (200, "jane"));
    assert_eq!(user.groups, ["system:masters", "system:authenticated"]);

    for (peer, expected) in [
        (peer(Vec::new()), 403),
        (ca.client("mallory", &[], CLIENT), 401),
        (clients.client("front-proxy", &[], CLIENT), 403),
        (Ca::new().client("front-proxy", &[], CLIENT), 401),
    ] {
        assert_eq!(fixture.send(&peer, &headers, "/metrics").await, (expected, None));
    }
    // A proxy without a user is a client of the wrong CA.
    assert_eq!(fixture.send(&proxy, &[], "/metrics").await, (401, None));
}

#[tokio::test(start_paused = true)]
async fn changed_ca_file_is_reloaded_and_an_invalid_one_ignored() {
    let (old, new) = (Ca::new(), Ca::new());
    let folder = tempfile::tempdir().expect("a folder");
    let file = old.file(folder.path(), "ca.crt");
    let fixture = fixture(|options| options.client_ca = Some(file.clone()));
    let (of_old, of_new) = (
        old.client("a", &["system:masters"], CLIENT),
        new.client("a", &["system:masters"], CLIENT),
    );
    let code = async |peer: &Peer| fixture.send(peer, &[], "/metrics").await.0;
    assert_eq!((code(&of_old).await, code(&of_new).await), (200, 401));
    for content in [
        "nonsense",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        std::fs::write(&file, content).expect("written");
        fixture.env.clock.sleep(Duration::from_secs(30)).await;
        assert_eq!(
            (code(&of_old).await, code(&of_new).await),
            (200, 401),
            "{content}"
        );
    }
    new.file(folder.path(), "ca.crt");
    // The file is read by a thread, which the paused clock does not wait for.
    while code(&of_new).await != 200 {
        fixture.env.clock.sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(code(&of_old).await, 401);
}

#[tokio::test(start_paused = true)]
async fn published_cas_are_followed_and_malformed_ones_ignored() {
    const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
    let tasks = TaskSet::new();
    let now: Timestamp = "2026-02-03T04:05:06Z".parse().expect("a time");
    let env = Env::starting_at(now, 7, &tasks);
    let sandbox = steersman_sandbox::Sandbox::builder().start().expect("a sandbox");
    let transport = Transport::from_service(
        sandbox.service(),
        "sandbox",
        "test",
        &env.clock,
        &Registry::new("test"),
    );
    let client = transport.expect("a transport").unfenced("authentication", None);
    let options = AuthenticationOptions {
        token_ttl: TTL,
        client_ca: None,
        request_header: None,
        lookup: true,
    };
    let authenticator = Authenticator::start(&env, client.clone(), options).expect("started");
    let (clients, proxies) = (Ca::new(), Ca::new());
    let (admin, proxy) = (
        clients.client("admin", &[], CLIENT),
        proxies.client("front-proxy", &[], CLIENT),
    );
    let headers = http::HeaderMap::from_iter([(
        http::HeaderName::from_static("x-remote-user"),
        http::HeaderValue::from_static("jane"),
    )]);
    let name = async |peer: &Peer| {
        let user = authenticator.authenticate(peer, &headers).await;
        user.map(|user| user.name)
    };
    let anonymous = || Ok("system:anonymous".to_owned());
    assert_eq!(
        (name(&admin).await, name(&proxy).await),
        (anonymous(), anonymous())
    );

    let data = json!({
        "client-ca-file": clients.0.pem(),
        "requestheader-client-ca-file": proxies.0.pem(),
        "requestheader-allowed-names": "[\"front-proxy\"]",
        "requestheader-username-headers": "[\"X-Remote-User\"]",
        "requestheader-group-headers": "[\"X-Remote-Group\"]",
        "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": "extension-apiserver-authentication"},
    });
    let created: Result<Value, _> = client.create(&MAPS, "kube-system", map.to_string().into()).await;
    created.expect("created");
    while name(&proxy).await != Ok("jane".to_owned()) {
        env.clock.sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(name(&admin).await, Ok("admin".to_owned()));

    let patch = Patch::merge(&json!({"data": {"client-ca-file": "nonsense"}}));
    let key = Key::new("kube-system", "extension-apiserver-authentication");
    let patched: Result<Value, _> = client.patch(&MAPS, &key, patch).await;
    patched.expect("patched");
    env.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(name(&admin).await, Ok("admin".to_owned()));
}
