//! What the reflectors of one cache write and everybody reads, under one lock. Nothing is awaited under it.
//!
//! Changes are published while the store is locked: every subscriber gets them in the order in which the store changed,
//! and one that comes gets the present state and then everything after it, without a gap and nothing twice.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::item::{Item, Lookup};
use super::metrics::Meter;
use super::status::Status;
use super::store::{Feed, Refused, Store};
use super::subscription::{Publisher, channel};
use super::written::ViewState;
use super::{Delta, Subscription};
use crate::env::Clock;
use crate::object::{Key, MetaObject, Object, Resource, Text, Uid, Version};

/// How many of the objects that cannot be decoded are named in one line of the log.
const NAMED: usize = 10;

/// One cache.
#[derive(Debug)]
pub(super) struct Shared<T> {
    pub(super) resource: Resource,
    pub(super) meter: Meter,
    /// Whether all objects of the resource are in it.
    pub(super) whole: bool,
    /// The namespace of each feed; an empty one is the whole cluster.
    namespaces: Vec<String>,
    /// Asks the reflector of each feed for a list.
    asked: Vec<watch::Sender<()>>,
    clock: Clock,
    state: RwLock<State<T>>,
    /// Wakes whoever waits for the state to change.
    moved: watch::Sender<()>,
}

#[derive(Debug)]
struct State<T> {
    store: Store<T>,
    feeds: Vec<Progress>,
    subscribers: Vec<Subscriber<T>>,
}

/// How a feed is doing.
#[derive(Debug)]
struct Progress {
    status: Status,
    /// The API server did not know the kind when it was last asked: nobody can tell what is left of what was shown.
    unknown: bool,
    /// When it was last known that the store shows the present state, or when the feed was begun.
    fresh: Instant,
    /// How many lists were begun.
    begun: u64,
    /// The last list that is in the store.
    applied: Option<Begun>,
    /// How many items of that list have no identity.
    unreadable: usize,
}

/// The beginning of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// Which one it was, from 1.
    number: u64,
    at: Instant,
}

/// An event is about nobody knows which object: only a list can make the store right again.
#[derive(Debug)]
pub(super) struct Unreadable;

/// Where changes go.
#[derive(Debug)]
enum Subscriber<T> {
    Whole(Publisher<T>),
    Metadata(Publisher<MetaObject>),
}

/// What the metrics show of a cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    pub(super) objects: usize,
    pub(super) bytes: usize,
    pub(super) undecodable: usize,
    pub(super) age: Duration,
    pub(super) version: i64,
    /// The largest backlog of a subscriber.
    pub(super) queued: usize,
}

/// A cache of whichever type.
pub(super) trait AnyCache: Send + Sync {
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    fn resource(&self) -> &Resource;
    fn is_whole(&self) -> bool;
    fn is_synced(&self) -> bool;
    fn status_of_all(&self) -> Status;
    fn version(&self) -> Version;
    fn view(&self) -> ViewState;
    fn holds(&self, key: &Key) -> Option<(Uid, Version)>;
    fn relist(&self);
    fn relist_feed(&self, feed: usize);
    fn moved(&self) -> watch::Receiver<()>;
    fn namespaces(&self) -> &[String];
    /// How many lists of a feed were begun.
    fn begun(&self, feed: usize) -> u64;
    /// Whether a feed shows everything up to a version, or a list that was begun after the first `lists` ones.
    fn has_caught_up(&self, feed: usize, version: &Version, lists: u64) -> bool;
    fn status(&self, feed: usize) -> Status;
    fn numbers(&self) -> Numbers;
    fn get_meta(&self, key: &Key) -> Lookup<MetaObject>;
    fn all_meta(&self) -> Vec<Arc<MetaObject>>;
    fn subscribe_meta(&self) -> Subscription<MetaObject>;
}

impl<T: Object> Shared<T> {
    pub(super) fn new(
        resource: &Resource,
        namespaces: Vec<String>,
        whole: bool,
        labels: impl IntoIterator<Item = Text>,
        clock: &Clock,
        meter: Meter,
    ) -> Self {
        let feeds = namespaces.iter().map(|_| Progress {
            status: Status::Filling,
            unknown: false,
            fresh: clock.now(),
            begun: 0,
            applied: None,
            unreadable: 0,
        });
        let state = State {
            store: Store::new(namespaces.len(), labels),
            feeds: feeds.collect(),
            subscribers: Vec::new(),
        };
        Self {
            resource: resource.clone(),
            meter,
            whole,
            asked: namespaces.iter().map(|_| watch::Sender::new(())).collect(),
            namespaces,
            clock: clock.clone(),
            state: RwLock::new(state),
            moved: watch::Sender::new(()),
        }
    }

    /// Adds an index for each of these labels that has none.
    pub(super) fn index(&self, labels: &[&str]) {
        let missing = |label: &&&str| !self.read(|store| store.has_index(label));
        let missing: Vec<&str> = labels.iter().filter(missing).copied().collect();
        for label in missing {
            self.change(|state| state.store.index(Text::from(label)));
        }
    }

