//! Routing: from the path of a request to its handler.

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, USER_AGENT};
use http::{Method, Request, Response};

use crate::authn::{Authorization, User};
use crate::endpoints::negotiate::{NotAcceptable, ResponseKind};
use crate::endpoints::request::{self, Query, Target};
use crate::endpoints::{Body, Call, Form, Reply, Warnings, negotiate};
use crate::registry::served::ServedResources;
use crate::resource::Resource;
use crate::service::body::ResponseBody;
use crate::service::{ApiService, BoxError, body, collect, documents, warnings};
use crate::status::ApiError;

/// The largest accepted body.
const MAX_BODY: usize = 3 * 1024 * 1024;

const NO_PAGE: &str = "404 page not found\n";

type Answer = Result<Response<ResponseBody>, ApiError>;

impl ApiService {
    pub(super) async fn route<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body<Error: Into<BoxError>>,
    {
        let path = request.uri().path().to_owned();
        // With AlwaysAllow, health checks need no credentials.
        if self.api.authorization == Authorization::AlwaysAllow
            && let Some(answer) = health(&path)
        {
            return answer;
        }
        let query = Query::parse(request.uri());
        let user = match self.admit(request.method(), &path, &query, request.headers()) {
            Ok(user) => user,
            Err(error) => return body::error(&error),
        };
        if let Some(answer) = health(&path) {
            return answer;
        }
        let registry = self.api.registry();
        if let Some(answer) = documents::answer(&registry, &path, &query, &request, &self.api.env) {
            return answer;
        }
        self.resource(&registry, &path, query, user, request)
            .await
            .unwrap_or_else(|error| body::error(&error))
    }

    async fn resource<B>(
        &self,
        registry: &ServedResources,
        path: &str,
        query: Query,
        user: Arc<User>,
        request: Request<B>,
    ) -> Answer
    where
        B: http_body::Body<Error: Into<BoxError>>,
    {
        let known_group = |group: &str| registry.all().iter().any(|r| r.group == group);
        let group = path
            .strip_prefix("/apis/")
            .map(|rest| rest.split('/').next().unwrap_or_default());
        let is_known = || path.starts_with("/api/") || group.is_some_and(known_group);
        let decoded = request::decoded(path);
        let target = decoded
            .as_deref()
            .and_then(Target::parse)
            .map(as_binding_of_a_pod);
        let found = target.and_then(|target| find(registry, &target).map(|res| (target, res)));
        // The group of a resource is known, unless its text in the path is encoded.
        if (found.is_none() || path.contains('%')) && !is_known() {
            return Ok(body::text(404, NO_PAGE));
        }
        let Some((target, res)) = found else {
            // Groups of custom resources are served by another part of the real server, with words of its own.
            let custom = registry
                .all()
                .iter()
                .any(|r| Some(r.group.as_str()) == group && r.custom.is_some());
            return if custom {
                Ok(body::text(404, NO_PAGE))
            } else {
                Err(ApiError::no_such_resource())
            };
        };
        if !has_subresource(&res, target.subresource) {
            // The handler of custom resources answers for every path below an object.
            return Err(match target.name {
                Some(name) if res.custom.is_some() => ApiError::not_found(&res, name),
                _ => ApiError::no_such_resource(),
            });
        }
        let (http::request::Parts { method, headers, .. }, body) = request.into_parts();
        // The old watch paths are authorized as watches and accept GET only.
        if target.watch && method != Method::GET {
            return Err(ApiError::method_not_allowed());
        }
        let header = |name: HeaderName| headers.get(name).and_then(|h| h.to_str().ok()).map(str::to_owned);
        // A name in the path makes it a GET, unless the path itself is one of the old watch paths.
        let asked = query.flag("watch") == Some(true) && target.name.is_none();
        let watching = (target.watch || asked) && method == Method::GET;
        let response_kind = match (&target.subresource, &target.name, watching) {
            (None, None, false) if method != Method::POST => ResponseKind::List,
            _ => ResponseKind::Object,
        };
        let view = negotiate::accept(header(ACCEPT).as_deref(), response_kind)
            .map_err(|e| not_acceptable(&res, e))?;
        let form = Form::new(res.clone(), view, &query, &self.api.env)?;
        let call = Call {
            res,
            namespace: target.namespace.unwrap_or_default().to_owned(),
            name: target.name.map(str::to_owned),
            query,
            body: collect(body, MAX_BODY).await?,
            content_type: header(CONTENT_TYPE).unwrap_or_default(),
            user_agent: header(USER_AGENT).unwrap_or_default(),
            view,
            watch: watching,
            lag: self.lag.clone(),
            user,
            admin_token: self.token.clone(),
        };
        let warnings = Warnings::default();
        let outcome = self
            .api
            .handle(&method, target.subresource, call, &warnings)
            .await;
        let (mut response, mut told) = match outcome {
            Ok(reply) => rendered(&form, reply),
            Err(error) => (body::error(&error), error.warnings.into_vec()),
        };
        told.append(&mut warnings.into_vec());
        for header in warnings::headers(&told) {
            response.headers_mut().append(http::header::WARNING, header);
        }
        Ok(response)
    }
}

