//! What a reader is shown before anything runs.

use std::path::Path;

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
