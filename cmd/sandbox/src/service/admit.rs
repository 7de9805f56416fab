//! The filters of the handler chain for authentication, impersonation and authorization.

use std::sync::Arc;

use http::{HeaderMap, Method};

use crate::authn;
use crate::authn::{Authorization, User};
use crate::authz::Attributes;
use crate::endpoints::request::Query;
use crate::service::ApiService;
use crate::status::{ApiError, Result};

impl ApiService {
    /// The user on whose behalf the request is carried out: authenticated, impersonated, authorized.
    pub(super) fn admit(
        &self,
        method: &Method,
        path: &str,
        query: &Query,
        headers: &HeaderMap,
    ) -> Result<Arc<User>> {
        let mut user = self.identify(headers)?;
        let wanted = || Attributes::of(method, path, query);
        if let Some(other) = authn::wanted(headers)? {
            user = authn::impersonate(&other, &wanted(), |attributes| {
                self.api.check_allowed(&user, attributes)
            })?
            .into();
        }
        if self.api.authorization != Authorization::AlwaysAllow {
            self.api.check_allowed(&user, &wanted())?;
        }
        Ok(user)
    }

    fn identify(&self, headers: &HeaderMap) -> Result<Arc<User>> {
        let shown = authn::bearer(headers);
        match (shown, &self.token) {
            (Some(shown), Some(token)) if authn::same(shown, token) => Ok(self.admin.clone()),
            // The reason of a rejection is visible in TokenReviews only.
            (Some(shown), _) => self
                .api
                .authenticate(shown, &[])
                .map(|found| found.user.into())
                .map_err(|_| ApiError::unauthorized()),
            (None, None) => Ok(self.admin.clone()),
            // As kube-apiserver: AlwaysAllow disables anonymous requests.
            (None, Some(_)) if self.api.authorization == Authorization::Rbac => Ok(User::anonymous().into()),
            (None, Some(_)) => Err(ApiError::unauthorized()),
        }
    }
}
