//! A map that forgets what was used longest ago: there is no end to the objects that events are about.

use std::collections::BTreeMap;

/// Up to so many values by key.
#[derive(Debug)]
pub(super) struct Recent<V> {
    /// Each with the number of its last use, by which it is in `order`.
    values: BTreeMap<String, (u64, V)>,
    order: BTreeMap<u64, String>,
    most: usize,
    uses: u64,
}

impl<V> Recent<V> {
    pub(super) fn of(most: usize) -> Self {
        Self {
            values: BTreeMap::new(),
            order: BTreeMap::new(),
            most,
            uses: 0,
        }
    }

    pub(super) fn get(&mut self, key: &str) -> Option<&mut V> {
        let (used, value) = self.values.get_mut(key)?;
        self.uses += 1;
        if let Some(key) = self.order.remove(used) {
            self.order.insert(self.uses, key);
        }
        *used = self.uses;
        Some(value)
    }

    pub(super) fn insert(&mut self, key: String, value: V) {
        self.remove(&key);
        if self.values.len() >= self.most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.values.remove(&oldest);
        }
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        self.values.insert(key, (self.uses, value));
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Some((used, _)) = self.values.remove(key) {
            self.order.remove(&used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_there() {
        let mut recent = Recent::of(10);
        recent.insert("a".to_owned(), 0);
        for i in 1..100 {
            recent.insert(i.to_string(), i);
            recent.insert(i.to_string(), i);
            assert_eq!(recent.get("a"), Some(&mut 0));
            assert_eq!(recent.values.len(), recent.order.len());
        }
        assert_eq!(recent.values.len(), 10);
        assert_eq!(recent.get("90"), None);
        assert_eq!(recent.get("91"), Some(&mut 91));
        recent.remove("a");
        assert_eq!(recent.get("a"), None);
        assert_eq!((recent.values.len(), recent.order.len()), (9, 9));
    }
}
