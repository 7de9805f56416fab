//! Items of one priority: namespaces take turns, and items of one namespace are first in, first out.
//!
//! An item behind `n` items of its own namespace, while items of `m` namespaces are queued, is at latest the
//! `(n + 1) * m`-th to leave, however many items the other namespaces enqueue.

use std::sync::Arc;

use super::Item;
use super::linked_list::{List, Nodes};
use super::seeded_map::{Map, seeded_map};

/// The number of cached namespaces without items: the next item is often of one of them.
const MAX_EMPTY_NAMESPACES: usize = 128;

/// The queued items. The caller ensures that each is queued once.
#[derive(Debug)]
pub(super) struct FairQueue<K> {
    items: Nodes<Queued<K>>,
    namespaces: Nodes<Namespace>,
    /// The namespaces with items, in the order in which they take turns.
    rotation: List,
    /// The namespaces without items, in the order in which they became empty. At most [`MAX_EMPTY_NAMESPACES`].
    empty: List,
    /// The node of each namespace.
    by_name: Map<Arc<str>, usize>,
}

#[derive(Debug)]
struct Queued<K> {
    item: K,
    /// The node of its namespace.
    namespace: usize,
}

#[derive(Debug)]
struct Namespace {
    name: Arc<str>,
    items: List,
}

/// The position of a queued item, valid until the item leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position(usize);

impl<K: Item> FairQueue<K> {
    /// `seed` affects the memory layout only.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            items: Nodes::new(),
            namespaces: Nodes::new(),
            rotation: List::default(),
            empty: List::default(),
            by_name: seeded_map(seed),
        }
    }

    /// Appends an item to those of its namespace. A namespace that was empty takes its turn after all others.
    pub(super) fn push(&mut self, item: K) -> Position {
        let namespace = self.find(item.namespace());
        let items = &mut self.namespaces[namespace].items;
        let was_empty = items.is_empty();
        let position = self.items.push(items, Queued { item, namespace });
        if was_empty {
            self.namespaces
                .move_between(&mut self.empty, &mut self.rotation, namespace);
        }
        Position(position)
    }

    /// [`FairQueue::push`], but before the other items of its namespace. The turn of the namespace does not change.
    pub(super) fn push_first(&mut self, item: K) -> Position {
        let position = self.push(item);
        let namespace = self.items[position.0].namespace;
        let items = &mut self.namespaces[namespace].items;
        self.items.move_to_start(items, position.0);
        position
    }

    /// Removes the next item.
    pub(super) fn pop(&mut self) -> Option<K> {
        let namespace = self.rotation.first()?;
        let first = self.namespaces[namespace].items.first()?;
        let item = self.remove(Position(first));
        if !self.namespaces[namespace].items.is_empty() {
            self.namespaces.move_to_end(&mut self.rotation, namespace);
        }
        item
    }

    /// Removes any item. Its namespace keeps its turn if it has other items.
    pub(super) fn remove(&mut self, position: Position) -> Option<K> {
        let namespace = self.items[position.0].namespace;
        let items = &mut self.namespaces[namespace].items;
        let removed = self.items.remove(items, position.0);
        if items.is_empty() {
            self.namespaces
                .move_between(&mut self.rotation, &mut self.empty, namespace);
            if self.empty.len() > MAX_EMPTY_NAMESPACES
                && let Some(oldest) = self.empty.first()
                && let Some(forgotten) = self.namespaces.remove(&mut self.empty, oldest)
            {
                self.by_name.remove(&forgotten.name);
            }
        }
        removed.map(|queued| queued.item)
    }

    /// Returns the first item of each namespace.
    pub(super) fn firsts(&self) -> impl Iterator<Item = &K> {
        let namespaces = self.namespaces.iter(&self.rotation);
        let firsts = namespaces.filter_map(|namespace| namespace.items.first());
        firsts.map(|first| &self.items[first].item)
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the node of a namespace, which is created if needed.
    fn find(&mut self, name: &str) -> usize {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let name: Arc<str> = name.into();
        let namespace = Namespace {
            name: Arc::clone(&name),
            items: List::default(),
        };
        let node = self.namespaces.push(&mut self.empty, namespace);
        self.by_name.insert(name, node);
        node
    }
}
