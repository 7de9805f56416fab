//! The watch handler (`handlers/watch.go` and the watch cache of the API server).
//!
//! A watch sends every change after a resourceVersion, in order, until its deadline. It does not queue events: it
//! records the last revision sent, and reads the next changes from the store's history when the client reads more. The
//! server closes a watch whose revision has been compacted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::endpoints::expiry::EVENTS;
use crate::endpoints::render::Form;
use crate::endpoints::{Api, Body, Call, Reply, list, render};
use crate::field::FieldError;
use crate::json::{Value, json};
use crate::selector::Selector;
use crate::status::{ApiError, Result};
use crate::storage::changes::Changed;
use crate::storage::lag::Lag;
use crate::storage::{Change, Object};

const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// Time between the last bookmark and the deadline.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Minimum duration of a watch without `timeoutSeconds`. The maximum is twice as long; each watch draws its own.
const DEFAULT_SECONDS: u64 = 30 * 60;
/// Size at which a frame is sent. Bounds the memory for a client that does not read.
const FRAME_BYTES: usize = 64 * 1024;
const CHANGES_AT_ONCE: usize = 256;

/// The event stream of one watch request.
pub struct WatchStream {
    api: Arc<Api>,
    lag: Arc<Lag>,
    form: Form,
    selector: Selector,
    prefix: String,
    /// Objects to send as ADDED events before the changes.
    initial: std::vec::IntoIter<Arc<Object>>,
    /// Whether a bookmark still has to mark the end of the initial events.
    mark_initial: bool,
    /// The revision up to which all events have been sent.
    reached: u64,
    /// The revision at which the watch started. A bookmark is only sent for a later one.
    began: u64,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    commits: Changed,
    moved: Changed,
    may_end: Changed,
    /// The error to send as the only event.
    failed: Option<ApiError>,
    finished: bool,
}

/// The state of the CRD of the watched resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Definition {
    Served,
    /// The CRD is deleted or its spec has changed: the watch sends the pending events and ends.
    Replaced,
    /// A new CRD with the same name has replaced it: the watch ends without further events.
    Another,
}

impl Api {
    pub(crate) async fn watch(self: &Arc<Self>, call: Call) -> Result<Reply> {
        check_options(&call)?;
        let selector = list::selector(&call)?;
        let send_initial = call.query.flag("sendInitialEvents");
        let bookmarks = call.query.flag("allowWatchBookmarks") == Some(true);
        let seconds = match call.query.number("timeoutSeconds")? {
            Some(n) if n > 0 => u64::try_from(n).unwrap_or(DEFAULT_SECONDS),
            _ => DEFAULT_SECONDS + self.env.below(DEFAULT_SECONDS),
        };
        let collection = call.res.collection.clone();
        // Subscribing before reading the state avoids missing a commit between the two.
        let commits = self.store.subscribe(&collection);
        let version = call.query.get("resourceVersion");
        let asked = version.map(parse_version).transpose()?;
        let from_state = send_initial.unwrap_or(asked.is_none_or(|v| v == 0));
        let reached = match asked {
            Some(version) if !from_state && version > 0 => Ok(version),
            // Without resourceVersion and sendInitialEvents, a watch starts at the state of a possibly stale cache.
            None if send_initial.is_none() => self.visible(&call, 0).await,
            None => self.visible(&call, self.store.revision()).await,
            Some(version) => self.visible(&call, version).await,
        };
        // The watch has started: it sends later errors as events.
        let oldest = self.store.compacted(&collection);
        let reached = reached.and_then(|reached| {
            if reached < oldest {
                let why = format!("too old resource version: {reached} ({oldest})");
                return Err(ApiError::expired(why));
            }
            Ok(reached)
        });
        let (reached, failed) = reached.map_or_else(|error| (0, Some(error)), |reached| (reached, None));
        let prefix = list::prefix(&call);
        let initial = if from_state && failed.is_none() {
            let snapshot = self.store.snapshot(&collection, &prefix, None, Some(reached));
            snapshot.map_err(list::expired)?.objects
        } else {
            Vec::new()
        };
        let now = self.env.instant();
        let deadline = now + Duration::from_secs(seconds.min(365 * 24 * 3600));
        let stream = WatchStream {
            api: self.clone(),
            moved: call.lag.subscribe(),
            lag: call.lag,
            form: Form::new(call.res, call.view, &call.query, &self.env)?,
            selector,
            prefix,
            initial: initial.into_iter(),
            mark_initial: send_initial == Some(true) && bookmarks,
            reached,
            began: reached,
            bookmarks,
            next_bookmark: next_bookmark(now, deadline),
            deadline,
            commits,
            may_end: self.may_end.subscribe(),
            failed,
            finished: false,
        };
        Ok(Reply {
            code: 200,
            body: Body::Watch(Box::new(stream)),
            warnings: Vec::new(),
        })
    }
}

