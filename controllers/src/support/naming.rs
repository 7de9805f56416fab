//! Pod names. The controller chooses them, so a create with a lost response can be sent again.

use steersman_manager::env::Rng;
use steersman_manager::object::Text;

/// The alphabet of generated names of the API server: no vowels, to avoid words, and no similar characters.
pub const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
/// The maximum length of a name that is also a hostname.
const NAME_MAX: usize = 63;

/// Returns the prefix of the pod names of an owner, short enough for a suffix.
#[must_use]
pub fn base(owner: &str) -> String {
    let mut base = format!("{owner}-");
    base.truncate(base.floor_char_boundary(NAME_MAX - SUFFIX_LENGTH));
    base
}

/// Returns the generateName of the pods of an owner.
#[must_use]
pub fn generate_name(owner: &str) -> String {
    format!("{owner}-")
}

/// Returns a random name.
#[must_use]
pub fn name(base: &str, rng: &Rng) -> Text {
    let mut name = base.to_owned();
    for _ in 0..SUFFIX_LENGTH {
        let at = usize::try_from(rng.below(ALPHABET.len() as u64)).unwrap_or(0);
        name.push(char::from(ALPHABET[at]));
    }
    name.into()
}

/// Reports whether [`name`] can return the name for this base.
#[must_use]
pub fn is_made_of(base: &str, name: &str) -> bool {
    let suffix = name.strip_prefix(base);
    suffix.is_some_and(|it| it.len() == SUFFIX_LENGTH && it.bytes().all(|byte| ALPHABET.contains(&byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_the_form_of_a_generated_name() {
        let rng = Rng::from_seed(1);
        for owner in ["web", &"a".repeat(57), &"a".repeat(58), &"a".repeat(253)] {
            let base = base(owner);
            assert!(format!("{owner}-").starts_with(&base));
            let name = name(&base, &rng);
            assert!(name.len() <= NAME_MAX, "{name}");
            let suffix = name.strip_prefix(&*base).expect("the base");
            assert_eq!(suffix.len(), SUFFIX_LENGTH);
            assert!(suffix.bytes().all(|it| ALPHABET.contains(&it)), "{name}");
            assert!(is_made_of(&base, &name));
        }
        assert_eq!(base("web"), "web-");
        assert_eq!(base(&"a".repeat(253)), "a".repeat(58));
        assert_ne!(name("web-", &rng), name("web-", &rng));
        for other in [
            "web-",
            "web-bcdf",
            "web-bcdfgh",
            "web-bcdfa",
            "web-x-bcdfg",
            "wet-bcdfg",
        ] {
            assert!(!is_made_of("web-", other), "{other}");
        }
    }
}
