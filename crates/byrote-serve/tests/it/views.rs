//! What the views say, against the library; and runs that are started, followed and stopped.

use crate::{file, serve, serve_with, split};
use byrote::bounds::SizeSpec;
use byrote::corpus::{Corpus, CorpusSpec, Outputs};
use byrote::dataset::Dataset;
use byrote::observe::Silent;
use byrote::sweep::{self, Corpora, Directory, Plan, SweepOptions};
use byrote_serve::ServeSpec;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};

#[test]
fn the_corpus_is_that_of_the_library() {
    let spec = CorpusSpec::default().builtin(50);
    let server = serve(&spec);
    let found = server.ready();
    let corpus = Corpus::from_spec(&spec, Outputs::default().contexts(true), &Silent).unwrap();
    assert_eq!(found["summary"], json!(corpus.summary));
    let dataset = Dataset::from_corpus(&corpus).unwrap();
    for context in (0..dataset.len()).step_by(17) {
        let tokens = dataset.tokens_of(context);
        let listed: Vec<String> = tokens.iter().map(u32::to_string).collect();
        let node = server.json(&format!("/api/corpus/context?tokens={}", listed.join(",")));
        assert_eq!(node["count"].as_f64(), Some(dataset.counts()[context]));
        let floor = node["floor_nats"].as_f64().unwrap();
        assert!((floor - dataset.floor_of(context)).abs() < 1e-12 * floor.max(1.0));
        let mut next: Vec<(u64, f64)> = node["next"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| (n["token"].as_u64().unwrap(), n["count"].as_f64().unwrap()))
            .collect();
        next.sort_by_key(|n| n.0);
        let own: Vec<(u64, f64)> = dataset.next_of(context).iter().map(|n| (u64::from(n.0), n.1)).collect();
        assert_eq!(next, own);
    }
    let worst = server.json("/api/corpus/contradictions");
    let mut floors: Vec<f64> = (0..dataset.len()).map(|c| dataset.floor_of(c)).filter(|f| *f > 0.0).collect();
    floors.sort_by(|a, b| b.total_cmp(a));
    let shown: Vec<f64> =
        worst["rows"].as_array().unwrap().iter().map(|r| r["floor_nats"].as_f64().unwrap()).collect();
    assert_eq!(shown.len(), floors.len().min(100));
    assert!(shown.iter().zip(&floors).all(|(a, b)| (a - b).abs() < 1e-9));
    let search = server.json("/api/corpus/search?text=upon");
    let ends =
        |c: usize| dataset.tokens_of(c).last().map(|&t| corpus.vocabulary.text(t)) == Some("upon".into());
    assert_eq!(search["total"].as_u64(), Some((0..dataset.len()).filter(|&c| ends(c)).count() as u64));
}

#[test]
fn odd_questions_get_errors_that_name_their_setting() {
    let server = serve(&CorpusSpec::default().builtin(20));
    server.ready();
    for (path, setting) in [
        ("/api/corpus/context?tokens=999999", "tokens"),
        ("/api/corpus/context?tokens=a", "tokens"),
        ("/api/corpus/context?text=xyzzy", "text"),
        ("/api/corpus/search", "text"),
        ("/api/shapes?d_model=0", "d_model"),
        ("/api/shapes?d_model=16&n_layers=0&d_vocab=9", "n_layers"),
        ("/api/shapes?d_mpl=3", "d_mpl"),
        ("/api/shapes?d_model=wide", "d_model"),
        ("/api/shapes?d_model=16", "d_vocab"),
        ("/api/shapes?d_model=16&d_vocab=5&n_ctx=99999999999", "n_ctx"),
        ("/api/run", "id"),
        ("/api/audit?id=none", "id"),
        ("/api/model/task?id=none&kind=certify", "id"),
        ("/api/model/task?id=none&kind=dance", "kind"),
    ] {
        let (status, body) = server.get(path);
        let body: Value = serde_json::from_str(&body).unwrap();
        // What a person types is answered: a browser would log a failed request as an error of the page.
        let is_typed =
            ["/api/corpus/context", "/api/corpus/search", "/api/shapes"].iter().any(|p| path.starts_with(p));
        // So is an address that names what is no longer there.
        let is_named = setting == "id";
        let (expected, key) = if is_typed || is_named { (200, "problem") } else { (422, "error") };
        assert_eq!((status, body[key]["setting"].as_str()), (expected, Some(setting)), "{path}: {body}");
    }
    assert_eq!(server.get("/api/nothing").0, 404);
    assert_eq!(server.get("/api/run/start").0, 405);
    let empty = server.json("/api/corpus/context?text=");
    assert_eq!((empty["is_context"].as_bool(), empty["occurs"].as_bool()), (Some(false), Some(true)));
}

