//! The `--controllers` flag: which controllers run.
//!
//! A list of names, each with or without a leading `-`, and `*` for all that are on by default. For one controller the
//! first item that names it decides, whatever follows; if none does, `*` decides. So `-a,a` switches `a` off, `a,-a` on,
//! `a` alone runs nothing else, and an empty list runs nothing. An alias stands for the name that it is an alias of.

use crate::error::Invalid;

/// A controller that this binary has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The name, as health checks, metrics and logs show it.
    pub name: &'static str,
    /// Short or former names that `--controllers` accepts too.
    pub aliases: &'static [&'static str],
    /// Whether `*` enables it.
    pub enabled_by_default: bool,
}

/// Which controllers are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Choice);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// Also what `*` leaves out.
    Everything,
    /// In the order in which they were given, aliases replaced.
    Items(Vec<Item>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Star,
    On(&'static str),
    Off(&'static str),
}

/// Whether a controller is asked for, and how: what was only swept in by `*` yields to another manager that already does
/// the same work; what was named does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enablement {
    /// Not asked for.
    No,
    /// Asked for with all others.
    ByStar,
    /// Asked for by its name.
    ByName,
}

impl Selector {
    /// Every controller, also those that are off by default.
    #[must_use]
    pub fn everything() -> Self {
        Self(Choice::Everything)
    }

    /// Reads the items of the list; the error has one entry for each that names no controller.
    pub fn parse<S: AsRef<str>>(items: &[S], known: &[Known]) -> Result<Self, Vec<Invalid>> {
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
                None => unknown.push(Invalid::UnknownController(name.to_owned())),
            }
        }
        if unknown.is_empty() {
            Ok(Self(Choice::Items(chosen)))
        } else {
            Err(unknown)
        }
    }

    /// Whether the controller of this name (not an alias) is asked for.
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

    const KNOWN: [Known; 3] = [
        Known {
            name: "replicaset-controller",
            aliases: &["replicaset"],
            enabled_by_default: true,
        },
        Known {
            name: "job-controller",
            aliases: &["job"],
            enabled_by_default: true,
        },
        Known {
            name: "hollow-kubelet",
            aliases: &[],
            enabled_by_default: false,
        },
    ];

    /// What each of the known controllers gets.
    fn chosen(items: &[&str]) -> [Enablement; 3] {
        let selector = Selector::parse(items, &KNOWN).expect("known names");
        KNOWN.map(|known| selector.enabled(known.name, known.enabled_by_default))
    }

    #[test]
    fn the_first_item_that_names_a_controller_decides() {
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
    fn an_empty_list_enables_nothing() {
        assert_eq!(chosen(&[]), [No, No, No]);
    }

    #[test]
    fn an_alias_stands_for_its_name() {
        assert_eq!(chosen(&["*", "-replicaset", "job"]), [No, ByName, No]);
        assert_eq!(chosen(&["-job", "job-controller"]), [No, No, No]);
    }

    #[test]
    fn everything_has_also_what_is_off_by_default() {
        let all = Selector::everything();
        assert_eq!(
            KNOWN.map(|known| all.enabled(known.name, known.enabled_by_default)),
            [ByStar; 3]
        );
    }

    #[test]
    fn every_unknown_name_is_told_without_its_dash() {
        let errors = Selector::parse(&["*", "-foo", "job", "", "-*", "--job", "Job"], &KNOWN)
            .expect_err("unknown names");
        let told: Vec<_> = errors.iter().map(ToString::to_string).collect();
        let expected = ["foo", "", "*", "-job", "Job"];
        let quoted = expected.map(|name| format!("\"{name}\" is not in the list of known controllers"));
        assert!(
            told.iter()
                .zip(&quoted)
                .all(|(told, quoted)| told.starts_with(quoted)),
            "{told:?}"
        );
        assert_eq!(told.len(), quoted.len());
    }
}
