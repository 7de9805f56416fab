//! The events that were written last: one that comes again is counted on what is there, and not written anew.

use std::collections::BTreeMap;

/// How many are known. One that was forgotten in between is written anew.
const KNOWN: usize = 1000;

/// Events by what makes them equal.
#[derive(Debug, Default)]
pub(super) struct Known {
    written: BTreeMap<String, Written>,
    /// Grows with every use, to tell what was used last.
    used: u64,
}

#[derive(Debug)]
struct Written {
    name: String,
    count: u64,
    used: u64,
}

impl Known {
    /// An event like this one was written under this name; this one makes it so many.
    pub(super) fn again(&mut self, same: &str) -> Option<(String, u64)> {
        self.used += 1;
        let it = self.written.get_mut(same)?;
        it.count += 1;
        it.used = self.used;
        Some((it.name.clone(), it.count))
    }

    /// The first of its like was written.
    pub(super) fn first(&mut self, same: String, name: String) {
        let oldest = self.written.iter().min_by_key(|(_, it)| it.used);
        let oldest = oldest.map(|(same, _)| same.clone());
        if let Some(oldest) = oldest.filter(|_| self.written.len() >= KNOWN) {
            self.written.remove(&oldest);
        }
        self.used += 1;
        let (count, used) = (1, self.used);
        self.written.insert(same, Written { name, count, used });
    }

    /// It is not there any more.
    pub(super) fn forget(&mut self, same: &str) {
        self.written.remove(same);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_used_last_are_known() {
        let mut known = Known::default();
        known.first("a".to_owned(), "n".to_owned());
        for i in 0..3 * KNOWN {
            known.first(i.to_string(), "n".to_owned());
            assert_eq!(known.again("a"), Some(("n".to_owned(), i as u64 + 2)));
        }
        assert_eq!(known.written.len(), KNOWN);
        assert_eq!(known.again("0"), None);
        assert!(known.again(&(3 * KNOWN - 1).to_string()).is_some());
        known.forget("a");
        assert_eq!(known.again("a"), None);
    }
}
