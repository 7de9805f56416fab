//! Messages of the Kubernetes protobuf encoding, and changes of them.

use steersman_harness::draw::Draw;

use super::bytes;

/// Depths of nested messages, up to one that overflows any stack.
const DEPTHS: [usize; 4] = [2, 100, 1000, 100_000];

/// Encodes a length-delimited field.
pub fn part(number: usize, content: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2), &varint(content.len()), content].concat()
}

/// Encodes the body of a request.
pub fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let meta = [part(1, api_version.as_bytes()), part(2, kind.as_bytes())].concat();
    [&b"k8s\0"[..], &part(1, &meta), &part(2, object)].concat()
}

/// Nests a message in the field with this number of a message of the same type.
pub fn nest(draw: &mut Draw, number: usize, content: &[u8]) -> Vec<u8> {
    let depth = *draw.one(&DEPTHS);
    // The headers are collected from the inside: copying the content at each level would be quadratic.
    let (mut headers, mut length) = (Vec::with_capacity(depth), content.len());
    for _ in 0..depth {
        let header = [varint(number << 3 | 2), varint(length)].concat();
        length += header.len();
        headers.push(header);
    }
    let headers = headers.into_iter().rev().flatten();
    headers.chain(content.iter().copied()).collect()
}

/// Changes the bytes of an object, and encodes the body around it, so that the lengths of the envelope fit.
pub fn mutate(draw: &mut Draw, api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let object = bytes(draw, object);
    let body = body(api_version, kind, &object);
    if draw.once_in(4) { bytes(draw, &body) } else { body }
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap_or_default());
    bytes
}
