//! Validation of a Deployment that the API server accepted but the controller cannot act on.

use steersman_manager::controller::Action;
use steersman_manager::events::EventType;
use steersman_manager::selector::{Selector, SelectorError};

use super::act::{Executor, SyncError};
use super::bounds::{Bounds, BoundsError};
use super::progress;
use crate::support::deployment::Deployment;

/// The reason and message of the Progressing condition for an invalid spec.
#[derive(Debug)]
pub(super) struct InvalidSpec {
    reason: &'static str,
    message: String,
}

/// Returns the selector and the bounds of a valid Deployment.
pub(super) fn validate(deployment: &Deployment) -> Result<(&Selector, Bounds), InvalidSpec> {
    let invalid = |reason, message: String| InvalidSpec { reason, message };
    let selector = deployment.selector().map_err(|error| match error {
        SelectorError::Empty => invalid(
            "SelectingAll",
            "This deployment is selecting all pods. A non-empty selector is required.".to_owned(),
        ),
        other => invalid("InvalidSelector", other.to_string()),
    })?;
    // The Deployment would not own its ReplicaSets and would create them without end.
    if !selector.matches(&deployment.template().labels) {
        let message = "spec.selector does not match the labels of spec.template".to_owned();
        return Err(invalid("InvalidSelector", message));
    }
    let bounds = Bounds::of(deployment).map_err(|error| match error {
        BoundsError::Replicas(_) => invalid("InvalidReplicas", error.to_string()),
        other => invalid("InvalidStrategy", other.to_string()),
    })?;
    Ok((selector, bounds))
}

/// Reports an invalid spec by a condition and one event.
pub(super) async fn reject(executor: &Executor<'_>, invalid: &InvalidSpec) -> Result<Action, SyncError> {
    let InvalidSpec { reason, message } = invalid;
    let deployment = executor.deployment;
    let status = progress::invalid_spec_status(deployment, reason, message, executor.env.clock.wall());
    if status.conditions != deployment.status.conditions {
        executor.event(EventType::Warning, reason, message);
    }
    if let Some(patch) = status.patch(deployment, None, true) {
        executor.write_status(&patch).await?;
    }
    Ok(Action::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_field_determines_the_reason() {
        let reason = |spec: &str| {
            let json = format!(r#"{{"metadata":{{"name":"web"}},"spec":{{{spec}}}}}"#);
            let deployment: Deployment = serde_json::from_str(&json).expect("a Deployment");
            validate(&deployment).err().map(|it| it.reason)
        };
        let valid = r#""selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}}}"#;
        assert_eq!(reason(valid), None);
        assert_eq!(
            reason(&format!(r#"{valid},"replicas":-1"#)),
            Some("InvalidReplicas")
        );
        assert_eq!(
            reason(&format!(r#"{valid},"strategy":{{"type":"Odd"}}"#)),
            Some("InvalidStrategy")
        );
        assert_eq!(reason(r#""selector":{}"#), Some("SelectingAll"));
        assert_eq!(
            reason(r#""selector":{"matchLabels":{"a":"b"}}"#),
            Some("InvalidSelector")
        );
        let unknown_operator = r#""selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}"#;
        assert_eq!(reason(unknown_operator), Some("InvalidSelector"));
        for reason in [
            "SelectingAll",
            "InvalidSelector",
            "InvalidReplicas",
            "InvalidStrategy",
        ] {
            assert!(progress::INVALID_SPEC_REASONS.contains(&reason));
        }
    }
}
