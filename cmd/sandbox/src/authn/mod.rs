//! Authentication: users, bearer tokens of service accounts, token requests and impersonation.
//!
//! Mirrors the token authenticator of service accounts and the impersonation filter. Tokens are never logged.

pub(crate) mod authenticate;
pub(crate) mod impersonate;
pub(crate) mod token;
pub(crate) mod token_request;
pub(crate) mod user;

pub use impersonate::{impersonate, wanted};
pub use token::{AUDIENCE, Claims, Ref, Signer, Subject, TokenError, bearer, same};
pub use user::{User, service_account_of};

/// The authorization mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Authorization {
    /// Every authenticated user has all permissions.
    #[default]
    AlwaysAllow,
    /// Roles and bindings grant permissions. A request without a token is one of `system:anonymous`.
    Rbac,
}
