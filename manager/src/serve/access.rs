//! Authorization by path and peer: remote clients may access the allowed paths only, local clients all paths.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::ServeError;

/// The allowed paths: exact paths, and prefixes written with a trailing `*`.
///
/// Paths are not normalised: two interpretations of one path are the usual way to bypass such a list.
#[derive(Clone, Debug)]
pub(super) struct Access {
    exact: BTreeSet<String>,
    prefixes: Vec<String>,
}

impl Access {
    pub(super) fn new(paths: impl IntoIterator<Item = String>) -> Result<Self, ServeError> {
        let mut access = Self {
            exact: BTreeSet::new(),
            prefixes: Vec::new(),
        };
        for path in paths {
            let prefix = path.strip_suffix('*');
            if !path.starts_with('/') || prefix.unwrap_or(&path).contains('*') {
                return Err(ServeError::AllowedPath { path });
            }
            match prefix {
                Some(prefix) => access.prefixes.push(prefix.to_owned()),
                None => {
                    access.exact.insert(path);
                }
            }
        }
        Ok(access)
    }

    /// Reports whether a client at `peer` may access `path`.
    pub(super) fn allows(&self, path: &str, peer: IpAddr) -> bool {
        is_local(peer)
            || self.exact.contains(path)
            || (is_plain(path) && self.prefixes.iter().any(|prefix| path.starts_with(prefix)))
    }
}

/// Reports whether a client is on this machine.
pub(super) fn is_local(peer: IpAddr) -> bool {
    // A dual-stack socket reports an IPv4 client as `::ffff:a.b.c.d`.
    peer.to_canonical().is_loopback()
}

/// Reports whether a path is already in its normal form.
fn is_plain(path: &str) -> bool {
    !path.contains('%')
        && !path.contains("//")
        && path.split('/').all(|segment| segment != "." && segment != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::{Ipv4Addr, Ipv6Addr};

    const REMOTE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));

    fn access(paths: &[&str]) -> Access {
        Access::new(paths.iter().map(|&path| path.to_owned())).expect("valid paths")
    }

    #[test]
    fn exact_paths_are_allowed_for_remote_clients() {
        let access = access(&["/healthz", "/livez"]);
        assert!(access.allows("/healthz", REMOTE));
        assert!(access.allows("/livez", REMOTE));
        for path in [
            "/",
            "",
            "*",
            "/metrics",
            "/healthz/",
            "/healthz/ping",
            "/Healthz",
            "//healthz",
            "/%68ealthz",
            "/metrics/../healthz",
            "/healthz/../metrics",
        ] {
            assert!(!access.allows(path, REMOTE), "{path}");
        }
    }

    #[test]
    fn prefix_allows_paths_below_and_no_traversal() {
        let access = access(&["/healthz/*", "/debug*"]);
        for path in [
            "/healthz/",
            "/healthz/ping",
            "/healthz/a/b",
            "/debug",
            "/debugging",
            "/healthz/..a",
        ] {
            assert!(access.allows(path, REMOTE), "{path}");
        }
        for path in [
            "/healthz",
            "/metrics",
            "/healthz/../metrics",
            "/healthz/..",
            "/healthz/./ping",
            "/healthz//metrics",
            "/healthz/%2e%2e/metrics",
        ] {
            assert!(!access.allows(path, REMOTE), "{path}");
        }
    }

    #[test]
    fn all_paths_are_allowed_for_local_clients() {
        let access = access(&[]);
        let mapped = |a, b| IpAddr::V6(Ipv4Addr::new(a, 0, 0, b).to_ipv6_mapped());
        for peer in [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V4(Ipv4Addr::new(127, 8, 9, 10)),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
            mapped(127, 1),
        ] {
            assert!(access.allows("/metrics", peer), "{peer}");
        }
        for peer in [
            REMOTE,
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            mapped(10, 1),
            // The deprecated IPv4-compatible form, which is not IPv4-mapped.
            IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0x7f00, 1)),
        ] {
            assert!(!access.allows("/metrics", peer), "{peer}");
        }
    }

    #[test]
    fn invalid_allowed_path_is_rejected() {
        for path in ["", "healthz", "/a/*/b", "/a**", "*"] {
            let error = Access::new([path.to_owned()]).expect_err("an error");
            let text = error.to_string();
            assert!(text.contains("--authorization-always-allow-paths"), "{text}");
        }
    }
}
