//! A corrupted or deleted Secret.

use serde_json::{Value, json};
use steersman_manager::health::{Health, Probes};

use super::{Cluster, Replica, SECOND, SECRETS, bytes, cluster, secret};

fn corruptions() -> Vec<(&'static str, Value)> {
    let other = rcgen::generate_simple_self_signed(vec!["other.test".to_owned()]).expect("a certificate");
    let (certificate, key) = (other.cert.pem(), other.signing_key.serialize_pem());
    let foreign: String = (0..3)
        .map(|_| {
            rcgen::generate_simple_self_signed(vec!["other.test".to_owned()])
                .expect("a certificate")
                .cert
                .pem()
        })
        .collect();
    vec![
        ("invalid PEM", json!({"tls.crt": bytes("hunter2")})),
        (
            "empty values",
            json!({"tls.crt": bytes(""), "tls.key": bytes("")}),
        ),
        ("empty certificate", json!({"tls.crt": bytes("")})),
        ("key mismatch", json!({"tls.key": bytes(&key)})),
        (
            "foreign certificate",
            json!({"tls.crt": bytes(&certificate), "tls.key": bytes(&key)}),
        ),
        ("no CA bundle", json!({"ca.crt": null})),
        ("foreign CA bundle", json!({"ca.crt": bytes(&certificate)})),
        (
            "garbage",
            json!({"tls.crt": bytes("\u{0}"), "tls.key": bytes("\u{0}"), "ca.crt": bytes("\u{0}"), "x": bytes("y")}),
        ),
        (
            "foreign certificate and CAs",
            json!({"ca.crt": bytes(&foreign), "tls.crt": bytes(&certificate), "tls.key": bytes(&key)}),
        ),
        (
            "foreign staged certificate",
            json!({"next.crt": bytes(&certificate), "next.key": bytes(&key)}),
        ),
    ]
}

/// Asserts for ten seconds that the served certificate is verified.
async fn stays_verified(cluster: &Cluster, replica: &Replica, what: &str) {
    for _ in 0..30 {
        let verified = cluster.verified(replica).await;
        assert!(verified.is_some(), "{what}");
        cluster.env.clock.sleep(SECOND / 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn corrupted_secret_is_replaced_without_interruption() {
    for (what, data) in corruptions() {
        let cluster = cluster().await;
        let leader = cluster.leader();
        let standby = cluster.standby().await;
        let first = cluster.serves(&leader, None).await;
        assert_eq!(cluster.serves(&standby, None).await, first);
        cluster.patch(&SECRETS, &secret(), &json!({"data": data})).await;
        stays_verified(&cluster, &leader, what).await;
        stays_verified(&cluster, &standby, what).await;
        let expected = what == "foreign staged certificate";
        assert_eq!(cluster.serves(&leader, None).await == first, expected, "{what}");
        let secret = cluster.get(&SECRETS, &secret()).await.expect("a Secret");
        let fits = secret["data"].get("x").is_some() == (what == "garbage");
        assert!(fits, "{what}: foreign keys stay");
        for replica in [&leader, &standby] {
            assert_eq!(replica.check("webhook", Probes::READYZ), Health::Ok, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn replica_starting_with_corrupted_secret_waits_for_leader() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    cluster.serves(&leader, None).await;
    leader.stop().await;
    let data = json!({"tls.crt": bytes("hunter2")});
    cluster.patch(&SECRETS, &secret(), &json!({"data": data})).await;
    let standby = cluster.standby().await;
    cluster.env.clock.sleep(10 * SECOND).await;
    let Health::Failed(reason) = standby.check("webhook", Probes::READYZ) else {
        panic!("ready without a certificate");
    };
    assert!(reason.contains("certificate is not valid PEM"), "{reason}");
    assert!(!reason.contains("hunter2"), "{reason}");
    assert!(standby.metric("certwatcher_read_certificate_errors_total") >= 1.0);
    let leader = cluster.leader();
    assert_eq!(
        cluster.serves(&standby, None).await,
        cluster.serves(&leader, None).await
    );
    assert_eq!(standby.check("webhook", Probes::READYZ), Health::Ok);
}

#[tokio::test(start_paused = true)]
async fn deleted_secret_is_recreated_and_old_authority_dropped() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    let first = cluster.serves(&leader, None).await;
    cluster.delete(&SECRETS, &secret()).await;
    let before = cluster.env.clock.now();
    cluster.serves(&leader, Some(&first)).await;
    assert!(cluster.env.clock.now() - before < 2 * SECOND, "not immediate");
    let trusted = cluster.data("ca.crt").await.expect("a bundle");
    assert_eq!(trusted.matches("BEGIN CERTIFICATE").count(), 1);
    assert_eq!(cluster.bundles().await, [trusted.clone(), trusted]);
}

#[tokio::test(start_paused = true)]
async fn replica_reports_that_its_secret_was_deleted() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    let standby = cluster.standby().await;
    let first = cluster.serves(&standby, None).await;
    leader.stop().await;
    cluster.delete(&SECRETS, &secret()).await;
    cluster.env.clock.sleep(10 * SECOND).await;
    assert_eq!(
        cluster.verified(&standby).await,
        Some(first.clone()),
        "still served"
    );
    let note = "serving the previous certificate: Secret kube-system/hooks-certificate was deleted";
    assert_eq!(
        standby.check("webhook", Probes::READYZ),
        Health::Note(note.to_owned())
    );
    // The next leader creates another certificate, drops the old CA, and then fails to write.
    let leader = cluster.leader();
    leader.faults.stop_at(3);
    cluster.env.clock.sleep(10 * SECOND).await;
    assert_eq!(cluster.verified(&standby).await, None, "no longer trusted");
    let note =
        "serving the previous certificate: Secret kube-system/hooks-certificate has no certificate yet";
    assert_eq!(
        standby.check("webhook", Probes::READYZ),
        Health::Note(note.to_owned())
    );
    drop(leader);
    let _leader = cluster.leader();
    cluster.serves(&standby, Some(&first)).await;
    assert_eq!(standby.check("webhook", Probes::READYZ), Health::Ok);
}

#[tokio::test(start_paused = true)]
async fn expired_certificate_is_unhealthy_until_replaced() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    cluster.serves(&leader, None).await;
    let standby = cluster.standby().await;
    cluster.serves(&standby, None).await;
    leader.stop().await;
    cluster.later(91 * super::DAY, &[&standby]);
    cluster.env.clock.sleep(1200 * SECOND).await;
    let Health::Failed(reason) = standby.check("webhook", Probes::READYZ) else {
        panic!("healthy with an expired certificate");
    };
    assert!(reason.contains("expired"), "{reason}");
    let _leader = cluster.leader();
    cluster.serves(&standby, None).await;
    assert_eq!(standby.check("webhook", Probes::READYZ), Health::Ok);
}
