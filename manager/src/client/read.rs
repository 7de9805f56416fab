//! Reads: one object, a page of a list, a watch.

use bytes::Bytes;
use http::{Method, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::answer::decode;
use super::{Call, Client, ClientError, Lines, READ, timeout_parameter};
use crate::object::{Key, Meta, MetaObject, Resource, Version};

/// The number of times that a list starts over because its continue token has expired.
const RESTARTS_MAX: u32 = 3;

/// In which form objects are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum View {
    /// As they are.
    Full,
    /// Metadata only.
    Metadata,
}

/// A page of a list: always of the present state, confirmed by a majority of the store, or the continuation of one.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only objects with these labels; all if empty.
    pub label_selector: String,
    /// Only objects with these fields; all if empty.
    pub field_selector: String,
    /// How many objects at most; 0 for all.
    pub limit: u32,
    /// Where the page before ended.
    pub continue_token: Option<String>,
}

/// A page of a list of metadata.
#[derive(Debug)]
pub struct MetaPage {
    /// The version of the whole list.
    pub version: Version,
    /// Where the next page begins, if this is not the last.
    pub continue_token: Option<String>,
    /// The objects.
    pub items: Vec<Meta>,
}

/// A watch.
#[derive(Clone, Debug, Default)]
pub struct WatchQuery {
    /// Only objects with these labels; all if empty.
    pub label_selector: String,
    /// Only objects with these fields; all if empty.
    pub field_selector: String,
    /// Changes after this version. With none, the present state comes first.
    pub resource_version: Version,
    /// After how long the server ends it.
    pub timeout_seconds: u64,
}

/// What is at a path, as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raw {
    /// The content type of the answer, as the server wrote it; empty if it did not say.
    pub content_type: String,
    /// The answer.
    pub body: Bytes,
}

/// A server that has no metadata-only form answers with whole objects, of which the metadata is read.
impl View {
    pub(super) fn one(self) -> &'static str {
        match self {
            Self::Full => "application/json",
            Self::Metadata => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;q=0.9"
            }
        }
    }

    fn many(self) -> &'static str {
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
        let what = format!("GET {}", resource.collection(namespace));
        // Text that is not UTF-8 is read as Go reads it.
        let raw: Page = decode(String::from_utf8_lossy(body).as_bytes(), &what)?;
        let items: Vec<_> = raw.items.into_iter().flatten().map(|it| it.metadata).collect();
        let nameless = items.iter().any(|it| it.name.is_empty() || it.uid.is_empty());
        if nameless || raw.metadata.version.is_none() {
            let reason = "an object without a name or a uid, or a list without a version".to_owned();
            return Err(ClientError::Decode { what, reason });
        }
        Ok(Self {
            version: raw.metadata.version,
            continue_token: raw.metadata.token.filter(|token| !token.is_empty()),
            items,
        })
    }
}

impl Client {
    /// Reads one object as it is now.
    pub async fn get<T: DeserializeOwned>(&self, resource: &Resource, key: &Key) -> Result<T, ClientError> {
        self.get_as(resource, key, View::Full).await
    }

    /// Reads one object as it is now, in the form of `view`.
    pub async fn get_as<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        view: View,
    ) -> Result<T, ClientError> {
        let call = Call {
            accept: view.one(),
            ..read("GET", resource.path(key))
        };
        let what = call.what();
        decode(self.read(call, &what).await?.body(), &what)
    }

    /// Reads what is at a path, for what is no object: the documents of discovery. `accept` says in which forms.
    pub async fn get_raw(&self, path: &str, accept: &'static str) -> Result<Raw, ClientError> {
        let call = Call {
            accept,
            ..read("GET", path.to_owned())
        };
        let what = call.what();
        let (head, body) = self.read(call, &what).await?.into_parts();
        let content_type = head.headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|it| it.to_str().ok());
        Ok(Raw {
            content_type: content_type.unwrap_or_default().to_owned(),
            body,
        })
    }

    /// Reads a page of a list, in JSON as it came. An empty namespace means all.
    pub async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &ListQuery,
        view: View,
    ) -> Result<Bytes, ClientError> {
        let mut call = Call {
            accept: view.many(),
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
        }
        let what = call.what();
        Ok(self.read(call, &what).await?.into_body())
    }

    /// Reads all pages of a list of `query.limit` objects each. `add` decodes a page into the result, and returns its
    /// continue token. If the token expires (410 Gone), the list starts over with an empty result, a few times at most.
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
                let what = format!("GET {}", resource.collection(namespace));
                let reason = "the continue token of a page is the token of the next page".to_owned();
                return Err(ClientError::Decode { what, reason }.into());
            }
            query.continue_token = token;
        }
    }

    /// Reads the metadata of all objects of a list that `keep` selects, page by page as [`Client::list_pages`].
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

    /// Reads a page of a list of metadata. An empty namespace means all. One object that cannot be decoded fails the list,
    /// which would be incomplete without it.
    pub async fn list_metadata(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &ListQuery,
    ) -> Result<MetaPage, ClientError> {
        let body = self.list(resource, namespace, query, View::Metadata).await?;
        MetaPage::decode(&body, resource, namespace)
    }

    /// Opens a watch, with bookmarks. An empty namespace means all.
    pub async fn watch(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &WatchQuery,
        view: View,
    ) -> Result<Lines, ClientError> {
        let mut call = Call {
            accept: view.one(),
            ..read("WATCH", resource.collection(namespace))
        };
        // It is ended by its own time, not by that of a request.
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

fn read(verb: &'static str, path: String) -> Call {
    Call {
        method: Method::GET,
        verb,
        path,
        query: vec![timeout_parameter(READ)],
        accept: View::Full.one(),
        body: None,
        deadline: READ,
    }
}
