//! One sync of a Deployment, and the controller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::cache::{Cache, Caches, Delta, Lookup};
use coxswain_manager::client::{Client, ClientError};
use coxswain_manager::controller::{
    self, Action, Builder, Context, Controller, ControllerError, ReconcileError, Reconciler,
};
use coxswain_manager::env::Env;
use coxswain_manager::events::{EventType, Recorder};
use coxswain_manager::handler::Handler;
use coxswain_manager::object::{Key, Text, Uid, Version};
use coxswain_manager::predicate::Predicate;
use coxswain_manager::selector::{Selector, SelectorError};
use coxswain_manager::source::Source;
use prometheus::Registry;
use serde_json::Value;
use tokio::time::Instant;

use super::act::{Failure, Hands, Made};
use super::bounds::{Bounds, BoundsError};
use super::doubt::Doubt;
use super::new_replica_set::Creation;
use super::plan::{self, Plan, Snapshot};
use super::progress::{self, News};
use super::sets::Set;
use super::{DEPLOYMENTS, NAME, REPLICA_SETS, ReplicaSet};
use crate::support::deployment::Deployment;
use crate::support::memory::{BEHIND, Memory};
use crate::support::pod::Pod;
use crate::support::template_hash::Hash;
use crate::support::write_backoff::{Delay, WriteBackoff};
use crate::support::{PODS, errors};

/// The time until another create is sent in a namespace that is terminating, whatever events come before.
const NAMESPACE_TERMINATING_RETRY: Duration = Duration::from_mins(5);

/// The controller, on its caches.
#[derive(Debug)]
pub struct Roller {
    caches: Caches,
    deployments: Cache<Deployment>,
    sets: Cache<ReplicaSet>,
    pods: Cache<Pod>,
    recorder: Recorder,
    memory: Memory<Known>,
}

/// What is remembered of a Deployment.
#[derive(Debug, Default)]
struct Known {
    /// The creations for a template of which no `ReplicaSet` remains.
    creations: WriteBackoff<Hash>,
    /// The writes of a status that another client overwrites.
    statuses: WriteBackoff<u64>,
    doubt: Option<Doubt>,
    /// The namespace is terminating, and no create is sent before this time.
    no_creates_before: Option<Instant>,
}

/// Builds the controller.
///
/// # Panics
/// Outside a tokio runtime.
pub fn build(
    env: &Env,
    caches: &Caches,
    client: Client,
    registry: &Registry,
    recorder: Recorder,
    workers: usize,
) -> Result<Controller<Roller>, ControllerError> {
    let (deployments, sets, pods) = (
        caches.of::<Deployment>(&DEPLOYMENTS),
        caches.of::<ReplicaSet>(&REPLICA_SETS),
        caches.of::<Pod>(&PODS),
    );
    let roller = Roller {
        caches: caches.clone(),
        deployments: deployments.clone(),
        sets: sets.clone(),
        pods: pods.clone(),
        recorder,
        memory: Memory::default(),
    };
    let how = controller::Options {
        workers,
        queue: Some("deployment".to_owned()),
        ..controller::Options::default()
    };
    let of_set = {
        let deployments = deployments.clone();
        Handler::map(move |set: &ReplicaSet| concerned(&deployments, set))
    };
    let of_pod = {
        let (deployments, sets, pods) = (deployments.clone(), sets.clone(), pods.clone());
        Handler::map(move |pod: &Pod| awaited(&deployments, &sets, &pods, pod))
    };
    // All else that pods do, their ReplicaSet tells.
    let ends = Predicate::new(|delta: &Delta<Pod>| match delta {
        Delta::Added { .. } => false,
        Delta::Updated { old, new } => {
            // One that was let go is nobody's to wait for.
            !old.has_finished()
                && (new.has_finished() || old.metadata.controller() != new.metadata.controller())
        }
        Delta::Deleted { .. } => true,
    });
    Builder::new(NAME, how, roller)
        .watch(Source::new(deployments, Handler::for_object()))
        .watch(Source::new(sets, of_set))
        .watch(Source::new(pods, of_pod).only(ends))
        .build(env, client, registry)
}

