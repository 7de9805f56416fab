//! Log formats, and secrets that must not be logged.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use steersman_harness::program::free_address;
use steersman_harness::{Program, certs, endpoint, fixtures, time};
use tokio::process::Command;

use crate::PROGRAM;
use crate::sandbox;

/// The content of a Secret, and a bearer token.
const SECRET: &str = "hunter2-and-some-more";

/// Whether a line starts with klog's header: `I0528 19:15:22.737538   47512 file.rs:123] `.
fn has_header(line: &str) -> bool {
    let shape: String = line
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    let Some((head, rest)) = line.split_once("] ") else {
        return false;
    };
    let caller = head
        .rsplit(' ')
        .next()
        .and_then(|caller| caller.split_once(".rs:"));
    let numbered = caller.is_some_and(|(_, number)| number.parse::<u32>().is_ok());
    let severity = line.starts_with(['I', 'W', 'E']);
    severity && shape[1..].starts_with("0000 00:00:00.000000 ") && numbered && rest.starts_with('"')
}

#[tokio::test]
async fn text_lines_have_the_klog_header() {
    let program = sandbox::start(&["-v=4"]).await;
    sandbox::leads(&program).await;
    program.signal(Signal::TERM);
    let ended = program.ends_within(time::ANSWER).await;
    assert!(ended.stderr.lines().count() > 3, "{}", ended.stderr);
    for line in ended.stderr.lines() {
        assert!(has_header(line), "{line}");
    }
}

/// The sample `AppService` makes every controller reconcile.
#[tokio::test]
async fn json_lines_are_valid_and_log_objects_in_one_form() {
    let program = sandbox::start(&["--logging-format=json", "-v=4"]).await;
    sandbox::leads(&program).await;
    let kinds = ["appService", "deployment", "replicaSet", "pod", "node", "lease"];
    let logged = time::eventually(time::ANSWER, async || {
        let log = program.log();
        let all = kinds
            .iter()
            .all(|kind| log.contains(&format!("\"{kind}\":{{\"name\":\"")));
        all.then_some(())
    });
    assert!(logged.await.is_some(), "{}", program.log());
    program.signal(Signal::TERM);
    let ended = program.ends_within(time::ANSWER).await;
    assert!(ended.stderr.lines().count() > 3, "{}", ended.stderr);
    for line in ended.stderr.lines() {
        let parsed: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(
            parsed["ts"].is_f64() && parsed["msg"].is_string() && parsed["v"].is_u64(),
            "{line}"
        );
        for (key, value) in parsed.as_object().into_iter().flatten() {
            assert!(!is_object_in_another_form(key, value), "{key}: {line}");
        }
    }
}

