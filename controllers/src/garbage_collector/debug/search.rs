//! Search for objects of the graph by uid, or by kind, namespace and name.

use steersman_manager::object::Uid;

use crate::garbage_collector::graph::Identity;

/// A search text: `kind/namespace/name`, `kind/name`, `namespace/name`, a part of a name, or a uid. Names may be cut off at
/// their end. A kind may be plural; case is ignored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Search {
    uid: Uid,
    parts: Vec<String>,
}

/// The quality of a match. An exact one is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    Partial,
    Exact,
}

impl Search {
    /// None if the text is empty or has too many parts.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let parts: Vec<String> = text.split('/').map(str::to_lowercase).collect();
        let valid = (1..=3).contains(&parts.len()) && parts.iter().all(|part| !part.is_empty());
        valid.then_some(Self {
            uid: Uid::from(text),
            parts,
        })
    }

    pub(super) fn matches(&self, object: &Identity) -> Option<Match> {
        if object.uid == self.uid {
            return Some(Match::Exact);
        }
        let (scope, name) = match &self.parts[..] {
            [name] => {
                let contains = object.name.contains(name.as_str()).then_some(Match::Partial);
                return if object.name == **name {
                    Some(Match::Exact)
                } else {
                    contains
                };
            }
            [scope, name] => (is_kind(object, scope) || object.namespace == **scope, name),
            [kind, namespace, name] => (is_kind(object, kind) && object.namespace == **namespace, name),
            _ => return None,
        };
        match scope {
            true if object.name == **name => Some(Match::Exact),
            true if object.name.starts_with(name.as_str()) => Some(Match::Partial),
            _ => None,
        }
    }
}

/// Whether `word` names the kind of an object, in the singular or the plural, without or with its group.
fn is_kind(object: &Identity, word: &str) -> bool {
    let word = word.split_once('.').map_or(word, |(resource, _)| resource);
    let kind = object.kind.to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => word.strip_prefix(stem) == Some("ies"),
        None => matches!(word.strip_prefix(kind.as_str()), Some("s" | "es")),
    };
    word == kind || plural
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(text: &str) -> Option<Match> {
        let object = Identity {
            uid: "8f1c".into(),
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            namespace: "default".into(),
            name: "web-7d4".into(),
        };
        Search::parse(text)?.matches(&object)
    }

    #[test]
    fn object_is_found_by_uid_name_and_kind() {
        for text in [
            "8f1c",
            " web-7d4 ",
            "default/web-7d4",
            "replicaset/web-7d4",
            "ReplicaSets/default/web-7d4",
            "replicasets.apps/default/web-7d4",
        ] {
            assert_eq!(matches(text), Some(Match::Exact), "{text}");
        }
        for text in ["7d", "default/web", "replicaset/default/web-7"] {
            assert_eq!(matches(text), Some(Match::Partial), "{text}");
        }
        for text in [
            "",
            "/",
            "8f",
            "pod/web-7d4",
            "replicaset/other/web-7d4",
            "default/7d4",
            "a/b/c/d",
            "replicaset/",
        ] {
            assert_eq!(matches(text), None, "{text}");
        }
    }
}
