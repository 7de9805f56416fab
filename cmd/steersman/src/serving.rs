//! The HTTPS port: its certificates, and the access to its endpoints.
//!
//! On a cluster the API server authenticates and authorizes clients. With `--sandbox` every client on this machine may
//! access all endpoints.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use steersman_config::{Authentication, ClientConnection, Config, RequestHeader, Serving};
use steersman_manager::client::{Client, ConnectError, RateLimit, Transport};
use steersman_manager::env::Env;
use steersman_manager::serve::{
    Access, AuthenticationOptions, Authenticator, AuthorizationOptions, Authorizer, CertificateFiles,
    RequestHeaderNames, RequestHeaderOptions, ServeError, Server, ServingCertificates, SniCertificate, Tls,
    TlsOptions, TlsVersion,
};
use steersman_manager::status;

use crate::cluster::{self, ClusterError};
use crate::error::{CertificateFlags, ProcessError};

/// The rate limit of reviews, apart from those of controllers: clients of the endpoints cause them.
const REVIEW_LIMIT: RateLimit = RateLimit { qps: 20.0, burst: 40 };

/// Binds the port on the runtime of `env`. Returns none if the port is disabled.
pub(crate) async fn bind(
    config: &Config,
    env: &Env,
) -> Result<Option<(Server, ServingCertificates)>, ProcessError> {
    let Serving {
        listen,
        certificate,
        sni_certificates,
        min_tls_version,
        cipher_suites,
        fallback,
    } = &config.serving;
    let Some(address) = *listen else {
        return Ok(None);
    };
    let mut certificates = match certificate {
        Some(files) => {
            let files = certificate_files(files);
            let loaded = ServingCertificates::from_files(files.clone());
            loaded.map_err(|error| ProcessError::certificate(error, &files, CertificateFlags::DEFAULT))?
        }
        None => ServingCertificates::self_signed(["localhost".to_owned(), address.ip().to_string()])?,
    };
    for certificate in sni_certificates {
        let files = certificate_files(&certificate.files);
        let added = certificates.with_sni(SniCertificate {
            files: files.clone(),
            names: certificate.names.clone(),
        });
        certificates =
            added.map_err(|error| ProcessError::certificate(error, &files, CertificateFlags::SNI))?;
    }
    let tls = certificates.tls(&TlsOptions {
        min_version: match min_tls_version {
            steersman_config::TlsVersion::Tls12 => TlsVersion::Tls12,
            steersman_config::TlsVersion::Tls13 => TlsVersion::Tls13,
        },
        cipher_suites: cipher_suites.clone(),
        // A browser would ask for a certificate, which the sandbox does not use.
        request_client_certificates: config.sandbox.is_none(),
    })?;
    let server = match bind_address(env, address, tls.clone()).await {
        Err(ServeError::Bind { address, source })
            if *fallback && source.kind() == io::ErrorKind::AddrInUse =>
        {
            bind_address(env, SocketAddr::new(address.ip(), 0), tls).await
        }
        server => server,
    };
    Ok(Some((server?, certificates)))
}

/// Binds the port. The listener belongs to the runtime on which it is bound.
async fn bind_address(env: &Env, address: SocketAddr, tls: Tls) -> Result<Server, ServeError> {
    let bound = env.tasks.spawn(Server::bind(address, tls)).await;
    bound.unwrap_or_else(|error| {
        let source = io::Error::other(error);
        Err(ServeError::Bind { address, source })
    })
}

fn certificate_files(files: &steersman_config::CertificateFiles) -> CertificateFiles {
    CertificateFiles {
        certificate: files.certificate.clone(),
        private_key: files.private_key.clone(),
    }
}

/// Returns the access to the endpoints. Reviews are sent by `transport` unless another kubeconfig is given.
pub(crate) async fn access(
    config: &Config,
    env: &Env,
    transport: &Transport,
) -> Result<Access, ProcessError> {
    let allowed = config.authorization.always_allow_paths.iter();
    // The page is static; its data are not.
    let access = Access::new(allowed.map(String::as_str).chain([status::PAGE_PATH]))?;
    if config.sandbox.is_some() {
        return Ok(access.allow_loopback());
    }
    let (authentication, authorization) = (&config.authentication, &config.authorization);
    let token_reviews = review_client(
        env,
        transport,
        "authentication",
        "--authentication-kubeconfig",
        authentication.kubeconfig.as_deref(),
    );
    let access_reviews = review_client(
        env,
        transport,
        "authorization",
        "--authorization-kubeconfig",
        authorization.kubeconfig.as_deref(),
    );
    // Both before the authenticator starts: an invalid kubeconfig is the only output.
    let (token_reviews, access_reviews) = (token_reviews.await?, access_reviews.await?);
    let authenticator = Authenticator::start(env, token_reviews, authentication_options(authentication))?;
    let options = AuthorizationOptions {
        authorized_ttl: authorization.authorized_ttl,
        unauthorized_ttl: authorization.unauthorized_ttl,
    };
    Ok(access.delegated(authenticator, Authorizer::new(env, access_reviews, options)))
}

fn authentication_options(authentication: &Authentication) -> AuthenticationOptions {
    let Authentication {
        kubeconfig: _,
        skip_lookup,
        token_cache_ttl,
        client_ca,
        request_header,
    } = authentication.clone();
    AuthenticationOptions {
        token_ttl: token_cache_ttl,
        client_ca,
        request_header: request_header.map(|header| {
            let RequestHeader {
                client_ca,
                allowed_names,
                username_headers,
                uid_headers,
                group_headers,
                extra_headers_prefixes,
            } = header;
            let names = RequestHeaderNames {
                allowed_names,
                username_headers,
                uid_headers,
                group_headers,
                extra_headers_prefixes,
            };
            RequestHeaderOptions { client_ca, names }
        }),
        lookup: !skip_lookup,
    }
}

async fn review_client(
    env: &Env,
    transport: &Transport,
    name: &str,
    flag: &'static str,
    kubeconfig: Option<&Path>,
) -> Result<Client, ProcessError> {
    let Some(path) = kubeconfig else {
        return Ok(transport.unfenced(name, Some(REVIEW_LIMIT)));
    };
    let connection = ClientConnection {
        kubeconfig: Some(path.to_owned()),
        master: None,
        rate: None,
    };
    let invalid = |reason| ProcessError::ReviewKubeconfig {
        path: path.to_owned(),
        reason,
        flag,
    };
    let config = cluster::config(&connection).await.map_err(|error| match error {
        ClusterError::Kubeconfig { reason, .. } => invalid(reason),
        error => error.into(),
    })?;
    let connected = transport.reconnect_on(&env.tasks, config).await;
    let connected = connected.map_err(|error| match error {
        ConnectError::Config { reason, .. } => invalid(reason),
        error @ ConnectError::Metrics(_) => error.into(),
    })?;
    Ok(connected.unfenced(name, Some(REVIEW_LIMIT)))
}
