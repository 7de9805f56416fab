//! Invalid flags, and invalid files that they name, are reported in one sentence before anything is started.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use steersman_harness::{certs, fixtures, program, time};
use tempfile::TempDir;

use crate::PROGRAM;

/// Must not appear in any message.
const SECRET: &str = "s3cr3t-t0ken";

/// Runs the program, asserts that it only prints an error, and returns the error.
async fn rejection(arguments: &[&str]) -> String {
    let ended = program::run(PROGRAM, arguments).await;
    let sentence = ended.stderr.strip_prefix("Error: ");
    let sentence = sentence.and_then(|rest| rest.strip_suffix('\n'));
    let sentence = sentence.unwrap_or_else(|| panic!("{arguments:?}: {:?}", ended.stderr));
    assert!(
        !sentence.contains('\n'),
        "{arguments:?}: several lines: {sentence}"
    );
    assert!(!sentence.contains(SECRET), "{arguments:?}: {sentence}");
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(1), ""),
        "{arguments:?}"
    );
    assert!(ended.left.is_empty(), "{arguments:?}: left {:?}", ended.left);
    sentence.to_owned()
}

/// Asserts that the error contains all `words`.
async fn is_rejected(arguments: &[&str], words: &[&str]) {
    let sentence = rejection(arguments).await;
    for word in words {
        assert!(
            sentence.contains(word),
            "{arguments:?}: no {word:?} in: {sentence}"
        );
    }
}

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).expect("a file");
        self.path(name)
    }
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

#[tokio::test]
async fn invalid_flags_are_rejected() {
    let lease = [
        "--leader-elect-lease-duration=10s",
        "--leader-elect-renew-deadline=10s",
    ];
    let cases: [(&[&str], &[&str]); 15] = [
        (
            &["--controllers=*,replicasett"],
            &["\"replicasett\"", "known controllers", "steersman --help"],
        ),
        (
            &["--controller=*"],
            &["--controller", "did you mean --controllers?"],
        ),
        (&["--nonsense"], &["--nonsense", "steersman --help"]),
        (&["--sandbx"], &["--sandbx", "did you mean --sandbox?"]),
        (&["run"], &["unknown command \"run\"", "steersman --help"]),
        (&["tuor"], &["unknown command \"tuor\"", "did you mean tour?"]),
        (
            &["version", "--output", "yaml"],
            &["\"yaml\"", "--output", "`text` or `json`"],
        ),
        (
            &["--leader-elect", "false"],
            &["\"false\"", "--leader-elect=false"],
        ),
        (
            &lease,
            &[
                "--leader-elect-lease-duration",
                "longer",
                "--leader-elect-renew-deadline (10s)",
            ],
        ),
        (
            &["--leader-elect-retry-period=9s"],
            &["--leader-elect-renew-deadline", "1.2 times", "(9s)"],
        ),
        (
            &["--leader-elect-lease-duration=15"],
            &["--leader-elect-lease-duration", "missing unit"],
        ),
        (
            &["--leader-elect-retry-period=-2s"],
            &["--leader-elect-retry-period must be longer than 0s"],
        ),
        (
            &["--controller-shutdown-timeout=-1s"],
            &["--controller-shutdown-timeout must be 0s or longer"],
        ),
        (
            &["--sandbox", "--kubeconfig=x"],
            &["--sandbox", "--kubeconfig", "cannot be combined"],
        ),
        (
            &["--kubeconfig"],
            &["--kubeconfig needs a value", "--kubeconfig=FILE"],
        ),
    ];
    for (arguments, words) in cases {
        is_rejected(arguments, words).await;
    }
}

#[tokio::test]
async fn missing_cluster_is_rejected() {
    is_rejected(
        &["--secure-port=0"],
        &[
            "no cluster is configured",
            "not running in a pod",
            "--kubeconfig",
            "--sandbox",
        ],
    )
    .await;
    is_rejected(
        &["--secure-port=0", "--master=https://a b"],
        &["--master", "\"https://a b\""],
    )
    .await;
}

