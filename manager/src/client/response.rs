//! Decodes responses and failures of requests. No error quotes a body.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::client::{AuthError, Body};

use super::exec_plugin::PluginError;
use super::fence::FenceClosed;
use super::{ClientError, OBJECT_MAX, Status};

pub(super) async fn collect(body: Body, request_line: &str) -> Result<Bytes, ClientError> {
    match Limited::new(body, OBJECT_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ClientError::TooLarge {
            request_line: request_line.to_owned(),
            limit: OBJECT_MAX,
        }),
        Err(error) => Err(broken(&*error, request_line)),
    }
}

/// Returns the error of a body that broke off.
pub(super) fn broken(error: &(dyn std::error::Error + 'static), request_line: &str) -> ClientError {
    ClientError::Connection {
        request_line: request_line.to_owned(),
        connected: true,
        reason: error_chain(error),
    }
}

/// Returns the error of a response that is not a success.
pub(super) async fn refused(response: http::Response<Body>, request_line: &str) -> ClientError {
    let code = response.status();
    let header = response.headers().get(header::RETRY_AFTER);
    let seconds: Option<u32> = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let request_line = request_line.to_owned();
    // Without a body, the status code is sufficient.
    let body = collect(response.into_body(), &request_line)
        .await
        .unwrap_or_default();
    let status = serde_json::from_slice::<Status>(&body)
        .ok()
        .filter(|status| status.kind == "Status");
    let asked = seconds.or_else(|| {
        let seconds = status.as_ref()?.details.retry_after_seconds;
        (seconds > 0).then_some(seconds)
    });
    let retry_after = asked.map(|seconds| Duration::from_secs(seconds.into()));
    match status {
        Some(mut status) => {
            // The HTTP status code wins, as in proxies and metrics.
            status.code = code.as_u16();
            ClientError::Status {
                request_line,
                status: Box::new(status),
                retry_after,
            }
        }
        None => ClientError::Unexplained {
            request_line,
            code: code.as_u16(),
            retry_after,
        },
    }
}

pub(super) fn failed(error: &kube::Error, request_line: &str) -> ClientError {
    let request_line = request_line.to_owned();
    if let kube::Error::Service(source) = error {
        if source.is::<FenceClosed>() {
            return ClientError::Fenced { request_line };
        }
        let transport = source.downcast_ref::<hyper_util::client::legacy::Error>();
        return ClientError::Connection {
            request_line,
            connected: !source.is::<PluginError>()
                && !transport.is_some_and(hyper_util::client::legacy::Error::is_connect),
            reason: error_chain(&**source),
        };
    }
    ClientError::Connection {
        request_line,
        connected: true,
        reason: error_chain(error),
    }
}

/// Formats an error with its causes in one line.
pub(super) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    if let Some(plugin) = causes.find_map(|error| exec_plugin_error(error.downcast_ref()?)) {
        return plugin;
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// Describes the failure of a credential plugin without its output, which may contain a token.
pub(super) fn exec_plugin_error(error: &AuthError) -> Option<String> {
    match error {
        AuthError::AuthExecRun { out, .. } => {
            Some(format!("the exec credential plugin failed: {}", out.status))
        }
        AuthError::AuthExecParse(_) | AuthError::ParseTokenKey(_) => {
            Some("the exec credential plugin did not print a valid credential".to_owned())
        }
        _ => None,
    }
}

/// Returns the text of a body. As in Go, invalid UTF-8 becomes replacement characters.
pub(crate) fn text(body: &[u8]) -> Cow<'_, str> {
    // For valid text, this check is several times faster than the search for invalid characters.
    str::from_utf8(body).map_or_else(|_| String::from_utf8_lossy(body), Cow::Borrowed)
}

pub(super) fn decode<T: serde::de::DeserializeOwned>(
    body: &[u8],
    request_line: &str,
) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|error| ClientError::Decode {
        request_line: request_line.to_owned(),
        // The message of serde_json may quote the body, which may be a Secret.
        reason: format!(
            "{:?} at line {} column {}",
            error.classify(),
            error.line(),
            error.column()
        ),
    })
}
