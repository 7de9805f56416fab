//! Changes of valid inputs. Each function makes a few changes that the generator of a seed draws.
//!
//! - [`bytes`] knows no format, [`splice`] joins two inputs, [`json`] changes values, [`protobuf`] nests messages.
//! - [`tokens`] are texts and numbers at the limits of parsers.

pub mod json;
pub mod protobuf;
pub mod tokens;

use steersman_harness::draw::Draw;

/// The length of most changed ranges.
const RANGE: usize = 16;

/// Flips bits, and deletes, duplicates, moves and inserts bytes.
pub fn bytes(draw: &mut Draw, input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=draw.below(4) {
        edit(draw, &mut bytes);
    }
    bytes
}

/// Changes a text by [`bytes`]. Invalid UTF-8 becomes replacement characters.
pub fn text(draw: &mut Draw, input: &str) -> String {
    String::from_utf8_lossy(&bytes(draw, input.as_bytes())).into_owned()
}

/// Returns the begin of one input and the end of another one.
pub fn splice(draw: &mut Draw, begin: &[u8], end: &[u8]) -> Vec<u8> {
    let (until, from) = (draw.below(begin.len() + 1), draw.below(end.len() + 1));
    [&begin[..until], &end[from..]].concat()
}

fn edit(draw: &mut Draw, bytes: &mut Vec<u8>) {
    let at = draw.below(bytes.len() + 1);
    let rest = bytes.len() - at;
    let length = if draw.once_in(8) { rest } else { rest.min(RANGE) };
    let range = at..at + draw.below(length + 1);
    match draw.below(8) {
        0 if rest > 0 => bytes[at] ^= 1 << draw.below(8),
        1 => drop(bytes.drain(range)),
        2 => {
            let copies = if draw.once_in(16) { 1000 } else { 1 + draw.below(3) };
            let repeated = bytes[range].repeat(copies);
            bytes.splice(at..at, repeated);
        }
        3 => {
            let moved: Vec<u8> = bytes.drain(range).collect();
            let to = draw.below(bytes.len() + 1);
            bytes.splice(to..to, moved);
        }
        4 => bytes.truncate(at),
        5 => {
            let number = draw.one(&tokens::TOKENS.numbers).bytes();
            let digits = bytes[at..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            bytes.splice(at..at + digits, number);
        }
        6 => bytes.insert(at, *draw.one(b"\0\xff\x80\n\t\"'{}[]():,=!%&#*\\/ -.")),
        _ => {
            let token = tokens::text(draw);
            bytes.splice(range, token.into_bytes());
        }
    }
}
