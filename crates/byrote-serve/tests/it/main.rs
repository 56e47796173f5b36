//! Tests of the server over real sockets.
#![allow(clippy::unwrap_used)]

mod attacks;
mod views;

use byrote::corpus::CorpusSpec;
use byrote_serve::{Host, ServeSpec, Server};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A terminal that says nothing.
#[derive(Default)]
struct Quiet(AtomicBool);

impl Host for Quiet {
    fn should_stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    fn note(&self, _: &str) {}
    fn keeps(&self, _: bool) {}
}

/// A server that runs until it is dropped.
struct Running {
    host: Arc<Quiet>,
    /// Host and port.
    own: String,
    /// The address that a person opens.
    address: String,
    thread: Option<JoinHandle<byrote::Result<()>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.host.0.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap().unwrap();
        }
    }
}

fn serve(corpus: &CorpusSpec) -> Running {
    serve_with(&ServeSpec::default(), corpus)
}

fn serve_with(spec: &ServeSpec, corpus: &CorpusSpec) -> Running {
    let host = Arc::new(Quiet::default());
    let server = Server::bind(spec, corpus, 1, host.clone()).unwrap();
    let address = server.address().to_owned();
    let own = address.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    Running { host, own, address, thread: Some(std::thread::spawn(move || server.run())) }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.own).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends bytes and reads until the server closes.
    fn raw(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes.as_ref());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A GET with further headers: its status and its body.
    fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut head = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.own);
        }
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        split(&self.raw(head + "\r\n"))
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.get_with(path, &[])
    }

    /// The JSON of a GET that succeeds.
    fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.own,
            body.len()
        );
        let (status, body) = split(&self.raw(head + &body));
        (status, serde_json::from_str(&body).unwrap_or_default())
    }

    /// Waits until the corpus is there.
    fn ready(&self) -> Value {
        self.until("/api/corpus", |found| found["state"] != "loading")
    }

    /// Asks until an answer holds; a minute at most.
    fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let found = self.json(path);
            if holds(&found) {
                return found;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "{path}: {found}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The status and the body of an answer.
fn split(answer: &str) -> (u16, String) {
    let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// A text as a file in a directory.
fn file(directory: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}
