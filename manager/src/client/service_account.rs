//! Service accounts as the identity of a client's requests, as kube-controller-manager uses them for its controllers.
//!
//! A [`ServiceAccount`] requests its token with the credentials of the process (`TokenRequest`) and creates the account if it
//! does not exist; its namespace must exist. A token is requested before the first request of a client and after a response
//! 401. [`ServiceAccount::keep_valid`] replaces it after 80 % of its lifetime, while requests use the previous one. There is
//! one `TokenRequest` at a time per account, and a backoff after failures.
//! A request without a valid token is not sent. Tokens are never logged nor part of an error.

mod cached_token;
mod error;

pub(super) use cached_token::Bearer;
pub use error::TokenError;

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use self::cached_token::{CachedToken, Next};
use super::{Client, ClientError, Transport};
use crate::env::{Clock, Env, Rng};
use crate::object::{Key, Resource};

const SERVICE_ACCOUNTS: Resource = Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
/// The requested lifetime of a token. The API server may shorten it.
const TOKEN_LIFETIME: Duration = Duration::from_hours(1);

/// The service accounts of one namespace.
#[derive(Clone, Debug)]
pub struct ServiceAccounts {
    issuer: Client,
    transport: Transport,
    namespace: String,
    clock: Clock,
    rng: Rng,
}

/// A service account and its current token. Clones share the token.
#[derive(Clone)]
pub struct ServiceAccount(Arc<Inner>);

struct Inner {
    key: Key,
    /// Requests the tokens.
    issuer: Client,
    /// Without credentials of its own.
    transport: Transport,
    clock: Clock,
    rng: Rng,
    token: Mutex<CachedToken>,
    /// Locked during a `TokenRequest`.
    requesting: tokio::sync::Mutex<()>,
    /// Wakes [`ServiceAccount::keep_valid`].
    rejected: tokio::sync::Notify,
}

/// The error of a request that has no token, and the time before the next `TokenRequest`.
#[derive(Debug)]
pub(super) struct NoToken {
    pub(super) error: TokenError,
    pub(super) retry_after: Duration,
}

/// The error of a `TokenRequest`, and the delay before a retry that the server requested.
struct RequestError {
    error: TokenError,
    retry_after: Option<Duration>,
}

