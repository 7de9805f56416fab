//! What a reader is shown before anything runs.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use coxswain_tests::program;

use crate::PROGRAM;

#[tokio::test]
async fn help_and_version_go_to_stdout() {
    for (flag, begins, contains) in [
        ("--help", "A controller manager for Kubernetes", "hollow-kubelet"),
        ("-h", "A controller manager for Kubernetes", "--leader-elect"),
        ("--version", "Coxswain v", env!("CARGO_PKG_VERSION")),
    ] {
        let ended = program::run(PROGRAM, &[flag]).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{flag}");
        assert!(ended.stdout.starts_with(begins), "{flag}: {}", ended.stdout);
        assert!(ended.stdout.contains(contains), "{flag}: {}", ended.stdout);
    }
}

#[test]
fn what_cannot_be_printed_is_not_a_success() {
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("a disk that is full");
    let ended = Command::new(PROGRAM)
        .arg("crds")
        .stdout(full)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.starts_with("Error: cannot print: No space left"), "{said}");
    // Nobody reads it: nobody misses it.
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
fn the_reference_page_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/FLAGS.md");
    let current = coxswain_config::markdown(&coxswain::known());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&page, &current).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(
        committed == current,
        "config/FLAGS.md is out of date: run `UPDATE=1 cargo test -p coxswain --test suite reference_page` and commit it"
    );
}
