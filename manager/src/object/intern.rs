//! String interning.

use std::collections::BTreeSet;

use super::Text;

/// The interned strings of one cache.
#[derive(Debug, Default)]
pub struct Interner {
    known: BTreeSet<Text>,
    /// The number of strings after the last sweep. The next sweep is due at twice that number.
    after_sweep: usize,
}

/// The number of strings below which no sweep is due.
const SWEEP_MIN: usize = 1024;

impl Interner {
    /// Replaces `text` with the interned copy of the same string, or adds it.
    pub fn intern(&mut self, text: &mut Text) {
        if let Some(known) = self.known.get(text) {
            *text = known.clone();
            return;
        }
        if self.known.len() >= SWEEP_MIN.max(2 * self.after_sweep) {
            self.known.retain(Text::is_shared);
            self.after_sweep = self.known.len();
        }
        self.known.insert(text.clone());
    }

    /// Returns the number of interned strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    #[expect(missing_docs, reason = "as of a collection")]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_one_copy() {
        let mut interner = Interner::default();
        let (mut a, mut b) = (Text::from("app"), Text::from("app"));
        interner.intern(&mut a);
        interner.intern(&mut b);
        assert!(a.shares(&b));
    }

    #[test]
    fn unused_strings_are_swept() {
        let mut interner = Interner::default();
        let mut kept = Text::from("kept");
        interner.intern(&mut kept);
        for i in 0..10 * SWEEP_MIN {
            interner.intern(&mut Text::from(i.to_string()));
        }
        assert!(interner.len() <= SWEEP_MIN, "{}", interner.len());
        let mut again = Text::from("kept");
        interner.intern(&mut again);
        assert!(again.shares(&kept));
    }
}
