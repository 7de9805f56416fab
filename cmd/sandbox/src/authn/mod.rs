//! Who asks, and whether they may: users, their tokens, and the rules that roles are made of.
//!
//! Everything here is pure: it neither looks at the store nor at the clock. `service` asks these questions of every
//! request, `api` knows the objects (accounts, roles, bindings) that the answers depend on. No token is ever logged.

pub(crate) mod authenticate;
pub(crate) mod impersonate;
pub(crate) mod token;
pub(crate) mod token_request;
pub(crate) mod user;

pub use impersonate::{impersonate, wanted};
pub use token::{AUDIENCE, Claims, Ref, Signer, Subject, TokenError, bearer, same};
pub use user::{User, service_account_of};

/// Who may do what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Authorization {
    /// Whoever shows a good token may do anything.
    #[default]
    AlwaysAllow,
    /// What roles and bindings say; who shows no token is `system:anonymous`.
    Rbac,
}
