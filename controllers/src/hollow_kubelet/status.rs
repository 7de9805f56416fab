//! The desired status of a started pod.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_manager::time::rfc3339;

use super::FAIL;
use super::condition::{self, DesiredCondition};
use super::pod::{Container, ContainerStatus, Pod};

/// The simulated state of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContainerState {
    Run,
    /// A completed init container.
    Complete,
    Fail,
    /// The image does not exist.
    BackOff,
    /// An earlier init container has not completed.
    Wait,
}

/// Returns the desired status for a strategic merge patch. The pod starts at `now` if it was not started before.
pub(super) fn desired(pod: &Pod, host_ip: &str, pod_ip: &str, now: Timestamp) -> Value {
    let fails = pod.metadata.annotations.get(FAIL).is_some_and(|it| it == "true");
    let inits = init_containers(pod, fails);
    let incomplete: Vec<&str> = names(&pod.spec.init_containers, &inits, |it| {
        matches!(it, ContainerState::BackOff | ContainerState::Wait)
    });
    let mains: Vec<ContainerState> = pod
        .spec
        .containers
        .iter()
        .map(|it| main(it, !incomplete.is_empty(), fails))
        .collect();
    let unready: Vec<&str> = names(&pod.spec.containers, &mains, |it| it != ContainerState::Run);

    let phase = match (
        fails,
        incomplete.is_empty() && !mains.contains(&ContainerState::BackOff),
    ) {
        (true, _) => "Failed",
        (false, true) => "Running",
        (false, false) => "Pending",
    };
    let present = &pod.status.conditions;
    let conditions = conditions(pod, fails, &incomplete, &unready);
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|it| condition::write(present, it, now))
        .collect();
    let mut status = json!({
        "phase": phase,
        "startTime": rfc3339(pod.status.start_time.unwrap_or(now)),
        "conditions": conditions,
        "containerStatuses":
            statuses(pod, &pod.spec.containers, &mains, &pod.status.container_statuses, now),
    });
    if !pod.spec.init_containers.is_empty() {
        let present = &pod.status.init_container_statuses;
        status["initContainerStatuses"] =
            statuses(pod, &pod.spec.init_containers, &inits, present, now).into();
    }
    for (one, many, ip) in [("hostIP", "hostIPs", host_ip), ("podIP", "podIPs", pod_ip)] {
        if !ip.is_empty() {
            status[one] = json!(ip);
            status[many] = json!([{"ip": ip}]);
        }
    }
    status
}

/// Init containers run one after another, up to the first whose image is missing.
fn init_containers(pod: &Pod, fails: bool) -> Vec<ContainerState> {
    let mut stuck = false;
    let state = |container: &Container| match (stuck, is_missing(&container.image)) {
        (true, _) => ContainerState::Wait,
        (false, true) => {
            stuck = true;
            ContainerState::BackOff
        }
        (false, false) if container.restart_policy != "Always" => ContainerState::Complete,
        (false, false) if fails => ContainerState::Fail,
        (false, false) => ContainerState::Run,
    };
    pod.spec.init_containers.iter().map(state).collect()
}

fn main(container: &Container, wait: bool, fails: bool) -> ContainerState {
    match is_missing(&container.image) {
        _ if fails => ContainerState::Fail,
        _ if wait => ContainerState::Wait,
        true => ContainerState::BackOff,
        false => ContainerState::Run,
    }
}

/// Whether the tag marks a missing image. A colon before the last slash precedes a port, and `@` precedes a digest.
fn is_missing(image: &str) -> bool {
    let name = image.split('@').next().unwrap_or_default();
    let last = name.rsplit('/').next().unwrap_or_default();
    matches!(last.split_once(':'), Some((_, "404" | "nonexistent")))
}

fn names<'a>(
    containers: &'a [Container],
    states: &[ContainerState],
    matches: impl Fn(ContainerState) -> bool,
) -> Vec<&'a str> {
    let both = containers.iter().zip(states);
    let matching = both.filter(|(_, state)| matches(**state));
    matching.map(|(container, _)| &*container.name).collect()
}

