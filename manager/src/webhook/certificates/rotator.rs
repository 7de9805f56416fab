//! The leader's controller for the certificate: carries out [`plan`](super::plan) when the Secret or a webhook
//! configuration changes, and periodically.
//!
//! It reads from the API server, not from a cache: writes are rare, and each depends on the version that was read.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::configuration::{CONFIGURATIONS, Configuration, RawConfiguration};
use super::key_pair::{IssueError, bundle};
use super::plan::{Step, decide, retained};
use super::secret::{CertificateSecret, RawSecret, new_secret};
use super::secret_watcher::WATCH_IDLE_TIMEOUT;
use super::{SECRETS, ServiceCertificate};
use crate::backoff::Backoff;
use crate::client::{
    Client, ClientError, Fence, ObjectEvent, ObjectState, ObjectWatch, Patch, Reader, Term, View, WatchReport,
};
use crate::controller::{Fatal, Runnable, Unhealthy};
use crate::env::Env;
use crate::object::{Key, MetaObject, Resource, Version};

const NAME: &str = "webhook-certificates";

/// Bounds of the random resync period, which finds expiring certificates and missed deletions.
const RESYNC_MIN: Duration = Duration::from_mins(5);
const RESYNC_MAX: Duration = Duration::from_mins(10);
/// The delays after failures: from half a second to a minute.
const BACKOFF: Backoff =
    Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30)).jitter(1.0);
/// The limit of a Retry-After.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);
/// A renewal takes four writes; more in one sync mean that another client reverts them.
const MAX_STEPS: usize = 8;

/// Issues and renews the certificate of one Service.
pub(crate) struct Rotator {
    env: Env,
    client: Reader,
    certificate: ServiceCertificate,
    /// Shown as a note in the health check.
    remark: Mutex<Option<String>>,
}

#[derive(Debug, thiserror::Error)]
enum RotateError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error("writes to the Secret or the webhook configurations are reverted by another client")]
    Undone,
}

/// The configurations by resource; none for one that does not exist.
type Configurations = Vec<(Resource, Option<Configuration>)>;

/// The resourceVersion last read, by kind.
type Seen = BTreeMap<String, Version>;

impl RotateError {
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Client(error) => error.retry_after(),
            Self::Issue(_) | Self::Undone => None,
        }
    }
}

impl Rotator {
    pub(crate) fn new(env: Env, client: Reader, certificate: ServiceCertificate) -> Self {
        Self {
            env,
            client,
            certificate,
            remark: Mutex::default(),
        }
    }

    /// Runs until `halt`, without interrupting a write.
    async fn watch_and_rotate(&self, client: &Client, halt: &CancellationToken) {
        let (send, mut reports) = mpsc::channel(16);
        let watches = [SECRETS].into_iter().chain(CONFIGURATIONS).map(|resource| {
            let key = if resource.namespaced {
                self.certificate.secret()
            } else {
                self.certificate.service.configuration()
            };
            let watch = ObjectWatch {
                env: self.env.clone(),
                client: Reader::clone(client),
                resource,
                key,
                view: View::Full,
                idle_timeout: WATCH_IDLE_TIMEOUT,
            };
            watch.run(send.clone())
        });
        tokio::select! {
            biased;
            // The watches never end.
            _ = join_all(watches) => {}
            () = self.rotate(client, &mut reports, halt) => {}
        }
    }

    async fn rotate(
        &self,
        client: &Client,
        reports: &mut mpsc::Receiver<WatchReport>,
        halt: &CancellationToken,
    ) {
        let Env { clock, rng, .. } = &self.env;
        let mut backoff = BACKOFF;
        while !halt.is_cancelled() {
            let pause = match self.sync(client, halt).await {
                Ok(seen) => {
                    backoff.reset();
                    let resync = rng.between(RESYNC_MIN, RESYNC_MAX);
                    let changed = clock.timeout(resync, changed(reports, seen));
                    async { changed.await.unwrap_or_default() }.boxed()
                }
                Err(error) => {
                    tracing::warn!(object = %self.certificate.logged_secret(), %error, "Failed to reconcile webhook certificate");
                    self.set_remark(Some(error.to_string()));
                    let retry_after = error.retry_after();
                    let pause = backoff.next_at_least(retry_after, RETRY_AFTER_MAX, clock.now(), rng);
                    clock.sleep(pause).boxed()
                }
            };
            tokio::select! {
                biased;
                () = halt.cancelled() => {}
                () = pause => {}
            }
        }
    }

