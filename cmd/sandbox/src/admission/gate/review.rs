//! What is asked about one operation, whom, and what follows from the answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use crate::admission::gate::{Gate, LATE};
use crate::admission::webhook;
use crate::admission::webhook::{Answer, Fault, Hook, Operation, Question, Write};
use crate::apiextensions::structural::Judge;
use crate::authn::User;
use crate::authz::{Attributes, On};
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::{fieldmanager, meta, registry};

/// One operation before the gate.
pub(crate) struct Review<'a> {
    pub(crate) gate: &'a Gate<'a>,
    pub(crate) operation: Operation,
    pub(crate) options: Value,
    pub(crate) dry_run: bool,
}

/// The objects that somebody is asked about.
#[derive(Clone, Copy)]
struct Objects<'v> {
    new: Option<&'v Value>,
    old: Option<&'v Value>,
}

/// A webhook that is to be asked, and what.
struct Asked<'h> {
    hook: &'h Hook,
    res: Arc<Resource>,
    uid: String,
    request: Value,
    new: Option<Value>,
    old: Option<Value>,
}

/// Why a webhook ends a write, or would.
enum Trouble {
    /// There is no usable answer: its policy decides.
    NoAnswer(String),
    /// The write is refused.
    Refused(ApiError),
}

impl Review<'_> {
    /// The object as it is after all who may change it were asked.
    pub async fn mutate(&self, object: Value, old: Option<&Value>) -> Result<Value> {
        let managers = object["metadata"]["managedFields"].clone();
        let mut changed = self.change(Some(object), old).await?.unwrap_or_default();
        if changed["metadata"]["managedFields"] != managers
            && let Err(why) = fieldmanager::check(&changed["metadata"]["managedFields"])
        {
            meta::set(&mut changed, "managedFields", managers);
            self.gate.warnings.add(vec![format!(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
                 mutating admission controller; please fix your requests: {why}"
            )]);
        }
        Ok(changed)
    }

    /// Asks about the end of an object, of which nothing can be changed.
    pub async fn let_go(&self, old: &Value) -> Result<()> {
        self.change(None, Some(old)).await?;
        self.validate(None, Some(old)).await
    }

    async fn change(&self, object: Option<Value>, old: Option<&Value>) -> Result<Option<Value>> {
        let Some((hooks, until)) = &self.gate.asking else {
            return Ok(object);
        };
        let mut change = Change {
            object,
            again: BTreeSet::new(),
            invoked: BTreeSet::new(),
            changed: false,
        };
        self.complete(&mut change)?;
        self.round(&hooks.mutating, *until, old, false, &mut change)
            .await?;
        if change.changed {
            let before = change.object.clone();
            self.complete(&mut change)?;
            if change.object != before {
                change.require();
            }
            self.round(&hooks.mutating, *until, old, true, &mut change)
                .await?;
        }
        Ok(change.object)
    }

    /// What the server itself adds before anybody is asked.
    fn complete(&self, change: &mut Change) -> Result<()> {
        let gate = self.gate;
        if let Some(object) = &mut change.object
            && self.operation == Operation::Create
            && gate.subresource.is_empty()
            && gate.call.res.collection == "pods"
        {
            registry::tolerate_node_trouble(object);
            gate.api
                .set_service_account(&gate.call.res, &gate.call.namespace, object)?;
            gate.api.set_priority(&gate.call.res, object)?;
        }
        Ok(())
    }

    /// Asks those that may change the object, one after the other.
    async fn round(
        &self,
        hooks: &[Arc<Hook>],
        until: Instant,
        old: Option<&Value>,
        again: bool,
        change: &mut Change,
    ) -> Result<()> {
        for (index, hook) in hooks.iter().enumerate() {
            let objects = Objects {
                new: change.object.as_ref(),
                old,
            };
            let Some(asked) = self.invite(hook, objects)? else {
                continue;
            };
            // Nobody is asked for the first time in the second round.
            if again && !change.again.contains(&index) {
                continue;
            }
            let answer = self.ask(&asked, until, true).await;
            let wanted = answer.and_then(|answer| self.follow(&asked, &answer));
            match wanted {
                Ok(Some(object)) => {
                    if change.object.as_ref() != Some(&object) {
                        change.require();
                        change.changed = true;
                    }
                    change.object = Some(object);
                }
                Ok(None) => {}
                Err(trouble) => self.judge(hook, trouble)?,
            }
            if hook.reinvoked {
                change.invoked.insert(index);
            }
        }
        Ok(())
    }

    /// Asks those that may refuse the object, all at once.
    pub async fn validate(&self, new: Option<&Value>, old: Option<&Value>) -> Result<()> {
        let Some((hooks, until)) = &self.gate.asking else {
            return Ok(());
        };
        let mut invited = Vec::new();
        for hook in &hooks.validating {
            invited.extend(self.invite(hook, Objects { new, old })?);
        }
        let answers = join_all(invited.iter().map(|asked| self.ask(asked, *until, false))).await;
        for (asked, answer) in invited.iter().zip(answers) {
            match answer {
                Ok(answer) if answer.allowed => {}
                Ok(answer) => return Err(answer.refusal(&asked.hook.name)),
                Err(trouble) => self.judge(asked.hook, trouble)?,
            }
        }
        Ok(())
    }

    /// What a webhook is to be asked; none if it is not to be.
    fn invite<'h>(&self, hook: &'h Hook, objects: Objects<'_>) -> Result<Option<Asked<'h>>> {
        let (gate, call) = (self.gate, self.gate.call);
        let labels = |object: Option<&'_ Value>| object.map(|object| object["metadata"]["labels"].clone());
        let (new_labels, old_labels) = (labels(objects.new), labels(objects.old));
        let name = match (&call.name, objects.new) {
            (None, Some(new)) => meta::name(new),
            _ => call.name(),
        };
        let of_namespaces = call.res.collection == "namespaces";
        let namespace = if of_namespaces { name } else { &call.namespace };
        let write = Write {
            res: &call.res,
            subresource: gate.subresource,
            operation: self.operation,
            namespace,
            labels: new_labels.as_ref(),
            old_labels: old_labels.as_ref(),
        };
        let Some(res) = hook.concerns(&write, gate)? else {
            return Ok(None);
        };
        let shown = |object: Option<&Value>| {
            object.map(|object| gate.converted(&call.res, &res, object).into_owned())
        };
        let (new, old) = (shown(objects.new), shown(objects.old));
        let uid = gate.api.env.uid();
        let (kind, request_kind) = (gate.kind(&res), gate.kind(&call.res));
        let question = Question {
            uid: &uid,
            kind: &kind,
            resource: &res,
            request_kind: &request_kind,
            request_resource: &call.res,
            subresource: gate.subresource,
            name,
            namespace,
            operation: self.operation,
            user: call.user.info(),
            dry_run: self.dry_run,
            options: &self.options,
        };
        let request = question.request();
        let judge = Rights {
            gate,
            name,
            namespace,
        };
        if !hook.conditions_hold(&call.res, new.as_ref(), old.as_ref(), &request, &judge)? {
            return Ok(None);
        }
        Ok(Some(Asked {
            hook,
            res,
            uid,
            request,
            new,
            old,
        }))
    }

    async fn ask(&self, asked: &Asked<'_>, until: Instant, mutating: bool) -> Result<Answer, Trouble> {
        let hook = asked.hook;
        if self.dry_run && !hook.takes_dry_run {
            let why = format!("admission webhook {:?} does not support dry run", hook.name);
            return Err(Trouble::Refused(ApiError::bad_request(why)));
        }
        let Some(version) = hook.review else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions \
                       (v1, v1beta1)";
            return Err(Trouble::NoAnswer(why.to_owned()));
        };
        let api = self.gate.api;
        let body = webhook::body(
            version,
            asked.request.clone(),
            asked.new.as_ref(),
            asked.old.as_ref(),
        );
        let answer = webhook::ask(hook, &api.services, &api.env, until, body).await;
        let answer = answer.map_err(Trouble::NoAnswer)?;
        let mut answer = Answer::read(&answer, version, &asked.uid, mutating).map_err(Trouble::NoAnswer)?;
        self.gate.warnings.add(std::mem::take(&mut answer.warnings));
        Ok(answer)
    }

    /// The object as the answer wants it, in the version of the request; none if it is to stay as it is.
    fn follow(&self, asked: &Asked<'_>, answer: &Answer) -> Result<Option<Value>, Trouble> {
        let (hook, gate) = (asked.hook, self.gate);
        if !answer.allowed {
            return Err(Trouble::Refused(answer.refusal(&hook.name)));
        }
        let changed = answer
            .change(&hook.name, asked.new.as_ref())
            .map_err(|fault| match fault {
                Fault::Call(why) => Trouble::NoAnswer(why),
                Fault::Change(error) => Trouble::Refused(error),
            })?;
        let Some(changed) = changed else {
            return Ok(None);
        };
        let res = &gate.call.res;
        // What a version of a custom resource does not know is kept on the way: all are stored as one.
        let object = if asked.res.custom.is_some() {
            gate.decoded(res, gate.converted(&asked.res, res, &changed).into_owned())
        } else {
            gate.decoded(&asked.res, changed)
                .map(|object| gate.converted(&asked.res, res, &object).into_owned())
        };
        object.map(Some).map_err(Trouble::Refused)
    }

    /// What becomes of a write when a webhook was of no help.
    fn judge(&self, hook: &Hook, trouble: Trouble) -> Result<()> {
        match trouble {
            Trouble::Refused(error) => Err(error),
            Trouble::NoAnswer(why) if !hook.optional => Err(ApiError::internal(format!(
                "failed calling webhook {:?}: {why}",
                hook.name
            ))),
            Trouble::NoAnswer(_) if self.gate.is_late() => Err(ApiError::timeout(LATE)),
            Trouble::NoAnswer(why) => {
                tracing::warn!(webhook = hook.name, error = why, "Went on without a webhook");
                Ok(())
            }
        }
    }
}

