//! Flags of the HTTPS ports, and of logs, traces and profiles.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr as _;

use clap::{ArgAction, Args};

use super::values::{BOOL, Switch, ip, log_format, path, tls_version, whole};
use crate::config::{LogFormat, SniCertificate, TlsVersion};
use crate::duration::GoDuration;

#[derive(Debug, Args)]
#[command(next_help_heading = "Secure serving flags")]
pub(crate) struct ServingFlags {
    /// Port that serves health and metrics over HTTPS; 0 disables it; with --sandbox, the default is replaced by a free port if it is
    /// in use
    #[arg(long, id = "serving.securePort", value_name = "PORT", default_value = "10257", value_parser = whole)]
    pub(crate) secure_port: i64,
    /// IP address to listen on; `0.0.0.0` and `::` listen on all interfaces; defaults to 127.0.0.1 with --sandbox
    #[arg(long, id = "serving.bindAddress", value_name = "IP", default_value = "0.0.0.0", value_parser = ip)]
    pub(crate) bind_address: IpAddr,
    /// File with the PEM-encoded serving certificate, followed by its issuers; without it, a self-signed certificate is
    /// generated at start
    #[arg(long, id = "serving.tlsCertFile", value_name = "FILE", value_parser = path())]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// File with the PEM-encoded private key of --tls-cert-file
    #[arg(long, id = "serving.tlsPrivateKeyFile", value_name = "FILE", value_parser = path())]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Lowest TLS version: `VersionTLS12` or `VersionTLS13`
    #[arg(long, id = "serving.tlsMinVersion", value_name = "VERSION", default_value = "VersionTLS12", value_parser = tls_version())]
    pub(crate) tls_min_version: TlsVersion,
    /// Cipher suites of TLS 1.2 and 1.3 by their IANA names; defaults to all suites of the TLS library
    #[arg(long, id = "serving.tlsCipherSuites", value_name = "LIST", action = ArgAction::Append)]
    pub(crate) tls_cipher_suites: Vec<String>,
    /// Additional certificate and key file, and optionally the domain names that it is served for, as in
    /// `foo.crt,foo.key:foo.com,*.foo.com`; without names, those of the certificate apply; may be repeated
    #[arg(long, id = "serving.tlsSNICertKeys", value_name = "CERT,KEY[:NAMES]", action = ArgAction::Append, value_parser = SniCertificate::from_str)]
    pub(crate) tls_sni_cert_key: Vec<SniCertificate>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Authentication flags")]
pub(crate) struct AuthenticationFlags {
    /// Path to a kubeconfig file for `TokenReviews`; defaults to the manager's own connection
    #[arg(long, id = "authentication.kubeconfig", value_name = "FILE", value_parser = path())]
    pub(crate) authentication_kubeconfig: Option<PathBuf>,
    /// Do not read the authentication configuration of the cluster, `ConfigMap`
    /// kube-system/extension-apiserver-authentication
    #[arg(long, id = "authentication.skipLookup", value_name = BOOL, default_value = "false")]
    pub(crate) authentication_skip_lookup: Switch,
    /// Time to cache the results of `TokenReviews`
    #[arg(
        long,
        id = "authentication.tokenWebhookCacheTTL",
        value_name = "DURATION",
        default_value = "10s"
    )]
    pub(crate) authentication_token_webhook_cache_ttl: GoDuration,
    /// File with PEM-encoded certificate authorities: a client certificate of one of them authenticates the user of its
    /// common name
    #[arg(long, id = "authentication.clientCAFile", value_name = "FILE", value_parser = path())]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// File with PEM-encoded certificate authorities of authenticating proxies, whose headers name the user
    #[arg(long, id = "authentication.requestHeader.clientCAFile", value_name = "FILE", value_parser = path())]
    pub(crate) requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of the client certificates of authenticating proxies; defaults to all names
    #[arg(long, id = "authentication.requestHeader.allowedNames", value_name = "LIST", action = ArgAction::Append)]
    pub(crate) requestheader_allowed_names: Vec<String>,
    /// Request headers with the name of the user; the first that is present wins
    #[arg(long, id = "authentication.requestHeader.usernameHeaders", value_name = "LIST", default_value = "x-remote-user", action = ArgAction::Append)]
    pub(crate) requestheader_username_headers: Vec<String>,
    /// Request headers with the uid of the user
    #[arg(long, id = "authentication.requestHeader.uidHeaders", value_name = "LIST", action = ArgAction::Append)]
    pub(crate) requestheader_uid_headers: Vec<String>,
    /// Request headers with the groups of the user
    #[arg(long, id = "authentication.requestHeader.groupHeaders", value_name = "LIST", default_value = "x-remote-group", action = ArgAction::Append)]
    pub(crate) requestheader_group_headers: Vec<String>,
    /// Prefixes of request headers with additional attributes of the user
    #[arg(long, id = "authentication.requestHeader.extraHeadersPrefix", value_name = "LIST", default_value = "x-remote-extra-", action = ArgAction::Append)]
    pub(crate) requestheader_extra_headers_prefix: Vec<String>,
}

