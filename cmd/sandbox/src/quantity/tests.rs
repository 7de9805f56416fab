use proptest::prelude::*;
use serde_json::json;

use super::{NoQuantity, Quantity, SUFFIX};

fn canonical(text: &str) -> Result<String, NoQuantity> {
    Quantity::parse(text).map(Quantity::text)
}

#[test]
fn quantities_take_their_canonical_form() {
    let cases = [
        ("1.5", "1500m"),
        ("0", "0"),
        ("0.5", "500m"),
        ("1000", "1k"),
        ("1024Mi", "1Gi"),
        ("1500Mi", "1500Mi"),
        ("512", "512"),
        ("100n", "100n"),
        ("-2k", "-2k"),
        (".5", "500m"),
        ("0.0000000001", "1n"),
        ("1e-2147483648", "1e-9"),
        ("0.5Gi", "512Mi"),
        ("1000m", "1"),
        ("1e3", "1e3"),
        ("1024Ki", "1Mi"),
        ("1000k", "1M"),
        ("0.1m", "100u"),
        ("-1.5", "-1500m"),
        ("1E", "1E"),
        ("12E2", "1200"),
        ("100000000000000000000", "100E"),
        ("+.5k", "500"),
        ("100u", "100u"),
        ("1500m", "1500m"),
        ("0.5Ki", "512"),
        ("0.9765625Ki", "1k"),
        ("1.0001Ki", "1024102400u"),
        ("1e-3", "1e-3"),
        ("0.1n", "1n"),
        ("1000000Gi", "1000000Gi"),
        ("1024", "1024"),
        ("1025Ki", "1025Ki"),
        ("0.001Ki", "1024m"),
        ("1.5Gi", "1536Mi"),
        ("1.5e3", "1500"),
        ("12e5", "1200e3"),
        ("1000Mi", "1000Mi"),
        ("9223372036854775808", "9223372036854775808"),
        ("16Ei", "9223372036854775807"),
        ("1e-10", "1e-9"),
        ("0.000000001Ki", "1024n"),
        ("1e21", "1e21"),
        ("1.123456789012Ei", "1295257491548492069126602228n"),
        ("10e-1", "1"),
        ("1000000000n", "1"),
        ("1001n", "1001n"),
        ("0Ki", "0"),
        ("-0", "0"),
        ("0e5", "0"),
        ("2048", "2048"),
        ("1e-1000000000", "1e-9"),
    ];
    for (from, to) in cases {
        assert_eq!(canonical(from).as_deref(), Ok(to), "{from}");
        assert_eq!(canonical(to).as_deref(), Ok(to), "{from} twice");
    }
    assert_eq!(
        Quantity::read(&json!(10)).map(Quantity::text).as_deref(),
        Some("10")
    );
    assert_eq!(
        Quantity::read(&json!(0.5)).map(Quantity::text).as_deref(),
        Some("500m")
    );
}

#[test]
fn invalid_quantity_is_rejected() {
    for wrong in [
        "", "x", "m", "1 ", "1 Gi", "1Q", "1.2.3", "abc", "1Gib", "--1", "1e5x",
    ] {
        assert!(
            canonical(wrong).is_err_and(|error| error.to_string().contains("regular expression")),
            "{wrong}"
        );
    }
    for wrong in ["1i", "1ki", "1Kin", "1e", "1Ki5", "1e99999999999"] {
        assert_eq!(canonical(wrong), Err(SUFFIX), "{wrong}");
    }
    for large in [
        "1e30",
        "1e99",
        "1e2147483647",
        "999999999999999999999999999999999999999999",
    ] {
        assert_eq!(canonical(large), Err(NoQuantity::TooLarge), "{large}");
        assert!(Quantity::read(&json!(large)).is_none(), "{large}");
    }
    assert!(Quantity::read(&json!(true)).is_none());
}

#[test]
fn quantities_compare_across_formats() {
    let read = |text: &str| Quantity::read(&json!(text)).expect("a quantity");
    assert!(read("1Gi").exceeds(read("1G")));
    assert!(read("1000m").equals(read("1")));
    assert!(read("2").is_whole() && !read("1500m").is_whole());
    assert!(read("-1").is_negative() && read("1n").is_positive());
    assert_eq!(read("1u").round_to_milli().text(), "1m");
}

proptest! {
    #[test]
    fn the_canonical_form_is_its_own(text in "[+-]?[0-9.]{0,5}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,12}") {
        if let Ok(shown) = canonical(&text) {
            prop_assert_eq!(canonical(&shown), Ok(shown));
        }
    }
}
