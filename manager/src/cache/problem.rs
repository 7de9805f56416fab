//! What can go wrong with a feed, and what is done about it. Pure.

use std::time::Duration;

use super::status::Status;
use super::wire::WireError;
use crate::backoff::Backoff;
use crate::client::{self, ClientError};
use crate::object::Version;

/// The first delay of a retry.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(800);
/// The first delay if the server does not serve the resource: its definition may have been created a moment ago.
const UNSERVED_RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);
/// After this long without a retry, the backoff starts over.
const HEALTHY: Duration = Duration::from_mins(2);

/// Why a list or a watch failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error(transparent)]
    Request(#[from] ClientError),
    /// The server has ended a watch, and said why.
    #[error("the watch was ended with code {}: {}", .0.code, .0.message)]
    Event(Box<client::Status>),
    #[error("cannot read the answer: {0}")]
    Wire(#[from] WireError),
    #[error("the watch was closed at once")]
    Quick,
    #[error("the watch was closed soon after it was opened")]
    Brief,
    #[error("nothing came on the watch, not even a bookmark")]
    Silent,
    #[error("nothing came on the watch that was opened in place of a silent one")]
    Stalled,
    #[error("an event is about an object that cannot be told: its identity is not readable")]
    Unreadable,
    #[error("the API server is at version {shown}, which is before {reached} that was seen")]
    Older { shown: Version, reached: Version },
}

/// What follows a problem of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The watch is opened again from the version that was reached: nothing was missed.
    Reopen,
    /// A list is read.
    Relist(Reason),
}

/// Why a list is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Somebody asked for it.
    Asked,
    /// The API server no longer has the changes since the version that was reached.
    Expired,
    /// The API server is behind what was seen.
    Older,
    /// The kind was not served, or not to us.
    Unserved,
    /// Anything else.
    Error,
}

impl Reason {
    /// All of them.
    pub(super) const ALL: [Self; 5] = [
        Self::Asked,
        Self::Expired,
        Self::Older,
        Self::Unserved,
        Self::Error,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Expired => "expired",
            Self::Older => "older",
            Self::Unserved => "unserved",
            Self::Error => "error",
        }
    }
}

impl Problem {
    /// What follows if it happened to a watch, and whether after a wait. `lasted` says whether the list that the watch is
    /// built on was good for a while: if every list is followed by the same answer, it is not asked for in a hurry.
    pub(super) fn remedy(&self, lasted: bool) -> (Then, bool) {
        match (self.code(), self) {
            (Some(410), _) => (Then::Relist(Reason::Expired), !lasted),
            (Some(429), _)
            | (
                None,
                Self::Request(ClientError::Connection { .. } | ClientError::Timeout { .. }) | Self::Brief,
            ) => (Then::Reopen, true),
            (None, Self::Silent) => (Then::Reopen, false),
            // Watches do not work, and nothing says that lists do not.
            (None, Self::Stalled) => (Then::Relist(Reason::Error), false),
            // The list will show whether it is so, and wait if it is.
            (None, Self::Older { .. }) => (Then::Relist(Reason::Older), false),
            _ => (Then::Relist(self.reason()), true),
        }
    }

    /// Why a list is read again after it.
    pub(super) fn reason(&self) -> Reason {
        match (self.code(), self) {
            (Some(410), _) => Reason::Expired,
            (Some(403..=405), _) => Reason::Unserved,
            (_, Self::Older { .. }) => Reason::Older,
            _ => Reason::Error,
        }
    }

    /// What the cache says of itself meanwhile.
    pub(super) fn status(&self) -> Status {
        let reason = self.to_string();
        match self.reason() {
            Reason::Unserved => Status::Waiting { reason },
            _ => Status::Retrying { reason },
        }
    }

    /// Whether the server does not know the kind.
    pub(super) fn is_unknown(&self) -> bool {
        self.code() == Some(404)
    }

    /// Returns the backoff of a series of failures that starts with this one.
    pub(super) fn backoff(&self) -> Backoff {
        let first = match self.code() {
            Some(404) => UNSERVED_RETRY_DELAY_MIN,
            _ => RETRY_DELAY_MIN,
        };
        Backoff::exponential(first, RETRY_DELAY_MAX)
            .jitter(1.0)
            .reset_after(HEALTHY)
    }

    /// How long the server asked to wait.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Request(error) => error.retry_after(),
            Self::Event(status) => Some(Duration::from_secs(status.details.retry_after_seconds.into())),
            _ => None,
        }
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Request(error) => error.code(),
            Self::Event(status) => Some(status.code),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16) -> [Problem; 2] {
        let status = client::Status {
            code,
            ..client::Status::default()
        };
        let refused = ClientError::Unexplained {
            what: "GET /x".to_owned(),
            code,
            retry_after: None,
        };
        [Problem::Event(Box::new(status)), refused.into()]
    }

    fn unanswered() -> [Problem; 2] {
        let what = "GET /x".to_owned();
        let refused = ClientError::Connection {
            what: what.clone(),
            connected: false,
            reason: "refused".to_owned(),
        };
        let deadline = Duration::from_secs(30);
        [refused.into(), ClientError::Timeout { what, deadline }.into()]
    }

    #[test]
    fn only_what_may_have_lost_changes_costs_a_list() {
        for problem in answered(429)
            .into_iter()
            .chain(unanswered())
            .chain([Problem::Brief])
        {
            assert_eq!(problem.remedy(true), (Then::Reopen, true), "{problem:?}");
        }
        assert_eq!(Problem::Silent.remedy(true), (Then::Reopen, false));
        let relist = (Then::Relist(Reason::Error), false);
        assert_eq!(Problem::Stalled.remedy(true), relist);
        for problem in [0, 400, 401, 406, 500, 503, 504]
            .into_iter()
            .flat_map(answered)
            .chain([Problem::Quick, Problem::Unreadable])
        {
            assert_eq!(
                problem.remedy(true),
                (Then::Relist(Reason::Error), true),
                "{problem:?}"
            );
        }
    }

    #[test]
    fn an_expired_version_costs_a_list_at_once_but_not_in_a_circle() {
        for problem in answered(410) {
            assert_eq!(problem.remedy(true), (Then::Relist(Reason::Expired), false));
            assert_eq!(problem.remedy(false), (Then::Relist(Reason::Expired), true));
        }
    }

    #[test]
    fn a_kind_that_is_not_served_waits_and_says_so() {
        for problem in [403, 404, 405].into_iter().flat_map(answered) {
            assert_eq!(problem.remedy(true), (Then::Relist(Reason::Unserved), true));
            assert!(matches!(problem.status(), Status::Waiting { .. }), "{problem:?}");
        }
        assert!(matches!(Problem::Quick.status(), Status::Retrying { .. }));
    }
}