#[expect(clippy::struct_field_names, reason = "a field is named as its flag")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Authorization flags")]
pub(crate) struct AuthorizationFlags {
    /// Path to a kubeconfig file for `SubjectAccessReviews`; defaults to the manager's own connection
    #[arg(long, id = "authorization.kubeconfig", value_name = "FILE", value_parser = path())]
    pub(crate) authorization_kubeconfig: Option<PathBuf>,
    /// Paths that are served without authorization; a trailing `*` matches any suffix
    #[arg(long, id = "authorization.alwaysAllowPaths", value_name = "LIST", default_value = "/healthz,/readyz,/livez", action = ArgAction::Append)]
    pub(crate) authorization_always_allow_paths: Vec<String>,
    /// Time to cache that a user is authorized
    #[arg(
        long,
        id = "authorization.webhookCacheAuthorizedTTL",
        value_name = "DURATION",
        default_value = "10s"
    )]
    pub(crate) authorization_webhook_cache_authorized_ttl: GoDuration,
    /// Time to cache that a user is not authorized
    #[arg(
        long,
        id = "authorization.webhookCacheUnauthorizedTTL",
        value_name = "DURATION",
        default_value = "10s"
    )]
    pub(crate) authorization_webhook_cache_unauthorized_ttl: GoDuration,
}

#[expect(clippy::struct_field_names, reason = "a field is named as its flag")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Webhook flags")]
pub(crate) struct WebhookFlags {
    /// Port that serves admission webhooks over HTTPS, on --bind-address; 0 disables them
    #[arg(long, id = "webhook.port", value_name = "PORT", default_value = "0", value_parser = whole)]
    pub(crate) webhook_port: i64,
    /// Service through which the API server calls the webhooks; a certificate is issued for it, renewed, stored in the
    /// Secret of that name, and its CA is injected into the webhook configurations of that name
    #[arg(
        long,
        id = "webhook.service",
        value_name = "NAMESPACE/NAME",
        default_value = "kube-system/steersman-webhook"
    )]
    pub(crate) webhook_service: String,
    /// Directory with `tls.crt` and `tls.key` for the webhooks, reloaded when they change; replaces the issued certificate
    #[arg(long, id = "webhook.certDir", value_name = "DIRECTORY", value_parser = path())]
    pub(crate) webhook_cert_dir: Option<PathBuf>,
    /// File with PEM-encoded certificate authorities: webhooks are then served only to clients, such as the API server, with
    /// a certificate of one of them
    #[arg(long, id = "webhook.clientCAFile", value_name = "FILE", value_parser = path())]
    pub(crate) webhook_client_ca_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Logs flags")]
pub(crate) struct LoggingFlags {
    /// Log format: `text` or `json`
    #[arg(long, id = "logging.format", value_name = "FORMAT", default_value = "text", value_parser = log_format())]
    pub(crate) logging_format: LogFormat,
    /// Log verbosity: 0 for operators, 2 adds changes made by controllers, 4 adds every step
    #[arg(long, short, id = "logging.verbosity", value_name = "INT", default_value = "0", value_parser = whole)]
    pub(crate) v: i64,
    /// Verbosities of single source files, as in `reflector=4,serve/*=5`: a pattern matches the name of a file without
    /// `.rs`, or with a `/` its path; `*` and `?` are wildcards
    #[arg(long, id = "logging.vmodule", value_name = "PATTERN=INT,...", action = ArgAction::Append)]
    pub(crate) vmodule: Vec<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Traces flags")]
pub(crate) struct TracingFlags {
    /// URL of the OpenTelemetry collector that traces are sent to, as in `https://collector:4318`; `http://` is allowed for
    /// loopback addresses only; without it, no traces are recorded
    #[arg(long, id = "tracing.endpoint", value_name = "URL")]
    pub(crate) tracing_endpoint: Option<String>,
    /// Number of traces that are recorded per million
    #[arg(long, id = "tracing.samplingRatePerMillion", value_name = "INT", default_value = "1000000", value_parser = whole)]
    pub(crate) tracing_sampling_rate_per_million: i64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Debugging flags")]
pub(crate) struct DebuggingFlags {
    /// Serve CPU and heap profiles below /debug/pprof/
    #[arg(long, id = "debugging.enableProfiling", value_name = BOOL, default_value = "true")]
    pub(crate) profiling: Switch,
}
