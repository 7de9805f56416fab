//! The failures of lists and watches, and how a reflector recovers. Pure.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::cache::metrics::RelistReason;
use crate::cache::status::Status;
use crate::cache::wire::WireError;
use crate::client::{self, ClientError};
use crate::object::Version;

/// The first delay of a retry.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(800);
/// The first delay if the server does not serve the resource: its definition may have been created a moment ago.
const UNSERVED_RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);
/// After this long without a retry, the backoff starts over.
const HEALTHY: Duration = Duration::from_mins(2);

/// The failure of a list or a watch.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReflectorError {
    #[error(transparent)]
    Request(#[from] ClientError),
    #[error("the server sent an error event with code {}: {}", .0.code, .0.message)]
    Event(Box<client::Status>),
    #[error("cannot decode the response: {0}")]
    Wire(#[from] WireError),
    #[error("the server closed the watch at once")]
    ClosedAtOnce,
    #[error("the server closed the watch within a second")]
    ClosedEarly,
    #[error("the watch received neither an event nor a bookmark")]
    Idle,
    #[error("the watch that replaced an idle one received neither an event nor a bookmark")]
    Stalled,
    #[error("watch event has no readable name or uid")]
    Unidentified,
    #[error("the API server is at resourceVersion {shown}, the cache is at {reached}")]
    Older { shown: Version, reached: Version },
}

/// The recovery from a failed watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Reopens the watch at the version that the cache has reached. No change was missed.
    Reopen,
    /// Relists.
    Relist(RelistReason),
}

impl ReflectorError {
    /// Returns the recovery from a failed watch, and whether to back off first. `lasted` is true if watches worked for a while
    /// since the last list: if each list is followed by the same failure, the reflector backs off.
    pub(super) fn recovery(&self, lasted: bool) -> (Recovery, bool) {
        match (self.code(), self) {
            (Some(410), _) => (Recovery::Relist(RelistReason::Expired), !lasted),
            (Some(429), _)
            | (
                None,
                Self::Request(ClientError::Connection { .. } | ClientError::Timeout { .. })
                | Self::ClosedEarly,
            ) => (Recovery::Reopen, true),
            (None, Self::Idle) => (Recovery::Reopen, false),
            // Watches do not work, but lists may.
            (None, Self::Stalled) => (Recovery::Relist(RelistReason::Error), false),
            // The list confirms it, and backs off.
            (None, Self::Older { .. }) => (Recovery::Relist(RelistReason::Older), false),
            _ => (Recovery::Relist(self.reason()), true),
        }
    }

    /// Returns the reason of a relist after this failure.
    pub(super) fn reason(&self) -> RelistReason {
        match (self.code(), self) {
            (Some(410), _) => RelistReason::Expired,
            (Some(403..=405), _) => RelistReason::Unserved,
            (_, Self::Older { .. }) => RelistReason::Older,
            _ => RelistReason::Error,
        }
    }

    /// Returns the status of the cache after this failure.
    pub(super) fn status(&self) -> Status {
        let reason = self.to_string();
        match self.reason() {
            RelistReason::Unserved => Status::Unavailable { reason },
            _ => Status::Retrying { reason },
        }
    }

    /// Returns true if the server does not serve the resource.
    pub(super) fn is_unserved(&self) -> bool {
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

    /// Returns the delay that the server requested.
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

    fn answered(code: u16) -> [ReflectorError; 2] {
        let status = client::Status {
            code,
            ..client::Status::default()
        };
        let refused = ClientError::Unexplained {
            request_line: "GET /x".to_owned(),
            code,
            retry_after: None,
        };
        [ReflectorError::Event(Box::new(status)), refused.into()]
    }

    fn unanswered() -> [ReflectorError; 2] {
        let request_line = "GET /x".to_owned();
        let refused = ClientError::Connection {
            request_line: request_line.clone(),
            connected: false,
            reason: "refused".to_owned(),
        };
        let deadline = Duration::from_secs(30);
        [
            refused.into(),
            ClientError::Timeout {
                request_line,
                deadline,
            }
            .into(),
        ]
    }

    #[test]
    fn watch_failure_relists_only_if_changes_may_be_lost() {
        for error in answered(429)
            .into_iter()
            .chain(unanswered())
            .chain([ReflectorError::ClosedEarly])
        {
            assert_eq!(error.recovery(true), (Recovery::Reopen, true), "{error:?}");
        }
        assert_eq!(ReflectorError::Idle.recovery(true), (Recovery::Reopen, false));
        let relist = (Recovery::Relist(RelistReason::Error), false);
        assert_eq!(ReflectorError::Stalled.recovery(true), relist);
        for error in [0, 400, 401, 406, 500, 503, 504]
            .into_iter()
            .flat_map(answered)
            .chain([ReflectorError::ClosedAtOnce, ReflectorError::Unidentified])
        {
            assert_eq!(
                error.recovery(true),
                (Recovery::Relist(RelistReason::Error), true),
                "{error:?}"
            );
        }
    }

    #[test]
    fn expired_version_relists_and_backs_off_if_repeated() {
        for error in answered(410) {
            assert_eq!(
                error.recovery(true),
                (Recovery::Relist(RelistReason::Expired), false)
            );
            assert_eq!(
                error.recovery(false),
                (Recovery::Relist(RelistReason::Expired), true)
            );
        }
    }

    #[test]
    fn unserved_resource_backs_off_as_unavailable() {
        for error in [403, 404, 405].into_iter().flat_map(answered) {
            assert_eq!(
                error.recovery(true),
                (Recovery::Relist(RelistReason::Unserved), true)
            );
            assert!(matches!(error.status(), Status::Unavailable { .. }), "{error:?}");
        }
        assert!(matches!(
            ReflectorError::ClosedAtOnce.status(),
            Status::Retrying { .. }
        ));
    }
}
