//! Decoders of fields for projections: `#[serde(deserialize_with = "...")]`.
//!
//! ```
//! use steersman_manager::object::decode;
//!
//! #[derive(serde::Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct PodStatus {
//!     #[serde(deserialize_with = "decode::time")]
//!     start_time: Option<jiff::Timestamp>,
//!     #[serde(default, deserialize_with = "decode::null_is_default")]
//!     conditions: Vec<steersman_manager::conditions::Condition>,
//! }
//!
//! let status: PodStatus = serde_json::from_str(r#"{"startTime": "2026-01-01T00:00:00Z", "conditions": null}"#)?;
//! assert!(status.start_time.is_some() && status.conditions.is_empty());
//! # Ok::<_, serde_json::Error>(())
//! ```

use std::borrow::Cow;
use std::sync::Arc;

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

/// Decodes a list, or `null` as an empty one, which allocates nothing.
pub fn shared_list<'de, D, T>(deserializer: D) -> Result<Arc<[T]>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let list = Option::<Vec<T>>::deserialize(deserializer)?.filter(|list| !list.is_empty());
    Ok(list.map_or_else(Arc::default, Arc::from))
}

/// Decodes an optional RFC 3339 timestamp.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom))
        .transpose()
}
