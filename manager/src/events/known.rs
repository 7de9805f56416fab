//! The events that were written last: one that comes again is counted on what is there, and not written anew.

use super::recent::Recent;

/// How many are known. One that was forgotten in between is written anew.
const KNOWN: usize = 1000;

/// Events by what makes them equal.
#[derive(Debug)]
pub(super) struct Known(Recent<Written>);

#[derive(Debug)]
struct Written {
    name: String,
    count: u64,
}

impl Known {
    pub(super) fn new() -> Self {
        Self(Recent::of(KNOWN))
    }

    /// An event like this one was written under this name; this one makes it so many.
    pub(super) fn again(&mut self, same: &str) -> Option<(String, u64)> {
        let it = self.0.get(same)?;
        it.count += 1;
        Some((it.name.clone(), it.count))
    }

    /// The first of its like was written.
    pub(super) fn first(&mut self, same: String, name: String) {
        self.0.insert(same, Written { name, count: 1 });
    }

    /// It is not there any more.
    pub(super) fn forget(&mut self, same: &str) {
        self.0.remove(same);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_counted() {
        let mut known = Known::new();
        assert_eq!(known.again("a"), None);
        known.first("a".to_owned(), "n".to_owned());
        for count in 2..5 {
            assert_eq!(known.again("a"), Some(("n".to_owned(), count)));
        }
        known.forget("a");
        assert_eq!(known.again("a"), None);
    }
}
