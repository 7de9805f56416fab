//! The service accounts and roles of `deploy/base`, for tests that run under them.

use std::{env, fs, path::PathBuf};

use http::Method;
use serde_json::{Value, json};

use crate::{Api, Cluster, audit::Request, fixtures, time};

/// The namespace of the service accounts.
pub const NAMESPACE: &str = "steersman-system";

/// The environment variable with the id of a rule that [`create`] leaves out, see [`Rule::id`].
pub const REMOVED_RULE: &str = "STEERSMAN_TEST_REMOVED_RULE";

const GROUP: &str = "rbac.authorization.k8s.io";

/// A rule of a role of `deploy/` that is bound to a service account.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields of a PolicyRule")]
pub struct Rule {
    /// Kind, namespace and name of the role, and the index of the rule: `Role/kube-system/steersman:yielding/0`.
    pub id: String,
    /// The service account.
    pub account: String,
    /// The namespace of a Role, empty for a `ClusterRole`.
    pub namespace: String,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    /// Empty if the rule is not restricted by name.
    pub names: Vec<String>,
    pub verbs: Vec<String>,
}

/// A permission of a [`Rule`]: one verb on one resource.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "plain data")]
pub struct Permission<'a> {
    pub rule: &'a Rule,
    pub group: &'a str,
    pub resource: &'a str,
    /// Empty if any.
    pub name: &'a str,
    pub verb: &'a str,
}

/// Creates the namespace, the service accounts and all roles, and returns their [`rules`].
pub async fn create_all(c: &Cluster) -> Vec<Rule> {
    let roles = fs::read_dir(base().join("roles")).expect("a folder");
    let roles = roles.map(|it| it.expect("a file").file_name().into_string().expect("UTF-8"));
    let mut roles: Vec<String> = roles.map(|it| format!("roles/{it}")).collect();
    roles.sort();
    let first = ["namespace.yaml", "service-account.yaml"];
    create(c, first.into_iter().chain(roles.iter().map(String::as_str))).await
}

/// Creates the objects of files in `deploy/base`, waits until the API server has loaded the roles, and returns their [`rules`],
/// including a [removed](REMOVED_RULE) one.
pub async fn create(c: &Cluster, files: impl IntoIterator<Item = &str>) -> Vec<Rule> {
    let yaml = [("content-type", "application/yaml")];
    for file in files {
        let path = base().join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for document in text.split("---\n").filter(|it| !it.trim().is_empty()) {
            let collection = collection(document);
            let reply = c.api().request(Method::POST, &collection, &yaml, document).await;
            reply.expect(201);
        }
    }
    let rules = rules(c).await;
    remove_rule(c).await;
    loaded(c).await;
    rules
}

fn base() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/base"))
}

/// The path to create the object of a YAML document at.
fn collection(document: &str) -> String {
    let field = |prefix: &str| document.lines().find_map(|line| line.strip_prefix(prefix));
    let version = field("apiVersion: ").expect("an apiVersion");
    let mut plural = format!("{}s", field("kind: ").expect("a kind").to_lowercase());
    if let Some(stem) = plural.strip_suffix("ys") {
        plural = format!("{stem}ies");
    }
    let metadata = document.split_once("\nmetadata:\n").expect("metadata").1;
    let mut metadata = metadata.lines().take_while(|line| line.starts_with(' '));
    let root = if version.contains('/') { "apis" } else { "api" };
    match metadata.find_map(|line| line.strip_prefix("  namespace: ")) {
        Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("/{root}/{version}/{plural}"),
    }
}

/// Removes the rule that [`REMOVED_RULE`] names, if the cluster has its role.
pub async fn remove_rule(c: &Cluster) {
    let Ok(id) = env::var(REMOVED_RULE) else {
        return;
    };
    let (role, index) = id.rsplit_once('/').expect("an index");
    let path = match role.split('/').collect::<Vec<_>>()[..] {
        ["ClusterRole", name] => format!("/apis/{GROUP}/v1/clusterroles/{name}"),
        ["Role", namespace, name] => format!("/apis/{GROUP}/v1/namespaces/{namespace}/roles/{name}"),
        _ => panic!("{id} is not a rule"),
    };
    if c.api().get(&path).await.status == 404 {
        return;
    }
    let removal = json!([{"op": "remove", "path": format!("/rules/{index}")}]);
    c.api()
        .patch(&path, fixtures::JSON_PATCH, removal)
        .await
        .expect(200);
}

