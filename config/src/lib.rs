//! Flags and configuration file of the controller manager: names, defaults, help and validation.
//!
//! [`parse`] turns the arguments of the process, and the file that they name, into a [`Config`], a text to print, or an
//! [`Error`] of one sentence. It follows the conventions of Kubernetes components: the last value of a repeated flag wins, lists are appended, the value of
//! a boolean flag follows `=`, and underscores in flag names equal dashes.
//!
//! The crate does not print, write, exit or read the environment. The names of the controllers come from the caller.

mod config;
mod duration;
mod effective;
mod error;
mod file;
mod flags;
mod help;
mod kind;
mod manual;
mod parse;
mod reference;
mod reload;
mod schema;
mod selector;
mod sources;
mod syntax;
#[cfg(test)]
mod tests;
mod validate;

pub use config::{
    AppServices, Authentication, Authorization, CertificateFiles, ClientConnection, Config, Debugging,
    Deployments, GarbageCollector, Generic, HollowKubelet, LeaderElection, LogFormat, Logging, Parsed, Rate,
    Replicas, RequestHeader, Sandbox, Serving, SniCertificate, TlsVersion, Tracing, Webhook,
    WebhookCertificate,
};
pub use error::{Error, Invalid};
pub use file::FileError;
pub use help::markdown;
pub use parse::parse;
pub use reference::reference;
pub use reload::Changes;
pub use schema::schema;
pub use selector::{Enablement, Known, KnownController, Selector};
