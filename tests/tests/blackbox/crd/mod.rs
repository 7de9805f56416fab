//! Custom resource definitions and the resources they define. Schemas have a room of their own; elsewhere here they preserve
//! everything.

mod definitions;
mod deletion;
mod invalid;
mod resources;
mod schema;
mod subresources;
mod versions;
mod writes;

use coxswain_tests::{Cluster, Test};
use serde_json::{Value, json};

use crate::support::{MERGE, create, soon};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        definitions::tests(),
        deletion::tests(),
        invalid::tests(),
        resources::tests(),
        schema::tests(),
        subresources::tests(),
        versions::tests(),
        writes::tests(),
    ]
    .concat()
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A group and a namespace of one test.
struct Place {
    ns: String,
    group: String,
}

impl Place {
    async fn new(c: &Cluster) -> Self {
        let ns = c.namespace().await;
        let group = format!("{ns}.example.com");
        Self { ns, group }
    }

    /// The path of the definition of `plural`.
    fn crd_path(&self, plural: &str) -> String {
        format!("{CRDS}/{plural}.{}", self.group)
    }

    /// The path of the widgets of a version in the namespace.
    fn widgets(&self, version: &str) -> String {
        format!("/apis/{}/{version}/namespaces/{}/widgets", self.group, self.ns)
    }

    /// A widget of version `v1`.
    fn widget(&self, name: &str) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group), "kind": "Widget", "metadata": {"name": name}})
    }

    /// A definition of namespaced widgets with one version, `v1`.
    fn crd(&self) -> Value {
        let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget"});
        self.crd_of("Namespaced", &names, &[version("v1", true, true)])
    }

    fn crd_of(&self, scope: &str, names: &Value, versions: &[Value]) -> Value {
        let name = format!("{}.{}", names["plural"].as_str().unwrap_or_default(), self.group);
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {"group": self.group, "scope": scope, "names": names, "versions": versions},
        })
    }

    /// Removes the definition of the widgets; who holds it has been let go by then.
    async fn remove(&self, c: &Cluster) {
        c.api().delete(&self.crd_path("widgets"), ()).await.expect(200);
    }
}

/// A version whose schema preserves everything.
fn version(name: &str, served: bool, storage: bool) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"name": name, "served": served, "storage": storage, "schema": schema})
}

/// Creates a definition and waits until its resources are served, and in discovery. (A real server says Established a moment
/// before, and serves them before it lists them.)
async fn install(c: &Cluster, crd: &Value) -> Value {
    let made = create(c, CRDS, crd).await;
    let path = format!("{CRDS}/{}", crate::support::name(&made));
    let crd = soon("the definition is established", async || {
        let crd = c.api().get(&path).await.expect(200);
        (condition(&crd, "Established")["status"] == "True").then_some(crd)
    })
    .await;
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for version in spec["versions"].as_array().into_iter().flatten() {
        if version["served"] == true {
            let of_version = format!("/apis/{}/{}", text(&spec["group"]), text(&version["name"]));
            let path = format!("{of_version}/{}", text(&spec["names"]["plural"]));
            soon(&format!("{path} is served"), async || {
                (c.api().get(&path).await.status == 200).then_some(())
            })
            .await;
            soon(&format!("{path} is in discovery"), async || {
                let reply = c.api().get(&of_version).await;
                let listed = (reply.status == 200).then(|| reply.json())?;
                let mut resources = listed["resources"].as_array()?.iter();
                resources
                    .any(|it| it["name"] == spec["names"]["plural"])
                    .then_some(())
            })
            .await;
        }
    }
    crd
}

/// A condition of a definition, or null.
fn condition(crd: &Value, kind: &str) -> Value {
    let conditions = crd["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|c| c["type"] == kind);
    found.cloned().unwrap_or_default()
}

/// Widgets, installed, and their path.
async fn installed(c: &Cluster) -> (Place, String) {
    let place = Place::new(c).await;
    install(c, &place.crd()).await;
    let path = place.widgets("v1");
    (place, path)
}

async fn patched(c: &Cluster, path: &str, change: Value) -> Value {
    c.api().patch(path, MERGE, change).await.expect(200)
}
