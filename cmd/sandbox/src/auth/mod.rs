//! Who asks, and whether they may: users, their tokens, and the rules that roles are made of.
//!
//! Everything here is pure: it neither looks at the store nor at the clock. `door` asks these questions of every
//! request, `api` knows the objects (accounts, roles, bindings) that the answers depend on. No token is ever logged.

mod attributes;
mod audit;
mod impersonate;
mod rules;
mod token;
mod user;

pub use attributes::{Attributes, On};
pub use audit::{Audit, AuditRecord};
pub use impersonate::{impersonate, wanted};
pub use rules::{Rule, describe, quoted, uncovered};
pub use token::{AUDIENCE, Claims, Ref, Signer, Subject, TokenError, bearer, same};
pub use user::{User, service_account_of};

/// Who may do what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Authorization {
    /// Whoever shows a good token may do anything.
    #[default]
    AlwaysAllow,
    /// What roles and bindings say; who shows no token is `system:anonymous`.
    Rbac,
}
