//! Times as the API writes them: whole seconds, UTC.

use jiff::Timestamp;

/// The time without its fraction, which the API does not keep.
#[must_use]
pub fn whole_seconds(at: Timestamp) -> Timestamp {
    // A second of a timestamp is a timestamp.
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// The time as it stands in an object.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    whole_seconds(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fraction_is_cut_off() {
        let at: Timestamp = "2026-02-03T04:05:06.999999999Z".parse().expect("a time");
        assert_eq!(rfc3339(at), "2026-02-03T04:05:06Z");
    }
}
