//! Validates flags and converts them to a [`Config`].
//!
//! All errors are reported at once. Flags are destructured exhaustively, so that an unused flag does not compile. Fields are
//! named by their path in the configuration file; a message names the flag or the field that has the value.

mod clients;
mod controllers;
mod endpoints;
mod insight;
mod manager;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use crate::config::Config;
use crate::duration::GoDuration;
use crate::effective::{self, Overrides};
use crate::error::Invalid;
use crate::flags::{FileFlags, Flags, GlobalFlags};
use crate::selector::Known;
use crate::sources::Sources;

/// Validates the flags.
pub(crate) fn config(flags: Flags, sources: &Sources<'_>, known: &Known) -> Result<Config, Vec<Invalid>> {
    let Flags {
        generic,
        file:
            FileFlags {
                config: _,
                validate_only: _,
                write_config_to: _,
            },
        client,
        election,
        mut serving,
        authentication,
        authorization,
        webhook,
        logging,
        tracing,
        debugging,
        app_services,
        deployments,
        garbage_collector,
        hollow_kubelet,
        replicas,
        sandbox,
        global: GlobalFlags { help: _, version: _ },
        command: _,
    } = flags;
    let mut validator = Validator {
        errors: Vec::new(),
        sources,
    };
    let is_sandbox = sandbox.sandbox.0;
    let mut overrides = Overrides::new();
    if is_sandbox {
        validator.own_api_server(&client);
        // The sandbox is for one machine.
        if !sources.given("serving.bindAddress") {
            serving.bind_address = Ipv4Addr::LOCALHOST.into();
            overrides.insert("serving.bindAddress", Some(serving.bind_address.to_string()));
        }
    }
    let fallback = is_sandbox && !sources.given("serving.securePort");
    if fallback {
        // The port is not known before it is bound.
        overrides.insert("serving.securePort", None);
    }
    let bind_address = serving.bind_address;
    let config = Config {
        generic: validator.generic(generic, is_sandbox, &known.controllers, &mut overrides),
        client_connection: validator.client(client, is_sandbox, &mut overrides),
        leader_election: validator.election(election),
        serving: validator.serving(serving, fallback),
        authentication: validator.authentication(authentication),
        authorization: validator.authorization(authorization),
        webhook: validator.webhook(webhook, bind_address),
        logging: validator.logging(&logging),
        tracing: validator.tracing(tracing),
        debugging: validator.debugging(&debugging),
        garbage_collector: validator.garbage_collector(&garbage_collector),
        hollow_kubelet: validator.hollow_kubelet(&hollow_kubelet),
        app_services: validator.app_services(app_services, known.is_image),
        deployments: validator.deployments(&deployments),
        replicas: validator.replicas(&replicas),
        sandbox: validator.sandbox(sandbox),
        flags: effective::flags(sources, &overrides),
        document: effective::document(sources, &overrides),
    };
    if validator.errors.is_empty() {
        Ok(config)
    } else {
        Err(validator.errors)
    }
}

/// Collects errors. A failed check returns a placeholder, which is discarded with the configuration.
struct Validator<'a> {
    errors: Vec<Invalid>,
    sources: &'a Sources<'a>,
}

impl Validator<'_> {
    fn contradiction(&mut self, sentence: String) {
        self.errors.push(Invalid::Combination(sentence));
    }

    /// The name of a field in messages.
    fn place(&self, field: &str) -> String {
        self.sources.place(field)
    }

    fn require(
        &mut self,
        holds: bool,
        field: &str,
        allowed: impl Into<String>,
        value: impl std::fmt::Display,
    ) {
        if !holds {
            self.errors.push(Invalid::Value {
                place: self.place(field),
                allowed: allowed.into(),
                value: value.to_string(),
            });
        }
    }

    fn not_negative(&mut self, field: &str, duration: GoDuration) -> Duration {
        let std = duration.to_std();
        self.require(std.is_some(), field, "0s or longer", duration);
        std.unwrap_or_default()
    }

    fn at_least_one(&mut self, field: &str, value: i64) -> u32 {
        let number = u32::try_from(value).ok().filter(|number| *number > 0);
        self.require(number.is_some(), field, format!("from 1 to {}", u32::MAX), value);
        number.unwrap_or(1)
    }

    fn port(&mut self, field: &str, value: i64) -> u16 {
        let port = u16::try_from(value);
        self.require(port.is_ok(), field, "from 0 to 65535", value);
        port.unwrap_or_default()
    }

    /// Checks an optional URL. An empty URL is treated as a missing one. URLs are shown in logs and pages: they must not
    /// contain credentials.
    fn url(&mut self, field: &str, url: Option<String>) -> Option<String> {
        let url = url.filter(|url| !url.is_empty())?;
        let rest = url
            .strip_prefix("https://")
            .or_else(|| url.strip_prefix("http://"));
        let authority = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
        if authority.is_some_and(|authority| authority.contains('@')) {
            let place = self.place(field);
            self.contradiction(format!("{place} must not contain a user name or a password"));
        } else {
            let allowed = "a URL that starts with https:// or http://";
            self.require(authority.is_some(), field, allowed, format_args!("{url:?}"));
        }
        Some(url)
    }

    /// Checks an optional URL of data that may leave this machine encrypted only.
    fn encrypted_url(&mut self, field: &str, url: Option<String>) -> Option<String> {
        let errors = self.errors.len();
        let url = self.url(field, url)?;
        // The message must not show a URL with credentials.
        if self.errors.len() == errors {
            let is_allowed = url.strip_prefix("http://").is_none_or(is_loopback);
            let allowed = "a URL that starts with https://, or with http:// and a loopback address";
            self.require(is_allowed, field, allowed, format_args!("{url:?}"));
        }
        Some(url)
    }
}

/// Whether the rest of a URL, after its scheme, starts with a loopback host.
fn is_loopback(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => authority.split(':').next(),
    };
    let host = host.unwrap_or_default();
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// An empty path is treated as a missing flag.
fn present(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

/// Splits the values of a repeatable list flag into items.
fn list(pieces: &[String]) -> Vec<&str> {
    pieces
        .iter()
        .filter(|piece| !piece.is_empty())
        .flat_map(|piece| piece.split(','))
        .collect()
}
