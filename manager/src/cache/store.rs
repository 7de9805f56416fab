//! What a cache knows, and what each thing that it learns changes.
//!
//! A plain value: no lock, no clock, no I/O. Its methods return the changes to publish; whoever applies them in order
//! holds what [`Store::iter`] shows.
//!
//! Neither an event nor a list of an older version than the store has seen changes it; [`Store::reset`] is the exception.
//! A list that is not older replaces the content, whatever the versions of its objects: lists are consistent reads, so an
//! object of an older version than the cached one means that the storage was restored and its revision raised. Absence is
//! only ever concluded from a deletion that was seen, or from a list that could be read as a whole and has a version.

mod entry;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use entry::{Entry, Readable, State, Unknown};

use super::Delta;
use super::index::Indexes;
use super::item::{Identity, Item, Lookup};
use crate::object::{Interner, Key, Object, Text, Uid, Version};

/// One of the lists and watches that fill a store: of a namespace, or of the whole cluster. They have no key in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feed(pub(super) usize);

/// Something older than what is known was offered, and changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "version {offered} is older than {reached}, which was seen before; if it stays so, the API's storage was restored"
)]
pub(super) struct Backwards {
    /// What is known already.
    pub(super) reached: Version,
    /// What was offered.
    pub(super) offered: Version,
}

/// An event that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// It is old.
    #[error(transparent)]
    Backwards(#[from] Backwards),
    /// Nobody can tell which object it is about: only a list can make the store right again.
    #[error("an event is about an object without a readable identity; list again")]
    Unreadable,
}

/// The objects of one resource that the feeds have shown.
#[derive(Debug)]
pub(super) struct Store<T> {
    entries: BTreeMap<Key, Entry<T>>,
    feeds: Vec<Reached>,
    indexes: Indexes,
    interner: Interner,
    /// The sum over all states that are kept.
    bytes: usize,
    /// How many entries have a state.
    known: usize,
    /// How many entries have a newer state than is known.
    unknown: usize,
    epoch: u64,
}

/// How far a feed has come.
#[derive(Debug, Default)]
struct Reached {
    version: Version,
    filled: bool,
}

/// Whether an older state of an object is accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Forward,
    Any,
}

/// What became of one key: first one object is gone, then there is news of the present one.
struct Change<T> {
    gone: Option<Arc<T>>,
    news: Option<Delta<T>>,
}

impl<T: Object> Store<T> {
    /// An empty store, with as many feeds, and indexes by these labels.
    pub(super) fn new(feeds: usize, labels: impl IntoIterator<Item = Text>) -> Self {
        Self {
            entries: BTreeMap::new(),
            feeds: (0..feeds).map(|_| Reached::default()).collect(),
            indexes: Indexes::new(labels, T::INDEX_UNMANAGED),
            interner: Interner::default(),
            bytes: 0,
            known: 0,
            unknown: 0,
            epoch: 0,
        }
    }

    /// Whether there is an index by this label.
    pub(super) fn has_index(&self, label: &str) -> bool {
        self.indexes.has(label)
    }

    /// Adds an index by this label of what is in the store, and of what comes.
    pub(super) fn index(&mut self, label: Text) {
        let entries = self.entries.iter();
        let objects = entries.filter_map(|(key, entry)| Some((key, entry.state.last()?.meta())));
        self.indexes.add(label, objects);
    }

    /// The content of a feed is exactly this list. Deletions come first, then the rest in the order of the list.
    ///
    /// If something in the list was unreadable, it may be anything that is missing: then nothing is deleted. The same holds
    /// for a list without a version, which may be older than the store.
    pub(super) fn replace(
        &mut self,
        feed: Feed,
        items: impl IntoIterator<Item = Item<T>>,
        version: Version,
    ) -> Result<Vec<Delta<T>>, Backwards> {
        forward(&self.feeds[feed.0].version, &version)?;
        Ok(self.fill(feed, items, version, Order::Forward))
    }

