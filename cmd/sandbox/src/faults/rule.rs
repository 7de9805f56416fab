//! Rules: a matcher, bounds on the number of uses, and an effect.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::HeaderMap;
use rand::RngExt as _;
use serde_json::Value;

use super::{Cut, Effect, Faults, Gate, Matcher, RecordedRequest, Refusal};
use crate::service::ApiService;

pub(super) struct Rule {
    id: u64,
    matcher: Arc<Matcher>,
    bounds: Bounds,
    effect: Effect,
    matched: usize,
    applied: usize,
}

#[derive(Clone, Copy)]
struct Bounds {
    after: usize,
    times: usize,
    probability: f64,
}

/// A rule without an effect. Each method that names an effect adds the rule.
#[must_use = "a rule needs an effect"]
pub struct RuleBuilder<'a> {
    faults: &'a Faults,
    matcher: Matcher,
    bounds: Bounds,
}

/// A rule that has been added. Dropping the handle keeps the rule.
#[derive(Clone)]
pub struct RuleHandle {
    faults: Faults,
    id: u64,
}

#[expect(clippy::must_use_candidate, reason = "most tests do not need the handle")]
impl<'a> RuleBuilder<'a> {
    pub(super) fn new(faults: &'a Faults, matcher: Matcher) -> Self {
        Self {
            faults,
            matcher,
            bounds: Bounds {
                after: 0,
                times: usize::MAX,
                probability: 1.0,
            },
        }
    }

    /// Skips the first `count` matching requests. Default: 0.
    pub fn after(mut self, count: usize) -> Self {
        self.bounds.after = count;
        self
    }

    /// Applies the rule to `count` requests. Default: to all.
    pub fn times(mut self, count: usize) -> Self {
        self.bounds.times = count;
        self
    }

    /// Applies the rule to a matching request with this probability, from 0 to 1. Default: 1.
    pub fn probability(mut self, probability: f64) -> Self {
        self.bounds.probability = probability;
        self
    }

    /// Adds the rule with an effect.
    pub fn effect(self, effect: Effect) -> RuleHandle {
        let mut state = self.faults.state();
        let id = state.next_id();
        state.rules.push(Rule {
            id,
            matcher: Arc::new(self.matcher),
            bounds: self.bounds,
            effect,
            matched: 0,
            applied: 0,
        });
        drop(state);
        RuleHandle {
            faults: self.faults.clone(),
            id,
        }
    }

    /// See [`Effect::LoseRequest`].
    pub fn lose_request(self) -> RuleHandle {
        self.effect(Effect::LoseRequest)
    }

    /// See [`Effect::LoseAnswer`].
    pub fn lose_answer(self) -> RuleHandle {
        self.effect(Effect::LoseAnswer)
    }

    /// See [`Effect::Duplicate`].
    pub fn duplicate(self) -> RuleHandle {
        self.effect(Effect::Duplicate)
    }

    /// See [`Effect::DeliverLate`].
    pub fn deliver_late(self, after: Duration) -> RuleHandle {
        self.effect(Effect::DeliverLate(after))
    }

    /// See [`Effect::Hang`].
    pub fn hang(self) -> RuleHandle {
        self.effect(Effect::Hang)
    }

    /// See [`Effect::HangAnswer`].
    pub fn hang_answer(self) -> RuleHandle {
        self.effect(Effect::HangAnswer)
    }

    /// See [`Effect::Refuse`].
    pub fn refuse(self, refusal: Refusal) -> RuleHandle {
        self.effect(Effect::Refuse(refusal))
    }

    /// See [`Effect::reply`].
    pub fn reply(self, code: u16, body: impl Into<Bytes>) -> RuleHandle {
        self.effect(Effect::reply(code, body))
    }

    /// See [`Effect::SendTo`].
    pub fn send_to(self, service: ApiService) -> RuleHandle {
        self.effect(Effect::SendTo(service))
    }

    /// See [`Effect::Decide`].
    pub fn decide(self, decide: impl Fn(&RecordedRequest) -> Effect + Send + Sync + 'static) -> RuleHandle {
        self.effect(Effect::Decide(Arc::new(decide)))
    }

    /// See [`Effect::Delay`].
    pub fn delay(self, time: Duration) -> RuleHandle {
        self.effect(Effect::Delay(time))
    }

    /// See [`Effect::DelayAnswer`].
    pub fn delay_answer(self, time: Duration) -> RuleHandle {
        self.effect(Effect::DelayAnswer(time))
    }

