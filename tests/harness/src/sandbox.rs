//! The default cluster: the sandbox, served over HTTPS from this process.

use std::net::{Ipv4Addr, SocketAddr};

use steersman_sandbox::{Authorization, Sandbox, Server};

use crate::{audit::AuditLog, cluster::Services, endpoint::Endpoint};

/// Starts the sandbox on a free loopback port. It runs until the runtime ends.
#[expect(
    clippy::disallowed_methods,
    reason = "the server belongs to the runtime, which ends it"
)]
pub async fn start(
    services: Services,
    audit: &AuditLog,
    enforce_owner_references: bool,
) -> Result<Endpoint, String> {
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .map_err(|e| e.to_string())?;
    let endpoint = Endpoint {
        url: server.url(),
        ca_pem: server.credentials().ca_pem.clone(),
        token: server.credentials().token.clone(),
    };
    // The options of the real tier.
    let sandbox = Sandbox::builder()
        .authorization(Authorization::Rbac)
        .audit(audit.hook())
        .enforce_owner_references(enforce_owner_references)
        .services(services)
        .start()
        .map_err(|e| e.to_string())?;
    let service = sandbox.service();
    tokio::spawn(server.serve(service, std::future::pending()));
    Ok(endpoint)
}
