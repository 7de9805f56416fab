//! The program `steersman-sandbox`: output, kubeconfig, invalid arguments, exit code.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_steersman-sandbox");

fn refused(arguments: &[&str]) -> String {
    let Output {
        status,
        stderr,
        stdout,
    } = Command::new(PROGRAM).args(arguments).output().expect("it starts");
    assert_eq!(status.code(), Some(1));
    assert!(stdout.is_empty(), "nothing was started");
    let error = String::from_utf8(stderr).expect("text");
    assert!(error.starts_with("Error: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

struct Running {
    child: Child,
    printed: String,
}

/// Starts the program and waits until it has printed its last line.
fn start(arguments: &[&str]) -> Running {
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output"));
    let mut printed = String::new();
    while !printed.contains("This is a bare API") {
        assert_ne!(
            lines.read_line(&mut printed).expect("text"),
            0,
            "ended early: {printed}"
        );
    }
    Running { child, printed }
}

impl Running {
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &id])
                .status()
                .expect("kill starts")
                .success()
        );
        let status = self.child.wait().expect("it ends");
        (status.code(), self.printed)
    }
}

fn kubeconfig_of(printed: &str) -> &Path {
    let line = printed
        .lines()
        .find_map(|l| l.strip_prefix("Kubeconfig:"))
        .expect("a line that names the kubeconfig");
    Path::new(line.trim())
}

#[test]
fn kubeconfig_is_private_and_signals_end_the_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    for signal in ["TERM", "INT"] {
        let running = start(&["--kubeconfig", file.to_str().expect("text")]);
        let text = fs::read_to_string(&file).expect("a kubeconfig");
        assert_eq!(
            fs::metadata(&file).expect("it is there").permissions().mode() & 0o777,
            0o600
        );
        let url = running
            .printed
            .lines()
            .find_map(|l| l.strip_prefix("Listening on "))
            .expect("an address")
            .to_owned();
        assert!(url.starts_with("https://127.0.0.1:"), "{url}");
        assert!(text.contains(&format!("server: {url}\n")), "{text}");
        assert_eq!(running.end(signal).0, Some(0));
        assert!(file.exists(), "a file that the user named is kept");
    }
}

#[test]
fn default_kubeconfig_is_temporary() {
    let running = start(&[]);
    let path = kubeconfig_of(&running.printed).to_owned();
    assert!(path.exists());
    let directory = path.parent().expect("a directory");
    let mode = fs::metadata(directory).expect("it exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "the directory is private");
    assert_eq!(running.end("TERM").0, Some(0));
    assert!(!path.exists());
    assert!(directory.exists(), "the directory is kept");
}

#[test]
fn foreign_kubeconfig_is_not_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    fs::write(&file, "current-context: production\n").expect("it can be written");
    let error = refused(&["--kubeconfig", file.to_str().expect("text")]);
    assert!(error.contains("is not a kubeconfig of a sandbox"), "{error}");
    assert_eq!(
        fs::read_to_string(&file).expect("it is there"),
        "current-context: production\n"
    );
}

#[test]
fn invalid_arguments_print_one_sentence() {
    let error = refused(&["--listen", "0.0.0.0:0"]);
    assert!(error.contains("--allow-remote"), "{error}");
    let error = refused(&["--kubeconfig", "/no/such/directory/config"]);
    assert!(
        error.contains("cannot write the kubeconfig /no/such/directory/config"),
        "{error}"
    );
    let error = refused(&["--kubeconfig", "/nowhere/\u{e}"]);
    assert!(error.contains(r"/nowhere/\u{e}: No such file"), "{error}");
    for wrong in [
        "hooks",
        "default/hooks=127.0.0.1:1",
        "default/hooks:443=here",
        "/hooks:1=127.0.0.1:1",
    ] {
        let error = refused(&["--service", wrong]);
        assert!(
            error.contains("expected NAMESPACE/NAME:PORT=ADDRESS:PORT"),
            "{error}"
        );
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let error = refused(&["--listen", &address]);
    assert!(error.contains(&format!("cannot listen on {address}")), "{error}");
    for (arguments, message) in [
        (&["--port", "1"][..], "unexpected argument '--port' found"),
        (
            &["--lisen=1"],
            "found; tip: a similar argument exists: '--listen'; see",
        ),
        (
            &["--authorization", "none"],
            "[possible values: always-allow, rbac]",
        ),
        (&["--listen"], "a value is required for '--listen <ADDRESS>'"),
        (&["a\nb"], "unexpected argument 'a b' found"),
    ] {
        let error = refused(arguments);
        assert!(error.contains(message), "{error}");
        assert!(error.ends_with("; see `steersman-sandbox --help`\n"), "{error}");
        assert!(!error.contains("Usage"), "{error}");
    }
}

#[test]
fn help_describes_the_program() {
    let output = Command::new(PROGRAM).arg("--help").output().expect("it starts");
    let help = String::from_utf8(output.stdout).expect("text");
    for part in [
        "A Kubernetes API in one process",
        "--listen",
        "--kubeconfig",
        "--allow-remote",
        "--authorization",
        "Pods do not run",
    ] {
        assert!(help.contains(part), "no {part:?} in\n{help}");
    }
}

/// A file at the path of the temporary file belongs to another program.
#[test]
fn foreign_temporary_file_is_not_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    let script = "echo precious > \"$1.$$\"; exec \"$0\" --kubeconfig \"$1\"";
    let output = Command::new("sh")
        .args(["-c", script, PROGRAM, file.to_str().expect("text")])
        .output()
        .expect("it starts");
    assert!(!output.status.success(), "the program failed");
    let left = fs::read_dir(dir.path()).expect("a directory").count();
    assert_eq!(left, 1, "the file is kept");
}

#[test]
fn closed_stdout_does_not_panic() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    let mut child = Command::new(PROGRAM)
        .args(["--kubeconfig", file.to_str().expect("text")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    // The program writes the file before it prints.
    while !file.exists() {
        assert!(
            child.try_wait().expect("a child of ours").is_none(),
            "it ended early"
        );
        std::thread::yield_now();
    }
    let running = Running {
        child,
        printed: String::new(),
    };
    assert_eq!(running.end("TERM").0, Some(0));
}
