//! The identity of a build: the page `/version` and the metric `kubernetes_build_info`.

use prometheus::{IntGaugeVec, Opts};

use crate::metrics::Registry;
use serde_json::{Value, json};

use super::endpoints::{Endpoints, json};

/// The identity of a build. Empty strings stand for unknown values.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "plain data")]
pub struct BuildInfo {
    /// The name of the program.
    pub name: &'static str,
    /// A semantic version with the prefix `v`.
    pub version: &'static str,
    pub git_commit: &'static str,
    /// `clean` or `dirty`.
    pub git_tree_state: &'static str,
    /// In RFC 3339 format.
    pub build_date: &'static str,
    /// The output of `rustc --version`.
    pub rust_version: &'static str,
}

impl BuildInfo {
    fn fields(&self) -> [(&'static str, &'static str, String); 9] {
        let mut numbers = self.version.trim_start_matches('v').split('.');
        let mut number = || numbers.next().unwrap_or_default().to_owned();
        let (major, minor) = (number(), number());
        [
            ("major", "major", major),
            ("minor", "minor", minor),
            ("git_version", "gitVersion", self.version.to_owned()),
            ("git_commit", "gitCommit", self.git_commit.to_owned()),
            ("git_tree_state", "gitTreeState", self.git_tree_state.to_owned()),
            ("build_date", "buildDate", self.build_date.to_owned()),
            ("rust_version", "rustVersion", self.rust_version.to_owned()),
            ("compiler", "compiler", "rustc".to_owned()),
            ("platform", "platform", platform()),
        ]
    }

    /// Registers `kubernetes_build_info`.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        let fields = self.fields();
        let labels = fields.each_ref().map(|(label, _, _)| *label);
        let values = fields.each_ref().map(|(_, _, value)| value.as_str());
        let help =
            "[ALPHA] 1, labeled with the version, the commit, the compiler and the platform of this build";
        let metric = IntGaugeVec::new(Opts::new("kubernetes_build_info", help), &labels)?;
        metric.with_label_values(&values).set(1);
        registry.register(Box::new(metric))
    }

    /// Returns the document of `/version`.
    #[must_use]
    pub fn document(&self) -> Value {
        let fields = self.fields().into_iter();
        fields
            .map(|(_, key, value)| (key.to_owned(), json!(value)))
            .collect()
    }
}

/// Returns the platform in Go's words, as `kubectl version` does.
fn platform() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{arch}", std::env::consts::OS)
}

impl Endpoints {
    /// Adds `/version`, in the format of kube-apiserver.
    #[must_use]
    pub fn with_version(self, build: &BuildInfo) -> Self {
        let document = build.document();
        self.mount("/version", move |_| std::future::ready(json(&document)))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const BUILD: BuildInfo = BuildInfo {
        name: "boatyard",
        version: "v1.20.3-rc.1",
        git_commit: "5ba3f4c",
        git_tree_state: "",
        build_date: "2026-11-16T09:00:00Z",
        rust_version: "rustc 1.95.0",
    };

    #[test]
    fn metric_and_document_carry_the_same_values() {
        let registry = Registry::new("test");
        BUILD.register(&registry).expect("a new metric");
        let families = registry.gather();
        let labels = families[0].get_metric()[0].get_label();
        let document = BUILD.document();
        assert_eq!(labels.len(), 9);
        for label in labels {
            let (head, tail) = label.name().split_once('_').unwrap_or((label.name(), ""));
            let tail: String = tail.split('_').map(capitalized).collect();
            assert_eq!(
                document[format!("{head}{tail}")],
                label.value(),
                "{}",
                label.name()
            );
        }
        assert_eq!(
            (&document["major"], &document["minor"]),
            (&json!("1"), &json!("20"))
        );
        assert_eq!(document["gitVersion"], "v1.20.3-rc.1");
    }

    fn capitalized(word: &str) -> String {
        let mut letters = word.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }
}
