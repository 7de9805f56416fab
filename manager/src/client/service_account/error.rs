//! Errors of obtaining a token.

use super::super::ClientError;
use crate::object::Key;

/// The reason why a service account has no valid token.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The process must not request tokens of the account.
    #[error(
        "not allowed to request a token of service account {account}: grant this process the verb create on \
         serviceaccounts/token named {} in namespace {} ({reason})",
        .account.name, .account.namespace
    )]
    Forbidden { account: Key, reason: String },
    /// The account does not exist, and the process must not create it.
    #[error(
        "service account {account} does not exist, and this process is not allowed to create it: create it, or grant the \
         verb create on serviceaccounts in namespace {} ({reason})",
        .account.namespace
    )]
    Missing { account: Key, reason: String },
    /// The account cannot be created because its namespace does not exist.
    #[error("service account {account} cannot be created: create its namespace {} first", .account.namespace)]
    NoNamespace { account: Key },
    /// The API server responded with 401 to a request with the token.
    #[error("the API server rejected the token of service account {account}")]
    Rejected { account: Key },
    /// The request failed for another reason.
    #[error("no token of service account {account}: {reason}")]
    Failed { account: Key, reason: String },
}

impl TokenError {
    /// The error of a failed `TokenRequest`.
    pub(super) fn of_request(account: &Key, error: &ClientError) -> Self {
        let (account, reason) = (account.clone(), error.to_string());
        match error.code() {
            Some(403) => Self::Forbidden { account, reason },
            _ => Self::Failed { account, reason },
        }
    }

    /// The error of creating an account that does not exist.
    pub(super) fn of_create(account: &Key, error: &ClientError) -> Self {
        let (account, reason) = (account.clone(), error.to_string());
        if error.is_not_found(&account.namespace) {
            return Self::NoNamespace { account };
        }
        match error.code() {
            Some(403) => Self::Missing { account, reason },
            _ => Self::Failed { account, reason },
        }
    }

    /// The error of a response without a usable token, which it does not quote.
    pub(super) fn invalid(account: &Key) -> Self {
        Self::Failed {
            account: account.clone(),
            reason: "the response to the TokenRequest has no valid token".to_owned(),
        }
    }
}
