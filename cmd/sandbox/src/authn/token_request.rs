//! POST of `/token` of a service account: issues a token, bound to an object if asked.

use crate::admission::dispatcher::Dispatcher;
use crate::authn::{AUDIENCE, Claims, Ref, Subject, User};
use crate::endpoints::{Api, Body, Call, Reply, create, decode};
use crate::env::rfc3339;
use crate::field::FieldError;
use crate::json::{Value, json};
use crate::status::{ApiError, Result};
use crate::{meta, registry, schema};

const GROUP: &str = "authentication.k8s.io";
const VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";
const HOUR: i64 = 60 * 60;
const MIN_EXPIRATION_SECONDS: i64 = 10 * 60;
const MAX_EXPIRATION_SECONDS: i64 = 1 << 32;

impl Api {
    pub(crate) async fn request_token(&self, dispatcher: &Dispatcher<'_>) -> Result<Reply> {
        let call = dispatcher.call;
        let dry_run = call.dry_run("CreateOptions")?;
        let mut request = body(call)?;
        create::check_namespace(&call.res, &call.namespace, &mut request)?;
        let mut request = dispatcher.mutate_new(request, dry_run).await?;
        let (namespace, name) = (&call.namespace, call.name());
        check_name(&request, name)?;
        let account = self.store.get(&call.res.collection, &call.key());
        let account = account.ok_or_else(|| ApiError::not_found(&call.res, name))?;
        let account = account.value();
        let uid = meta::text(account, "uid");
        let said = meta::text(&request, "uid").to_owned();
        if !said.is_empty() && said != uid {
            let why = format!(
                "the UID in the token request ({said}) does not match the UID of the service account ({uid})"
            );
            return Err(ApiError::conflict_as(GROUP, KIND, name, &why));
        }
        let spec = &request["spec"];
        let mut audiences: Vec<String> = spec["audiences"].decode().unwrap_or_default();
        if audiences.is_empty() {
            audiences.push(AUDIENCE.to_owned());
        }
        let seconds = spec["expirationSeconds"].as_i64().unwrap_or(HOUR);
        check_age(seconds)?;
        let bound = spec["boundObjectRef"].clone();
        let now = self.env.now();
        for (field, value) in [("name", name), ("uid", uid), ("creationTimestamp", &rfc3339(now))] {
            meta::set(&mut request, field, value);
        }
        request["spec"] =
            json!({"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound});
        request["status"] = json!({"token": "", "expirationTimestamp": null});
        dispatcher.validate_new(&request, dry_run).await?;
        let mut subject = Subject {
            namespace: namespace.clone(),
            node: None,
            pod: None,
            secret: None,
            serviceaccount: reference(account),
        };
        self.bind_token(call, &bound, &mut subject)?;

        let claims = Claims {
            aud: audiences,
            exp: now.as_second() + seconds,
            iat: now.as_second(),
            iss: AUDIENCE.to_owned(),
            jti: self.env.uid("tokens", &meta::key(namespace, name)),
            kubernetes: subject,
            nbf: now.as_second(),
            sub: User::service_account(namespace, name, uid).name,
        };
        let token = self.signer().and_then(|signer| signer.sign(&claims));
        let token = token.ok_or_else(|| ApiError::internal("failed to generate token: no randomness"))?;
        let end = jiff::Timestamp::from_second(claims.exp).unwrap_or(jiff::Timestamp::MAX);
        request["status"] = json!({"token": token, "expirationTimestamp": rfc3339(end)});
        request["apiVersion"] = VERSION.into();
        request["kind"] = KIND.into();
        Ok(Reply {
            code: 201,
            body: Body::Plain(request),
            warnings: Vec::new(),
        })
    }

    /// Binds a token to an object; one that is bound to a pod names the pod's node too.
    fn bind_token(&self, call: &Call, wanted: &Value, bound: &mut Subject) -> Result<()> {
        if wanted.is_null() {
            return Ok(());
        }
        let text = |key: &str| wanted[key].as_str().unwrap_or_default();
        let (api_version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let (plural, namespace) = match (group, kind) {
            ("", "Pod") => ("pods", call.namespace.as_str()),
            ("", "Secret") => ("secrets", call.namespace.as_str()),
            ("", "Node") => ("nodes", ""),
            _ => {
                let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(ApiError::bad_request(message));
            }
        };
        let object = self.store.get(plural, &meta::key(namespace, name));
        let object = match (object, registry::built_in("", "v1", plural)) {
            (Some(object), _) => object.value().clone(),
            (None, Some(res)) => return Err(ApiError::not_found(res, name)),
            (None, None) => return Err(ApiError::no_such_resource()),
        };
        let found = reference(&object);
        if kind == "Pod" {
            let account = call.name();
            if object["spec"]["serviceAccountName"] != account {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
                )));
            }
            let node = object["spec"]["nodeName"]
                .as_str()
                .filter(|node| !node.is_empty());
            bound.node = node.map(|name| {
                let object = self.store.get("nodes", name);
                object.map_or_else(
                    || Ref {
                        name: name.to_owned(),
                        uid: String::new(),
                    },
                    |object| reference(object.value()),
                )
            });
        }
        let said = text("uid");
        if !said.is_empty() && said != found.uid {
            let why = format!(
                "the UID in the bound object reference ({said}) does not match the UID in record. The object might have \
                 been deleted and then recreated"
            );
            return Err(ApiError::conflict_as("", kind, name, &why));
        }
        match kind {
            "Pod" => bound.pod = Some(found),
            "Secret" => bound.secret = Some(found),
            _ => bound.node = Some(found),
        }
        Ok(())
    }
}

fn reference(object: &Value) -> Ref {
    Ref {
        name: meta::name(object).to_owned(),
        uid: meta::text(object, "uid").to_owned(),
    }
}

fn body(call: &Call) -> Result<Value> {
    let mut value = decode::tree(call, VERSION, KIND)?.value;
    if let Some(other) = value["kind"].as_str().filter(|kind| !matches!(*kind, "" | KIND)) {
        let version = value["apiVersion"].as_str().unwrap_or_default();
        let version = version.rsplit('/').next().unwrap_or_default();
        return Err(ApiError::bad_request(format!(
            "{other} in version {version:?} cannot be handled as a {KIND}: it is another kind"
        )));
    }
    if let Some(schema) = schema::builtin(VERSION, KIND) {
        schema::conform(schema, &mut value).map_err(|e| ApiError::bad_request(e.to_string()))?;
    }
    meta::set(&mut value, "managedFields", Value::Null);
    Ok(value)
}

fn check_name(request: &Value, name: &str) -> Result<()> {
    let said = meta::name(request);
    if said.is_empty() || said == name {
        return Ok(());
    }
    let wrong = FieldError::invalid("metadata.name", said, "must match the service account name");
    Err(ApiError::invalid_kind(GROUP, KIND, name, &[wrong]))
}

fn check_age(seconds: i64) -> Result<()> {
    let why = match seconds {
        ..MIN_EXPIRATION_SECONDS => "may not specify a duration less than 10 minutes",
        MIN_EXPIRATION_SECONDS..=MAX_EXPIRATION_SECONDS => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let wrong = FieldError::invalid("spec.expirationSeconds", seconds, why);
    Err(ApiError::invalid_kind(GROUP, KIND, "", &[wrong]))
}
