//! Sockets: how many are open, how long and how large a request may be.
//!
//! | what | limit |
//! |---|---|
//! | open connections | [`CONNECTIONS`]; further ones are closed at once |
//! | the head of a request | [`HEAD_BYTES`], within [`HEAD_TIME`] |
//! | its body | [`BODY_BYTES`], within [`HEAD_TIME`] |
//! | views at work | [`VIEWS`]; as many again wait, further ones are answered with 503 |
//! | the time of a view | [`VIEW_TIME`] |
//! | a client that does not read | [`WRITE_TIME`](crate::slow_reader::WRITE_TIME) |

use crate::answer::Answer;
use crate::events::{self, EventBody};
use crate::guard::{Allowed, Refusal};
use crate::query::Query;
use crate::routes::{self, Route};
use crate::slow_reader::SlowReader;
use crate::state::State;
use byrote::{Error, Result};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The most open connections.
const CONNECTIONS: usize = 1200;
/// The most bytes of the head of a request.
const HEAD_BYTES: usize = 16 << 10;
/// How long a client may take to send a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The most bytes of the body of a request.
const BODY_BYTES: usize = 64 << 10;
/// The most views at work.
const VIEWS: usize = 8;
/// How long a view may take.
const VIEW_TIME: Duration = Duration::from_secs(60);
/// How often the server asks whether to stop.
const TICK: Duration = Duration::from_millis(100);

/// Nothing but this server: no scripts, styles or requests of others, no frames, no forms.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

type Body = Either<Full<Bytes>, EventBody>;

/// The limits that all connections share.
struct Limits {
    at_work: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// Answers until the host asks to stop.
pub fn serve(listener: std::net::TcpListener, state: &Arc<State>) -> Result<()> {
    let fail = |e| Error::io("socket", "listen on", e);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(2 * VIEWS)
        .build()
        .map_err(fail)?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(fail)?;
        let open = Arc::new(Semaphore::new(CONNECTIONS));
        let limits = Arc::new(Limits {
            at_work: Arc::new(Semaphore::new(VIEWS)),
            waiting: Arc::new(Semaphore::new(2 * VIEWS)),
        });
        while !state.should_stop() {
            let Ok(accepted) = timeout(TICK, listener.accept()).await else { continue };
            let Ok((stream, _)) = accepted else {
                // Too many open files, for example: those that are open will end.
                tokio::time::sleep(TICK).await;
                continue;
            };
            let Ok(permit) = open.clone().try_acquire_owned() else { continue };
            let _ = stream.set_nodelay(true);
            let (state, limits) = (state.clone(), limits.clone());
            tokio::spawn(async move {
                let _permit = permit;
                let answer = service_fn(|request| respond(&state, &limits, request));
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIME)
                    .max_buf_size(HEAD_BYTES)
                    .serve_connection(TokioIo::new(SlowReader::new(stream)), answer);
                // A client that breaks off is its own affair.
                let _ = connection.await;
            });
        }
        Ok::<(), Error>(())
    })?;
    // Views that are still at work are left behind.
    runtime.shutdown_background();
    Ok(())
}

/// Answers one request.
async fn respond(
    state: &Arc<State>,
    limits: &Limits,
    request: Request<Incoming>,
) -> std::result::Result<Response<Body>, Infallible> {
    let Allowed { cookie } = match state.guard.check(request.method(), request.uri(), request.headers()) {
        Ok(allowed) => allowed,
        Err(Refusal(status, why)) => return Ok(finished(Answer::refused(status, why))),
    };
    let is_post = *request.method() == Method::POST;
    let path = request.uri().path().to_owned();
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let view = match routes::find(&path, is_post) {
        Route::Asset(asset) => {
            let mut response = finished(asset);
            if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
                response.headers_mut().insert("set-cookie", cookie);
            }
            return Ok(response);
        }
        Route::Events => {
            return Ok(secured(
                Response::new(Either::Right(events::stream(&state.events))),
                "text/event-stream",
            ));
        }
        Route::Missing(status, why) => return Ok(finished(Answer::refused(status, why))),
        Route::View(view) => view,
    };
    let body = Limited::new(request.into_body(), BODY_BYTES);
    let body = match timeout(HEAD_TIME, body.collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => return Ok(finished(Answer::refused(413, "the body is too large, or broke off"))),
        Err(_) => return Ok(finished(Answer::refused(408, "the body took too long"))),
    };
    let Ok(waiting) = limits.waiting.clone().try_acquire_owned() else {
        return Ok(finished(Answer::refused(503, "too many requests at once; try again")));
    };
    let Ok(at_work) = limits.at_work.clone().acquire_owned().await else {
        return Ok(finished(Answer::refused(503, "the server is ending")));
    };
    let shared = state.clone();
    // A client that hangs up ends this function, but not the view: the permits belong to the work, or abandoned work would pile up.
    let work = tokio::task::spawn_blocking(move || {
        let _permits = (waiting, at_work);
        view(&shared, &query, &body)
    });
    Ok(finished(match timeout(VIEW_TIME, work).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => {
            Answer::refused(500, "a bug in byrote, please report it: this request failed; others go on")
        }
        Err(_) => Answer::refused(504, "this took too long"),
    }))
}

fn finished(answer: Answer) -> Response<Body> {
    let Answer { status, kind, body } = answer;
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(body))));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    secured(response, kind)
}

/// The headers of every response.
fn secured(mut response: Response<Body>, kind: &'static str) -> Response<Body> {
    for (name, value) in [
        ("content-type", kind),
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::VIEWS;
    use crate::{Host, ServeSpec, Server, routes};
    use byrote::corpus::CorpusSpec;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Default)]
    struct Quiet(AtomicBool);

    impl Host for Quiet {
        fn should_stop(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
        fn note(&self, _: &str) {}
        fn keeps(&self, _: bool) {}
    }

    #[test]
    fn neither_a_panic_nor_abandoned_requests_stop_the_server() {
        let host = Arc::new(Quiet::default());
        let server =
            Server::bind(&ServeSpec::default(), &CorpusSpec::default().builtin(5), 1, host.clone()).unwrap();
        let own = server.address().trim_start_matches("http://").trim_end_matches('/').to_owned();
        let running = std::thread::spawn(move || server.run());
        let ask = |path: &str| {
            let mut stream = TcpStream::connect(&own).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        for _ in 0..20 {
            let answer = ask("/api/panic");
            assert!(answer.starts_with("HTTP/1.1 500") && answer.contains("a bug in byrote"), "{answer}");
        }
        assert!(ask("/api/runs").starts_with("HTTP/1.1 200"));
        // Clients that hang up: no more views begin than may be at work, until those are done.
        let entered = || routes::ENTERED.load(Ordering::SeqCst);
        let begin = || {
            let mut stream = TcpStream::connect(&own).unwrap();
            write!(stream, "GET /api/wait HTTP/1.1\r\nHost: {own}\r\n\r\n").unwrap();
            stream
        };
        for n in 1..=VIEWS {
            let stream = begin();
            while entered() < n {
                std::thread::yield_now();
            }
            drop(stream);
        }
        for _ in 0..3 * VIEWS {
            drop(begin());
            assert!(ask("/").starts_with("HTTP/1.1 200"));
        }
        assert_eq!(entered(), VIEWS);
        routes::OPEN.store(true, Ordering::SeqCst);
        while !ask("/api/runs").starts_with("HTTP/1.1 200") {}
        host.0.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap();
    }
}
