//! `/flagz`: every flag with its effective value; see `structured` for the formats.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, json};

use super::endpoints::Endpoints;
use super::structured;

impl Endpoints {
    /// Adds `/flagz`. `flags` returns the effective values, which may change at run time.
    #[must_use]
    pub fn with_flagz(
        self,
        component: &'static str,
        flags: impl Fn() -> BTreeMap<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.mount("/flagz", move |request| {
            let fields = || Map::from_iter([("flags".to_owned(), json!(flags()))]);
            let plain = || plain(component, &flags());
            std::future::ready(structured::respond(
                request.headers(),
                "Flagz",
                component,
                fields,
                plain,
            ))
        })
    }
}

fn plain(component: &str, flags: &BTreeMap<String, String>) -> String {
    let mut lines = structured::title(component, "flagz");
    for (name, value) in flags {
        // A line per flag: a value cannot forge another one.
        let value = value.replace(['\r', '\n'], " ");
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{name}={value}");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_one_line_per_flag() {
        let flags = [("v", "2"), ("controllers", "*\nv=9")];
        let flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let text = plain("boatyard", &BTreeMap::from(flags));
        assert!(text.starts_with("\nboatyard flagz\nWarning: "), "{text}");
        assert!(text.ends_with("\ncontrollers=* v=9\nv=2\n"), "{text}");
    }
}
