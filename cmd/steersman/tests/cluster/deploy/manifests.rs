//! The objects of `deploy/`, as `kubectl kustomize` renders them.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use steersman_harness::{kubectl, tools};
use tempfile::TempDir;

pub struct Manifest {
    pub api_version: String,
    pub kind: String,
    /// Empty if cluster-scoped.
    pub namespace: String,
    pub name: String,
    /// The label `app.kubernetes.io/component`. Empty if the object has none.
    pub component: String,
    /// The YAML document.
    pub text: String,
}

impl Manifest {
    fn new(text: &str) -> Self {
        let mut it = Self {
            api_version: String::new(),
            kind: String::new(),
            namespace: String::new(),
            name: String::new(),
            component: String::new(),
            text: text.to_owned(),
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
                ("metadata", "    app.kubernetes.io/component") => &mut it.component,
                _ => continue,
            };
            value.trim().clone_into(field);
        }
        assert!(
            !it.api_version.is_empty() && !it.kind.is_empty() && !it.name.is_empty(),
            "not an object: {text}"
        );
        it
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

    /// The path of the object.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }
}

/// The folder `deploy/`.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// Returns the objects of a file below `deploy/`.
pub fn read(path: &str) -> Vec<Manifest> {
    let path = root().join(path);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    documents(&text)
}

/// Returns the objects of a base or overlay below `deploy/` with components.
pub fn render(folder: &str, components: &[&str]) -> Vec<Manifest> {
    documents(&Kustomization::of(folder, components).render())
}

fn documents(text: &str) -> Vec<Manifest> {
    let documents = text.split("---\n").filter(|it| !it.is_empty());
    documents.map(Manifest::new).collect()
}

/// A kustomization in a temporary folder.
pub struct Kustomization(TempDir);

impl Kustomization {
    /// A kustomization of a base or overlay below `deploy/` with components.
    pub fn of(folder: &str, components: &[&str]) -> Self {
        let mut text = format!("resources:\n- ../{folder}\ncomponents:\n");
        for it in components {
            text.extend(["- ../components/", it, "\n"]);
        }
        Self::new(&text)
    }

    /// A kustomization with this text, whose paths are relative to a folder in `deploy/`.
    pub fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // kustomize rejects absolute paths.
        let up = relative_path(&root(), folder.path());
        let text = text.replace("- ../", &format!("- {up}/"));
        fs::write(folder.path().join("kustomization.yaml"), text).expect("a file");
        Self(folder)
    }

    pub fn path(&self) -> &str {
        self.0.path().to_str().expect("a path in UTF-8")
    }

    /// Returns the rendered objects as YAML documents.
    pub fn render(&self) -> String {
        let output = Command::new(kubectl())
            .args(["kustomize", self.path()])
            .output()
            .expect("kubectl runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{error}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

pub fn kubectl() -> PathBuf {
    kubectl::find().unwrap_or_else(|| tools::path("KUBECTL"))
}

fn relative_path(folder: &Path, from: &Path) -> String {
    let (folder, from) = [folder, from]
        .map(|it| it.canonicalize().expect("a folder"))
        .into();
    let below = |it: &Path| {
        let names = it.components().filter(|it| matches!(it, Component::Normal(_)));
        names
            .map(|it| it.as_os_str().to_string_lossy().into_owned())
            .collect::<Vec<_>>()
    };
    let up = below(&from).into_iter().map(|_| "..".to_owned());
    up.chain(below(&folder)).collect::<Vec<_>>().join("/")
}
