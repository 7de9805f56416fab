//! On the leader: does what [`plan`](super::plan) decides, whenever the Secret or a configuration changes, and now and then.
//!
//! It reads what it decides on from the API server each time, never from a cache: its writes are few, and each depends on what
//! was read.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::follow::IDLE_TIMEOUT;
use super::held::{Held, Stored, created};
use super::inject::{CONFIGURATIONS, Configuration, as_patch};
use super::pair::{self, IssueError, bundle};
use super::plan::{Step, decide, kept};
use super::{SECRETS, ServiceName, inject};
use crate::backoff::Backoff;
use crate::client::{
    Client, ClientError, Fence, ObjectEvent, ObjectState, ObjectWatch, Patch, Term, View, WatchReport,
};
use crate::controller::{Fatal, Runnable, Unhealthy};
use crate::env::Env;
use crate::object::{Key, MetaObject, Resource, Version};

const NAME: &str = "webhook-certificates";

/// How often it is looked whether something is to be done: certificates grow old, and a deletion may be missed.
const SHORTEST_LOOK: Duration = Duration::from_mins(5);
const LONGEST_LOOK: Duration = Duration::from_mins(10);
/// The delays after failures: from half a second to a minute.
const BACKOFF: Backoff =
    Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30)).jitter(1.0);
/// A renewal takes four; more in a row means that somebody undoes them.
const MAX_STEPS: usize = 8;

/// Keeps the Secret and the configurations of one Service in order.
pub(crate) struct Keeper {
    env: Env,
    client: Client,
    service: ServiceName,
    /// What an operator should know.
    remark: Mutex<Option<String>>,
}

/// Why it could not go on for now.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error("what is written about webhooks does not stay: does somebody else write it too?")]
    Undone,
}

/// The configurations, by their resource; none for what is not there.
type Configurations = Vec<(Resource, Option<Configuration>)>;

/// The versions that were last seen, by kind.
type Seen = BTreeMap<String, Version>;

impl KeepError {
    /// How long the API server asked to wait.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Client(error) => error.retry_after(),
            Self::Issue(_) | Self::Undone => None,
        }
    }
}

impl Keeper {
    pub(crate) fn new(env: Env, client: Client, service: ServiceName) -> Self {
        Self {
            env,
            client,
            service,
            remark: Mutex::default(),
        }
    }

    /// Until `halt`, and not in the middle of a write.
    async fn keep(&self, client: &Client, halt: &CancellationToken) {
        let (send, mut sightings) = mpsc::channel(16);
        let watches = [SECRETS].into_iter().chain(CONFIGURATIONS).map(|resource| {
            let key = if resource.namespaced {
                self.service.secret()
            } else {
                self.service.configuration()
            };
            let watch = ObjectWatch {
                env: self.env.clone(),
                client: client.clone(),
                resource,
                key,
                view: View::Full,
                idle_timeout: IDLE_TIMEOUT,
            };
            watch.run(send.clone())
        });
        tokio::select! {
            biased;
            // They never end.
            _ = join_all(watches) => {}
            () = self.work(client, &mut sightings, halt) => {}
        }
    }

