//! L1 at rest: `ReplicaSets` and their kind have their pods, Deployments are complete, and all statuses are right.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::context::{Context, Found};
use super::model::{Detail, Object};
use super::selector::{Labels, Selector};
use super::symbols::{
    APP_REPLICA_SETS, APP_SERVICES, DEPLOYMENTS, EMPTY, NAMESPACES, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, Symbol,
};

#[derive(Deserialize)]
struct Labelled<'a> {
    #[serde(borrow)]
    metadata: LabelledMeta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LabelledMeta<'a> {
    #[serde(borrow)]
    labels: Option<Labels<'a>>,
}

#[derive(Deserialize)]
struct SetView<'a> {
    #[serde(borrow)]
    spec: SetSpec<'a>,
    #[serde(default)]
    status: Counts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetSpec<'a> {
    #[serde(borrow, default)]
    selector: Option<&'a serde_json::value::RawValue>,
    #[serde(default)]
    min_ready_seconds: i64,
    #[serde(borrow)]
    template: Labelled<'a>,
}

/// The counts of a `ReplicaSet` or a Deployment.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Counts {
    replicas: i64,
    updated_replicas: i64,
    ready_replicas: i64,
    available_replicas: i64,
    terminating_replicas: Option<i64>,
}

#[derive(Deserialize)]
struct TemplateView {
    spec: TemplateSpec,
    #[serde(default)]
    status: Counts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TemplateSpec {
    template: Value,
    #[serde(default)]
    paused: bool,
    revision_history_limit: Option<usize>,
}

#[derive(Deserialize)]
struct AppServiceView<'a> {
    #[serde(borrow)]
    spec: AppServiceSpec<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AppServiceSpec<'a> {
    #[serde(borrow, default)]
    deployment_name: Cow<'a, str>,
    replicas: Option<i64>,
    #[serde(borrow, default)]
    image: Option<Cow<'a, str>>,
}

/// The pods that no controller has, by namespace, with their labels.
type Unowned<'a> = BTreeMap<Symbol, Vec<(&'a Object, Labels<'a>)>>;

/// The namespaces that were in the desired state, each with the position of its last change: they are not checked again without a
/// change.
#[derive(Clone, Debug, Default)]
pub(super) struct Rest(BTreeMap<Symbol, u64>);

impl Rest {
    /// Checks the desired state of a run at rest.
    pub(super) fn check(&mut self, context: &Context, found: &mut Found) {
        let namespaces = context.model.namespaces();
        let is_new = |it: &Object| self.0.get(&it.namespace) != namespaces.get(&it.namespace);
        let unowned = unowned(context, is_new);
        let mut correct = namespaces.clone();
        let objects = context.model.all().filter(|it| is_new(it));
        for object in objects.filter(|it| is_bound(context, it)) {
            if let Err(problem) = check(context, object, &unowned) {
                correct.remove(&object.namespace);
                found.add(
                    "L1",
                    format!("{} is at rest, but {problem}", context.name(object)),
                );
            }
        }
        self.0 = correct;
    }
}

/// Returns the problem of an object.
fn check(context: &Context, object: &Object, unowned: &Unowned<'_>) -> Result<(), String> {
    let (generation, observed) = (object.generation, object.observed());
    if observed != Some(generation) {
        let observed = observed.unwrap_or(0);
        return Err(format!(
            "observedGeneration is {observed}, and its generation is {generation}"
        ));
    }
    match object.collection {
        REPLICA_SETS | REPLICATION_CONTROLLERS | APP_REPLICA_SETS => set(context, object, unowned),
        DEPLOYMENTS => deployment(context, object),
        _ => app_service(context, object),
    }
}

/// Reports whether the desired state of an object has to be reached.
fn is_bound(context: &Context, object: &Object) -> bool {
    let is_workload = matches!(
        object.collection,
        REPLICA_SETS | REPLICATION_CONTROLLERS | APP_REPLICA_SETS | DEPLOYMENTS | APP_SERVICES
    );
    let namespace = || context.model.at(NAMESPACES, EMPTY, object.namespace);
    is_workload
        && !object.terminating
        && !context.is_in(&context.rules.unreachable, object)
        && !namespace().is_some_and(|it| it.terminating)
}

fn unowned(context: &Context, is_new: impl Fn(&Object) -> bool) -> Unowned<'_> {
    let mut all = Unowned::new();
    let free = |it: &&Object| it.controller().is_none() && it.is_active() && is_new(it);
    for pod in context.model.of(PODS).filter(free) {
        if let Ok(it) = serde_json::from_slice::<Labelled<'_>>(&pod.state) {
            let labels = it.metadata.labels.unwrap_or_default();
            all.entry(pod.namespace).or_default().push((pod, labels));
        }
    }
    all
}