#[test]
fn shapes_are_judged_as_the_program_does() {
    let spec = CorpusSpec::default().builtin(50);
    let server = serve(&spec);
    server.ready();
    let summary = Corpus::from_spec(&spec, Outputs::default(), &Silent).unwrap().summary;
    let found = server.json("/api/shapes?d_model=16&n_heads=4&d_mlp=512&corpus=1");
    let size = SizeSpec::default().d_model(16).n_heads(4).d_mlp(512);
    let situation = size.situation(Some(&summary), None, None).unwrap();
    assert_eq!(found["parameters"].as_u64(), situation.parameter_count().map(|k| k as u64));
    assert_eq!(found["rows"], json!(byrote::bounds::evaluate(&situation)));
    assert!(found["picture"]["curves"].as_array().unwrap().len() > 3);
    assert_eq!(found["picture"]["corpus"]["contexts"].as_f64(), Some(summary.contexts as f64));
    let deep =
        server.json("/api/shapes?n_layers=12&d_model=768&n_heads=12&d_mlp=3072&d_vocab=50257&n_ctx=1024");
    assert_eq!(deep["parameters"].as_u64(), Some(124_439_808), "GPT-2");
}

#[test]
fn a_corpus_that_cannot_be_read_is_reported_and_the_server_goes_on() {
    let here = tempfile::tempdir().unwrap();
    let server = serve(&CorpusSpec::files([file(&here, "empty.txt", "")]));
    let found = server.ready();
    assert_eq!(found["state"], "failed");
    assert!(found["error"]["message"].as_str().unwrap().len() > 5, "{found}");
    assert_eq!(server.json("/api/corpus/context?text=a")["problem"]["setting"], "corpus");
    assert_eq!(server.get("/api/shapes?d_model=16&d_vocab=50").0, 200);
    let (status, answer) = server.post("/api/run/check", &json!({}));
    assert_eq!((status, answer["problem"]["setting"].as_str()), (200, Some("corpus")));
}

#[test]
fn damaged_directories_are_reported() {
    let here = tempfile::tempdir().unwrap();
    file(&here, "sweep/manifest.toml", "rubbish");
    file(&here, "sweep/live.jsonl", "rubbish\n{\"job\":");
    file(&here, "audit/audit.json", "{}");
    file(&here, "study/study.json", "{\"version\": 3}");
    file(&here, "m.safetensors", "not a model");
    let paths = ["sweep", "audit", "study", "m.safetensors"].map(|name| here.path().join(name));
    let server = serve(&CorpusSpec::files(paths));
    server.ready();
    assert!(server.json("/api/runs")["runs"][0]["error"].as_str().unwrap().contains("manifest"));
    assert_eq!(server.get("/api/audit?id=audit").0, 422);
    let id = server.json("/api/models")["models"][0]["id"].as_str().unwrap().replace('/', "%2F");
    let (status, body) = server.get(&format!("/api/model?id={id}"));
    assert_eq!(status, 422, "{body}");
}

/// Reads events until one holds.
fn hear(stream: &mut impl BufRead, holds: impl Fn(&str, &Value) -> bool) -> Value {
    let mut name = String::new();
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended");
        if let Some(event) = line.strip_prefix("event: ") {
            name = event.trim().to_owned();
        }
        if let Some(data) = line.strip_prefix("data: ") {
            let data: Value = serde_json::from_str(data.trim()).unwrap_or_default();
            if holds(&name, &data) {
                return data;
            }
        }
    }
}

