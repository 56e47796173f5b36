//! Audits of a small model whose training text is known, against numbers of an independent program (PyTorch).
//!
//! The model was trained on 40 lines that occur 1, 2, 4, 8 or 16 times in corpus.txt; held_out.txt has 40 lines of the same kind.

use byrote::audit::{
    self, Audit, AuditContext, AuditJob, AuditSpec, Audited, GapContexts, StartToken, Subject, TextAudit,
    TextSpec, WindowStride,
};
use byrote::observe::{Observer, Progress, Silent, Stage};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn canary(name: &str) -> PathBuf {
    data("canary").join(name)
}

fn expected() -> Value {
    serde_json::from_slice(&std::fs::read(canary("expected.json")).unwrap()).unwrap()
}

fn subject() -> Subject {
    Subject::load(&data("canary"), None, None).unwrap()
}

fn spec(bos: StartToken) -> AuditSpec {
    AuditSpec::default().prefix(8).suffix(16).stride(WindowStride::Tokens(4)).windows(0).bos(bos).decode(true)
}

fn job(text: &str, spec: AuditSpec) -> AuditJob {
    AuditJob::default().text(TextSpec::files([canary(text)])).spec(spec)
}

fn run(job: &AuditJob) -> Audited {
    audit::run(&subject(), None, job, None, &Silent).unwrap()
}

/// Whether two numbers agree as far as the expected one was written down and f32 allows.
#[track_caller]
fn near(found: f64, wanted: &Value, tolerance: f64) {
    let wanted = wanted.as_f64().unwrap();
    assert!((found - wanted).abs() <= tolerance + 1e-7 * wanted.abs(), "{found} instead of {wanted}");
}

#[test]
fn windows_score_as_in_the_reference_one_by_one() {
    let expected = expected();
    for (bos, key) in [(StartToken::Id(0), "windows_bos"), (StartToken::None, "windows_no_bos")] {
        let mut rows: BTreeMap<(String, u64), &Value> = BTreeMap::new();
        for row in expected[key].as_array().unwrap() {
            let line = &expected["documents"][row["line"].as_u64().unwrap() as usize]["text"];
            rows.insert((line.as_str().unwrap().to_owned(), row["start"].as_u64().unwrap()), row);
        }
        let mut seen = 0;
        for text in ["corpus.txt", "held_out.txt"] {
            let found = run(&job(text, spec(bos)));
            let windows = found.windows.as_ref().unwrap();
            for ((window, score), decoded) in
                windows.windows.iter().zip(&windows.scores).zip(&windows.decoded)
            {
                let line = found.collection.documents[window.document].text.clone().unwrap();
                let row = rows[&(line, window.start as u64)];
                assert_eq!(score.extractable(), row["extractable"].as_bool().unwrap());
                assert_eq!(u64::from(score.first), row["right_before_first_mistake"].as_u64().unwrap());
                near(score.teacher_forced_accuracy(), &row["teacher_forced_accuracy"], 1e-9);
                near(score.extraction_strength(), &row["extraction_strength"], 1e-9);
                near(score.ln_p, &row["ln_p"], 1e-4);
                match score.ln_p_z {
                    Some(ln_p_z) => near(ln_p_z, &row["ln_p_z_top40"], 1e-4),
                    None => assert!(row["ln_p_z_top40"].is_null()),
                }
                near(score.min_margin, &row["min_margin"], 1e-4);
                near(decoded.unwrap().free_running_accuracy, &row["free_running_accuracy"], 1e-9);
                near(decoded.unwrap().rouge_l, &row["rouge_l"], 1e-9);
                assert!(!score.close);
                seen += 1;
            }
        }
        assert_eq!(seen, rows.len(), "{key}");
    }
}

