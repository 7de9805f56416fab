//! Releasing the Lease. The fence is closed first; attempts end after the renew deadline.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Elector;
use crate::client::ClientError;
use crate::election::record::Record;
use crate::election::{Release, ReleaseError};

impl Elector {
    /// Releases the Lease, if it is held in the term of the workers.
    pub(super) async fn release(mut self, release: Release) -> Result<(), ReleaseError> {
        let Release { term, versions } = release;
        let held = self
            .holding
            .as_ref()
            .is_some_and(|holding| holding.term == Some(term));
        if !held || !self.fence.allows(term) {
            return Ok(());
        }
        self.step_down();
        let clock = self.env.clock.clone();
        let limit = self.config.renew_deadline;
        let released = clock.timeout(limit, async {
            let mut retried_at_once = false;
            loop {
                let attempt = clock
                    .timeout(self.request_timeout(), self.try_release(&versions))
                    .await;
                let Err(error) = attempt.unwrap_or_else(|| Err(self.timeout())) else {
                    return;
                };
                tracing::debug!(%error, "Failed to release lease, retrying");
                self.state.invalidate();
                // Only the first of several conflicts is retried immediately.
                retried_at_once = error.is_conflict() && !retried_at_once;
                if !retried_at_once {
                    clock.sleep(self.config.retry_period).await;
                }
            }
        });
        released.await.ok_or_else(|| {
            ReleaseError(ClientError::Timeout {
                request_line: format!("lease {}", self.key),
                deadline: limit,
            })
        })
    }

    fn timeout(&self) -> ClientError {
        ClientError::Timeout {
            request_line: format!("lease {}", self.key),
            deadline: self.request_timeout(),
        }
    }

    /// Makes one attempt. It succeeds if the Lease is not ours any more.
    async fn try_release(&mut self, versions: &BTreeMap<String, String>) -> Result<(), ClientError> {
        let clock = self.env.clock.clone();
        if self.state.needs_read() {
            let lease = self.client.get(&self.resource, &self.key).await;
            match lease {
                Ok(lease) => self.state.observe(clock.now(), Some(Record::new(lease))),
                Err(error) if error.is_not_found(&self.key.name) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let Some(record) = self.state.record().filter(|_| self.state.is_held()) else {
            return Ok(());
        };
        let lease = record.release(clock.wall(), versions);
        self.client
            .replace::<Value>(&self.resource, &self.key, lease.to_string().into())
            .await
            .map(drop)
    }
}
