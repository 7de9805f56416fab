//! The hash of a pod template, and the `ReplicaSet` name that contains it.
//!
//! Templates with equal hashes count as equal, so the hash is a cryptographic one: no user can construct two templates
//! with the same hash. The name contains 32 bits of it and of the collision count.

use ring::digest::{SHA256, digest};
use steersman_manager::object::Text;

use super::naming::ALPHABET;
use super::pod_template::Canonical;

/// The maximum length of an object name.
const NAME_MAX: usize = 253;

/// The first half of the SHA-256 digest of a template in canonical form. Zero if there is no template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash([u8; 16]);

impl Hash {
    /// Computes the hash of a template.
    #[must_use]
    pub fn of(template: &Canonical) -> Self {
        let digest = digest(&SHA256, template.json());
        let mut half = [0; 16];
        half.copy_from_slice(&digest.as_ref()[..16]);
        Self(half)
    }

    /// Returns the hash with the collision count as text for a name.
    #[must_use]
    pub fn text(self, collisions: Option<i64>) -> Text {
        let count = collisions.map(i64::to_le_bytes);
        let number = fnv1a(self.0.into_iter().chain(count.into_iter().flatten()));
        let digits = number.to_string().into_bytes().into_iter();
        let safe = digits.map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]));
        safe.collect::<String>().into()
    }
}

fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Returns the name of the `ReplicaSet` with this hash. A Deployment name that is too long is truncated.
#[must_use]
pub fn name(deployment: &str, hash: &str) -> Text {
    let room = NAME_MAX.saturating_sub(hash.len() + 1);
    let base = match room {
        0 => deployment,
        _ => &deployment[..deployment.floor_char_boundary(room)],
    };
    format!("{base}-{hash}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(template: &str) -> Hash {
        Hash::of(&Canonical::of(template))
    }

    #[test]
    fn hash_is_the_first_half_of_sha_256() {
        // The published digest of "abc".
        let abc = [0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea];
        let digest = digest(&SHA256, b"abc");
        assert_eq!(digest.as_ref()[..8], abc);
        let template = Canonical::of("{}");
        assert_eq!(
            Hash::of(&template).0,
            super::digest(&SHA256, b"{}").as_ref()[..16]
        );
    }

    #[test]
    fn name_is_fnv1a_in_safe_letters() {
        // The published hash of "a".
        assert_eq!(fnv1a(b"a".iter().copied()), 0xe40c_292c);
        let text = hash("{}").text(None);
        assert!(text.bytes().all(|it| ALPHABET.contains(&it)), "{text}");
    }

    #[test]
    fn hash_depends_on_template_and_collision_count() {
        let (a, b) = (hash(r#"{"spec":{"a":1}}"#), hash(r#"{"spec":{"a":2}}"#));
        assert_ne!(a, b);
        assert_eq!(
            a,
            hash(r#"{"metadata":{"labels":{"pod-template-hash":"x"}},"spec":{"a":1}}"#)
        );
        let counts = [None, Some(0), Some(1), Some(2), Some(1 << 31)];
        let texts: std::collections::BTreeSet<Text> = counts.map(|it| a.text(it)).into();
        assert_eq!(texts.len(), counts.len());
        assert_eq!(a.text(Some(1)), hash(r#"{"spec":{"a":1}}"#).text(Some(1)));
    }

    #[test]
    fn long_name_is_truncated() {
        assert_eq!(name("web", "abc"), "web-abc");
        let long = name(&"a".repeat(253), "abc");
        assert_eq!(long.len(), 253);
        assert!(long.ends_with("a-abc"));
        let hash = "h".repeat(252);
        assert_eq!(name("web", &hash), format!("web-{hash}").as_str());
    }
}
