//! The configuration file: validation, output and reload.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use steersman_harness::{Program, program, time};

use crate::{PROGRAM, process_pages, sandbox};

const HEADER: &str = "apiVersion: config.steersman.dev/v1alpha1\nkind: ControllerManagerConfiguration\n";

#[tokio::test]
async fn file_is_validated_and_written() {
    let files = tempfile::tempdir().expect("a directory");
    let (good, bad, written) = (
        files.path().join("good.yaml"),
        files.path().join("bad.yaml"),
        files.path().join("written.yaml"),
    );
    fs::write(&good, format!("{HEADER}logging: {{verbosity: 3}}\n")).expect("a file");
    fs::write(&bad, format!("{HEADER}logging: {{verbositi: 3}}\n")).expect("a file");
    let config = |path: &std::path::Path| format!("--config={}", path.display());

    let ended = program::run(PROGRAM, &[&config(&good), "--validate-only"]).await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "The configuration is valid\n")
    );
    let ended = program::run(PROGRAM, &[&config(&bad), "--validate-only"]).await;
    let expected = format!(
        "Error: cannot use the configuration file {}: unknown field logging.verbositi; did you mean logging.verbosity?\n",
        bad.display()
    );
    assert_eq!((ended.code, ended.stderr), (Some(1), expected));

    // An existing file is replaced.
    fs::write(&written, "old").expect("a file");
    let to = format!("--write-config-to={}", written.display());
    let ended = program::run(PROGRAM, &[&config(&good), &to]).await;
    assert_eq!(
        (ended.code, ended.stderr.as_str(), ended.stdout.as_str()),
        (Some(0), "", "")
    );
    let text = fs::read_to_string(&written).expect("a file");
    assert!(text.contains("  verbosity: 3\n"), "{text}");
    let ended = program::run(PROGRAM, &[&config(&written), "--write-config-to=-"]).await;
    assert_eq!((ended.code, ended.stdout), (Some(0), text));
    let ended = program::run(PROGRAM, &["--write-config-to=/nowhere/c.yaml"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("/nowhere/c.yaml"), "{}", ended.stderr);
    assert!(
        ended.stderr.ends_with("check --write-config-to\n"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        fs::read_dir(files.path()).expect("a directory").count(),
        3,
        "no temporary file is left"
    );
}

#[tokio::test]
async fn completion_script_is_valid_bash() {
    let files = tempfile::tempdir().expect("a directory");
    let script = files.path().join("steersman.bash");
    let ended = program::run(PROGRAM, &["completion", "bash"]).await;
    fs::write(&script, ended.stdout).expect("a file");
    let checked = Command::new("bash")
        .arg("-n")
        .arg(&script)
        .output()
        .expect("bash");
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    // The script completes a value.
    let complete = format!(
        "source {}; COMP_WORDS=(steersman --tls-min-version V); COMP_CWORD=2; \
         _steersman steersman V --tls-min-version; echo ${{COMPREPLY[*]}}",
        script.display()
    );
    let completed = Command::new("bash")
        .arg("-c")
        .arg(complete)
        .output()
        .expect("bash");
    assert_eq!(
        String::from_utf8_lossy(&completed.stdout).trim(),
        "VersionTLS12 VersionTLS13"
    );
}

/// Waits for a line of the JSON log with this message that matches.
async fn logs(program: &Program, message: &str, matches: impl Fn(&Value) -> bool) {
    let logged = time::eventually(time::ANSWER, async || {
        let log = program.log();
        let mut lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines
            .any(|line| (message.is_empty() || line["msg"] == message) && matches(&line))
            .then_some(())
    });
    assert!(logged.await.is_some(), "{message}: {}", program.log());
}

/// Asserts that the pages show the reloaded fields, and the values in force of those that require a restart.
async fn shows_running_values(program: &Program) {
    let page = process_pages::get(program, "/configz").await.json();
    let config = &page["config.steersman.dev"];
    assert_eq!(
        (
            &config["logging"]["verbosity"],
            &config["clientConnection"]["qps"],
            &config["generic"]["namespaces"],
        ),
        (&json!(4), &json!(50), &json!(["default"])),
        "{config}"
    );
    let page = process_pages::get(program, "/flagz").await;
    let flags = page.text();
    for line in ["\nkube-api-qps=50\n", "\nnamespaces=default\n", "\nv=4\n"] {
        assert!(flags.contains(line), "{flags}");
    }
}

#[tokio::test]
async fn sighup_reloads_verbosity_and_rejects_an_invalid_file() {
    let files = tempfile::tempdir().expect("a directory");
    let path = files.path().join("config.yaml");
    let write = |fields: &str| fs::write(&path, format!("{HEADER}{fields}")).expect("a file");
    write("generic: {namespaces: [default]}\nlogging: {format: json}\n");
    let program = sandbox::start(&[&format!("--config={}", path.display())]).await;
    sandbox::leads(&program).await;
    assert!(!program.log().contains("\"v\":4"), "{}", program.log());

    write(
        "generic: {namespaces: [other]}\nlogging: {format: json, verbosity: 4}\nclientConnection: {qps: 50}\n",
    );
    program.signal(Signal::HUP);
    let fields = |fields: &'static str| move |line: &Value| line["fields"] == fields;
    logs(
        &program,
        "Configuration change requires a restart",
        fields("generic.namespaces"),
    )
    .await;
    let reloaded = "clientConnection.burst,clientConnection.qps,logging.verbosity";
    logs(&program, "Reloaded configuration", fields(reloaded)).await;
    logs(&program, "", |line| line["v"] == 4).await;
    shows_running_values(&program).await;

    write("logging: {verbosity: loud}\n");
    program.signal(Signal::HUP);
    let message = "Failed to reload configuration, the previous one stays in effect";
    let names_the_field = |line: &Value| {
        let error = line["error"].as_str().unwrap_or_default();
        error.ends_with(": logging.verbosity must be an integer, not \"loud\"")
    };
    logs(&program, message, names_the_field).await;
    shows_running_values(&program).await;
    sandbox::leads(&program).await;
    program.signal(Signal::TERM);
    let ended = program.ends_within(time::ANSWER).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
