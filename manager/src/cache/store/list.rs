//! Lists: a complete list replaces the content of a partition in one step.
//!
//! A list in progress holds only the items that differ from the store. An item with the uid and resourceVersion of the
//! stored state is neither decoded nor held: its entry is marked with the number of the list.

use super::entry::{Entry, Readable, State};
use super::{Delta, Order, Partition, Stale, Store, reject_older};
use crate::cache::wire::{Item, ItemIdentity};
use crate::object::{Key, Object, Version};

/// A list in progress.
#[derive(Debug)]
pub(in crate::cache) struct StagedList<T> {
    partition: Partition,
    /// The resourceVersion of the first page: the watch shows later changes.
    version: Version,
    order: Order,
    /// Marks the entries that the list includes. The next number marks those that it changes.
    number: u32,
    changed: Vec<Readable<T>>,
    /// The number of those on complete pages.
    complete_pages: usize,
    /// Every item was identified.
    complete: bool,
    /// The same of the complete pages.
    complete_before: bool,
}

impl<T> StagedList<T> {
    pub(in crate::cache) fn partition(&self) -> Partition {
        self.partition
    }

    /// Completes a page.
    pub(in crate::cache) fn end_page(&mut self) {
        self.complete_pages = self.changed.len();
        self.complete_before = self.complete;
    }

    /// Removes the items of the page in progress. The same page is requested again, so that their marks remain right.
    pub(in crate::cache) fn drop_page(&mut self) {
        self.changed.truncate(self.complete_pages);
        self.complete = self.complete_before;
    }
}

impl<T: Object> Store<T> {
    /// Begins a list with this resourceVersion. `restored` if the storage was restored from a backup: then earlier versions
    /// are not comparable, and every item counts as changed.
    pub(in crate::cache) fn begin_list(
        &mut self,
        partition: Partition,
        version: Version,
        restored: bool,
    ) -> Result<StagedList<T>, Stale> {
        let order = if restored { Order::Any } else { Order::Forward };
        if order == Order::Forward {
            reject_older(&self.partition(partition).version, &version)?;
        }
        self.lists = self.lists.wrapping_add(2);
        // A list without a resourceVersion may be older than the store.
        let complete = !version.is_none();
        Ok(StagedList {
            partition,
            order,
            number: self.lists,
            changed: Vec::new(),
            complete_pages: 0,
            complete,
            complete_before: complete,
            version,
        })
    }

    /// Returns true if an item is stored as it is listed, so that it need not be decoded and staged.
    pub(in crate::cache) fn is_unchanged(&mut self, list: &StagedList<T>, item: &ItemIdentity<'_>) -> bool {
        let Some(entry) = self.entries.get_mut(&item.namespace, &item.name) else {
            return false;
        };
        let again = entry.list == list.number;
        entry.list = list.number;
        // Pages may contradict each other: then the last item of a name wins.
        list.order == Order::Forward
            && !again
            && matches!(entry.state, State::Decoded(_))
            && *entry.state.uid() == item.uid
            && *entry.state.version() == item.version
            && !item.version.is_none()
    }

    /// Adds an item that differs from the store.
    pub(in crate::cache) fn stage(&mut self, list: &mut StagedList<T>, item: Item<T>) {
        match self.admit(item) {
            Some(item) => list.changed.push(item),
            None => list.complete = false,
        }
    }

    /// Replaces the content of the partition by a list. Deletes come first, then the changes in the order of the list. Returns
    /// none if it is the first list, so that every object is new.
    ///
    /// A list with an unidentified item deletes nothing: that item may be any of the missing objects. Nor does a list without
    /// a resourceVersion, which may be older than the store.
    pub(in crate::cache) fn commit(&mut self, list: StagedList<T>) -> Option<Vec<Delta<T>>> {
        let StagedList {
            partition,
            version,
            order,
            number,
            changed: items,
            complete,
            ..
        } = list;
        let applied = number.wrapping_add(1);
        let state = &mut self.partitions[partition.index()];
        let initial = !state.synced;
        state.synced = true;
        if order == Order::Any || !version.is_none() {
            state.version = version;
        }
        let (mut deleted, mut changed) = (Vec::new(), Vec::new());
        for item in items {
            let Key { namespace, name } = item.identity().key;
            let again = { self.entries.get(&namespace, &name) }.is_some_and(|entry| entry.list == applied);
            // Another uid under the same name proves that the earlier object is deleted, even if the list is incomplete.
            let change = self.apply(partition, item, order);
            if let Some(entry) = self.entries.get_mut(&namespace, &name) {
                entry.list = applied;
            }
            match again {
                _ if initial => {}
                // Pages may contradict each other: then the earlier object was just added.
                true => changed.extend(change),
                false => {
                    deleted.extend(change.deleted);
                    changed.extend(change.changed);
                }
            }
        }
        let is_missing =
            |entry: &Entry<T>| entry.partition == partition && entry.list != number && entry.list != applied;
        let missing = self.entries.iter().filter(|(.., entry)| is_missing(entry));
        let missing: Vec<Key> = missing
            .map(|(namespace, name, _)| Key::new(namespace.clone(), name.clone()))
            .collect();
        for key in missing {
            if complete {
                deleted.extend(self.swap(&key, None).and_then(|entry| entry.state.into_last()));
            } else if order == Order::Any {
                self.forget_version(&key);
            }
        }
        let deleted = deleted.into_iter().map(|last| Delta::Deleted { last });
        (!initial).then(|| deleted.chain(changed).collect())
    }
}
