//! Requests that must succeed: the steps of a test that are not its subject.

use std::panic::Location;

use http::Method;
use serde_json::Value;

use crate::{Cluster, api::Payload, fixtures::MERGE};

impl Cluster {
    /// Sends a `POST` and returns the created object.
    #[track_caller]
    pub fn create(&self, path: &str, body: impl Into<Payload>) -> impl Future<Output = Value> {
        self.succeed(Method::POST, path, body.into(), 201)
    }

    /// Sends a `GET` and returns the object or list.
    #[track_caller]
    pub fn read(&self, path: &str) -> impl Future<Output = Value> {
        self.succeed(Method::GET, path, ().into(), 200)
    }

    /// Sends a `PUT` and returns the updated object.
    #[track_caller]
    pub fn replace(&self, path: &str, body: impl Into<Payload>) -> impl Future<Output = Value> {
        self.succeed(Method::PUT, path, body.into(), 200)
    }

    /// Sends a merge patch and returns the patched object.
    #[track_caller]
    pub fn merge(&self, path: &str, body: impl Into<Payload>) -> impl Future<Output = Value> {
        self.succeed(Method::PATCH, path, body.into(), 200)
    }

    /// Sends a `DELETE` without options and returns the answer.
    #[track_caller]
    pub fn delete(&self, path: &str) -> impl Future<Output = Value> {
        self.succeed(Method::DELETE, path, ().into(), 200)
    }

    /// Asserts that a `GET` fails with `NotFound`.
    pub async fn expect_absent(&self, path: &str) {
        self.api().get(path).await.expect_error(404, "NotFound");
    }

    #[track_caller]
    fn succeed(&self, method: Method, path: &str, body: Payload, status: u16) -> impl Future<Output = Value> {
        let caller = Location::caller();
        async move {
            let merge = [("content-type", MERGE)];
            let headers = if method == Method::PATCH { &merge[..] } else { &[] };
            let reply = self.api().request(method, path, headers, body).await;
            reply.check(
                reply.status == status,
                &format!("expected status {status}, at {caller}"),
            );
            reply.json()
        }
    }
}
