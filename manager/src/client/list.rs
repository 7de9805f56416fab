//! Lists: page by page, and each page item by item while it arrives. A page is never in memory as a whole.

mod splitter;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube::client::Body;

use self::splitter::{Item, Splitter, TooLarge};
use super::read::read;
use super::response::{broken, decode, text};
use super::{Call, ClientError, OBJECT_MAX, READ_TIMEOUT, Reader, View};
use crate::object::{Meta, MetaObject, Resource, Version};
use crate::revived;

/// The number of times that a list starts over because its continue token has expired.
const RESTARTS_MAX: u32 = 3;
/// The maximum number of objects on a page, unless the query has one.
const PAGE: u32 = 500;
/// The size of a page in bytes above which the following ones are smaller.
const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// Other tasks run after this number of bytes of items was decoded.
const YIELD_BYTES: usize = 1024 * 1024;

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

/// A list that is read page by page. A page that does not arrive in time, or is too large, is requested again with a quarter
/// of the objects. The size of the pages recovers while they are small and fast.
#[derive(Debug)]
pub(crate) struct Pages {
    client: Reader,
    resource: Resource,
    namespace: String,
    view: View,
    /// The next page.
    query: ListQuery,
    /// The maximum number of objects on a page.
    max: u32,
    restarts: u32,
}

/// The result of reading a page.
#[derive(Debug)]
pub(crate) enum Page {
    /// The last page of a list with this resourceVersion.
    Last(Version),
    /// Another page follows.
    More(Version),
    /// The page is requested again with fewer objects: the items of this attempt do not count.
    Smaller(ClientError),
    /// The continue token has expired, and the list starts over: no item of it counts.
    Expired(ClientError),
}

/// The end of a page.
struct PageEnd {
    version: Version,
    token: Option<String>,
    items: usize,
    bytes: usize,
}

impl Reader {
    /// Reads one page of a list as raw JSON, of at most 32 MiB. An empty namespace means all namespaces.
    pub async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &ListQuery,
        view: View,
    ) -> Result<Bytes, ClientError> {
        let call = list_call(resource, namespace, query, view);
        let request_line = call.request_line();
        Ok(self.read(call, &request_line).await?.into_body())
    }

    /// Returns the list of a resource, from its first page on. `query.limit` is the maximum number of objects on a page.
    pub(crate) fn pages(
        &self,
        resource: &Resource,
        namespace: &str,
        mut query: ListQuery,
        view: View,
    ) -> Pages {
        if query.limit == 0 {
            query.limit = PAGE;
        }
        Pages {
            client: self.clone(),
            resource: resource.clone(),
            namespace: namespace.to_owned(),
            view,
            max: query.limit,
            query,
            restarts: 0,
        }
    }

    /// Reads the metadata of all objects of a list that `keep` selects, page by page. If the continue token expires, the list
    /// starts over, a few times at most. A page that does not arrive in time is requested again with fewer objects, except the
    /// first. One object that cannot be decoded fails the list, which would be incomplete without it.
    pub async fn list_all_metadata(
        &self,
        resource: &Resource,
        namespace: &str,
        query: ListQuery,
        keep: impl Fn(&Meta) -> bool,
    ) -> Result<Vec<Meta>, ClientError> {
        let mut pages = self.pages(resource, namespace, query, View::Metadata);
        let request_line = pages.request_line();
        let (mut all, mut complete) = (Vec::new(), 0);
        loop {
            let add = |_: &Version, item: &str| {
                let meta = metadata(item, &request_line)?;
                all.extend(keep(&meta).then_some(meta));
                Ok::<_, ClientError>(())
            };
            match pages.next(add).await? {
                Page::Last(version) => return versioned(&version, &request_line).map(|()| all),
                Page::More(version) => versioned(&version, &request_line)?,
                // The server may be down: the caller decides when to ask it again.
                Page::Smaller(error) if pages.is_first() => return Err(error),
                Page::Smaller(_) => all.truncate(complete),
                Page::Expired(_) => all.clear(),
            }
            complete = all.len();
        }
    }

    /// Reads one page of a metadata list. An empty namespace means all namespaces. One object that cannot be decoded fails
    /// the list, which would be incomplete without it.
    pub async fn list_metadata(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &ListQuery,
    ) -> Result<MetaPage, ClientError> {
        let call = list_call(resource, namespace, query, View::Metadata);
        let request_line = call.request_line();
        let mut items = Vec::new();
        let add = |_: &Version, item: &str| {
            items.push(metadata(item, &request_line)?);
            Ok(())
        };
        let page = self.list_page(call, add).await??;
        versioned(&page.version, &request_line)?;
        Ok(MetaPage {
            version: page.version,
            continue_token: page.token,
            items,
        })
    }

    /// Reads one page of a list. `add` receives the resourceVersion of the list and the JSON text of each item, which may be
    /// malformed.
    async fn list_page<E>(
        &self,
        call: Call,
        add: impl FnMut(&Version, &str) -> Result<(), E>,
    ) -> Result<Result<PageEnd, E>, ClientError> {
        let request_line = call.request_line();
        let request_line = &*request_line;
        let (deadline, verb) = (call.deadline, call.verb);
        self.token(verb, request_line).await?;
        let page = async {
            let bearer = self.bearer(request_line).await?;
            let answered = self.transport.clock.timeout(deadline, async {
                let body = self.send(call, bearer, request_line).await?.into_body();
                self.body(request_line, read_items(body, request_line, add))
                    .await?
            });
            answered.await.unwrap_or_else(|| {
                Err(ClientError::Timeout {
                    request_line: request_line.to_owned(),
                    deadline,
                })
            })
        };
        // Boxed to keep the futures of callers small.
        let page = Box::pin(self.until_term_ends(request_line, page)).await?;
        if let Ok(page) = &page {
            self.transport.metrics.received(verb, page.bytes);
        }
        Ok(page)
    }
}

