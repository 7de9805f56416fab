//! Resource quotas that count objects: `pods`, `count/<resource>.<group>` and the plural names of core resources.
//!
//! Mirrors the admission plugin `ResourceQuota` and the controller that writes the status of quotas. The API counts the
//! stored objects under a lock, which a create holds until its object is stored. Scopes and amounts such as
//! `requests.cpu` are stored and not enforced.

use std::sync::{MutexGuard, PoisonError};

use crate::endpoints::Api;
use crate::json::{Map, Value, json};
use crate::quantity::Quantity;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::storage::Object;
use crate::{fieldmanager, meta, registry};

const QUOTAS: &str = "resourcequotas";
/// Resources that a quota counts by their plural name.
const PLAIN_NAMES: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    QUOTAS,
    "secrets",
    "services",
];

impl Api {
    /// Fails with 403 if a new object exceeds a quota of its namespace. The caller holds the returned lock until the object
    /// is stored.
    pub(crate) fn admit_to_quotas(
        &self,
        res: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<MutexGuard<'_, ()>>> {
        if !self.has_quotas(res, namespace) {
            return Ok(None);
        }
        let lock = self.lock_quotas();
        for quota in self.quotas_of(namespace) {
            let mut exceeded = [Vec::new(), Vec::new(), Vec::new()];
            for (limit, hard) in limits(&quota).filter(|(limit, _)| counts(limit, res)) {
                let used = self.count(limit, res, namespace);
                if Quantity::whole(used + 1).exceeds(hard) {
                    let amounts = [Quantity::whole(1), Quantity::whole(used), hard];
                    for (list, amount) in exceeded.iter_mut().zip(amounts) {
                        list.push(format!("{limit}={}", amount.text()));
                    }
                }
            }
            let [requested, used, limited] = exceeded.map(|list| list.join(","));
            if !requested.is_empty() {
                let quota = meta::name(&quota);
                let why = format!(
                    "exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}"
                );
                return Err(ApiError::forbidden(res, name, &why));
            }
        }
        Ok(Some(lock))
    }

    /// Updates the status of quotas after an update of a pod or a quota.
    pub(crate) fn update_quotas_after(&self, res: &Resource, object: &Object) {
        let relevant = match res.collection.as_str() {
            QUOTAS => true,
            "pods" => has_ended(object),
            _ => false,
        };
        if let Some((namespace, _)) = object.key.split_once('/').filter(|_| relevant) {
            self.update_quotas(res, namespace);
        }
    }

    /// Counts the objects of a namespace, and writes the status of its quotas.
    pub(crate) fn update_quotas(&self, res: &Resource, namespace: &str) {
        if self.has_quotas(res, namespace) {
            let _lock = self.lock_quotas();
            for quota in self.quotas_of(namespace) {
                self.update_quota(namespace, &quota);
            }
        }
    }

    fn update_quota(&self, namespace: &str, quota: &Value) {
        let served = self.registry();
        let mut used = Map::new();
        for (limit, _) in limits(quota) {
            if let Some(res) = served.stored().iter().find(|res| counts(limit, res)) {
                let count = self.count(limit, res, namespace);
                used.insert(limit.to_owned(), Quantity::whole(count).text().into());
            }
        }
        let hard = quota["spec"].get("hard").cloned().unwrap_or(json!({}));
        let status = json!({"hard": hard, "used": used});
        let Some(res) = registry::built_in("", "v1", QUOTAS).filter(|_| quota["status"] != status) else {
            return;
        };
        let writer = self.controller("status");
        // A quota that was deleted meanwhile needs no status.
        let _ = self.mutate(res, namespace, meta::name(quota), false, |quota| {
            let before = quota.clone();
            meta::set_path(quota, "status", status.clone());
            fieldmanager::track_update(res, &writer, &before, quota);
            Ok(())
        });
    }

    fn has_quotas(&self, res: &Resource, namespace: &str) -> bool {
        res.namespaced && !res.is_review() && self.store.has_any(QUOTAS, &format!("{namespace}/"))
    }

    fn lock_quotas(&self) -> MutexGuard<'_, ()> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn quotas_of(&self, namespace: &str) -> Vec<Value> {
        let objects = self.objects(QUOTAS, &format!("{namespace}/"));
        objects.iter().map(|object| object.value().clone()).collect()
    }

    /// Number of objects that a limit counts. `pods` leaves out pods that have ended.
    fn count(&self, limit: &str, res: &Resource, namespace: &str) -> usize {
        let objects = self.objects(&res.collection, &format!("{namespace}/"));
        let counted = objects.iter().filter(|it| limit != "pods" || !has_ended(it));
        counted.count()
    }
}

/// The limits of a quota by name.
fn limits(quota: &Value) -> impl Iterator<Item = (&str, Quantity)> {
    let hard = quota["spec"]["hard"].as_object().into_iter().flatten();
    hard.filter_map(|(name, amount)| Some((name.as_str(), Quantity::read(amount)?)))
}

/// Whether a limit counts the objects of a resource.
fn counts(limit: &str, res: &Resource) -> bool {
    if let Some(resource) = limit.strip_prefix("count/") {
        return res.namespaced && res.collection != "events" && resource == res.qualified();
    }
    res.collection == limit && PLAIN_NAMES.contains(&limit)
}

fn has_ended(pod: &Object) -> bool {
    let phase = pod.value()["status"]["phase"].as_str();
    matches!(phase, Some("Failed" | "Succeeded"))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::Options;
    use crate::endpoints::decode;
    use crate::endpoints::decode::{FieldValidation, Stage};

    fn create(api: &Api, plural: &str, object: Value) -> Result<crate::endpoints::Written> {
        let res = api
            .registry()
            .find("", "v1", plural)
            .expect("a built-in resource");
        let decoded = decode::object(
            &res,
            object,
            None,
            Vec::new(),
            FieldValidation::Ignore,
            Stage::Sent,
        )?;
        api.create_object(&res, "default", decoded.value, false)
    }

    #[test]
    fn concurrent_creates_never_exceed_the_quota() {
        let api = Api::new(Options::default());
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "50"}}});
        create(&api, QUOTAS, quota).expect("a quota");
        let made: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|t| {
                    let api = &api;
                    scope.spawn(move || {
                        let map = |n: usize| json!({"metadata": {"name": format!("m-{t}-{n}")}});
                        let all = (0..30).map(|n| create(api, "configmaps", map(n)));
                        all.flatten().count()
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).sum()
        });
        assert_eq!(made, 50);
        let quota = api.store.get(QUOTAS, "default/q").expect("the quota");
        assert_eq!(quota.value()["status"]["used"]["configmaps"], "50");
    }
}
