//! The body of a response to a process.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc;

/// All at once, or in parts that the network delivers.
#[derive(Debug)]
pub enum LinkBody {
    /// The whole content; none after it was read.
    Whole(Option<Bytes>),
    /// The parts: the events of a watch, or a slow response.
    Parts(mpsc::UnboundedReceiver<io::Result<Bytes>>),
}

impl Body for LinkBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Self::Whole(whole) => Poll::Ready(whole.take().map(|it| Ok(Frame::data(it)))),
            Self::Parts(parts) => parts
                .poll_recv(context)
                .map(|it| it.map(|part| part.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }
}

/// Returns the error of a broken connection.
pub(super) fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection broke")
}
