//! Authentication and authorization of requests.
//!
//! Every client may access the allowed paths, without any request to the API server. All other paths need a user that
//! [`Access::delegated`] authenticates and authorizes, or with [`Access::allow_loopback`] a client on this machine.
//! Otherwise the response is a `Status` as of an API server: 401 for invalid credentials, 403 for a user without the right,
//! 429 and 503 if the API server could not be asked.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;

use super::ServeError;
use super::allowed_paths::AllowedPaths;
use super::auth::{Authenticator, Authorizer, NoDecision, Rejection, User};
use super::connection::{HttpResponse, Peer};
use super::status;

/// The delay that a client is asked for after 429 and 503.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The longest wait for reviews on an allowed path, less than the default timeout of a probe.
const NOTES_REVIEW_TIMEOUT: Duration = Duration::from_millis(500);

/// The access rules of a server.
#[derive(Clone)]
pub struct Access {
    allowed: AllowedPaths,
    loopback: bool,
    delegated: Option<Arc<Delegated>>,
}

struct Delegated {
    authenticator: Authenticator,
    authorizer: Authorizer,
}

/// Marks a request that was authorized beyond the allowed paths: notes and reasons may be shown.
#[derive(Clone, Copy, Debug)]
pub struct Authorized;

impl Access {
    /// Allows `always_allow_paths` for every client, and no other path: exact paths, or prefixes with a trailing `*`.
    pub fn new(always_allow_paths: impl IntoIterator<Item: Into<String>>) -> Result<Self, ServeError> {
        Ok(Self {
            allowed: AllowedPaths::new(always_allow_paths.into_iter().map(Into::into))?,
            loopback: false,
            delegated: None,
        })
    }

    /// Allows all paths for clients on this machine, for demos and tests.
    #[must_use]
    pub fn allow_loopback(mut self) -> Self {
        self.loopback = true;
        self
    }

    /// Allows the paths for which `authorizer` authorizes the user that `authenticator` returns.
    #[must_use]
    pub fn delegated(mut self, authenticator: Authenticator, authorizer: Authorizer) -> Self {
        self.delegated = Some(Arc::new(Delegated {
            authenticator,
            authorizer,
        }));
        self
    }

    /// Authorizes a request, and adds its [`User`] and [`Authorized`] to its extensions. Otherwise returns the response.
    /// Removes the credentials of the request.
    pub(super) async fn authorize(&self, peer: &Peer, request: &mut Parts) -> Result<(), Box<HttpResponse>> {
        let authorized = self.decide(peer, request).await;
        request.headers.remove(AUTHORIZATION);
        let (user, authorized) = authorized.map_err(Box::new)?;
        request.extensions.insert(user);
        if authorized {
            request.extensions.insert(Authorized);
        }
        Ok(())
    }

    /// Returns the user, and whether it is authorized beyond the allowed paths.
    async fn decide(&self, peer: &Peer, request: &Parts) -> Result<(User, bool), HttpResponse> {
        let path = request.uri.path();
        if self.loopback && is_local(peer.address) {
            return Ok((User::anonymous(), true));
        }
        let allowed = self.allowed.contains(path);
        let Some(delegated) = &self.delegated else {
            let user = User::anonymous();
            let forbidden = || status::forbidden(&user, &request.method, path);
            return if allowed {
                Ok((user, false))
            } else {
                Err(forbidden())
            };
        };
        if !allowed {
            return delegated.decide(peer, request).await.map(|user| (user, true));
        }
        // A probe never waits for the API server and never fails because of credentials. Only a client that asks for notes
        // and has credentials is reviewed.
        let verbose = request.uri.query().is_some_and(|it| it.contains("verbose"));
        let credentials = request.headers.contains_key(AUTHORIZATION) || !peer.certificates.is_empty();
        if verbose && credentials {
            let clock = delegated.authenticator.clock();
            let decided = delegated.decide(peer, request);
            if let Some(Ok(user)) = clock.timeout(NOTES_REVIEW_TIMEOUT, decided).await {
                return Ok((user, true));
            }
        }
        Ok((User::anonymous(), false))
    }
}

impl Delegated {
    async fn decide(&self, peer: &Peer, request: &Parts) -> Result<User, HttpResponse> {
        let user = self.authenticator.authenticate(peer, &request.headers).await;
        let user = user.map_err(|rejection| match rejection {
            Rejection::Invalid => status::unauthorized(),
            Rejection::NoDecision(reason) => undecided(reason, "the credentials cannot be verified"),
        })?;
        let (path, verb) = (request.uri.path(), status::verb(&request.method));
        let authorized = self.authorizer.authorize(&user, &verb, path, peer.address).await;
        match authorized {
            Ok(true) => Ok(user),
            Ok(false) => Err(status::forbidden(&user, &request.method, path)),
            Err(reason) => Err(undecided(reason, "the request cannot be authorized")),
        }
    }
}

fn undecided(reason: NoDecision, failed: &str) -> HttpResponse {
    match reason {
        NoDecision::TooManyReviews => status::too_many_requests(RETRY_AFTER),
        NoDecision::Unavailable => {
            let message =
                format!("{failed}: the API server did not answer or rejected the review, see the log");
            status::unavailable(&message, RETRY_AFTER)
        }
    }
}

/// Reports whether a client is on this machine.
fn is_local(peer: IpAddr) -> bool {
    // A dual-stack socket reports an IPv4 client as `::ffff:a.b.c.d`.
    peer.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::{Ipv4Addr, Ipv6Addr};

    #[tokio::test]
    async fn loopback_is_allowed_only_if_configured() {
        let none = Access::new([""; 0]).expect("valid paths");
        let loopback = none.clone().allow_loopback();
        let allows = async |access: &Access, address: IpAddr| {
            let (mut parts, ()) = http::Request::get("/metrics")
                .body(())
                .expect("a request")
                .into_parts();
            access.authorize(&Peer::at(address), &mut parts).await.is_ok()
        };
        let mapped = |a, b| IpAddr::V6(Ipv4Addr::new(a, 0, 0, b).to_ipv6_mapped());
        for peer in [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V4(Ipv4Addr::new(127, 8, 9, 10)),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
            mapped(127, 1),
        ] {
            assert!(allows(&loopback, peer).await, "{peer}");
            assert!(!allows(&none, peer).await, "{peer}");
        }
        for peer in [
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)),
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            mapped(10, 1),
            // The deprecated IPv4-compatible form, which is not IPv4-mapped.
            IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0x7f00, 1)),
        ] {
            assert!(!allows(&loopback, peer).await, "{peer}");
        }
    }
}
