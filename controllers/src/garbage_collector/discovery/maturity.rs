//! The order in which Kubernetes prefers versions.

use std::cmp::Reverse;

/// How mature a version is: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then other names by the alphabet. The least one is
/// preferred.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Maturity {
    Stable(Reverse<u64>),
    Beta(Reverse<u64>, Reverse<u64>),
    Alpha(Reverse<u64>, Reverse<u64>),
    Other(String),
}

impl Maturity {
    pub(super) fn of(version: &str) -> Self {
        Self::parse(version).unwrap_or_else(|| Self::Other(version.to_owned()))
    }

    fn parse(version: &str) -> Option<Self> {
        let rest = version.strip_prefix('v')?;
        if let Some((major, minor)) = rest.split_once("beta") {
            return Some(Self::Beta(number(major)?, number(minor)?));
        }
        if let Some((major, minor)) = rest.split_once("alpha") {
            return Some(Self::Alpha(number(major)?, number(minor)?));
        }
        Some(Self::Stable(number(rest)?))
    }
}

fn number(digits: &str) -> Option<Reverse<u64>> {
    let only_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| digits.parse().ok().map(Reverse)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mature_versions_come_first_and_newer_ones_before_older_ones() {
        let expected = [
            "v10",
            "v2",
            "v1",
            "v12beta1",
            "v3beta1",
            "v2beta10",
            "v2beta2",
            "v11alpha2",
            "v1alpha1",
            "foo1",
            "v1beta",
            "v1rc1",
            "v99999999999999999999",
        ];
        let mut versions = expected;
        versions.reverse();
        versions.sort_by_cached_key(|version| Maturity::of(version));
        assert_eq!(versions, expected);
    }
}