    /// Writes until the plan has no next step.
    async fn sync(&self, client: &Client, halt: &CancellationToken) -> Result<Seen, RotateError> {
        for _ in 0..MAX_STEPS {
            if halt.is_cancelled() {
                return Ok(Seen::new());
            }
            // `plan` requires this order.
            let configurations = self.configurations(client).await?;
            let secret = self.secret(client).await?;
            let existing = existing(&configurations);
            let now = self.env.clock.wall();
            let step = decide(&existing, secret.as_ref(), &self.certificate.service.host(), now);
            match (step, &secret) {
                (Step::Nothing, secret) => {
                    self.set_remark(self.missing_configurations(&configurations));
                    let versions = configurations.iter().filter_map(|(resource, it)| {
                        let version = it.as_ref()?.version().clone();
                        Some((resource.kind.to_string(), version))
                    });
                    let secret = secret
                        .iter()
                        .map(|it| (SECRETS.kind.to_string(), it.version().clone()));
                    return Ok(versions.chain(secret).collect());
                }
                (Step::Create, _) => self.create(client).await?,
                (Step::Stage { invalid }, Some(secret)) => {
                    match invalid {
                        Some(reason) => tracing::warn!(
                            object = %self.certificate.logged_secret(),
                            reason,
                            "Replacing invalid webhook certificate"
                        ),
                        None => {
                            tracing::info!(object = %self.certificate.logged_secret(), "Renewing webhook certificate");
                        }
                    }
                    let configurations = self.configurations(client).await?;
                    let retained = retained(
                        secret,
                        &self::existing(&configurations),
                        &self.certificate.service.host(),
                        now,
                    );
                    let issue = self.certificate.issue(now)?;
                    self.write(client, &secret.stage(&issue, retained)).await?;
                }
                (Step::Inject, Some(secret)) => {
                    let bundle = bundle(&secret.authorities);
                    for (resource, configuration) in &configurations {
                        let Some(configuration) = configuration else {
                            continue;
                        };
                        if configuration.has_bundle(&bundle) {
                            continue;
                        }
                        let patch = Patch::strategic(&configuration.patch(&bundle));
                        let key = self.certificate.service.configuration();
                        let _: MetaObject = client.patch(resource, &key, patch).await?;
                        tracing::info!(object = %resource.logged(&key), "Injected webhook CA bundle");
                    }
                }
                (Step::Promote, Some(secret)) => {
                    if let Some(patch) = secret.promote() {
                        self.write(client, &patch).await?;
                        tracing::info!(object = %self.certificate.logged_secret(), "Promoted webhook certificate");
                    }
                }
                // `decide` returns these only for an existing Secret.
                (Step::Stage { .. } | Step::Inject | Step::Promote, None) => {}
            }
        }
        Err(RotateError::Undone)
    }

    async fn configurations(&self, client: &Reader) -> Result<Configurations, ClientError> {
        let mut all = Vec::new();
        for resource in CONFIGURATIONS {
            let raw: Option<RawConfiguration> =
                get(client, &resource, &self.certificate.service.configuration()).await?;
            let configuration = raw.map(|it| Configuration::new(it, &self.certificate.service));
            all.push((resource, configuration));
        }
        Ok(all)
    }

    async fn secret(&self, client: &Reader) -> Result<Option<CertificateSecret>, ClientError> {
        let raw: Option<RawSecret> = get(client, &SECRETS, &self.certificate.secret()).await?;
        Ok(raw.map(CertificateSecret::from))
    }

    async fn create(&self, client: &Client) -> Result<(), RotateError> {
        let issue = self.certificate.issue(self.env.clock.wall())?;
        let key = self.certificate.secret();
        let body = new_secret(&key, &self.certificate.secret_labels, &issue).to_string();
        let _: MetaObject = client.create(&SECRETS, &key.namespace, body.into()).await?;
        tracing::info!(object = %self.certificate.logged_secret(), "Created webhook certificate");
        Ok(())
    }

    async fn write(&self, client: &Client, patch: &Value) -> Result<(), ClientError> {
        let _: MetaObject = client
            .patch(&SECRETS, &self.certificate.secret(), Patch::merge(patch))
            .await?;
        Ok(())
    }

    /// Returns a message that lists the configurations without a webhook for the Service.
    fn missing_configurations(&self, configurations: &[(Resource, Option<Configuration>)]) -> Option<String> {
        let missing = configurations.iter().filter_map(|(resource, it)| match it {
            None => Some(format!(
                "{} {} does not exist",
                resource.kind, self.certificate.service.name
            )),
            Some(it) if !it.targets_service() => Some(format!(
                "{} {} has no webhook for Service {}",
                resource.kind, self.certificate.service.name, self.certificate.service
            )),
            Some(_) => None,
        });
        let missing: Vec<_> = missing.collect();
        (!missing.is_empty()).then(|| missing.join("; "))
    }

    fn set_remark(&self, remark: Option<String>) {
        *self.remark.lock().unwrap_or_else(PoisonError::into_inner) = remark;
    }
}

fn existing(configurations: &[(Resource, Option<Configuration>)]) -> Vec<&Configuration> {
    configurations.iter().filter_map(|(_, it)| it.as_ref()).collect()
}

/// Reads an object; none if it does not exist.
async fn get<T: serde::de::DeserializeOwned>(
    client: &Reader,
    resource: &Resource,
    key: &Key,
) -> Result<Option<T>, ClientError> {
    match client.get(resource, key).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found(&key.name) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Resolves when an object is newer than in `seen`, or deleted.
async fn changed(reports: &mut mpsc::Receiver<WatchReport>, seen: Seen) {
    loop {
        match reports.recv().await {
            Some(
                WatchReport::Event(ObjectEvent::Updated(object))
                | WatchReport::Opened(ObjectState {
                    object: Some(object), ..
                }),
            ) => {
                let text = |field| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
                let version = Version::from(text("/metadata/resourceVersion"));
                let known = seen.get(text("/kind"));
                // The watch also delivers this process's own writes.
                if !known.is_some_and(|known| known.has_reached(&version)) {
                    return;
                }
            }
            Some(WatchReport::Event(ObjectEvent::Deleted(_))) => return,
            Some(WatchReport::Opened(_) | WatchReport::Ended(_)) => {}
            None => std::future::pending().await,
        }
    }
}

impl Runnable for Rotator {
    fn name(&self) -> &str {
        NAME
    }

    fn unsynced(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        let (fence, client) = (fence.clone(), self.client.in_term(fence, term));
        Box::pin(async move {
            let halt = stop.child_token();
            let over = async {
                fence.closed(term).await;
                halt.cancel();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = over => {}
                () = self.watch_and_rotate(&client, &halt) => {}
            }
            self.set_remark(None);
            Ok(())
        })
    }

    fn running(&self) -> Vec<Key> {
        Vec::new()
    }

    fn health(&self) -> Result<(), Unhealthy> {
        Ok(())
    }

    fn remark(&self) -> Option<String> {
        self.remark.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
