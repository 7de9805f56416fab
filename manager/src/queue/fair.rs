//! Items of one priority: namespaces take turns, and items of one namespace leave in the order of arrival.
//!
//! An item that `n` items of its own namespace precede, while items of `m` namespaces are queued, is the
//! `(n + 1) * m`-th to leave at the latest, however many items the other namespaces enqueue.

use super::Item;
use super::list::{List, Nodes};
use super::map::{self, Map};

/// The queued items. The caller makes sure that each is queued once.
#[derive(Debug)]
pub(super) struct FairQueue<K> {
    items: Nodes<Queued<K>>,
    /// The items of each namespace that has any.
    namespaces: Nodes<List>,
    /// The order in which namespaces are served; holds exactly `namespaces`.
    rotation: List,
    /// The node of each namespace.
    by_name: Map<Box<str>, usize>,
}

#[derive(Debug)]
struct Queued<K> {
    item: K,
    /// The node of its namespace.
    namespace: usize,
}

/// The position of a queued item, valid until the item leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position(usize);

impl<K: Item> FairQueue<K> {
    /// `seed` decides the memory layout only.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            items: Nodes::new(),
            namespaces: Nodes::new(),
            rotation: List::default(),
            by_name: map::seeded(seed),
        }
    }

    /// Appends an item to those of its namespace. A namespace that had none is served after all others.
    pub(super) fn push(&mut self, item: K) -> Position {
        let name = item.namespace();
        let namespace = if let Some(known) = self.by_name.get(name) {
            *known
        } else {
            let new = self.namespaces.push(&mut self.rotation, List::default());
            self.by_name.insert(name.into(), new);
            new
        };
        let mut list = self.list(namespace);
        let position = self.items.push(&mut list, Queued { item, namespace });
        self.set_list(namespace, list);
        Position(position)
    }

    /// Removes the next item.
    pub(super) fn pop(&mut self) -> Option<K> {
        let namespace = self.rotation.first()?;
        let item = self.remove(Position(self.list(namespace).first()?));
        if self.list(namespace).first().is_some() {
            self.namespaces.move_to_end(&mut self.rotation, namespace);
        }
        item
    }

    /// Removes an item from anywhere. Its namespace keeps its turn if it has other items.
    pub(super) fn remove(&mut self, position: Position) -> Option<K> {
        let namespace = self.items.get(position.0)?.namespace;
        let mut list = self.list(namespace);
        let item = self.items.remove(&mut list, position.0)?.item;
        self.set_list(namespace, list);
        if list.first().is_none() {
            self.namespaces.remove(&mut self.rotation, namespace);
            self.by_name.remove(item.namespace());
        }
        Some(item)
    }

    /// The next item.
    pub(super) fn first(&self) -> Option<&K> {
        let first = self.list(self.rotation.first()?).first()?;
        self.items.get(first).map(|queued| &queued.item)
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    fn list(&self, namespace: usize) -> List {
        self.namespaces.get(namespace).copied().unwrap_or_default()
    }

    fn set_list(&mut self, namespace: usize, list: List) {
        if let Some(known) = self.namespaces.get_mut(namespace) {
            *known = list;
        }
    }
}
