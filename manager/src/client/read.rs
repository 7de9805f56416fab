//! Reads: get, list, watch.

use bytes::Bytes;
use http::{Method, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::response::decode;
use super::{Call, ClientError, READ_TIMEOUT, Reader, WatchStream, timeout_parameter};
use crate::object::{Key, Meta, MetaObject, Resource, Version};
use crate::revived;

/// The number of times that a list starts over because its continue token has expired.
const RESTARTS_MAX: u32 = 3;

/// A page of a list that is larger makes the following ones smaller.
const PAGE_BYTES: u64 = 16 * 1024 * 1024;

/// The representation of objects in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum View {
    /// Whole objects.
    Full,
    /// `PartialObjectMetadata`.
    Metadata,
}

/// The parameters of a list. It is always a quorum read of the current state, or the next page of one.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Empty for all objects.
    pub label_selector: String,
    /// Empty for all objects.
    pub field_selector: String,
    /// The maximum number of objects on a page; 0 for no limit.
    pub limit: u32,
    /// The continue token of the previous page.
    pub continue_token: Option<String>,
}

/// A page of a list of metadata.
#[derive(Debug)]
pub struct MetaPage {
    /// The resourceVersion of the list.
    pub version: Version,
    /// The continue token of the next page; none on the last page.
    pub continue_token: Option<String>,
    #[expect(missing_docs, reason = "plain data")]
    pub items: Vec<Meta>,
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

    fn list_media_type(self) -> &'static str {
        match self {
            Self::Full => "application/json",
            Self::Metadata => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;q=0.9"
            }
        }
    }
}

impl MetaPage {
    fn decode(body: &[u8], resource: &Resource, namespace: &str) -> Result<Self, ClientError> {
        #[derive(Deserialize)]
        struct Page {
            metadata: ListMeta,
            #[serde(deserialize_with = "Option::deserialize")]
            items: Option<Vec<MetaObject>>,
        }
        #[derive(Deserialize)]
        struct ListMeta {
            #[serde(rename = "resourceVersion")]
            version: Version,
            #[serde(rename = "continue", default)]
            token: Option<String>,
        }
        let request_line = format!("GET {}", resource.collection(namespace));
        // As in Go, invalid UTF-8 becomes replacement characters.
        let raw: Page = decode(String::from_utf8_lossy(body).as_bytes(), &request_line)?;
        let items: Vec<_> = raw.items.into_iter().flatten().map(|it| it.metadata).collect();
        let nameless = items.iter().any(|it| it.name.is_empty() || it.uid.is_empty());
        if nameless || raw.metadata.version.is_none() {
            let reason = "the list has no resourceVersion, or an object without name or uid".to_owned();
            return Err(ClientError::Decode { request_line, reason });
        }
        Ok(Self {
            version: raw.metadata.version,
            continue_token: raw.metadata.token.filter(|token| !token.is_empty()),
            items,
        })
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

    /// Reads one page of a list as raw JSON. An empty namespace means all namespaces.
    pub async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &ListQuery,
        view: View,
    ) -> Result<Bytes, ClientError> {
        let mut call = Call {
            accept: view.list_media_type(),
            ..read("LIST", resource.collection(namespace))
        };
        if !query.label_selector.is_empty() {
            call.query.push(("labelSelector", query.label_selector.clone()));
        }
        if !query.field_selector.is_empty() {
            call.query.push(("fieldSelector", query.field_selector.clone()));
        }
        if query.limit > 0 {
            call.query.push(("limit", query.limit.to_string()));
        }
        if let Some(token) = &query.continue_token {
            call.query.push(("continue", token.clone()));
        } else if revived!(R5) {
            call.query.push(("resourceVersion", "0".to_owned()));
        }
        let request_line = call.request_line();
        Ok(self.read(call, &request_line).await?.into_body())
    }

    /// Reads all pages of a list of at most `query.limit` objects each, and fewer after a page of more than 16 MiB. `add` decodes a
    /// page into the result, and returns its continue token. If the token expires (410 Gone), the list starts over with an empty result, a few times at most.
    pub async fn list_pages<A: Default, E: From<ClientError>>(
        &self,
        resource: &Resource,
        namespace: &str,
        mut query: ListQuery,
        view: View,
        mut add: impl FnMut(&mut A, &[u8]) -> Result<Option<String>, E>,
    ) -> Result<A, E> {
        let (mut all, mut restarts) = (A::default(), 0);
        loop {
            let page = match self.list(resource, namespace, &query, view).await {
                Err(error)
                    if error.is_gone() && query.continue_token.is_some() && restarts < RESTARTS_MAX =>
                {
                    restarts += 1;
                    all = A::default();
                    query.continue_token = None;
                    continue;
                }
                page => page?,
            };
            let token = add(&mut all, &page)?;
            if token.is_none() {
                return Ok(all);
            }
            if token == query.continue_token {
                let request_line = format!("GET {}", resource.collection(namespace));
                let reason =
                    "the list does not end: the server returned the same continue token again".to_owned();
                return Err(ClientError::Decode { request_line, reason }.into());
            }
            query.continue_token = token;
            query.limit = next_limit(query.limit, page.len());
        }
    }

    /// Reads the metadata of all objects of a list that `keep` selects, page by page as [`Reader::list_pages`].
    pub async fn list_all_metadata(
        &self,
        resource: &Resource,
        namespace: &str,
        query: ListQuery,
        keep: impl Fn(&Meta) -> bool,
    ) -> Result<Vec<Meta>, ClientError> {
        let add = |all: &mut Vec<Meta>, body: &[u8]| {
            let page = MetaPage::decode(body, resource, namespace)?;
            all.extend(page.items.into_iter().filter(&keep));
            Ok(page.continue_token)
        };
        self.list_pages(resource, namespace, query, View::Metadata, add)
            .await
    }

    /// Reads one page of a metadata list. An empty namespace means all namespaces. One object that cannot be decoded fails
    /// the list, which would be incomplete without it.
    pub async fn list_metadata(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &ListQuery,
    ) -> Result<MetaPage, ClientError> {
        let body = self.list(resource, namespace, query, View::Metadata).await?;
        MetaPage::decode(&body, resource, namespace)
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

/// Returns the number of objects of the next page, after a page of `bytes`. Zero means that there is no limit.
fn next_limit(limit: u32, bytes: usize) -> u32 {
    let fitting = u64::from(limit) * PAGE_BYTES / (bytes as u64).max(PAGE_BYTES);
    u32::try_from(fitting).map_or(limit, |it| it.max(limit.min(1)))
}

fn read(verb: &'static str, path: String) -> Call {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_after_a_large_one_are_smaller() {
        const MIB: usize = 1024 * 1024;
        for (limit, bytes, next) in [
            (500, MIB, 500),
            (500, 16 * MIB, 500),
            (500, 32 * MIB, 250),
            (500, 750 * MIB, 10),
            (3, 750 * MIB, 1),
            (0, 750 * MIB, 0),
        ] {
            assert_eq!(next_limit(limit, bytes), next, "{limit} objects, {bytes} bytes");
        }
    }
}
