//! The user of a scenario on the real server: each scenario has a namespace of its own.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::Value;
use steersman_harness::{Api, time};
use tokio::runtime::Handle;

use crate::simulation::scenario::Steps;
use crate::simulation::user::UserApi;

/// The longest pause between two steps.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The time per message of the simulation.
const MESSAGE: Duration = Duration::from_millis(30);
/// The longest time until a new kind is served.
const SERVED_WITHIN: Duration = Duration::from_secs(10);
const NAMESPACES: &str = "/api/v1/namespaces";

/// Sends requests directly to the API server.
pub(super) struct RealUser {
    pub(super) api: Api,
    pub(super) namespace: String,
}

impl RealUser {
    /// The scenarios use the namespaces `default` and `other`.
    fn path(&self, uri: &str) -> String {
        uri.replace("/namespaces/default", &format!("/namespaces/{}", self.namespace))
            .replace(
                "/namespaces/other",
                &format!("/namespaces/{}-other", self.namespace),
            )
    }
}

impl UserApi for RealUser {
    fn execute(
        &mut self,
        method: Method,
        uri: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> (u16, Bytes) {
        let path = self.path(uri);
        let mut content = body.to_vec();
        if method == Method::POST && path == NAMESPACES {
            let mut namespace: Value = serde_json::from_slice(&body).unwrap_or_default();
            namespace["metadata"]["name"] = format!("{}-other", self.namespace).into();
            content = namespace.to_string().into_bytes();
        }
        let headers = [("content-type", content_type)];
        let work = async {
            let reply = time::eventually(SERVED_WITHIN, async || {
                let sent = self
                    .api
                    .try_request(method.clone(), &path, &headers, content.clone());
                // The kind of a new definition is not served at once.
                let reply = sent.await.ok()?;
                (method != Method::POST || reply.status != 404).then_some(reply)
            });
            reply.await.map_or((504, Bytes::new()), |it| (it.status, it.body))
        };
        tokio::task::block_in_place(|| Handle::current().block_on(work))
    }

    fn after(&mut self, messages: usize) -> Steps<'_> {
        let time = MESSAGE * u32::try_from(messages).unwrap_or(u32::MAX);
        Box::pin(time::pause(time))
    }

    fn pause_max(&self) -> Duration {
        PAUSE_MAX
    }
}
