//! The token of a service account: decides when it is used, replaced or requested. No I/O.

use std::time::Duration;

use http::HeaderValue;
use http::header::InvalidHeaderValue;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::Instant;

use super::{NoToken, TokenError};
use crate::backoff::Backoff;
use crate::env::{Clock, Mark, Rng, later};

/// The minimum lifetime that the API server accepts. A shorter one in a response is not believed: the token would be
/// replaced continuously.
const LIFETIME_MIN: Duration = Duration::from_mins(10);
/// The limit of the Retry-After of a failed request.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);
/// Rejected tokens and failed requests. A successful request does not end it, or an API server that issues tokens and
/// rejects them would be flooded.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_mins(1))
    .jitter(0.5)
    .reset_after(Duration::from_mins(2));

#[derive(Debug)]
pub(super) struct CachedToken {
    token: Option<Token>,
    /// The number of tokens so far.
    issued: u64,
    backoff: Backoff,
    /// None since the last token was obtained.
    failure: Option<Failure>,
}

#[derive(Debug)]
struct Token {
    bearer: Bearer,
    /// The time at which it was requested.
    sent: Mark,
    lifetime: Duration,
}

#[derive(Debug)]
struct Failure {
    error: TokenError,
    /// The earliest time of the next request.
    retry_at: Instant,
}

/// A token, as a request carries it.
#[derive(Clone, Debug)]
pub(crate) struct Bearer {
    secret: SecretString,
    /// Distinguishes it from later tokens.
    serial: u64,
}

/// The next step of a request that needs a token.
#[derive(Debug)]
pub(super) enum Next {
    Use(Bearer),
    RequestToken,
    Fail(NoToken),
}

impl CachedToken {
    pub(super) fn new() -> Self {
        Self {
            token: None,
            issued: 0,
            backoff: BACKOFF,
            failure: None,
        }
    }

    /// Returns the next step of a request. It uses the token until it expires, and does not wait for its replacement.
    pub(super) fn next(&self, clock: &Clock) -> Next {
        if let Some(bearer) = self.valid(clock) {
            return Next::Use(bearer);
        }
        let now = clock.now();
        match self.failure.as_ref().filter(|it| it.retry_at > now) {
            None => Next::RequestToken,
            Some(failure) => Next::Fail(failure.no_token(now)),
        }
    }

    /// Returns the time until the next request is due.
    pub(super) fn until_request(&self, clock: &Clock) -> Duration {
        let refresh = self.token.as_ref().map_or(Duration::ZERO, |token| {
            token.refresh_after().saturating_sub(clock.elapsed(&token.sent))
        });
        let retry = self.failure.as_ref().map_or(Duration::ZERO, |failure| {
            failure.retry_at.saturating_duration_since(clock.now())
        });
        refresh.max(retry)
    }

    /// Returns the last failure, unless the token is valid.
    pub(super) fn failure(&self, clock: &Clock) -> Option<&TokenError> {
        let failure = self.failure.as_ref().filter(|_| self.valid(clock).is_none());
        failure.map(|failure| &failure.error)
    }

    /// Stores a token that was requested at `sent`.
    pub(super) fn store(&mut self, secret: SecretString, sent: Mark, lifetime: Duration) -> Bearer {
        self.issued += 1;
        let bearer = Bearer {
            secret,
            serial: self.issued,
        };
        self.token = Some(Token {
            bearer: bearer.clone(),
            sent,
            lifetime: lifetime.max(LIFETIME_MIN),
        });
        self.failure = None;
        bearer
    }

    /// Records a failed request. Returns the previous token if it is still valid.
    pub(super) fn fail(
        &mut self,
        error: TokenError,
        retry_after: Option<Duration>,
        clock: &Clock,
        rng: &Rng,
    ) -> Result<Bearer, NoToken> {
        let now = clock.now();
        let delay = self.backoff.next_at_least(retry_after, RETRY_AFTER_MAX, now, rng);
        let failure = Failure {
            error,
            retry_at: later(now, delay),
        };
        let no_token = failure.no_token(now);
        self.failure = Some(failure);
        self.valid(clock).ok_or(no_token)
    }

    /// Forgets the token that the API server rejected, unless it has been replaced. The first rejection allows a request
    /// at once, further ones after the backoff. Returns true if the token was the current one.
    pub(super) fn reject(&mut self, bearer: &Bearer, error: TokenError, now: Instant, rng: &Rng) -> bool {
        let current = self.token.take_if(|it| it.bearer.serial == bearer.serial);
        if current.is_none() {
            return false;
        }
        let first = self.backoff.is_healthy(now);
        let delay = self.backoff.next(now, rng);
        let retry_at = if first { now } else { later(now, delay) };
        self.failure = Some(Failure { error, retry_at });
        true
    }

    /// Returns the token unless it has expired.
    fn valid(&self, clock: &Clock) -> Option<Bearer> {
        let token = self.token.as_ref()?;
        (clock.elapsed(&token.sent) < token.lifetime).then(|| token.bearer.clone())
    }
}

impl Token {
    /// The age at which it is replaced: 80 % of its lifetime.
    fn refresh_after(&self) -> Duration {
        self.lifetime / 5 * 4
    }
}

impl Failure {
    fn no_token(&self, now: Instant) -> NoToken {
        NoToken {
            error: self.error.clone(),
            retry_after: self.retry_at.saturating_duration_since(now),
        }
    }
}

impl Bearer {
    /// Returns the value of the Authorization header.
    pub(crate) fn header(&self) -> Result<HeaderValue, InvalidHeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.secret.expose_secret()))?;
        value.set_sensitive(true);
        Ok(value)
    }
}
