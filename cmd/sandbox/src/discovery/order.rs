//! The order of groups and versions in discovery, which is the order of preference.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::generated;
use crate::resource::Resource;

/// All groups but core.
pub fn groups<R: Borrow<Resource>>(resources: &[R]) -> Vec<&str> {
    // Custom groups have one priority, and ties are broken by the name of the group's registration, which starts
    // with the version: `v1.b.io` comes before `v1beta1.a.io`.
    let mut first: BTreeMap<&str, String> = BTreeMap::new();
    for resource in resources
        .iter()
        .map(Borrow::borrow)
        .filter(|resource| !resource.group.is_empty())
    {
        let registration = format!("{}.{}", resource.version, resource.group);
        let known = first
            .entry(&resource.group)
            .or_insert_with(|| registration.clone());
        if registration < *known {
            *known = registration;
        }
    }
    let mut groups: Vec<(&str, String)> = first.into_iter().collect();
    groups.sort_by(|a, b| rank(a.0).cmp(&rank(b.0)).then_with(|| a.1.cmp(&b.1)));
    groups.into_iter().map(|(group, _)| group).collect()
}

/// The same where ties are broken by the name of the group.
pub fn groups_by_name<R: Borrow<Resource>>(resources: &[R]) -> Vec<&str> {
    let mut groups = groups(resources);
    groups.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
    groups
}

/// The place of a built-in group in discovery. Custom groups follow.
fn rank(group: &str) -> usize {
    let resources = generated::resources();
    let place = resources.iter().position(|resource| resource.group == group);
    place.unwrap_or(resources.len())
}

/// The versions of a group, the preferred one first.
pub fn versions<'a, R: Borrow<Resource>>(resources: &'a [R], group: &str) -> Vec<&'a str> {
    let of_group = resources
        .iter()
        .map(Borrow::borrow)
        .filter(|resource| resource.group == group);
    let versions: BTreeSet<&str> = of_group.map(|resource| resource.version.as_str()).collect();
    let mut versions: Vec<&str> = versions.into_iter().collect();
    versions.sort_by_cached_key(|version| Maturity::of(version));
    versions
}

/// How mature a version is: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then other names by the alphabet.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Maturity {
    Stable(Reverse<u64>),
    Beta(Reverse<u64>, Reverse<u64>),
    Alpha(Reverse<u64>, Reverse<u64>),
    Other(String),
}

impl Maturity {
    fn of(version: &str) -> Self {
        Self::parse(version).unwrap_or_else(|| Self::Other(version.to_owned()))
    }

    fn parse(version: &str) -> Option<Self> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, rest) = rest.split_at_checked(digits)?;
        let major = Reverse(number(major)?);
        Some(if rest.is_empty() {
            Self::Stable(major)
        } else if let Some(minor) = rest.strip_prefix("beta") {
            Self::Beta(major, Reverse(number(minor)?))
        } else {
            Self::Alpha(major, Reverse(number(rest.strip_prefix("alpha")?)?))
        })
    }
}

/// A number that does not start with a zero or a sign.
fn number(digits: &str) -> Option<u64> {
    digits
        .starts_with(|c: char| matches!(c, '1'..='9'))
        .then(|| digits.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mature_versions_first() {
        let text = "foo1 v1alpha1 v2 v11alpha2 v1 v12beta1 v10 v3beta1 v2beta10";
        let mut versions: Vec<&str> = text.split(' ').collect();
        versions.sort_by_cached_key(|version| Maturity::of(version));
        let sorted = "v10 v2 v1 v12beta1 v3beta1 v2beta10 v11alpha2 v1alpha1 foo1";
        assert_eq!(versions.join(" "), sorted);
        for other in ["v01", "v1beta", "v1rc1"] {
            assert!(matches!(Maturity::of(other), Maturity::Other(_)), "{other}");
        }
    }
}