fn controlled<'a>(context: &'a Context, owner: &Object) -> impl Iterator<Item = &'a Object> {
    let uid = owner.uid;
    let dependents = context.model.dependents(uid);
    dependents.filter(move |it| it.controller().is_some_and(|it| it.uid == uid))
}

fn is_ready(pod: &Object) -> bool {
    matches!(
        pod.detail,
        Detail::Pod {
            ready: Some(true),
            ..
        }
    )
}

/// Returns the problem of a `ReplicaSet`, a `ReplicationController` or an `AppReplicaSet`.
fn set(context: &Context, object: &Object, unowned: &Unowned<'_>) -> Result<(), String> {
    let Detail::Set { replicas, .. } = object.detail else {
        return Ok(());
    };
    let view: SetView<'_> = serde_json::from_slice(&object.state).map_err(|error| error.to_string())?;
    let Some(selector) = selector(object, &view) else {
        return Ok(());
    };
    let labels = view.spec.template.metadata.labels.unwrap_or_default();
    if !selector.matches(&labels) {
        // The spec is invalid.
        return Ok(());
    }
    let is_adopted = |pod: &&(&Object, Labels<'_>)| selector.matches(&pod.1);
    if let Some((pod, _)) = unowned
        .get(&object.namespace)
        .into_iter()
        .flatten()
        .find(is_adopted)
    {
        return Err(format!(
            "{} matches its selector and has no controller",
            context.name(pod)
        ));
    }
    let pods: Vec<&Object> = controlled(context, object).collect();
    let active: Vec<&&Object> = pods.iter().filter(|it| it.is_active()).collect();
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    if count(active.len()) != replicas {
        return Err(format!("it has {} active pods of {replicas}", active.len()));
    }
    for pod in &active {
        let labels = serde_json::from_slice::<Labelled<'_>>(&pod.state).map_err(|error| error.to_string())?;
        if !selector.matches(&labels.metadata.labels.unwrap_or_default()) {
            return Err(format!("its selector does not match {}", context.name(pod)));
        }
    }
    let ready = count(active.iter().filter(|it| is_ready(it)).count());
    let unfinished = |it: &&&Object| matches!(it.detail, Detail::Pod { finished: false, .. });
    let terminating = pods.iter().filter(|it| it.terminating).filter(unfinished);
    let terminating = count(terminating.count());
    let status = view.status;
    let expected = [
        ("replicas", status.replicas, replicas),
        ("readyReplicas", status.ready_replicas, ready),
        (
            "terminatingReplicas",
            status.terminating_replicas.unwrap_or(terminating),
            terminating,
        ),
    ];
    check_counts(&expected)?;
    // With minReadySeconds a ready pod may not be available yet.
    let most = status.available_replicas <= ready;
    if !most || view.spec.min_ready_seconds == 0 && status.available_replicas != ready {
        return Err(format!(
            "availableReplicas is {}, not {ready}",
            status.available_replicas
        ));
    }
    Ok(())
}

fn selector<'a>(object: &Object, view: &SetView<'a>) -> Option<Selector<'a>> {
    let json = view.spec.selector?.get();
    if object.collection == REPLICATION_CONTROLLERS {
        return serde_json::from_str(json).ok().map(Selector::equal);
    }
    serde_json::from_str(json).ok()
}

/// Reports whether the selector of a set matches a pod; also if one of them cannot be read.
pub(super) fn selects(set: &Object, pod: &Object) -> bool {
    let view = serde_json::from_slice::<SetView<'_>>(&set.state).ok();
    let selector = view.as_ref().and_then(|view| selector(set, view));
    let labels = serde_json::from_slice::<Labelled<'_>>(&pod.state).ok();
    selector
        .zip(labels)
        .is_none_or(|(selector, labels)| selector.matches(&labels.metadata.labels.unwrap_or_default()))
}

/// Reports whether two states of a pod have the same labels.
pub(super) fn has_equal_labels(one: &Object, other: &Object) -> bool {
    let labels = |it| {
        serde_json::from_slice::<Labelled<'_>>(it)
            .ok()
            .and_then(|it| it.metadata.labels)
    };
    labels(&one.state) == labels(&other.state)
}

fn check_counts(counts: &[(&str, i64, i64)]) -> Result<(), String> {
    match counts.iter().find(|(_, actual, expected)| actual != expected) {
        Some((field, actual, expected)) => Err(format!("{field} is {actual}, not {expected}")),
        None => Ok(()),
    }
}