/// The Deployments that a `ReplicaSet` concerns: the one that manages it, or all that would take it.
fn concerned(deployments: &Cache<Deployment>, set: &ReplicaSet) -> Vec<Key> {
    let meta = &set.metadata;
    if meta.controller().is_some() {
        let owner = owner(deployments, set);
        return owner.map(|it| it.metadata.key()).into_iter().collect();
    }
    if meta.labels.iter().next().is_none() {
        return Vec::new();
    }
    let all = deployments.list_namespace(&meta.namespace).into_iter();
    let would_take = |it: &Arc<Deployment>| it.selector().is_ok_and(|it| it.matches(&meta.labels));
    all.filter(would_take).map(|it| it.metadata.key()).collect()
}

fn owner(deployments: &Cache<Deployment>, set: &ReplicaSet) -> Option<Arc<Deployment>> {
    let controller = set.metadata.controller()?;
    if controller.kind != *DEPLOYMENTS.kind {
        return None;
    }
    let key = Key::new(set.metadata.namespace.clone(), controller.name.clone());
    let deployment = deployments.get(&key).present()?;
    (deployment.metadata.uid == controller.uid).then_some(deployment)
}

/// The Deployment that waits for a pod to end: one that begins anew only when the last pod of a `ReplicaSet` has ended.
fn awaited(
    deployments: &Cache<Deployment>,
    sets: &Cache<ReplicaSet>,
    pods: &Cache<Pod>,
    pod: &Pod,
) -> Vec<Key> {
    let find = || {
        let controller = pod.metadata.controller()?;
        let key = Key::new(pod.metadata.namespace.clone(), controller.name.clone());
        let set = sets
            .get(&key)
            .present()
            .filter(|it| it.metadata.uid == controller.uid)?;
        let owner = owner(deployments, &set)?;
        let waits = owner.strategy().type_ == "Recreate"
            && !pods.by_owner(&controller.uid).iter().any(|it| !it.has_finished());
        waits.then(|| owner.metadata.key())
    };
    find().into_iter().collect()
}

impl Reconciler for Roller {
    async fn reconcile(&self, context: Context, key: Key) -> Result<Action, ReconcileError> {
        self.memory.enter(context.term, || {});
        let deployment = match self.deployments.get(&key) {
            Lookup::Present(deployment) => deployment,
            Lookup::Absent => {
                self.memory.forget(&key);
                return Ok(Action::Done);
            }
            // It is there, and nobody can tell what it wants.
            Lookup::Undecodable => return Ok(Action::Done),
        };
        self.memory.know(&key, &deployment.metadata.uid, Known::default);
        if self.is_behind(&key, &context.env) {
            return Ok(Action::Postpone(BEHIND));
        }
        let hands = Hands {
            deployment: &deployment,
            key: &key,
            client: &context.client,
            env: &context.env,
            caches: &self.caches,
            written: &self.memory.written,
            recorder: &self.recorder,
        };
        match self.sync(&hands).await {
            // Not worth a word: it is normal next to others who write.
            Err(failure) if failure.is_conflict() => Ok(Action::RequeueAfter(Duration::ZERO)),
            done => Ok(done?),
        }
    }
}

/// What a step has come to.
struct Outcome {
    news: News,
    /// What went wrong, to be tried again.
    error: Option<ClientError>,
    /// When to look again, if it could not be done yet.
    wait: Option<Duration>,
}

impl Roller {
    /// Whether the caches do not show yet what was written.
    fn is_behind(&self, key: &Key, env: &Env) -> bool {
        self.memory.behind(key, env.clock.now(), &self.caches).is_some()
    }

    /// Finds out what became of a write that was not answered. Answers it if it may still be on its way.
    async fn settle(&self, hands: &Hands<'_>) -> Result<Option<Doubt>, ClientError> {
        let Some(doubt) = self.memory.with(hands.key, |it| it.doubt.clone()).flatten() else {
            return Ok(None);
        };
        let found = hands.look(&doubt.name).await?;
        let version = found.as_ref().map(|it| it.resource_version.clone());
        if version.unwrap_or_else(Version::none) == doubt.version {
            if !doubt.left(hands.env.clock.now()).is_zero() {
                return Ok(Some(doubt));
            }
        } else if let Some(found) = found {
            let shown = self.sets.get(&found.key()).present();
            let seen = shown.is_some_and(|it| it.metadata.uid == found.uid);
            hands.wrote(&REPLICA_SETS, &found, seen);
        }
        self.memory.with(hands.key, |it| it.doubt = None);
        Ok(None)
    }

