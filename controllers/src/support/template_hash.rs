//! The hash of a pod template, and the `ReplicaSet` name that contains it.
//!
//! The hash depends on the canonical template and the collision count. Nothing is looked up by it; different templates
//! must have different hashes nearly always.

use steersman_manager::object::Text;

use super::naming::ALPHABET;
use super::pod_template::Canonical;

/// The maximum length of an object name.
const NAME_MAX: usize = 253;

/// The hash of a template without the collision count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(u32);

impl Hash {
    /// Computes the FNV-1a hash of a template.
    #[must_use]
    pub fn of(template: &Canonical) -> Self {
        Self(0x811c_9dc5).over(template.text().as_bytes())
    }

    /// Returns the hash with the collision count as text.
    #[must_use]
    pub fn text(self, collisions: Option<i64>) -> Text {
        let hash = match collisions {
            None => self,
            Some(count) => {
                let low = u32::try_from(count & i64::from(u32::MAX)).unwrap_or(0);
                self.over(&low.to_le_bytes()).over(&[0; 4])
            }
        };
        let digits = hash.0.to_string().into_bytes().into_iter();
        let safe = digits.map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]));
        safe.collect::<String>().into()
    }

    fn over(self, bytes: &[u8]) -> Self {
        let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        Self(bytes.iter().fold(self.0, step))
    }
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
    fn hash_is_fnv1a_in_safe_letters() {
        // The published hash of "a".
        assert_eq!(Hash(0x811c_9dc5).over(b"a"), Hash(0xe40c_292c));
        assert_eq!(Hash(1_234_567_890).text(None), "56789bcdf4");
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
