//! How projections read what the API writes: `#[serde(deserialize_with = "...")]`.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// `null` is nothing: the API writes it for empty lists and maps.
pub fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A time, or none.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom))
        .transpose()
}