#[test]
fn a_sweep_of_another_thread_is_followed_as_it_runs() {
    let here = tempfile::tempdir().unwrap();
    let folder = here.path().join("widths");
    let plan = "seeds = [0, 1]\n[corpus]\nbuiltin = 20\n[model]\nd_mlp = [4, 8]\n[training]\nsteps = 40\nstop_relative_gap = 1e-9\n";
    let plan = Plan::parse(plan, "widths").unwrap();
    let corpora = Corpora::read(&plan.jobs, &Silent).unwrap();
    let mut directory = Directory::open(&folder, &plan, &corpora).unwrap();
    let server = serve(&CorpusSpec::files([folder.clone()]));
    let found = server.json("/api/run?id=widths");
    assert_eq!((found["jobs"].as_u64(), found["done"].as_u64()), (Some(4), Some(0)));
    assert_eq!(found["labels"][0].as_str(), Some("d_mlp 4, seed 0"));
    let mut stream = server.connect();
    write!(stream, "GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n", server.own).unwrap();
    let mut stream = BufReader::new(stream);
    hear(&mut stream, |name, _| name == "hello");
    sweep::run(&plan, &corpora, &mut directory, SweepOptions::default(), &Silent).unwrap();
    let event = hear(&mut stream, |name, data| name == "run" && data["summary"]["done"] == 4);
    assert_eq!(event["summary"]["state"], "done");
    let lowest = directory
        .to_record()
        .rows
        .iter()
        .filter_map(|row| row.gap_per_prediction())
        .fold(f64::INFINITY, f64::min);
    assert_eq!(server.json("/api/runs")["runs"][0]["lowest_gap_nats_per_prediction"].as_f64(), Some(lowest));
    let found = server.json("/api/run?id=widths");
    let record = directory.to_record();
    for (row, own) in found["rows"].as_array().unwrap().iter().zip(&record.rows) {
        assert_eq!(row["gap_nats_per_prediction"].as_f64(), own.gap_per_prediction());
        assert_eq!(row["steps"].as_u64(), own.result.as_ref().map(|r| r.steps));
    }
    let curve = found["curves"]["0"]["steps"].as_array().unwrap();
    assert_eq!(curve.len(), record.curves[&record.rows[0].job].len());
    assert!(!found["curves"]["0"]["seconds"].as_array().unwrap().is_empty());
    let job = server.json("/api/run/job?id=widths&job=3");
    assert_eq!(job["settings"]["seed"], 1);
}

