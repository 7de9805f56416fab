//! Observes the pods of an owner: the cache, the expectations, and live reads for requests of unknown outcome.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use steersman_manager::cache::Lookup;
use steersman_manager::client::ClientError;
use steersman_manager::controller::ReconcileError;
use steersman_manager::object::{Key, Text, Uid};
use steersman_manager::selector::Selector;

use super::backoff::Budget;
use super::deletion_order::{NodeRanks, ranks_by_node};
use super::plan::{self, Snapshot};
use super::{Owner, Pod, ReplicaSetReconciler, naming};
use crate::support::pod_control::PodControl;

/// The minimum time until a request that the cache does not show is resolved by live reads.
const RESOLVE_INTERVAL_MIN: Duration = Duration::from_secs(30);

impl ReplicaSetReconciler {
    /// Returns the observed state and the error of a failed live read, which limits the actions. None if a cache is stale.
    pub(super) async fn observe<'a>(
        &self,
        owner: &'a Owner,
        selector: &Selector,
        pods: &PodControl<'_>,
    ) -> Option<(Snapshot<'a>, Option<ReconcileError>)> {
        let (key, env) = (pods.key, pods.env);
        // Before the pods are listed: the list includes everything that is settled here.
        self.settle_expectations(key, owner);
        let (not_found, mut error) = match self.resolve(owner, pods).await {
            Ok(Some(not_found)) => (not_found, None),
            Ok(None) => return None,
            Err(error) => (BTreeSet::new(), Some(ReconcileError::from(error))),
        };
        let is_resolved = error.is_none();
        let is_satisfied = self.expectations.satisfied(key, env.clock.now());
        let claims = plan::claims(owner, selector, &self.candidates(owner));
        if is_resolved && !claims.adopt.is_empty() {
            error = pods.confirm_owner().await.err();
        }
        let (now, wall) = (env.clock.now(), env.clock.wall());
        let mut snapshot = Snapshot {
            owner,
            claims,
            is_resolved,
            may_adopt: error.is_none(),
            is_satisfied,
            pending_creates: self.expectations.pending_creates(key, now),
            not_found,
            undecodable: BTreeSet::new(),
            ranks: NodeRanks::new(),
            budget: Budget::default(),
            creates_suspended_for: None,
            name_seed: 0,
        };
        if snapshot.may_adopt && snapshot.may_scale() {
            // These are read only if the plan depends on them: the ranks need all pods of the namespace.
            match snapshot.missing() {
                0 => {}
                1.. => {
                    snapshot.undecodable = self.undecodable(owner);
                    snapshot.name_seed = env.rng.number();
                }
                _ => snapshot.ranks = self.ranks(owner),
            }
            let remembered = self.memory.with(key, |it| {
                let claims = &snapshot.claims;
                let pending = &snapshot.pending_creates;
                it.backoff
                    .observe(&claims.finished, &claims.active, pending, now, wall);
                let resume = it.creates_resume.filter(|it| *it > now);
                it.creates_resume = resume;
                (it.backoff.budget(now), resume.map(|it| it - now))
            });
            // Nothing is remembered if the next term has begun: this one must not create pods.
            let suspended = (Budget::default(), Some(Duration::ZERO));
            (snapshot.budget, snapshot.creates_suspended_for) = remembered.unwrap_or(suspended);
        }
        Some((snapshot, error))
    }

    /// Ends the expectations that the cache shows. A deleted pod cannot have changed its controller.
    fn settle_expectations(&self, key: &Key, owner: &Owner) {
        let pods = &self.pods;
        let is_absent = |it: &Lookup<Pod>| matches!(it, Lookup::Absent);
        let shown = |name: &Text, _| !is_absent(&pods.get(&Key::new(key.namespace.clone(), name.clone())));
        let mut present: Option<BTreeSet<Uid>> = None;
        let gone = |uid: &Uid| {
            let present = present.get_or_insert_with(|| {
                let all = pods.by_owner(&owner.metadata.uid).into_iter();
                let staying = all.filter(|it| !it.metadata.is_terminating());
                staying.map(|it| it.metadata.uid.clone()).collect()
            });
            !present.contains(uid)
        };
        self.expectations.observe_cache(key, shown, gone);
    }

    /// Resolves deletes and creates of unknown outcome by live reads. Returns the names of creates without a pod, or none if
    /// the cache is behind the live state of a pod.
    async fn resolve(
        &self,
        owner: &Owner,
        pods: &PodControl<'_>,
    ) -> Result<Option<BTreeSet<Text>>, ClientError> {
        let (key, clock) = (pods.key, &pods.env.clock);
        let uids = self.expectations.unknown_deletes(key, clock.now());
        if !uids.is_empty() {
            let mut unknown = self.pods.by_owner(&owner.metadata.uid);
            unknown.retain(|it| uids.contains(&it.metadata.uid));
            if !unknown.is_empty() {
                pods.resolve_deletes(unknown).await?;
                if self.is_stale(key, pods.env) {
                    return Ok(None);
                }
            }
        }
        let pending = self.expectations.pending_creates(key, clock.now());
        pods.resolve_creates(&pending).await.map(Some)
    }

    /// Returns the pods of the owner and the pods without a controller.
    fn candidates(&self, owner: &Owner) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.by_owner(&owner.metadata.uid);
        pods.extend(self.pods.unmanaged(&owner.metadata.namespace));
        pods
    }

    /// Counts, by node, the active pods of all owners that have the same controller as `owner`.
    fn ranks(&self, owner: &Owner) -> NodeRanks {
        let Some(controller) = owner.manager() else {
            return NodeRanks::new();
        };
        let related = self.owners.by_owner(controller);
        let related = related.iter();
        let selectors: Vec<&Selector> = related.filter_map(|it| it.selector().ok()).collect();
        ranks_by_node(&selectors, &self.pods.list_namespace(&owner.metadata.namespace))
    }

    /// Returns the names of pods that cannot be decoded and may, by their name, belong to the owner.
    fn undecodable(&self, owner: &Owner) -> BTreeSet<Text> {
        let base = naming::base(&owner.metadata.name);
        let namespace = &owner.metadata.namespace;
        let keys = self.pods.undecodable().into_iter();
        keys.filter(|it| it.namespace == *namespace && naming::is_made_of(&base, &it.name))
            .map(|it| it.name)
            .collect()
    }

    /// Returns the time until requests that the cache does not show are resolved again: a pod that was created and deleted
    /// between two lists leads to no event. One read per second at most, as pods outside the scope of the cache never appear.
    pub(super) fn resolve_in(&self, pods: &PodControl<'_>) -> Option<Duration> {
        let (key, now) = (pods.key, pods.env.clock.now());
        let names = self.expectations.pending_creates(key, now).len();
        let open = names > 0 || !self.expectations.satisfied(key, now);
        open.then(|| RESOLVE_INTERVAL_MIN.max(Duration::from_secs(names.try_into().unwrap_or(u64::MAX))))
    }
}