/// Waits until the API server has loaded all roles and bindings that exist. It loads each kind in the order of creation, so that
/// the permission of a later role and binding is granted last.
pub async fn loaded(c: &Cluster) {
    let version = format!("{GROUP}/v1");
    for (prefix, root) in [
        ("Cluster", format!("/apis/{version}/cluster")),
        ("", format!("/apis/{version}/namespaces/{NAMESPACE}/")),
    ] {
        let kind = format!("{prefix}Role");
        let role = json!({
            "apiVersion": version, "kind": kind, "metadata": {"generateName": "loaded-"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
        });
        let role = c.create(&format!("{root}roles"), role).await;
        let name = role["metadata"]["name"].as_str().expect("a name");
        let binding = json!({
            "apiVersion": version, "kind": format!("{prefix}RoleBinding"), "metadata": {"name": name},
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": name}],
        });
        c.create(&format!("{root}rolebindings"), binding).await;
        let loaded = time::eventually(time::ANSWER, async || {
            let attributes = json!({"namespace": NAMESPACE, "verb": "get", "resource": "configmaps"});
            is_allowed(c, name, &attributes).await.then_some(())
        });
        assert!(loaded.await.is_some(), "{kind} {name} is not loaded");
    }
}

/// Returns the decision of the API server on a request of `user`, by a `SubjectAccessReview`.
pub async fn is_allowed(c: &Cluster, user: &str, attributes: &Value) -> bool {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    c.create(path, review).await["status"]["allowed"] == true
}

/// Returns the rules of the roles of `deploy/` that are bound to service accounts of [`NAMESPACE`].
pub async fn rules(c: &Cluster) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (bindings, roles) in [("clusterrolebindings", "clusterroles"), ("rolebindings", "roles")] {
        for binding in items(c.api(), bindings).await {
            let subject = &binding["subjects"][0];
            if subject["kind"] != "ServiceAccount" || subject["namespace"] != NAMESPACE {
                continue;
            }
            let namespace = text(&binding["metadata"]["namespace"]);
            let name = text(&binding["roleRef"]["name"]);
            let root = match namespace.as_str() {
                "" => format!("/apis/{GROUP}/v1"),
                namespace => format!("/apis/{GROUP}/v1/namespaces/{namespace}"),
            };
            let role = c.read(&format!("{root}/{roles}/{name}")).await;
            // Other roles, such as extension-apiserver-authentication-reader, belong to the cluster.
            if role["metadata"]["labels"]["app.kubernetes.io/name"] != "steersman" {
                continue;
            }
            for (index, rule) in role["rules"].as_array().into_iter().flatten().enumerate() {
                let id = match namespace.as_str() {
                    "" => format!("ClusterRole/{name}/{index}"),
                    namespace => format!("Role/{namespace}/{name}/{index}"),
                };
                let texts = |key: &str| rule[key].as_array().into_iter().flatten().map(text).collect();
                rules.push(Rule {
                    id,
                    account: text(&subject["name"]),
                    namespace: namespace.clone(),
                    groups: texts("apiGroups"),
                    resources: texts("resources"),
                    names: texts("resourceNames"),
                    verbs: texts("verbs"),
                });
            }
        }
    }
    rules
}

async fn items(api: &Api, resource: &str) -> Vec<Value> {
    let list = api.get(&format!("/apis/{GROUP}/v1/{resource}")).await.expect(200);
    list["items"].as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Rule {
    /// The permissions that the rule grants. A rule for all resources grants one per verb.
    pub fn permissions(&self) -> Vec<Permission<'_>> {
        let names = self.names.iter().map(String::as_str);
        let names: Vec<&str> = if self.names.is_empty() {
            vec![""]
        } else {
            names.collect()
        };
        let mut all = Vec::new();
        for group in &self.groups {
            for resource in &self.resources {
                for name in &names {
                    all.extend(self.verbs.iter().map(|verb| Permission {
                        rule: self,
                        group,
                        resource,
                        name,
                        verb,
                    }));
                }
            }
        }
        all
    }
}

impl Permission<'_> {
    /// Whether a request needs this permission.
    pub fn is_used_by(&self, request: &Request) -> bool {
        let matches = |pattern: &str, value: &str| pattern == "*" || pattern == value;
        self.rule.account == request.account
            && self.verb == request.verb
            && !request.resource.is_empty()
            && matches(self.group, &request.group)
            && matches(self.resource, &request.resource)
            && (self.name.is_empty() || self.name == request.name)
            && (self.rule.namespace.is_empty() || self.rule.namespace == request.namespace)
    }
}

impl std::fmt::Display for Permission<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            rule,
            group,
            resource,
            name,
            verb,
        } = self;
        write!(f, "{}: {}: {verb} {resource}.{group}", rule.id, rule.account)?;
        match *name {
            "" => Ok(()),
            name => write!(f, ", name {name:?}"),
        }
    }
}
