//! A TCP proxy that can be cut in one direction: requests do not arrive any more, watch events still do. Closed connections
//! of the server are not forwarded either, so that pending requests keep waiting.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use steersman_manager::env::{TaskSet, Tasks};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Stops when it is dropped.
pub struct Proxy {
    pub address: SocketAddr,
    cut: CancellationToken,
    _tasks: TaskSet,
}

impl Proxy {
    /// Starts forwarding connections to `server`.
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (cut, tasks) = (CancellationToken::new(), TaskSet::new());
        let (until, spawner) = (cut.clone(), tasks.handle());
        tasks.handle().spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                forward(client, server, &spawner, &until).await;
            }
        });
        Self {
            address,
            cut,
            _tasks: tasks,
        }
    }

    /// Stops forwarding requests.
    pub fn cut(&self) {
        self.cut.cancel();
    }
}

async fn forward(client: TcpStream, server: SocketAddr, tasks: &Tasks, cut: &CancellationToken) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (requests, answers) = (cut.clone(), cut.clone());
    tasks.spawn(async move {
        let mut to_server = to_server;
        copy(from_client, &mut to_server, &requests).await?;
        to_server.shutdown().await
    });
    tasks.spawn(async move {
        let mut to_client = to_client;
        let ended = copy(from_server, &mut to_client, &CancellationToken::new()).await;
        if answers.is_cancelled() {
            std::future::pending::<()>().await;
        }
        ended?;
        to_client.shutdown().await
    });
}

/// Copies until the end of the stream. Never returns once it is cut.
async fn copy(mut from: OwnedReadHalf, to: &mut OwnedWriteHalf, cut: &CancellationToken) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = tokio::select! {
            biased;
            () = cut.cancelled() => std::future::pending().await,
            read = from.read(&mut buffer) => read?,
        };
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
    }
}
