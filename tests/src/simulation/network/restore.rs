//! Restores the storage of the API from a backup, as `etcdutl snapshot restore --bump-revision` does.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use super::super::fault::Class;
use super::super::record::{Commit, Fact};
use super::{Content, Message, Open, State};

/// The number of revisions by which a restore advances the storage.
const BUMP: u64 = 1000;
const LEASES: &str = "leases.coordination.k8s.io";

/// The JSON of objects by resource and key.
type Objects = BTreeMap<(String, String), String>;

impl State {
    /// Replaces all objects but the Leases with those of a backup: uids and resourceVersions are old, the revision is new. Nothing
    /// from before arrives afterwards.
    pub(in super::super) fn restore(&mut self, backup: &str) {
        let now: Value = serde_json::from_str(&self.sandbox.export()).unwrap_or_default();
        let mut backup: Value = serde_json::from_str(backup).unwrap_or_default();
        let revision = self.sandbox.revision() + BUMP;
        backup["revision"] = revision.into();
        backup["objects"][LEASES] = now["objects"][LEASES].clone();
        self.log(|| format!("the storage is restored at revision {revision}"));
        self.report(Class::F21);
        self.disconnect();
        if let Err(error) = self.sandbox.import(&backup.to_string()) {
            unreachable!("an exported snapshot is valid: {error}");
        }
        let (mut before, after) = (objects(&now), objects(&backup));
        for (key, json) in after {
            let old = before.remove(&key);
            if old.as_ref() != Some(&json) {
                self.restored(revision, key, old, Some(json));
            }
        }
        for (key, old) in before {
            self.restored(revision, key, Some(old), None);
        }
    }

    /// Ends all connections, as the end of the API servers does: the messages on the way are lost.
    pub(in super::super) fn disconnect(&mut self) {
        let is_lost = |it: &mut Message| matches!(it.content, Content::Request(_) | Content::Answer(..));
        let messages: Vec<Message> = self.messages.extract_if(.., is_lost).collect();
        // The process does not notice the end of a silent watch.
        let is_silent = |it: &Open| matches!(it, Open::Stream(stream) if stream.is_silent);
        let open: Vec<Open> = self
            .open
            .extract_if(.., |_, it| !is_silent(it))
            .map(|it| it.1)
            .collect();
        let executions = open.into_iter().filter_map(|it| match it {
            Open::Execution(wire, _) => Some(wire),
            Open::Stream(_) => None,
        });
        let wires = messages.into_iter().filter_map(|it| match it.content {
            Content::Request(wire) | Content::Answer(wire, _) => Some(wire),
            _ => None,
        });
        for wire in wires.chain(executions).collect::<Vec<_>>() {
            self.fail(*wire);
        }
    }

    fn restored(
        &mut self,
        revision: u64,
        (collection, key): (String, String),
        before: Option<String>,
        after: Option<String>,
    ) {
        let commit = Commit {
            revision,
            at: self.at(),
            collection,
            key,
            before: before.map(Bytes::from),
            after: after.map(Bytes::from),
            request: None,
            is_restored: true,
        };
        self.observe(&Fact::Commit(commit));
    }
}

fn objects(snapshot: &Value) -> Objects {
    let mut all = Objects::new();
    for (collection, objects) in snapshot["objects"].as_object().into_iter().flatten() {
        for object in objects.as_array().into_iter().flatten() {
            let meta = &object["metadata"];
            let name = meta["name"].as_str().unwrap_or_default();
            let key = match meta["namespace"].as_str() {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name.to_owned(),
            };
            all.insert((collection.clone(), key), object.to_string());
        }
    }
    all
}
