//! Composition of the ways to authenticate a request.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

use super::User;
use super::authority::{Authority, Subject};
use super::decision_cache::NoDecision;
use super::request_header::RequestHeaderNames;
use super::token_review::{self, TokenAuthenticator};
use super::trust::{AuthorityError, Proxies, Trust};
use crate::client::{Client, Reader};
use crate::env::{Clock, Env};
use crate::serve::Peer;

/// The time for which the certificate of a connection is not verified again.
const VERIFICATION_TTL: Duration = Duration::from_secs(10);
/// The CAs that the certificate of a connection is verified against: of clients and of proxies.
const AUTHORITIES_MAX: usize = 2;

/// Authenticates requests.
pub struct Authenticator {
    clock: Clock,
    trust: Arc<Trust>,
    tokens: TokenAuthenticator,
}

/// The options of an [`Authenticator`].
#[derive(Clone, Debug)]
pub struct AuthenticationOptions {
    /// The time for which a token is not reviewed again. Zero disables caching.
    pub token_ttl: Duration,
    /// A PEM file of CAs of client certificates. It is reloaded when it changes.
    pub client_ca: Option<PathBuf>,
    /// The authenticating proxies.
    pub request_header: Option<RequestHeaderOptions>,
    /// Whether to read CAs without a file from the `ConfigMap` `kube-system/extension-apiserver-authentication`.
    pub lookup: bool,
}

/// The authenticating proxies.
#[derive(Clone, Debug)]
pub struct RequestHeaderOptions {
    /// A PEM file of CAs of the client certificates of proxies. It is reloaded when it changes.
    pub client_ca: PathBuf,
    /// The names of proxies and headers.
    pub names: RequestHeaderNames,
}

/// The reason why a request is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Rejection {
    /// The credentials are invalid.
    Invalid,
    /// The token could not be reviewed.
    NoDecision(NoDecision),
}

/// The client certificate is invalid for a CA.
struct InvalidCertificate;

/// The outcomes of verifying the certificate of one connection.
#[derive(Debug, Default)]
pub(in crate::serve) struct VerifiedSubjects(Mutex<Vec<Verification>>);

#[derive(Debug)]
struct Verification {
    authority: Arc<Authority>,
    until: Instant,
    /// None if the certificate is invalid.
    subject: Option<Subject>,
}

impl Authenticator {
    /// Loads the files of CAs, and starts following them and the `ConfigMap`. Sends its reviews by `client`, which needs a
    /// rate limiter of its own.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(env: &Env, client: Client, options: AuthenticationOptions) -> Result<Self, AuthorityError> {
        let AuthenticationOptions {
            token_ttl,
            client_ca,
            request_header,
            lookup,
        } = options;
        let trust = Arc::new(Trust::default());
        let lookup = lookup && (client_ca.is_none() || request_header.is_none());
        if let Some(path) = client_ca {
            trust.watch_client_file(env, &path)?;
        }
        if let Some(RequestHeaderOptions { client_ca, names }) = request_header {
            trust.watch_request_header_file(env, &client_ca, names)?;
        }
        if lookup {
            let watch = trust
                .clone()
                .watch_config_map(env.clone(), Reader::clone(&client));
            env.tasks.spawn(watch);
        }
        Ok(Self {
            clock: env.clock.clone(),
            trust,
            tokens: TokenAuthenticator::new(env, client, token_ttl),
        })
    }

    pub(in crate::serve) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the user of a request. Invalid credentials are not an anonymous user.
    pub(in crate::serve) async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<User, Rejection> {
        let authorities = self.trust.current();
        let mut invalid = false;
        if let Some(Proxies { authority, names }) = &authorities.proxies {
            match self.verify(authority, peer) {
                Ok(Some(proxy)) if names.allows_proxy(&proxy.common_name) => {
                    let user = names.user(headers).map_err(|_| Rejection::Invalid)?;
                    if let Some(user) = user {
                        return Ok(user.authenticated());
                    }
                }
                Ok(None) => {}
                Ok(Some(_)) | Err(InvalidCertificate) => invalid = true,
            }
        }
        if let Some(authority) = &authorities.client {
            match self.verify(authority, peer) {
                Ok(Some(subject)) if !subject.common_name.is_empty() => {
                    let user = User {
                        name: subject.common_name,
                        groups: subject.organizations,
                        ..User::default()
                    };
                    return Ok(user.authenticated());
                }
                Ok(None) => {}
                Ok(Some(_)) | Err(InvalidCertificate) => invalid = true,
            }
        }
        if let Some(token) = token_review::bearer_token(headers) {
            return match self.tokens.authenticate(token, peer.address).await {
                Ok(Some(user)) => Ok(user.authenticated()),
                Ok(None) => Err(Rejection::Invalid),
                Err(reason) => Err(Rejection::NoDecision(reason)),
            };
        }
        if invalid {
            return Err(Rejection::Invalid);
        }
        Ok(User::anonymous())
    }

    /// Verifies the certificate of a client. Returns its subject; none without a certificate.
    fn verify(&self, authority: &Arc<Authority>, peer: &Peer) -> Result<Option<Subject>, InvalidCertificate> {
        if peer.certificates.is_empty() {
            return Ok(None);
        }
        let VerifiedSubjects(verified) = &peer.verified;
        let mut verified = verified.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        verified.retain(|it| it.until > now);
        let known = { verified.iter() }.find(|it| Arc::ptr_eq(&it.authority, authority));
        let subject = if let Some(known) = known {
            known.subject.clone()
        } else {
            let subject = authority.verify(&peer.certificates, self.clock.wall());
            if verified.len() >= AUTHORITIES_MAX {
                verified.remove(0);
            }
            verified.push(Verification {
                authority: authority.clone(),
                until: self.clock.after(VERIFICATION_TTL),
                subject: subject.clone(),
            });
            subject
        };
        subject.map(Some).ok_or(InvalidCertificate)
    }
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").finish_non_exhaustive()
    }
}
