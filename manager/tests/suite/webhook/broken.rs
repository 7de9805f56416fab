//! A Secret that somebody has spoilt, or taken away.

use coxswain_manager::serve::{Health, Probes};
use serde_json::{Value, json};

use super::{Cluster, Replica, SECOND, SECRETS, bytes, cluster, secret};

/// The ways to spoil it.
fn ways() -> Vec<(&'static str, Value)> {
    let other = rcgen::generate_simple_self_signed(vec!["other.test".to_owned()]).expect("made");
    let (certificate, key) = (other.cert.pem(), other.signing_key.serialize_pem());
    let strangers: String = (0..3)
        .map(|_| {
            rcgen::generate_simple_self_signed(vec!["other.test".to_owned()])
                .expect("made")
                .cert
                .pem()
        })
        .collect();
    vec![
        ("no PEM", json!({"tls.crt": bytes("hunter2")})),
        ("no bytes", json!({"tls.crt": bytes(""), "tls.key": bytes("")})),
        ("half", json!({"tls.crt": bytes("")})),
        ("a wrong key", json!({"tls.key": bytes(&key)})),
        (
            "a foreign pair",
            json!({"tls.crt": bytes(&certificate), "tls.key": bytes(&key)}),
        ),
        ("no authorities", json!({"ca.crt": null})),
        ("foreign authorities", json!({"ca.crt": bytes(&certificate)})),
        (
            "nonsense",
            json!({"tls.crt": bytes("\u{0}"), "tls.key": bytes("\u{0}"), "ca.crt": bytes("\u{0}"), "x": bytes("y")}),
        ),
        (
            "a crowd of strangers",
            json!({"ca.crt": bytes(&strangers), "tls.crt": bytes(&certificate), "tls.key": bytes(&key)}),
        ),
        (
            "a foreign next",
            json!({"next.crt": bytes(&certificate), "next.key": bytes(&key)}),
        ),
    ]
}

/// Looks again and again, for a while.
async fn verified_all_the_time(cluster: &Cluster, replica: &Replica, what: &str) {
    for _ in 0..30 {
        let verified = cluster.verified(replica).await;
        assert!(verified.is_some(), "{what}: at any time");
        cluster.env.clock.sleep(SECOND / 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_spoilt_is_replaced_and_nobody_notices() {
    for (what, data) in ways() {
        let cluster = cluster().await;
        let leader = cluster.leader().await;
        let standby = cluster.standby().await;
        let first = cluster.serves(&leader, None).await;
        assert_eq!(cluster.serves(&standby, None).await, first);
        cluster.patch(&SECRETS, &secret(), &json!({"data": data})).await;
        verified_all_the_time(&cluster, &leader, what).await;
        verified_all_the_time(&cluster, &standby, what).await;
        let expected = what == "a foreign next";
        assert_eq!(cluster.serves(&leader, None).await == first, expected, "{what}");
        let secret = cluster.get(&SECRETS, &secret()).await.expect("a Secret");
        let fits = secret["data"].get("x").is_some() == (what == "nonsense");
        assert!(fits, "{what}: what is not ours stays");
        for replica in [&leader, &standby] {
            assert_eq!(replica.check("webhook", Probes::READYZ), Health::Ok, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_starts_with_a_spoilt_secret_waits_for_the_leader() {
    let cluster = cluster().await;
    let leader = cluster.leader().await;
    cluster.serves(&leader, None).await;
    leader.stop().await;
    let data = json!({"tls.crt": bytes("hunter2")});
    cluster.patch(&SECRETS, &secret(), &json!({"data": data})).await;
    let standby = cluster.standby().await;
    cluster.env.clock.sleep(10 * SECOND).await;
    let Health::Failed(reason) = standby.check("webhook", Probes::READYZ) else {
        panic!("it has nothing to serve");
    };
    assert!(reason.contains("the certificate is not in PEM form"), "{reason}");
    assert!(!reason.contains("hunter2"), "{reason}");
    assert!(standby.metric("certwatcher_read_certificate_errors_total") >= 1.0);
    let leader = cluster.leader().await;
    assert_eq!(
        cluster.serves(&standby, None).await,
        cluster.serves(&leader, None).await
    );
    assert_eq!(standby.check("webhook", Probes::READYZ), Health::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_gone_is_made_again_and_its_authority_is_trusted_no_more() {
    let cluster = cluster().await;
    let leader = cluster.leader().await;
    let first = cluster.serves(&leader, None).await;
    cluster.delete(&SECRETS, &secret()).await;
    let before = cluster.env.clock.now();
    cluster.serves(&leader, Some(&first)).await;
    assert!(cluster.env.clock.now() - before < 2 * SECOND, "at once");
    let trusted = cluster.data("ca.crt").await.expect("a bundle");
    assert_eq!(trusted.matches("BEGIN CERTIFICATE").count(), 1);
    assert_eq!(cluster.bundles().await, [trusted.clone(), trusted]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_says_that_what_it_serves_is_not_there_any_more() {
    let cluster = cluster().await;
    let leader = cluster.leader().await;
    let standby = cluster.standby().await;
    let first = cluster.serves(&standby, None).await;
    leader.stop().await;
    cluster.delete(&SECRETS, &secret()).await;
    cluster.env.clock.sleep(10 * SECOND).await;
    assert_eq!(
        cluster.verified(&standby).await,
        Some(first.clone()),
        "it goes on"
    );
    let said = "serves an earlier certificate: the Secret kube-system/hooks was deleted";
    assert_eq!(
        standby.check("webhook", Probes::READYZ),
        Health::Note(said.to_owned())
    );
    // The next leader makes another, gives up what was trusted, and gets no further.
    let leader = cluster.leader().await;
    leader.faults.stop_at(3);
    cluster.env.clock.sleep(10 * SECOND).await;
    assert_eq!(cluster.verified(&standby).await, None, "nobody trusts it");
    let said = "serves an earlier certificate: the Secret kube-system/hooks has none yet";
    assert_eq!(
        standby.check("webhook", Probes::READYZ),
        Health::Note(said.to_owned())
    );
    drop(leader);
    let _leader = cluster.leader().await;
    cluster.serves(&standby, Some(&first)).await;
    assert_eq!(standby.check("webhook", Probes::READYZ), Health::Ok);
}

#[tokio::test(start_paused = true)]
async fn one_that_nobody_has_renewed_in_time_is_unhealthy_and_then_replaced() {
    let cluster = cluster().await;
    let leader = cluster.leader().await;
    cluster.serves(&leader, None).await;
    let standby = cluster.standby().await;
    cluster.serves(&standby, None).await;
    leader.stop().await;
    cluster.later(91 * super::DAY, &[&standby]);
    cluster.env.clock.sleep(1200 * SECOND).await;
    let Health::Failed(reason) = standby.check("webhook", Probes::READYZ) else {
        panic!("it has ended");
    };
    assert!(reason.contains("expired"), "{reason}");
    let _leader = cluster.leader().await;
    cluster.serves(&standby, None).await;
    assert_eq!(standby.check("webhook", Probes::READYZ), Health::Ok);
}
