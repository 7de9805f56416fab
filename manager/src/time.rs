//! Timestamps as the API writes them: whole seconds, UTC.
//!
//! ```
//! use steersman_manager::time::{rfc3339, whole_seconds};
//!
//! let now: jiff::Timestamp = "2026-02-03T04:05:06.789Z".parse()?;
//! assert_eq!(rfc3339(now), "2026-02-03T04:05:06Z");
//! assert_eq!(whole_seconds(now), "2026-02-03T04:05:06Z".parse()?);
//! # Ok::<_, jiff::Error>(())
//! ```

use jiff::Timestamp;

/// Truncates a timestamp to whole seconds, the precision of the API.
#[must_use]
pub fn whole_seconds(at: Timestamp) -> Timestamp {
    // Never fails: the second of a timestamp is in range.
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// Formats a timestamp as in an object.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    whole_seconds(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fraction_is_truncated() {
        let at: Timestamp = "2026-02-03T04:05:06.999999999Z".parse().expect("a time");
        assert_eq!(rfc3339(at), "2026-02-03T04:05:06Z");
    }
}
