//! An HTTP server on loopback that passes each request to a function: a proxy in front of an API server.
//!
//! It adds no credentials. An error of the function, or of the body that it returns, closes the connection.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinSet};

/// The error of a function or a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A running server. Dropping it closes its connections.
pub struct Proxy {
    /// The address of the server.
    pub address: SocketAddr,
    _serving: JoinSet<()>,
}

impl Proxy {
    /// Starts a server on a free port.
    pub async fn start<F, R, B>(respond: F) -> io::Result<Self>
    where
        F: Fn(Request<Full<Bytes>>) -> R + Clone + Send + 'static,
        R: Future<Output = Result<Response<B>, BoxError>> + Send + 'static,
        B: Body<Data = Bytes, Error = BoxError> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, respond));
        Ok(Self {
            address,
            _serving: serving,
        })
    }
}

async fn serve<F, R, B>(listener: TcpListener, respond: F)
where
    F: Fn(Request<Full<Bytes>>) -> R + Clone + Send + 'static,
    R: Future<Output = Result<Response<B>, BoxError>> + Send + 'static,
    B: Body<Data = Bytes, Error = BoxError> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((socket, _)) = listener.accept().await else {
            continue;
        };
        let respond = respond.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| pass(request, respond.clone()));
            // The error closes the connection.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

/// Passes a request to the function. The future is boxed: the compiler cannot prove otherwise that it is `Send`.
fn pass<F, R, B>(request: Request<Incoming>, respond: F) -> Passed
where
    F: Fn(Request<Full<Bytes>>) -> R + Send + 'static,
    R: Future<Output = Result<Response<B>, BoxError>> + Send + 'static,
    B: Body<Data = Bytes, Error = BoxError> + Send + 'static,
{
    Box::pin(async move {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let response = respond(Request::from_parts(parts, Full::new(body))).await;
        let response = response.map_err(broken)?;
        Ok(response.map(|body| body.map_err(broken).boxed_unsync()))
    })
}

fn broken(error: BoxError) -> io::Error {
    io::Error::other(error)
}

type Passed = Pin<Box<dyn Future<Output = io::Result<Response<UnsyncBoxBody<Bytes, io::Error>>>> + Send>>;
