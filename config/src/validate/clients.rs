//! Authentication and authorization of the clients of the endpoints.

use super::{Validator, list, present};
use crate::config::{Authentication, Authorization, RequestHeader};
use crate::flags::{AuthenticationFlags, AuthorizationFlags, Switch};
use crate::syntax;

impl Validator<'_> {
    pub(super) fn authentication(&mut self, flags: AuthenticationFlags) -> Authentication {
        let AuthenticationFlags {
            authentication_kubeconfig,
            authentication_skip_lookup: Switch(skip_lookup),
            authentication_token_webhook_cache_ttl: ttl,
            client_ca_file,
            requestheader_client_ca_file,
            requestheader_allowed_names: allowed_names,
            requestheader_username_headers: username_headers,
            requestheader_uid_headers: uid_headers,
            requestheader_group_headers: group_headers,
            requestheader_extra_headers_prefix: extra_headers_prefix,
        } = flags;
        let client_ca_field = "authentication.requestHeader.clientCAFile";
        let request_header = if let Some(client_ca) = present(requestheader_client_ca_file) {
            Some(RequestHeader {
                client_ca,
                allowed_names: self.items("authentication.requestHeader.allowedNames", &allowed_names),
                username_headers: self
                    .headers("authentication.requestHeader.usernameHeaders", &username_headers),
                uid_headers: self.headers("authentication.requestHeader.uidHeaders", &uid_headers),
                group_headers: self.headers("authentication.requestHeader.groupHeaders", &group_headers),
                extra_headers_prefixes: self.headers(
                    "authentication.requestHeader.extraHeadersPrefix",
                    &extra_headers_prefix,
                ),
            })
        } else {
            for field in [
                "allowedNames",
                "usernameHeaders",
                "uidHeaders",
                "groupHeaders",
                "extraHeadersPrefix",
            ] {
                let field = format!("authentication.requestHeader.{field}");
                if self.sources.chosen(&field) {
                    let (place, required) = (self.place(&field), self.place(client_ca_field));
                    self.contradiction(format!("{place} requires {required}"));
                }
            }
            None
        };
        if request_header
            .as_ref()
            .is_some_and(|it| it.username_headers.is_empty())
        {
            let field = "authentication.requestHeader.usernameHeaders";
            self.require(false, field, "a list of at least one header", "empty");
        }
        Authentication {
            kubeconfig: present(authentication_kubeconfig),
            skip_lookup,
            token_cache_ttl: self.not_negative("authentication.tokenWebhookCacheTTL", ttl),
            client_ca: present(client_ca_file),
            request_header,
        }
    }

    pub(super) fn authorization(&mut self, flags: AuthorizationFlags) -> Authorization {
        let AuthorizationFlags {
            authorization_kubeconfig,
            authorization_always_allow_paths,
            authorization_webhook_cache_authorized_ttl: authorized,
            authorization_webhook_cache_unauthorized_ttl: unauthorized,
        } = flags;
        let always_allow_paths: Vec<_> = list(&authorization_always_allow_paths)
            .into_iter()
            .map(str::to_owned)
            .collect();
        for path in &always_allow_paths {
            let valid =
                path.starts_with('/') && !path.trim_end_matches('*').contains('*') && !path.ends_with("**");
            let allowed = "a list of paths that start with `/` and contain `*` only at the end";
            self.require(
                valid,
                "authorization.alwaysAllowPaths",
                allowed,
                format_args!("{path:?}"),
            );
        }
        Authorization {
            kubeconfig: present(authorization_kubeconfig),
            always_allow_paths,
            authorized_ttl: self.not_negative("authorization.webhookCacheAuthorizedTTL", authorized),
            unauthorized_ttl: self.not_negative("authorization.webhookCacheUnauthorizedTTL", unauthorized),
        }
    }

    fn headers(&mut self, field: &str, pieces: &[String]) -> Vec<String> {
        let headers = list(pieces);
        for header in &headers {
            let valid = syntax::is_header(header);
            self.require(valid, field, "a list of header names", format_args!("{header:?}"));
        }
        headers.into_iter().map(str::to_owned).collect()
    }
}
