//! The API client: rate limiter, deadlines, request metrics and leader fence.
//!
//! All controllers share a [`Transport`], the connection to the API server. Each has its own [`Reader`], with a rate
//! limiter and a user agent, and optionally a [`ServiceAccount`]. A [`Client`] is a reader that also writes, during one term
//! of leadership. The path of a request: rate limiter → deadline → kube's client → [`Fence`] → socket. The rate
//! limiter runs before the request enters kube's client, where it would block all other requests. The fence is checked
//! last, and again until the response arrives: a write that was not sent when the fence closes is never sent. Reads and
//! waits for the rate limiter end with the term, too, and when the term is drained.
//!
//! A request is sent once; the work queue retries, with [`ClientError::retry_after`]. Bodies and credentials are never
//! logged nor part of an error, at any verbosity.
//!
//! Writes are patches of the fields that the writer owns; deletes carry the uid. A conditional write, with a
//! resourceVersion or creating a chosen name, has the deadline [`CONDITIONAL_WRITE_TIMEOUT`]; so has a patch that
//! [may be late](Patch::may_be_late). Any other write has to reach the API server before another process can become the leader:
//! [`UNCONDITIONAL_WRITE_TIMEOUT`].
//!
//! A write after the term is not sent. [`Client::kube`] shows the same client with `kube::Api`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let tasks = steersman_manager::env::TaskSet::new();
//! # let env = steersman_manager::env::Env::system(&tasks);
//! # let registry = steersman_manager::metrics::Registry::new("example");
//! # let service = steersman_sandbox::Sandbox::builder().start()?.service();
//! # let transport = Transport::from_service(service, "sandbox", "example", &env.clock, &registry)?;
//! use steersman_manager::client::{ClientError, Fence, RateLimit, Transport};
//! use k8s_openapi::api::core::v1::Namespace;
//!
//! let fence = Fence::new(env.clock.clone());
//! let reader = transport.reader("tenants", Some(RateLimit { qps: 20.0, burst: 30 }));
//! let namespaces = reader.in_term(&fence, fence.open_forever()).api::<Namespace>();
//!
//! let mut namespace = Namespace::default();
//! namespace.metadata.name = Some("tenant-a".to_owned());
//! let namespace = namespaces.create(&namespace).await?;
//! fence.close();
//! let error = namespaces.delete(&namespace).await.expect_err("the term is over");
//! assert!(matches!(error, ClientError::Fenced { .. }));
//! # Ok(())
//! # }
//! ```

mod api;
mod error;
mod exec_plugin;
mod fence;
mod kube_client;
mod list;
mod merge_patch;
mod metrics;
mod object_watch;
mod rate_limiter;
mod read;
mod reader;
mod request_span;
mod response;
mod service_account;
mod transport;
mod watch_stream;
mod write;
mod write_tracker;

pub use api::{Api, Written};
pub use error::{Cause, ClientError, Details, ErrorClass, Status};
pub use fence::{Fence, Term};
pub(crate) use list::Page;
pub use list::{ListQuery, MetaPage};
pub use object_watch::{ObjectEvent, ObjectEvents, ObjectState, ObjectWatch, WatchEnd, WatchReport};
pub use rate_limiter::SharedRateLimit;
pub use read::{RawResponse, View, WatchQuery};
pub use reader::Reader;
pub(crate) use response::text;
pub use service_account::{ServiceAccount, ServiceAccounts, TokenError};
pub use transport::{ConnectError, Transport};
pub use watch_stream::WatchStream;
pub use write::{Apply, Delete, Patch, Propagation};
pub use write_tracker::{Takeover, WriteTracker};

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use http::Method;

use crate::object::{Resource, Version};

/// The deadline of a write that fails if the object was changed meanwhile.
pub const CONDITIONAL_WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The deadline of any other write: less than the time between the closing of the fence and the expiry of the lease.
pub const UNCONDITIONAL_WRITE_TIMEOUT: Duration = Duration::from_secs(3);
/// The deadline of a read, or of one page of a list.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size in bytes of an object in a list or watch, and of any other response. etcd stores far smaller objects, in
/// any encoding.
const OBJECT_MAX: usize = 32 * 1024 * 1024;

/// The rate limit of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second on average.
    pub qps: f64,
    /// Requests at once.
    pub burst: u32,
}

/// A client of one controller, which reads and writes. It reads as its [`Reader`] does.
#[derive(Clone, Debug)]
pub struct Client(Reader);

struct Call {
    method: Method,
    /// The verb in metrics: `LIST` and `WATCH` are both `GET`.
    verb: &'static str,
    path: String,
    query: Vec<(&'static str, String)>,
    accept: &'static str,
    /// The content type and the body.
    body: Option<(&'static str, Bytes)>,
    deadline: Duration,
}

/// The field of the response to a write that [`WriteTracker`] needs.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct WrittenObject {
    metadata: WrittenMeta,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenMeta {
    resource_version: Version,
}

impl Client {
    /// Waits for the rate limiter and for the token of the service account, and returns the same client for one request
    /// that no longer waits. A caller that decides after the wait does not act on outdated state. Fails if the term ends
    /// first, or without a token of the account.
    pub async fn with_token(&self, verb: &'static str) -> Result<Self, ClientError> {
        self.0.with_token(verb).await.map(Self)
    }

    /// Sends a write, and records its outcome if it is fenced.
    async fn write<T: serde::de::DeserializeOwned>(
        &self,
        resource: &Resource,
        call: Call,
    ) -> Result<T, ClientError> {
        let request_line = call.request_line();
        self.token(call.verb, &request_line).await?;
        let bearer = Box::pin(self.bearer_of_write(&request_line)).await?;
        // After the waits for the rate limiter and the token of the service account: a write that is cancelled
        // there was never sent.
        let fenced = self.term.is_some();
        let entry = fenced.then(|| self.transport.writes.begin(resource.to_string(), call.deadline));
        let answer = Box::pin(self.exchange(call, bearer, &request_line)).await;
        let answer = answer.map(http::Response::into_body);
        match (&answer, entry) {
            (Ok(body), Some(entry)) => {
                // A Status has no resourceVersion, but its outcome is known.
                let stored: WrittenObject = serde_json::from_slice(body).unwrap_or_default();
                entry.executed(stored.metadata.resource_version);
            }
            (Err(error), Some(entry)) if !error.is_unknown_outcome() => entry.not_executed(),
            // The server has stopped working on it, but does not report whether it was executed.
            (Err(error), Some(entry)) if error.is_internal() => entry.executed(Version::none()),
            _ => {}
        }
        response::decode(&answer?, &request_line)
    }
}

impl Deref for Client {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.0
    }
}

impl AsRef<Reader> for Client {
    fn as_ref(&self) -> &Reader {
        &self.0
    }
}

impl Call {
    fn request_line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// Returns the `timeout` parameter in whole seconds, the precision of the API server.
fn timeout_parameter(deadline: Duration) -> (&'static str, String) {
    ("timeout", format!("{}s", deadline.as_secs()))
}