/// A valid kubeconfig, except for the changes in `cluster` and `user`.
pub fn kubeconfig(cluster: Value, user: &Value) -> String {
    let cluster = fixtures::with(json!({"server": "https://127.0.0.1:1"}), cluster);
    let config = json!({
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "it", "user": "me"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "me", "user": user}],
    });
    config.to_string()
}

/// A user with the exec plugin `sh -c script`.
pub fn exec(script: &str) -> Value {
    let version = "client.authentication.k8s.io/v1";
    json!({"exec": {"apiVersion": version, "command": "sh", "args": ["-c", script], "interactiveMode": "Never"}})
}

#[tokio::test]
async fn invalid_kubeconfig_file_is_rejected() {
    let files = Files::new();
    let of = |cluster: Value| kubeconfig(cluster, &json!({"token": SECRET}));
    let good = of(json!({}));
    let cases: [(&str, Vec<u8>, &str); 8] = [
        (
            "yaml",
            format!("users: [{{token: {SECRET}\n").into_bytes(),
            "not a valid kubeconfig",
        ),
        (
            "list",
            format!("- {SECRET}\n").into_bytes(),
            "not a valid kubeconfig",
        ),
        ("binary", b"\xff\xfe\x00\x01".to_vec(), "not a valid kubeconfig"),
        ("empty", Vec::new(), "no current-context"),
        (
            "context",
            good.replace("\"test\",\"users", "\"tset\",\"users").into_bytes(),
            "current-context",
        ),
        (
            "cluster",
            good.replace("\"cluster\":\"it\"", "\"cluster\":\"ti\"")
                .into_bytes(),
            "cluster \"ti\"",
        ),
        (
            "space",
            of(json!({"server": "https://a b"})).into_bytes(),
            "server",
        ),
        ("no-server", of(json!({"server": null})).into_bytes(), "no server"),
    ];
    for (name, text, word) in cases {
        fs::write(files.path(name), text).expect("a file");
        let path = files.path(name);
        let words = [path.to_str().expect("text"), word, "check --kubeconfig"];
        is_rejected(&["--secure-port=0", &flag("kubeconfig", &path)], &words).await;
    }
    for (path, word) in [
        (files.path("missing"), "No such file"),
        (files.path(""), "directory"),
    ] {
        let words = [path.to_str().expect("text"), word, "check --kubeconfig"];
        is_rejected(&["--secure-port=0", &flag("kubeconfig", &path)], &words).await;
    }
}

