//! A watch of etcd: every change of every object, in the order of the store. It does not pass through the proxies.
//!
//! kube-apiserver stores JSON here, by `--storage-media-type`.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use crate::simulation::checker::BUILT_IN;

const PREFIX: &str = "/registry/";
/// The first key after the prefix.
const END: &str = "/registry0";

/// A change of one object.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) revision: u64,
    /// The resource and its group: `pods`, `deployments.apps`.
    pub(super) collection: String,
    /// The namespace and the name, or the name of a cluster-scoped object.
    pub(super) key: String,
    pub(super) uid: String,
    pub(super) before: Option<Bytes>,
    pub(super) after: Option<Bytes>,
}

/// The end of the watch.
#[derive(Debug)]
pub(super) struct WatchEnded(pub(super) String);

#[derive(Deserialize)]
struct Message {
    result: Batch,
}

#[derive(Deserialize)]
struct Batch {
    #[serde(default)]
    events: Vec<Event>,
    #[serde(default)]
    canceled: bool,
}

#[derive(Deserialize)]
struct Event {
    kv: KeyValue,
    prev_kv: Option<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    mod_revision: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    uid: String,
}

/// Sends all changes since the first one, until the watch ends.
pub(super) async fn watch(url: &str, sender: mpsc::UnboundedSender<Change>) -> WatchEnded {
    match read(url, &sender).await {
        Ok(()) => WatchEnded("the watch of etcd has ended".to_owned()),
        Err(error) => WatchEnded(format!("the watch of etcd failed: {error}")),
    }
}

async fn read(
    url: &str,
    sender: &mpsc::UnboundedSender<Change>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut config = kube::Config::new(url.parse()?);
    config.read_timeout = None;
    let client = kube::Client::try_from(config)?;
    let create = json!({"create_request": {
        "key": BASE64_STANDARD.encode(PREFIX), "range_end": BASE64_STANDARD.encode(END),
        "start_revision": 1, "prev_kv": true,
    }});
    let request = http::Request::post("/v3/watch").body(Body::from(create.to_string().into_bytes()))?;
    let mut body = client.send(request).await?.into_body();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        rest.extend_from_slice(frame?.data_ref().map_or(&[][..], |it| it));
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = rest.split_to(end + 1);
            let batch = serde_json::from_slice::<Message>(&line)?.result;
            if batch.canceled {
                return Ok(());
            }
            for event in batch.events {
                if let Some(change) = change(event)?
                    && sender.send(change).is_err()
                {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Returns the change of an object; none for a key that is not an object.
fn change(event: Event) -> Result<Option<Change>, Box<dyn std::error::Error + Send + Sync>> {
    let value = |it: KeyValue| -> Result<Option<Bytes>, base64::DecodeError> {
        let value = BASE64_STANDARD.decode(it.value)?;
        Ok((!value.is_empty()).then(|| value.into()))
    };
    let path = String::from_utf8(BASE64_STANDARD.decode(&event.kv.key)?)?;
    let revision = event.kv.mod_revision.parse()?;
    let after = value(event.kv)?;
    let before = event.prev_kv.map(value).transpose()?.flatten();
    let Some(object) = after.as_ref().or(before.as_ref()) else {
        return Ok(None);
    };
    let Ok(object) = serde_json::from_slice::<Object>(object) else {
        return Ok(None);
    };
    let Metadata { name, namespace, uid } = object.metadata;
    let key = if namespace.is_empty() {
        name
    } else {
        format!("{namespace}/{name}")
    };
    let collection = collection(&path, &object.api_version, &object.kind);
    Ok(collection.map(|collection| Change {
        revision,
        collection,
        key,
        uid,
        before,
        after,
    }))
}

/// Returns the resource of a built-in kind, or that of the path of a custom resource.
fn collection(path: &str, api_version: &str, kind: &str) -> Option<String> {
    let group = |api_version: &str| api_version.split_once('/').map_or("", |it| it.0).to_owned();
    let found = BUILT_IN
        .iter()
        .find(|it| it.kind == kind && group(it.api_version) == group(api_version));
    if let Some(found) = found {
        return Some(found.collection.to_owned());
    }
    let mut parts = path.strip_prefix(PREFIX)?.split('/');
    let (group, plural) = (parts.next()?, parts.next()?);
    group.contains('.').then(|| format!("{plural}.{group}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_names_its_object() {
        let encode = |text: &str| BASE64_STANDARD.encode(text);
        let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u"}}"#;
        let widget = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"n","uid":"u"}}"#;
        let cases = [
            ("/registry/pods/n/a", pod, Some(("pods", "n/a"))),
            (
                "/registry/example.com/widgets/n/a",
                widget,
                Some(("widgets.example.com", "n/a")),
            ),
            (
                "/registry/ranges/serviceips",
                r#"{"kind":"RangeAllocation","metadata":{}}"#,
                None,
            ),
        ];
        for (path, object, expected) in cases {
            let kv = |value: &str| KeyValue {
                key: encode(path),
                mod_revision: "7".to_owned(),
                value: encode(value),
            };
            let removal = Event {
                kv: kv(""),
                prev_kv: Some(kv(object)),
            };
            let change = change(removal).expect("a valid event");
            let found = change.as_ref().map(|it| (&*it.collection, &*it.key));
            assert_eq!(found, expected);
            assert!(change.is_none_or(|it| it.after.is_none() && it.before.is_some() && it.revision == 7));
        }
    }
}
