//! The response stream of a watch: one JSON text per line.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;

use super::response::broken;
use super::{ClientError, OBJECT_MAX};

/// The stream of an open watch.
#[derive(Debug)]
pub struct WatchStream {
    body: Body,
    request_line: String,
    /// Received bytes that were not returned yet.
    buffer: BytesMut,
    /// The length of the prefix of the buffer without a newline.
    searched: usize,
}

impl WatchStream {
    pub(super) fn new(body: Body, request_line: String) -> Self {
        Self {
            body,
            request_line,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }

    /// Waits for the next line that is not blank. Returns none at the end of the stream, and drops a last line without a
    /// newline, which is truncated. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            if let Some(at) = self.buffer[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n')
            {
                let line = self.buffer.split_to(self.searched + at).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > OBJECT_MAX {
                return Err(ClientError::TooLarge {
                    request_line: self.request_line.clone(),
                    limit: OBJECT_MAX,
                });
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => {
                    return Err(broken(&error, &self.request_line));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn truncated_last_line_is_dropped() {
        let body = Body::from(b"{\"a\":1}\n\n \n{\"b\":2}\r\n{\"cut".to_vec());
        let mut lines = WatchStream::new(body, "GET /x".to_owned());
        assert_eq!(
            lines.next().await.expect("a line").as_deref(),
            Some(&b"{\"a\":1}"[..])
        );
        assert_eq!(
            lines.next().await.expect("a line").as_deref(),
            Some(&b"{\"b\":2}\r"[..])
        );
        assert_eq!(lines.next().await.expect("the end"), None);
    }
}
