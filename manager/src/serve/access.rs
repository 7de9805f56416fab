//! Authentication and authorization of requests.
//!
//! Every client may access the allowed paths, without any request to the API server. All other paths need a user that
//! [`Access::delegated`] authenticates and authorizes, or with [`Access::allow_loopback`] a client on this machine.
//! Otherwise the response is a `Status` as of an API server: 401 for invalid credentials, 403 for a user without the right,
//! 429 and 503 if the API server could not be asked.

use std::net::IpAddr;

use http::request::Parts;

use super::ServeError;
use super::allowed_paths::AllowedPaths;
use super::auth::User;
use super::connection::{HttpResponse, Peer};
use super::status;

/// The access rules of a server.
#[derive(Clone, Debug)]
pub struct Access {
    allowed: AllowedPaths,
    loopback: bool,
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
        })
    }

    /// Allows all paths for clients on this machine, for demos and tests.
    #[must_use]
    pub fn allow_loopback(mut self) -> Self {
        self.loopback = true;
        self
    }

    /// Authorizes a request, and adds its [`User`] and [`Authorized`] to its extensions. Otherwise returns the response.
    pub(super) async fn authorize(&self, peer: &Peer, request: &mut Parts) -> Result<(), Box<HttpResponse>> {
        if self.loopback && is_local(peer.address) {
            request.extensions.insert(User::anonymous());
            request.extensions.insert(Authorized);
            return Ok(());
        }
        let path = request.uri.path();
        if self.allowed.contains(path) {
            request.extensions.insert(User::anonymous());
            return Ok(());
        }
        Err(Box::new(status::forbidden(
            &User::anonymous(),
            &request.method,
            path,
        )))
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
