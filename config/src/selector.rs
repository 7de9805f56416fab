//! The `--controllers` flag.
//!
//! A list of names, each with an optional leading `-`, and `*` for all controllers that are enabled by default. The first
//! item that names a controller decides; without one, `*` decides. So `-a,a` disables `a`, `a,-a` enables it, `a` alone
//! enables nothing else, and an empty list enables nothing. An alias is equivalent to its name.

/// A controller that `--controllers` accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownController {
    /// The name in health checks, metrics and logs.
    pub name: &'static str,
    /// Short or former names that `--controllers` accepts too.
    pub aliases: &'static [&'static str],
    /// Whether `*` enables it.
    pub enabled_by_default: bool,
}

/// The caller's part of the validation.
#[derive(Clone, Debug)]
pub struct Known {
    /// The controllers that `--controllers` accepts.
    pub controllers: Vec<KnownController>,
    /// Returns whether a text is a well-formed image reference.
    pub is_image: fn(&str) -> bool,
}

/// The parsed value of `--controllers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Choice);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// All controllers, including those that are off by default.
    Everything,
    /// In the given order, with aliases resolved.
    Items(Vec<Item>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Star,
    On(&'static str),
    Off(&'static str),
}

/// Whether a controller is enabled, and by which item. A controller enabled by `*` may yield to kube-controller-manager; one
/// enabled by name does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enablement {
    /// Disabled.
    No,
    /// Enabled by `*`.
    ByStar,
    /// Enabled by its name or an alias.
    ByName,
}

impl Selector {
    /// Selects every controller, including those that are off by default.
    #[must_use]
    pub fn everything() -> Self {
        Self(Choice::Everything)
    }

    /// Parses the items of the list. The error has the unknown names.
    pub fn parse<S: AsRef<str>>(items: &[S], known: &[KnownController]) -> Result<Self, Vec<String>> {
        let (mut chosen, mut unknown) = (Vec::new(), Vec::new());
        for item in items.iter().map(AsRef::as_ref) {
            let (off, name) = match item.strip_prefix('-') {
                Some(name) => (true, name),
                None => (false, item),
            };
            let found = known
                .iter()
                .find(|known| known.name == name || known.aliases.contains(&name));
            match found {
                _ if item == "*" => chosen.push(Item::Star),
                Some(found) if off => chosen.push(Item::Off(found.name)),
                Some(found) => chosen.push(Item::On(found.name)),
                None => unknown.push(name.to_owned()),
            }
        }
        if unknown.is_empty() {
            Ok(Self(Choice::Items(chosen)))
        } else {
            Err(unknown)
        }
    }

    /// Returns whether the controller of this name, not an alias, is enabled.
    #[must_use]
    pub fn enabled(&self, name: &str, enabled_by_default: bool) -> Enablement {
        let items = match &self.0 {
            Choice::Everything => return Enablement::ByStar,
            Choice::Items(items) => items,
        };
        let named = items.iter().find_map(|item| match item {
            Item::On(on) if *on == name => Some(Enablement::ByName),
            Item::Off(off) if *off == name => Some(Enablement::No),
            _ => None,
        });
        let by_star = enabled_by_default && items.contains(&Item::Star);
        named.unwrap_or(if by_star {
            Enablement::ByStar
        } else {
            Enablement::No
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Enablement::{ByName, ByStar, No};
    use super::*;

    const KNOWN: [KnownController; 3] = [
        KnownController {
            name: "replicaset-controller",
            aliases: &["replicaset"],
            enabled_by_default: true,
        },
        KnownController {
            name: "job-controller",
            aliases: &["job"],
            enabled_by_default: true,
        },
        KnownController {
            name: "hollow-kubelet",
            aliases: &[],
            enabled_by_default: false,
        },
    ];

    fn chosen(items: &[&str]) -> [Enablement; 3] {
        let selector = Selector::parse(items, &KNOWN).expect("known names");
        KNOWN.map(|known| selector.enabled(known.name, known.enabled_by_default))
    }

    #[test]
    fn first_item_that_names_a_controller_decides() {
        assert_eq!(chosen(&["*"]), [ByStar, ByStar, No]);
        assert_eq!(chosen(&["job-controller"]), [No, ByName, No]);
        assert_eq!(chosen(&["*", "job-controller"]), [ByStar, ByName, No]);
        assert_eq!(chosen(&["*", "-job-controller"]), [ByStar, No, No]);
        assert_eq!(chosen(&["-job-controller", "*"]), [ByStar, No, No]);
        assert_eq!(
            chosen(&["-job-controller", "job-controller", "*"]),
            [ByStar, No, No]
        );
        assert_eq!(chosen(&["job-controller", "-job-controller"]), [No, ByName, No]);
        assert_eq!(chosen(&["*", "hollow-kubelet"]), [ByStar, ByStar, ByName]);
        assert_eq!(chosen(&["-job-controller"]), [No, No, No]);
        assert_eq!(chosen(&["*", "*"]), [ByStar, ByStar, No]);
    }

    #[test]
    fn empty_list_enables_nothing() {
        assert_eq!(chosen(&[]), [No, No, No]);
    }

    #[test]
    fn alias_is_equivalent_to_its_name() {
        assert_eq!(chosen(&["*", "-replicaset", "job"]), [No, ByName, No]);
        assert_eq!(chosen(&["-job", "job-controller"]), [No, No, No]);
    }

    #[test]
    fn everything_includes_controllers_off_by_default() {
        let all = Selector::everything();
        assert_eq!(
            KNOWN.map(|known| all.enabled(known.name, known.enabled_by_default)),
            [ByStar; 3]
        );
    }

    #[test]
    fn every_unknown_name_is_reported_without_its_dash() {
        let unknown = Selector::parse(&["*", "-foo", "job", "", "-*", "--job", "Job"], &KNOWN);
        assert_eq!(
            unknown,
            Err(["foo", "", "*", "-job", "Job"].map(str::to_owned).to_vec())
        );
    }
}