    /// See [`Effect::SlowBody`].
    pub fn slow_body(self, per_byte: Duration) -> RuleHandle {
        self.effect(Effect::SlowBody(per_byte))
    }

    /// Stops requests before they are sent. Returns the gate that releases them.
    #[must_use = "requests wait until the gate releases them"]
    pub fn gate(self) -> Gate {
        let gate = Gate::default();
        self.effect(Effect::Gate(gate.clone()));
        gate
    }

    /// Stops answers of executed requests. Returns the gate that releases them.
    #[must_use = "answers wait until the gate releases them"]
    pub fn gate_answer(self) -> Gate {
        let gate = Gate::default();
        self.effect(Effect::GateAnswer(gate.clone()));
        gate
    }

    /// Runs `before` to its end before the request is sent, such as a concurrent write by another client.
    pub fn before<F>(self, before: impl Fn(Arc<RecordedRequest>) -> F + Send + Sync + 'static) -> RuleHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.around(move |request| before(request).map(|()| |_: u16| std::future::ready(())))
    }

    /// Runs `before` to its end before the request is sent. The function that it returns runs after the execution, with the
    /// code of the answer, and before a fault of the answer. It does not run if the request is lost or delivered late.
    pub fn around<F, A, G>(
        self,
        before: impl Fn(Arc<RecordedRequest>) -> F + Send + Sync + 'static,
    ) -> RuleHandle
    where
        F: Future<Output = A> + Send + 'static,
        A: FnOnce(u16) -> G + Send + 'static,
        G: Future<Output = ()> + Send + 'static,
    {
        self.effect(Effect::around(before))
    }

    /// See [`Effect::ChangeHeaders`].
    pub fn change_headers(self, change: impl Fn(&mut HeaderMap) + Send + Sync + 'static) -> RuleHandle {
        self.effect(Effect::ChangeHeaders(Arc::new(change)))
    }

    /// See [`Effect::ChangeRequest`].
    pub fn change_request(self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> RuleHandle {
        self.effect(Effect::ChangeRequest(Arc::new(change)))
    }

    /// See [`Effect::ChangeAnswer`].
    pub fn change_answer(self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> RuleHandle {
        self.effect(Effect::ChangeAnswer(Arc::new(change)))
    }

    /// See [`Effect::CutWatch`].
    pub fn cut_watch(self, cut: Cut) -> RuleHandle {
        self.effect(Effect::CutWatch(cut))
    }
}

impl RuleHandle {
    /// Returns the number of requests that the rule has been applied to.
    #[must_use]
    pub fn applied(&self) -> usize {
        let state = self.faults.state();
        let rule = state.rules.iter().find(|rule| rule.id == self.id);
        rule.map_or(0, |rule| rule.applied)
    }

    /// Removes the rule. Requests in flight keep its effect.
    pub fn remove(self) {
        self.faults.state().rules.retain(|rule| rule.id != self.id);
    }
}

impl Faults {
    /// Returns the effects on a request, and counts them. Functions of the test run without a lock.
    pub(super) fn effects(&self, request: &RecordedRequest) -> Vec<Effect> {
        let rules: Vec<_> = {
            let state = self.state();
            let rules = state.rules.iter();
            rules.map(|rule| (rule.id, rule.matcher.clone())).collect()
        };
        let mut effects = Vec::new();
        for (id, matcher) in rules {
            if !matcher.matches(request) {
                continue;
            }
            let effect = match self.applied_effect(id) {
                Some(Effect::Decide(decide)) => decide(request),
                Some(effect) => effect,
                None => continue,
            };
            match effect {
                Effect::All(all) => effects.extend(all),
                effect => effects.push(effect),
            }
            if effects.last().is_some_and(Effect::is_outcome) {
                break;
            }
        }
        effects
    }

    /// Counts a matching request, and returns the effect if it applies.
    fn applied_effect(&self, id: u64) -> Option<Effect> {
        let mut state = self.state();
        let state = &mut *state;
        let rule = state.rules.iter_mut().find(|rule| rule.id == id)?;
        rule.matched += 1;
        if rule.matched <= rule.bounds.after || rule.applied >= rule.bounds.times {
            return None;
        }
        if rule.bounds.probability < 1.0 && state.rng.random::<f64>() >= rule.bounds.probability {
            return None;
        }
        rule.applied += 1;
        Some(rule.effect.clone())
    }
}
