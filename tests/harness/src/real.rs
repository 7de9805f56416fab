//! The real tier: etcd, kube-apiserver and, if its binary exists, kube-controller-manager with the controllers that the sandbox
//! has built in (namespace, service account, cluster role aggregation, resource quota). [`KCM`] adds the controllers that ours
//! are compared with.
//!
//! The flags work for 1.20 and 1.36. Some depend on the version of the binary.

use std::{
    env, fs, io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    certs,
    cluster::StartError,
    endpoint::{self, Endpoint},
    process::Process,
    time,
};

/// The environment variable that makes KCM run its own controllers in place of ours, so that the suites test them. Its value
/// is `1`.
pub const KCM: &str = "STEERSMAN_TEST_KCM";

/// The name of the kubeconfig in the run's directory.
pub const KUBECONFIG: &str = "kubeconfig";

/// The limit of a start on a busy machine.
const START: Duration = Duration::from_mins(2);

/// Another process can take a free port before the server listens on it.
const ATTEMPTS: usize = 3;

/// Namespaces that a server creates by itself, the first one only after it is ready.
const OWN_NAMESPACES: [&str; 2] = ["default", "kube-system"];

/// The servers of one run. Dropping it stops them, the last started first, and then removes their directory.
pub struct Servers {
    /// The address and credentials.
    pub endpoint: Endpoint,
    /// The address of etcd, such as `http://127.0.0.1:2379`.
    pub etcd: String,
    /// Whether KCM runs.
    pub has_kcm: bool,
    processes: Vec<Process>,
}

/// Whether [`KCM`] is set.
pub(crate) fn kcm_instead_of_ours() -> bool {
    env::var_os(KCM).is_some_and(|value| value == "1")
}

/// Starts the servers of `assets`, all in `dir`, and returns when they are ready.
pub async fn start(assets: &Path, dir: &TempDir) -> Result<Servers, StartError> {
    start_with(assets, dir, &[]).await
}

/// [`start`] with more flags of kube-apiserver.
pub async fn start_with(assets: &Path, dir: &TempDir, flags: &[&str]) -> Result<Servers, StartError> {
    let mut attempt = 1;
    loop {
        match attempt_start(assets, dir.path(), flags).await {
            Err(StartError::Server { log, .. })
                if attempt < ATTEMPTS && log.contains("address already in use") =>
            {
                attempt += 1;
            }
            result => return result,
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        while let Some(process) = self.processes.pop() {
            drop(process);
        }
    }
}

async fn attempt_start(assets: &Path, dir: &Path, flags: &[&str]) -> Result<Servers, StartError> {
    let apiserver = assets.join("kube-apiserver");
    let minor = minor_version(&apiserver)?;
    let certs = certs::generate()?;
    let file = |name: &str, text: &str| -> io::Result<PathBuf> {
        let path = dir.join(name);
        fs::write(&path, text)?;
        Ok(path)
    };
    let [etcd_port, peer_port, port] = free_ports()?;
    let mut servers = Servers {
        endpoint: Endpoint {
            url: format!("https://127.0.0.1:{port}"),
            ca_pem: certs.ca,
            token: certs.token,
        },
        etcd: format!("http://127.0.0.1:{etcd_port}"),
        has_kcm: false,
        processes: Vec::new(),
    };
    let kubeconfig = dir.join(KUBECONFIG);
    servers.endpoint.write_kubeconfig(&kubeconfig)?;

    let data = dir.join("etcd");
    let _ = fs::remove_dir_all(&data);
    let etcd = [
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls=http://127.0.0.1:{etcd_port}"),
        format!("--advertise-client-urls=http://127.0.0.1:{etcd_port}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
        format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}"),
        format!("--initial-cluster=default=http://127.0.0.1:{peer_port}"),
        // Nothing here is to survive anything. (From 3.4.10 on; no older one is packaged where this runs.)
        "--unsafe-no-fsync".to_owned(),
    ];
    servers
        .processes
        .push(Process::start("etcd", dir, &find_etcd(assets)?, &etcd)?);

    let signer = file("service-account.key", &certs.service_account_key)?;
    let verifier = file("service-account.pub", &certs.service_account_public)?;
    let own = [
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        // A loopback address may not be written into the endpoints of the service `kubernetes`.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file("server.crt", &certs.cert)?.display()),
        format!(
            "--tls-private-key-file={}",
            file("server.key", &certs.key)?.display()
        ),
        format!(
            "--token-auth-file={}",
            file(
                "tokens.csv",
                &format!("{},admin,admin,system:masters\n", servers.endpoint.token)
            )?
            .display()
        ),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", verifier.display()),
        format!("--service-account-signing-key-file={}", signer.display()),
        "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--allow-privileged=true".to_owned(),
    ];
    let api: Vec<&str> = own
        .iter()
        .map(String::as_str)
        .chain(flags.iter().copied())
        .collect();
    servers
        .processes
        .push(Process::start("kube-apiserver", dir, &apiserver, &api)?);
    wait_until_ready(&mut servers, &kubeconfig).await?;

    let kcm = assets.join("kube-controller-manager");
    if kcm_instead_of_ours() && !kcm.exists() {
        return Err(StartError::Assets(format!(
            "{KCM} is set, and there is no {}",
            kcm.display()
        )));
    }
    if kcm.exists() {
        let controllers = if kcm_instead_of_ours() {
            "clusterrole-aggregation,deployment,garbagecollector,namespace,replicaset,replicationcontroller,\
             resourcequota,serviceaccount"
        } else {
            "namespace,serviceaccount,clusterrole-aggregation,resourcequota"
        };
        let mut flags = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--controllers={controllers}"),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
        ];
        if minor < 24 {
            flags.push("--port=0".to_owned()); // The insecure port, on a fixed number unless switched off.
        }
        servers
            .processes
            .push(Process::start("kube-controller-manager", dir, &kcm, &flags)?);
        servers.has_kcm = true;
    }
    Ok(servers)
}

