//! Cache of the events written last: a repeated event increments the count of the existing one.

use super::lru::Lru;

/// The number of cached events. An event that was evicted is created again.
const CACHE_CAPACITY: usize = 1000;

/// Events by their key.
#[derive(Debug)]
pub(super) struct EventCache(Lru<Entry>);

#[derive(Debug)]
struct Entry {
    name: String,
    count: u64,
}

impl EventCache {
    pub(super) fn new() -> Self {
        Self(Lru::new(CACHE_CAPACITY))
    }

    /// Counts the event, if it is cached. Returns the name and the new count of the existing event.
    pub(super) fn increment(&mut self, key: &str) -> Option<(String, u64)> {
        let it = self.0.get(key)?;
        it.count += 1;
        Some((it.name.clone(), it.count))
    }

    pub(super) fn insert(&mut self, key: String, name: String) {
        self.0.insert(key, Entry { name, count: 1 });
    }

    pub(super) fn forget(&mut self, key: &str) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_event_is_counted() {
        let mut cache = EventCache::new();
        assert_eq!(cache.increment("a"), None);
        cache.insert("a".to_owned(), "n".to_owned());
        for count in 2..5 {
            assert_eq!(cache.increment("a"), Some(("n".to_owned(), count)));
        }
        cache.forget("a");
        assert_eq!(cache.increment("a"), None);
    }
}
