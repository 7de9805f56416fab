//! Forks of a sandbox, and snapshots of its state: `export` and `import`.
//!
//! A snapshot is a JSON document with the store revision and every object, including uid and resourceVersion. `import`
//! also reads YAML. A snapshot has no history: watches and lists at a revision from before the import fail with 410.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::apiextensions::establish::COLLECTION as DEFINITIONS;
use crate::endpoints::Api;
use crate::json::{Value, json};
use crate::storage::Draft;
use crate::{Env, Sandbox, meta, yaml};

const KIND: &str = "SandboxSnapshot";

/// An error in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The text is neither JSON nor YAML.
    #[error("snapshot is malformed: {0}")]
    Malformed(String),
    /// The document has another kind.
    #[error("expected kind {KIND}, found {0}")]
    Kind(String),
    /// An object has no name or no resourceVersion.
    #[error("object {index} of {collection} has an invalid metadata.{field}")]
    Metadata {
        /// The collection, such as `pods`.
        collection: String,
        /// The zero-based index of the object in its collection.
        index: usize,
        /// `name` or `resourceVersion`.
        field: &'static str,
    },
}

impl Sandbox {
    /// Returns an independent sandbox with the same objects, history and revision. Takes constant time: the two share
    /// state until one of them writes. Open watches stay connected to the original, and the journal of the fork is empty.
    #[must_use]
    pub fn fork(&self) -> Self {
        self.fork_in(self.api.env.fork())
    }

    /// [`Sandbox::fork`] with a clock and a seed of its own, such as on another runtime.
    #[must_use]
    pub fn fork_in(&self, env: Env) -> Self {
        Self {
            api: Arc::new(self.api.fork(env)),
        }
    }

    /// Returns all objects and the revision as a snapshot for [`Sandbox::import`].
    #[must_use]
    pub fn export(&self) -> String {
        let (collections, revision) = self.api.store.dump();
        let objects: BTreeMap<String, Vec<&Value>> = collections
            .iter()
            .filter(|(_, objects)| !objects.is_empty())
            .map(|(name, objects)| (name.clone(), objects.iter().map(|o| o.value()).collect()))
            .collect();
        json!({"kind": KIND, "revision": revision, "objects": objects}).to_string()
    }

    /// Replaces all objects with those of a snapshot. Keeps the uids and resourceVersions of the snapshot.
    pub fn import(&self, snapshot: &str) -> Result<(), SnapshotError> {
        self.api.import(snapshot)
    }
}

impl Api {
    fn import(&self, snapshot: &str) -> Result<(), SnapshotError> {
        let parsed = yaml::parse(snapshot.as_bytes());
        let mut snapshot = parsed.map_err(|e| SnapshotError::Malformed(e.to_string()))?.value;
        if snapshot["kind"] != KIND {
            return Err(SnapshotError::Kind(snapshot["kind"].to_string()));
        }
        let revision = snapshot["revision"].as_u64().unwrap_or_default();
        let Value::Object(mut collections) = snapshot["objects"].take() else {
            return Err(SnapshotError::Malformed("objects is missing".to_owned()));
        };
        // CRDs load first: they declare the selectable fields of custom resources.
        let definitions = collections.remove(DEFINITIONS).unwrap_or_default();
        let mut objects = self.read_collection(DEFINITIONS, definitions)?;
        for (collection, values) in &collections {
            self.read_collection(collection, values.clone())?;
        }
        self.store.load(objects.clone(), revision);
        self.crd_removed();
        for (collection, values) in collections {
            objects.extend(self.read_collection(&collection, values)?);
        }
        self.store.load(objects, revision);
        self.refresh_webhooks();
        Ok(())
    }

    fn read_collection(
        &self,
        collection: &str,
        values: Value,
    ) -> Result<Vec<(String, String, u64, Draft)>, SnapshotError> {
        let Value::Array(values) = values else {
            return Ok(Vec::new());
        };
        let served = self.registry();
        let res = served.stored().iter().find(|res| res.collection == collection);
        let read = |(index, value): (usize, Value)| {
            let wrong = |field| SnapshotError::Metadata {
                collection: collection.to_owned(),
                index,
                field,
            };
            let version = meta::text(&value, "resourceVersion").parse();
            let version = version.map_err(|_| wrong("resourceVersion"))?;
            let name = meta::name(&value);
            if name.is_empty() {
                return Err(wrong("name"));
            }
            let key = meta::key(meta::namespace(&value), name);
            let shape = res
                .and_then(|res| res.custom.as_ref())
                .map_or(0, |custom| custom.stored.id());
            Ok((collection.to_owned(), key, version, Draft { value, shape }))
        };
        values.into_iter().enumerate().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn create(sandbox: &Sandbox, name: &str) -> String {
        let res = sandbox
            .api
            .registry()
            .find("", "v1", "configmaps")
            .expect("a resource");
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let created = sandbox.api.create_object(&res, "default", value, false);
        let created = created.expect("a free name");
        meta::text(&created, "uid").to_owned()
    }

    fn names(sandbox: &Sandbox) -> Vec<String> {
        let snapshot = sandbox.api.store.snapshot("configmaps", "", None, None);
        let objects = snapshot.expect("the present state").objects;
        objects.iter().map(|o| o.key.clone()).collect()
    }

    #[test]
    fn fork_shares_history_and_isolates_later_writes() {
        let sandbox = Sandbox::builder().start().expect("a sandbox");
        let before = sandbox.revision();
        create(&sandbox, "a");
        let fork = sandbox.fork();
        assert_eq!(fork.revision(), sandbox.revision());
        let ours = create(&sandbox, "b");
        assert_eq!(names(&fork), ["default/a"]);
        assert_eq!(
            create(&fork, "b"),
            ours,
            "uids depend on the seed and the object alone"
        );
        create(&fork, "c");
        assert_eq!(names(&sandbox), ["default/a", "default/b"]);
        let (changes, _) = fork
            .api
            .store
            .changes("configmaps", before, 10)
            .expect("the history");
        assert_eq!(changes.len(), 3);
    }

    #[test]
    fn import_restores_exported_state() {
        let sandbox = Sandbox::builder().start().expect("a sandbox");
        create(&sandbox, "a");
        let text = sandbox.export();
        let other = Sandbox::builder().start().expect("a sandbox");
        create(&other, "b");
        other.import(&text).expect("a snapshot");
        assert_eq!(other.export(), text);
        assert_eq!(names(&other), ["default/a"]);
    }

    #[test]
    fn malformed_snapshot_is_rejected_without_changes() {
        let sandbox = Sandbox::builder().start().expect("a sandbox");
        let before = sandbox.export();
        let nameless = json!({"kind": KIND, "revision": 1000, "objects": {"pods": [{"metadata": {}}]}});
        for text in ["[", "{}", &nameless.to_string()] {
            assert!(sandbox.import(text).is_err(), "{text}");
        }
        assert_eq!(sandbox.export(), before);
    }
}
