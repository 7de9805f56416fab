//! Credentials of an exec plugin, `client.authentication.k8s.io`: a token, a client certificate or both.
//!
//! kube's client runs a plugin without a time limit, and asks for a certificate only once. So the plugin is run here: before the
//! first request, before its credentials expire, and after a request was answered with 401. The next request uses a new TLS
//! client with the new credentials.

use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;
use tokio::runtime::Handle;
use tower_service::Service;

use crate::env::Clock;

/// A plugin that takes longer is killed.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(30);
/// The time before the expiry at which credentials are renewed, at most a fifth of their lifetime.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_mins(1);
/// Between two runs of a plugin, whatever it returns.
const RUN_INTERVAL_MIN: SignedDuration = SignedDuration::from_secs(10);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The failure of a plugin. The request was not sent. It never quotes the output, which may contain a token.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the exec credential plugin {0}")]
pub(super) struct PluginError(String);

/// Builds a client with the credentials of a configuration.
type Connect = fn(&kube::Config) -> Result<kube::Client, String>;

/// Sends requests with the credentials of a plugin.
#[derive(Clone)]
pub(super) struct ExecPlugin(Arc<Inner>);

struct Inner {
    exec: ExecConfig,
    /// The configuration without the plugin.
    config: kube::Config,
    connect: Connect,
    clock: Clock,
    last: Mutex<Option<Run>>,
    /// Held while the plugin runs.
    running: Arc<tokio::sync::Mutex<()>>,
}

/// The last run of the plugin.
#[derive(Clone)]
struct Run {
    /// Its end.
    at: Timestamp,
    client: Result<Authenticated, PluginError>,
}

/// A client with credentials, those of an earlier run if a later one has failed.
#[derive(Clone)]
struct Authenticated {
    client: kube::Client,
    /// None for credentials without an expiry.
    renew_at: Option<Timestamp>,
    expires: Option<Timestamp>,
}

impl ExecPlugin {
    /// Returns none if the configuration has no plugin, or other credentials, which take precedence.
    pub(super) fn of(config: &kube::Config, clock: &Clock, connect: Connect) -> Option<Self> {
        let AuthInfo {
            token,
            token_file,
            username,
            auth_provider,
            exec,
            ..
        } = &config.auth_info;
        let has_other =
            token.is_some() || token_file.is_some() || username.is_some() || auth_provider.is_some();
        let exec = exec.clone().filter(|_| !has_other)?;
        let mut config = config.clone();
        config.auth_info.exec = None;
        Some(Self(Arc::new(Inner {
            exec,
            config,
            connect,
            clock: clock.clone(),
            last: Mutex::default(),
            running: Arc::default(),
        })))
    }

    pub(super) fn config(&self) -> &kube::Config {
        &self.0.config
    }

    /// Runs the plugin if there are no valid credentials.
    pub(super) async fn authenticate(&self) -> Result<(), PluginError> {
        self.0.credentials().await.map(drop)
    }
}

impl Service<Request<Body>> for ExecPlugin {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let plugin = self.0.clone();
        Box::pin(async move {
            let (at, client) = plugin.credentials().await?;
            let response = client.send(request).await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                plugin.reject(at);
            }
            Ok(response)
        })
    }
}

impl Inner {
    fn last(&self) -> MutexGuard<'_, Option<Run>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last run unless the plugin has to run again.
    fn current(&self) -> Option<Run> {
        let (last, now) = (self.last().clone()?, self.clock.wall());
        let is_due = match &last.client {
            Ok(it) => it.renew_at.is_some_and(|it| it <= now),
            Err(_) => true,
        };
        let is_recent = now.duration_since(last.at).abs() < RUN_INTERVAL_MIN;
        (is_recent || !is_due).then_some(last)
    }

    /// Returns the last run if its credentials have neither expired nor been rejected.
    fn valid(&self) -> Option<Run> {
        let (last, now) = (self.last().clone()?, self.clock.wall());
        let client = last.client.as_ref().ok()?;
        client.expires.is_none_or(|it| it > now).then_some(last)
    }

    /// Returns a client with credentials, and the time of the run that returned them. Waits for the plugin unless the present
    /// ones are still valid.
    async fn credentials(self: &Arc<Self>) -> Result<(Timestamp, kube::Client), PluginError> {
        loop {
            if let Some(Run { at, client }) = self.current() {
                return Ok((at, client?.client));
            }
            // Another request may have renewed them before the lock was acquired.
            if let Ok(running) = self.running.clone().try_lock_owned()
                && self.current().is_none()
            {
                let plugin = self.clone();
                // Not cancelled with this request. It ends with the runtime, as the connections do.
                Handle::current().spawn(async move {
                    plugin.renew().await;
                    drop(running);
                });
            }
            if let Some(Run { at, client: Ok(it) }) = self.valid() {
                return Ok((at, it.client));
            }
            drop(self.running.lock().await);
        }
    }