#[test]
fn repetition_makes_windows_extractable_as_in_the_reference() {
    let expected = expected();
    let found = run(&job("corpus.txt", spec(StartToken::Id(0))));
    let by_count = &expected["windows_bos_by_count"];
    for (group, count) in found.audit.duplicates.iter().zip(["1", "2", "4", "8", "16"]) {
        assert_eq!(group.to.to_string(), count);
        let row = &by_count[count];
        assert_eq!(group.windows, row["windows"].as_u64().unwrap(), "count {count}");
        assert_eq!(group.extractable, row["extractable"].as_u64().unwrap());
        near(group.share, &row["share"], 1e-8);
        near(group.mean_teacher_forced_accuracy, &row["mean_teacher_forced"], 1e-8);
        near(group.p_z_at_least_0_001, &row["p_z_at_least_0_001"], 1e-8);
        near(group.mean_free_running_accuracy.unwrap(), &row["mean_free_running"], 1e-8);
        near(group.mean_extraction_strength, &row["mean_es"], 1e-8);
    }
    assert_eq!(found.audit.duplicates.len(), 5);
    // Every line once, to compare windows with those of the reference, where each line occurs once.
    let other = run(&job("held_out.txt", spec(StartToken::Id(0)))).audit.text;
    let row = &by_count["0"];
    let windows = other.windows.as_ref().unwrap();
    assert_eq!((windows.count, windows.extractable), (399, 0));
    near(windows.mean_teacher_forced_accuracy.unwrap(), &row["mean_teacher_forced"], 1e-8);
    near(windows.mean_free_running_accuracy.unwrap(), &row["mean_free_running"], 1e-8);
    near(windows.mean_extraction_strength.unwrap(), &row["mean_es"], 1e-8);
    for (n, p) in [(1, 0.1), (10, 0.5), (1000, 0.1), (1000, 0.5), (1000, 0.9)] {
        let share = windows.frontier.iter().find(|f| f.n == n && f.p == p).unwrap().share;
        near(share, &row["discoverable"][format!("n={n},p={p}")], 1e-8);
    }
}

