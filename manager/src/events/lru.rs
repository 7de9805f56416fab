//! Map that evicts the least recently used entry.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Lru<V> {
    /// Each with the number of its last use, which is its key in `order`.
    values: BTreeMap<String, (u64, V)>,
    order: BTreeMap<u64, String>,
    capacity: usize,
    uses: u64,
}

impl<V> Lru<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            values: BTreeMap::new(),
            order: BTreeMap::new(),
            capacity,
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
        if self.values.len() >= self.capacity
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
    fn least_recently_used_entry_is_evicted() {
        let mut lru = Lru::new(10);
        lru.insert("a".to_owned(), 0);
        for i in 1..100 {
            lru.insert(i.to_string(), i);
            lru.insert(i.to_string(), i);
            assert_eq!(lru.get("a"), Some(&mut 0));
            assert_eq!(lru.values.len(), lru.order.len());
        }
        assert_eq!(lru.values.len(), 10);
        assert_eq!(lru.get("90"), None);
        assert_eq!(lru.get("91"), Some(&mut 91));
        lru.remove("a");
        assert_eq!(lru.get("a"), None);
        assert_eq!((lru.values.len(), lru.order.len()), (9, 9));
    }
}
