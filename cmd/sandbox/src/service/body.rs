//! The body of a response: all at once, or a watch that goes on.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};

use crate::endpoints::WatchStream;
use crate::json::Value;
use crate::status::ApiError;

/// The body type of every response.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) fn bytes(code: u16, content_type: HeaderValue, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

pub(super) fn json(code: u16, value: &Value) -> Response<ResponseBody> {
    bytes(code, JSON, format!("{value}\n"))
}

pub(super) fn json_bytes(code: u16, body: Bytes) -> Response<ResponseBody> {
    bytes(code, JSON, body)
}

pub(super) fn text(code: u16, body: impl Into<Bytes>) -> Response<ResponseBody> {
    bytes(code, HeaderValue::from_static("text/plain; charset=utf-8"), body)
}

pub(super) fn error(error: &ApiError) -> Response<ResponseBody> {
    let mut response = json(error.code, &error.to_status());
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

pub(super) fn watch(watch: WatchStream) -> Response<ResponseBody> {
    let frames = stream::unfold(watch, |mut watch| async move {
        let frame = watch.next_frame().await?;
        Some((Ok(Frame::data(frame)), watch))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}
