//! The right number of pods: what is missing, what may be made now, and the attempt.

use std::collections::BTreeSet;
use std::time::Duration;

use coxswain_manager::client::ClientError;
use coxswain_manager::controller::ReconcileError;
use coxswain_manager::events::EventType;
use coxswain_manager::object::Text;

use super::Engine;
use crate::replicaset::act::{Hands, Outcome};
use crate::replicaset::plan::{self, Claims, Plan};
use crate::replicaset::status::Failure;
use crate::replicaset::template::Body;
use crate::replicaset::victims::Crowds;
use crate::support::naming;

/// The time until another create is sent in a namespace that is terminating. Events do not shorten it: the namespace
/// controller deletes every pod there, and each deletion is an event.
const NAMESPACE_TERMINATING_RETRY: Duration = Duration::from_mins(5);

/// An attempt at the right number of pods.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    /// Whether the number was looked at.
    pub(super) made: bool,
    /// The first failure, for the status.
    pub(super) failure: Option<Failure>,
    /// The error to retry.
    pub(super) error: Option<ReconcileError>,
    /// A pod was not as the cache has it: look again.
    pub(super) again: bool,
    /// The engine is to stop, and left the rest.
    pub(super) left: bool,
    /// When more pods may be made.
    pub(super) more_in: Option<Duration>,
}

impl Attempt {
    /// The attempt was not made, because of an error before it.
    pub(super) fn failed(error: ReconcileError) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }
}

impl Engine {
    /// Has the right number of pods, as far as it can be had now. Fails when the term is over.
    pub(super) async fn manage(
        &self,
        hands: &Hands<'_>,
        claims: &Claims,
        unused: Vec<Text>,
    ) -> Result<Attempt, ReconcileError> {
        let Hands { owner, key, env, .. } = *hands;
        let (now, wall) = (env.clock.now(), env.clock.wall());
        let unseen = self.expectations.pending_creates(key, now);
        let mut unknown = unseen.clone();
        for name in &unused {
            unknown.remove(name);
        }
        let mut missing = plan::missing(owner.replicas(), &claims.active, &unknown);
        if missing > 0 {
            // What cannot be read may be one of them, by its name. It is no reason to delete those that can be.
            unknown.extend(self.unreadable(owner));
            missing = plan::missing(owner.replicas(), &claims.active, &unknown).max(0);
        }
        let crowds = if missing < 0 {
            self.crowds(owner)
        } else {
            Crowds::new()
        };
        let Plan { create, delete } = plan::manage(missing, &claims.active, &crowds, wall);
        let allowed = self.memory.with(key, |known| {
            let backoff = &mut known.backoff;
            backoff.see(&claims.ended, &claims.active, &unseen, now, wall);
            backoff.took(&delete);
            known.no_creates_before = known.no_creates_before.filter(|it| *it > now);
            match known.no_creates_before {
                Some(_) => 0,
                None => backoff.allow(create, now),
            }
        });
        let earlier: BTreeSet<Text> = unused.iter().cloned().collect();
        let names = self.names(hands, unused, allowed.unwrap_or(0), create);
        let mut outcome = if !delete.is_empty() {
            self.metrics.chosen(&delete, &claims.active, wall);
            hands.delete(&delete).await
        } else if names.is_empty() {
            Outcome::default()
        } else {
            match Body::of(&self.kind, owner) {
                Ok(body) => hands.create(names, &earlier, &body).await,
                Err(error) => {
                    let request_line = format!("creating pods of {key}");
                    let message = error.to_string();
                    hands.event(
                        EventType::Warning,
                        "FailedCreate",
                        &format!("Error creating: {message}"),
                    );
                    let failure = Failure {
                        reason: "FailedCreate",
                        message: message.clone(),
                    };
                    let error = ClientError::Invalid {
                        request_line,
                        reason: message,
                    };
                    Outcome {
                        failure: Some((failure, error)),
                        ..Outcome::default()
                    }
                }
            }
        };
        let more_in = self.memory.with(key, |known| {
            if outcome.namespace_terminating {
                known.no_creates_before = Some(now + NAMESPACE_TERMINATING_RETRY);
            }
            if create == 0 {
                return None;
            }
            let more_in = known.backoff.made(std::mem::take(&mut outcome.made), create, now);
            known.no_creates_before.map(|it| it - now).or(more_in)
        });
        let more_in = more_in.flatten();
        let Outcome {
            failure, again, left, ..
        } = outcome;
        let (failure, error) = failure.unzip();
        match error {
            Some(error @ ClientError::Fenced { .. }) if !left => Err(error.into()),
            error => Ok(Attempt {
                made: true,
                failure,
                error: error.map(ReconcileError::from),
                again,
                left,
                more_in,
            }),
        }
    }

    /// So many names: first those that were used already and are not there. Of the rest of these, those that are wanted later
    /// are kept, as a request for one may still be under way; the others will not be used.
    fn names(&self, hands: &Hands<'_>, unused: Vec<Text>, count: usize, wanted: usize) -> Vec<Text> {
        let base = naming::base(&hands.owner.metadata.name);
        let mut unused = unused.into_iter();
        // In front: of those of which it is not known there are to be no more than there are.
        let mut names: Vec<Text> = unused.by_ref().take(count).collect();
        let mut taken: BTreeSet<Text> = names.iter().cloned().collect();
        for name in unused.skip(wanted.saturating_sub(count)) {
            self.expectations.create_failed(hands.key, &name);
        }
        while names.len() < count {
            let name = naming::name(&base, &hands.env.rng);
            if taken.insert(name.clone()) {
                names.push(name);
            }
        }
        names
    }
}
