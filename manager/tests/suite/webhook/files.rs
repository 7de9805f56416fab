//! A certificate from a directory.

use std::fs;
use std::path::{Path, PathBuf};

use steersman_manager::client::Transport;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::health::{Checks, Health, Probes};
use steersman_manager::manager::{Manager, Options};
use steersman_manager::metrics::Registry;
use steersman_manager::webhook::{Certificates, Source, WebhookError};

use super::{HOST, SECOND, bare, handshake, metrics, start};

/// A directory for one test, removed on drop.
pub struct Folder(pub PathBuf);

pub fn folder(test: &str) -> Folder {
    let own = format!("webhook-{test}-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(own);
    fs::create_dir_all(&folder).expect("a folder");
    Folder(folder)
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).expect("a file");
    }

    /// Writes a new self-signed certificate and its key.
    pub fn pair(&self) -> String {
        let made = rcgen::generate_simple_self_signed(vec![HOST.to_owned()]).expect("a certificate");
        self.write("tls.crt", &made.cert.pem());
        self.write("tls.key", &made.signing_key.serialize_pem());
        made.cert.pem()
    }
}

fn load_error(folder: &Path) -> String {
    let source = Source::Folder(folder.to_owned());
    match Certificates::new(source, &metrics(&Registry::new("test")), &Checks::new()) {
        Err(error @ WebhookError::Tls(_)) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("accepted"),
    }
}

#[test]
fn invalid_certificate_files_are_a_startup_error() {
    let folder = folder("refused");
    let text = load_error(&folder.0);
    assert!(
        text.starts_with("cannot read ") && text.contains("tls.crt: No such file"),
        "{text}"
    );
    folder.pair();
    folder.write("tls.key", "hunter2");
    let text = load_error(&folder.0);
    assert!(text.contains("tls.key contains no private key"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn changed_files_are_served_unless_invalid() {
    let folder = folder("changes");
    let cluster = bare();
    let (registry, checks) = (Registry::new("test"), Checks::new());
    let tasks = TaskSet::new();
    let env = Env::starting_at(start(), 1, &tasks);
    let transport = Transport::from_service(
        cluster.sandbox.service(),
        "sandbox",
        "test",
        &env.clock,
        &registry,
    );
    let options = Options::new("steersman");
    let mut manager =
        Manager::new(&env, &registry, &checks, transport.expect("a transport"), options).expect("a manager");
    let first = folder.pair();
    let certificates = Certificates::new(Source::Folder(folder.0.clone()), &metrics(&registry), &checks);
    let certificates = certificates.expect("a pair");
    let shown = async |bundle: &str| handshake(&certificates.tls(), bundle, start()).await.is_some();
    assert!(shown(&first).await, "served before the manager runs");
    certificates.host(&mut manager);
    let second = folder.pair();
    env.clock.sleep(11 * SECOND).await;
    assert!(shown(&second).await && !shown(&first).await);
    folder.write("tls.crt", &first);
    env.clock.sleep(11 * SECOND).await;
    assert!(shown(&second).await, "the key does not match");
    let check = |kind| {
        let all = checks.run(kind).into_iter();
        all.into_iter()
            .find(|(name, _)| name == "webhook")
            .expect("a check")
            .1
    };
    assert!(matches!(check(Probes::READYZ), Health::Note(_)));
    let third = folder.pair();
    env.clock.sleep(11 * SECOND).await;
    assert!(shown(&third).await);
    assert_eq!(check(Probes::READYZ), Health::Ok);
    let names = checks.run(Probes::HEALTHZ).into_iter().map(|(name, _)| name);
    assert!(
        !names
            .collect::<Vec<_>>()
            .contains(&"webhook-certificates".to_owned()),
        "no controller writes the certificate"
    );
}