/// An object on its way through those that may change it.
struct Change {
    object: Option<Value>,
    /// Who is to be asked again.
    again: BTreeSet<usize>,
    /// Who was asked since the last change, and may be asked again.
    invoked: BTreeSet<usize>,
    changed: bool,
}

impl Change {
    /// The object is another one now than those have seen that were asked before.
    fn require(&mut self) {
        self.again.append(&mut self.invoked);
    }
}

/// What conditions may ask about rights.
struct Rights<'a> {
    gate: &'a Gate<'a>,
    /// What the request is about.
    name: &'a str,
    namespace: &'a str,
}

impl std::fmt::Debug for Rights<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rights").finish_non_exhaustive()
    }
}

impl Judge for Rights<'_> {
    fn decide(&self, account: Option<&(String, String)>, wanted: &Attributes) -> (bool, String) {
        let account = account.map(|(namespace, name)| User::service_account(namespace, name, ""));
        let user = account.as_ref().unwrap_or(&self.gate.call.user);
        let decision = self.gate.api.authorize(user, wanted);
        (decision.allowed, decision.reason)
    }

    fn request(&self) -> On {
        let res = &self.gate.call.res;
        On::Resource {
            group: res.group.clone(),
            resource: res.plural.clone(),
            subresource: self.gate.subresource.to_owned(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
        }
    }
}
