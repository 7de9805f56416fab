//! Processes on one cluster, each with the credentials of a service account.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use steersman_harness::{Cluster, Program, program, roles, time};
use tempfile::TempDir;

use super::{Deployed, OwnCluster};
use crate::PROGRAM;

/// Each step takes about a second; all processes run at the same time.
const STEP_TIMEOUT: Duration = Duration::from_mins(2);

pub struct Instances {
    programs: Vec<Program>,
    kubeconfigs: TempDir,
}

impl Instances {
    pub fn new() -> Self {
        Self {
            programs: Vec::new(),
            kubeconfigs: tempfile::tempdir().expect("a directory"),
        }
    }

    /// Starts a process with the arguments and the service account of the Deployment. Its requests are not forbidden because the
    /// API server has not loaded a role yet.
    pub async fn start(&mut self, own: &OwnCluster, deployed: &Deployed) -> &Program {
        let c = &own.running.cluster;
        roles::loaded(c).await;
        let kubeconfig = self.kubeconfig(c, &deployed.account).await;
        // All processes run on one machine. The first one is behind the Service of the webhooks.
        let webhooks = if self.programs.is_empty() {
            own.webhooks
        } else {
            program::free_address()
        };
        let mut arguments = deployed.arguments.clone();
        for it in &mut arguments {
            if it.starts_with("--webhook-port=") {
                *it = format!("--webhook-port={}", webhooks.port());
            }
        }
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.programs.push(Program::start(PROGRAM, &arguments).await);
        self.programs.last().expect("just pushed")
    }

    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    async fn kubeconfig(&self, c: &Cluster, account: &str) -> PathBuf {
        let token = c.token(roles::NAMESPACE, account).await;
        let text = fs::read(c.kubeconfig()).expect("the kubeconfig of the administrator");
        let mut kubeconfig: Value = serde_json::from_slice(&text).expect("it is written as JSON");
        kubeconfig["users"][0]["user"] = json!({"token": token});
        let file = self.kubeconfigs.path().join(account);
        fs::write(&file, kubeconfig.to_string()).expect("a file");
        file
    }

    pub async fn leader(&self) -> Option<&Program> {
        for program in &self.programs {
            if program.leads("steersman").await {
                return Some(program);
            }
        }
        None
    }

    /// Returns the metrics and log lines of requests that were forbidden. Empty if there were none.
    pub async fn forbidden(&self) -> String {
        let mut all = String::new();
        for program in &self.programs {
            let metrics = program.endpoints().get("/metrics").await.text();
            let counts = |line: &&str| line.starts_with("rest_client_requests_total{code=\"403\"");
            let counted: Vec<&str> = metrics.lines().filter(counts).collect();
            if !counted.is_empty() {
                let log = program.log();
                let logged = log.lines().filter(|it| it.contains("forbidden"));
                all.extend(counted.into_iter().chain(logged).flat_map(|it| [it, "\n"]));
            }
        }
        all
    }

    /// Waits until `holds` returns true. Fails early if a request was forbidden.
    pub async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let done = time::eventually(STEP_TIMEOUT, async || {
            if holds().await {
                return Some(String::new());
            }
            Some(self.forbidden().await).filter(|it| !it.is_empty())
        });
        match done.await {
            Some(forbidden) if forbidden.is_empty() => {}
            Some(forbidden) => panic!("{what}: forbidden:\n{forbidden}"),
            None => panic!("{what}: timed out:\n{}", self.logs()),
        }
    }

    /// Stops all processes gracefully.
    pub async fn stop(self) {
        for program in &self.programs {
            program.signal(Signal::TERM);
        }
        for program in self.programs {
            let ended = program.ends_within(time::ANSWER).await;
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        }
    }

    fn logs(&self) -> String {
        let logs: Vec<String> = self.programs.iter().map(Program::log).collect();
        logs.join("\n")
    }
}