#[test]
fn documents_score_as_in_the_reference() {
    let expected = expected();
    let reference = Subject::load(&data("canary_reference"), None, None).unwrap();
    let job = job("corpus.txt", spec(StartToken::Id(0))).held_out(vec![canary("held_out.txt")]);
    let found = audit::run(&subject(), Some(&reference), &job, None, &Silent).unwrap();
    let lines: BTreeMap<&str, &Value> = expected["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["text"].as_str().unwrap(), line))
        .collect();
    for (document, audit) in found.collection.documents.iter().zip(&found.audit.text.documents) {
        let line = lines[document.text.as_deref().unwrap()];
        assert_eq!(audit.copies, line["count"].as_u64().unwrap());
        assert_eq!(
            (audit.scored, audit.bytes),
            (line["tokens"].as_u64().unwrap(), line["bytes"].as_u64().unwrap())
        );
        near(audit.bits.unwrap(), &line["bits"], 1e-3);
        near(audit.bits_reference.unwrap(), &line["bits_reference"], 1e-3);
        near(audit.unintended_bits.unwrap(), &line["unintended_bits"], 1e-3);
        near(audit.token_hits.unwrap(), &line["accuracy"], 1e-8);
        near(audit.extraction_strength.unwrap(), &line["extraction_strength"], 1e-8);
        near(audit.min_k.unwrap(), &line["min_k"]["0.2"], 1e-4);
        near(audit.min_k_plus_plus.unwrap(), &line["min_k_plus_plus"]["0.2"], 1e-4);
        near(audit.smallest_margin.unwrap(), &line["smallest_margin"], 1e-4);
        let run = audit.longest_run.as_ref().unwrap();
        assert_eq!(
            (run.token, run.tokens),
            (
                line["longest_run"][0].as_u64().unwrap() as usize,
                line["longest_run"][1].as_u64().unwrap() as usize
            )
        );
        // Compressors differ by some bytes between libraries.
        let zlib = line["zlib_bits"].as_f64().unwrap();
        assert!((audit.zlib_bits.unwrap() as f64 / zlib - 1.0).abs() < 0.05);
    }
    for (ours, theirs) in [
        ("loss", "loss"),
        ("zlib", "zlib"),
        ("min_k", "min_k_20"),
        ("min_k_plus_plus", "min_k_plus_plus_20"),
        ("reference", "reference"),
    ] {
        near(found.audit.auroc[ours], &expected["auroc_lines"][theirs], 1e-9);
    }
    let reference = found.audit.reference.unwrap();
    let unintended: f64 = lines
        .values()
        .filter(|line| line["count"].as_u64() > Some(0))
        .map(|line| line["unintended_bits"].as_f64().unwrap())
        .sum();
    assert!((reference.unintended_bits - unintended).abs() < 0.05);
    assert!(found.audit.verdict.len() <= 5, "{:?}", found.audit.verdict);
}

#[test]
fn document_context_covers_the_text_as_in_the_reference() {
    let expected = &expected()["windows_document_context_bos"];
    let mut by_count: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    let lines = expected["lines"].as_array().unwrap();
    let wanted: BTreeMap<String, &Value> = self::expected()["documents"]
        .as_array()
        .unwrap()
        .iter()
        .zip(lines)
        .map(|(d, l)| (d["text"].as_str().unwrap().to_owned(), l))
        .collect();
    for text in ["corpus.txt", "held_out.txt"] {
        let found = run(&job(text, spec(StartToken::Id(0)).context(AuditContext::Document)));
        for (document, audit) in found.collection.documents.iter().zip(&found.audit.text.documents) {
            let count = if text == "held_out.txt" { 0 } else { audit.copies };
            let sums = by_count.entry(count.to_string()).or_default();
            sums[0] += audit.windows;
            sums[1] += audit.extractable.unwrap();
            sums[2] += audit.p_z_at_least_0_001.unwrap();
            let line = wanted[document.text.as_deref().unwrap()];
            assert_eq!(audit.covered_characters, line["covered_characters"].as_u64());
            assert_eq!(audit.characters, line["characters"].as_u64().unwrap());
            assert_eq!(audit.extractable, Some(line["extractable_starts"].as_array().unwrap().len() as u64));
        }
        assert!(found.windows.is_none());
    }
    for (count, sums) in by_count {
        let row = &expected["by_count"][&count];
        let wanted = ["windows", "extractable", "p_z_at_least_0_001"].map(|name| row[name].as_u64().unwrap());
        assert_eq!(sums, wanted, "count {count}");
    }
}

#[test]
fn the_gap_to_the_floor_is_that_of_the_reference() {
    let expected = expected();
    let windows =
        AuditSpec::default().prefix(8).suffix(16).windows(1).contexts(GapContexts::Windows).lengths(4);
    let cases = [
        ("gap_prefix", spec(StartToken::None), 206.6063150758709, 2868.5986),
        ("gap_prefix_bos", spec(StartToken::Id(0)), 823.9029394899185, 2149.8431),
        ("gap_windows", windows.bos(StartToken::None), f64::NAN, f64::NAN),
    ];
    for (key, spec, floor, gap) in cases {
        let found = run(&job("corpus.txt", spec)).audit.gap.unwrap();
        let rows = expected[key].as_array().unwrap();
        assert_eq!(found.by_length.len(), rows.len());
        for (row, wanted) in found.by_length.iter().zip(rows) {
            let counts = [
                row.contexts,
                row.predictions,
                row.deterministic_contexts,
                row.memorized,
                row.right_predictions,
            ];
            let names = ["contexts", "predictions", "deterministic", "memorized", "right_predictions"];
            assert_eq!(
                counts,
                names.map(|name| wanted[name].as_u64().unwrap()),
                "{key}, length {}",
                row.length
            );
            for (found, name) in [
                (row.floor_nats, "floor_nats"),
                (row.loss_nats, "loss_nats"),
                (row.gap_nats, "gap_nats"),
                (row.max_kl_nats, "max_kl_nats"),
            ] {
                let wanted = wanted[name].as_f64().unwrap();
                assert!(
                    (found - wanted).abs() <= 1e-4 * wanted.abs() + 1e-6,
                    "{key} {name}: {found} instead of {wanted}"
                );
            }
        }
        if !floor.is_nan() {
            assert!((found.floor_nats - floor).abs() < 1e-10 * floor);
            assert!((found.gap_nats - gap).abs() < 1e-4 * gap);
        }
    }
}

#[test]
fn the_corpus_twice_has_the_same_shares() {
    let dir = tempfile::tempdir().unwrap();
    let once = std::fs::read_to_string(canary("held_out.txt")).unwrap();
    let twice = dir.path().join("twice.txt");
    std::fs::write(&twice, format!("{once}{once}")).unwrap();
    let one = run(&job("held_out.txt", spec(StartToken::Id(0)))).audit;
    let two = run(&AuditJob::default().text(TextSpec::files([twice])).spec(spec(StartToken::Id(0)))).audit;
    let figures = |audit: &Audit| {
        let TextAudit { windows, bits_per_token, token_hits, .. } = audit.text.clone();
        let windows = windows.unwrap();
        (windows.share, windows.mean_extraction_strength, token_hits, bits_per_token)
    };
    let (a, b) = (figures(&one), figures(&two));
    assert_eq!((a.0, a.2), (b.0, b.2));
    assert!((a.3.unwrap() - b.3.unwrap()).abs() < 1e-12 && (a.1.unwrap() - b.1.unwrap()).abs() < 1e-12);
    let per = |audit: &Audit| {
        let gap = audit.gap.as_ref().unwrap();
        gap.gap_nats / gap.predictions as f64
    };
    assert!((per(&one) - per(&two)).abs() < 1e-12);
}

#[test]
fn a_model_is_its_own_reference_without_unintended_bits() {
    let job = job("held_out.txt", spec(StartToken::Id(0)).context(AuditContext::Document).lengths(0));
    let found = audit::run(&subject(), Some(&subject()), &job, None, &Silent).unwrap().audit;
    assert_eq!(found.reference.unwrap().unintended_bits, 0.0);
}

#[test]
fn scores_of_another_reference_are_not_taken_for_those_of_this_one() {
    let place = tempfile::tempdir().unwrap();
    let (model, out) = (place.path().join("reference"), place.path().join("audit"));
    std::fs::create_dir(&model).unwrap();
    let copy = |from: &str, name: &str| std::fs::copy(data(from).join(name), model.join(name)).unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        copy("canary_reference", name);
    }
    let job = job("corpus.txt", spec(StartToken::Id(0)).lengths(0).context(AuditContext::Document));
    let with = |directory: Option<&Path>| {
        let reference = subject().load_reference(&model, None).unwrap();
        audit::run(&subject(), Some(&reference), &job, directory, &Silent)
    };
    let first = with(Some(&out)).unwrap().audit;
    assert!(first.reference.as_ref().unwrap().unintended_bits > 2000.0);
    assert_eq!(with(Some(&out)).unwrap().audit, first);
    // The same directory, retrained.
    copy("canary", "model.safetensors");
    let error = with(Some(&out)).unwrap_err().to_string();
    assert!(error.contains("scores-reference.bin: holds the scores of another model"), "{error}");
    assert_eq!(with(None).unwrap().audit.reference.unwrap().unintended_bits, 0.0);
}