/// Whether a field names an object by its key instead of `{"name":…,"namespace":…}`, or under another key than its kind.
fn is_object_in_another_form(key: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let known = |it: &str| ["default", "kube-system"].contains(&it);
            let name = |it: &str| !it.contains(['/', ' ']);
            text.split_once('/')
                .is_some_and(|(namespace, rest)| known(namespace) && name(rest))
                || ["key", "name"].contains(&key)
        }
        Value::Object(reference) => key == "object" || !reference.contains_key("name"),
        Value::Array(_) => true,
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// CVE-2019-11250: a client that prints its requests prints its token.
#[tokio::test]
async fn no_credential_is_logged_or_served_at_any_verbosity() {
    // Private keys in files that flags name.
    let dir = tempfile::tempdir().expect("a directory");
    let certs = certs::generate().expect("certificates");
    for (file, content) in [("tls.crt", &certs.cert), ("tls.key", &certs.key)] {
        fs::write(dir.path().join(file), content).expect("a file");
    }
    let path = dir.path().display();
    let flags = [
        format!("--tls-cert-file={path}/tls.crt"),
        format!("--tls-private-key-file={path}/tls.key"),
        format!("--webhook-cert-dir={path}"),
        format!("--webhook-port={}", free_address().port()),
    ];
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend(["-v=10", "--logging-format=json"]);
    let embedded = sandbox::start(&flags).await;
    sandbox::leads(&embedded).await;
    let kubeconfig = sandbox::summary_value(&embedded.stdout(), "Kubeconfig:");
    let text = fs::read_to_string(&kubeconfig).expect("it is there");
    let token = text.lines().find_map(|line| line.trim().strip_prefix("token: "));
    let token = token.expect("a token").trim_matches('"').to_owned();
    let api = sandbox::api(&embedded).await;

    // The content of a Secret, whose metadata the garbage collector caches.
    let secrets = fixtures::core("default", "secrets");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"key": SECRET}});
    api.post(&secrets, secret).await.expect(201);
    // A client that presents a token to the endpoints.
    let pages = async |program: &Program| {
        let mut text = String::new();
        for page in [
            "/metrics",
            "/flagz",
            "/configz",
            "/statusz",
            "/debug/flags/v",
            "/healthz?verbose",
            "/none",
        ] {
            let request = http::Request::get(page).header("Authorization", format!("Bearer {SECRET}"));
            let request = request.body(Vec::new()).expect("a request");
            // A page may be refused: the error must not quote the token either.
            let page = program.endpoints().client().request_text(request).await;
            text.push_str(&page.unwrap_or_else(|error| format!("{error:?}")));
        }
        text
    };

    // A second process uses the same API server, over the network.
    let argument = format!("--kubeconfig={kubeconfig}");
    let flags = [argument.as_str(), "--leader-elect-resource-name=second", "-v=10"];
    let over_network = Program::start(PROGRAM, &flags).await;
    let leads = time::eventually(time::ANSWER, async || {
        over_network.leads("second").await.then_some(())
    });
    assert!(leads.await.is_some(), "{}", over_network.log());
    let pods = fixtures::core("default", "pods");
    api.post(&pods, fixtures::pod("web")).await.expect(201);
    sandbox::becomes(&api, "web", sandbox::is_ready).await;
    let key: Vec<&str> = certs.key.lines().filter(|line| !line.starts_with('-')).collect();
    assert!(!key.is_empty());
    for program in [over_network, embedded] {
        let pages = pages(&program).await;
        program.signal(Signal::TERM);
        let ended = program.ends_within(time::ANSWER).await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let encoded = BASE64_STANDARD.encode(SECRET);
        for secret in [&*token, SECRET, &*encoded, "PRIVATE KEY"].iter().chain(&key) {
            for shown in [&ended.stderr, &ended.stdout, &pages] {
                assert!(!shown.contains(secret), "{secret}: {shown}");
            }
        }
        for scheme in ["Bearer", "bearer"] {
            assert!(!ended.stderr.contains(scheme), "{}", ended.stderr);
        }
    }
}

/// As in `steersman --sandbox 2>&1 | head -1`.
#[tokio::test]
async fn closed_output_does_not_stop_the_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let kubeconfig = dir.path().join("kubeconfig");
    let mut child = Command::new(PROGRAM)
        .args(["--sandbox", "--secure-port=0", "--sandbox-kubeconfig"])
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    drop((child.stdout.take(), child.stderr.take()));
    // The lease is created after the summary is printed and after the first log lines.
    let lease = format!("{}/steersman", fixtures::leases("kube-system"));
    // The file exists before the server answers.
    let works = time::eventually(Duration::from_mins(2), async || {
        let client = endpoint::client(&kubeconfig).await.ok()?;
        let request = http::Request::get(&lease).body(Vec::new()).ok()?;
        client.request_text(request).await.ok().map(drop)
    });
    assert!(works.await.is_some(), "it does not work: {:?}", child.try_wait());
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    rustix::process::kill_process(pid.expect("it runs"), Signal::TERM).expect("a signal to a child");
    let status = time::within(time::ANSWER, child.wait()).await.expect("it ends");
    assert_eq!(status.expect("a status").code(), Some(0));
}
