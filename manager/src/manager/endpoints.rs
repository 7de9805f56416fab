//! The health, metrics and status endpoints of a process.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::builder::{ManagerBuilder, RunError};
use super::instance::Instance;
use super::servers::RunningServer;
use crate::client::{RateLimit, Transport};
use crate::env::Env;
use crate::health::Checks;
use crate::metrics::Registry;
use crate::serve::{
    ALWAYS_ALLOW_PATHS, Access, AuthenticationOptions, Authenticator, AuthorizationOptions, Authorizer,
    CertificateFiles, CertificateMetrics, Endpoints, Server, ServingCertificates, TlsOptions,
};
use crate::status::{self, StatusReporter};

/// The rate limit of reviews of requests to the endpoints.
const REVIEW_LIMIT: RateLimit = RateLimit { qps: 20.0, burst: 40 };
/// The time for which a decision about a request to the endpoints is not reviewed again.
const REVIEW_TTL: Duration = Duration::from_secs(10);

/// The text is not a socket address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid address {0:?}: it must have an IP address and a port, such as 0.0.0.0:8443")]
pub struct InvalidAddress(String);

/// The requested server.
#[derive(Default)]
pub(super) struct RequestedEndpoints {
    server: Option<RequestedServer>,
    certificate: Option<CertificateFiles>,
}

enum RequestedServer {
    At(Result<SocketAddr, InvalidAddress>),
    Bound(Server, ServingCertificates, Access),
}

/// A bound server that does not accept connections yet.
pub(super) struct BoundEndpoints {
    pub(super) server: Server,
    endpoints: Endpoints,
    /// Applied after the last controller was added.
    pub(super) extensions: Vec<Box<dyn FnOnce(Endpoints) -> Endpoints + Send>>,
}

impl ManagerBuilder {
    /// Serves health, metrics and status over HTTPS at an address such as `0.0.0.0:8443`. Health checks need no
    /// authorization; for all other paths, the API server authenticates and authorizes the client. Without a
    /// [certificate](ManagerBuilder::certificate), the server generates one.
    pub fn endpoints(mut self, address: &str) -> Self {
        self.endpoints.server = Some(RequestedServer::At(parse(address)));
        self
    }

    /// Serves the endpoints with the certificate in these files, which are reloaded when they change.
    pub fn certificate(mut self, files: CertificateFiles) -> Self {
        self.endpoints.certificate = Some(files);
        self
    }

    /// Serves the endpoints on a bound server, with its own TLS options and access. Bind it on the runtime of
    /// [`Process::control_env`](super::Process::control_env), which serves it.
    pub fn endpoints_on(mut self, server: Server, certificates: ServingCertificates, access: Access) -> Self {
        self.endpoints.server = Some(RequestedServer::Bound(server, certificates, access));
        self
    }

    pub(super) fn without_endpoints(&mut self) {
        self.endpoints.server = None;
    }
}

impl Instance {
    /// Adds endpoints, or replaces those of the same path. Does nothing if the manager serves no endpoints.
    pub fn extend_endpoints(&mut self, extend: impl FnOnce(Endpoints) -> Endpoints + Send + 'static) {
        if let Some(endpoints) = &mut self.endpoints {
            endpoints.extensions.push(Box::new(extend));
        }
    }

    /// Returns the address of the endpoints.
    #[must_use]
    pub fn endpoints_address(&self) -> Option<SocketAddr> {
        self.endpoints.as_ref().map(|it| it.server.address())
    }
}

impl RequestedEndpoints {
    /// Binds the server in `env`, unless it is bound already; none without a server.
    pub(super) async fn bind(
        self,
        env: &Env,
        transport: &Transport,
        registry: &Registry,
        checks: &Checks,
        metrics: &CertificateMetrics,
    ) -> Result<Option<BoundEndpoints>, RunError> {
        let (server, certificates, access) = match self.server {
            None => return Ok(None),
            Some(RequestedServer::Bound(server, certificates, access)) => (server, certificates, access),
            Some(RequestedServer::At(address)) => {
                // The listener belongs to the runtime on which it is bound.
                let bound = env.tasks.spawn(bind(address?, self.certificate));
                let (server, certificates) = bound.await.map_err(io::Error::other)??;
                (server, certificates, access(env, transport)?)
            }
        };
        certificates.watch(env, metrics);
        let endpoints = Endpoints::new(checks, registry.clone(), access, &env.clock)?;
        Ok(Some(BoundEndpoints {
            server,
            endpoints,
            extensions: Vec::new(),
        }))
    }
}

impl BoundEndpoints {
    pub(super) fn start(self, env: &Env, reporter: StatusReporter) -> RunningServer {
        let mut endpoints = self
            .endpoints
            .mount(status::PAGE_PATH, |_| std::future::ready(status::page()))
            .mount(status::STATUS_PATH, move |_| {
                std::future::ready(reporter.answer())
            });
        tracing::info!(address = %self.server.address(), "Serving endpoints");
        for extend in self.extensions {
            endpoints = extend(endpoints);
        }
        let stop = CancellationToken::new();
        let (server, of_server, until) = (self.server, env.clone(), stop.clone());
        let serve = async move { server.serve(of_server, endpoints, until.cancelled()).await };
        RunningServer {
            name: "server of health and metrics endpoints",
            stop,
            ended: env.tasks.spawn(serve),
        }
    }
}

pub(super) fn parse(address: &str) -> Result<SocketAddr, InvalidAddress> {
    { address.parse() }.map_err(|_| InvalidAddress(address.to_owned()))
}

async fn bind(
    address: SocketAddr,
    files: Option<CertificateFiles>,
) -> Result<(Server, ServingCertificates), RunError> {
    let certificates = match files {
        Some(files) => ServingCertificates::from_files(files)?,
        None => ServingCertificates::self_signed(["localhost".to_owned(), address.ip().to_string()])?,
    };
    let tls = certificates.tls(&TlsOptions {
        request_client_certificates: true,
        ..TlsOptions::default()
    })?;
    Ok((Server::bind(address, tls).await?, certificates))
}

/// Returns the access to the endpoints: the API server authenticates and authorizes clients.
fn access(env: &Env, transport: &Transport) -> Result<Access, RunError> {
    let reviews = |name: &str| transport.unfenced(name, Some(REVIEW_LIMIT));
    let authentication = AuthenticationOptions {
        token_ttl: REVIEW_TTL,
        client_ca: None,
        request_header: None,
        lookup: true,
    };
    let authorization = AuthorizationOptions {
        authorized_ttl: REVIEW_TTL,
        unauthorized_ttl: REVIEW_TTL,
    };
    // The page is static; its data are not.
    let access = Access::new(ALWAYS_ALLOW_PATHS.into_iter().chain([status::PAGE_PATH]))?;
    Ok(access.delegated(
        Authenticator::start(env, reviews("authentication"), authentication)?,
        Authorizer::new(env, reviews("authorization"), authorization),
    ))
}
