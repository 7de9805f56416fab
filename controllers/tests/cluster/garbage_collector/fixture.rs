//! The fixture of one test: a namespace and a kind under test.
//!
//! Built-in and custom kinds take different patches, so most tests run on one of each. The CRDs are created once per run:
//! kube-controller-manager takes up to half a minute to discover a new one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_harness::fixtures::{self, CRDS, MERGE, with};
use steersman_harness::{Cluster, time};
use tokio::sync::OnceCell;

use crate::controllers;

/// A finalizer that only tests remove.
pub const HOLD: &str = "example.com/hold";

pub const FOREGROUND: &str = "foregroundDeletion";

pub const GROUP: &str = "collected.example.com";

/// Limit until the objects of a new kind are collected.
pub const NEW_KIND_TIMEOUT: Duration = Duration::from_mins(2);

static CRDS_CREATED: OnceCell<()> = OnceCell::const_new();
static CRDS_COLLECTED: OnceCell<()> = OnceCell::const_new();

/// A kind under test. `Widget` is custom and namespaced, `Region` is custom and cluster-scoped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
    Widget,
    ClusterRole,
    Region,
}

pub struct Fixture {
    pub kind: Kind,
    pub c: Cluster,
    pub ns: String,
    /// Kinds of which the test has created objects.
    used: RefCell<BTreeSet<Kind>>,
    counter: Cell<u32>,
}

#[derive(Clone, Debug)]
pub struct Object {
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

    /// Returns the path of the collection; `ns` is ignored for cluster-scoped kinds.
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

impl Object {
    /// Returns an ownerReference to the object.
    pub fn reference(&self) -> Value {
        json!({"apiVersion": self.kind.api_version(), "kind": self.kind.name(), "name": self.name, "uid": self.uid})
    }