    async fn renew(&self) {
        let credential = self.clock.timeout(PLUGIN_TIMEOUT, self.run()).await;
        let seconds = PLUGIN_TIMEOUT.as_secs();
        let credential =
            credential.unwrap_or_else(|| Err(PluginError(format!("did not end within {seconds} s"))));
        let (previous, at) = (self.valid(), self.clock.wall());
        let renewed = credential.and_then(|credential| {
            let expires = credential.expiration_timestamp;
            let renew_at = expires.map(|expires| {
                let lifetime = expires.duration_since(at).max(SignedDuration::ZERO);
                expires - RENEW_BEFORE.min(lifetime / 5)
            });
            Ok(Authenticated {
                client: self.connect(credential)?,
                renew_at,
                expires,
            })
        });
        let client = match (renewed, previous) {
            (Err(error), Some(previous)) => {
                tracing::warn!(%error, "Failed to renew credentials");
                previous.client
            }
            (renewed, _) => renewed,
        };
        *self.last() = Some(Run { at, client });
    }

    /// An API server has rejected the credentials of the run that ended at this time.
    fn reject(&self, at: Timestamp) {
        if let Some(last) = &mut *self.last()
            && last.at == at
            && let Ok(client) = &mut last.client
        {
            (client.renew_at, client.expires) = (Some(at), Some(at));
        }
    }

    fn connect(&self, credential: CredentialStatus) -> Result<kube::Client, PluginError> {
        let mut config = self.config.clone();
        let auth = &mut config.auth_info;
        // Kubeconfig files contain PEM in base64. The certificate is appended to the key.
        let encode = |pem: String| STANDARD.encode(pem + "\n");
        if let (Some(certificate), Some(key)) =
            (credential.client_certificate_data, credential.client_key_data)
        {
            auth.client_certificate_data = Some(encode(certificate));
            auth.client_key_data = Some(encode(key).into());
        }
        auth.token = credential.token.map(SecretString::from);
        (self.connect)(&config)
            .map_err(|reason| PluginError(format!("returned unusable credentials: {reason}")))
    }

    async fn run(&self) -> Result<CredentialStatus, PluginError> {
        let failed = |reason: &str| PluginError(reason.to_owned());
        let ExecConfig {
            api_version,
            command,
            args,
            env,
            drop_env,
            interactive_mode,
            provide_cluster_info,
            cluster,
            ..
        } = &self.exec;
        let Some(program) = command else {
            return Err(failed("has no command"));
        };
        if *interactive_mode == Some(ExecInteractiveMode::Always) {
            return Err(failed("needs a terminal (interactiveMode is Always)"));
        }
        let mut spec = json!({"interactive": false});
        if *provide_cluster_info {
            spec["cluster"] = json!(cluster);
        }
        let info = json!({"apiVersion": api_version, "kind": "ExecCredential", "spec": spec});
        let mut command = Command::new(program);
        command.args(args.iter().flatten());
        let variables = env.iter().flatten();
        command.envs(variables.filter_map(|it| Some((it.get("name")?, it.get("value")?))));
        command.env("KUBERNETES_EXEC_INFO", info.to_string());
        for variable in drop_env.iter().flatten() {
            command.env_remove(variable);
        }
        // Its messages are for the user.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        command.kill_on_drop(true);
        let started = command.spawn();
        let started =
            started.map_err(|error| PluginError(format!("{program:?} cannot be started: {error}")))?;
        let output = started.wait_with_output().await;
        let output = output.map_err(|error| PluginError(format!("failed: {error}")))?;
        if !output.status.success() {
            return Err(PluginError(format!("failed: {}", output.status)));
        }
        // The parser's error may quote the output.
        let credential = serde_json::from_slice::<Credential>(&output.stdout)
            .map_err(|_| failed("did not print a valid credential"))?;
        let status = credential.status;
        match (
            &status.token,
            &status.client_certificate_data,
            &status.client_key_data,
        ) {
            (_, Some(_), Some(_)) | (Some(_), None, None) => Ok(status),
            (None, None, None) => Err(failed("returned neither a token nor a certificate")),
            _ => Err(failed(
                "returned only one of clientCertificateData and clientKeyData",
            )),
        }
    }
}

/// The output of a plugin, an `ExecCredential`.
#[derive(Deserialize)]
struct Credential {
    status: CredentialStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CredentialStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<Timestamp>,
}
