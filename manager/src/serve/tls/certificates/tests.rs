use super::*;

use std::path::Path;
use std::time::Duration;

use crate::metrics::Registry;
use jiff::Timestamp;

use crate::env::TaskSet;
use crate::serve::certificate_metrics::tests::{expiring, year};

/// Writes a certificate for `names` and its key.
fn write(folder: &Path, file: &str, names: &[&str]) -> CertificateFiles {
    write_until(folder, file, names, 2040)
}

/// Writes a certificate that is valid until January 1 of the year, and its key.
fn write_until(folder: &Path, file: &str, names: &[&str], year: i32) -> CertificateFiles {
    let (certificate, key) = expiring(names, year);
    let files = CertificateFiles {
        certificate: folder.join(format!("{file}.crt")),
        private_key: folder.join(format!("{file}.key")),
    };
    std::fs::write(&files.certificate, certificate).expect("a file");
    std::fs::write(&files.private_key, key).expect("a file");
    files
}

#[test]
fn certificate_is_selected_by_the_most_specific_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut certificates = ServingCertificates::self_signed([]).expect("a certificate");
    let extracted = write(folder.path(), "extracted", &["a.example", "*.example"]);
    let wildcard = write(folder.path(), "wildcard", &["unused"]);
    let whole = write(folder.path(), "whole", &["unused"]);
    for (files, names) in [
        (extracted, &[][..]),
        (wildcard, &["*.Example"]),
        (whole, &["b.example"]),
    ] {
        let names = names.iter().map(|&it| it.to_owned()).collect();
        certificates = certificates
            .with_sni(SniCertificate { files, names })
            .expect("a pair");
    }
    let ServingCertificates(resolver) = certificates;
    let pairs = ["extracted", "wildcard", "whole"]
        .into_iter()
        .zip(&resolver.by_name);
    let pairs: Vec<_> = pairs.map(|(file, slot)| (file, slot.current())).collect();
    let selected = |host: Option<&str>| {
        let pair = resolver.select(host).current();
        let of = |(file, served): &(&str, Arc<CertifiedKey>)| {
            (served.cert == pair.cert).then(|| (*file).to_owned())
        };
        pairs.iter().find_map(of)
    };
    for (host, expected) in [
        ("a.example", Some("extracted")),
        ("A.EXAMPLE", Some("extracted")),
        ("b.example", Some("whole")),
        ("c.example", Some("wildcard")),
        ("x.c.example", None),
        ("example", None),
        ("unused", None),
    ] {
        assert_eq!(selected(Some(host)).as_deref(), expected, "{host}");
    }
    assert_eq!(selected(None), None);
}

#[tokio::test(start_paused = true)]
async fn changed_files_are_reloaded_and_unusable_ones_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = write(folder.path(), "tls", &["old.example"]);
    let certificates = ServingCertificates::from_files(files.clone()).expect("a pair");
    let (tasks, registry) = (TaskSet::new(), Registry::new("test"));
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks);
    let metrics = CertificateMetrics::register(&registry).expect("registered");
    certificates.watch(&env, &metrics);
    let names = || names(&certificates.0.default.current());
    // Files are read by a thread, which the paused clock does not wait for.
    let polled = async |errors: u64| {
        let (total, failed) = (metrics.total.get(), metrics.errors.get());
        while metrics.total.get() < total + 2 || metrics.errors.get() < failed + errors {
            env.clock.sleep(Duration::from_secs(1)).await;
        }
    };
    polled(0).await;
    assert_eq!(metrics.errors.get(), 0);

    let key = std::fs::read(&files.private_key).expect("a key");
    write(folder.path(), "tls", &["new.example"]);
    let new_key = std::fs::read(&files.private_key).expect("a key");
    std::fs::write(&files.private_key, &key).expect("a file");
    polled(2).await;
    assert_eq!(names(), ["old.example"], "the key does not match");
    std::fs::remove_file(&files.private_key).expect("removed");
    polled(2).await;
    assert_eq!(names(), ["old.example"], "unreadable");
    std::fs::write(&files.private_key, &new_key).expect("a file");
    polled(0).await;
    assert_eq!(names(), ["new.example"]);
}

#[tokio::test(start_paused = true)]
async fn expiration_is_the_earliest_of_all_served_certificates() {
    let folder = tempfile::tempdir().expect("a folder");
    let sni = |file: &str, year| SniCertificate {
        files: write_until(folder.path(), file, &[file], year),
        names: Vec::new(),
    };
    let default = write_until(folder.path(), "default", &["default"], 2043);
    let certificates = ServingCertificates::from_files(default).expect("a pair");
    let certificates = certificates.with_sni(sni("one", 2042)).expect("a pair");
    let certificates = certificates.with_sni(sni("two", 2044)).expect("a pair");
    let (tasks, registry) = (TaskSet::new(), Registry::new("test"));
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks);
    let metrics = CertificateMetrics::register(&registry).expect("registered");
    assert_eq!(year(&registry, "serving"), None);
    certificates.watch(&env, &metrics);
    assert_eq!(year(&registry, "serving"), Some(2042));
    // Files are read by threads, which the paused clock does not wait for.
    let becomes = async |expected: i16| {
        let before = metrics.total.get();
        while year(&registry, "serving") != Some(expected) {
            let current = year(&registry, "serving");
            assert!(
                metrics.total.get() < before + 10_000,
                "{current:?}, not {expected}"
            );
            env.clock.sleep(Duration::from_secs(1)).await;
        }
    };
    sni("one", 2045);
    becomes(2043).await;
    sni("two", 2041);
    becomes(2041).await;
    assert_eq!(year(&registry, "webhook"), None);
}