#[test]
fn a_training_is_checked_started_paused_resumed_and_stopped() {
    let here = tempfile::tempdir().unwrap();
    let spec = ServeSpec { runs: Some(here.path().join("runs")), ..ServeSpec::default() };
    let corpus = CorpusSpec::default().builtin(30);
    let server = serve_with(&spec, &corpus);
    server.ready();
    for (settings, setting) in [
        (json!({"d_mlp": "many"}), "d_mlp"),
        (json!({"lr": "-1"}), "lr"),
        (json!({"batch": 5}), "batch"),
        (json!({"d_mpl": 5}), "d_mpl"),
        (json!({"name": "../outside"}), "name"),
        (json!({"optimizer": "sgd"}), "optimizer"),
        (json!({"n_heads": "0"}), "n_heads"),
    ] {
        for path in ["/api/run/check", "/api/run/start"] {
            let (status, answer) = server.post(path, &settings);
            assert_eq!(
                (status, answer["problem"]["setting"].as_str()),
                (200, Some(setting)),
                "{settings}: {answer}"
            );
        }
    }
    let settings = json!({"name": "long", "d_mlp": "16", "optimizer": "adam", "steps": "100000000", "stop_relative_gap": "1e-12", "stall": "0"});
    let (status, answer) = server.post("/api/run/check", &settings);
    assert_eq!((status, answer["steps"].as_u64()), (200, Some(100_000_000)), "{answer}");
    let (status, answer) = server.post("/api/run/start", &settings);
    assert_eq!((status, answer["id"].as_str()), (200, Some("long")), "{answer}");
    assert_eq!(server.post("/api/run/start", &settings).1["problem"]["setting"], "name");
    server.until("/api/run?id=long", |run| run["step"].as_u64() > Some(0));
    let control = |action: &str| server.post("/api/run/control", &json!({"id": "long", "action": action}));
    assert_eq!(control("resume").0, 422);
    assert_eq!(control("pause").0, 200);
    let paused = server.until("/api/run?id=long", |run| run["state"] == "paused");
    assert_eq!(paused["controls"], json!(["resume", "stop"]));
    // Another server finds it as it was left.
    drop(server);
    let server = serve_with(&spec, &corpus);
    server.ready();
    let found = server.json("/api/run?id=long");
    assert_eq!(
        (found["state"].as_str(), found["kind"].as_str()),
        (Some("paused"), Some("training")),
        "{found}"
    );
    let before = found["step"].as_u64();
    let control = |action: &str| server.post("/api/run/control", &json!({"id": "long", "action": action}));
    assert_eq!(control("resume").0, 200);
    server.until("/api/run?id=long", |run| run["step"].as_u64() > before);
    assert_eq!(control("stop").0, 200);
    let over = server.until("/api/run?id=long", |run| run["state"] == "done");
    assert_eq!(over["controls"], json!([]));
    // Its model can be looked at.
    let models = server.json("/api/models");
    let id = models["models"][0]["id"].as_str().unwrap();
    assert_eq!(id, "long/model.safetensors");
    let next = server.json("/api/model/predict?id=long/model.safetensors&text=Once");
    let total: f64 =
        next["next"].as_array().unwrap().iter().map(|n| n["probability"].as_f64().unwrap()).sum();
    assert!(total > 0.5 && total < 1.0 + 1e-9, "{next}");
    assert!(next["corpus_count"].as_f64().unwrap() > 0.0);
    server.post("/api/model/task", &json!({"id": id, "kind": "evaluate"}));
    let path = "/api/model/task?id=long/model.safetensors&kind=evaluate";
    let found = server.until(path, |task| task["state"] != "running");
    assert_eq!(found["state"], "done", "{found}");
    let summary = server.json("/api/corpus");
    assert_eq!(found["result"]["contexts"], summary["summary"]["contexts"]);
    let (status, _) = split(&server.raw(format!(
        "GET /api/model/task?id=long HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.own
    )));
    assert_eq!(status, 422);
}

#[test]
fn a_field_says_what_it_takes_and_a_model_that_is_too_large_is_refused_before_the_start() {
    let server = serve(&CorpusSpec::default().builtin(20));
    server.ready();
    for (settings, says) in [
        (
            json!({"d_mlp": "many"}),
            "d_mlp: must be a whole number of at least 1 with a hidden layer (got many)",
        ),
        (json!({"steps": "-5"}), "steps: must be a whole number of at least 0 (got -5)"),
        (
            json!({"optimizer": "adam", "batch": "few"}),
            "batch: must be a whole number of at least 1 (got few)",
        ),
        (json!({"lr": "fast"}), "lr: must be a number (got fast)"),
    ] {
        let (_, answer) = server.post("/api/run/check", &settings);
        assert_eq!(answer["problem"]["message"].as_str(), Some(says));
    }
    for (query, says) in [
        ("d_model=abc&d_vocab=9", "d_model: must be a whole number from 1 to "),
        ("d_model=16&n_layers=few&d_vocab=9", "n_layers: must be a whole number from 1 to "),
        ("d_model=16&d_vocab=x", "d_vocab: must be a whole number (got x)"),
        (
            "n_layers=96&d_model=16384&d_mlp=65536&n_heads=128&d_vocab=50257&n_ctx=1024",
            "d_model: the model has more than 2^36 parameters",
        ),
    ] {
        let found = server.json(&format!("/api/shapes?{query}"));
        assert!(found["problem"]["message"].as_str().unwrap().starts_with(says), "{found}");
    }
    let huge = json!({"d_mlp": "8000000", "d_model": "2048", "name": "huge"});
    let (_, answer) = server.post("/api/run/check", &huge);
    let message = answer["problem"]["message"].as_str().unwrap();
    assert!(message.starts_with("training ") && message.contains(" GiB are free"), "{message}");
    let form = server.json("/api/run/form").to_string();
    assert!(!form.contains("--") && form.contains("Stop after this many seconds"), "{form}");
}