/// Polls `/readyz` until the server is ready and its own namespaces exist. Fails if a server ends, or after [`START`].
async fn wait_until_ready(servers: &mut Servers, kubeconfig: &Path) -> Result<(), StartError> {
    let client = endpoint::client(kubeconfig).await?;
    let ready = time::eventually(START, async || {
        if let Some(dead) = servers
            .processes
            .iter_mut()
            .find_map(|p| p.has_ended().then_some(&*p))
        {
            return Some(Err(StartError::server(dead, "ended by itself")));
        }
        let get = async |path: &str| {
            let request = http::Request::get(path).body(Vec::new()).ok()?;
            time::within(time::ANSWER, client.request_text(request))
                .await?
                .ok()
        };
        if get("/readyz").await? != "ok" {
            return None;
        }
        for namespace in OWN_NAMESPACES {
            get(&format!("/api/v1/namespaces/{namespace}")).await?;
        }
        Some(Ok(()))
    })
    .await;
    let slow = || {
        servers
            .processes
            .last()
            .map(|p| StartError::server(p, "was not ready in time"))
    };
    ready.or_else(|| slow().map(Err)).unwrap_or(Ok(()))
}

/// The minor version that the binary prints (`Kubernetes v1.20.2`).
fn minor_version(apiserver: &Path) -> Result<u32, StartError> {
    let bad = |why: String| StartError::Assets(format!("{} --version: {why}", apiserver.display()));
    let output = Command::new(apiserver)
        .arg("--version")
        .output()
        .map_err(|error| bad(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    text.strip_prefix("Kubernetes v1.")
        .and_then(|rest| rest.split('.').next()?.parse().ok())
        .ok_or_else(|| bad(format!("{text:?} is not a version 1.x")))
}

/// etcd of the assets directory, or of the machine.
fn find_etcd(assets: &Path) -> Result<PathBuf, StartError> {
    let path = env::var_os("PATH").unwrap_or_default();
    std::iter::once(assets.to_owned())
        .chain(env::split_paths(&path))
        .map(|dir| dir.join("etcd"))
        .find(|file| file.is_file())
        .ok_or_else(|| StartError::Assets(format!("no etcd in {} nor in PATH", assets.display())))
}

/// Returns different ports: all sockets are open before the first one is closed.
fn free_ports() -> io::Result<[u16; 3]> {
    let take = || TcpListener::bind(("127.0.0.1", 0));
    let taken = [take()?, take()?, take()?];
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&taken) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
