//! The authenticator of service account tokens: checks signature, expiry, the account and the bound object.

use crate::authn::{AUDIENCE, Claims, Ref, Signer, TokenError, User};
use crate::endpoints::Api;
use crate::json::Value;
use crate::meta;

/// The leeway for clocks, in seconds: a token is valid for this time after its expiry, and after the deletion of its account.
const LEEWAY: i64 = 60;

/// The result of an authentication.
pub(crate) struct Authenticated {
    /// The user of the token.
    pub user: User,
    /// The requested audiences that the token is valid for.
    pub audiences: Vec<String>,
}

impl Api {
    pub(crate) fn signer(&self) -> Option<&Signer> {
        self.signer.get_or_init(Signer::generate).as_ref()
    }

    /// Authenticates a token for one of `audiences`; for the API server's own audience if there are none.
    pub(crate) fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Authenticated, TokenError> {
        // Before the first token was issued there is no key, and none can be good.
        let signer = self.signer.get().and_then(Option::as_ref);
        let claims = signer.ok_or(TokenError::Unknown)?.verify(token)?;
        let own = [AUDIENCE.to_owned()];
        let asked = if audiences.is_empty() { &own } else { audiences };
        let common: Vec<String> = asked.iter().filter(|a| claims.aud.contains(a)).cloned().collect();
        if common.is_empty() {
            return Err(TokenError::refused(format!(
                "token audiences {} is invalid for the target audiences {}",
                crate::authz::quoted(&claims.aud),
                crate::authz::quoted(asked)
            )));
        }
        self.check_claims(&claims).map_err(TokenError::Refused)?;
        Ok(Authenticated {
            user: user_of(&claims),
            audiences: common,
        })
    }

    fn check_claims(&self, claims: &Claims) -> Result<(), String> {
        let now = self.env.now().as_second();
        if now > claims.exp + LEEWAY {
            return Err("service account token has expired".to_owned());
        }
        if now + LEEWAY < claims.nbf {
            return Err("service account token is not valid yet".to_owned());
        }
        let subject = &claims.kubernetes;
        let namespace = &subject.namespace;
        let Ref { name, uid } = &subject.serviceaccount;
        let account = self.store.get("serviceaccounts", &meta::key(namespace, name));
        let account = account.ok_or_else(|| format!("serviceaccounts {name:?} not found"))?;
        let account = account.value();
        let present = meta::text(account, "uid");
        if present != uid {
            return Err(format!(
                "service account UID ({present}) does not match claim ({uid})"
            ));
        }
        if self.is_long_gone(account) {
            return Err(format!("service account {namespace}/{name} has been deleted"));
        }
        // The node of a pod's token is for information.
        let node = subject.node.as_ref().filter(|_| subject.pod.is_none());
        self.check_bound("secrets", "secret", namespace, subject.secret.as_ref())?;
        self.check_bound("pods", "pod", namespace, subject.pod.as_ref())?;
        self.check_bound("nodes", "node", "", node)
    }

    /// A token goes with what it is bound to.
    fn check_bound(
        &self,
        collection: &str,
        kind: &str,
        namespace: &str,
        bound: Option<&Ref>,
    ) -> Result<(), String> {
        let Some(Ref { name, uid }) = bound else {
            return Ok(());
        };
        let invalidated = || "service account token has been invalidated".to_owned();
        let object = self.store.get(collection, &meta::key(namespace, name));
        let object = object.ok_or_else(invalidated)?;
        let object = object.value();
        let present = meta::text(object, "uid");
        if present != uid {
            return Err(format!(
                "{kind} UID ({present}) does not match service account {kind} ref claim ({uid})"
            ));
        }
        if self.is_long_gone(object) {
            return Err(invalidated());
        }
        Ok(())
    }

    /// Whether it was marked for deletion, and clocks do not differ by that much.
    fn is_long_gone(&self, object: &Value) -> bool {
        let marked: Option<jiff::Timestamp> = meta::text(object, "deletionTimestamp").parse().ok();
        marked.is_some_and(|at| at.as_second() < self.env.now().as_second() - LEEWAY)
    }
}

fn user_of(claims: &Claims) -> User {
    let subject = &claims.kubernetes;
    let Ref { name, uid } = &subject.serviceaccount;
    let mut user = User::service_account(&subject.namespace, name, uid);
    let mut tell = |key: &str, value: &str| {
        if !value.is_empty() {
            let key = format!("authentication.kubernetes.io/{key}");
            user.extra.insert(key, vec![value.to_owned()]);
        }
    };
    tell("credential-id", &format!("JTI={}", claims.jti));
    for (kind, bound) in [("pod", &subject.pod), ("node", &subject.node)] {
        if let Some(Ref { name, uid }) = bound {
            tell(&format!("{kind}-name"), name);
            tell(&format!("{kind}-uid"), uid);
        }
    }
    user
}
