//! The identity of a process in the election and in events.

use crate::env::Rng;

/// Returns a unique identity: the hostname and a random UUID.
#[must_use]
pub fn identity(hostname: &str, rng: &Rng) -> String {
    // Version 4, variant 1.
    let high = rng.number() & !0xf000 | 0x4000;
    let low = rng.number() & !(0b11 << 62) | 0b10 << 62;
    format!(
        "{hostname}_{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff,
    )
}

pub(super) fn hostname() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_hostname_and_uuid() {
        let rng = Rng::from_seed(1);
        let one = identity("host-0", &rng);
        let (host, uuid) = one.split_once('_').expect("two parts");
        assert_eq!((host, uuid.len()), ("host-0", 36));
        let parts: Vec<_> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid[14..15], "4");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
        assert_ne!(one, identity("host-0", &rng));
    }
}
