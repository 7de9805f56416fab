//! The effects of the fault classes on requests and watches.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_harness::time;
use steersman_manager::env::Tasks;
use steersman_sandbox::faults::{Effect, Matcher, Refusal};
use tokio_util::sync::CancellationToken;

use super::super::proxy::NUMBER;
use super::super::recorder::Watch;
use super::{Answer, Target};
use crate::simulation::fault::Class;
use crate::simulation::random::Random;

/// The longest time until a late request is executed.
const LATE_MAX: Duration = Duration::from_secs(8);

/// Returns the effect of a class on one request.
pub(super) fn effect_of(class: Class, random: &mut Random, target: Option<&Target>, tasks: &Tasks) -> Effect {
    match class {
        Class::F01 => Effect::All(vec![killed(target, true), Effect::LoseRequest]),
        Class::F02 => Effect::All(vec![killed(target, false), Effect::LoseAnswer]),
        Class::F03 => {
            let (target, tasks) = (target.cloned(), tasks.clone());
            let delay = random.up_to(Duration::from_millis(20));
            // The response is on the way.
            Effect::around(move |_| {
                let (target, tasks) = (target.clone(), tasks.clone());
                let after = move |_: u16| {
                    tasks.spawn(async move {
                        time::pause(delay).await;
                        target.inspect(|it| it.kill.cancel());
                    });
                    std::future::ready(())
                };
                std::future::ready(after)
            })
        }
        Class::F04 => Effect::LoseAnswer,
        Class::F06 => Effect::Duplicate,
        Class::F07 => Effect::Refuse(Refusal::new(409)),
        Class::F08 => Effect::Refuse(Refusal::new(409).reason("AlreadyExists")),
        Class::F09 => Effect::Refuse(Refusal::new(404)),
        Class::F10 => Effect::Refuse(Refusal::new(422)),
        Class::F11 => {
            let seconds = u32::try_from(1 + random.below(4)).unwrap_or(1);
            Effect::Refuse(Refusal::new(429).retry_after(seconds))
        }
        Class::F14 => Effect::SlowBody(Duration::from_millis(1)),
        Class::Late => Effect::DeliverLate(random.up_to(LATE_MAX)),
        _ => Effect::LoseRequest,
    }
}

/// Kills the process, before or after the execution, and waits for its end.
fn killed(target: Option<&Target>, before: bool) -> Effect {
    let target = target.cloned();
    let kill = move || {
        let target = target.clone();
        async move {
            if let Some(Target { kill, ended, .. }) = target {
                kill.cancel();
                ended.cancelled().await;
            }
        }
    };
    Effect::around(move |_| {
        let kill = kill.clone();
        async move {
            if before {
                kill().await;
            }
            move |_: u16| async move {
                if !before {
                    kill().await;
                }
            }
        }
    })
}

/// Returns the effect of an outage, which ends with the faults.
pub(super) fn answered(answer: Answer, end: &CancellationToken) -> Effect {
    match answer {
        Answer::Code(code) => Effect::Refuse(Refusal::new(code)),
        Answer::Lost => Effect::LoseRequest,
        Answer::None => {
            let end = end.clone();
            let wait = Effect::around(move |_| {
                let end = end.clone();
                async move {
                    end.cancelled().await;
                    |_: u16| std::future::ready(())
                }
            });
            Effect::All(vec![wait, Effect::LoseRequest])
        }
    }
}

/// Matches the watch of a number.
pub(super) fn watch(number: usize) -> Matcher {
    let number = number.to_string();
    Matcher::verb("watch").when(move |request| request.header(NUMBER) == number)
}

/// Returns an ERROR event.
pub(super) fn error(code: u16, reason: &str, message: &str) -> Value {
    json!({"type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": message,
    }})
}

/// Returns a bookmark of the last event of a watch.
pub(super) fn bookmark(watch: &Watch) -> Option<Value> {
    let event: Value = serde_json::from_slice(&watch.last).ok()?;
    let object = &event["object"];
    let version = object["metadata"]["resourceVersion"].as_str()?;
    Some(json!({"type": "BOOKMARK", "object": {
        "kind": object["kind"], "apiVersion": object["apiVersion"], "metadata": {"resourceVersion": version},
    }}))
}