    /// Remembers a write that is about to be sent. Answers what was remembered before.
    fn begin(&self, hands: &Hands<'_>, name: &Text, version: Version) -> Option<Doubt> {
        let at = hands.env.clock.now();
        let doubt = Doubt {
            name: name.clone(),
            version,
            at,
        };
        self.memory
            .with(hands.key, |it| it.doubt.replace(doubt))
            .flatten()
    }

    /// A write has come to its end, in this way; before it, that was in doubt.
    fn end(&self, hands: &Hands<'_>, error: Option<&ClientError>, before: Option<Doubt>) {
        let now = hands.env.clock.now();
        self.memory.with(hands.key, |it| match (error, &mut it.doubt) {
            (Some(error), Some(doubt)) if error.is_unknown_outcome() => doubt.at = now,
            (Some(_), doubt) => *doubt = before,
            (None, doubt) => *doubt = None,
        });
    }

    async fn sync(&self, hands: &Hands<'_>) -> Result<Action, Failure> {
        let (deployment, clock) = (hands.deployment, &hands.env.clock);
        let (selector, bounds) = match check(deployment) {
            Ok(checked) => checked,
            Err(refusal) => return refuse(hands, &refusal).await,
        };
        let doubt = self.settle(hands).await?;
        if self.is_behind(hands.key, hands.env) {
            return Ok(Action::Postpone(BEHIND));
        }
        let claims = plan::claims(deployment, selector, &self.candidates(deployment));
        if hands.release(&claims.release).await? | hands.adopt(&claims.adopt).await? {
            // With the caches that show it.
            return Ok(Action::Postpone(BEHIND));
        }
        let running = if bounds.rolling {
            BTreeMap::new()
        } else {
            self.running(&claims.ours)
        };
        let mut plan = plan::plan(&Snapshot {
            deployment,
            bounds,
            sets: &claims.ours,
            running: &running,
        });
        if let Some(rollback) = &plan.rollback {
            hands.roll_back(rollback).await?;
            return Ok(Action::Postpone(BEHIND));
        }
        if let Some(doubt) = doubt.as_ref().filter(|it| !it.allows(&plan)) {
            return Ok(Action::Postpone(doubt.left(clock.now())));
        }
        let first = doubt.map(|it| it.name);
        let Outcome { news, error, wait } = self.act(hands, &mut plan, first.as_ref()).await?;
        let now = clock.wall();
        let status = progress::wanted(deployment, &bounds, &plan.sets, &news, plan.judged, now);
        let told = match status.patch(deployment, plan.revision.as_ref()) {
            Some(patch) => {
                let content = status.digest(plan.revision.as_ref());
                self.write_status(hands, &patch, content).await
            }
            None => Ok(None),
        };
        let next = plan
            .judged
            .then(|| progress::next_look(deployment, &status, now))
            .flatten();
        let (refused, overwritten) = match told {
            Ok(wait) => (None, wait),
            Err(error) => (Some(error), None),
        };
        let next = [wait, next, overwritten].into_iter().flatten().min();
        match refused.or(error) {
            Some(error) => Err(Failure::Later { error, within: next }),
            None => Ok(next.map_or(Action::Done, Action::RequeueAfter)),
        }
    }

    /// Writes the status. Returns how long that waits if another client overwrites it again and again.
    async fn write_status(
        &self,
        hands: &Hands<'_>,
        patch: &Value,
        content: u64,
    ) -> Result<Option<Duration>, ClientError> {
        let now = hands.env.clock.now();
        let delay = self.memory.with(hands.key, |it| it.statuses.delay(content, now));
        if let Some(delay) = delay.flatten() {
            if delay.is_new {
                tracing::warn!(deployment = %hands.key, "Another client overwrites the status, writing it again later");
            }
            return Ok(Some(delay.left));
        }
        hands.write_status(patch).await?;
        self.memory.with(hands.key, |it| it.statuses.wrote(content, now));
        Ok(None)
    }

