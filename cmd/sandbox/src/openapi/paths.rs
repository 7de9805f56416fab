//! The operations of each path of a resource: parameters, request bodies and responses.
//!
//! `kubectl` leaves validation to the server if the PATCH operation of a kind has the parameter `fieldValidation`. It
//! computes strategic merge patches from the schema if the operation accepts that media type.

use crate::discovery::resources::{Subresource, subresources, verbs};
use crate::json::{Map, Value, json};
use crate::openapi::builtin::META;
use crate::openapi::{Version, builtin, custom, openapi_v3_path};
use crate::resource::Resource;

/// The types that every document references.
pub(super) const ALWAYS: [&str; 3] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
];

const JSON: &str = "application/json";
/// The media types of patches; custom resources do not accept the last one.
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// The parameters of each action, with the type of parameters that are not strings.
const LIST: &[&str] = &[
    "allowWatchBookmarks:boolean",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit:integer",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents:boolean",
    "timeoutSeconds:integer",
    "watch:boolean",
];
const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds:integer",
    "ignoreStoreReadErrorWithClusterBreakingPotential:boolean",
    "orphanDependents:boolean",
    "propagationPolicy",
];
const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force:boolean"];

/// An operation on a path of a resource.
struct Operation<'a> {
    resource: &'a Resource,
    action: Action,
    /// The subresource of the path.
    sub: Option<&'a Subresource>,
    /// Whether the path covers all namespaces.
    everywhere: bool,
    version: Version,
}

/// An action on a resource.
struct Action {
    /// The value of `x-kubernetes-action`.
    name: &'static str,
    method: &'static str,
    /// The verb at the start of the operation id.
    verb: &'static str,
    codes: &'static [u16],
    parameters: Vec<&'static str>,
}

impl Action {
    fn new(name: &'static str, custom: bool) -> Self {
        let (method, verb, codes, parameters): (_, _, &[u16], &[&str]) = match name {
            "list" => ("get", "list", &[200], LIST),
            "deletecollection" => ("delete", "delete", &[200], LIST),
            "get" if custom => ("get", "read", &[200], &["resourceVersion"]),
            "get" => ("get", "read", &[200], &[]),
            "post" => ("post", "create", &[200, 201, 202], WRITE),
            "put" => ("put", "replace", &[200, 201], WRITE),
            "delete" => ("delete", "delete", &[200, 202], DELETE),
            _ if custom => ("patch", "patch", &[200], PATCH),
            _ => ("patch", "patch", &[200, 201], PATCH),
        };
        let mut parameters = parameters.to_vec();
        if name == "deletecollection" && !custom {
            parameters.retain(|name| !matches!(*name, "allowWatchBookmarks:boolean" | "watch:boolean"));
            parameters.extend(DELETE);
            parameters.sort_unstable();
        }
        Self {
            name,
            method,
            verb,
            codes,
            parameters,
        }
    }
}

/// Returns the built-in types that the paths of a resource reference.
pub(super) fn kinds(resource: &Resource) -> Vec<String> {
    let mut names: Vec<String> = described(resource)
        .filter_map(|sub| {
            let [group, version, kind] = sub.kind?;
            foreign(group, version, kind).map(str::to_owned)
        })
        .collect();
    if resource.custom.is_none() {
        let own = builtin::type_name(&resource.api_version(), &resource.kind);
        names.extend(own.map(str::to_owned));
        if !resource.is_review() {
            names.extend(builtin::list_name(resource));
        }
    }
    names
}

/// Returns the subresources except those that connect to a container.
fn described(resource: &Resource) -> impl Iterator<Item = Subresource> {
    let connect = ["attach", "exec", "log", "portforward", "proxy"];
    let all = subresources(resource).into_iter();
    all.filter(move |sub| !connect.contains(&sub.name))
}

fn foreign(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    builtin::type_name(&api_version, kind)
}

