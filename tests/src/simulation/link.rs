//! The connection of a process to the network: the service below the product's own client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::sync::oneshot;
use tower_service::Service;

use super::body::LinkBody;
use super::network::Network;
use super::record::Sender;

/// The connection of one process.
#[derive(Clone)]
pub struct Link {
    network: Network,
    sender: Sender,
}

impl Link {
    pub(super) const fn new(network: Network, sender: Sender) -> Self {
        Self { network, sender }
    }
}

impl Service<Request<Body>> for Link {
    type Response = Response<LinkBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<LinkBody>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let (reply, answer) = oneshot::channel();
            this.network.send(this.sender, parts, body, reply);
            match answer.await {
                Ok(answer) => answer,
                // The network dropped the message: no response will arrive.
                Err(_) => std::future::pending().await,
            }
        })
    }
}