    /// Returns an ownerReference with `blockOwnerDeletion`.
    pub fn blocking(&self) -> Value {
        with(self.reference(), json!({"blockOwnerDeletion": true}))
    }
}

impl Fixture {
    /// Creates a namespace; starts the controllers if they do not run.
    pub async fn new(kind: Kind, c: Cluster) -> Self {
        controllers::running(&c).await;
        CRDS_CREATED.get_or_init(|| create_crds(&c)).await;
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

    /// Creates an object of the kind under test.
    pub async fn create(&self, name: &str, owners: &[Value]) -> Object {
        self.create_kind(self.kind, name, owners).await
    }

    pub async fn create_kind(&self, kind: Kind, name: &str, owners: &[Value]) -> Object {
        let change = json!({"metadata": {"ownerReferences": owners}});
        self.create_with(kind, &self.ns, name, change).await
    }

    /// Creates an object of the kind under test with the finalizer [`HOLD`].
    pub async fn create_held(&self, name: &str, owners: &[Value]) -> Object {
        let change = json!({"metadata": {"ownerReferences": owners, "finalizers": [HOLD]}});
        self.create_with(self.kind, &self.ns, name, change).await
    }

    /// Creates an object with a merge patch applied. The name of a cluster-scoped object is prefixed with the namespace.
    pub async fn create_with(&self, kind: Kind, ns: &str, name: &str, change: Value) -> Object {
        if kind.custom() {
            CRDS_COLLECTED.get_or_init(|| wait_collected(&self.c)).await;
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
        Object {
            kind,
            name,
            uid,
            path,
        }
    }

    /// Returns an ownerReference to an object that never existed.
    pub fn absent_owner(&self, kind: Kind) -> Value {
        let name = format!("absent-{}", self.counter.get());
        json!({"apiVersion": kind.api_version(), "kind": kind.name(), "name": name, "uid": self.uid()})
    }

    /// Returns an unused uid.
    pub fn uid(&self) -> String {
        self.counter.set(self.counter.get() + 1);
        let test = self.ns.rsplit('-').next().unwrap_or_default();
        format!("00000000-0000-4000-8000-{test:0>6}{:06}", self.counter.get())
    }

    /// Reads an object; none if it is deleted or recreated with another uid.
    pub async fn find(&self, object: &Object) -> Option<Value> {
        let reply = self.c.api().get(&object.path).await;
        if reply.status == 404 {
            return None;
        }
        let now = reply.expect(200);
        (now["metadata"]["uid"] == object.uid).then_some(now)
    }

    /// Reads an object that must exist.
    #[track_caller]
    pub fn get(&self, object: &Object) -> impl Future<Output = Value> {
        let caller = std::panic::Location::caller();
        async move {
            let now = self.find(object).await;
            now.unwrap_or_else(|| panic!("{} was deleted, at {caller}", object.path))
        }
    }

    pub async fn patch_object(&self, object: &Object, change: Value) -> Value {
        self.c.api().patch(&object.path, MERGE, change).await.expect(200)
    }

    pub async fn set_owners(&self, object: &Object, owners: &[Value]) -> Value {
        self.patch_object(object, json!({"metadata": {"ownerReferences": owners}}))
            .await
    }

    /// Removes the finalizer [`HOLD`].
    pub async fn remove_hold(&self, object: &Object) {
        self.until("the finalizer is removed", async || {
            let now = self.get(object).await;
            let mut left = finalizers(&now);
            left.retain(|it| it != HOLD);
            let change = json!({"metadata": {
                "resourceVersion": now["metadata"]["resourceVersion"], "finalizers": left,
            }});
            let reply = self.c.api().patch(&object.path, MERGE, change).await;
            reply.check(
                matches!(reply.status, 200 | 409),
                "neither patched nor a conflict",
            );
            (reply.status == 200).then_some(())
        })
        .await;
    }

    pub async fn delete(&self, object: &Object, policy: &str) -> Value {
        self.delete_with(object, json!({"propagationPolicy": policy}))
            .await
    }

    /// Deletes an object when the collector has observed all objects.
    pub async fn delete_observed(&self, object: &Object, policy: &str) -> Value {
        self.wait_observed().await;
        self.delete(object, policy).await
    }

    /// Deletes an object with its uid as precondition.
    pub async fn delete_with(&self, object: &Object, options: Value) -> Value {
        let uid = json!({"preconditions": {"uid": object.uid}});
        self.c
            .api()
            .delete(&object.path, with(options, uid))
            .await
            .expect(200)
    }

    #[track_caller]
    pub fn wait_deleted<'a>(&'a self, objects: &'a [&Object]) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            for object in objects {
                let what = format!("{} is deleted, at {caller}", object.path);
                self.until(&what, async || self.find(object).await.is_none().then_some(()))
                    .await;
            }
        }
    }

