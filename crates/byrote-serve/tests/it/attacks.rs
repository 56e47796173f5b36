//! What others may try: other hosts and sites, paths that lead out, requests without end.

use crate::{file, serve, serve_with, split};
use byrote::corpus::CorpusSpec;
use byrote_serve::ServeSpec;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn stories() -> CorpusSpec {
    CorpusSpec::default().builtin(20)
}

#[test]
fn it_listens_on_the_local_machine_only() {
    let server = serve(&stories());
    assert!(server.own.starts_with("127.0.0.1:"), "{}", server.own);
    // Every other address of the loopback network is another address.
    let elsewhere = server.own.replace("127.0.0.1", "127.0.0.2");
    assert!(TcpStream::connect(elsewhere).is_err());
}

#[test]
fn other_hosts_and_other_sites_are_refused() {
    let server = serve(&stories());
    let port = server.own.rsplit(':').next().unwrap();
    for host in ["evil.example", &format!("evil.example:{port}"), "localhost", "", "127.0.0.1:1"] {
        assert_eq!(server.get_with("/api/corpus", &[("Host", host)]).0, 421, "{host}");
    }
    assert_eq!(server.get_with("/api/corpus", &[("Host", &format!("localhost:{port}"))]).0, 200);
    for (name, value) in
        [("Origin", "http://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")]
    {
        assert_eq!(server.get_with("/api/corpus", &[(name, value)]).0, 403, "{name}: {value}");
    }
    let own = format!("http://{}", server.own);
    assert_eq!(server.get_with("/api/corpus", &[("Origin", &own), ("Sec-Fetch-Site", "same-origin")]).0, 200);
    // What a form of another site could send.
    let form = |kind: &str, origin: &str| {
        let head =
            format!("POST /api/run/start HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{origin}", server.own);
        split(&server.raw(format!("{head}Content-Type: {kind}\r\nContent-Length: 2\r\n\r\n{{}}"))).0
    };
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        assert_eq!(form(kind, ""), 415, "{kind}");
    }
    assert_eq!(form("application/json", "Origin: http://evil.example\r\n"), 403);
    assert!(server.json("/api/runs")["runs"].as_array().unwrap().is_empty(), "nothing was started");
    for method in ["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"] {
        let answer = server.raw(format!(
            "{method} /api/corpus HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            server.own
        ));
        assert!(split(&answer).0 >= 400, "{method}: {answer}");
        assert!(!answer.to_lowercase().contains("access-control-allow"), "{answer}");
    }
}

#[test]
fn beyond_this_machine_the_token_is_needed() {
    let spec = ServeSpec { host: Some("127.0.0.1".into()), ..ServeSpec::default() };
    let server = serve_with(&spec, &stories());
    let (_, token) = server.address.split_once("/?token=").unwrap();
    for path in ["/", "/app.js", "/api/corpus", "/api/events", "/?token=0123", "/api/corpus?token=0123"] {
        assert_eq!(server.get(path).0, 401, "{path}");
    }
    let head = format!("GET /?token={token} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.own);
    let answer = server.raw(head).to_lowercase();
    assert!(answer.starts_with("http/1.1 200") && answer.contains("<!doctype html>"), "{answer}");
    assert!(
        answer.contains("httponly; samesite=lax") && answer.contains("referrer-policy: no-referrer"),
        "{answer}"
    );
    let port = server.own.rsplit(':').next().unwrap();
    let cookie = format!("byrote-token-{port}={token}");
    assert_eq!(server.get_with("/api/corpus", &[("Cookie", &cookie)]).0, 200);
    assert_eq!(server.get_with("/api/corpus", &[("Cookie", &cookie.to_uppercase())]).0, 401);
}

#[test]
fn every_answer_forbids_what_the_page_does_not_need() {
    let server = serve(&stories());
    for path in ["/", "/app.js", "/api/corpus", "/api/none", "/api/model?id=x"] {
        let answer =
            server.raw(format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.own));
        let head = answer.split("\r\n\r\n").next().unwrap().to_lowercase();
        for needed in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
            "referrer-policy: no-referrer",
        ] {
            assert!(head.contains(needed), "{path}: {needed}\n{head}");
        }
        assert!(!head.contains("unsafe"), "{head}");
    }
}

