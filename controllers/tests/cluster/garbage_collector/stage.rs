//! A stage for one test: a namespace, a kind to play with, and a fence to tell what stays from what is only late.
//!
//! Built-in kinds and custom ones take different patches and come by different ways, so most tests run on one of each.
//! The custom kinds are defined once per run: kube-controller-manager takes up to half a minute to find a new one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use coxswain_tests::fixtures::{self, CRDS, MERGE, with};
use coxswain_tests::{Cluster, time};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::controllers;

/// A finalizer that only a test takes away.
pub const HOLD: &str = "example.com/hold";

/// The finalizer of a deletion in the foreground.
pub const FOREGROUND: &str = "foregroundDeletion";

/// The group of the custom kinds.
pub const GROUP: &str = "collected.example.com";

/// How long a new kind may take until its objects are collected.
pub const FOUND: Duration = Duration::from_mins(2);

/// They outlive the test that comes first.
static DEFINED: OnceCell<()> = OnceCell::const_new();
static COLLECTED: OnceCell<()> = OnceCell::const_new();

/// What the tests play with. A `Widget` is custom and namespaced, a `Region` custom and of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
    Widget,
    ClusterRole,
    Region,
}

/// A namespace in which a kind is tested.
pub struct Stage {
    pub kind: Kind,
    pub c: Cluster,
    pub ns: String,
    /// What a fence has to be made of.
    used: RefCell<BTreeSet<Kind>>,
    counter: Cell<u32>,
}

/// An object that was created.
#[derive(Clone, Debug)]
pub struct Thing {
    pub kind: Kind,
    pub name: String,
    pub uid: String,
    pub path: String,
}

impl Kind {
    pub fn api_version(self) -> String {
        match self {
            Kind::ConfigMap | Kind::Secret => "v1".to_owned(),
            Kind::ClusterRole => "rbac.authorization.k8s.io/v1".to_owned(),
            Kind::Widget | Kind::Region => format!("{GROUP}/v1"),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::ConfigMap => "ConfigMap",
            Kind::Secret => "Secret",
            Kind::Widget => "Widget",
            Kind::ClusterRole => "ClusterRole",
            Kind::Region => "Region",
        }
    }

    /// Where its objects are; those of the cluster are in no namespace.
    pub fn path(self, ns: &str) -> String {
        match self {
            Kind::ConfigMap => fixtures::core(ns, "configmaps"),
            Kind::Secret => fixtures::core(ns, "secrets"),
            Kind::Widget => fixtures::group(&self.api_version(), ns, "widgets"),
            Kind::ClusterRole => format!("/apis/{}/clusterroles", self.api_version()),
            Kind::Region => format!("/apis/{}/regions", self.api_version()),
        }
    }

    pub fn namespaced(self) -> bool {
        matches!(self, Kind::ConfigMap | Kind::Secret | Kind::Widget)
    }

    fn custom(self) -> bool {
        matches!(self, Kind::Widget | Kind::Region)
    }
}

impl Thing {
    /// A reference to it as an owner.
    pub fn reference(&self) -> Value {
        json!({"apiVersion": self.kind.api_version(), "kind": self.kind.name(), "name": self.name, "uid": self.uid})
    }

    /// A reference to it that blocks its deletion.
    pub fn blocking(&self) -> Value {
        with(self.reference(), json!({"blockOwnerDeletion": true}))
    }
}

impl Stage {
    /// In a new namespace, with the controllers running.
    pub async fn set(kind: Kind, c: Cluster) -> Self {
        controllers::running(&c).await;
        DEFINED.get_or_init(|| define(&c)).await;
        let ns = c.namespace().await;
        let (used, counter) = (RefCell::default(), Cell::default());
        Self {
            kind,
            c,
            ns,
            used,
            counter,
        }
    }

    /// Creates an object of the kind under test with these owners.
    pub async fn thing(&self, name: &str, owners: &[Value]) -> Thing {
        self.of(self.kind, name, owners).await
    }

    /// Creates an object of any kind with these owners.
    pub async fn of(&self, kind: Kind, name: &str, owners: &[Value]) -> Thing {
        let change = json!({"metadata": {"ownerReferences": owners}});
        self.create(kind, &self.ns, name, change).await
    }

    /// Creates an object of the kind under test with these owners that a finalizer holds.
    pub async fn held(&self, name: &str, owners: &[Value]) -> Thing {
        let change = json!({"metadata": {"ownerReferences": owners, "finalizers": [HOLD]}});
        self.create(self.kind, &self.ns, name, change).await
    }