    #[track_caller]
    pub fn wait_for<'a>(
        &'a self,
        object: &'a Object,
        what: &'a str,
        condition: impl Fn(&Value) -> bool + 'a,
    ) -> impl Future<Output = Value> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let what = format!("{} {what}, at {caller}", object.path);
            self.until(&what, async || {
                self.find(object).await.filter(|now| condition(now))
            })
            .await
        }
    }

    #[track_caller]
    pub fn wait_terminating<'a>(&'a self, object: &'a Object) -> impl Future<Output = Value> + 'a {
        self.wait_for(object, "is terminating", is_terminating)
    }

    /// Asserts that objects exist and are not terminating after the collector has processed them.
    #[track_caller]
    pub fn assert_kept<'a>(&'a self, objects: &'a [&Object]) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            // A slower worker may still process an earlier object during the first wait, but not during the second.
            self.wait_observed().await;
            self.wait_observed().await;
            for object in objects {
                let now = self.find(object).await;
                let now = now.unwrap_or_else(|| panic!("{} was deleted, at {caller}", object.path));
                assert!(!is_terminating(&now), "at {caller}: {now:#}");
            }
        }
    }

    /// Waits until the collector has observed all objects: it collects newer garbage of each kind that the test uses.
    pub async fn wait_observed(&self) {
        let used: Vec<Kind> = self.used.borrow().iter().copied().collect();
        let mut garbage = Vec::new();
        for kind in used {
            let owner = self.absent_owner(kind);
            let name = format!("garbage-{}", self.counter.get());
            garbage.push(self.create_kind(kind, &name, &[owner]).await);
        }
        self.wait_deleted(&garbage.iter().collect::<Vec<_>>()).await;
    }

    /// Returns the events about an object; those about cluster-scoped objects are in `default`.
    pub async fn events(&self, object: &Object, ns: &str) -> Vec<Value> {
        let path = fixtures::core(ns, "events");
        let path = format!("{path}?fieldSelector=involvedObject.uid={}", object.uid);
        let list = self.c.api().get(&path).await.expect(200);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until a path returns 404.
    pub async fn wait_path_deleted(&self, path: &str) {
        self.until(&format!("{path} is deleted"), async || {
            (self.c.api().get(path).await.status == 404).then_some(())
        })
        .await;
    }

    /// Waits until `poll` returns a value.
    #[track_caller]
    pub fn until<T>(&self, what: &str, poll: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
        let caller = std::panic::Location::caller();
        async move {
            if let Some(found) = time::eventually(controllers::WAIT_MAX, poll).await {
                return found;
            }
            panic!("timed out: {what}, at {caller}\n{}", self.describe().await)
        }
    }

    /// Lists the objects of the test for a failure message.
    async fn describe(&self) -> String {
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

/// Returns a CRD of [`GROUP`] without a schema.
pub fn crd(kind: &str, scope: &str, versions: &[(&str, bool)]) -> Value {
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

/// Creates a CRD and waits until it is served.
pub async fn serve(c: &Cluster, crd: &Value) {
    c.api().post(CRDS, crd).await.expect(201);
    let plural = text(&crd["spec"]["names"]["plural"]);
    for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
        let path = format!("/apis/{GROUP}/{}/{plural}", text(&version["name"]));
        if version["served"] == true {
            let served = time::eventually(NEW_KIND_TIMEOUT, async || {
                (c.api().get(&path).await.status == 200).then_some(())
            });
            assert!(served.await.is_some(), "{path} is not served");
        }
    }
}

async fn create_crds(c: &Cluster) {
    let versions = [("v1", true), ("v1beta1", true), ("v1alpha1", false)];
    serve(c, &crd("Widget", "Namespaced", &versions)).await;
    serve(c, &crd("Region", "Cluster", &versions[..1])).await;
}

/// Waits until the collector collects the custom kinds.
async fn wait_collected(c: &Cluster) {
    let ns = c.namespace().await;
    for kind in [Kind::Widget, Kind::Region] {
        let uid = format!("00000000-0000-4000-9000-00000000000{}", kind as u8);
        let owner =
            json!({"apiVersion": kind.api_version(), "kind": kind.name(), "name": "absent", "uid": uid});
        let change = json!({"metadata": {"ownerReferences": [owner]}});
        let probe = with(fixtures::named(&kind.api_version(), kind.name(), "probe"), change);
        let path = kind.path(&ns);
        c.api().post(&path, probe).await.expect(201);
        let path = format!("{path}/probe");
        let deleted = time::eventually(NEW_KIND_TIMEOUT, async || {
            (c.api().get(&path).await.status == 404).then_some(())
        });
        assert!(deleted.await.is_some(), "{path} is not collected");
    }
}

pub fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter().flatten().map(text).collect()
}

/// Returns the uids of the owners of an object.
pub fn owners(object: &Value) -> Vec<String> {
    let list = object["metadata"]["ownerReferences"].as_array();
    list.into_iter().flatten().map(|it| text(&it["uid"])).collect()
}

pub fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Returns a string, or an empty one.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