#[test]
fn no_path_leads_out_of_what_was_named() {
    let here = tempfile::tempdir().unwrap();
    file(&here, "secret.txt", "the secret\n");
    file(&here, "secret.safetensors", "the secret\n");
    let run = file(&here, "run/manifest.toml", "x");
    let run = run.parent().unwrap();
    let text = file(&here, "text.txt", "a b\na c\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        std::fs::create_dir(run.join("models")).unwrap();
        symlink(here.path().join("secret.safetensors"), run.join("models/m.safetensors")).unwrap();
        symlink(here.path().join("secret.txt"), run.join("journal.jsonl")).unwrap();
        symlink(here.path().join("secret.txt"), run.join("live.jsonl")).unwrap();
        symlink(here.path(), run.join("curves")).unwrap();
        file(&here, "audit/scores.bin", "");
        symlink(here.path().join("secret.txt"), here.path().join("audit/audit.json")).unwrap();
    }
    let server = serve(&CorpusSpec::files([run.to_path_buf(), here.path().join("audit"), text]));
    server.ready();
    assert_eq!(server.json("/api/models")["models"], json!([]), "a link that leads out is no model");
    let found = server.json("/api/run?id=run");
    assert!(found["error"].as_str().unwrap().contains("link"), "{found}");
    for path in [
        "/../secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/api/../../etc/passwd",
        "/page/index.html",
        "/api/run?id=..",
        "/api/run?id=../run",
        "/api/run?id=%2Fetc",
        "/api/model?id=/etc/passwd",
        "/api/model?id=run/models/m.safetensors",
        "/api/model?id=../secret.safetensors",
        "/api/audit?id=audit",
        "/api/audit?id=..",
        "/api/audit/document?id=audit&document=0",
        "/api/run/job?id=run&job=..%2F..%2Fsecret",
    ] {
        let (status, body) = server.get(path);
        assert!(status >= 400 || body.starts_with("{\"problem\":"), "{path}: {status} {body}");
        assert!(!body.contains("the secret") && !body.contains("root:"), "{path}: {body}");
    }
}

#[cfg(unix)]
#[test]
fn nothing_is_written_outside_the_directory_of_trainings() {
    use std::os::unix::fs::symlink;
    let here = tempfile::tempdir().unwrap();
    let at = |name: &str| here.path().join(name);
    let settings = r#"{"seed":0,"model":{"d_mlp":4},"training":{"steps":5}}"#;
    file(&here, "victim.txt", "precious");
    // Directories that pretend to be trainings: one that was only named, and some that lie where trainings are written.
    for name in ["named", "runs/a", "runs/b", "runs/c"] {
        file(&here, &format!("{name}/settings.json"), settings);
        file(&here, &format!("{name}/init.safetensors"), "");
    }
    for (link, target) in [
        ("named/live.jsonl", "victim.txt"),
        ("runs/a/live.jsonl", "victim.txt"),
        ("runs/a/ended", "new.txt"),
        ("runs/b/checkpoint.safetensors", "new.txt"),
        ("runs/b/lock", "victim.txt"),
        ("runs/c/model.safetensors", "victim.txt"),
    ] {
        symlink(at(target), at(link)).unwrap();
    }
    std::fs::create_dir(at("elsewhere")).unwrap();
    file(&here, "elsewhere/settings.json", settings);
    file(&here, "elsewhere/init.safetensors", "");
    symlink(at("elsewhere"), at("runs/d")).unwrap();
    let spec = ServeSpec { runs: Some(at("runs")), ..ServeSpec::default() };
    let server = serve_with(&spec, &CorpusSpec::files([at("named"), file(&here, "text.txt", "a b\na c\n")]));
    server.ready();
    let found = server.json("/api/run?id=named");
    assert!(found.get("controls").is_none(), "{found}");
    assert!(server.json("/api/runs")["runs"].as_array().unwrap().iter().all(|run| run["id"] != "d"));
    for id in ["named", "a", "b", "c", "d"] {
        for action in ["resume", "pause", "stop"] {
            let (status, answer) = server.post("/api/run/control", &json!({"id": id, "action": action}));
            assert_eq!(status, 422, "{id}: {action}: {answer}");
        }
    }
    assert_eq!(std::fs::read_to_string(at("victim.txt")).unwrap(), "precious");
    assert!(!at("new.txt").exists() && !at("elsewhere/ended").exists() && !at("elsewhere/lock").exists());
}