#[test]
fn a_later_audit_leaves_no_table_of_an_earlier_one() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("audit");
    let has = |name: &str| out.join(name).exists();
    let spec = spec(StartToken::Id(0)).lengths(0);
    audit::run(&subject(), None, &job("held_out.txt", spec.clone()), Some(&out), &Silent).unwrap();
    assert!(has("windows.csv") && has("strip.csv") && has("scores.bin"));
    let alone = spec.context(AuditContext::Document);
    audit::run(&subject(), None, &job("held_out.txt", alone), Some(&out), &Silent).unwrap();
    assert!(!has("windows.csv") && has("strip.csv") && has("scores.bin"));
}

#[test]
fn documents_longer_than_the_context_are_counted() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("long.txt");
    let lines = std::fs::read_to_string(canary("held_out.txt")).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    let long = lines[..4].join(" ");
    std::fs::write(&path, format!("{long}\n{long}\n{}\n", lines[5])).unwrap();
    let job = AuditJob::default().text(TextSpec::files([&path])).spec(spec(StartToken::Id(0)).lengths(0));
    let found = run(&job).audit.text;
    assert_eq!((found.corpus.documents, found.corpus.distinct_documents, found.corpus.in_pieces), (3, 2, 2));
    assert_eq!(found.scored_tokens, found.corpus.tokens);
    assert_eq!(run(&self::job("held_out.txt", spec(StartToken::Id(0)))).audit.text.corpus.in_pieces, 0);
}

