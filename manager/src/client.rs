//! The client of one controller.
//!
//! A [`Transport`] is the connection to the API server, shared; a [`Client`] is what one controller sees of it, with a
//! token bucket and a user agent of its own. The walk of a request: bucket → deadline → kube's client → [`Fence`] →
//! socket. The bucket is taken before kube's client is entered, which would otherwise make every other request wait
//! behind this one; the fence is looked at last, and on until there is an answer: a write that was not sent when it shuts
//! is not sent any more. Reads and waits for a token end with the term too, and already when it is drained.
//!
//! A request is sent once. Trying again is the queue's business, with [`ClientError::retry_after`]. Nothing of a body and
//! no credential is logged or put into an error, at any verbosity.
//!
//! Writes are patches of the fields that the writer owns; deletes carry the uid. A write that is conditioned on a
//! version, or that creates under a chosen name, may take [`CONDITIONED`]; one that is not must be done, or given up,
//! within [`UNCONDITIONED`]: it has to have arrived before another process can take over.

mod answer;
mod error;
mod fence;
mod ledger;
mod lines;
mod metrics;
mod object_watch;
mod read;
mod tokens;
mod transport;
mod write;

pub use error::{Cause, ClientError, Details, Status};
pub use fence::{Fence, Term};
pub use ledger::Ledger;
pub use lines::Lines;
pub use object_watch::{ObjectEvent, ObjectEvents, ObjectState, ObjectWatch, WatchEnd, WatchReport};
pub use read::{ListQuery, MetaPage, Raw, View, WatchQuery};
pub use transport::{ConnectError, Transport};
pub use write::{Delete, Patch, Propagation};

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use kube::client::Body;

use self::tokens::Tokens;
use self::transport::{Late, Ticket};
use crate::object::{Resource, Version};

/// How long a write that another write would defeat may take.
pub const CONDITIONED: Duration = Duration::from_secs(30);
/// How long any other write may take: less than a lease outlasts the fence.
pub const UNCONDITIONED: Duration = Duration::from_secs(3);
/// How long a read may take, a page of a list included.
const READ: Duration = Duration::from_secs(30);

/// How many requests a client may send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Per second, in the long run.
    pub qps: f64,
    /// At once.
    pub burst: u32,
}

/// What one controller sees of the API. Clones share its bucket.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
    user_agent: HeaderValue,
    bucket: Option<Arc<Tokens>>,
    permit: Permit,
}

/// When a client may write, and how long its reads may take.
#[derive(Clone, Debug)]
enum Permit {
    /// Never: [`Client::in_term`] was not called.
    Never,
    /// While the term is on.
    InTerm(Fence, Term),
    /// Never, and it does not read either: its term was over or draining while it waited for its token.
    Ended,
    /// At any time: the election itself, and events about it.
    Always,
}

