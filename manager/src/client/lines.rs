//! A watch: one JSON text a line, as they come.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;

use super::ClientError;
use super::answer::chain;

/// The longest line that is read: the largest object that etcd takes is far smaller, in any encoding.
const MAX_LINE: usize = 32 * 1024 * 1024;

/// The lines of an answer that does not end.
#[derive(Debug)]
pub struct Lines {
    body: Body,
    what: String,
    /// What has come and was not handed out.
    buffer: BytesMut,
    /// How much of the buffer is known to hold no end of a line.
    searched: usize,
}

impl Lines {
    pub(super) fn new(body: Body, what: String) -> Self {
        Self {
            body,
            what,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }

    /// The next line that is not empty; none when the server has ended the answer. What comes before the end without an
    /// end of line is cut off, and is not handed out.
    ///
    /// Cancel safe: nothing is lost with the future.
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
            if self.buffer.len() > MAX_LINE {
                return Err(ClientError::TooLarge {
                    what: self.what.clone(),
                    limit: MAX_LINE,
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
                    return Err(ClientError::Connection {
                        what: self.what.clone(),
                        connected: true,
                        reason: chain(&error),
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_whole_and_what_is_cut_off_does_not() {
        let body = Body::from(b"{\"a\":1}\n\n \n{\"b\":2}\r\n{\"cut".to_vec());
        let mut lines = Lines::new(body, "GET /x".to_owned());
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