#[tokio::test]
async fn invalid_kubeconfig_field_is_rejected() {
    let files = Files::new();
    let certs = certs::generate().expect("certificates");
    let garbage = files.write("garbage", SECRET);
    let broken = files.write(
        "broken",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    let (certificate, key) = (files.write("cert", &certs.cert), files.write("key", &certs.key));
    let user = json!({"token": SECRET});
    let none = json!({});
    let pair = |certificate: &Path, key: &Path| json!({"client-certificate": certificate, "client-key": key});
    let cases = [
        (json!({"server": "127.0.0.1"}), user.clone(), "https://"),
        (json!({"server": "ftp://127.0.0.1"}), user.clone(), "https://"),
        (
            json!({"server": format!("https://me:{SECRET}@127.0.0.1"), "insecure-skip-tls-verify": true}),
            user.clone(),
            "server contains credentials, set them in users",
        ),
        (
            json!({"proxy-url": format!("http://me:{SECRET}@proxy:1")}),
            user.clone(),
            "proxy-url",
        ),
        (
            json!({"certificate-authority": "/nowhere"}),
            user.clone(),
            "/nowhere: No such file",
        ),
        (
            json!({"certificate-authority-data": "!!"}),
            user.clone(),
            "certificate-authority-data is not valid base64",
        ),
        (
            json!({"certificate-authority": garbage}),
            user.clone(),
            "certificate-authority contains no PEM-encoded certificate",
        ),
        (
            json!({"certificate-authority": broken}),
            user,
            "certificate-authority is invalid",
        ),
        (none.clone(), json!({"token": format!("{SECRET}\n")}), "token"),
        (none.clone(), json!({"tokenFile": "/nowhere"}), "/nowhere"),
        (
            none.clone(),
            json!({"client-certificate": certificate}),
            "no client-key",
        ),
        (none.clone(), pair(&garbage, &key), "client-certificate"),
        (none.clone(), pair(&certificate, &garbage), "client-key"),
        (none.clone(), exec(&format!("echo {SECRET}; exit 7")), "7"),
        (none.clone(), exec(&format!("echo '{SECRET}: ['")), "exec"),
        (
            none,
            exec(&format!("echo '{{status: {{token: [{SECRET}]}}}}'")),
            "exec",
        ),
    ];
    for (cluster, user, word) in cases {
        let path = files.write("kubeconfig", &kubeconfig(cluster, &user));
        let words = [path.to_str().expect("text"), word, "check --kubeconfig"];
        is_rejected(&["--secure-port=0", &flag("kubeconfig", &path)], &words).await;
    }
}

#[tokio::test]
async fn invalid_kubeconfig_of_reviews_is_rejected() {
    let files = Files::new();
    let own = files.write("own", &kubeconfig(json!({}), &json!({"token": SECRET})));
    let own = flag("kubeconfig", &own);
    let garbage = files.write("garbage", SECRET);
    let failing = files.write("failing", &kubeconfig(json!({}), &exec("exit 7")));
    for name in ["authentication-kubeconfig", "authorization-kubeconfig"] {
        for (path, reason) in [
            (&files.path("missing"), "No such file or directory (os error 2)"),
            (&garbage, "it is not a valid kubeconfig"),
            (&failing, "7"),
        ] {
            // The port is bound first, and another process can use it.
            let sentence = time::eventually(time::ANSWER, async || {
                let port = format!("--secure-port={}", program::free_address().port());
                let arguments = ["--bind-address=127.0.0.1", &port, &own, &flag(name, path)];
                let sentence = rejection(&arguments).await;
                (!sentence.starts_with("cannot listen")).then_some(sentence)
            });
            let sentence = sentence.await.expect("a free port");
            let start = format!("cannot use the kubeconfig {}: ", path.display());
            let end = format!("{reason}; check --{name}");
            assert!(
                sentence.starts_with(&start) && sentence.ends_with(&end),
                "{sentence}"
            );
        }
    }
}

#[tokio::test]
async fn environment_proxy_is_rejected_unless_no_proxy_matches() {
    let files = Files::new();
    let cluster = json!({"server": "https://api.example.com:6443"});
    // The token is checked after the proxy.
    let user = json!({"token": format!("{SECRET}\n")});
    let path = files.write("kubeconfig", &kubeconfig(cluster, &user));
    let kubeconfig = flag("kubeconfig", &path);
    for proxy in [
        format!("http://me:{SECRET}@proxy:3128"),
        format!("{SECRET} is not a URL"),
    ] {
        let proxy = format!("HTTPS_PROXY={proxy}");
        let run = async |no_proxy: &str| {
            let arguments = [&*proxy, no_proxy, PROGRAM, "--secure-port=0", &*kubeconfig];
            let ended = program::run("/usr/bin/env", &arguments).await;
            assert_eq!(ended.code, Some(1), "{}", ended.stderr);
            assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
            ended.stderr
        };
        let rejected = run("NO_PROXY=10.0.0.0/8,other.example.com").await;
        for word in ["HTTPS_PROXY", "api.example.com:6443", "NO_PROXY"] {
            assert!(rejected.contains(word), "{rejected}");
        }
        assert!(!rejected.contains("--kubeconfig"), "{rejected}");
        let bypassed = run("NO_PROXY=.example.com").await;
        assert!(bypassed.contains("token contains"), "{bypassed}");
    }
}

#[tokio::test]
async fn invalid_serving_certificate_is_rejected() {
    let files = Files::new();
    let (one, other) = (
        certs::generate().expect("certificates"),
        certs::generate().expect("certificates"),
    );
    let certificate = flag("tls-cert-file", &files.write("cert", &one.cert));
    let key = flag("tls-private-key-file", &files.write("key", &other.key));
    let missing = flag("tls-cert-file", &files.path("missing"));
    let garbage = flag("tls-private-key-file", &files.write("garbage", SECRET));
    let port = format!("--secure-port={}", program::free_address().port());
    let cases: [(&str, &str, &[&str]); 3] = [
        (&missing, &key, &["missing", "No such file", "--tls-cert-file"]),
        (&certificate, &key, &["does not match", "--tls-private-key-file"]),
        (
            &certificate,
            &garbage,
            &["contains no private key", "--tls-private-key-file"],
        ),
    ];
    for (certificate, key, words) in cases {
        is_rejected(&["--sandbox", &port, certificate, key], words).await;
    }
    is_rejected(
        &["--sandbox", &port, &certificate],
        &["--tls-private-key-file must be given together"],
    )
    .await;
    let (missing, certificate, key) = (files.path("missing"), files.path("cert"), files.path("key"));
    for (certificate, key, reason) in [
        (&missing, &key, "No such file"),
        (&key, &key, "contains no certificate"),
        (&certificate, &certificate, "contains no private key"),
        (&certificate, &key, "does not match"),
    ] {
        let sni = format!("--tls-sni-cert-key={},{}", certificate.display(), key.display());
        is_rejected(
            &["--sandbox", &port, &sni],
            &[reason, "; --tls-sni-cert-key must name"],
        )
        .await;
    }
}

#[tokio::test]
async fn port_in_use_is_rejected() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let port = format!("--secure-port={}", taken.local_addr().expect("an address").port());
    let words: [&str; 3] = [&address, "in use", "--secure-port"];
    is_rejected(&["--sandbox", "--bind-address=127.0.0.1", &port], &words).await;

    // Nothing but --sandbox replaces a port.
    is_rejected(
        &["--kubeconfig=/nowhere", "--bind-address=127.0.0.1", &port],
        &words,
    )
    .await;

    let listen = format!("--sandbox-listen={address}");
    let words: [&str; 3] = [&address, "in use", "--sandbox-listen"];
    is_rejected(&["--sandbox", "--secure-port=0", &listen], &words).await;
}

