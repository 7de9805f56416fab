//! Classification of failed requests.

use steersman_manager::client::ClientError;

/// Returns the message of the API server, or the error itself if the API server did not answer.
pub(crate) fn message(error: &ClientError) -> String {
    match error {
        ClientError::Status { status, .. } => status.message.clone(),
        other => other.to_string(),
    }
}

/// Keeps the error to retry: the one with the longest Retry-After, otherwise the first.
pub(crate) fn keep(kept: &mut Option<ClientError>, error: ClientError) {
    if kept
        .as_ref()
        .is_none_or(|it| it.retry_after() < error.retry_after())
    {
        *kept = Some(error);
    }
}

/// Reports whether a create was refused because its namespace is terminating.
pub(crate) fn is_namespace_terminating(error: &ClientError) -> bool {
    has_cause(error, "NamespaceTerminating")
}

/// Reports whether an apply was refused because other field managers own fields that it would change.
pub(crate) fn is_field_conflict(error: &ClientError) -> bool {
    has_cause(error, "FieldManagerConflict")
}

fn has_cause(error: &ClientError, reason: &str) -> bool {
    matches!(error, ClientError::Status { status, .. }
        if status.details.causes.iter().any(|it| it.reason == reason))
}
