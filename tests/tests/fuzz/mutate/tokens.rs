//! Texts and numbers at the limits of parsers.

use std::sync::LazyLock;

use serde::Deserialize;
use steersman_harness::draw::Draw;

#[derive(Deserialize)]
pub struct Tokens {
    /// Numbers as JSON writes them.
    pub numbers: Vec<String>,
    /// Strings as JSON writes them, with escapes of surrogates that no string has.
    pub escaped: Vec<String>,
    /// Names of members with a meaning in patches and in all objects.
    pub names: Vec<String>,
    texts: Vec<String>,
    repeated: Vec<String>,
}

pub static TOKENS: LazyLock<Tokens> =
    LazyLock::new(|| serde_json::from_str(include_str!("tokens.json")).expect("tokens"));

/// Returns one of the texts, or a long one.
pub fn text(draw: &mut Draw) -> String {
    match draw.below(16) {
        0 => draw
            .one(&TOKENS.repeated)
            .repeat(*draw.one(&[63, 64, 254, 2000, 30_000])),
        1 | 2 => draw.one(&TOKENS.numbers).clone(),
        _ => draw.one(&TOKENS.texts).clone(),
    }
}