    async fn work(
        &self,
        client: &Client,
        sightings: &mut mpsc::Receiver<WatchReport>,
        halt: &CancellationToken,
    ) {
        let Env { clock, rng, .. } = &self.env;
        let mut backoff = BACKOFF;
        while !halt.is_cancelled() {
            let pause = match self.sync(client, halt).await {
                Ok(seen) => {
                    backoff.reset();
                    let look = rng.between(SHORTEST_LOOK, LONGEST_LOOK);
                    let news = clock.timeout(look, news(sightings, seen));
                    async { news.await.unwrap_or_default() }.boxed()
                }
                Err(error) => {
                    tracing::warn!(service = %self.service, %error, "Could not keep the certificate for webhooks");
                    self.set_remark(Some(error.to_string()));
                    let pause = backoff.next_at_least(error.retry_after(), Duration::MAX, clock.now(), rng);
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

    /// One write after the other until nothing is left to do.
    async fn sync(&self, client: &Client, halt: &CancellationToken) -> Result<Seen, KeepError> {
        for _ in 0..MAX_STEPS {
            if halt.is_cancelled() {
                return Ok(Seen::new());
            }
            // In this order: see `plan`.
            let configurations = self.configurations(client).await?;
            let held = self.held(client).await?;
            let there = there(&configurations);
            let now = self.env.clock.wall();
            let step = decide(&there, held.as_ref(), &self.service.host(), now);
            match (step, &held) {
                (Step::Nothing, held) => {
                    self.set_remark(self.absent(&configurations));
                    let versions = configurations.iter().filter_map(|(resource, it)| {
                        let version = it.as_ref()?.version().clone();
                        Some((resource.kind.to_string(), version))
                    });
                    let secret = held
                        .iter()
                        .map(|it| (SECRETS.kind.to_string(), it.version().clone()));
                    return Ok(versions.chain(secret).collect());
                }
                (Step::Create, _) => self.create(client).await?,
                (Step::Stage { broken }, Some(held)) => {
                    match broken {
                        Some(reason) => tracing::warn!(
                            secret = %self.service,
                            reason,
                            "The certificate for webhooks in the Secret cannot be used, making another"
                        ),
                        None => {
                            tracing::info!(secret = %self.service, "Renewing the certificate for webhooks");
                        }
                    }
                    let configurations = self.configurations(client).await?;
                    let kept = kept(held, &self::there(&configurations), &self.service.host(), now);
                    let issue = pair::issue(&self.service.host(), now)?;
                    self.write(client, &held.stage(&issue, kept)).await?;
                }
                (Step::Inject, Some(held)) => {
                    let bundle = bundle(&held.authorities);
                    for (resource, configuration) in &configurations {
                        let Some(configuration) = configuration else {
                            continue;
                        };
                        if configuration.carries(&bundle) {
                            continue;
                        }
                        let patch = as_patch(&configuration.patch(&bundle));
                        let key = self.service.configuration();
                        let _: MetaObject = client.patch(resource, &key, patch).await?;
                        tracing::info!(configuration = %resource, name = %key, "Injected the bundle for webhooks");
                    }
                }
                (Step::Promote, Some(held)) => {
                    if let Some(patch) = held.promote() {
                        self.write(client, &patch).await?;
                        tracing::info!(secret = %self.service, "The new certificate for webhooks is to be served");
                    }
                }
                // There is a Secret in all of these.
                (Step::Stage { .. } | Step::Inject | Step::Promote, None) => {}
            }
        }
        Err(KeepError::Undone)
    }

    async fn configurations(&self, client: &Client) -> Result<Configurations, ClientError> {
        let mut all = Vec::new();
        for resource in CONFIGURATIONS {
            let stored: Option<inject::Stored> =
                get(client, &resource, &self.service.configuration()).await?;
            let configuration = stored.map(|it| Configuration::new(it, &self.service));
            all.push((resource, configuration));
        }
        Ok(all)
    }

    async fn held(&self, client: &Client) -> Result<Option<Held>, ClientError> {
        let stored: Option<Stored> = get(client, &SECRETS, &self.service.secret()).await?;
        Ok(stored.map(Held::from))
    }

    async fn create(&self, client: &Client) -> Result<(), KeepError> {
        let issue = pair::issue(&self.service.host(), self.env.clock.wall())?;
        let key = self.service.secret();
        let body = created(&key, &issue).to_string();
        let _: MetaObject = client.create(&SECRETS, &key.namespace, body.into()).await?;
        tracing::info!(secret = %self.service, "Made a certificate for webhooks");
        Ok(())
    }

    async fn write(&self, client: &Client, patch: &Value) -> Result<(), ClientError> {
        let _: MetaObject = client
            .patch(&SECRETS, &self.service.secret(), Patch::merge(patch))
            .await?;
        Ok(())
    }

    /// What there is no configuration of.
    fn absent(&self, configurations: &[(Resource, Option<Configuration>)]) -> Option<String> {
        let none = configurations.iter().filter_map(|(resource, it)| match it {
            None => Some(format!("there is no {} {}", resource.kind, self.service.name)),
            Some(it) if !it.is_ours() => Some(format!(
                "the {} {} has no webhook at the Service {}",
                resource.kind, self.service.name, self.service
            )),
            Some(_) => None,
        });
        let none: Vec<_> = none.collect();
        (!none.is_empty()).then(|| none.join("; "))
    }

    fn set_remark(&self, remark: Option<String>) {
        *self.remark.lock().unwrap_or_else(PoisonError::into_inner) = remark;
    }
}

fn there(configurations: &[(Resource, Option<Configuration>)]) -> Vec<&Configuration> {
    let there = configurations.iter().filter_map(|(_, it)| it.as_ref());
    there.collect()
}

/// An object, if it is there.
async fn get<T: serde::de::DeserializeOwned>(
    client: &Client,
    resource: &Resource,
    key: &Key,
) -> Result<Option<T>, ClientError> {
    match client.get(resource, key).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found(&key.name) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Resolves when something is not as it was seen.
async fn news(sightings: &mut mpsc::Receiver<WatchReport>, seen: Seen) {
    loop {
        match sightings.recv().await {
            Some(
                WatchReport::Event(ObjectEvent::Updated(object))
                | WatchReport::Opened(ObjectState {
                    object: Some(object), ..
                }),
            ) => {
                let text = |field| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
                let version = Version::from(text("/metadata/resourceVersion"));
                let known = seen.get(text("/kind"));
                // Our own writes come back here.
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

impl Runnable for Keeper {
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
                () = self.keep(&client, &halt) => {}
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