#[tokio::test]
async fn foreign_kubeconfig_is_not_overwritten() {
    let files = Files::new();
    let foreign = files.write("foreign", &kubeconfig(json!({}), &json!({"token": SECRET})));
    let before = fs::read_to_string(&foreign).expect("it is there");
    let argument = flag("sandbox-kubeconfig", &foreign);
    let words: [&str; 3] = [
        foreign.to_str().expect("text"),
        "not a kubeconfig of a sandbox",
        "choose another",
    ];
    is_rejected(&["--sandbox", "--secure-port=0", &argument], &words).await;
    assert_eq!(fs::read_to_string(&foreign).expect("it is there"), before);

    let nowhere = files.path("no/such/directory");
    let argument = flag("sandbox-kubeconfig", &nowhere);
    is_rejected(
        &["--sandbox", "--secure-port=0", &argument],
        &[nowhere.to_str().expect("text"), "--sandbox-kubeconfig"],
    )
    .await;
}

#[tokio::test]
async fn control_characters_of_paths_are_escaped() {
    for flag in ["--config", "--kubeconfig", "--write-config-to"] {
        let sentence = rejection(&["--secure-port=0", &format!("{flag}=/nowhere/\u{e}")]).await;
        assert!(sentence.contains(r"/nowhere/\u{e}: No such file"), "{sentence}");
        assert!(!sentence.contains(char::is_control), "{sentence:?}");
    }
}
