//! `steersman` as a child process: output, endpoints, exit code and signals.

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::Range,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{Api, certs, time};

/// The limit of a start on a busy machine.
const START: Duration = Duration::from_mins(2);

/// Another process can take a free port before the program listens on it.
const ATTEMPTS: usize = 3;

/// Ports of [`free_address`]. Linux takes ports of connections from 32768 and above.
const PORTS: Range<u16> = 10_000..32_000;
/// Distance between the first ports of processes with consecutive ids.
const SPREAD: u32 = 4_001;

/// A program that runs. Dropping it kills it.
pub struct Program {
    child: Child,
    files: Files,
    endpoints: Api,
    address: SocketAddr,
}

/// A program that has ended.
pub struct Ended {
    /// Its exit code; none if a signal has killed it.
    pub code: Option<i32>,
    /// The output.
    pub stdout: String,
    /// The errors and the log.
    pub stderr: String,
    /// The names of the files that the program left in its temporary directory.
    pub left: Vec<PathBuf>,
}

/// The output and the temporary directory of one process.
struct Files(TempDir);

impl Program {
    /// Starts `binary` with `arguments`, and a port for its endpoints. Returns when they are open.
    pub async fn start(binary: &str, arguments: &[&str]) -> Self {
        for _ in 0..ATTEMPTS {
            let address = free_address();
            let flags = [
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={}", address.port()),
            ];
            let files = Files::new();
            let identity = certs::client().expect("a certificate");
            let authority = format!("--client-ca-file={}", files.write("client-ca.crt", &identity.ca));
            let mut child = files
                .command(binary, arguments)
                .args(flags)
                .arg(authority)
                .spawn()
                .expect("it starts");
            let open = time::eventually(START, async || {
                match child.try_wait().expect("a child can be waited for") {
                    Some(status) => Some(Err(status)),
                    None => files.read("stderr").contains("\"Starting\"").then_some(Ok(())),
                }
            });
            match open.await {
                Some(Ok(())) => {
                    let endpoints = endpoints(address, Some(&identity));
                    return Self {
                        child,
                        files,
                        endpoints,
                        address,
                    };
                }
                Some(Err(_)) if files.read("stderr").contains("cannot listen on 127.0.0.1") => {}
                Some(Err(status)) => panic!("it ended, with {status}: {}", files.read("stderr")),
                None => panic!("it does not start: {}", files.read("stderr")),
            }
        }
        panic!("found no free port");
    }

    /// Returns a client of its endpoints without credentials.
    pub fn anonymous(&self) -> Api {
        endpoints(self.address, None)
    }

    /// Its endpoints, for an administrator.
    pub fn endpoints(&self) -> &Api {
        &self.endpoints
    }

    /// The process id. None after the end of the process was observed.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// The address of its endpoints.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The output so far.
    pub fn stdout(&self) -> String {
        self.files.read("stdout")
    }

    /// The log so far.
    pub fn log(&self) -> String {
        self.files.read("stderr")
    }

    /// The files in its temporary directory.
    pub fn temporary_files(&self) -> Vec<PathBuf> {
        self.files.temporary()
    }

    /// The value of a series at its `/metrics`, given with all its labels; none if the series or the answer is missing.
    pub async fn metric(&self, series: &str) -> Option<f64> {
        let request = http::Request::get("/metrics").body(Vec::new()).ok()?;
        let client = self.endpoints.client();
        let page = time::within(time::ANSWER, client.request_text(request));
        let page = page.await?.ok()?;
        let value = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
        page.lines().find_map(value)
    }

    /// Whether the program is the leader by the Lease of this name.
    pub async fn leads(&self, lease: &str) -> bool {
        let series = format!("leader_election_master_status{{name=\"{lease}\"}}");
        self.metric(&series).await == Some(1.0)
    }

    /// Waits until there is a line in its log that contains `text`.
    pub async fn logs(&self, text: &str) {
        let logged = time::eventually(time::ANSWER, async || self.log().contains(text).then_some(()));
        assert!(
            logged.await.is_some(),
            "{text:?} is not in its log:\n{}",
            self.log()
        );
    }