    /// Looks at the store.
    pub(super) fn read<R>(&self, with: impl FnOnce(&Store<T>) -> R) -> R {
        self.look(|state| with(&state.store))
    }

    /// The present state, then every change.
    pub(super) fn subscribe(&self) -> Subscription<T> {
        let (publisher, subscription) = channel();
        self.enter(Subscriber::Whole(publisher));
        subscription
    }

    fn enter(&self, subscriber: Subscriber<T>) {
        self.change(|state| {
            for object in state.store.iter() {
                let new = Arc::clone(object);
                subscriber.publish(&Delta::Added { new, initial: true });
            }
            state.subscribers.push(subscriber);
        });
    }

    /// The namespace of a feed.
    pub(super) fn namespace(&self, feed: usize) -> &str {
        &self.namespaces[feed]
    }

    /// Changes when somebody asks for a list of a feed.
    pub(super) fn asked(&self, feed: usize) -> watch::Receiver<()> {
        self.asked[feed].subscribe()
    }

    /// How far a feed has come.
    pub(super) fn reached(&self, feed: usize) -> Version {
        self.read(|store| store.reached(Feed(feed)).clone())
    }

    pub(super) fn set_status(&self, feed: usize, status: Status) {
        self.change(|state| state.feeds[feed].status = status);
        self.moved.send_replace(());
    }

    /// The API server does not know the kind.
    pub(super) fn set_unknown(&self, feed: usize) {
        self.change(|state| state.feeds[feed].unknown = true);
    }

    /// Whether that was said when it was last asked.
    pub(super) fn is_unknown(&self) -> bool {
        self.look(|state| state.feeds.iter().any(|feed| feed.unknown))
    }

    pub(super) fn begin_list(&self, feed: usize) -> Begun {
        let at = self.clock.now();
        self.change(|state| {
            let progress = &mut state.feeds[feed];
            progress.begun += 1;
            let number = progress.begun;
            Begun { number, at }
        })
    }

    /// The content of a feed is exactly this list. `restored` says that the versions of before mean nothing.
    pub(super) fn replace(
        &self,
        feed: usize,
        items: Vec<Item<T>>,
        version: Version,
        begun: Begun,
        restored: bool,
    ) {
        let unreadable = items
            .iter()
            .filter(|item| matches!(item, Item::Unreadable))
            .count();
        let unknown = self.apply(feed, |state| {
            let deltas = if restored {
                state.store.reset(Feed(feed), items, version)
            } else {
                // The reflector, which alone writes this feed, has compared the versions.
                state
                    .store
                    .replace(Feed(feed), items, version)
                    .unwrap_or_default()
            };
            let progress = &mut state.feeds[feed];
            progress.applied = Some(begun);
            progress.unreadable = unreadable;
            progress.unknown = false;
            // Of one that was in trouble the next watch says whether that is over.
            if progress.status == Status::Filling {
                progress.status = Status::Synced;
            }
            let unknown: Vec<String> = state.store.unknown().take(NAMED).map(Key::to_string).collect();
            (deltas, (unknown, state.store.unknown_len()))
        });
        let (named, count) = unknown;
        if count + unreadable > 0 {
            tracing::warn!(
                resource = %self.resource,
                objects = ?named,
                undecodable = count,
                unreadable,
                "Objects cannot be decoded: they count as present and unknown"
            );
        }
    }

    /// An object was added or modified. One that is older than what is known changes nothing.
    pub(super) fn put(&self, feed: usize, item: Item<T>) -> Result<(), Unreadable> {
        if let Item::Unknown(identity) = &item
            && !matches!(self.read(|store| store.get(&identity.key)), Lookup::Unknown)
        {
            tracing::warn!(
                resource = %self.resource,
                object = %identity.key,
                "An object cannot be decoded: it counts as present and unknown"
            );
        }
        self.event(feed, |store| store.put(Feed(feed), item))
    }

    /// An object was deleted.
    pub(super) fn remove(&self, feed: usize, item: Item<T>) -> Result<(), Unreadable> {
        self.event(feed, |store| store.remove(Feed(feed), item))
    }

    /// Nothing else has changed up to a version.
    pub(super) fn bookmark(&self, feed: usize, version: Version) -> Result<(), Unreadable> {
        self.event(feed, |store| {
            store.bookmark(Feed(feed), version)?;
            Ok(Vec::new())
        })
    }

    fn event(
        &self,
        feed: usize,
        with: impl FnOnce(&mut Store<T>) -> Result<Vec<Delta<T>>, Refused>,
    ) -> Result<(), Unreadable> {
        self.apply(feed, |state| match with(&mut state.store) {
            Ok(deltas) => (deltas, Ok(())),
            // Sent twice, or by a server that lags: known already.
            Err(Refused::Backwards(_)) => (Vec::new(), Ok(())),
            Err(Refused::Unreadable) => (Vec::new(), Err(Unreadable)),
        })
    }