#[test]
fn windows_of_one_pass_are_windows_of_documents_made_of_them() {
    // A document that is one window: in document context its hits are those of the window alone.
    let dir = tempfile::tempdir().unwrap();
    let alone = run(&job("held_out.txt", spec(StartToken::Id(0))));
    let windows = alone.windows.as_ref().unwrap();
    let lines: Vec<String> = windows
        .windows
        .iter()
        .take(20)
        .map(|window| serde_json::to_string(&serde_json::json!({"text": window.tokens})).unwrap())
        .collect();
    let path = dir.path().join("ids.jsonl");
    std::fs::write(&path, lines.join("\n")).unwrap();
    let inside = run(&AuditJob::default().text(TextSpec::files([path])).spec(spec(StartToken::Id(0))));
    for (i, document) in inside.audit.text.documents.iter().enumerate() {
        assert_eq!(document.windows, 1);
        assert_eq!(document.extractable, Some(u64::from(windows.scores[i].extractable())));
    }
    assert_eq!(inside.audit.text.corpus.bytes, 0);
}

/// Asks to stop after some reports.
struct Impatient {
    seen: AtomicUsize,
    most: usize,
}

impl Observer for Impatient {
    fn progress(&self, progress: &Progress<'_>) {
        if progress.stage == Stage::Auditing {
            self.seen.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn should_stop(&self) -> bool {
        self.seen.load(Ordering::Relaxed) >= self.most
    }
}

#[test]
fn an_interrupted_audit_continues_and_ends_with_the_same_bytes() {
    let job = job("corpus.txt", spec(StartToken::Id(0))).held_out(vec![canary("held_out.txt")]);
    let dir = tempfile::tempdir().unwrap();
    let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
    audit::run(&subject(), None, &job, Some(&whole), &Silent).unwrap();
    let mut stops = 0;
    loop {
        let observer = Impatient { seen: AtomicUsize::new(0), most: 3 };
        match audit::run(&subject(), None, &job, Some(&parts), &observer) {
            Err(byrote::Error::Interrupted) => stops += 1,
            other => {
                other.unwrap();
                break;
            }
        }
        assert!(stops < 1000);
    }
    assert!(stops > 3);
    for name in ["audit.json", "windows.csv", "documents.csv", "strip.csv"] {
        let read = |place: &Path| std::fs::read(place.join(name)).unwrap();
        assert_eq!(read(&whole), read(&parts), "{name}");
    }
    let loaded = Audit::load(&parts).unwrap();
    assert_eq!(loaded.to_json().unwrap(), std::fs::read_to_string(parts.join("audit.json")).unwrap());
    // The scores of another model are not taken for this one's.
    let other = Subject::load(&data("canary_reference"), None, None).unwrap();
    let error = audit::run(&other, None, &job, Some(&parts), &Silent).unwrap_err().to_string();
    assert!(error.contains("another audit"), "{error}");
}

#[test]
fn threads_do_not_change_a_byte() {
    let text = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run(&job("held_out.txt", spec(StartToken::Id(0)))).audit.to_json().unwrap())
    };
    assert_eq!(text(1), text(2));
    assert_eq!(text(1), text(3));
}

#[test]
fn two_audits_of_one_text_are_compared() {
    let job = job("corpus.txt", spec(StartToken::Id(0)).lengths(0));
    let before =
        audit::run(&Subject::load(&data("canary_reference"), None, None).unwrap(), None, &job, None, &Silent)
            .unwrap();
    let after = run(&job);
    let compared = audit::compare(&before.audit, &after.audit).unwrap();
    assert!(compared.different_settings.is_empty());
    let figure = |name: &str| compared.figures.iter().find(|f| f.measure == name).unwrap();
    assert!(figure("bits_per_byte").after < figure("bits_per_byte").before);
    assert!(figure("token_hits").after > figure("token_hits").before);
    assert_eq!(compared.cheaper + compared.dearer + compared.same, 40);
    let other = run(&self::job("held_out.txt", spec(StartToken::Id(0)).lengths(0)));
    assert!(audit::compare(&before.audit, &other.audit).is_err());
}

