use proptest::prelude::*;

use super::{NoQuantity, Quantity};
use crate::json::json;

fn canonical(text: &str) -> Result<String, NoQuantity> {
    Quantity::parse(text).map(Quantity::text)
}

/// Scenarios cover other quantities. A real server needs minutes for these.
#[test]
fn extreme_exponents_are_rounded_or_too_large() {
    for small in ["1e-2147483648", "1e-1000000000"] {
        assert_eq!(canonical(small).as_deref(), Ok("1e-9"), "{small}");
    }
    for large in [
        "1e30",
        "1e2147483647",
        "999999999999999999999999999999999999999999",
    ] {
        assert_eq!(canonical(large), Err(NoQuantity::TooLarge), "{large}");
        assert!(Quantity::read(&json!(large)).is_none(), "{large}");
    }
    assert_eq!(canonical("-1.5").as_deref(), Ok("-1500m"));
}

proptest! {
    #[test]
    fn the_canonical_form_is_its_own(text in "[+-]?[0-9.]{0,5}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,12}") {
        if let Ok(shown) = canonical(&text) {
            prop_assert_eq!(canonical(&shown), Ok(shown));
        }
    }
}
