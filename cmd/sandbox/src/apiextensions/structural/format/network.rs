//! Formats of network names and addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Lower-case letters and digits, and dashes between them.
pub(crate) fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Parses an address whose numbers may have leading zeros.
fn lenient_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text.split('.').map(|part| {
        let fits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        fits.then(|| part.trim_start_matches('0')).and_then(|part| {
            if part.is_empty() {
                Some(0)
            } else {
                part.parse::<u8>().ok()
            }
        })
    });
    let mut next = || parts.next().flatten();
    let address = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    parts.next().is_none().then_some(address)
}

/// An IPv4-mapped IPv6 address is valid too.
pub(crate) fn ipv4(text: &str) -> bool {
    text.contains('.') && (lenient_ipv4(text).is_some() || ipv6(text))
}

pub(crate) fn ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

pub(crate) fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match (lenient_ipv4(address), ipv6(address)) {
        (Some(_), _) => 32,
        (None, true) => 128,
        (None, false) => return false,
    };
    bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u16>().is_ok_and(|bits| bits <= most)
}

/// Six, eight or twenty bytes: pairs with colons or dashes, or groups of four with dots.
pub(crate) fn mac(text: &str) -> bool {
    let (separator, digits) = match (text.as_bytes().get(2), text.as_bytes().get(4)) {
        (Some(b':'), _) => (':', 2),
        (Some(b'-'), _) => ('-', 2),
        (_, Some(b'.')) => ('.', 4),
        _ => return false,
    };
    let groups = text.split(separator);
    matches!(groups.clone().count() * digits / 2, 6 | 8 | 20)
        && groups
            .into_iter()
            .all(|group| crate::apiextensions::structural::format::codes::is_hex(group, digits))
}

/// Letters, digits and symbols of any script.
fn is_host_sign(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric() || "$+<=>^`|~".contains(c)
    } else {
        c.is_alphabetic() || !(c.is_alphanumeric() || c.is_whitespace() || c.is_control())
    }
}

/// One simple label, or several whose last one has only letters.
pub(crate) fn hostname(text: &str) -> bool {
    let Some((labels, top)) = text.rsplit_once('.') else {
        let mut signs = text.chars();
        let starts = signs.next().is_some_and(is_host_sign);
        let rest = signs.as_str();
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        return starts && text.len() <= 63 && rest.chars().all(is_host_sign);
    };
    let is_top = (2..=63).contains(&top.chars().count()) && top.chars().all(char::is_alphabetic);
    let is_inner = |label: &str| {
        label.len() <= 63
            && label.starts_with(is_host_sign)
            && label.ends_with(is_host_sign)
            && label.chars().all(|c| is_host_sign(c) || c == '-')
    };
    text.len() <= 255 && is_top && top.len() <= 63 && labels.split('.').all(is_inner)
}

/// A valid request target: an absolute URI or an absolute path.
pub(crate) fn uri(text: &str) -> bool {
    if text == "*" {
        return true;
    }
    if text.bytes().any(|b| b.is_ascii_control()) {
        return false;
    }
    let scheme = text.split_once(':').filter(|(scheme, _)| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(inner)
    });
    let rest = scheme.map_or(text, |(_, rest)| rest);
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return scheme.is_some();
    }
    match rest.strip_prefix("//").filter(|_| scheme.is_some()) {
        Some(after) => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            is_authority(authority) && are_escapes(path)
        }
        None => are_escapes(rest),
    }
}

/// Whether two digits follow every percent sign.
fn are_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| {
        rest.get(..2)
            .is_some_and(|digits| crate::apiextensions::structural::format::codes::is_hex(digits, 2))
    })
}

fn is_authority(text: &str) -> bool {
    let (user, host) = text
        .rsplit_once('@')
        .map_or((None, text), |(user, host)| (Some(user), host));
    let in_user = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
    let user_fits = user.is_none_or(|user| user.bytes().all(in_user) && are_escapes(user));
    let (name, port) = if host.starts_with('[') {
        match host.split_once(']') {
            Some((name, port)) => (name, port),
            None => return false,
        }
    } else {
        host.split_at(host.rfind(':').unwrap_or(host.len()))
    };
    let in_host =
        |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    let port_fits = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    user_fits && port_fits && name.chars().all(in_host) && are_escapes(name)
}

/// An address, or a name and an address in angle brackets.
pub(crate) fn email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(named) => match named.rsplit_once('<') {
            Some((name, address)) if is_phrase(name.trim()) => address,
            _ => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let literal = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    (is_atoms(local) || is_quoted(local)) && (is_atoms(domain) || literal.is_some_and(|ip| !ip.is_empty()))
}

fn in_atom(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

/// Words with single dots between them.
fn is_atoms(text: &str) -> bool {
    text.split('.')
        .all(|part| !part.is_empty() && part.chars().all(in_atom))
}

fn is_quoted(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|inner| !inner.contains('"') && !inner.chars().any(char::is_control))
}

fn is_phrase(text: &str) -> bool {
    is_quoted(text) || text.chars().all(|c| in_atom(c) || c == ' ' || c == '.')
}
