//! Classification of failed requests.

use steersman_manager::client::{Cause, ClientError};

/// The maximum number of fields in a message.
const CONFLICTS_MAX: usize = 5;

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
    causes(error, "NamespaceTerminating").next().is_some()
}

/// Returns the fields that other field managers own, each with its manager, if an apply was refused because of them.
pub(crate) fn field_conflicts(error: &ClientError) -> Option<String> {
    let mut fields: Vec<_> = causes(error, "FieldManagerConflict")
        .map(|it| format!("{} ({})", it.field, it.message))
        .collect();
    if let Some(more) = fields.len().checked_sub(CONFLICTS_MAX).filter(|it| *it > 0) {
        fields.truncate(CONFLICTS_MAX);
        fields.push(format!("and {more} more"));
    }
    (!fields.is_empty()).then(|| fields.join(", "))
}

fn causes<'a>(error: &'a ClientError, reason: &str) -> impl Iterator<Item = &'a Cause> {
    let causes = match error {
        ClientError::Status { status, .. } => &status.details.causes[..],
        _ => &[],
    };
    causes.iter().filter(move |it| it.reason == reason)
}
