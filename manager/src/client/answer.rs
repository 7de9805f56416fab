//! What the server answered, or what came in place of an answer. Nothing of a body gets into an error.

use std::time::Duration;

use bytes::Bytes;
use http::header;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::client::{AuthError, Body};

use super::transport::Shut;
use super::{ClientError, Status};

/// The largest answer that is read, one page of a list: 500 objects of the largest size that etcd takes.
const MAX_ANSWER: usize = 768 * 1024 * 1024;

pub(super) async fn collect(body: Body, what: &str) -> Result<Bytes, ClientError> {
    match Limited::new(body, MAX_ANSWER).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ClientError::TooLarge {
            what: what.to_owned(),
            limit: MAX_ANSWER,
        }),
        Err(error) => Err(ClientError::Connection {
            what: what.to_owned(),
            connected: true,
            reason: chain(&*error),
        }),
    }
}

/// What the server said in an answer that is not a success.
pub(super) async fn refused(response: http::Response<Body>, what: &str) -> ClientError {
    let code = response.status();
    let header = response.headers().get(header::RETRY_AFTER);
    let seconds: Option<u32> = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let what = what.to_owned();
    let body = match collect(response.into_body(), &what).await {
        Ok(body) => body,
        // The code is what matters.
        Err(_) => Bytes::new(),
    };
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
            // The code of the answer is the one that proxies and metrics see.
            status.code = code.as_u16();
            ClientError::Status {
                what,
                status: Box::new(status),
                retry_after,
            }
        }
        None => ClientError::Unexplained {
            what,
            code: code.as_u16(),
            retry_after,
        },
    }
}

pub(super) fn failed(error: &kube::Error, what: &str) -> ClientError {
    let what = what.to_owned();
    if let kube::Error::Service(source) = error {
        if source.is::<Shut>() {
            return ClientError::Fenced { what };
        }
        let transport = source.downcast_ref::<hyper_util::client::legacy::Error>();
        return ClientError::Connection {
            what,
            connected: !transport.is_some_and(hyper_util::client::legacy::Error::is_connect),
            reason: chain(&**source),
        };
    }
    ClientError::Connection {
        what,
        connected: true,
        reason: chain(error),
    }
}

/// An error with its causes, in one line.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    if let Some(plugin) = causes.find_map(|error| of_plugin(error.downcast_ref()?)) {
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

/// What is said of the user's exec plugin that failed: not what it printed, which may be a token.
pub(super) fn of_plugin(error: &AuthError) -> Option<String> {
    match error {
        AuthError::AuthExecRun { out, .. } => {
            Some(format!("the exec plugin of the user ended with {}", out.status))
        }
        AuthError::AuthExecParse(_) | AuthError::ParseTokenKey(_) => {
            Some("the exec plugin of the user has printed something else than a credential".to_owned())
        }
        _ => None,
    }
}

pub(super) fn decode<T: serde::de::DeserializeOwned>(body: &[u8], what: &str) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|error| ClientError::Decode {
        what: what.to_owned(),
        // Its own text can quote what it found, and that may be a secret.
        reason: format!(
            "{:?} at line {} column {}",
            error.classify(),
            error.line(),
            error.column()
        ),
    })
}
