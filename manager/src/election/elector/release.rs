//! Giving the Lease back: the fence is shut first, and it is not tried for longer than a renewal would be.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Elector;
use crate::client::ClientError;
use crate::election::record::Record;
use crate::election::{Release, ReleaseError};

impl Elector {
    /// Gives the Lease back, if it is held in the term that the workers worked in.
    pub(super) async fn release(mut self, release: Release) -> Result<(), ReleaseError> {
        let Release { term, versions } = release;
        let held = self.seat.as_ref().is_some_and(|seat| seat.term == Some(term));
        if !held || !self.fence.allows(term) {
            return Ok(());
        }
        self.step_down();
        let clock = self.env.clock.clone();
        let limit = self.config.renew_deadline;
        let given_back = clock.timeout(limit, async {
            let mut hurried = false;
            loop {
                let attempt = clock.timeout(self.limit(), self.give_back(&versions)).await;
                let Err(error) = attempt.unwrap_or_else(|| Err(self.late())) else {
                    return;
                };
                tracing::debug!(%error, "The lease could not be released yet");
                self.view.doubt();
                // A second conflict in a row is no longer chance: without a wait this would be a hot loop.
                hurried = error.is_conflict() && !hurried;
                if !hurried {
                    clock.sleep(self.config.retry_period).await;
                }
            }
        });
        given_back.await.ok_or_else(|| {
            ReleaseError(ClientError::Timeout {
                request_line: format!("lease {}", self.key),
                deadline: limit,
            })
        })
    }

    fn late(&self) -> ClientError {
        ClientError::Timeout {
            request_line: format!("lease {}", self.key),
            deadline: self.limit(),
        }
    }

    /// One try. It is done also if the Lease turns out to be no longer ours.
    async fn give_back(&mut self, versions: &BTreeMap<String, String>) -> Result<(), ClientError> {
        let clock = self.env.clock.clone();
        if self.view.is_doubtful() {
            let lease = self.client.get(&self.resource, &self.key).await;
            match lease {
                Ok(lease) => self.view.observe(clock.now(), Some(Record::new(lease))),
                Err(error) if error.is_not_found(&self.key.name) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let Some(record) = self.view.record().filter(|_| self.view.is_held()) else {
            return Ok(());
        };
        let lease = record.release(clock.wall(), versions);
        self.client
            .replace::<Value>(&self.resource, &self.key, lease.to_string().into())
            .await
            .map(drop)
    }
}
