//! Sends reviews to the API server.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::decision_cache::NoDecision;
use crate::client::{Client, ClientError};
use crate::object::Resource;

/// The attempts to send a review. A connection that the server closes while a request is on its way fails the first one.
const ATTEMPTS_MAX: usize = 2;

#[derive(Debug)]
pub(super) struct Reviewer {
    client: Client,
    resource: Resource,
    /// Whether the last review failed: only the first failure of a series is logged as a warning.
    failing: AtomicBool,
}

#[derive(serde::Deserialize)]
struct Review<S> {
    status: S,
}

impl Reviewer {
    pub(super) fn new(client: Client, resource: Resource) -> Self {
        Self {
            client,
            resource,
            failing: AtomicBool::new(false),
        }
    }

    /// Creates a review with `spec`, and returns its status.
    pub(super) async fn review<S: DeserializeOwned>(&self, spec: Value) -> Result<S, NoDecision> {
        let review = json!({
            "apiVersion": self.resource.api_version(),
            "kind": self.resource.kind,
            "spec": spec,
        });
        let body = bytes::Bytes::from(review.to_string());
        let mut attempt = 1;
        loop {
            let answer: Result<Review<S>, ClientError> =
                self.client.create(&self.resource, "", body.clone()).await;
            match answer {
                Ok(review) => {
                    self.failing.store(false, Ordering::Relaxed);
                    return Ok(review.status);
                }
                Err(ClientError::Connection { .. }) if attempt < ATTEMPTS_MAX => attempt += 1,
                Err(error) => {
                    let kind = &*self.resource.kind;
                    if self.failing.swap(true, Ordering::Relaxed) {
                        tracing::debug!(kind, %error, "Failed to create review");
                    } else {
                        tracing::warn!(kind, %error, "Failed to create review");
                    }
                    return Err(NoDecision::Unavailable);
                }
            }
        }
    }
}
