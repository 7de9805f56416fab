//! Delegated authentication and authorization, as in kube-controller-manager.
//!
//! An [`Authenticator`] tries in this order: the request headers of an authenticating proxy, which needs a client
//! certificate of the proxy CA; a client certificate; a bearer token by `TokenReview`. The first one that succeeds is the
//! user. Without any credentials the user is `system:anonymous`. An [`Authorizer`] asks by `SubjectAccessReview`.
//!
//! - `trust` holds the CAs, `authority` verifies a chain, `request_header` reads the headers of a proxy.
//! - `token_review` and `subject_access_review` send reviews by `review`. `decision_cache` keeps the decisions and shares
//!   reviews, `review_slots` bounds their number.

mod authenticator;
mod authority;
mod decision_cache;
mod request_header;
mod review;
mod review_slots;
mod subject_access_review;
#[cfg(test)]
mod tests;
mod token_review;
mod trust;
mod user;

pub use self::authenticator::{AuthenticationOptions, Authenticator, RequestHeaderOptions};
pub(super) use self::authenticator::{Rejection, VerifiedSubjects};
pub(super) use self::decision_cache::NoDecision;
pub use self::request_header::RequestHeaderNames;
pub use self::subject_access_review::{AuthorizationOptions, Authorizer};
pub use self::trust::{AuthorityError, AuthorityOption};
pub use self::user::User;