/// Returns the problem of a Deployment.
fn deployment(context: &Context, object: &Object) -> Result<(), String> {
    let Detail::Deployment { bounds, .. } = object.detail else {
        return Ok(());
    };
    let read = |object: &Object| -> Result<TemplateView, String> {
        serde_json::from_slice(&object.state).map_err(|error| error.to_string())
    };
    let view = read(object)?;
    let owned = controlled(context, object).filter(|it| it.collection == REPLICA_SETS && !it.terminating);
    let owned: Vec<&Object> = owned.collect();
    let mut sum = Counts::default();
    let (mut is_available, mut size) = (true, 0);
    let mut sets = Vec::new();
    for set in owned {
        let it = read(set)?;
        let Detail::Set { replicas, .. } = set.detail else {
            continue;
        };
        size += replicas;
        is_available &= it.status.available_replicas == replicas;
        sum.replicas += it.status.replicas;
        sum.ready_replicas += it.status.ready_replicas;
        sum.available_replicas += it.status.available_replicas;
        sets.push((set, replicas, it));
    }
    let status = view.status;
    check_counts(&[
        ("replicas", status.replicas, sum.replicas),
        ("readyReplicas", status.ready_replicas, sum.ready_replicas),
        (
            "availableReplicas",
            status.available_replicas,
            sum.available_replicas,
        ),
    ])?;
    if view.spec.paused || !is_available {
        // The rollout waits for the user or the nodes.
        return Ok(());
    }
    let replicas = bounds.replicas;
    if size != replicas {
        return Err(format!("its ReplicaSets have {size} replicas, not {replicas}"));
    }
    check_counts(&[("updatedReplicas", status.updated_replicas, replicas)])?;
    if let Some(limit) = view.spec.revision_history_limit.filter(|it| sets.len() > it + 1) {
        return Err(format!(
            "it has {} ReplicaSets, and its revisionHistoryLimit is {limit}",
            sets.len()
        ));
    }
    if context.rules.changes_templates || replicas == 0 {
        return Ok(());
    }
    let template = normalized(view.spec.template);
    for (set, replicas, it) in sets.into_iter().filter(|it| it.1 > 0) {
        if normalized(it.spec.template) != template {
            return Err(format!(
                "{} has {replicas} replicas of another template",
                context.name(set)
            ));
        }
    }
    Ok(())
}

/// Returns a template without the label of its hash.
fn normalized(mut template: Value) -> Value {
    if let Some(Value::Object(labels)) = template.pointer_mut("/metadata/labels") {
        labels.remove("pod-template-hash");
    }
    template
}

/// Returns the problem of an `AppService`.
fn app_service(context: &Context, object: &Object) -> Result<(), String> {
    let view: AppServiceView<'_> =
        serde_json::from_slice(&object.state).map_err(|error| error.to_string())?;
    let name = view.spec.deployment_name;
    let deployment = context.symbols.get(&name);
    let deployment = deployment.and_then(|it| context.model.at(DEPLOYMENTS, object.namespace, it));
    let Some(deployment) = deployment else {
        return Err(format!("its Deployment {name:?} does not exist"));
    };
    if let (Detail::Deployment { bounds, .. }, Some(replicas)) = (&deployment.detail, view.spec.replicas) {
        check_counts(&[("replicas of its Deployment", bounds.replicas, replicas)])?;
    }
    let TemplateView { spec, .. } =
        serde_json::from_slice(&deployment.state).map_err(|error| error.to_string())?;
    let image = spec
        .template
        .pointer("/spec/containers/0/image")
        .and_then(Value::as_str);
    match view.spec.image.filter(|it| image != Some(it)) {
        Some(expected) => Err(format!(
            "the image of its Deployment is {image:?}, not {expected:?}"
        )),
        None => Ok(()),
    }
}

/// Checks that the run has converged in time, and that no write follows.
pub(super) fn check_writes(
    context: &Context,
    last: Option<&(std::time::Duration, String)>,
    found: &mut Found,
) {
    let Some((at, write)) = last else { return };
    let quiet = context.quiet.unwrap_or_default();
    let due = quiet + context.rules.converges_within;
    if *at > due {
        let message = format!("the faults ended at {quiet:?}, and {write} was sent at {at:?}, after {due:?}");
        found.add("L1", message);
    } else if context.now.saturating_sub(*at) < context.rules.rest {
        let now = context.now;
        found.add(
            "L1",
            format!("the run is not at rest at {now:?}: {write} was sent at {at:?}"),
        );
    }
}
