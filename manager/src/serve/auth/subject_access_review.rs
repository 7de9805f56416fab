//! Authorization of paths by `SubjectAccessReview`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::User;
use super::decision_cache::{DecisionCache, NoDecision, TimesToLive};
use super::review::Reviewer;
use super::review_slots::ReviewSlots;
use crate::client::Client;
use crate::env::Env;
use crate::object::Resource;

const SUBJECT_ACCESS_REVIEWS: Resource = Resource::cluster(
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
    "SubjectAccessReview",
);

/// The group that may access every path.
const MASTERS: &str = "system:masters";

/// Authorizes users by `SubjectAccessReview`. Members of `system:masters` are always authorized.
pub struct Authorizer {
    reviewer: Arc<Reviewer>,
    cache: Arc<DecisionCache<()>>,
}

/// The options of an [`Authorizer`].
#[derive(Clone, Copy, Debug)]
pub struct AuthorizationOptions {
    /// The time for which an authorized request is not reviewed again. Zero disables caching.
    pub authorized_ttl: Duration,
    /// The time for which an unauthorized request is not reviewed again. Zero disables caching.
    pub unauthorized_ttl: Duration,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SubjectAccessReviewStatus {
    allowed: bool,
    denied: bool,
}

impl Authorizer {
    /// Returns an authorizer that sends its reviews by `client`, which needs a rate limiter of its own.
    #[must_use]
    pub fn new(env: &Env, client: Client, options: AuthorizationOptions) -> Self {
        let ttl = TimesToLive {
            positive: options.authorized_ttl,
            negative: options.unauthorized_ttl,
        };
        Self {
            reviewer: Arc::new(Reviewer::new(client, SUBJECT_ACCESS_REVIEWS)),
            cache: DecisionCache::new(env, ttl, Arc::new(ReviewSlots::default())),
        }
    }

    /// Reports whether `user`, a client at `peer`, may send a request with `verb` for `path`.
    pub(in crate::serve) async fn authorize(
        &self,
        user: &User,
        verb: &str,
        path: &str,
        peer: IpAddr,
    ) -> Result<bool, NoDecision> {
        if user.is_in(MASTERS) {
            return Ok(true);
        }
        let spec = json!({
            "nonResourceAttributes": {"path": path, "verb": verb},
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
        });
        let key = spec.to_string();
        let review = || {
            let reviewer = self.reviewer.clone();
            async move {
                let status: SubjectAccessReviewStatus = reviewer.review(spec).await?;
                Ok((status.allowed && !status.denied).then_some(()))
            }
        };
        let decision = self.cache.decide(key.as_bytes(), peer, review).await?;
        Ok(decision.is_some())
    }
}