impl Pages {
    /// Limits the next page to this number of objects.
    pub(crate) fn starting_with(mut self, limit: u32) -> Self {
        self.query.limit = self.query.limit.min(limit);
        self
    }

    /// Returns the maximum number of objects on the next page.
    pub(crate) fn limit(&self) -> u32 {
        self.query.limit
    }

    /// Returns true if no page is complete.
    pub(crate) fn is_first(&self) -> bool {
        self.query.continue_token.is_none()
    }

    pub(super) fn request_line(&self) -> String {
        format!("GET {}", self.resource.collection(&self.namespace))
    }

    /// Reads the next page. `add` receives the resourceVersion of the list and the JSON text of each item, which may be
    /// malformed.
    pub(crate) async fn next<E: From<ClientError>>(
        &mut self,
        add: impl FnMut(&Version, &str) -> Result<(), E>,
    ) -> Result<Page, E> {
        let call = list_call(&self.resource, &self.namespace, &self.query, self.view);
        let clock = &self.client.transport.clock;
        let start = clock.now();
        let page = match self.client.list_page(call, add).await {
            Ok(page) => page?,
            Err(error) if error.is_gone() && !self.is_first() && self.restarts < RESTARTS_MAX => {
                self.restarts += 1;
                self.query.continue_token = None;
                return Ok(Page::Expired(error));
            }
            Err(error) if self.query.limit > 1 && is_too_large(&error) => {
                self.query.limit = (self.query.limit / 4).max(1);
                return Ok(Page::Smaller(error));
            }
            Err(error) => return Err(error.into()),
        };
        let is_fast = clock.now() - start < READ_TIMEOUT / 4;
        self.query.limit = next_limit(self.query.limit, self.max, &page, is_fast);
        if page.token.is_none() {
            return Ok(Page::Last(page.version));
        }
        if page.token == self.query.continue_token {
            let reason =
                "the list does not end: the server returned the same continue token again".to_owned();
            let request_line = self.request_line();
            return Err(ClientError::Decode { request_line, reason }.into());
        }
        self.query.continue_token = page.token;
        Ok(Page::More(page.version))
    }
}

fn list_call(resource: &Resource, namespace: &str, query: &ListQuery, view: View) -> Call {
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
    call
}