/// Returns the paths of a resource and its subresources.
pub(super) fn of(resource: &Resource, version: Version) -> Vec<(String, Value)> {
    let root = openapi_v3_path(&resource.group, &resource.version);
    let plural = &resource.plural;
    let mut in_path = Vec::new();
    let base = if resource.namespaced {
        in_path.push("namespace");
        format!("/{root}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("/{root}/{plural}")
    };
    let item = |actions: &[&'static str], sub: Option<&Subresource>, in_path: &[&str]| {
        let everywhere = resource.namespaced && !in_path.contains(&"namespace");
        path_item(resource, actions, sub, everywhere, in_path, version)
    };
    let on_collection: &[&str] = if resource.is_review() {
        &["post"]
    } else if verbs(resource).contains(&"deletecollection") {
        &["list", "post", "deletecollection"]
    } else {
        &["list", "post"]
    };
    let mut paths = vec![(base.clone(), item(on_collection, None, &in_path))];
    if resource.is_review() {
        return paths;
    }
    if resource.namespaced {
        paths.push((format!("/{root}/{plural}"), item(&["list"], None, &[])));
    }
    in_path.insert(0, "name");
    let all = ["get", "put", "delete", "patch"];
    paths.push((format!("{base}/{{name}}"), item(&all, None, &in_path)));
    for sub in described(resource) {
        let verbs = [
            ("create", "post"),
            ("get", "get"),
            ("patch", "patch"),
            ("update", "put"),
        ];
        let served = verbs.into_iter().filter(|(verb, _)| sub.verbs.contains(verb));
        let actions: Vec<&str> = served.map(|(_, action)| action).collect();
        let path = format!("{base}/{{name}}/{}", sub.name);
        paths.push((path, item(&actions, Some(&sub), &in_path)));
    }
    paths
}

/// Returns the path item with all operations on one path.
fn path_item(
    resource: &Resource,
    actions: &[&'static str],
    sub: Option<&Subresource>,
    everywhere: bool,
    in_path: &[&str],
    version: Version,
) -> Value {
    let custom = resource.custom.is_some();
    let actions = || actions.iter().map(|name| Action::new(name, custom));
    // Parameters that all operations share are listed once, on the path item.
    let mut common = actions().next().map(|first| first.parameters).unwrap_or_default();
    common.retain(|name| actions().all(|action| action.parameters.contains(name)));
    let mut item = Map::new();
    for action in actions() {
        let method = action.method.to_owned();
        let operation = Operation {
            resource,
            action,
            sub,
            everywhere,
            version,
        };
        item.insert(method, operation.document(&common));
    }
    let shared = common.iter().chain(&["pretty"]);
    let shared = shared.map(|name| version.parameter(name, "query"));
    let in_path = in_path.iter().map(|name| version.parameter(name, "path"));
    let parameters = in_path.chain(shared).collect();
    item.insert("parameters", parameters);
    Value::Object(item)
}

impl Operation<'_> {
    /// Returns the operation without the parameters of its path item.
    fn document(&self, common: &[&str]) -> Value {
        let [group, version, kind] = self.kind();
        let parameters = self.action.parameters.iter();
        let parameters: Vec<Value> = parameters
            .filter(|name| !common.contains(name))
            .map(|name| self.version.parameter(name, "query"))
            .collect();
        let mut operation = json!({
            "tags": [self.tag()],
            "operationId": self.id(),
            "parameters": parameters,
            "x-kubernetes-action": self.action.name,
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
        });
        let answer = self.answer();
        let codes = self.action.codes.iter();
        let mut responses: Map = codes
            .map(|code| (code.to_string(), self.response(*code, answer.as_deref())))
            .collect();
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        operation["responses"] = responses.into();
        self.add_body(&mut operation);
        operation
    }

    fn kind(&self) -> [&str; 3] {
        let own = [
            self.resource.group.as_str(),
            self.resource.version.as_str(),
            self.resource.kind.as_str(),
        ];
        // Custom resources use their own kind for all paths.
        match self.sub.and_then(|sub| sub.kind) {
            Some(other) if self.resource.custom.is_none() => other,
            _ => own,
        }
    }

    /// Returns the schema of the request and response object.
    fn schema(&self) -> Option<String> {
        if let Some([group, version, kind]) = self.sub.and_then(|sub| sub.kind) {
            return foreign(group, version, kind).map(str::to_owned);
        }
        if self.resource.custom.is_some() {
            return Some(custom::name(self.resource, &self.resource.kind));
        }
        builtin::type_name(&self.resource.api_version(), &self.resource.kind).map(str::to_owned)
    }

    fn answer(&self) -> Option<String> {
        match self.action.name {
            "list" if self.resource.custom.is_some() => {
                Some(custom::name(self.resource, &self.resource.list_kind))
            }
            "list" => builtin::list_name(self.resource),
            "delete" | "deletecollection" => Some(format!("{META}.Status")),
            _ => self.schema(),
        }
    }

    fn response(&self, code: u16, schema: Option<&str>) -> Value {
        let description = match code {
            201 => "Created",
            202 => "Accepted",
            _ => "OK",
        };
        let mut response = json!({"description": description});
        if let Some(schema) = schema {
            let schema = self.version.reference(schema);
            match self.version {
                Version::V2 => response["schema"] = schema,
                Version::V3 => response["content"] = content(&[JSON], &schema),
            }
        }
        response
    }

    fn add_body(&self, operation: &mut Value) {
        let custom = self.resource.custom.is_some();
        let (schema, required) = match self.action.name {
            "post" | "put" => (self.schema(), true),
            "patch" => (Some(format!("{META}.Patch")), true),
            "get" | "list" => return,
            "deletecollection" if custom => return,
            _ => (Some(format!("{META}.DeleteOptions")), false),
        };
        let types: &[&str] = match self.action.name {
            "patch" if custom => &PATCHES[..3],
            "patch" => &PATCHES,
            _ if custom => &[JSON, "application/yaml"],
            _ => &["*/*"],
        };
        let Some(schema) = schema.map(|name| self.version.reference(&name)) else {
            return;
        };
        match self.version {
            Version::V2 => {
                operation["consumes"] = types.into();
                if let Some(parameters) = operation["parameters"].as_array_mut() {
                    let mut body = json!({"name": "body", "in": "body", "schema": schema});
                    if required {
                        body["required"] = true.into();
                    }
                    parameters.insert(0, body);
                }
            }
            Version::V3 => {
                operation["requestBody"] = json!({"content": content(types, &schema)});
                if required {
                    operation["requestBody"]["required"] = true.into();
                }
            }
        }
    }

    /// Returns the operation id: `listAppsV1NamespacedDeployment`.
    fn id(&self) -> String {
        let resource = self.resource;
        let only_if = |condition: bool, word: &'static str| if condition { word } else { "" };
        let namespaced = only_if(resource.namespaced && !self.everywhere, "Namespaced");
        let sub = self.sub.map(|sub| titled(sub.name)).unwrap_or_default();
        let everywhere = only_if(self.everywhere, "ForAllNamespaces");
        let (verb, kind) = (self.action.verb, &resource.kind);
        let group: String = self.group_words().into_iter().map(titled).collect();
        let version = titled(&resource.version);
        let collection = only_if(self.action.name == "deletecollection", "Collection");
        format!("{verb}{group}{version}{collection}{namespaced}{kind}{sub}{everywhere}")
    }

    /// Returns the tag of a group and version: `apps_v1`, `rbacAuthorization_v1`.
    fn tag(&self) -> String {
        let mut words = self.group_words().into_iter();
        let first = words.next().unwrap_or_default().to_owned();
        let rest: String = words.map(titled).collect();
        format!("{first}{rest}_{}", self.resource.version)
    }

    fn group_words(&self) -> Vec<&str> {
        match self.resource.group.as_str() {
            "" => vec!["core"],
            group => group
                .strip_suffix(".k8s.io")
                .unwrap_or(group)
                .split('.')
                .collect(),
        }
    }
}

impl Version {
    /// Returns a parameter. `name` has the form `name` or `name:type`.
    fn parameter(self, name: &str, place: &str) -> Value {
        let (name, kind) = name.split_once(':').unwrap_or((name, "string"));
        let mut parameter = json!({"name": name, "in": place, "uniqueItems": true});
        if place == "path" {
            parameter["required"] = true.into();
        }
        match self {
            Self::V2 => parameter["type"] = kind.into(),
            Self::V3 => {
                parameter["schema"] = json!({"type": kind, "uniqueItems": true});
                if let Some(map) = parameter.as_object_mut() {
                    map.remove("uniqueItems");
                }
            }
        }
        parameter
    }
}

/// Returns a content map with the same schema for all media types.
fn content(types: &[&str], schema: &Value) -> Value {
    types
        .iter()
        .map(|media_type| ((*media_type).to_owned(), json!({"schema": schema})))
        .collect::<Map>()
        .into()
}

/// Capitalizes the first letter.
fn titled(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