    /// Does what is planned, as far as it can be done now, and leaves in the plan what has come of it. Fails where nothing
    /// is to be said of it. The one that is named comes first.
    async fn act(
        &self,
        hands: &Hands<'_>,
        plan: &mut Plan,
        first: Option<&Text>,
    ) -> Result<Outcome, Failure> {
        let mut outcome = Outcome {
            news: News::None,
            error: None,
            wait: None,
        };
        if let Some(creation) = plan.create.clone() {
            self.make(hands, plan, &creation, &mut outcome).await?;
            if outcome.error.is_some() || outcome.wait.is_some() {
                undo(plan);
                return Ok(outcome);
            }
        }
        let mut sets: Vec<&Set> = plan.sets.all().filter(|it| it.patch().is_some()).collect();
        sets.sort_by_key(|it| Some(&it.object.metadata.name) != first);
        for set in sets {
            let meta = &set.object.metadata;
            let before = self.begin(hands, &meta.name, meta.resource_version.clone());
            let written = hands.write(set).await;
            self.end(hands, written.as_ref().err(), before);
            match written {
                Ok(()) => {}
                Err(error) if error.is_conflict() || matches!(error, ClientError::Fenced { .. }) => {
                    return Err(error.into());
                }
                Err(error) => {
                    outcome.error = Some(error);
                    break;
                }
            }
        }
        if outcome.error.is_some() {
            undo(plan);
            return Ok(outcome);
        }
        for set in &plan.delete {
            match hands.delete(set).await {
                Ok(()) => {}
                Err(error) if error.is_conflict() || matches!(error, ClientError::Fenced { .. }) => {
                    return Err(error.into());
                }
                // The rollout is done: its status does not wait for what is left of old ones.
                Err(error) => drop(outcome.error.get_or_insert(error)),
            }
        }
        Ok(outcome)
    }

    /// Makes the `ReplicaSet` of the present template.
    async fn make(
        &self,
        hands: &Hands<'_>,
        plan: &mut Plan,
        creation: &Creation,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let now = hands.env.clock.now();
        outcome.wait = self.wait(hands, creation, now, &mut outcome.news);
        if outcome.wait.is_some() {
            return Ok(());
        }
        let before = self.begin(hands, &creation.name, Version::none());
        let made = hands.create(creation).await;
        let error = match &made {
            Err(error) | Ok(Made::Failed(error)) => Some(error),
            Ok(_) => None,
        };
        self.end(hands, error, before);
        match made? {
            Made::Created(set) => {
                self.memory
                    .with(hands.key, |it| it.creations.wrote(creation.hash, now));
                outcome.news = News::Created(creation.name.clone());
                plan.sets.new = Some(Set::of(set));
            }
            Made::Found(set) => plan.sets.new = Some(Set::of(set)),
            Made::Taken(error) => {
                hands.count_collision().await?;
                return Err(error.into());
            }
            Made::NamespaceTerminating => {
                let retry = NAMESPACE_TERMINATING_RETRY;
                self.memory
                    .with(hands.key, |it| it.no_creates_before = Some(now + retry));
                outcome.wait = Some(retry);
            }
            // Nobody knows what became of it: it is asked for again, under the same name.
            Made::Failed(error) if error.code().is_none() => return Err(error.into()),
            Made::Failed(error) => {
                let (name, why) = (creation.name.clone(), errors::message(&error));
                let message = format!("Failed to create new replica set \"{name}\": {why}");
                hands.event(EventType::Warning, "ReplicaSetCreateError", &message);
                outcome.news = News::Failed { name, error: why };
                outcome.error = Some(error);
            }
        }
        Ok(())
    }

    /// The time that a creation has to wait: until the next attempt in a terminating namespace, or for the backoff of its
    /// template, which is told once for each creation.
    fn wait(
        &self,
        hands: &Hands<'_>,
        creation: &Creation,
        now: Instant,
        news: &mut News,
    ) -> Option<Duration> {
        let (terminating, delay) = self.memory.with(hands.key, |it| {
            let terminating = it.no_creates_before.map(|it| it.saturating_duration_since(now));
            (terminating, it.creations.delay(creation.hash, now))
        })?;
        if let Some(left) = terminating.filter(|it| !it.is_zero()) {
            return Some(left);
        }
        let Delay {
            left,
            written: created,
            is_new,
        } = delay?;
        let message = format!(
            "Created {created} replica sets for the current pod template, and none of them remained. \
             Creating replica set \"{}\" is delayed by up to a minute.",
            creation.name
        );
        if is_new {
            hands.event(EventType::Warning, progress::BACK_OFF, &message);
        }
        *news = News::Delayed(message);
        Some(left)
    }

