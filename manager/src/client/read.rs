//! Reads: get, watch.

use bytes::Bytes;
use http::{Method, header};
use serde::de::DeserializeOwned;

use super::response::decode;
use super::{Call, ClientError, READ_TIMEOUT, Reader, WatchStream, timeout_parameter};
use crate::object::{Key, Resource, Version};

/// The representation of objects in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum View {
    /// Whole objects.
    Full,
    /// `PartialObjectMetadata`.
    Metadata,
}

/// The parameters of a watch.
#[derive(Clone, Debug, Default)]
pub struct WatchQuery {
    /// Empty for all objects.
    pub label_selector: String,
    /// Empty for all objects.
    pub field_selector: String,
    /// The resourceVersion to start after. If none, the watch starts with the current state.
    pub resource_version: Version,
    /// The server closes the watch after this time.
    pub timeout_seconds: u64,
}

/// A response that is not an API object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawResponse {
    /// Empty if the server did not send one.
    pub content_type: String,
    #[expect(missing_docs, reason = "plain data")]
    pub body: Bytes,
}

/// Servers without `PartialObjectMetadata` return whole objects, of which the metadata is decoded.
impl View {
    pub(super) fn object_media_type(self) -> &'static str {
        match self {
            Self::Full => "application/json",
            Self::Metadata => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;q=0.9"
            }
        }
    }

    pub(super) fn list_media_type(self) -> &'static str {
        match self {
            Self::Full => "application/json",
            Self::Metadata => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;q=0.9"
            }
        }
    }
}

impl Reader {
    /// Reads one object from the API server.
    pub async fn get<T: DeserializeOwned>(&self, resource: &Resource, key: &Key) -> Result<T, ClientError> {
        self.get_as(resource, key, View::Full).await
    }

    /// [`Reader::get`] in the representation `view`.
    pub async fn get_as<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        view: View,
    ) -> Result<T, ClientError> {
        let call = Call {
            accept: view.object_media_type(),
            ..read("GET", resource.path(key))
        };
        let request_line = call.request_line();
        decode(self.read(call, &request_line).await?.body(), &request_line)
    }

    /// Reads a subresource of an object, such as `scale`.
    pub async fn get_subresource<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        subresource: &str,
    ) -> Result<T, ClientError> {
        let call = read("GET", format!("{}/{subresource}", resource.path(key)));
        let request_line = call.request_line();
        decode(self.read(call, &request_line).await?.body(), &request_line)
    }

    /// Reads a path that is not an object, such as a discovery document. `accept` is the Accept header.
    pub async fn get_raw(&self, path: &str, accept: &'static str) -> Result<RawResponse, ClientError> {
        let call = Call {
            accept,
            ..read("GET", path.to_owned())
        };
        let request_line = call.request_line();
        let (head, body) = self.read(call, &request_line).await?.into_parts();
        let content_type = head.headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|it| it.to_str().ok());
        Ok(RawResponse {
            content_type: content_type.unwrap_or_default().to_owned(),
            body,
        })
    }

    /// Opens a watch with bookmarks. An empty namespace means all namespaces.
    pub async fn watch(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &WatchQuery,
        view: View,
    ) -> Result<WatchStream, ClientError> {
        let mut call = Call {
            accept: view.object_media_type(),
            ..read("WATCH", resource.collection(namespace))
        };
        // A watch ends by timeoutSeconds instead of the request timeout.
        call.query = vec![
            ("watch", "true".to_owned()),
            ("allowWatchBookmarks", "true".to_owned()),
            ("timeoutSeconds", query.timeout_seconds.to_string()),
        ];
        if !query.resource_version.is_none() {
            call.query
                .push(("resourceVersion", query.resource_version.to_string()));
        }
        if !query.label_selector.is_empty() {
            call.query.push(("labelSelector", query.label_selector.clone()));
        }
        if !query.field_selector.is_empty() {
            call.query.push(("fieldSelector", query.field_selector.clone()));
        }
        self.stream(call).await
    }
}

pub(super) fn read(verb: &'static str, path: String) -> Call {
    Call {
        method: Method::GET,
        verb,
        path,
        query: vec![timeout_parameter(READ_TIMEOUT)],
        accept: View::Full.object_media_type(),
        body: None,
        deadline: READ_TIMEOUT,
    }
}
