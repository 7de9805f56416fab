//! The parts of objects and requests that the checker reads. Text is borrowed, and all other fields are skipped.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// An object with the spec and status that its resource needs.
#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default, T: Deserialize<'de> + Default"))]
pub(super) struct View<'a, S, T> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(default)]
    pub(super) spec: S,
    #[serde(default)]
    pub(super) status: T,
}

/// A spec or status that is not read.
#[derive(Default)]
pub(super) struct Skipped;

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta<'a> {
    #[serde(borrow)]
    pub(super) uid: Cow<'a, str>,
    pub(super) generation: i64,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) finalizers: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    pub(super) owner_references: Option<Vec<OwnerReference<'a>>>,
}

/// Text that is borrowed inside a list, too.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnerReference<'a> {
    #[serde(borrow, default)]
    pub(super) api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) uid: Cow<'a, str>,
    #[serde(default)]
    pub(super) controller: Option<bool>,
    #[serde(default)]
    pub(super) block_owner_deletion: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PodStatus<'a> {
    #[serde(borrow)]
    pub(super) phase: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) conditions: Option<Vec<Condition<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct Condition<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) type_: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) status: Cow<'a, str>,
}

/// The spec of a `ReplicaSet`, a `ReplicationController` or an `AppReplicaSet`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SetSpec {
    pub(super) replicas: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SetStatus {
    pub(super) observed_generation: i64,
    pub(super) replicas: i64,
    pub(super) available_replicas: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct DeploymentSpec {
    pub(super) replicas: Option<i64>,
    pub(super) strategy: Option<Strategy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Strategy {
    #[serde(rename = "type", default)]
    pub(super) type_: String,
    pub(super) rolling_update: Option<RollingUpdate>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RollingUpdate {
    pub(super) max_surge: Option<Amount>,
    pub(super) max_unavailable: Option<Amount>,
}

/// A number of pods, or a percentage.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Amount {
    Count(i64),
    Share(String),
}

/// The status of a Deployment or an `AppService`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Observed {
    pub(super) observed_generation: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LeaseSpec<'a> {
    #[serde(borrow)]
    pub(super) holder_identity: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct DefinitionSpec {
    pub(super) group: String,
    pub(super) names: DefinitionNames,
    pub(super) scope: String,
    pub(super) versions: Vec<DefinitionVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct DefinitionNames {
    pub(super) plural: String,
    pub(super) kind: String,
}

#[derive(Deserialize)]
pub(super) struct DefinitionVersion {
    pub(super) name: String,
    #[serde(default)]
    pub(super) served: bool,
}

/// The preconditions in the body of a write.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Conditions<'a> {
    /// Of a DELETE.
    #[serde(borrow)]
    pub(super) preconditions: Precondition<'a>,
    /// Of an update or a patch.
    #[serde(borrow)]
    pub(super) metadata: Precondition<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Precondition<'a> {
    #[serde(borrow)]
    pub(super) uid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) resource_version: Option<Cow<'a, str>>,
}

/// One operation of a JSON patch.
#[derive(Deserialize)]
struct Operation<'a> {
    #[serde(borrow)]
    op: Cow<'a, str>,
    #[serde(borrow)]
    path: Cow<'a, str>,
}

/// Reports whether the body of an update, patch or delete names the uid or the resourceVersion that it applies to.
pub(super) fn is_conditional(body: &[u8]) -> bool {
    if body.trim_ascii_start().starts_with(b"[") {
        let operations: Vec<Operation<'_>> = serde_json::from_slice(body).unwrap_or_default();
        let fields = ["/metadata/resourceVersion", "/metadata/uid"];
        return operations
            .iter()
            .any(|it| it.op == "test" && fields.contains(&&*it.path));
    }
    let body: Conditions<'_> = serde_json::from_slice(body).unwrap_or_default();
    let is_set = |it: &Precondition<'_>| it.uid.is_some() || it.resource_version.is_some();
    is_set(&body.preconditions) || is_set(&body.metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditional_write_names_uid_or_version() {
        for body in [
            r#"{"preconditions": {"uid": "a"}}"#,
            r#"{"metadata": {"resourceVersion": "7", "name": "a"}}"#,
            r#"[{"op": "test", "path": "/metadata/resourceVersion", "value": "7"}]"#,
        ] {
            assert!(is_conditional(body.as_bytes()), "{body}");
        }
        for body in [
            "",
            "{}",
            r#"{"metadata": {"name": "a"}}"#,
            r#"{"propagationPolicy": "Background"}"#,
            r#"[{"op": "add", "path": "/metadata/resourceVersion", "value": "7"}]"#,
        ] {
            assert!(!is_conditional(body.as_bytes()), "{body}");
        }
    }
}
