//! `NO_PROXY`, by the rules of client-go.
//!
//! `NO_PROXY` is a list of hosts, separated by commas: a domain (which covers its subdomains), a domain with a leading dot
//! (only its subdomains), an IP address, a CIDR block, each with an optional port, or `*`. Loopback never uses a proxy.

use std::net::IpAddr;

/// Whether `host` at `port` is reached without a proxy, given the value of `NO_PROXY`.
pub(crate) fn bypasses(no_proxy: &str, host: &str, port: u16) -> bool {
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let ip: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
        return true;
    }
    let mut entries = no_proxy.split(',').map(|entry| entry.trim().to_ascii_lowercase());
    entries.any(|entry| matches(&entry, &host, ip, port))
}

fn matches(entry: &str, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((network, length)) = entry.split_once('/') {
        return ip.is_some_and(|ip| is_in(ip, network, length).unwrap_or(false));
    }
    // An IPv6 address has colons of its own.
    let is_ip = |text: &str| text.parse::<IpAddr>().is_ok();
    let entry = match entry.rsplit_once(':') {
        Some((name, number)) if !is_ip(entry) => {
            if number.parse() != Ok(port) {
                return false;
            }
            name
        }
        _ => entry,
    };
    let entry = entry.trim_matches(['[', ']']);
    if ip.is_some() {
        return entry.parse().ok() == ip;
    }
    let entry = entry.strip_prefix('*').unwrap_or(entry);
    match entry.strip_prefix('.') {
        Some("") => false,
        Some(_) => host.ends_with(entry),
        None => !entry.is_empty() && (host == entry || host.ends_with(&format!(".{entry}"))),
    }
}

/// Returns whether a CIDR block contains `ip`, or none if the block is invalid or of the other address family.
fn is_in(ip: IpAddr, network: &str, length: &str) -> Option<bool> {
    let (network, length): (IpAddr, u32) = (network.parse().ok()?, length.parse().ok()?);
    let (ip, network, bits) = match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => (ip.to_bits().into(), network.to_bits().into(), 32_u32),
        (IpAddr::V6(ip), IpAddr::V6(network)) => (ip.to_bits(), network.to_bits(), 128),
        _ => return None,
    };
    let host_bits = bits.checked_sub(length)?;
    let prefix = |address: u128| address.checked_shr(host_bits).unwrap_or(0);
    Some(prefix(ip) == prefix(network))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_match_as_in_client_go() {
        for (no_proxy, host) in [
            ("", "localhost"),
            ("", "127.0.0.1"),
            ("", "[::1]"),
            ("*", "api.example.com"),
            ("example.com", "example.com"),
            ("example.com", "API.example.com"),
            (".example.com", "api.example.com"),
            ("*.example.com", "api.example.com"),
            ("other, api.example.com:6443", "api.example.com"),
            ("10.0.0.1", "10.0.0.1"),
            ("10.0.0.0/8", "10.1.2.3"),
            ("0.0.0.0/0", "10.1.2.3"),
            ("fd00::/8", "[fd00::1]"),
            ("fd00::1", "[fd00::1]"),
            ("[fd00::1]:6443", "[fd00::1]"),
        ] {
            assert!(bypasses(no_proxy, host, 6443), "{no_proxy} {host}");
        }
        for (no_proxy, host) in [
            ("", "api.example.com"),
            (",", "api.example.com"),
            (".", "api.example.com"),
            (".example.com", "example.com"),
            ("example.com", "badexample.com"),
            ("api.example.com:443", "api.example.com"),
            ("10.0.0.1", "10.0.0.11"),
            ("10.0.0.0/8", "11.0.0.1"),
            ("10.0.0.0/99", "10.0.0.1"),
            ("10.0.0.0/x", "10.0.0.1"),
            ("fd00::/8", "10.0.0.1"),
        ] {
            assert!(!bypasses(no_proxy, host, 6443), "{no_proxy} {host}");
        }
    }
}
