//! A simulation of the API server and the replicaset controller for one Deployment.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_manager::object::Uid;

use crate::deployment::ReplicaSet;
use crate::deployment::bounds::Bounds;
use crate::deployment::plan::{Plan, Snapshot, plan};
use crate::deployment::progress::{self, CreationReport};
use crate::deployment::replica_sets::PlannedReplicaSet;
use crate::support::annotations::REVISION;
use crate::support::deployment::Deployment;

#[derive(Clone, Debug)]
pub struct Simulation {
    pub deployment: Value,
    /// Keyed by name.
    pub sets: BTreeMap<String, Value>,
    /// The availability of each pod, by the uid of its `ReplicaSet`.
    pub pods: BTreeMap<String, Vec<bool>>,
    pub second: i64,
    created: usize,
}

impl Simulation {
    /// A Deployment before its first sync.
    pub fn new(spec: &Value) -> Self {
        let mut deployment = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "d", "resourceVersion": "1", "generation": 1},
            "spec": {
                "replicas": 1, "revisionHistoryLimit": 2, "progressDeadlineSeconds": 600,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"image": "one"}},
            },
        });
        merge(&mut deployment["spec"], spec);
        Self {
            deployment,
            sets: BTreeMap::new(),
            pods: BTreeMap::new(),
            second: 1_800_000_000,
            created: 0,
        }
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_second(self.second).expect("a time")
    }

    /// Updates the spec of the Deployment.
    pub fn update(&mut self, spec: &Value) {
        let before = self.deployment["spec"].clone();
        merge(&mut self.deployment["spec"], spec);
        if before != self.deployment["spec"] {
            let generation = self.deployment["metadata"]["generation"].as_i64().unwrap_or(0);
            self.deployment["metadata"]["generation"] = json!(generation + 1);
        }
    }

    pub fn deployment(&self) -> Deployment {
        serde_json::from_value(self.deployment.clone()).expect("a Deployment")
    }

    pub fn bounds(&self) -> Bounds {
        Bounds::of(&self.deployment()).expect("bounds")
    }

    pub fn objects(&self) -> Vec<Arc<ReplicaSet>> {
        let read = |it: &Value| Arc::new(serde_json::from_value(it.clone()).expect("a set"));
        self.sets.values().map(read).collect()
    }

    pub fn plan(&self) -> Plan {
        let running = |(uid, pods): (&String, &Vec<bool>)| {
            (!pods.is_empty()).then(|| (Uid::from(uid.as_str()), pods.len()))
        };
        plan(&Snapshot {
            deployment: &self.deployment(),
            bounds: self.bounds(),
            sets: &self.objects(),
            running: &self.pods.iter().filter_map(running).collect(),
        })
    }

    /// Executes one step and calls `observe` after each write. Returns the number of writes.
    pub fn step(&mut self, mut observe: impl FnMut(&Self)) -> usize {
        let mut plan = self.plan();
        let mut creation = CreationReport::None;
        let mut writes = 0;
        if let Some(rollback) = &plan.rollback {
            let before = self.deployment["spec"].clone();
            merge(&mut self.deployment, &rollback.patch);
            if before != self.deployment["spec"] {
                let generation = self.deployment["metadata"]["generation"].as_i64().unwrap_or(0);
                self.deployment["metadata"]["generation"] = json!(generation + 1);
            }
            return 1;
        }
        if let Some(create) = plan.create.take() {
            let mut set: Value = serde_json::from_slice(&create.body).expect("JSON");
            self.created += 1;
            let uid = format!("uid-{}", self.created);
            let more = json!({"uid": uid, "namespace": "default", "resourceVersion": "1", "generation": 1,
                              "creationTimestamp": self.now().to_string()});
            merge(&mut set["metadata"], &more);
            let name = set["metadata"]["name"].as_str().expect("a name").to_owned();
            let taken = self.sets.insert(name, set.clone());
            assert_eq!(taken, None, "names are unique");
            self.pods.insert(uid, Vec::new());
            creation = CreationReport::Created(create.name);
            plan.sets.new = Some(PlannedReplicaSet::of(Arc::new(
                serde_json::from_value(set).expect("a set"),
            )));
            writes += 1;
            observe(self);
        }
        for set in plan.sets.all() {
            if let Some(patch) = set.patch() {
                let object = self
                    .sets
                    .get_mut(&*set.object.metadata.name)
                    .expect("a ReplicaSet");
                merge(object, &patch);
                if patch.get("spec").is_some() {
                    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
                    object["metadata"]["generation"] = json!(generation + 1);
                }
                writes += 1;
                observe(self);
            }
        }
        for set in &plan.delete {
            self.sets.remove(&*set.metadata.name);
            let left = self.pods.remove(&*set.metadata.uid.to_string());
            assert_eq!(
                left,
                Some(Vec::new()),
                "only a ReplicaSet without pods is deleted"
            );
            writes += 1;
        }
        let deployment = self.deployment();
        let status = progress::desired_status(
            &deployment,
            &self.bounds(),
            &plan.sets,
            &creation,
            plan.reports_progress,
            self.now(),
        );
        if let Some(patch) = status.patch(&deployment, plan.revision.as_ref(), false) {
            merge(&mut self.deployment, &patch);
            writes += 1;
        }
        writes
    }

    /// Syncs a `ReplicaSet` as its controller does. Unavailable pods are removed first.
    pub fn sync_set(&mut self, name: &str) {
        let set = &self.sets[name];
        let size = usize::try_from(set["spec"]["replicas"].as_i64().unwrap_or(0)).unwrap_or(0);
        let generation = set["metadata"]["generation"].clone();
        let uid = set["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let pods = self.pods.entry(uid).or_default();
        pods.sort_unstable_by(|a, b| b.cmp(a));
        pods.resize(size, false);
        self.sets.get_mut(name).expect("a ReplicaSet")["status"]["observedGeneration"] = generation;
        self.count(name);
    }

    /// Changes the availability of one pod. Returns whether there was one to change.
    pub fn set_availability(&mut self, name: &str, available: bool) -> bool {
        let uid = self.sets[name]["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let pods = self.pods.entry(uid).or_default();
        let found = pods.iter_mut().find(|it| **it != available);
        let any = found.map(|it| *it = available).is_some();
        self.count(name);
        any
    }

    fn count(&mut self, name: &str) {
        let set = self.sets.get_mut(name).expect("a ReplicaSet");
        let pods = &self.pods[set["metadata"]["uid"].as_str().unwrap_or_default()];
        let available = pods.iter().filter(|it| **it).count();
        let status = json!({"replicas": pods.len(), "readyReplicas": available, "availableReplicas": available,
                            "terminatingReplicas": 0});
        merge(&mut set["status"], &status);
    }

    /// Executes steps and makes all pods available until nothing changes. Returns false if changes never end.
    pub fn settle(&mut self, mut observe: impl FnMut(&Self)) -> bool {
        for _ in 0..500 {
            self.second += 1;
            let mut moved = self.step(&mut observe) > 0;
            for name in self.sets.keys().cloned().collect::<Vec<_>>() {
                let before = self.sets[&name].clone();
                self.sync_set(&name);
                while self.set_availability(&name, true) {}
                moved |= before != self.sets[&name];
            }
            if !moved {
                return true;
            }
        }
        false
    }

    /// The sum of the sizes.
    pub fn total(&self) -> i64 {
        let sizes = self
            .sets
            .values()
            .map(|it| it["spec"]["replicas"].as_i64().unwrap_or(0));
        sizes.sum()
    }

    /// The number of available pods that remain when all sizes are observed.
    pub fn available(&self) -> i64 {
        let of = |set: &Value| {
            let pods = &self.pods[set["metadata"]["uid"].as_str().unwrap_or_default()];
            let available = i64::try_from(pods.iter().filter(|it| **it).count()).unwrap_or(0);
            available.min(set["spec"]["replicas"].as_i64().unwrap_or(0))
        };
        self.sets.values().map(of).sum()
    }

    /// The sizes that are not 0, by image.
    pub fn sizes(&self) -> BTreeMap<String, i64> {
        let mut sizes = BTreeMap::new();
        for set in self.sets.values() {
            let size = set["spec"]["replicas"].as_i64().unwrap_or(0);
            if size > 0 {
                let image = &set["spec"]["template"]["spec"]["image"];
                *sizes
                    .entry(image.as_str().unwrap_or_default().to_owned())
                    .or_default() += size;
            }
        }
        sizes
    }

    pub fn name_of(&self, image: &str) -> String {
        let of = |it: &Value| it["spec"]["template"]["spec"]["image"] == image;
        let found = self.sets.iter().find(|(_, it)| of(it));
        found.map(|(name, _)| name.clone()).expect("a set of that image")
    }

    pub fn revision_of(&self, image: &str) -> String {
        let set = &self.sets[&self.name_of(image)];
        set["metadata"]["annotations"][REVISION]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub fn condition(&self, type_: &str) -> (String, String) {
        let conditions = self.deployment["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let found = conditions.iter().find(|it| it["type"] == type_);
        let text = |field: &str| {
            found
                .and_then(|it| it[field].as_str())
                .unwrap_or_default()
                .to_owned()
        };
        (text("status"), text("reason"))
    }
}

/// Applies a merge patch.
pub fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().expect("an object").remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}
