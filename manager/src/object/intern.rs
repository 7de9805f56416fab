//! Strings that many objects have in common, kept once.

use std::collections::BTreeSet;

use super::Text;

/// The strings of one cache. It is owned by that cache: nothing is shared between managers.
#[derive(Debug, Default)]
pub struct Interner {
    known: BTreeSet<Text>,
    /// How many were known after the last sweep: the next one comes when there are twice as many.
    after_sweep: usize,
}

/// Fewer strings than this are not worth a sweep.
const SMALL: usize = 1024;

impl Interner {
    /// Replaces `text` by the copy that is known, or makes it known.
    pub fn intern(&mut self, text: &mut Text) {
        if let Some(known) = self.known.get(text) {
            *text = known.clone();
            return;
        }
        if self.known.len() >= SMALL.max(2 * self.after_sweep) {
            self.known.retain(Text::is_shared);
            self.after_sweep = self.known.len();
        }
        self.known.insert(text.clone());
    }

    /// How many strings are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_become_one() {
        let mut interner = Interner::default();
        let (mut a, mut b) = (Text::from("app"), Text::from("app"));
        interner.intern(&mut a);
        interner.intern(&mut b);
        assert!(a.shares(&b));
    }

    #[test]
    fn what_nobody_uses_any_more_is_swept() {
        let mut interner = Interner::default();
        let mut kept = Text::from("kept");
        interner.intern(&mut kept);
        for i in 0..10 * SMALL {
            interner.intern(&mut Text::from(i.to_string()));
        }
        assert!(interner.len() <= SMALL, "{}", interner.len());
        let mut again = Text::from("kept");
        interner.intern(&mut again);
        assert!(again.shares(&kept));
    }
}
