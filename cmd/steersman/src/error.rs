//! The reason why the process failed.

use std::io;
use std::path::{Path, PathBuf};

use steersman_manager::client::ConnectError;
use steersman_manager::manager::RunError;
use steersman_manager::serve::{AuthorityError, AuthorityOption, CertificateFiles, ServeError, TlsError};
use steersman_manager::webhook::WebhookError;

use crate::cluster::ClusterError;
use crate::demo::SandboxError;
use crate::traces::TracesError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
    /// An error of an option that flags set, and the flags to change.
    #[error("{error}; {advice}")]
    Flags {
        error: Box<dyn std::error::Error + Send + Sync>,
        advice: String,
    },
    #[error("cannot use the kubeconfig {path}: {reason}; check {flag}", path = .path.display())]
    ReviewKubeconfig {
        path: PathBuf,
        reason: String,
        flag: &'static str,
    },
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Traces(#[from] TracesError),
    #[error("cannot register the metrics of the process: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The manager cannot be built.
    #[error(transparent)]
    Build(RunError),
    /// The running manager has failed.
    #[error(transparent)]
    Run(RunError),
}

/// The flags that name the files of a certificate and its private key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CertificateFlags {
    certificate: &'static str,
    private_key: &'static str,
    both: &'static str,
}

impl CertificateFlags {
    /// The flags of the default certificate.
    pub(crate) const DEFAULT: Self = Self {
        certificate: "--tls-cert-file",
        private_key: "--tls-private-key-file",
        both: "--tls-cert-file and --tls-private-key-file",
    };
    /// The flag of a certificate for some server names.
    pub(crate) const SNI: Self = Self {
        certificate: "--tls-sni-cert-key",
        private_key: "--tls-sni-cert-key",
        both: "--tls-sni-cert-key",
    };
}

impl ProcessError {
    fn flags(error: impl std::error::Error + Send + Sync + 'static, advice: impl Into<String>) -> Self {
        Self::Flags {
            error: error.into(),
            advice: advice.into(),
        }
    }

    /// An error of the certificate in `files`.
    pub(crate) fn certificate(error: TlsError, files: &CertificateFiles, flags: CertificateFlags) -> Self {
        let flag = |path: &Path| {
            if path == files.certificate {
                flags.certificate
            } else {
                flags.private_key
            }
        };
        let advice = match &error {
            TlsError::Read { path, .. } => format!("{} must name a readable file", flag(path)),
            TlsError::Pem { path, .. } => format!("{} must name a PEM file with one", flag(path)),
            TlsError::Mismatch { .. } => {
                format!("{} must name the key of this certificate", flags.private_key)
            }
            _ => format!(
                "{} must name a certificate and its key (RSA, ECDSA or Ed25519)",
                flags.both
            ),
        };
        Self::flags(error, advice)
    }

    /// Whether nothing was started yet: the error is then printed like one of the command line.
    pub(crate) fn is_before_start(&self) -> bool {
        !matches!(self, Self::Run(_))
    }
}

/// The options of TLS. Errors of files are [`ProcessError::certificate`].
impl From<TlsError> for ProcessError {
    fn from(error: TlsError) -> Self {
        let advice = match &error {
            TlsError::CipherSuite { .. } => "check --tls-cipher-suites",
            _ => "use --tls-cert-file and --tls-private-key-file",
        };
        Self::flags(error, advice)
    }
}

impl From<ServeError> for ProcessError {
    fn from(error: ServeError) -> Self {
        let advice = match error {
            ServeError::Bind { .. } => {
                "choose another port with --secure-port, or another address with --bind-address"
            }
            ServeError::AllowedPath { .. } => "check --authorization-always-allow-paths",
            ServeError::Metrics(error) => return error.into(),
        };
        Self::flags(error, advice)
    }
}

impl From<AuthorityError> for ProcessError {
    fn from(error: AuthorityError) -> Self {
        let flag = match error.option {
            AuthorityOption::Clients => "--client-ca-file",
            AuthorityOption::RequestHeader => "--requestheader-client-ca-file",
        };
        let advice = format!("{flag} must name a PEM file of CA certificates");
        Self::flags(error, advice)
    }
}

/// Errors while the manager is built.
impl From<RunError> for ProcessError {
    fn from(error: RunError) -> Self {
        let advice = match &error {
            RunError::Webhook(WebhookError::Bind { .. }) => "choose another port with --webhook-port",
            RunError::Webhook(WebhookError::Tls(TlsError::ClientCa { .. })) => {
                "--webhook-client-ca-file must name a PEM file of CA certificates"
            }
            RunError::Webhook(WebhookError::Tls(_)) => {
                "--webhook-cert-dir must name a directory with a certificate, tls.crt, and its key, tls.key"
            }
            _ => return Self::Build(error),
        };
        Self::flags(error, advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use steersman_manager::serve::{Access, ServingCertificates, TlsOptions};

    #[test]
    fn errors_of_options_name_the_flags() {
        let path = || PathBuf::from("/a");
        let reason = || "bad".to_owned();
        let bind = || {
            (
                "127.0.0.1:1".parse().expect("an address"),
                io::Error::other("bad"),
            )
        };
        let (address, source) = bind();
        let endpoints = ServeError::Bind { address, source };
        let (address, source) = bind();
        let webhooks = WebhookError::Bind { address, source };
        let authority = |option| AuthorityError {
            path: path(),
            option,
            reason: reason(),
        };
        let client_ca = TlsError::ClientCa {
            path: path(),
            reason: reason(),
        };
        let suites = TlsOptions {
            cipher_suites: vec!["NULL".to_owned()],
            ..TlsOptions::default()
        };
        let certificates = ServingCertificates::self_signed([]).expect("a certificate");
        let suite = certificates.tls(&suites).err().expect("an unknown suite");
        let files = CertificateFiles {
            certificate: path(),
            private_key: PathBuf::from("/b"),
        };
        let read = |file: &str| TlsError::Read {
            path: file.into(),
            source: io::Error::other("bad"),
        };
        let default = |error| ProcessError::certificate(error, &files, CertificateFlags::DEFAULT);
        for (error, start, end) in [
            (
                endpoints.into(),
                "cannot listen on 127.0.0.1:1: bad;",
                "another port with --secure-port, or another address with --bind-address",
            ),
            (
                RunError::Webhook(webhooks).into(),
                "cannot listen for webhooks on",
                "; choose another port with --webhook-port",
            ),
            (
                Access::new(["a"]).err().expect("an invalid path").into(),
                "invalid path \"a\" ",
                "; check --authorization-always-allow-paths",
            ),
            (
                authority(AuthorityOption::Clients).into(),
                "invalid CA file /a: bad; --client-ca-file must name",
                "a PEM file of CA certificates",
            ),
            (
                authority(AuthorityOption::RequestHeader).into(),
                "invalid CA file /a: bad; --requestheader-client-ca-file must",
                "a PEM file of CA certificates",
            ),
            (
                RunError::Webhook(client_ca.into()).into(),
                "invalid client CA file /a: bad; --webhook-client-ca-file must name",
                "a PEM file of CA certificates",
            ),
            (
                suite.into(),
                "unknown cipher suite \"NULL\" ",
                "; check --tls-cipher-suites",
            ),
            (
                default(read("/a")),
                "cannot read /a: bad",
                "; --tls-cert-file must name a readable file",
            ),
            (
                default(read("/b")),
                "cannot read /b: bad",
                "; --tls-private-key-file must name a readable file",
            ),
        ] {
            let text: String = ProcessError::to_string(&error);
            assert!(text.starts_with(start) && text.ends_with(end), "{text}");
        }
    }
}
