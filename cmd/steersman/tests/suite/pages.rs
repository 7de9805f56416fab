//! Help, version and the generated references of the flags and the configuration file.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use steersman_harness::program;

use crate::PROGRAM;

#[tokio::test]
async fn help_and_version_go_to_stdout() {
    for (flag, begins, contains) in [
        ("--help", "A controller manager for Kubernetes", "hollow-kubelet"),
        ("-h", "A controller manager for Kubernetes", "--leader-elect"),
        ("help", "A controller manager for Kubernetes", "steersman tour"),
        ("--version", "Steersman v", env!("CARGO_PKG_VERSION")),
        ("version", "Steersman v", env!("CARGO_PKG_VERSION")),
    ] {
        let ended = program::run(PROGRAM, &[flag]).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{flag}");
        assert!(ended.stdout.starts_with(begins), "{flag}: {}", ended.stdout);
        assert!(ended.stdout.contains(contains), "{flag}: {}", ended.stdout);
    }
}

#[tokio::test]
async fn version_as_json_describes_the_build() {
    let ended = program::run(PROGRAM, &["version", "--output", "json"]).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let document: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(document["gitVersion"], concat!("v", env!("CARGO_PKG_VERSION")));
    assert!(
        document["rustVersion"]
            .as_str()
            .is_some_and(|it| it.starts_with("rustc"))
    );
}

#[test]
fn failed_output_is_an_error() {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let ended = Command::new(PROGRAM)
        .arg("crds")
        .stdout(full)
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with("Error: cannot write to standard output: No space left"),
        "{stderr}"
    );
    // A closed pipe is not an error.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = Command::new(PROGRAM)
        .arg("crds")
        .stdout(writer)
        .output()
        .expect("it runs");
    assert_eq!(
        (ended.status.code(), ended.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}

#[test]
fn references_are_up_to_date() {
    let known = steersman::known().controllers;
    for (name, current) in [
        ("FLAGS.md", steersman_config::markdown(&known)),
        ("CONFIGURATION.md", steersman_config::reference(&known)),
        ("schema.json", steersman_config::schema(&known)),
    ] {
        let page = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../config")
            .join(name);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&page, &current).expect("the page can be written");
        }
        let committed = std::fs::read_to_string(&page).unwrap_or_default();
        assert!(
            committed == current,
            "config/{name} is out of date: run `UPDATE=1 cargo test -p steersman --test suite references` and commit it"
        );
    }
}
