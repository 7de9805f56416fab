//! Impersonation: the `Impersonate-*` headers of a request, and the permission to use them.
//!
//! Since 1.36 two permissions allow it: the verb `impersonate` on the user, or the pair of `impersonate:<mode>` on the
//! user and `impersonate-on:<mode>:<verb>` on the requested resource. The pair is checked first; if both are refused, the
//! response has the reason of the first.

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::authn::{User, service_account_of};
use crate::authz::Attributes;
use crate::status::{ApiError, Result};

const AUTHENTICATION: &str = "authentication.k8s.io";
const EXTRA: &str = "impersonate-extra-";

/// Returns the user of the headers; its groups are not complete yet.
pub fn wanted(headers: &HeaderMap) -> Result<Option<User>> {
    if !headers
        .keys()
        .any(|name| name.as_str().starts_with("impersonate-"))
    {
        return Ok(None);
    }
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let mut user = User {
        name: text("impersonate-user"),
        uid: text("impersonate-uid"),
        ..User::default()
    };
    for group in headers.get_all("impersonate-group") {
        user.groups
            .push(String::from_utf8_lossy(group.as_bytes()).into_owned());
    }
    for (header, value) in headers {
        if let Some(key) = header.as_str().strip_prefix(EXTRA) {
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            user.extra.entry(key).or_default().push(value);
        }
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user == User::default() {
        return Ok(None);
    }
    Err(ApiError::bad_request(
        "requested groups, a uid or extra fields without impersonating a user name",
    ))
}

/// Returns the impersonated user, if `may` allows it to the authenticated user.
pub fn impersonate(
    wanted: &User,
    request: &Attributes,
    may: impl Fn(&Attributes) -> Result<()>,
) -> Result<User> {
    let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
    let account = service_account_of(&wanted.name).is_some();
    let mode = match (account, wanted.node().is_some()) {
        (true, _) => only_name.then_some("serviceaccount"),
        (_, true) => only_name.then_some("arbitrary-node"),
        _ => Some("user-info"),
    };
    let constrained = mode.map(|mode| {
        let on = Attributes {
            verb: format!("impersonate-on:{mode}:{}", request.verb),
            ..request.clone()
        };
        may(&on)?;
        check(wanted, &format!("impersonate:{mode}"), AUTHENTICATION, &may)
    });
    let mut user = wanted.clone();
    match constrained {
        Some(Ok(())) if mode == Some("arbitrary-node") => user.node_groups(),
        Some(Ok(())) => {}
        Some(Err(refusal)) => check(wanted, "impersonate", "", &may).map_err(|_| refusal)?,
        None => check(wanted, "impersonate", "", &may)?,
    }
    if user.groups.is_empty() {
        user.fixed_groups();
    }
    user.complete_groups();
    Ok(user)
}

/// Whether each part of the user may be taken on.
fn check(wanted: &User, verb: &str, group: &str, may: &impl Fn(&Attributes) -> Result<()>) -> Result<()> {
    let constrained = group == AUTHENTICATION;
    let name = match (service_account_of(&wanted.name), wanted.node()) {
        (Some((namespace, name)), _) => {
            Attributes::on_resource(verb, group, "serviceaccounts", namespace, name)
        }
        (None, Some(node)) if constrained => Attributes::on_resource(verb, group, "nodes", "", node),
        _ => Attributes::on_resource(verb, group, "users", "", &wanted.name),
    };
    may(&name)?;
    if !wanted.uid.is_empty() {
        let uid = Attributes::on_resource(verb, AUTHENTICATION, "uids", "", &wanted.uid);
        may(&uid)?;
    }
    for name in &wanted.groups {
        may(&Attributes::on_resource(verb, group, "groups", "", name))?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            let extra = Attributes::on_resource(verb, AUTHENTICATION, "userextras", "", value);
            may(&extra.on_subresource(key))?;
        }
    }
    Ok(())
}