/// One request.
struct Call {
    method: Method,
    /// The verb of the metrics: `LIST` and `WATCH` are both `GET`.
    verb: &'static str,
    path: String,
    query: Vec<(&'static str, String)>,
    accept: &'static str,
    /// The content type and the body.
    body: Option<(&'static str, Bytes)>,
    deadline: Duration,
}

/// The one field of an answer to a write that everybody needs.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Stored {
    metadata: StoredMeta,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StoredMeta {
    resource_version: Version,
}

impl Client {
    fn new(transport: Transport, user_agent: HeaderValue, limit: Option<Limit>, permit: Permit) -> Self {
        Self {
            transport,
            user_agent,
            bucket: limit.map(|limit| Arc::new(Tokens::new(limit))),
            permit,
        }
    }

    /// The same client for what is done in `term`: it writes while the term is on.
    #[must_use]
    pub fn in_term(&self, fence: &Fence, term: Term) -> Self {
        Self {
            permit: Permit::InTerm(fence.clone(), term),
            ..self.clone()
        }
    }

    /// The same client with a rate limiter of its own, of the same rate: requests of the two do not wait for each other.
    #[must_use]
    pub fn with_own_limiter(&self) -> Self {
        let own = |bucket: &Arc<Tokens>| Arc::new(bucket.full());
        Self {
            bucket: self.bucket.as_ref().map(own),
            ..self.clone()
        }
    }

    /// The same client with the token for one request paid already. Who waits for the token first and decides after it does
    /// not decide on what was true before the wait.
    pub async fn paid(&self, verb: &'static str) -> Self {
        let permit = if self.take_token(verb).await {
            self.permit.clone()
        } else {
            Permit::Ended
        };
        Self {
            bucket: None,
            permit,
            ..self.clone()
        }
    }

    /// Sends a read.
    async fn read(&self, call: Call, what: &str) -> Result<http::Response<Bytes>, ClientError> {
        self.token(call.verb, what).await?;
        // On the heap: what waits for a request would be as large as the request otherwise.
        Box::pin(self.in_time(what, self.exchange(call, what))).await
    }

    /// Sends a write. What it has come to is kept in the ledger, if it belongs to a term.
    async fn write<T: serde::de::DeserializeOwned>(
        &self,
        resource: &Resource,
        call: Call,
    ) -> Result<T, ClientError> {
        let what = call.what();
        self.token(call.verb, &what).await?;
        // Not before it has its token: what is cut off in that line was never sent.
        let entry = match &self.permit {
            Permit::InTerm(..) => Some(self.transport.ledger.begin(resource, call.deadline)),
            Permit::Never | Permit::Always | Permit::Ended => None,
        };
        let answer = Box::pin(self.exchange(call, &what)).await;
        let answer = answer.map(http::Response::into_body);
        match (&answer, entry) {
            (Ok(body), Some(entry)) => {
                // An answer without a version (a Status) is as good an outcome as one that has it.
                let stored: Stored = serde_json::from_slice(body).unwrap_or_default();
                entry.done(stored.metadata.resource_version);
            }
            (Err(error), Some(entry)) if !error.is_unknown_outcome() => entry.refused(),
            // The server has ended its work on it, and does not say whether it was done.
            (Err(error), Some(entry)) if error.is_internal() => entry.done(Version::none()),
            _ => {}
        }
        answer::decode(&answer?, &what)
    }

    /// Sends a request and reads the answer, all within its deadline.
    async fn exchange(&self, call: Call, what: &str) -> Result<http::Response<Bytes>, ClientError> {
        let (deadline, verb) = (call.deadline, call.verb);
        let answered = self.transport.clock.timeout(deadline, async {
            let (head, body) = self.send(call, what).await?.into_parts();
            let body = self.body(what, answer::collect(body, what)).await??;
            self.transport.metrics.received(verb, body.len());
            Ok(http::Response::from_parts(head, body))
        });
        let late = || ClientError::Timeout {
            what: what.to_owned(),
            deadline,
        };
        answered.await.unwrap_or_else(|| Err(late()))
    }

    /// Sends a request, and reads the answer as it comes. The first of a watch is not limited, as in client-go: a manager
    /// that comes back after an outage opens all its watches at once.
    async fn stream(&self, call: Call) -> Result<Lines, ClientError> {
        let what = call.what();
        let deadline = call.deadline;
        let clock = &self.transport.clock;
        let opened = async {
            let opened = clock.timeout(deadline, self.send(call, &what)).await;
            opened.unwrap_or_else(|| {
                Err(ClientError::Timeout {
                    what: what.clone(),
                    deadline,
                })
            })
        };
        let body = Box::pin(self.in_time(&what, opened)).await?.into_body();
        Ok(Lines::new(body, what))
    }

    /// Runs a read until the term is over or draining.
    async fn in_time<T>(
        &self,
        what: &str,
        read: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let Permit::InTerm(fence, term) = &self.permit else {
            return read.await;
        };
        tokio::select! {
            biased;
            () = fence.ending(*term) => Err(ClientError::Fenced { what: what.to_owned() }),
            answer = read => answer,
        }
    }

    /// Reads the body of an answer until the term is over: the transport looks at the fence until the head is there.
    async fn body<T>(&self, what: &str, body: impl Future<Output = T>) -> Result<T, ClientError> {
        let Permit::InTerm(fence, term) = &self.permit else {
            return Ok(body.await);
        };
        tokio::select! {
            biased;
            body = body => Ok(body),
            () = fence.closed(*term) => Err(ClientError::Connection {
                what: what.to_owned(),
                connected: true,
                reason: Late.to_string(),
            }),
        }
    }

    async fn token(&self, verb: &'static str, what: &str) -> Result<(), ClientError> {
        if self.take_token(verb).await {
            return Ok(());
        }
        Err(ClientError::Fenced {
            what: what.to_owned(),
        })
    }

    /// Waits for a token; false if the term was over or draining before there was one.
    async fn take_token(&self, verb: &'static str) -> bool {
        let Some(bucket) = &self.bucket else { return true };
        let clock = &self.transport.clock;
        let start = clock.now();
        let taken = match &self.permit {
            Permit::InTerm(fence, term) => tokio::select! {
                biased;
                () = bucket.take(clock) => true,
                () = fence.ending(*term) => false,
            },
            Permit::Never | Permit::Always | Permit::Ended => {
                bucket.take(clock).await;
                true
            }
        };
        self.transport.metrics.limited(verb, clock.now() - start);
        taken
    }

    /// Sends a request; an answer that is not a success is an error.
    async fn send(&self, call: Call, what: &str) -> Result<http::Response<Body>, ClientError> {
        let clock = self.transport.clock.clone();
        let start = clock.now();
        let (method, verb) = (call.method.clone(), call.verb);
        let request = self.request(call, what)?;
        let answer = self.transport.kube.send(request).await;
        let took = clock.now() - start;
        let metrics = &self.transport.metrics;
        let response = match answer {
            Ok(response) => response,
            Err(error) => {
                let error = answer::failed(&error, what);
                if !matches!(error, ClientError::Fenced { .. }) {
                    metrics.answered(&method, verb, "<error>", took);
                    log(what, &error, took);
                }
                return Err(error);
            }
        };
        let code = response.status();
        metrics.answered(&method, verb, code.as_str(), took);
        if code.is_success() {
            tracing::trace!(
                request = what,
                code = code.as_u16(),
                took_ms = took.as_millis(),
                "Answered"
            );
            return Ok(response);
        }
        let error = self.body(what, answer::refused(response, what)).await?;
        log(what, &error, took);
        Err(error)
    }

    fn request(&self, call: Call, what: &str) -> Result<Request<Body>, ClientError> {
        let invalid = |reason: String| ClientError::Invalid {
            what: what.to_owned(),
            reason,
        };
        let is_write = call.method != Method::GET;
        let mut uri = call.path;
        if !call.query.is_empty() {
            uri.push('?');
            uri.push_str(
                &form_urlencoded::Serializer::new(String::new())
                    .extend_pairs(&call.query)
                    .finish(),
            );
        }
        let mut request = Request::builder()
            .method(call.method)
            .uri(uri)
            .header(header::ACCEPT, call.accept)
            .header(header::USER_AGENT, self.user_agent.clone());
        let body = match call.body {
            None => Body::empty(),
            Some((content_type, body)) => {
                request = request.header(header::CONTENT_TYPE, content_type);
                self.transport.metrics.sent(call.verb, body.len());
                Body::from(body)
            }
        };
        let mut request = request.body(body).map_err(|error| invalid(error.to_string()))?;
        let what = || what.to_owned();
        match &self.permit {
            Permit::Ended => return Err(ClientError::Fenced { what: what() }),
            Permit::Never if is_write => return Err(ClientError::ReadOnly { what: what() }),
            Permit::InTerm(fence, term) if is_write => {
                request.extensions_mut().insert(Ticket(fence.clone(), *term));
            }
            Permit::Never | Permit::InTerm(..) | Permit::Always => {}
        }
        Ok(request)
    }
}

impl Call {
    fn what(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// Deadlines in whole seconds, as the server takes them.
fn timeout_parameter(deadline: Duration) -> (&'static str, String) {
    ("timeout", format!("{}s", deadline.as_secs()))
}

fn log(what: &str, error: &ClientError, took: Duration) {
    tracing::trace!(
        request = what,
        code = error.code(),
        took_ms = took.as_millis(),
        "Not answered with success"
    );
}