#[test]
fn canaries_that_were_inserted_often_are_exposed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("canaries.jsonl");
    let lines: Vec<String> = expected()["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| serde_json::json!({"text": line["text"], "count": line["count"]}).to_string())
        .collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let job = job("corpus.txt", spec(StartToken::Id(0)).context(AuditContext::Document)).canaries(path);
    let found = run(&job).audit.canaries.unwrap();
    let groups: Vec<(u64, u64)> = found.by_count.iter().map(|g| (g.count, g.canaries)).collect();
    assert_eq!(groups, [(0, 40), (1, 8), (2, 8), (4, 8), (8, 8), (16, 8)]);
    let of = |count: u64| found.by_count.iter().find(|g| g.count == count).unwrap();
    // Every inserted line is likelier than every other: the largest exposure among 40.
    assert!((of(16).mean_exposure.unwrap() - 41f64.log2()).abs() < 1e-12);
    assert_eq!((of(0).mean_exposure, of(0).extracted), (None, 0));
    assert!(of(16).extracted > of(2).extracted && of(16).mean_bits < of(1).mean_bits);
}

#[test]
fn log_probabilities_of_another_program_give_the_same_bits() {
    let found = run(&job("corpus.txt", spec(StartToken::Id(0)).context(AuditContext::Document).lengths(0)));
    let dir = tempfile::tempdir().unwrap();
    // One row per token of the text, in its order.
    let mut table = "log_prob,hit\n".to_owned();
    let subject = subject();
    let model = subject.model.as_ref().unwrap();
    for &d in &found.collection.order {
        let ids = &found.collection.documents[d].ids;
        let tokens = [&[0], ids.as_slice()].concat();
        let sequence = byrote::inference::Sequence { tokens: &tokens, scored: 1..tokens.len() };
        for (score, id) in
            model.score(&[sequence], byrote::inference::Sampling::default()).unwrap()[0].iter().zip(ids)
        {
            table += &format!("{},{}\n", score.log_prob, u8::from(score.top == *id));
        }
    }
    let path = dir.path().join("scores.csv");
    std::fs::write(&path, table).unwrap();
    let tokenizer = byrote::corpus::TokenizerChoice::File(canary("tokenizer.json"));
    let given = Subject::load(&path, Some(&tokenizer), None).unwrap();
    let job = job("corpus.txt", spec(StartToken::Auto));
    let other = audit::run(&given, None, &job, None, &Silent).unwrap().audit;
    assert!((other.text.bits - found.audit.text.bits).abs() < 1e-9 * other.text.bits);
    assert_eq!(other.text.token_hits, found.audit.text.token_hits);
    assert_eq!(other.text.longest_runs, found.audit.text.longest_runs);
    let inside = |audit: &Audit| audit.text.document_context.as_ref().unwrap().all.extractable;
    assert_eq!(inside(&other), inside(&found.audit));
    assert!(other.gap.is_none() && other.text.windows.is_none() && other.text.recall_curve.is_empty());
}

#[test]
fn log_probabilities_come_from_parquet_too() {
    let dir = tempfile::tempdir().unwrap();
    let ids = dir.path().join("ids.jsonl");
    std::fs::write(&ids, "{\"text\": [5, 6, 7, 8]}\n").unwrap();
    let given = Subject::load(&data("log_probs.parquet"), None, None).unwrap();
    let spec = AuditSpec::default().prefix(1).suffix(1);
    let job = AuditJob::default().text(TextSpec::files([&ids])).spec(spec);
    let found = audit::run(&given, None, &job, None, &Silent).unwrap().audit;
    // The first token has no log-probability: it is not scored.
    assert!((found.text.bits - 3.75 / std::f64::consts::LN_2).abs() < 1e-12);
    assert_eq!((found.text.scored_tokens, found.text.token_hits), (3, Some(2.0 / 3.0)));
    assert_eq!(found.text.documents[0].extractable, Some(2));
    assert!(Subject::load(&canary("corpus.txt").with_extension("parquet"), None, None).is_err());
}

#[test]
fn the_recall_curve_of_all_windows_lies_above_the_floor_and_falls() {
    // 40 lines of about 60 tokens: all windows of 51 tokens are run.
    let curve = run(&job("held_out.txt", spec(StartToken::Id(0)).lengths(50))).audit.text.recall_curve;
    assert_eq!(curve.len(), 50);
    for point in &curve {
        assert!(point.bits >= point.floor_bits.unwrap() - 1e-9, "{point:?}");
    }
    let known = run(&job("corpus.txt", spec(StartToken::Id(0)))).audit.text.recall_curve;
    assert!(known[31].bits < 0.5 * known[3].bits && known[31].hits > known[3].hits);
    assert!(known[31].bits < 0.5 * curve[31].bits, "training text is recalled better than other text");
}
