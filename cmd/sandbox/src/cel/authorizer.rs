//! The CEL authorizer library: the variable `authorizer` of match conditions.
//!
//! Calls such as `authorizer.group('').resource('pods').name('a')` build the attributes of a check; `check` asks the
//! authorizer.

use std::rc::Rc;

use crate::authz::{Attributes, On};
use crate::cel::check::no_overload;
use crate::cel::eval::{Budget, EvalError, Result};
use crate::cel::types::Ty;
use crate::cel::value::Val;

/// The cost of one check. The budget of a condition allows two.
const CHECK_COST: u64 = 350_000;

/// The authorizer of the server.
pub trait Authorizer: std::fmt::Debug {
    /// Whether the user of the request, or the service account of this namespace and name, has the permission; and the reason.
    fn decide(&self, account: Option<&(String, String)>, wanted: &Attributes) -> (bool, String);
    /// Returns the attributes of the request.
    fn request(&self) -> On;
}

/// The state of a check, or its decision.
#[derive(Debug, Clone)]
pub(crate) enum Stage {
    Authorizer,
    Group(String),
    /// A path, or a resource.
    On(On),
    Decision(bool, String),
}

/// A value of the authorizer library.
#[derive(Debug, Clone)]
pub(crate) struct Authority<'a> {
    authorizer: &'a dyn Authorizer,
    account: Option<(String, String)>,
    stage: Stage,
}

/// The types of these values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Authorizer,
    Path,
    Group,
    Resource,
    Decision,
}

impl Kind {
    /// Returns the name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Authorizer => "kubernetes.authorization.Authorizer",
            Self::Path => "kubernetes.authorization.PathCheck",
            Self::Group => "kubernetes.authorization.GroupCheck",
            Self::Resource => "kubernetes.authorization.ResourceCheck",
            Self::Decision => "kubernetes.authorization.Decision",
        }
    }
}

/// Returns the result type of a function of such a value.
pub(crate) fn function<'n>(kind: Kind, name: &str, operands: &[&Ty<'n>]) -> Result<Ty<'n>, String> {
    let refuse = || no_overload(name, operands);
    let texts = operands.iter().skip(1);
    if !texts.clone().all(|one| matches!(one, Ty::Text | Ty::Dyn)) {
        return Err(refuse());
    }
    Ok(match (kind, name, texts.count()) {
        (Kind::Authorizer, "path", 1) => Ty::Authority(Kind::Path),
        (Kind::Authorizer, "group", 1) => Ty::Authority(Kind::Group),
        (Kind::Authorizer, "serviceAccount", 2) => Ty::Authority(Kind::Authorizer),
        (Kind::Group, "resource", 1)
        | (Kind::Resource, "subresource" | "namespace" | "name" | "fieldSelector" | "labelSelector", 1) => {
            Ty::Authority(Kind::Resource)
        }
        (Kind::Path | Kind::Resource, "check", 1) => Ty::Authority(Kind::Decision),
        (Kind::Decision, "allowed" | "errored", 0) => Ty::Bool,
        (Kind::Decision, "reason" | "error", 0) => Ty::Text,
        _ => return Err(refuse()),
    })
}

impl<'a> Authority<'a> {
    /// Returns the variable.
    pub fn variable(authorizer: &'a dyn Authorizer) -> Val<'a> {
        let authority = Self {
            authorizer,
            account: None,
            stage: Stage::Authorizer,
        };
        Val::Authority(Rc::new(authority))
    }

    /// `authorizer.requestResource`: the attributes of the request.
    pub fn field(&self, name: &str) -> Result<Val<'a>> {
        match (&self.stage, name) {
            (Stage::Authorizer, "requestResource") => Ok(self.at(Stage::On(self.authorizer.request()))),
            _ => Err(EvalError::Overload),
        }
    }

    fn at(&self, stage: Stage) -> Val<'a> {
        let mut next = self.clone();
        next.stage = stage;
        Val::Authority(Rc::new(next))
    }

    pub fn call(&self, name: &str, args: &[Val<'a>], budget: &mut Budget) -> Result<Val<'a>> {
        let mut texts = Vec::with_capacity(args.len());
        for arg in args {
            let Val::Text(text) = arg else {
                return Err(EvalError::Overload);
            };
            texts.push(text.clone().into_owned());
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        Ok(match (&self.stage, name, texts.as_slice()) {
            (Stage::Authorizer, "path", [path]) => self.at(Stage::On(On::Path((*path).to_owned()))),
            (Stage::Authorizer, "group", [group]) => self.at(Stage::Group((*group).to_owned())),
            (Stage::Authorizer, "serviceAccount", [namespace, name]) => {
                let account = Some(((*namespace).to_owned(), (*name).to_owned()));
                let other = Self {
                    account,
                    ..self.clone()
                };
                Val::Authority(Rc::new(other))
            }
            (Stage::Group(group), "resource", [resource]) => {
                let wanted = Attributes::on_resource("", group, resource, "", "");
                self.at(Stage::On(wanted.on))
            }
            (Stage::On(on), "check", [verb]) => {
                budget.spend(CHECK_COST - 1)?;
                let wanted = Attributes {
                    verb: (*verb).to_owned(),
                    on: on.clone(),
                };
                let (allowed, reason) = self.authorizer.decide(self.account.as_ref(), &wanted);
                self.at(Stage::Decision(allowed, reason))
            }
            // RBAC ignores selectors.
            (Stage::On(on @ On::Resource { .. }), "fieldSelector" | "labelSelector", [_]) => {
                self.at(Stage::On(on.clone()))
            }
            (Stage::On(on), part, [text]) => self.at(Stage::On(narrowed(on, part, text)?)),
            (Stage::Decision(allowed, _), "allowed", []) => Val::Bool(*allowed),
            (Stage::Decision(_, reason), "reason", []) => Val::text(reason.clone()),
            // The sandbox's authorizer never fails.
            (Stage::Decision(..), "errored", []) => Val::Bool(false),
            (Stage::Decision(..), "error", []) => Val::text(""),
            _ => return Err(EvalError::Overload),
        })
    }
}

/// A resource with its subresource, namespace and name.
fn narrowed(on: &On, part: &str, text: &str) -> Result<On> {
    let mut on = on.clone();
    let On::Resource {
        subresource,
        namespace,
        name,
        ..
    } = &mut on
    else {
        return Err(EvalError::Overload);
    };
    let place = match part {
        "subresource" => subresource,
        "namespace" => namespace,
        "name" => name,
        _ => return Err(EvalError::Overload),
    };
    text.clone_into(place);
    Ok(on)
}