    /// Sends a signal and returns the time.
    pub fn signal(&self, signal: Signal) -> Instant {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        let pid = id.and_then(Pid::from_raw);
        let pid = pid.unwrap_or_else(|| panic!("it has ended already:\n{}", self.log()));
        let sent = time::now();
        rustix::process::kill_process(pid, signal).expect("a signal to a child of ours");
        sent
    }

    /// Kills the program and waits for its end. Returns at once if it has ended.
    pub async fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill().await;
    }

    /// Waits until the program ends by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        self.child.wait().await.expect("a child can be waited for")
    }

    /// Waits for the end of the program.
    pub async fn ends_within(mut self, limit: Duration) -> Ended {
        let status = time::within(limit, self.child.wait()).await;
        let status = status.unwrap_or_else(|| panic!("it has not ended within {limit:?}:\n{}", self.log()));
        self.files.ended(status.expect("a child can be waited for"))
    }

    /// Whether the program is running.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

/// Runs `binary` until it ends.
pub async fn run(binary: &str, arguments: &[&str]) -> Ended {
    let files = Files::new();
    let mut child = files.command(binary, arguments).spawn().expect("it starts");
    let status = time::within(time::ANSWER, child.wait()).await;
    let status = status.unwrap_or_else(|| panic!("{arguments:?}: it runs:\n{}", files.read("stderr")));
    files.ended(status.expect("a child can be waited for"))
}

/// Returns an address on loopback without a listener. The port is outside the range that the system takes ports of connections
/// from, so that it stays free until a process listens on it. Each process and each call tries other ports.
pub fn free_address() -> SocketAddr {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let ports = u32::from(PORTS.end - PORTS.start);
    let first = std::process::id() % ports * SPREAD;
    let address = (0..ports).find_map(|_| {
        let port = (first + CALLS.fetch_add(1, Ordering::Relaxed)) % ports;
        let port = PORTS.start + u16::try_from(port).ok()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
        listener.local_addr().ok()
    });
    address.expect("a free port")
}

/// The program generates its certificate at its start, so that clients cannot verify it.
fn endpoints(address: SocketAddr, identity: Option<&certs::Client>) -> Api {
    let url = format!("https://{address}").parse().expect("a URL");
    let mut config = kube::Config::new(url);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    if let Some(identity) = identity {
        let encode = |pem: &str| BASE64_STANDARD.encode(pem);
        config.auth_info.client_certificate_data = Some(encode(&identity.cert));
        config.auth_info.client_key_data = Some(encode(&identity.key).into());
    }
    Api::new(kube::Client::try_from(config).expect("a client"))
}

// === impl Files ===

impl Files {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("steersman-tests-").tempdir();
        let dir = dir.expect("a directory");
        fs::create_dir(dir.path().join("tmp")).expect("a directory");
        Self(dir)
    }

    /// Outside of any cluster.
    fn command(&self, binary: &str, arguments: &[&str]) -> Command {
        let output = |name| Stdio::from(File::create(self.0.path().join(name)).expect("a file"));
        let mut command = Command::new(binary);
        command
            .args(arguments)
            .env("TMPDIR", self.0.path().join("tmp"))
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("KUBERNETES_SERVICE_PORT")
            .stdin(Stdio::null())
            .stdout(output("stdout"))
            .stderr(output("stderr"))
            .kill_on_drop(true);
        command
    }

    fn write(&self, name: &str, content: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, content).expect("a file");
        path.display().to_string()
    }

    fn read(&self, name: &str) -> String {
        let text = fs::read(self.0.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    fn temporary(&self) -> Vec<PathBuf> {
        names(&self.0.path().join("tmp")).expect("its directory")
    }

    fn ended(&self, status: ExitStatus) -> Ended {
        Ended {
            code: status.code(),
            stdout: self.read("stdout"),
            stderr: self.read("stderr"),
            left: self.temporary(),
        }
    }
}

/// The files in a directory and its subdirectories.
fn names(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(names(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}