/// Reads the body of a list.
async fn read_items<E>(
    mut body: Body,
    request_line: &str,
    mut add: impl FnMut(&Version, &str) -> Result<(), E>,
) -> Result<Result<PageEnd, E>, ClientError> {
    let too_large = |TooLarge| ClientError::TooLarge {
        request_line: request_line.to_owned(),
        limit: OBJECT_MAX,
    };
    let mut splitter = Splitter::default();
    // The items that precede the metadata, from servers that sort the fields.
    let (mut early, mut early_bytes): (Vec<Box<[u8]>>, _) = (Vec::new(), 0);
    let (mut items, mut bytes, mut decoded) = (0, 0, 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error, request_line))?;
        let Ok(data) = frame.into_data() else { continue };
        bytes += data.len();
        let mut chunk = &*data;
        while let Some(Item { version, json }) = splitter.next(&mut chunk).map_err(too_large)? {
            items += 1;
            let Some(version) = version else {
                early_bytes += json.len();
                if early_bytes > OBJECT_MAX {
                    return Err(too_large(TooLarge));
                }
                early.push(json.into());
                continue;
            };
            if let Err(error) = add(version, &text(json)) {
                return Ok(Err(error));
            }
            decoded += json.len();
            if decoded >= YIELD_BYTES {
                decoded = 0;
                tokio::task::yield_now().await;
            }
        }
    }
    let head = splitter.finish(request_line)?;
    for json in early {
        if let Err(error) = add(&head.version, &text(&json)) {
            return Ok(Err(error));
        }
        decoded += json.len();
        if decoded >= YIELD_BYTES {
            decoded = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok(Ok(PageEnd {
        version: head.version,
        token: head.token.filter(|token| !token.is_empty()),
        items,
        bytes,
    }))
}

/// Returns true if the same page with fewer objects may succeed: it was too slow for the server, the network or this process,
/// or for the memory of one of them.
fn is_too_large(error: &ClientError) -> bool {
    match error {
        ClientError::Timeout { .. } | ClientError::TooLarge { .. } => true,
        ClientError::Connection { connected, .. } => *connected,
        _ => error.code() == Some(504),
    }
}

/// Returns the maximum number of objects on the page after `page`. The last page may have few objects, so that it does not
/// show that larger pages arrive in time.
fn next_limit(limit: u32, max: u32, page: &PageEnd, is_fast: bool) -> u32 {
    if page.bytes > PAGE_BYTES {
        let fitting = page.items * PAGE_BYTES / page.bytes;
        u32::try_from(fitting).unwrap_or(limit).clamp(1, limit)
    } else if is_fast && page.token.is_some() {
        limit.saturating_mul(2).min(max)
    } else {
        limit
    }
}

fn metadata(item: &str, request_line: &str) -> Result<Meta, ClientError> {
    let MetaObject { metadata } = decode(item.as_bytes(), request_line)?;
    if metadata.name.is_empty() || metadata.uid.is_empty() {
        return Err(incomplete(request_line));
    }
    Ok(metadata)
}

fn versioned(version: &Version, request_line: &str) -> Result<(), ClientError> {
    (!version.is_none())
        .then_some(())
        .ok_or_else(|| incomplete(request_line))
}

fn incomplete(request_line: &str) -> ClientError {
    ClientError::Decode {
        request_line: request_line.to_owned(),
        reason: "the list has no resourceVersion, or an object without name or uid".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::pin::pin;

    use futures_util::FutureExt as _;
    use serde_json::json;

    #[test]
    fn items_that_precede_the_metadata_are_decoded_with_yields() {
        let items = vec![json!({"data": "x".repeat(YIELD_BYTES / 2)}); 6];
        let list = json!({"items": items, "metadata": {"resourceVersion": "7"}}).to_string();
        let mut added = 0;
        let add = |_: &Version, _: &str| {
            added += 1;
            Ok::<_, ()>(())
        };
        let yields = {
            let mut read = pin!(read_items(Body::from(list.into_bytes()), "GET /x", add));
            (0..100)
                .take_while(|_| read.as_mut().now_or_never().is_none())
                .count()
        };
        assert_eq!((yields, added), (3, 6));
    }

    #[test]
    fn pages_after_a_large_one_are_smaller_and_recover() {
        const MIB: usize = 1024 * 1024;
        let page = |items, bytes, token: Option<&str>| PageEnd {
            version: Version::none(),
            token: token.map(str::to_owned),
            items,
            bytes,
        };
        for (limit, items, bytes, is_fast, next) in [
            (500, 500, MIB, true, 500),
            (500, 500, 16 * MIB, true, 500),
            (500, 500, 32 * MIB, true, 250),
            (500, 93, 877 * MIB, true, 1),
            (500, 0, 17 * MIB, true, 1),
            (3, 3, 30 * MIB, false, 1),
            (1, 1, 9 * MIB, false, 1),
            (1, 1, 9 * MIB, true, 2),
            (300, 300, MIB, true, 500),
            (300, 300, MIB, false, 300),
        ] {
            let limited = next_limit(limit, 500, &page(items, bytes, Some("x")), is_fast);
            assert_eq!(limited, next, "{limit} objects, {items} items of {bytes} bytes");
        }
        assert_eq!(
            next_limit(125, 500, &page(3, MIB, None), true),
            125,
            "the last page"
        );
    }
}
