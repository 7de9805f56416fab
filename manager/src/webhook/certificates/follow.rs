//! On every replica: what the Secret says is to be served, is served, as soon as it says so.
//!
//! What is not good is not served, and what was served stays: it is verified with what was trusted when it was loaded, which
//! stays trusted until it ends. Unless the Secret was deleted: that is said, until there is another.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

use super::held::{Held, Slot, Stored};
use super::served::Served;
use super::{SECRETS, ServiceName};
use crate::client::{Client, ObjectEvent, ObjectState, ObjectWatch, View, WatchEnd, WatchReport};
use crate::env::Env;

/// Longer than any watch: a Secret may be silent.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(11);

/// Follows the Secret of a Service.
pub(crate) struct Follower {
    pub(crate) env: Env,
    pub(crate) client: Client,
    pub(crate) service: ServiceName,
    pub(crate) served: Arc<Served>,
}

impl Follower {
    /// For ever.
    pub(crate) async fn run(self) -> Infallible {
        let (send, mut sightings) = mpsc::channel(4);
        let watch = ObjectWatch {
            env: self.env.clone(),
            client: self.client.clone(),
            resource: SECRETS,
            key: self.service.secret(),
            view: View::Full,
            idle_timeout: IDLE_TIMEOUT,
        };
        let follow = async {
            loop {
                match sightings.recv().await {
                    Some(sighting) => self.sighted(sighting),
                    None => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            biased;
            never = watch.run(send) => match never {},
            never = follow => never,
        }
    }

    fn sighted(&self, sighting: WatchReport) {
        match sighting {
            WatchReport::Event(ObjectEvent::Updated(secret))
            | WatchReport::Opened(ObjectState {
                object: Some(secret), ..
            }) => self.there(secret),
            WatchReport::Opened(ObjectState { object: None, .. }) => {
                let problem = format!("the leader has not written the Secret {} yet", self.service);
                self.served.note(&problem);
            }
            WatchReport::Event(ObjectEvent::Deleted(_)) => {
                self.lack(&format!("the Secret {} was deleted", self.service));
            }
            WatchReport::Ended(WatchEnd::Closed | WatchEnd::Idle(_)) => {}
            WatchReport::Ended(end) => self.served.note(&end.to_string()),
        }
    }

    fn there(&self, secret: Value) {
        let Ok(stored) = serde_json::from_value::<Stored>(secret) else {
            // Not in the words of the parser, which may quote it.
            self.refuse(None, "it cannot be read");
            return;
        };
        let held = Held::from(stored);
        match held.to_serve(&self.service.host(), self.env.clock.wall()) {
            Ok(Some(pair)) => {
                if self.served.serve(pair.certified()) {
                    tracing::info!(secret = %self.service, "Serving webhooks with a new certificate");
                }
            }
            Ok(None) => self.lack(&format!("the Secret {} has none yet", self.service)),
            Err(reason) => self.refuse(Some(&held), &reason),
        }
    }

    fn lack(&self, reason: &str) {
        if self.served.lack(reason) {
            tracing::warn!(secret = %self.service, reason, "The certificate for webhooks will not be trusted for long");
        }
    }

    fn refuse(&self, held: Option<&Held>, reason: &str) {
        let pair = match held.map(|it| &it.current) {
            Some(Slot::Filled(pair)) => Some(pair.certified()),
            _ => None,
        };
        if self.served.refuse(pair, reason) {
            tracing::warn!(secret = %self.service, reason, "The certificate for webhooks in the Secret cannot be used");
        }
    }
}
