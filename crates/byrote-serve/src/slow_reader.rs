//! A socket that gives up on a client that does not read.
//!
//! A response that the client never takes fills the buffers of both machines, and then waits. Without a limit it would wait for ever, and
//! hold one of the places for connections. Here a client that keeps a write waiting must take [`LEAST_BYTES`] within [`WRITE_TIME`], or
//! all that is left. A stream of events that has nothing to say is not waiting, and stays open.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long a client may keep a write waiting.
pub const WRITE_TIME: Duration = Duration::from_secs(10);
/// What it must take in this time, so that it cannot read one byte at a time.
pub const LEAST_BYTES: usize = 64 << 10;

/// A socket whose client has to read.
pub struct SlowReader {
    stream: TcpStream,
    /// Since a write had to wait: when it is given up, and how much was taken meanwhile.
    waiting: Option<(Pin<Box<Sleep>>, usize)>,
}

impl SlowReader {
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, waiting: None }
    }

    /// Judges a write of `size` bytes.
    fn judged(
        &mut self,
        context: &mut Context<'_>,
        size: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match (&written, &mut self.waiting) {
            (Poll::Ready(Err(_)), _) | (Poll::Ready(Ok(_)), None) => return written,
            (Poll::Ready(Ok(n)), Some((_, taken))) => {
                *taken += n;
                if *n == size || *taken >= LEAST_BYTES {
                    self.waiting = None;
                    return written;
                }
            }
            (Poll::Pending, None) => self.waiting = Some((Box::pin(sleep(WRITE_TIME)), 0)),
            (Poll::Pending, Some(_)) => {}
        }
        let is_over = self.waiting.as_mut().is_some_and(|(over, _)| over.as_mut().poll(context).is_ready());
        if is_over { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { written }
    }
}

impl AsyncRead for SlowReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for SlowReader {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judged(context, bytes.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judged(context, parts.iter().map(|part| part.len()).sum(), written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
