//! Types and parsers of flag values. The messages complete "invalid value for --flag:".

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};

use crate::config::{CertificateFiles, LogFormat, SniCertificate, TlsVersion};

/// The value name of boolean flags.
pub(crate) const BOOL: &str = "BOOL";

/// A boolean, in the spellings of Go's `strconv.ParseBool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch(pub(crate) bool);

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Self(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Self(false)),
            _ => Err("it must be `true` or `false`".to_owned()),
        }
    }
}

/// Accepts any bytes. An empty path is treated as a missing flag.
pub(super) fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

pub(super) fn whole(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "it must be an integer".to_owned())
}

pub(super) fn float(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "it must be a number".to_owned())
}

pub(super) fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "it must be an IP address".to_owned())
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "it must be an IP address and a port, as in `127.0.0.1:0`".to_owned())
}

pub(super) fn log_format() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(["text", "json"]).map(|text| match text.as_str() {
        "json" => LogFormat::Json,
        _ => LogFormat::Text,
    })
}

pub(super) fn tls_version() -> impl TypedValueParser<Value = TlsVersion> {
    PossibleValuesParser::new(["VersionTLS12", "VersionTLS13"]).map(|text| match text.as_str() {
        "VersionTLS13" => TlsVersion::Tls13,
        _ => TlsVersion::Tls12,
    })
}

impl FromStr for SniCertificate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (files, names) = match text.split_once(':') {
            Some((files, names)) => (
                files,
                names.split(',').map(|name| name.trim().to_owned()).collect(),
            ),
            None => (text, Vec::new()),
        };
        match files.split(',').map(str::trim).collect::<Vec<_>>()[..] {
            [certificate, private_key] if !certificate.is_empty() && !private_key.is_empty() => Ok(Self {
                files: CertificateFiles {
                    certificate: certificate.into(),
                    private_key: private_key.into(),
                },
                names,
            }),
            _ => Err("it must be the paths of a certificate and a key, separated by a comma".to_owned()),
        }
    }
}