#[test]
fn what_comes_from_a_sample_of_windows_says_so() {
    let here = tempfile::tempdir().unwrap();
    let text: String = (0..300u32).map(|i| char::from(b'a' + (i * i % 7) as u8)).collect();
    let mut spec = CorpusSpec::files([file(&here, "text.txt", &text)]).n_ctx(6);
    spec.tokenizer = Some("char".parse().unwrap());
    spec.documents = Some("file".parse().unwrap());
    spec.contexts = Some("windows".parse().unwrap());
    let addresses = [
        "/api/corpus",
        "/api/corpus/context?text=ab",
        "/api/corpus/search?text=a",
        "/api/corpus/contradictions",
        "/api/corpus/repeats",
    ];
    for (windows, expected) in [(None, json!(null)), (Some(20), json!({"windows": 20, "of": 300}))] {
        spec.windows = windows;
        let server = serve(&spec);
        let found = server.ready();
        assert_eq!(found["state"], "ready", "{found}");
        for address in addresses {
            assert_eq!(server.json(address)["sample"], expected, "{address}");
        }
    }
}

#[test]
fn a_training_is_resumed_on_its_own_corpus_only() {
    let here = tempfile::tempdir().unwrap();
    let spec = ServeSpec { runs: Some(here.path().join("runs")), ..ServeSpec::default() };
    let own = CorpusSpec::default().builtin(30);
    let server = serve_with(&spec, &own);
    server.ready();
    let settings = json!({"optimizer": "adam", "d_mlp": "8", "steps": "100000000", "stop_relative_gap": "1e-12", "stall": "0"});
    let (_, answer) = server.post("/api/run/start", &settings);
    let id = answer["id"].as_str().unwrap().to_owned();
    assert_eq!(id, "training-1");
    let address = format!("/api/run?id={id}");
    server.until(&address, |run| run["step"].as_u64() > Some(0));
    drop(server);
    // As if it had been killed before its first checkpoint.
    std::fs::remove_file(here.path().join("runs/training-1/checkpoint.safetensors")).unwrap();
    let curve = || std::fs::read(here.path().join("runs/training-1/live.jsonl")).unwrap();
    let before = curve();
    let control = |server: &crate::Running, action: &str| {
        server.post("/api/run/control", &json!({"id": "training-1", "action": action}))
    };
    let server = serve_with(&spec, &CorpusSpec::default().builtin(31));
    server.ready();
    let found = server.json(&address);
    assert_eq!(
        (&found["state"], &found["controls"], &found["eta_seconds"]),
        (&json!("paused"), &json!(["stop"]), &json!(null)),
        "{found}"
    );
    let why = found["error"].as_str().unwrap();
    assert!(
        why.contains("started on another corpus") && why.ends_with("serve that corpus to resume it"),
        "{why}"
    );
    assert_eq!(control(&server, "resume").0, 422);
    assert!(curve() == before, "its curve continues on another corpus");
    drop(server);
    let server = serve_with(&spec, &own);
    server.ready();
    assert_eq!(server.json(&address)["controls"], json!(["resume", "stop"]));
    assert_eq!(control(&server, "resume").0, 200);
    server.until(&address, |run| run["state"] == "running");
    assert_eq!(control(&server, "stop").0, 200);
    server.until(&address, |run| run["state"] == "done");
    // A run that was only named keeps its id, and a training that is started later has another.
    drop(server);
    let other = ServeSpec { runs: Some(here.path().join("other")), ..ServeSpec::default() };
    let mut corpus = own;
    corpus.paths = vec![here.path().join("runs/training-1")];
    let server = serve_with(&other, &corpus);
    server.ready();
    let found = server.until(&address, |run| run["state"] == "done");
    assert_eq!(found["id"], "training-1");
    assert!(found.get("controls").is_none(), "{found}");
    let (_, answer) = server.post("/api/run/start", &json!({"steps": "2", "d_mlp": "4"}));
    assert_eq!(answer["id"], "training-2");
    let (_, answer) =
        server.post("/api/run/start", &json!({"steps": "2", "d_mlp": "4", "name": "training-1"}));
    assert_eq!(answer["problem"]["setting"], "name");
    let runs = server.json("/api/runs");
    let ids: Vec<&str> =
        runs["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["training-1", "training-2"]);
}
