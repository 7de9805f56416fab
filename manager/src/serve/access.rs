//! Who may ask what: some paths are open to everybody, all others only to clients on this machine.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::ServeError;

/// The paths that are open to everybody: exact ones, and all below one that ends in `*`.
///
/// Nothing is normalised, because two readings of one path are how such lists are got around.
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

    /// Whether a client at `peer` may ask for `path`.
    pub(super) fn allows(&self, path: &str, peer: IpAddr) -> bool {
        is_local(peer)
            || self.exact.contains(path)
            || (is_plain(path) && self.prefixes.iter().any(|prefix| path.starts_with(prefix)))
    }
}

/// Whether a client is on this machine.
pub(super) fn is_local(peer: IpAddr) -> bool {
    // An IPv4 client of a socket that listens on both shows as `::ffff:a.b.c.d`.
    peer.to_canonical().is_loopback()
}

/// Whether a path can only be read in one way.
fn is_plain(path: &str) -> bool {
    !path.contains('%')
        && !path.contains("//")
        && path.split('/').all(|segment| segment != "." && segment != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::{Ipv4Addr, Ipv6Addr};

    const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));

    fn access(paths: &[&str]) -> Access {
        Access::new(paths.iter().map(|&path| path.to_owned())).expect("good paths")
    }

    #[test]
    fn a_stranger_has_the_exact_paths() {
        let access = access(&["/healthz", "/livez"]);
        assert!(access.allows("/healthz", STRANGER));
        assert!(access.allows("/livez", STRANGER));
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
            assert!(!access.allows(path, STRANGER), "{path}");
        }
    }

    #[test]
    fn a_star_opens_what_is_below_and_no_way_out() {
        let access = access(&["/healthz/*", "/debug*"]);
        for path in [
            "/healthz/",
            "/healthz/ping",
            "/healthz/a/b",
            "/debug",
            "/debugging",
            "/healthz/..a",
        ] {
            assert!(access.allows(path, STRANGER), "{path}");
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
            assert!(!access.allows(path, STRANGER), "{path}");
        }
    }

    #[test]
    fn a_client_on_this_machine_has_everything() {
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
            STRANGER,
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            mapped(10, 1),
            // The deprecated form of an IPv4 address in IPv6, which is no mapping.
            IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0x7f00, 1)),
        ] {
            assert!(!access.allows("/metrics", peer), "{peer}");
        }
    }

    #[test]
    fn a_path_that_would_never_match_is_refused() {
        for path in ["", "healthz", "/a/*/b", "/a**", "*"] {
            let error = Access::new([path.to_owned()]).expect_err("a bad path");
            let text = error.to_string();
            assert!(text.contains("--authorization-always-allow-paths"), "{text}");
        }
    }
}