#[test]
fn requests_are_bounded_in_size() {
    let server = serve(&stories());
    let own = &server.own;
    let long = server.raw(format!("GET /api/corpus?{} HTTP/1.1\r\nHost: {own}\r\n\r\n", "x".repeat(100_000)));
    assert!(split(&long).0 >= 400, "{long}");
    let head = format!("GET / HTTP/1.1\r\nHost: {own}\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    assert!(!server.raw(head).starts_with("HTTP/1.1 200"));
    let many: String = (0..5000).map(|i| format!("X-{i}: 1\r\n")).collect();
    assert!(!server.raw(format!("GET / HTTP/1.1\r\nHost: {own}\r\n{many}\r\n")).starts_with("HTTP/1.1 200"));
    let body = "x".repeat(200_000);
    let post = format!(
        "POST /api/run/check HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = server.raw(post);
    assert!(answer.is_empty() || split(&answer).0 == 413, "{answer}");
    // A body that claims to be endless.
    let chunked = format!(
        "POST /api/run/check HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let mut stream = server.connect();
    stream.write_all(chunked.as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..64 {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&answer));
    for rubbish in
        ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\u{1b}[31m", "{\"json\": 1}\n\n"]
    {
        let mut stream = server.connect();
        let _ = stream.write_all(rubbish.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{rubbish:?}: {answer}");
    }
    assert_eq!(server.get("/api/corpus").0, 200, "the server goes on");
}

#[test]
fn clients_that_say_nothing_or_do_not_listen_hold_up_nobody() {
    let server = serve(&stories());
    server.ready();
    // Half a request each, and event streams that are never read, or broken off.
    let mut silent: Vec<TcpStream> = (0..100).map(|_| server.connect()).collect();
    for (i, stream) in silent.iter_mut().enumerate() {
        let request = match i % 3 {
            0 => "GET /api/cor".to_owned(),
            1 => format!("GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n", server.own),
            _ => format!(
                "POST /api/run/check HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{{",
                server.own
            ),
        };
        stream.write_all(request.as_bytes()).unwrap();
    }
    silent.truncate(50);
    for _ in 0..20 {
        assert_eq!(server.get("/api/corpus/context?text=Once").0, 200);
    }
    // A request that is never finished is ended by the server.
    let mut slow = server.connect();
    slow.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let mut answer = Vec::new();
    assert!(slow.read_to_end(&mut answer).is_ok(), "the connection stays open");
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

#[test]
fn connections_beyond_the_limit_are_closed_and_the_others_go_on() {
    let server = serve(&stories());
    server.ready();
    let mut streams = Vec::new();
    for _ in 0..1300 {
        let Ok(mut stream) = TcpStream::connect(&server.own) else { break };
        let _ = write!(stream, "GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n", server.own);
        streams.push(stream);
    }
    // Those that are open hear something, at least the first thousand; a thousand idle streams are served.
    for stream in streams.iter_mut().take(1000) {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    }
    drop(streams);
    // Their places are free again, at the latest with the next heartbeat.
    let free = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        TcpStream::connect(&server.own).is_ok() && server.get("/api/corpus").0 == 200
    });
    assert!(free);
}

#[test]
fn a_client_that_never_reads_or_reads_byte_by_byte_loses_its_connection() {
    let server = serve(&stories());
    server.ready();
    // More answers than the buffers of both ends hold, asked for in one go and never taken.
    let request = format!("GET /app.js HTTP/1.1\r\nHost: {}\r\n\r\n", server.own);
    let greedy = || {
        let mut stream = server.connect();
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        // The server stops reading when it cannot write, so at some point nothing more is taken.
        let full = (0..100_000).any(|_| stream.write_all(request.as_bytes()).is_err());
        assert!(full, "the server took everything");
        stream
    };
    let (silent, mut dripping) = (greedy(), greedy());
    // A page that reads meets no limit, however much it asks for.
    let mut reading = server.connect();
    reading.write_all(request.repeat(200).as_bytes()).unwrap();
    let began = std::time::Instant::now();
    let mut taken = 0;
    let closed = |stream: &TcpStream| matches!(stream.take_error(), Ok(Some(_))) || gone(stream);
    while !(closed(&silent) && closed(&dripping)) {
        assert!(began.elapsed() < Duration::from_secs(40), "a client that does not read keeps its place");
        dripping.set_nonblocking(true).unwrap();
        let _ = dripping.read(&mut [0; 1]);
        std::thread::sleep(Duration::from_millis(100));
        reading.set_nonblocking(true).unwrap();
        taken += reading.read(&mut [0; 16 << 10]).unwrap_or(0);
    }
    assert!(began.elapsed() > Duration::from_secs(5), "{:?} is too short for a slow line", began.elapsed());
    reading.set_nonblocking(false).unwrap();
    write!(reading, "GET /api/runs HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.own).unwrap();
    let mut rest = String::new();
    reading.read_to_string(&mut rest).unwrap();
    assert!(taken > 0 && rest.ends_with('}'), "{rest}");
}

/// Whether the other side has closed or reset a connection that nobody reads from.
fn gone(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let end = stream.write(b"G").is_err_and(|e| e.kind() != std::io::ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    end
}

#[test]
fn text_of_a_corpus_is_never_html() {
    let here = tempfile::tempdir().unwrap();
    let text =
        "<script>alert(1)</script> x\n<img src=x onerror=alert(1)> y\n</textarea><svg/onload=alert(2)> z\n";
    let path = file(&here, "<b>hostile.txt", text);
    let mut spec = CorpusSpec::files([path]);
    spec.tokenizer = Some("whitespace".parse().unwrap());
    let server = serve(&spec);
    let found = server.ready();
    assert_eq!(found["state"], "ready", "{found}");
    for path in [
        "/api/corpus",
        "/api/corpus/context?text=",
        "/api/corpus/contradictions",
        "/api/corpus/search?text=%3Cscript%3E",
    ] {
        let answer =
            server.raw(format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.own));
        assert!(answer.to_lowercase().contains("content-type: application/json"), "{path}: {answer}");
    }
}
