//! What open pages hear of by themselves: server-sent events.
//!
//! Every page listens to the same events. A page that does not read loses events, not the server: it is asked to start over
//! (`resync`) when it reads on.

use hyper::body::{Body, Bytes, Frame};
use serde_json::Value;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::time::timeout;

/// How many events wait for a page that does not read.
const WAITING: usize = 64;
/// How often a page hears something, even if there is nothing to say.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Sends events to all open pages.
#[derive(Debug, Clone)]
pub struct Events(broadcast::Sender<Bytes>);

impl Events {
    /// Nobody listens yet.
    pub fn new() -> Self {
        Self(broadcast::channel(WAITING).0)
    }

    /// Whether a page listens.
    pub fn has_listeners(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Sends an event.
    pub fn send(&self, name: &str, data: &Value) {
        // Without listeners there is nobody to tell.
        let _ = self.0.send(text(name, data));
    }
}

fn text(name: &str, data: &Value) -> Bytes {
    // JSON on one line has no line ends.
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// The body of a response that never ends.
#[derive(Debug)]
pub struct EventBody(mpsc::Receiver<Bytes>);

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Begins to send events to one page.
pub fn stream(events: &Events) -> EventBody {
    let mut heard = events.0.subscribe();
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        // Pages that lost the server ask again after a second.
        let mut next = Bytes::from_static(b"retry: 1000\nevent: hello\ndata: {}\n\n");
        while sender.send(next).await.is_ok() {
            next = match timeout(HEARTBEAT, heard.recv()).await {
                Err(_) => Bytes::from_static(b": still here\n\n"),
                Ok(Ok(event)) => event,
                Ok(Err(RecvError::Lagged(_))) => text("resync", &Value::Null),
                Ok(Err(RecvError::Closed)) => break,
            };
        }
    });
    EventBody(receiver)
}