    /// Like [`Store::replace`], after the API's storage was restored from a backup: versions of before mean nothing.
    pub(super) fn reset(
        &mut self,
        feed: Feed,
        items: impl IntoIterator<Item = Item<T>>,
        version: Version,
    ) -> Vec<Delta<T>> {
        self.epoch += 1;
        self.feeds[feed.0].version = Version::none();
        self.fill(feed, items, version, Order::Any)
    }

    /// An object was added or modified.
    pub(super) fn put(&mut self, feed: Feed, item: Item<T>) -> Result<Vec<Delta<T>>, Refused> {
        let item = self.admit(item).ok_or(Refused::Unreadable)?;
        let identity = item.identity();
        forward(&self.feeds[feed.0].version, &identity.version)?;
        if let Some(entry) = self.entries.get(&identity.key) {
            forward(entry.state.version(), &identity.version)?;
        }
        self.feeds[feed.0].advance(identity.version);
        let change = self.apply(feed, item, Order::Forward, false);
        Ok(change.into_iter().collect())
    }

    /// An object was deleted: the item is its final state, and has the version of the deletion.
    pub(super) fn remove(&mut self, feed: Feed, item: Item<T>) -> Result<Vec<Delta<T>>, Refused> {
        let item = self.admit(item).ok_or(Refused::Unreadable)?;
        let identity = item.identity();
        forward(&self.feeds[feed.0].version, &identity.version)?;
        if let Some(entry) = self.entries.get(&identity.key) {
            forward(entry.state.version(), &identity.version)?;
        }
        self.feeds[feed.0].advance(identity.version);
        let old = self
            .swap(&identity.key, None)
            .and_then(|entry| entry.state.into_last());
        let last = match item {
            Readable::Known(object) => Some(object),
            Readable::Unknown(_) => None,
        };
        // Whatever had the name before is gone too.
        let old = old.filter(|old| last.as_ref().is_none_or(|last| last.meta().uid != old.meta().uid));
        Ok([old, last]
            .into_iter()
            .flatten()
            .map(|last| Delta::Deleted { last })
            .collect())
    }

    /// Everything up to a version was shown.
    pub(super) fn bookmark(&mut self, feed: Feed, version: Version) -> Result<(), Backwards> {
        let feed = &mut self.feeds[feed.0];
        forward(&feed.version, &version)?;
        feed.advance(version);
        Ok(())
    }

    /// How far a feed has come: where its watch goes on.
    pub(super) fn reached(&self, feed: Feed) -> &Version {
        &self.feeds[feed.0].version
    }

    /// The version that all feeds have reached; none before all were filled, or if their versions do not compare.
    pub(super) fn version(&self) -> Version {
        let mut feeds = self.feeds.iter();
        let Some(first) = feeds.next().filter(|_| self.filled()) else {
            return Version::none();
        };
        let least = feeds.try_fold(&first.version, |least, feed| {
            match feed.version.partial_cmp(least) {
                Some(Ordering::Less) => Some(&feed.version),
                Some(_) => Some(least),
                None => (feed.version == *least).then_some(least),
            }
        });
        least.cloned().unwrap_or_default()
    }

    /// Whether every feed was listed once.
    pub(super) fn filled(&self) -> bool {
        self.feeds.iter().all(|feed| feed.filled)
    }

    /// How often versions began anew: what was remembered of an earlier epoch means nothing.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What is under a key.
    pub(super) fn get(&self, key: &Key) -> Lookup<T> {
        match self.entries.get(key).map(|entry| &entry.state) {
            None => Lookup::Absent,
            Some(State::Unknown(_)) => Lookup::Unknown,
            Some(State::Known(object)) => Lookup::Present(object.clone()),
        }
    }

    /// Which object is under a key, and its newest version, whether or not its state is known.
    pub(super) fn identity(&self, key: &Key) -> Option<(&Uid, &Version)> {
        let state = &self.entries.get(key)?.state;
        Some((state.uid(), state.version()))
    }