    /// The `ReplicaSets` that may concern a Deployment: its own, and those that are nobody's.
    fn candidates(&self, deployment: &Deployment) -> Vec<Arc<ReplicaSet>> {
        let mut sets = self.sets.by_owner(&deployment.metadata.uid);
        sets.extend(self.sets.unmanaged(&deployment.metadata.namespace));
        sets
    }

    /// How many pods of each have not ended, those on their way out included.
    fn running(&self, sets: &[Arc<ReplicaSet>]) -> BTreeMap<Uid, usize> {
        let count = |set: &Arc<ReplicaSet>| {
            let uid = &set.metadata.uid;
            let running = self
                .pods
                .by_owner(uid)
                .iter()
                .filter(|it| !it.has_finished())
                .count();
            (running > 0).then(|| (uid.clone(), running))
        };
        sets.iter().filter_map(count).collect()
    }
}

/// What was planned was not done: the status is that of what there is.
fn undo(plan: &mut Plan) {
    plan.revision = None;
    for set in plan.sets.all_mut() {
        set.replicas = set.object.replicas();
    }
}

/// Why nothing is done for a Deployment.
#[derive(Debug)]
struct Refusal {
    reason: &'static str,
    message: String,
}

/// The selector and the bounds of a Deployment that makes sense.
fn check(deployment: &Deployment) -> Result<(&Selector, Bounds), Refusal> {
    let refuse = |reason, message: String| Refusal { reason, message };
    let selector = deployment.selector().map_err(|error| match error {
        SelectorError::Empty => refuse(
            "SelectingAll",
            "This deployment is selecting all pods. A non-empty selector is required.".to_owned(),
        ),
        other => refuse("InvalidSelector", other.to_string()),
    })?;
    // What is made from it would not be its own, and would be made for ever.
    if !selector.matches(&deployment.template().labels) {
        let message = "spec.selector does not match the labels of spec.template".to_owned();
        return Err(refuse("InvalidSelector", message));
    }
    let bounds = Bounds::of(deployment).map_err(|error| match error {
        BoundsError::Replicas(_) => refuse("InvalidReplicas", error.to_string()),
        other => refuse("InvalidStrategy", other.to_string()),
    })?;
    Ok((selector, bounds))
}

/// What is asked for makes no sense: it is said once, and nothing is done before it changes.
async fn refuse(hands: &Hands<'_>, refusal: &Refusal) -> Result<Action, Failure> {
    let Refusal { reason, message } = refusal;
    let deployment = hands.deployment;
    let status = progress::refused(deployment, reason, message, hands.env.clock.wall());
    if status.conditions != deployment.status.conditions {
        hands.event(EventType::Warning, reason, message);
    }
    if let Some(patch) = status.patch(deployment, None) {
        hands.write_status(&patch).await?;
    }
    Ok(Action::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_said_by_its_field() {
        let reason = |spec: &str| {
            let json = format!(r#"{{"metadata":{{"name":"web"}},"spec":{{{spec}}}}}"#);
            let deployment: Deployment = serde_json::from_str(&json).expect("a Deployment");
            check(&deployment).err().map(|it| it.reason)
        };
        let fine = r#""selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}}}"#;
        assert_eq!(reason(fine), None);
        assert_eq!(
            reason(&format!(r#"{fine},"replicas":-1"#)),
            Some("InvalidReplicas")
        );
        assert_eq!(
            reason(&format!(r#"{fine},"strategy":{{"type":"Odd"}}"#)),
            Some("InvalidStrategy")
        );
        assert_eq!(reason(r#""selector":{}"#), Some("SelectingAll"));
        assert_eq!(
            reason(r#""selector":{"matchLabels":{"a":"b"}}"#),
            Some("InvalidSelector")
        );
        let odd = r#""selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}"#;
        assert_eq!(reason(odd), Some("InvalidSelector"));
        for reason in [
            "SelectingAll",
            "InvalidSelector",
            "InvalidReplicas",
            "InvalidStrategy",
        ] {
            assert!(progress::REFUSALS.contains(&reason));
        }
    }
}
