//! Bearer tokens, authenticated by `TokenReview`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde::Deserialize;
use serde_json::json;

use super::User;
use super::decision_cache::{DecisionCache, NoDecision, TimesToLive};
use super::review::Reviewer;
use super::review_slots::ReviewSlots;
use crate::client::Client;
use crate::env::Env;
use crate::object::Resource;

const TOKEN_REVIEWS: Resource =
    Resource::cluster("authentication.k8s.io", "v1", "tokenreviews", "TokenReview");

pub(super) struct TokenAuthenticator {
    reviewer: Arc<Reviewer>,
    cache: Arc<DecisionCache<User>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenReviewStatus {
    authenticated: bool,
    user: User,
}

impl TokenAuthenticator {
    /// Keeps accepted and rejected tokens for `ttl`.
    pub(super) fn new(env: &Env, client: Client, ttl: Duration) -> Self {
        let ttl = TimesToLive {
            positive: ttl,
            negative: ttl,
        };
        Self {
            reviewer: Arc::new(Reviewer::new(client, TOKEN_REVIEWS)),
            cache: DecisionCache::new(env, ttl, Arc::new(ReviewSlots::default())),
        }
    }

    /// Returns the user of a token of a client at `peer`; none if the token is invalid.
    pub(super) async fn authenticate(&self, token: &str, peer: IpAddr) -> Result<Option<User>, NoDecision> {
        let review = || {
            let (reviewer, spec) = (self.reviewer.clone(), json!({"token": token}));
            async move {
                let status: TokenReviewStatus = reviewer.review(spec).await?;
                let valid = status.authenticated && !status.user.name.is_empty();
                Ok(valid.then_some(status.user))
            }
        };
        self.cache.decide(token.as_bytes(), peer, review).await
    }
}

/// Returns the bearer token of a request, if it has one.
pub(super) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, rest) = value.split_once(' ')?;
    let token = rest.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_token_is_the_word_after_the_scheme() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("  bearer abc  ", Some("abc")),
            ("BEARER abc def", Some("abc")),
            ("Bearer ", None),
            ("Bearer", None),
            ("Bearer  abc", None),
            ("Basic abc", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().expect("a value"))]);
            assert_eq!(bearer_token(&headers), token, "{value:?}");
        }
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }
}