    /// Creates an object, changed by a merge patch. What belongs to no namespace gets it into its name, to be the
    /// test's own.
    pub async fn create(&self, kind: Kind, ns: &str, name: &str, change: Value) -> Thing {
        if kind.custom() {
            COLLECTED.get_or_init(|| collected(&self.c)).await;
        }
        self.used.borrow_mut().insert(kind);
        let name = if kind.namespaced() {
            name.to_owned()
        } else {
            format!("{ns}-{name}")
        };
        let object = fixtures::named(&kind.api_version(), kind.name(), &name);
        let collection = kind.path(ns);
        let created = self
            .c
            .api()
            .post(&collection, with(object, change))
            .await
            .expect(201);
        let uid = text(&created["metadata"]["uid"]);
        let path = format!("{collection}/{name}");
        Thing {
            kind,
            name,
            uid,
            path,
        }
    }

    /// An owner of the kind that was never there.
    pub fn never(&self, kind: Kind) -> Value {
        let name = format!("never-{}", self.counter.get());
        json!({"apiVersion": kind.api_version(), "kind": kind.name(), "name": name, "uid": self.uid()})
    }

    /// A uid that is nobody's.
    pub fn uid(&self) -> String {
        self.counter.set(self.counter.get() + 1);
        let test = self.ns.rsplit('-').next().unwrap_or_default();
        format!("00000000-0000-4000-8000-{test:0>6}{:06}", self.counter.get())
    }

    /// An object as it is now; none if it is gone, whatever else has its name.
    pub async fn find(&self, thing: &Thing) -> Option<Value> {
        let reply = self.c.api().get(&thing.path).await;
        if reply.status == 404 {
            return None;
        }
        let now = reply.expect(200);
        (now["metadata"]["uid"] == thing.uid).then_some(now)
    }

    /// An object that must be there, as it is now.
    #[track_caller]
    pub fn get(&self, thing: &Thing) -> impl Future<Output = Value> {
        let caller = std::panic::Location::caller();
        async move {
            let now = self.find(thing).await;
            now.unwrap_or_else(|| panic!("{} is gone, at {caller}", thing.path))
        }
    }

    /// Changes an object by a merge patch.
    pub async fn change(&self, thing: &Thing, change: Value) -> Value {
        self.c.api().patch(&thing.path, MERGE, change).await.expect(200)
    }

    /// Gives an object other owners.
    pub async fn own(&self, thing: &Thing, owners: &[Value]) -> Value {
        self.change(thing, json!({"metadata": {"ownerReferences": owners}}))
            .await
    }

    /// Takes away [`HOLD`], and no other finalizer.
    pub async fn release(&self, thing: &Thing) {
        self.until("it is released", async || {
            let now = self.get(thing).await;
            let mut left = finalizers(&now);
            left.retain(|it| it != HOLD);
            let change = json!({"metadata": {
                "resourceVersion": now["metadata"]["resourceVersion"], "finalizers": left,
            }});
            let reply = self.c.api().patch(&thing.path, MERGE, change).await;
            reply.check(matches!(reply.status, 200 | 409), "neither done nor too late");
            (reply.status == 200).then_some(())
        })
        .await;
    }

    /// Deletes an object.
    pub async fn delete(&self, thing: &Thing, policy: &str) -> Value {
        self.delete_with(thing, json!({"propagationPolicy": policy}))
            .await
    }

    /// Deletes an object with these options.
    pub async fn delete_with(&self, thing: &Thing, options: Value) -> Value {
        let uid = json!({"preconditions": {"uid": thing.uid}});
        self.c
            .api()
            .delete(&thing.path, with(options, uid))
            .await
            .expect(200)
    }