/// A form that does not fit is refused with the type of what there is, in the words of the real server.
fn not_acceptable(res: &Resource, error: NotAcceptable) -> ApiError {
    ApiError::not_acceptable(match error {
        NotAcceptable::MediaType | NotAcceptable::Form => error.to_string(),
        NotAcceptable::List => format!("{error} (*{}.{})", res.version, res.list_kind),
        NotAcceptable::NoList => format!("{error} (*{}.{})", res.version, res.kind),
    })
}

/// Returns the answer and its warnings.
fn rendered(form: &Form, reply: Reply) -> (Response<ResponseBody>, Vec<String>) {
    let Reply {
        code,
        body: content,
        warnings,
    } = reply;
    let response = match content {
        Body::Watch(watch) => body::watch(*watch),
        other => body::json_bytes(code, form.encode(&other)),
    };
    (response, warnings)
}

/// Whether a request is one of the old way to bind a pod: its name is in the body alone.
fn as_binding_of_a_pod(target: Target<'_>) -> Target<'_> {
    let old_way = target.group.is_empty() && target.resource == "bindings" && target.name.is_none();
    if !old_way || target.namespace.is_none() {
        return target;
    }
    Target {
        resource: "pods",
        name: Some(""),
        subresource: Some("binding"),
        ..target
    }
}

/// The resource of a path, if the path fits its scope.
fn find(registry: &ServedResources, target: &Target<'_>) -> Option<Arc<Resource>> {
    let res = registry.find(target.group, target.version, target.resource)?;
    let misplaced = matches!(
        (res.namespaced, &target.namespace, &target.name),
        (true, None, Some(_)) | (false, Some(_), _)
    );
    (!misplaced).then_some(res)
}

fn has_subresource(res: &Resource, subresource: Option<&str>) -> bool {
    match subresource {
        None => true,
        Some("status") => res.status,
        Some("scale") => res.scale.is_some(),
        Some(
            "attach"
            | "binding"
            | "ephemeralcontainers"
            | "eviction"
            | "exec"
            | "log"
            | "portforward"
            | "proxy",
        ) => res.collection == "pods",
        Some("approval") => res.plural == "certificatesigningrequests",
        Some("finalize") => res.collection == "namespaces",
        Some("token") => res.collection == "serviceaccounts",
        Some(_) => false,
    }
}

fn health(path: &str) -> Option<Response<ResponseBody>> {
    let check = path.trim_end_matches('/');
    matches!(
        check,
        "/healthz" | "/livez" | "/readyz" | "/healthz/ping" | "/livez/ping" | "/readyz/ping"
    )
    .then(|| body::text(200, "ok"))
}