    /// Changes the store, and tells everybody.
    fn apply<R>(&self, feed: usize, with: impl FnOnce(&mut State<T>) -> (Vec<Delta<T>>, R)) -> R {
        let now = self.clock.now();
        let result = self.change(|state| {
            let (deltas, result) = with(state);
            state.feeds[feed].fresh = now;
            for delta in &deltas {
                state.subscribers.retain(|subscriber| subscriber.publish(delta));
            }
            result
        });
        self.moved.send_replace(());
        result
    }

    fn look<R>(&self, with: impl FnOnce(&State<T>) -> R) -> R {
        with(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<R>(&self, with: impl FnOnce(&mut State<T>) -> R) -> R {
        with(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Object> AnyCache for Shared<T> {
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn resource(&self) -> &Resource {
        &self.resource
    }

    fn is_whole(&self) -> bool {
        self.whole
    }

    fn is_synced(&self) -> bool {
        self.read(Store::filled)
    }

    fn status_of_all(&self) -> Status {
        self.look(|state| {
            let statuses = state.feeds.iter().map(|feed| feed.status.clone());
            statuses.reduce(Status::worse).unwrap_or(Status::Synced)
        })
    }

    fn version(&self) -> Version {
        self.read(Store::version)
    }

    fn view(&self) -> ViewState {
        self.look(|state| ViewState {
            version: state.store.version(),
            epoch: state.store.epoch(),
            // None if one feed has none.
            list_begun_at: state
                .feeds
                .iter()
                .map(|feed| feed.applied.map(|begun| begun.at))
                .min()
                .flatten(),
        })
    }

    fn holds(&self, key: &Key) -> Option<(Uid, Version)> {
        self.read(|store| {
            let (uid, version) = store.identity(key)?;
            Some((uid.clone(), version.clone()))
        })
    }

    fn relist(&self) {
        for asked in &self.asked {
            asked.send_replace(());
        }
    }

    fn relist_feed(&self, feed: usize) {
        self.asked[feed].send_replace(());
    }

    fn moved(&self) -> watch::Receiver<()> {
        self.moved.subscribe()
    }

    fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    fn begun(&self, feed: usize) -> u64 {
        self.look(|state| state.feeds[feed].begun)
    }

    fn has_caught_up(&self, feed: usize, version: &Version, lists: u64) -> bool {
        self.look(|state| {
            state.store.reached(Feed(feed)).has_reached(version)
                || state.feeds[feed].applied.is_some_and(|list| list.number > lists)
        })
    }

    fn status(&self, feed: usize) -> Status {
        self.look(|state| state.feeds[feed].status.clone())
    }

    fn numbers(&self) -> Numbers {
        let now = self.clock.now();
        self.look(|state| Numbers {
            objects: state.store.len(),
            bytes: state.store.bytes(),
            undecodable: state.store.unknown_len()
                + state.feeds.iter().map(|feed| feed.unreadable).sum::<usize>(),
            age: state
                .feeds
                .iter()
                .map(|feed| now.saturating_duration_since(feed.fresh))
                .max()
                .unwrap_or_default(),
            version: state.store.version().gauge(),
            queued: state.subscribers.iter().map(Subscriber::len).max().unwrap_or(0),
        })
    }

    fn get_meta(&self, key: &Key) -> Lookup<MetaObject> {
        match self.read(|store| store.get(key)) {
            Lookup::Absent => Lookup::Absent,
            Lookup::Unknown => Lookup::Unknown,
            Lookup::Present(object) => Lookup::Present(metadata(&object)),
        }
    }

    fn all_meta(&self) -> Vec<Arc<MetaObject>> {
        self.read(|store| store.iter().map(metadata).collect())
    }

    fn subscribe_meta(&self) -> Subscription<MetaObject> {
        let (publisher, subscription) = channel();
        self.enter(Subscriber::Metadata(publisher));
        subscription
    }
}

impl<T: Object> Subscriber<T> {
    /// False if nobody will take it.
    fn publish(&self, delta: &Delta<T>) -> bool {
        match self {
            Self::Whole(publisher) => publisher.publish(delta.clone()),
            Self::Metadata(publisher) => publisher.publish(match delta {
                Delta::Added { new, initial } => Delta::Added {
                    new: metadata(new),
                    initial: *initial,
                },
                Delta::Updated { old, new } => Delta::Updated {
                    old: metadata(old),
                    new: metadata(new),
                },
                Delta::Deleted { last } => Delta::Deleted { last: metadata(last) },
            }),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Whole(publisher) => publisher.len(),
            Self::Metadata(publisher) => publisher.len(),
        }
    }
}

/// The metadata of an object: itself, if it is nothing else.
fn metadata<T: Object>(object: &Arc<T>) -> Arc<MetaObject> {
    let any: Arc<dyn Any + Send + Sync> = Arc::clone(object) as _;
    any.downcast().unwrap_or_else(|_| {
        Arc::new(MetaObject {
            metadata: object.meta().clone(),
        })
    })
}
