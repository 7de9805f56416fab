//! Names of pods, chosen before they are created: a create whose answer is lost can be sent again.

use coxswain_manager::env::Rng;
use coxswain_manager::object::Text;

/// What the API server makes suffixes of: no vowels, so no words, and nothing that looks like something else.
pub const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// How long a suffix is.
const SUFFIX: usize = 5;
/// The longest name that can also be a hostname.
const LONGEST: usize = 63;

/// What the names of the pods of an owner begin with.
#[must_use]
pub fn base(owner: &str) -> String {
    let mut base = format!("{owner}-");
    base.truncate(base.floor_char_boundary(LONGEST - SUFFIX));
    base
}

/// The prefix that the API server is told, as if it should choose. It takes one more than the longest name there is.
#[must_use]
pub fn generate_name(owner: &str) -> String {
    format!("{owner}-")
}

/// A name that most likely nobody has.
#[must_use]
pub fn name(base: &str, rng: &Rng) -> Text {
    let mut name = base.to_owned();
    for _ in 0..SUFFIX {
        let at = usize::try_from(rng.below(ALPHABET.len() as u64)).unwrap_or(0);
        name.push(char::from(ALPHABET[at]));
    }
    name.into()
}

/// Whether a name could be one that was made of this base.
#[must_use]
pub fn is_made_of(base: &str, name: &str) -> bool {
    let suffix = name.strip_prefix(base);
    suffix.is_some_and(|it| it.len() == SUFFIX && it.bytes().all(|byte| ALPHABET.contains(&byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_as_the_server_would_have_chosen_it() {
        let rng = Rng::from_seed(1);
        for owner in ["web", &"a".repeat(57), &"a".repeat(58), &"a".repeat(253)] {
            let base = base(owner);
            assert!(format!("{owner}-").starts_with(&base));
            let name = name(&base, &rng);
            assert!(name.len() <= LONGEST, "{name}");
            let suffix = name.strip_prefix(&*base).expect("the base");
            assert_eq!(suffix.len(), SUFFIX);
            assert!(suffix.bytes().all(|it| ALPHABET.contains(&it)), "{name}");
            assert!(is_made_of(&base, &name));
        }
        assert_eq!(base("web"), "web-");
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
