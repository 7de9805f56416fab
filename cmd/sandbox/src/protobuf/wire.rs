//! The protobuf wire format: a sequence of numbered fields.

use super::{ProtobufError, Result};

/// The content of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// A variable-length or fixed-size number.
    Integer(u64),
    /// A string, bytes, or a message.
    Bytes(&'a [u8]),
}

impl<'a> Content<'a> {
    pub fn integer(self) -> Result<i64> {
        match self {
            // Negative numbers are encoded in two's complement.
            Self::Integer(n) => Ok(n.cast_signed()),
            Self::Bytes(_) => Err(ProtobufError::Malformed(
                "there are bytes where a number is expected",
            )),
        }
    }

    pub fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Integer(_) => Err(ProtobufError::Malformed(
                "there is a number where bytes are expected",
            )),
        }
    }
}

/// Returns the fields of a message in order. Ends after the first error.
pub(super) fn fields(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u32, Content<'_>)>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let field = field(&mut bytes);
        if field.is_err() {
            bytes = &[];
        }
        Some(field)
    })
}

fn field<'a>(bytes: &mut &'a [u8]) -> Result<(u32, Content<'a>)> {
    let tag = varint(bytes)?;
    let number =
        u32::try_from(tag >> 3).map_err(|_| ProtobufError::Malformed("a field's number is too large"))?;
    let content = match tag & 7 {
        0 => Content::Integer(varint(bytes)?),
        1 => Content::Integer(u64::from_le_bytes(fixed(bytes)?)),
        2 => {
            let length = usize::try_from(varint(bytes)?).unwrap_or(usize::MAX);
            Content::Bytes(take(bytes, length)?)
        }
        5 => Content::Integer(u32::from_le_bytes(fixed(bytes)?).into()),
        _ => return Err(ProtobufError::Malformed("a field has an unknown wire type")),
    };
    Ok((number, content))
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = fixed(bytes)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(ProtobufError::Malformed("a number does not end"))
}

fn fixed<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let taken = take(bytes, N)?;
    taken
        .try_into()
        .map_err(|_| ProtobufError::Malformed("unexpected EOF"))
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8]> {
    let (taken, rest) = bytes
        .split_at_checked(length)
        .ok_or(ProtobufError::Malformed("unexpected EOF"))?;
    *bytes = rest;
    Ok(taken)
}