/// The fields of a `TokenRequest` that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenRequest {
    spec: TokenRequestSpec,
    status: TokenRequestStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TokenRequestSpec {
    expiration_seconds: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenRequestStatus {
    token: String,
}

impl ServiceAccounts {
    /// Returns the accounts of `namespace`. `issuer` requests tokens and must be allowed to write at any time; `transport`
    /// has no credentials ([`Transport::without_credentials`]).
    #[must_use]
    pub fn new(env: &Env, issuer: Client, transport: Transport, namespace: impl Into<String>) -> Self {
        Self {
            issuer,
            transport,
            namespace: namespace.into(),
            clock: env.clock.clone(),
            rng: env.rng.clone(),
        }
    }

    /// Returns an account with a token of its own.
    #[must_use]
    pub fn account(&self, name: &str) -> ServiceAccount {
        ServiceAccount(Arc::new(Inner {
            key: Key::new(self.namespace.clone(), name),
            issuer: self.issuer.clone(),
            transport: self.transport.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            token: Mutex::new(CachedToken::new()),
            requesting: tokio::sync::Mutex::default(),
            rejected: tokio::sync::Notify::new(),
        }))
    }
}

impl ServiceAccount {
    /// Keeps the token valid until the future is dropped: requests do not wait for a token, and a missing right is reported
    /// before the first request.
    pub async fn keep_valid(&self) -> Infallible {
        let Inner { clock, rejected, .. } = &*self.0;
        loop {
            self.refresh().await;
            let wait = self.token(|token| token.until_request(clock));
            tokio::select! {
                biased;
                () = rejected.notified() => {}
                () = clock.sleep(wait) => {}
            }
        }
    }

    /// Returns the last failure, if there is no valid token.
    #[must_use]
    pub fn failure(&self) -> Option<TokenError> {
        self.token(|token| token.failure(&self.0.clock).cloned())
    }

    pub(super) fn transport(&self) -> &Transport {
        &self.0.transport
    }

    /// Returns a valid token, and requests one if necessary.
    pub(super) async fn bearer(&self) -> Result<Bearer, NoToken> {
        let next = || self.token(|token| token.next(&self.0.clock));
        if let Next::Use(bearer) = next() {
            return Ok(bearer);
        }
        let _requesting = self.0.requesting.lock().await;
        // Another request may have obtained one meanwhile.
        match next() {
            Next::Use(bearer) => Ok(bearer),
            Next::Fail(no_token) => Err(no_token),
            Next::RequestToken => self.request_and_store().await,
        }
    }

    /// Requests a token if one is due. A failure is logged and stored.
    async fn refresh(&self) {
        let _requesting = self.0.requesting.lock().await;
        // A request may have obtained one meanwhile.
        if self.token(|token| token.until_request(&self.0.clock)).is_zero() {
            let _ = self.request_and_store().await;
        }
    }

    /// Forgets a token that the API server has rejected.
    pub(super) fn reject(&self, bearer: &Bearer) {
        let Inner { key, clock, rng, .. } = &*self.0;
        let error = TokenError::Rejected { account: key.clone() };
        if self.token(|token| token.reject(bearer, error, clock.now(), rng)) {
            tracing::warn!(serviceAccount = %key, "API server rejected the token");
            self.0.rejected.notify_one();
        }
    }

    async fn request_and_store(&self) -> Result<Bearer, NoToken> {
        let Inner { key, clock, rng, .. } = &*self.0;
        let sent = clock.mark();
        match self.request_token().await {
            Ok((secret, lifetime)) => {
                tracing::debug!(serviceAccount = %key, seconds = lifetime.as_secs(), "Obtained token");
                Ok(self.token(|token| token.store(secret, sent, lifetime)))
            }
            Err(RequestError { error, retry_after }) => {
                tracing::warn!(serviceAccount = %key, %error, "Failed to request token");
                self.token(|token| token.fail(error, retry_after, clock, rng))
            }
        }
    }

    /// Requests a token, and creates the account if it does not exist. Returns the token and its lifetime. Boxed, because
    /// a [`Client`] requests tokens through another client.
    fn request_token(&self) -> BoxFuture<'_, Result<(SecretString, Duration), RequestError>> {
        let key = &self.0.key;
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_LIFETIME.as_secs()},
        });
        let request = bytes::Bytes::from(request.to_string());
        Box::pin(async move {
            let issue = async || {
                let issuer = &self.0.issuer;
                issuer
                    .create_subresource::<TokenRequest>(&SERVICE_ACCOUNTS, key, "token", request.clone())
                    .await
            };
            let issued = match issue().await {
                Err(error) if error.is_not_found(&key.name) => {
                    self.create().await?;
                    issue().await
                }
                issued => issued,
            };
            let TokenRequest { spec, status } = issued.map_err(|error| RequestError {
                error: TokenError::of_request(key, &error),
                retry_after: error.retry_after(),
            })?;
            let valid = !status.token.is_empty() && status.token.bytes().all(|it| it.is_ascii_graphic());
            if !valid {
                return Err(RequestError {
                    error: TokenError::invalid(key),
                    retry_after: None,
                });
            }
            Ok((status.token.into(), Duration::from_secs(spec.expiration_seconds)))
        })
    }

    async fn create(&self) -> Result<(), RequestError> {
        let Inner { key, issuer, .. } = &*self.0;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": key.name}});
        let created: Result<Value, ClientError> = issuer
            .create(&SERVICE_ACCOUNTS, &key.namespace, account.to_string().into())
            .await;
        match created {
            Ok(_) => {
                tracing::info!(serviceAccount = %key, "Created service account");
                Ok(())
            }
            Err(error) if error.is_already_exists() => Ok(()),
            Err(error) => Err(RequestError {
                error: TokenError::of_create(key, &error),
                retry_after: error.retry_after(),
            }),
        }
    }

    fn token<T>(&self, with: impl FnOnce(&mut CachedToken) -> T) -> T {
        with(&mut self.0.token.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServiceAccount").field(&self.0.key).finish()
    }
}