fn conditions(pod: &Pod, fails: bool, incomplete: &[&str], unready: &[&str]) -> [DesiredCondition; 4] {
    let listed = |what: &str, names: &[&str]| format!("containers with {what} status: [{}]", names.join(" "));
    let containers = match (fails, unready) {
        (true, _) => Some(("PodFailed", String::new())),
        (false, []) => None,
        (false, unready) => Some(("ContainersNotReady", listed("unready", unready))),
    };
    let gate = pod
        .spec
        .readiness_gates
        .iter()
        .find(|gate| !condition::is_true(&pod.status.conditions, &gate.condition_type));
    let ready = containers.clone().or_else(|| {
        let message = format!(
            "the status of pod readiness gate \"{}\" is not \"True\"",
            gate?.condition_type
        );
        Some(("ReadinessGatesNotReady", message))
    });
    let initialized =
        (!incomplete.is_empty()).then(|| ("ContainersNotInitialized", listed("incomplete", incomplete)));
    [
        ("PodScheduled", None),
        ("Initialized", initialized),
        ("ContainersReady", containers),
        ("Ready", ready),
    ]
    .map(|(type_, reason_and_message)| DesiredCondition {
        type_,
        is_true: reason_and_message.is_none(),
        reason_and_message,
    })
}

fn statuses(
    pod: &Pod,
    containers: &[Container],
    states: &[ContainerState],
    present: &[ContainerStatus],
    now: Timestamp,
) -> Vec<Value> {
    let one = |(container, state): (&Container, &ContainerState)| {
        let present = present.iter().find(|it| it.name == container.name);
        status(pod, container, *state, present, now)
    };
    containers.iter().zip(states).map(one).collect()
}

fn status(
    pod: &Pod,
    container: &Container,
    desired: ContainerState,
    present: Option<&ContainerStatus>,
    now: Timestamp,
) -> Value {
    let id = format!("hollow://{}/{}", pod.metadata.uid, container.name);
    // A container in an unchanged state keeps its timestamps.
    let state = present.map(|it| &it.state);
    let ran = state.and_then(|it| it.running.as_ref().or(it.terminated.as_ref()));
    let started = rfc3339(ran.and_then(|it| it.started_at).unwrap_or(now));
    let ended = state
        .and_then(|it| it.terminated.as_ref())
        .and_then(|it| it.finished_at);
    let terminated = |code: i64, reason: &str| {
        json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": started,
            "finishedAt": rfc3339(ended.unwrap_or(now)), "containerID": id}})
    };
    let waiting = |reason: &str, message: Option<String>| {
        let mut waiting = json!({"reason": reason});
        if let Some(message) = message {
            waiting["message"] = message.into();
        }
        json!({"waiting": waiting})
    };
    let state = match desired {
        ContainerState::Run => json!({"running": {"startedAt": started}}),
        ContainerState::Complete => terminated(0, "Completed"),
        ContainerState::Fail => terminated(1, "Error"),
        ContainerState::BackOff => {
            let message = format!("Back-off pulling image \"{}\"", container.image);
            waiting("ImagePullBackOff", Some(message))
        }
        ContainerState::Wait => waiting("PodInitializing", None),
    };
    let has_run = matches!(
        desired,
        ContainerState::Run | ContainerState::Complete | ContainerState::Fail
    );
    let mut status = json!({
        "name": container.name,
        "image": container.image,
        "imageID": if has_run { format!("hollow://{}", container.image) } else { String::new() },
        "ready": matches!(desired, ContainerState::Run | ContainerState::Complete),
        "started": desired == ContainerState::Run,
        "restartCount": present.map_or(0, |it| it.restart_count),
        "state": state,
        "lastState": {},
    });
    if has_run {
        status["containerID"] = json!(id);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tag_marks_a_missing_image() {
        for missing in [
            "app:404",
            "app:nonexistent",
            "registry.example.com/team/app:404",
            "localhost:5000/app:404",
            "localhost:5000/app:nonexistent",
            "localhost:404",
            "app:404@sha256:0123456789abcdef",
        ] {
            assert!(is_missing(missing), "{missing}");
        }
        for there in [
            "",
            "app",
            "app:1.2",
            "app:4040",
            "app:v404",
            "app:404-alpine",
            "404",
            "404/app",
            "nonexistent",
            "nonexistent/app:1",
            "localhost:404/app",
            "localhost:5000/app",
            "localhost:5000/404:latest",
            "app@sha256:404",
            "localhost:404/app@sha256:nonexistent",
        ] {
            assert!(!is_missing(there), "{there}");
        }
    }
}
