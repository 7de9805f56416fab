//! Unroutable addresses: nodes in 10.0.0.0/16, pods in the rest of 10.0.0.0/8.

use std::net::Ipv4Addr;

use steersman_manager::object::Version;

/// Values of the last byte of an address, which is neither 0 nor 255.
const HOSTS: u32 = 254;
/// Number of pod addresses: 10.1.0.1 to 10.254.255.254.
const PODS: u32 = 254 * 256 * HOSTS;

pub(super) fn node(index: u32) -> Ipv4Addr {
    at(index % (256 * HOSTS))
}

/// Returns a free address for a pod. It is derived from the resourceVersion, which is unique: two pods that are assigned
/// addresses concurrently get different ones.
pub(super) fn pod(version: &Version, taken: impl Fn(Ipv4Addr) -> bool) -> Ipv4Addr {
    // The remainder fits into u32.
    let first = u32::try_from(version.gauge().rem_euclid(i64::from(PODS))).unwrap_or(0);
    let nth = |step: u32| at(256 * HOSTS + (first + step) % PODS);
    (0..PODS)
        .map(nth)
        .find(|address| !taken(*address))
        .unwrap_or(nth(0))
}

fn at(number: u32) -> Ipv4Addr {
    let [_, high, middle, low] = ((number / HOSTS) << 8 | (number % HOSTS + 1)).to_be_bytes();
    Ipv4Addr::new(10, high, middle, low)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::BTreeSet;

    #[test]
    fn addresses_are_unique_and_valid() {
        assert_eq!(node(0).to_string(), "10.0.0.1");
        assert_eq!(node(254).to_string(), "10.0.1.1");
        assert_eq!(node(256 * HOSTS - 1).to_string(), "10.0.255.254");
        let versions = (1..100_000_u32).map(|it| Version::from(&*it.to_string()));
        let addresses: BTreeSet<Ipv4Addr> = versions.map(|it| pod(&it, |_| false)).collect();
        assert_eq!(addresses.len(), 99_999);
        assert!(addresses.iter().all(|it| {
            let [ten, high, _, low] = it.octets();
            ten == 10 && (1..=254).contains(&high) && (1..=254).contains(&low)
        }));
        let last = Version::from(&*(PODS - 1).to_string());
        assert_eq!(pod(&last, |_| false).to_string(), "10.254.255.254");
    }

    #[test]
    fn taken_addresses_are_skipped_with_wraparound() {
        let last = Version::from(&*(PODS - 1).to_string());
        let taken = pod(&last, |_| false);
        assert_eq!(pod(&last, |it| it == taken).to_string(), "10.1.0.1");
        let far = Version::from(&*(u64::from(PODS) * 7 + 3).to_string());
        assert_eq!(pod(&far, |_| false), pod(&Version::from("3"), |_| false));
        assert_eq!(pod(&Version::none(), |_| false).to_string(), "10.1.0.1");
    }
}