    /// All objects, ordered by key. What became unknown is shown in its last known state.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.entries.values().filter_map(|entry| entry.state.last())
    }

    /// The objects of a namespace, like [`Store::iter`].
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        let entries = self.entries.range(Key::new(namespace, "")..);
        entries
            .take_while(|(key, _)| key.namespace == namespace)
            .filter_map(|(_, entry)| entry.state.last().cloned())
            .collect()
    }

    /// The objects that are managed by the owner with this uid, like [`Store::iter`].
    pub(super) fn owned(&self, owner: &Uid) -> Vec<Arc<T>> {
        self.resolve(self.indexes.owned(owner))
    }

    /// The objects that have this value of a label, like [`Store::iter`]. Slow if the label has no index.
    pub(super) fn labelled(&self, label: &str, value: &str) -> Vec<Arc<T>> {
        if let Some(keys) = self.indexes.labelled(label, value) {
            return self.resolve(keys);
        }
        let matches = |object: &&Arc<T>| object.meta().labels.get(label).is_some_and(|it| it == value);
        self.iter().filter(matches).cloned().collect()
    }

    /// The objects of a namespace that nobody manages, like [`Store::iter`]. Slow if there is no index of them.
    pub(super) fn unmanaged(&self, namespace: &str) -> Vec<Arc<T>> {
        if let Some(keys) = self.indexes.unmanaged(namespace) {
            return self.resolve(keys);
        }
        let mut all = self.in_namespace(namespace);
        all.retain(|object| object.meta().controller().is_none());
        all
    }

    /// How many objects [`Store::iter`] shows.
    pub(super) fn len(&self) -> usize {
        self.known
    }

    /// About how much memory the objects take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The keys whose newest state could not be decoded.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &Key> {
        let unknown = |entry: &Entry<T>| matches!(entry.state, State::Unknown(_));
        let unknown = self.entries.iter().filter(move |(_, entry)| unknown(entry));
        // Most often there are none, and nobody has to look.
        unknown.take(self.unknown).map(|(key, _)| key)
    }

    /// How many of them there are.
    pub(super) fn unknown_len(&self) -> usize {
        self.unknown
    }

    fn resolve<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> Vec<Arc<T>> {
        keys.filter_map(|key| self.entries.get(key)?.state.last().cloned())
            .collect()
    }

    fn fill(
        &mut self,
        feed: Feed,
        items: impl IntoIterator<Item = Item<T>>,
        version: Version,
        order: Order,
    ) -> Vec<Delta<T>> {
        let initial = !mem::replace(&mut self.feeds[feed.0].filled, true);
        let (mut gone, mut news) = (Vec::new(), Vec::new());
        let mut listed = BTreeSet::new();
        let mut complete = !version.is_none();
        if !version.is_none() {
            self.feeds[feed.0].version = version;
        }
        for item in items {
            let Some(item) = self.admit(item) else {
                complete = false;
                continue;
            };
            let again = !listed.insert(item.identity().key);
            // Another uid under a name proves that the former object is gone, whatever else could be read.
            let change = self.apply(feed, item, order, initial);
            if again {
                // The pages of one list may disagree: then the former object is one that was just added.
                news.extend(change);
            } else {
                gone.extend(change.gone);
                news.extend(change.news);
            }
        }
        let vanished = |(key, entry): &(&Key, &Entry<T>)| entry.feed == feed && !listed.contains(*key);
        let vanished: Vec<Key> = self
            .entries
            .iter()
            .filter(vanished)
            .map(|(key, _)| key.clone())
            .collect();
        for key in vanished {
            if complete {
                gone.extend(self.swap(&key, None).and_then(|entry| entry.state.into_last()));
            } else if order == Order::Any {
                self.forget_version(&key);
            }
        }
        gone.into_iter()
            .map(|last| Delta::Deleted { last })
            .chain(news)
            .collect()
    }

    /// Packs what was decoded; none if it cannot be told which object it is.
    fn admit(&mut self, item: Item<T>) -> Option<Readable<T>> {
        match item {
            Item::Known(mut object) => {
                if object.meta().name.is_empty() || object.meta().uid.is_empty() {
                    return None;
                }
                object.meta_mut().keep_annotations(T::ANNOTATIONS);
                object.intern(&mut self.interner);
                // The name lives in the key: one copy of it is enough.
                if let Some((key, _)) = self.entries.get_key_value(&object.meta().key()) {
                    object.meta_mut().name = key.name.clone();
                }
                Some(Readable::Known(Arc::new(object)))
            }
            Item::Unknown(identity) if identity.key.name.is_empty() || identity.uid.is_empty() => None,
            Item::Unknown(identity) => Some(Readable::Unknown(identity)),
            Item::Unreadable => None,
        }
    }

    /// An object is in this state.
    fn apply(&mut self, feed: Feed, item: Readable<T>, order: Order, initial: bool) -> Change<T> {
        let Identity { key, uid, version } = item.identity();
        let old = self.entries.get(&key).map(|entry| &entry.state);
        let same = old.filter(|old| old.uid() == &uid);
        if order == Order::Forward
            && let Some(old) = same
        {
            let decoded = matches!((old, &item), (State::Unknown(_), Readable::Known(_)));
            if *old.version() == version && !version.is_none() && !decoded {
                return Change {
                    gone: None,
                    news: None,
                };
            }
        }
        let last = same.and_then(State::last).cloned();
        let gone = old.filter(|_| same.is_none()).and_then(State::last).cloned();
        let (state, news) = match item {
            Readable::Known(new) => {
                let news = match last {
                    Some(old) => Delta::Updated {
                        old,
                        new: new.clone(),
                    },
                    None => Delta::Added {
                        new: new.clone(),
                        initial,
                    },
                };
                (State::Known(new), Some(news))
            }
            Readable::Unknown(_) => (State::Unknown(Box::new(Unknown { uid, version, last })), None),
        };
        self.swap(&key, Some(Entry { feed, state }));
        Change { gone, news }
    }

    /// What is known of an object is from before the storage was restored: whatever comes is newer.
    fn forget_version(&mut self, key: &Key) {
        let Some(Entry { feed, state }) = self.entries.get(key) else {
            return;
        };
        let unknown = Unknown {
            uid: state.uid().clone(),
            version: Version::none(),
            last: state.last().cloned(),
        };
        let (feed, state) = (*feed, State::Unknown(Box::new(unknown)));
        self.swap(key, Some(Entry { feed, state }));
    }

    /// The one place where entries change, and with them all that is counted and indexed.
    fn swap(&mut self, key: &Key, new: Option<Entry<T>>) -> Option<Entry<T>> {
        let unknown =
            |entry: Option<&Entry<T>>| entry.is_some_and(|entry| matches!(entry.state, State::Unknown(_)));
        let next = new.as_ref().and_then(|entry| entry.state.last()).cloned();
        self.unknown += usize::from(unknown(new.as_ref()));
        let old = match new {
            Some(new) => self.entries.insert(key.clone(), new),
            None => self.entries.remove(key),
        };
        self.unknown -= usize::from(unknown(old.as_ref()));
        let last = old.as_ref().and_then(|entry| entry.state.last());
        if let Some(next) = &next {
            self.bytes += next.bytes();
            self.known += 1;
        }
        if let Some(last) = last {
            self.bytes -= last.bytes();
            self.known -= 1;
        }
        self.indexes
            .change(key, last.map(|it| it.meta()), next.as_ref().map(|it| it.meta()));
        old
    }
}

impl Reached {
    /// By an event. Once versions compare, one that does not is no progress.
    fn advance(&mut self, version: Version) {
        let compares = |version: &Version| version.partial_cmp(version).is_some();
        if compares(&version) || !compares(&self.version) && !version.is_none() {
            self.version = version;
        }
    }
}

impl<T> IntoIterator for Change<T> {
    type Item = Delta<T>;
    type IntoIter = std::iter::Flatten<std::array::IntoIter<Option<Delta<T>>, 2>>;

    fn into_iter(self) -> Self::IntoIter {
        let gone = self.gone.map(|last| Delta::Deleted { last });
        [gone, self.news].into_iter().flatten()
    }
}

fn forward(reached: &Version, offered: &Version) -> Result<(), Backwards> {
    if reached > offered {
        return Err(Backwards {
            reached: reached.clone(),
            offered: offered.clone(),
        });
    }
    Ok(())
}
