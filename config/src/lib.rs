//! Flags of the controller manager: their names, defaults, help and validation.
//!
//! [`parse`] turns the arguments of the process into a [`Config`], a text to print, or an [`Error`] of one sentence. It
//! follows the conventions of Kubernetes components: the last of two values counts, lists grow, a flag that is on or off
//! takes its value after `=`, underscores in a flag's name are dashes.
//!
//! Nothing here prints, exits or reads the environment, and nothing here knows a controller: the names come from the caller.

mod config;
mod duration;
mod error;
mod flags;
mod help;
mod parse;
mod selector;
mod subcommand;
mod syntax;
#[cfg(test)]
mod tests;
mod validate;

pub use config::{
    AppServices, CertificateFiles, ClientConnection, Config, Deployments, GarbageCollector, Generic,
    HollowKubelet, LeaderElection, LogFormat, Logging, Rate, Replicas, Sandbox, Serving, Webhook,
    WebhookCertificate,
};
pub use error::{Error, Invalid};
pub use help::markdown;
pub use parse::{Parsed, parse};
pub use selector::{Enablement, Known, Selector};
