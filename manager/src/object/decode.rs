//! Decoders of fields for projections: `#[serde(deserialize_with = "...")]`.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// Decodes `null`, which the API writes for empty lists and maps, as the default value.
pub fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Decodes an optional RFC 3339 timestamp.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom))
        .transpose()
}