    /// Waits until they are gone.
    #[track_caller]
    pub fn gone<'a>(&'a self, things: &'a [&Thing]) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            for thing in things {
                let what = format!("{} is gone, at {caller}", thing.path);
                self.until(&what, async || self.find(thing).await.is_none().then_some(()))
                    .await;
            }
        }
    }

    /// Waits until an object is as wanted.
    #[track_caller]
    pub fn is<'a>(
        &'a self,
        thing: &'a Thing,
        what: &'a str,
        wanted: impl Fn(&Value) -> bool + 'a,
    ) -> impl Future<Output = Value> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let what = format!("{} {what}, at {caller}", thing.path);
            self.until(&what, async || self.find(thing).await.filter(|now| wanted(now)))
                .await
        }
    }

    /// Waits until an object is marked for deletion.
    #[track_caller]
    pub fn marked<'a>(&'a self, thing: &'a Thing) -> impl Future<Output = Value> + 'a {
        self.is(thing, "is marked", is_marked)
    }

    /// Asserts that these are left alone, though the collector has had time to look at them.
    #[track_caller]
    pub fn stay<'a>(&'a self, things: &'a [&Thing]) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            // Who works at the first fence may work beside somebody who is slower; by the second time he is done.
            self.seen().await;
            self.seen().await;
            for thing in things {
                let now = self.find(thing).await;
                let now = now.unwrap_or_else(|| panic!("{} is gone, at {caller}", thing.path));
                assert!(!is_marked(&now), "at {caller}: {now:#}");
            }
        }
    }

    /// Waits until the collector has seen all that there is at this moment: garbage that comes after it, of each kind
    /// that the test uses, is collected.
    pub async fn seen(&self) {
        let used: Vec<Kind> = self.used.borrow().iter().copied().collect();
        let mut fence = Vec::new();
        for kind in used {
            let never = self.never(kind);
            let name = format!("fence-{}", self.counter.get());
            fence.push(self.of(kind, &name, &[never]).await);
        }
        self.gone(&fence.iter().collect::<Vec<_>>()).await;
    }

    /// The events about an object, which are in `default` if it is in no namespace.
    pub async fn events(&self, thing: &Thing, ns: &str) -> Vec<Value> {
        let path = fixtures::core(ns, "events");
        let path = format!("{path}?fieldSelector=involvedObject.uid={}", thing.uid);
        let list = self.c.api().get(&path).await.expect(200);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until there is an answer.
    #[track_caller]
    pub fn until<T>(&self, what: &str, ask: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
        let caller = std::panic::Location::caller();
        async move {
            if let Some(answer) = time::eventually(controllers::WAIT_MAX, ask).await {
                return answer;
            }
            panic!("not in time: {what}, at {caller}\n{}", self.show().await)
        }
    }

    /// What there is, for a failure.
    async fn show(&self) -> String {
        let used: Vec<Kind> = self.used.borrow().iter().copied().collect();
        let mut all = Vec::new();
        for kind in used {
            let list = self.c.api().get(&kind.path(&self.ns)).await.json();
            for item in list["items"].as_array().into_iter().flatten() {
                let meta = &item["metadata"];
                if kind.namespaced() || text(&meta["name"]).starts_with(&self.ns) {
                    let shown = [
                        "name",
                        "uid",
                        "deletionTimestamp",
                        "finalizers",
                        "ownerReferences",
                    ];
                    let line: Vec<String> = shown.iter().map(|it| meta[it].to_string()).collect();
                    all.push(format!("{}: {}", kind.name(), line.join(" ")));
                }
            }
        }
        all.join("\n")
    }
}

/// A definition of a kind in [`GROUP`], of any content.
pub fn definition(kind: &str, scope: &str, versions: &[(&str, bool)]) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |(index, (name, served)): (usize, &(&str, bool))| {
        json!({
            "name": name, "served": served, "storage": index == 0, "schema": {"openAPIV3Schema": any.clone()},
        })
    };
    let versions: Vec<Value> = versions.iter().enumerate().map(version).collect();
    let names = json!({"plural": plural, "kind": kind});
    let spec = json!({"group": GROUP, "names": names, "scope": scope, "versions": versions});
    with(
        fixtures::named(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            &format!("{plural}.{GROUP}"),
        ),
        json!({"spec": spec}),
    )
}

/// Creates a definition and waits until it is served.
pub async fn serve(c: &Cluster, definition: &Value) {
    c.api().post(CRDS, definition).await.expect(201);
    let plural = text(&definition["spec"]["names"]["plural"]);
    for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
        let path = format!("/apis/{GROUP}/{}/{plural}", text(&version["name"]));
        if version["served"] == true {
            let served = time::eventually(FOUND, async || {
                (c.api().get(&path).await.status == 200).then_some(())
            });
            assert!(served.await.is_some(), "{path} is not served");
        }
    }
}

/// Defines the custom kinds.
async fn define(c: &Cluster) {
    let versions = [("v1", true), ("v1beta1", true), ("v1alpha1", false)];
    serve(c, &definition("Widget", "Namespaced", &versions)).await;
    serve(c, &definition("Region", "Cluster", &versions[..1])).await;
}

/// Waits until the collector has found the custom kinds.
async fn collected(c: &Cluster) {
    let ns = c.namespace().await;
    for kind in [Kind::Widget, Kind::Region] {
        let uid = format!("00000000-0000-4000-9000-00000000000{}", kind as u8);
        let owner =
            json!({"apiVersion": kind.api_version(), "kind": kind.name(), "name": "never", "uid": uid});
        let change = json!({"metadata": {"ownerReferences": [owner]}});
        let probe = with(fixtures::named(&kind.api_version(), kind.name(), "probe"), change);
        let path = kind.path(&ns);
        c.api().post(&path, probe).await.expect(201);
        let path = format!("{path}/probe");
        let gone = time::eventually(FOUND, async || {
            (c.api().get(&path).await.status == 404).then_some(())
        });
        assert!(gone.await.is_some(), "{path} is not collected");
    }
}

/// The finalizers of an object.
pub fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter().flatten().map(text).collect()
}

/// The uids of the owners of an object, in their order.
pub fn owners(object: &Value) -> Vec<String> {
    let list = object["metadata"]["ownerReferences"].as_array();
    list.into_iter().flatten().map(|it| text(&it["uid"])).collect()
}

/// Whether an object is marked for deletion.
pub fn is_marked(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// A text; empty if it is none.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
