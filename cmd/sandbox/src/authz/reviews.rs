//! Reviews: questions about tokens and rights, answered and not stored.

use crate::admission::dispatcher::Dispatcher;
use crate::authn::{AUDIENCE, TokenError, User, same};
use crate::authz::Attributes;
use crate::endpoints::{Api, Body, Call, Reply, create, decode};
use crate::field::{FieldError, Report};
use crate::json::{Map, Value, json};
use crate::meta;
use crate::status::{ApiError, Result};

impl Api {
    pub(crate) async fn review(&self, dispatcher: &Dispatcher<'_>) -> Result<Reply> {
        let call = dispatcher.call;
        let dry_run = call.dry_run("CreateOptions")?;
        let decode::Decoded { mut value, warnings } = self.decoded_body(call, "CreateOptions")?;
        create::check_namespace(&call.res, &call.namespace, &mut value)?;
        if call.res.kind.ends_with("AccessReview") {
            value["status"] = json!({"allowed": false});
        }
        let value = dispatcher.mutate_new(value, dry_run).await?;
        dispatcher.validate_new(&value, dry_run).await?;
        let answer = match call.res.kind.as_str() {
            "TokenReview" => self.review_token(call, value)?,
            "SelfSubjectReview" => self.review_self(call, &value),
            "SelfSubjectRulesReview" => self.review_rules(call, &value)?,
            _ => self.review_access(call, value)?,
        };
        let reply = Reply {
            code: 201,
            body: Body::Plain(answer),
            warnings: Vec::new(),
        };
        Ok(reply.warn(warnings))
    }

    /// Answers a `TokenReview`.
    fn review_token(&self, call: &Call, mut review: Value) -> Result<Value> {
        let token = review["spec"]["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(ApiError::bad_request(
                "token is required for TokenReview in authentication",
            ));
        }
        let audiences: Vec<String> = review["spec"]["audiences"].decode().unwrap_or_default();
        let is_admin = call.admin_token.as_ref().is_some_and(|admin| same(admin, token));
        let found = if is_admin {
            // It is good for this API alone.
            let ours = audiences.is_empty() || audiences.iter().any(|a| a == AUDIENCE);
            ours.then(|| (User::admin(), vec![AUDIENCE.to_owned()]))
                .ok_or(TokenError::Unknown)
        } else {
            self.authenticate(token, &audiences)
                .map(|found| (found.user, found.audiences))
        };
        review["status"] = match found {
            Ok((user, audiences)) => {
                json!({"authenticated": true, "user": user.info(), "audiences": audiences})
            }
            Err(error) => json!({"user": {}, "error": error.to_string()}),
        };
        Ok(review)
    }

    /// Answers a `SelfSubjectReview`.
    fn review_self(&self, call: &Call, review: &Value) -> Value {
        json!({
            "kind": review["kind"],
            "apiVersion": review["apiVersion"],
            "metadata": {"creationTimestamp": self.env.time()},
            "status": {"userInfo": call.user.info()},
        })
    }

    /// Answers a `SelfSubjectRulesReview`.
    fn review_rules(&self, call: &Call, review: &Value) -> Result<Value> {
        let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
        if namespace.is_empty() {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        let held = self.held_rules(&call.user, namespace);
        let (mut resource_rules, mut url_rules) = (Vec::new(), Vec::new());
        for rule in &held.rules {
            if !rule.resources.is_empty() {
                let mut shown =
                    json!({"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
                if !rule.resource_names.is_empty() {
                    shown["resourceNames"] = json!(rule.resource_names);
                }
                resource_rules.push(shown);
            }
            if !rule.non_resource_urls.is_empty() {
                url_rules.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
            }
        }
        let mut status =
            json!({"resourceRules": resource_rules, "nonResourceRules": url_rules, "incomplete": false});
        let error = held.error();
        if !error.is_empty() {
            status["evaluationError"] = error.into();
        }
        Ok(json!({
            "kind": review["kind"],
            "apiVersion": review["apiVersion"],
            "metadata": {},
            "spec": {},
            "status": status,
        }))
    }

    /// Answers the access reviews.
    fn review_access(&self, call: &Call, mut review: Value) -> Result<Value> {
        let errors = wrong_fields(call, &review);
        if !errors.is_empty() {
            return Err(ApiError::invalid_kind(&call.res.group, "", "", &errors));
        }
        let spec = &review["spec"];
        let user = if call.res.kind == "SelfSubjectAccessReview" {
            (*call.user).clone()
        } else {
            subject_of(spec)
        };
        let decision = self.authorize(&user, &attributes_of(spec));
        let mut status = json!({"allowed": decision.allowed});
        if !decision.reason.is_empty() {
            status["reason"] = decision.reason.into();
        }
        review["status"] = status;
        Ok(review)
    }
}

fn text(object: &Value, key: &str) -> String {
    object[key].as_str().unwrap_or_default().to_owned()
}

fn subject_of(spec: &Value) -> User {
    User {
        name: text(spec, "user"),
        uid: text(spec, "uid"),
        groups: spec["groups"].decode().unwrap_or_default(),
        extra: spec["extra"].decode().unwrap_or_default(),
    }
}

fn attributes_of(spec: &Value) -> Attributes {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_object() {
        return resource.decode().unwrap_or_default();
    }
    Attributes {
        path: Some(text(path, "path")),
        verb: text(path, "verb"),
        ..Attributes::default()
    }
}

fn wrong_fields(call: &Call, review: &Value) -> Vec<FieldError> {
    let local = call.res.kind == "LocalSubjectAccessReview";
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let path_shown = || json!({"Path": text(path, "path"), "Verb": text(path, "verb")});
    let mut errors = Vec::new();
    match (resource.is_object(), path.is_object()) {
        (true, true) => errors.invalid(
            "spec.nonResourceAttributes",
            path_shown(),
            "cannot be specified in combination with resourceAttributes",
        ),
        (false, false) => errors.invalid(
            "spec.resourceAttributes",
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => {}
    }
    let nobody = text(spec, "user").is_empty() && spec["groups"].as_array().is_none_or(<[_]>::is_empty);
    if call.res.kind != "SelfSubjectAccessReview" && nobody {
        errors.invalid("spec.user", "", "at least one of user or group must be specified");
    }
    let mut rest: Map = review["metadata"].as_object().cloned().unwrap_or_default();
    if local {
        rest.remove("namespace");
    }
    if !rest.is_empty() {
        let why = if local {
            "must be empty except for namespace"
        } else {
            "must be empty"
        };
        errors.invalid("metadata", review["metadata"].clone(), why);
    }
    if local {
        let said = text(resource, "namespace");
        if resource.is_object() && said != meta::namespace(review) {
            errors.invalid(
                "spec.resourceAttributes.namespace",
                said,
                "must match metadata.namespace",
            );
        }
        if path.is_object() {
            errors.invalid(
                "spec.nonResourceAttributes",
                path_shown(),
                "disallowed on this kind of request",
            );
        }
    }
    errors
}
