//! Reads `deploy/` like `kustomize`, for the features used there: lists of files and folders, and arguments added by a patch.
//! Other fields of a `kustomization.yaml` are rejected.

use std::fs;
use std::path::{Path, PathBuf};

pub struct Manifest {
    pub api_version: String,
    pub kind: String,
    /// Empty if cluster-scoped.
    pub namespace: String,
    pub name: String,
    /// The YAML document.
    pub text: String,
}

impl Manifest {
    fn new(text: String) -> Self {
        let mut it = Self {
            api_version: String::new(),
            kind: String::new(),
            namespace: String::new(),
            name: String::new(),
            text: String::new(),
        };
        let mut section = "";
        for line in text.lines() {
            let (key, value) = line.split_once(':').unwrap_or((line, ""));
            if !line.starts_with([' ', '-', '#']) {
                section = key;
            }
            let field = match (section, key) {
                (_, "apiVersion") => &mut it.api_version,
                (_, "kind") => &mut it.kind,
                ("metadata", "  name") => &mut it.name,
                ("metadata", "  namespace") => &mut it.namespace,
                _ => continue,
            };
            value.trim().clone_into(field);
        }
        assert!(
            !it.api_version.is_empty() && !it.kind.is_empty() && !it.name.is_empty(),
            "not an object: {text}"
        );
        Self { text, ..it }
    }

    /// The path to POST to.
    pub fn collection(&self) -> String {
        let Self {
            api_version,
            kind,
            namespace,
            ..
        } = self;
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let space = if namespace.is_empty() {
            String::new()
        } else {
            format!("/namespaces/{namespace}")
        };
        let mut plural = format!("{}s", kind.to_lowercase());
        if let Some(stem) = plural.strip_suffix("ys") {
            plural = format!("{stem}ies");
        }
        format!("/{root}/{api_version}{space}/{plural}")
    }
}

/// The folder `deploy/`.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// Returns the objects of a folder or a file below `deploy/`.
pub fn read(path: &str) -> Vec<Manifest> {
    resource(&root().join(path))
}

fn resource(path: &Path) -> Vec<Manifest> {
    if path.is_dir() {
        return folder(path);
    }
    let text = text(path);
    let documents = text.split("---\n").filter(|it| !it.is_empty());
    documents.map(|it| Manifest::new(it.to_owned())).collect()
}

fn folder(path: &Path) -> Vec<Manifest> {
    let mut all = Vec::new();
    let mut section = String::new();
    for line in text(&path.join("kustomization.yaml")).lines() {
        if !line.starts_with([' ', '-']) {
            line.split(':')
                .next()
                .unwrap_or_default()
                .clone_into(&mut section);
        }
        let item = line.strip_prefix("- ");
        match (section.as_str(), item) {
            ("resources" | "components", Some(item)) => all.extend(resource(&path.join(item))),
            ("apiVersion" | "kind" | "resources" | "components", None) | ("patches", _) => {}
            _ => panic!("{}: {line:?} is not supported", path.display()),
        }
    }
    all
}

/// Returns the arguments that a patch below `deploy/` adds.
pub fn arguments(path: &str) -> Vec<String> {
    let text = text(&root().join(path));
    let values = text.lines().filter_map(|line| line.strip_prefix("  value: --"));
    values.map(|it| format!("--{it}")).collect()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