impl WatchStream {
    /// Waits for the next events and returns them encoded. Returns `None` at the end of the watch.
    pub async fn next_frame(&mut self) -> Option<Bytes> {
        while !self.finished {
            self.commits.mark_seen();
            self.moved.mark_seen();
            self.may_end.mark_seen();
            self.api.expire_events();
            let mut frame = Vec::new();
            if let Some(error) = self.failed.take() {
                render::error_event(&mut frame, &error.to_status());
                self.finished = true;
                return Some(frame.into());
            }
            self.initial_events(&mut frame);
            let definition = self.definition();
            if definition == Definition::Another {
                break;
            }
            if frame.is_empty() {
                self.changes(&mut frame);
            }
            let now = self.api.env.instant();
            if now >= self.deadline {
                // The watch sends the events in this frame, but no later ones.
                self.finished = true;
            }
            if frame.is_empty() && self.bookmarks && now >= self.next_bookmark {
                if self.reached > self.began {
                    self.form.bookmark(&mut frame, self.reached, false);
                }
                self.next_bookmark = next_bookmark(now, self.deadline);
            }
            if !frame.is_empty() {
                self.lag.serve(&self.form.res.collection, self.reached);
                return Some(frame.into());
            }
            if self.finished || self.api.closing.load(Ordering::Acquire) || definition == Definition::Replaced
            {
                break;
            }
            let mut wake = if self.bookmarks {
                self.next_bookmark.min(self.deadline)
            } else {
                self.deadline
            };
            if self.form.res.collection == EVENTS
                && let Some(expiry) = self.api.next_expiry()
            {
                wake = wake.min(expiry);
            }
            tokio::select! {
                biased;
                () = self.api.env.sleep_until(wake) => {}
                () = self.commits.changed() => {}
                () = self.moved.changed() => {}
                () = self.may_end.changed() => {}
            }
        }
        None
    }

    /// Returns the state of the CRD. Built-in resources are always served.
    fn definition(&self) -> Definition {
        let res = &self.form.res;
        let Some(custom) = &res.custom else {
            return Definition::Served;
        };
        let now = self.api.registry().find(&res.group, &res.version, &res.plural);
        match now.as_ref().and_then(|r| r.custom.as_ref()) {
            Some(now) if now.uid != custom.uid => Definition::Another,
            Some(now) if now.revision == custom.revision => Definition::Served,
            Some(_) | None => Definition::Replaced,
        }
    }

    fn initial_events(&mut self, frame: &mut Vec<u8>) {
        while frame.len() < FRAME_BYTES {
            let Some(object) = self.initial.next() else { break };
            if self.selector.matches(&object) {
                self.form.event(frame, "ADDED", &object);
            }
        }
        if self.initial.as_slice().is_empty() && self.mark_initial {
            self.mark_initial = false;
            self.form.bookmark(frame, self.reached, true);
        }
    }

    fn changes(&mut self, frame: &mut Vec<u8>) {
        let collection = self.form.res.collection.clone();
        while frame.len() < FRAME_BYTES {
            let visible = self.lag.visible(&collection, self.api.store.revision());
            if visible <= self.reached {
                return;
            }
            let Ok((changes, known)) = self.api.store.changes(&collection, self.reached, CHANGES_AT_ONCE)
            else {
                self.finished = true;
                return;
            };
            for change in &changes {
                if change.revision > visible {
                    break;
                }
                self.reached = change.revision;
                self.change(frame, change);
                if frame.len() >= FRAME_BYTES {
                    return;
                }
            }
            // The collection has no other changes up to this revision, so a bookmark may report it.
            self.reached = self.reached.max(known.min(visible));
        }
    }

    /// Appends the event of a change. An object that starts or stops matching the selector is ADDED or DELETED.
    fn change(&mut self, frame: &mut Vec<u8>, change: &Change) {
        if !change.key().starts_with(&self.prefix) {
            return;
        }
        let selector = &self.selector;
        let selected = |o: &&Arc<Object>| selector.matches(o);
        let before = change.before.as_ref().filter(selected);
        match (before, change.after.as_ref().filter(selected)) {
            (None, Some(after)) => self.form.event(frame, "ADDED", after),
            (Some(_), Some(after)) => self.form.event(frame, "MODIFIED", after),
            (Some(before), None) => match &change.removed {
                Some(removed) => self.form.event(frame, "DELETED", removed),
                // The object no longer matches the selector: send its last matching state with the new resourceVersion.
                None => self
                    .form
                    .event(frame, "DELETED", &before.at_revision(change.revision)),
            },
            (None, None) => {}
        }
    }
}

/// Returns the time of the next bookmark: after the interval, or shortly before the deadline if that is earlier.
fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let regular = now + BOOKMARK_EVERY;
    match deadline.checked_sub(LAST_BOOKMARK) {
        Some(last) if last > now => regular.min(last),
        _ => regular,
    }
}

fn check_options(call: &Call) -> Result<()> {
    const MATCH: &str = "resourceVersionMatch";
    let mut errors = Vec::new();
    let initial = call.query.flag("sendInitialEvents");
    let matching = call.query.get(MATCH);
    if initial.is_some() && matching != Some("NotOlderThan") {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(MATCH, why));
    }
    if let Some(matching) = matching {
        if initial.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(MATCH, why));
        }
        if matching != "NotOlderThan" {
            errors.push(FieldError::not_supported(MATCH, matching, &["NotOlderThan"]));
        }
        if call.query.get("continue").is_some() {
            errors.push(FieldError::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
    }
    if matching.is_none() && call.query.get("continue").is_some() {
        errors.push(FieldError::forbidden(
            MATCH,
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid_kind("meta.k8s.io", "ListOptions", "", &errors))
    }
}

/// Parses a resourceVersion. The error of a watch differs from the error of a list.
fn parse_version(version: &str) -> Result<u64> {
    version.parse().map_err(|_| {
        ApiError::unexplained(format!(
            "resourceVersion: Invalid value: {version:?}: must be a number"
        ))
    })
}

/// Returns the object of a bookmark event, which only has a resourceVersion.
pub(crate) fn bookmark_object(api_version: &str, kind: &str, revision: u64, initial_end: bool) -> Value {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if initial_end {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    json!({"kind": kind, "apiVersion": api_version, "metadata": metadata})
}
