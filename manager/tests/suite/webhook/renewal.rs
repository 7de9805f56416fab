//! Issuing and renewing the certificate, on one and on two replicas.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use steersman_harness::Log;
use steersman_manager::health::{Health, Probes};
use tracing::level_filters::LevelFilter;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{Cluster, DAY, Replica, SECOND, SECRETS, bare, bytes, cluster, secret};

#[tokio::test(start_paused = true)]
async fn first_certificate_is_served_after_injection() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    assert!(
        matches!(leader.check("webhook", Probes::READYZ), Health::Failed(_)),
        "ready too early"
    );
    cluster.serves(&leader, None).await;
    assert_eq!(leader.check("webhook", Probes::READYZ), Health::Ok);
    assert_eq!(leader.check("webhook-certificates", Probes::HEALTHZ), Health::Ok);
    let secret = cluster.get(&SECRETS, &secret()).await.expect("a Secret");
    assert_eq!(secret["type"], "kubernetes.io/tls");
    let keys: Vec<_> = secret["data"].as_object().expect("data").keys().collect();
    assert_eq!(keys, ["ca.crt", "tls.crt", "tls.key"]);
    let trusted = cluster.data("ca.crt").await.expect("a bundle");
    assert_eq!(trusted.matches("BEGIN CERTIFICATE").count(), 1);
    assert_eq!(cluster.bundles().await, [trusted.clone(), trusted]);
    let writes = leader.faults.take_writes();
    let names = "/api/v1/namespaces/kube-system/secrets";
    let configurations = "/apis/admissionregistration.k8s.io/v1";
    assert_eq!(
        writes,
        [
            format!("POST {names}"),
            format!("PATCH {configurations}/mutatingwebhookconfigurations/hooks"),
            format!("PATCH {configurations}/validatingwebhookconfigurations/hooks"),
            format!("PATCH {names}/hooks-certificate"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn configurations_are_read_before_the_secret() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    cluster.serves(&leader, None).await;
    let log = reads_of_objects(leader.faults.take());
    let read: Vec<&str> = log.iter().filter_map(|it| it.strip_prefix("GET ")).collect();
    assert!(read.len() >= 12 && read.len().is_multiple_of(3), "{read:?}");
    for round in read.chunks(3) {
        let kinds = ["mutating", "validating", "secrets"];
        assert!(
            round.iter().zip(kinds).all(|(path, kind)| path.contains(kind)),
            "{round:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn configurations_are_read_again_before_staging() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    let first = cluster.serves(&leader, None).await;
    leader.faults.take();
    cluster.later(61 * DAY, &[&leader]);
    cluster.serves(&leader, Some(&first)).await;
    let log = reads_of_objects(leader.faults.take());
    let staged = log
        .iter()
        .position(|it| it.starts_with("PATCH") && it.contains("secrets"));
    let before = &log[..staged.expect("a staged certificate")];
    let kinds = ["mutating", "validating", "secrets", "mutating", "validating"];
    assert!(
        before.len() == kinds.len() && before.iter().zip(kinds).all(|(path, kind)| path.contains(kind)),
        "{log:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn idle_rotator_writes_nothing() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    cluster.serves(&leader, None).await;
    cluster.env.clock.sleep(10 * SECOND).await;
    leader.faults.take();
    cluster.env.clock.sleep(3600 * SECOND).await;
    let log = leader.faults.take();
    assert!(log.iter().all(|it| it.starts_with("GET ")), "{log:?}");
    // Three objects every five to ten minutes, and one list for each of four watches that is reopened.
    let lists = log.len();
    let reads = reads_of_objects(log).len();
    assert!((18..=36).contains(&reads), "{reads}");
    assert!(lists - reads <= 4 * 12, "{lists} {reads}");
}

/// Removes the initial lists of watches from a log.
fn reads_of_objects(mut log: Vec<String>) -> Vec<String> {
    log.retain(|it| !it.starts_with("GET ") || it.ends_with("/hooks") || it.ends_with("/hooks-certificate"));
    log
}

/// Advances the time in steps of ten days and asserts that the certificate is always verified. Returns the number of
/// different certificates.
async fn days(cluster: &Cluster, leader: &Replica, days: i64) -> usize {
    let mut shown = vec![cluster.serves(leader, None).await];
    for day in (10..=days).step_by(10) {
        cluster.later(day * DAY, &[leader]);
        // Longer than the resync period.
        for _ in 0..33 {
            let now = cluster.verified(leader).await.expect("a verified certificate");
            if shown.last() != Some(&now) {
                shown.push(now);
            }
            cluster.env.clock.sleep(20 * SECOND).await;
        }
    }
    shown.len()
}

#[tokio::test(start_paused = true)]
async fn certificate_is_renewed_after_two_thirds_of_its_validity() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    let first = cluster.serves(&leader, None).await;
    cluster.later(59 * DAY, &[&leader]);
    cluster.env.clock.sleep(1200 * SECOND).await;
    assert_eq!(cluster.serves(&leader, None).await, first, "renewed too early");
    cluster.later(60 * DAY, &[&leader]);
    let second = cluster.serves(&leader, Some(&first)).await;
    let trusted = cluster.data("ca.crt").await.expect("a bundle");
    assert_eq!(
        trusted.matches("BEGIN CERTIFICATE").count(),
        2,
        "the previous CA stays"
    );
    assert_eq!(cluster.bundles().await, [trusted.clone(), trusted]);
    cluster.later(120 * DAY, &[&leader]);
    let third = cluster.serves(&leader, Some(&second)).await;
    let trusted = cluster.data("ca.crt").await.expect("a bundle");
    assert_eq!(trusted.matches("BEGIN CERTIFICATE").count(), 3);
    let mut last = third;
    for days in [180, 240, 300] {
        cluster.later(days * DAY, &[&leader]);
        last = cluster.serves(&leader, Some(&last)).await;
    }
    let trusted = cluster.data("ca.crt").await.expect("a bundle");
    assert_eq!(
        trusted.matches("BEGIN CERTIFICATE").count(),
        4,
        "old CAs are dropped"
    );
}

#[tokio::test(start_paused = true)]
async fn certificate_is_always_verified_over_half_a_year() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    let seen = days(&cluster, &leader, 185).await;
    assert_eq!(seen, 4, "the first, and after 60, 120 and 180 days");
}

#[tokio::test(start_paused = true)]
async fn leader_writes_and_all_replicas_serve_the_certificate() {
    let cluster = cluster().await;
    let one = cluster.candidate("one");
    let first = cluster.serves(&one, None).await;
    let two = cluster.candidate("second");
    assert_eq!(cluster.serves(&two, None).await, first);
    assert!(two.faults.take_writes().is_empty(), "a standby writes nothing");
    cluster.later(61 * DAY, &[&one, &two]);
    let second = cluster.serves(&one, Some(&first)).await;
    assert_eq!(cluster.serves(&two, Some(&first)).await, second);
    let written = [one.faults.take_writes(), two.faults.take_writes()];
    assert!(
        written.iter().any(Vec::is_empty),
        "one of them wrote: {written:?}"
    );

    // A change of the leader changes nothing.
    one.stop().await;
    cluster.env.clock.sleep(1200 * SECOND).await;
    assert_eq!(cluster.serves(&two, None).await, second);
    cluster.later(122 * DAY, &[&two]);
    cluster.serves(&two, Some(&second)).await;
    assert!(!two.faults.take_writes().is_empty(), "the new leader renews");
}

#[tokio::test(start_paused = true)]
async fn missing_configurations_are_noted_and_certificate_is_served() {
    let cluster = bare();
    let leader = cluster.leader();
    while leader.check("webhook", Probes::READYZ) != Health::Ok {
        cluster.env.clock.sleep(SECOND).await;
    }
    let note = "MutatingWebhookConfiguration hooks does not exist; \
                ValidatingWebhookConfiguration hooks does not exist";
    cluster.env.clock.sleep(SECOND).await;
    assert_eq!(
        leader.check("webhook-certificates", Probes::HEALTHZ),
        Health::Note(note.to_owned())
    );
    cluster.configure(&super::VALIDATING).await;
    cluster.env.clock.sleep(SECOND).await;
    let note = leader.check("webhook-certificates", Probes::HEALTHZ);
    assert_eq!(
        note,
        Health::Note("MutatingWebhookConfiguration hooks does not exist".to_owned())
    );
    cluster.verified(&leader).await.expect("an injected bundle");
}

#[tokio::test(start_paused = true)]
async fn certificate_for_another_service_is_replaced() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    let first = cluster.serves(&leader, None).await;
    let trusted = cluster.data("ca.crt").await.expect("a bundle");
    leader.stop().await;
    // Valid, but for a former name of the Service.
    let foreign =
        rcgen::generate_simple_self_signed(vec!["other.kube-system.svc".to_owned()]).expect("a certificate");
    let data = json!({
        "tls.crt": bytes(&foreign.cert.pem()),
        "tls.key": bytes(&foreign.signing_key.serialize_pem()),
        "ca.crt": bytes(&(foreign.cert.pem() + &trusted)),
    });
    cluster.patch(&SECRETS, &secret(), &json!({"data": data})).await;
    let leader = cluster.leader();
    assert_ne!(cluster.serves(&leader, None).await, first);
}

#[tokio::test(start_paused = true)]
async fn private_keys_are_never_logged() {
    let log = Log::keep(LevelFilter::TRACE);
    let cluster = cluster().await;
    let leader = cluster.leader();
    let first = cluster.serves(&leader, None).await;
    let mut keys = vec![cluster.data("tls.key").await.expect("a key")];
    cluster.later(61 * DAY, &[&leader]);
    let second = cluster.serves(&leader, Some(&first)).await;
    keys.push(cluster.data("tls.key").await.expect("a key"));
    let data = json!({"tls.crt": bytes("hunter2")});
    cluster.patch(&SECRETS, &secret(), &json!({"data": data})).await;
    cluster.serves(&leader, Some(&second)).await;
    keys.push(cluster.data("tls.key").await.expect("a key"));

    let log = log.text();
    assert!(log.contains("Renewing webhook certificate"), "{log}");
    assert!(log.contains("Replacing invalid webhook certificate"), "{log}");
    assert!(!log.contains("PRIVATE KEY") && !log.contains("hunter2"));
    for key in keys {
        let body: Vec<&str> = key.lines().filter(|line| !line.starts_with("---")).collect();
        assert!(body.len() > 1);
        for line in body {
            assert!(!log.contains(line));
        }
        let encoded = json!(bytes(&key));
        let encoded = encoded.as_str().expect("base64");
        assert!(!log.contains(&encoded[..40]));
    }
}

#[tokio::test(start_paused = true)]
async fn secret_and_ca_have_the_configured_names() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    cluster.serves(&leader, None).await;
    let secret = cluster.get(&SECRETS, &secret()).await.expect("a Secret");
    let labels = json!({"app.kubernetes.io/managed-by": "harbour"});
    assert_eq!(secret["metadata"]["labels"], labels);
    let authority = cluster.data("ca.crt").await.expect("a bundle");
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate");
    let (_, authority) = X509Certificate::from_der(&authority).expect("a certificate");
    let name = authority.subject().iter_common_name().next().expect("a name");
    let name = name.as_str().expect("text");
    assert!(name.starts_with("harbour-ca@"), "{name}");
}
