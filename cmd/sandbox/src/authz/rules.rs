//! Policy rules: the permissions of a rule, and whether rules cover others.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::authz::Attributes;
use crate::authz::attributes::combined;
use crate::json::Value;

/// One rule of a role. `*` stands for everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    pub verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

impl Rule {
    /// Returns the rules of a role without malformed ones.
    #[must_use]
    pub fn of(role: &Value) -> Vec<Self> {
        let rules = role["rules"].as_array().into_iter().flatten();
        rules.filter_map(|rule| rule.decode().ok()).collect()
    }

    /// The two rules that allow everything.
    #[must_use]
    pub fn everything() -> [Self; 2] {
        let all = || vec!["*".to_owned()];
        let resources = Self {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..Self::default()
        };
        let urls = Self {
            verbs: all(),
            non_resource_urls: all(),
            ..Self::default()
        };
        [resources, urls]
    }

    /// Whether this rule alone allows it.
    #[must_use]
    pub fn allows(&self, wanted: &Attributes) -> bool {
        if !has(&self.verbs, &wanted.verb) {
            return false;
        }
        if let Some(path) = &wanted.path {
            return self.non_resource_urls.iter().any(|url| covers_url(url, path));
        }
        let (subresource, name) = (&wanted.subresource, &wanted.name);
        let any = format!("*/{subresource}");
        let resource_matches = has(&self.resources, &combined(&wanted.resource, subresource))
            || (!subresource.is_empty() && self.resources.contains(&any));
        let name_matches = self.resource_names.is_empty() || self.resource_names.contains(name);
        has(&self.api_groups, &wanted.group) && resource_matches && name_matches
    }

    /// Reports whether this rule includes `atom`, a rule with one verb on one resource.
    fn covers(&self, atom: &Self) -> bool {
        let all = |own: &[String], wanted: &[String]| wanted.iter().all(|one| has(own, one));
        let resource = |wanted: &String| {
            let any = wanted.split_once('/').map(|(_, sub)| format!("*/{sub}"));
            has(&self.resources, wanted) || any.is_some_and(|any| self.resources.contains(&any))
        };
        let names = self.resource_names.is_empty()
            || (!atom.resource_names.is_empty()
                && atom
                    .resource_names
                    .iter()
                    .all(|name| self.resource_names.contains(name)));
        let urls = atom
            .non_resource_urls
            .iter()
            .all(|wanted| self.non_resource_urls.iter().any(|own| covers_url(own, wanted)));
        all(&self.verbs, &atom.verbs)
            && all(&self.api_groups, &atom.api_groups)
            && atom.resources.iter().all(resource)
            && names
            && urls
    }

    /// The same in rules of one verb on one thing each.
    fn atoms(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let mut atoms = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let atom = Self {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    if self.resource_names.is_empty() {
                        atoms.push(atom);
                    } else {
                        atoms.extend(self.resource_names.iter().map(|name| Self {
                            resource_names: one(name),
                            ..atom.clone()
                        }));
                    }
                }
            }
        }
        for url in &self.non_resource_urls {
            atoms.extend(self.verbs.iter().map(|verb| Self {
                verbs: one(verb),
                non_resource_urls: one(url),
                ..Self::default()
            }));
        }
        atoms
    }

    fn shown(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| format!("{name}:{}", quoted(values)))
            .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// Returns the atoms of `wanted` that no rule in `held` includes.
#[must_use]
pub fn uncovered(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let atoms = wanted.iter().flat_map(Rule::atoms);
    atoms
        .filter(|atom| !held.iter().any(|rule| rule.covers(atom)))
        .collect()
}

/// The atoms for people: those that differ only by their verb as one, in order, one per line.
#[must_use]
pub fn describe(atoms: &[Rule]) -> String {
    let mut merged: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    for atom in atoms {
        if atom.non_resource_urls.is_empty() {
            let thing = Rule {
                verbs: Vec::new(),
                ..atom.clone()
            };
            merged.entry(thing).or_default().extend(atom.verbs.clone());
        } else {
            lines.insert(atom.shown());
        }
    }
    lines.extend(
        merged
            .into_iter()
            .map(|(thing, verbs)| Rule { verbs, ..thing }.shown()),
    );
    Vec::from_iter(lines).join("\n")
}

/// `["a" "b"]`.
#[must_use]
pub fn quoted(values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("[{}]", values.join(" "))
}

fn has(own: &[String], wanted: &str) -> bool {
    own.iter().any(|one| one == "*" || one == wanted)
}

/// A URL of a rule may end with a star, which stands for whatever follows.
fn covers_url(own: &str, wanted: &str) -> bool {
    own == wanted || (own.ends_with('*') && wanted.starts_with(own.trim_end_matches('*')))
}
