//! Audits of ONNX files, which need the feature `onnx`: those that byrote writes, and small ones in the form of other exporters.
#![allow(clippy::unwrap_used)]

use byrote::audit::{self, Audit, AuditJob, AuditSpec, StartToken, Subject, TextSpec};
use byrote::corpus::TokenizerChoice;
use byrote::export::onnx::onnx;
use byrote::model::{ModelFile, Precision, huggingface};
use byrote::observe::Silent;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn audit(model: &Path, text: &Path, spec: AuditSpec, limit: u64) -> Audit {
    let subject = Subject::load(model, None, None).unwrap();
    let job = AuditJob::default().text(TextSpec::files([text]).limit(limit)).spec(spec);
    audit::run(&subject, None, &job, None, &Silent).unwrap().audit
}

#[track_caller]
fn refusal(model: &Path, tokenizer: Option<&TokenizerChoice>) -> String {
    match Subject::load(model, tokenizer, None) {
        Ok(subject) => panic!("{} was loaded", subject.facts.path),
        Err(error) => error.to_string(),
    }
}

/// The numbers that must be equal, and those that must be so up to rounding.
fn figures(audit: &Audit) -> (Vec<u64>, Vec<f64>) {
    let (text, gap) = (&audit.text, audit.gap.as_ref().unwrap());
    let windows = text.windows.as_ref().unwrap();
    let counts = vec![
        text.corpus.tokens,
        windows.count,
        windows.extractable,
        text.document_context.as_ref().unwrap().all.extractable,
        text.longest_runs.first().map_or(0, |run| run.tokens as u64),
        gap.predictions,
        gap.by_length.iter().map(|row| row.memorized).sum(),
    ];
    let decoded = windows.mean_free_running_accuracy.unwrap_or(0.0);
    (
        counts,
        vec![text.bits, gap.gap_nats, gap.floor_nats, windows.mean_extraction_strength.unwrap(), decoded],
    )
}

#[track_caller]
fn same(own: &Audit, onnx: &Audit) {
    assert_eq!((onnx.model.family.as_str(), onnx.model.n_ctx), ("onnx", own.model.n_ctx));
    let ((counts, numbers), (found, close)) = (figures(own), figures(onnx));
    assert_eq!(counts, found);
    for (a, b) in numbers.iter().zip(&close) {
        assert!((a - b).abs() <= 1e-4 * a.abs().max(1e-3), "{numbers:?} {close:?}");
    }
}

/// A directory with its tokenizer, as the file that `byrote export --to onnx` writes.
fn exported(directory: &Path, to: &Path, precision: Precision) -> ModelFile {
    let file = huggingface::load(directory).unwrap();
    std::fs::write(to, onnx(&file, precision).unwrap()).unwrap();
    file
}

#[test]
fn an_exported_model_has_the_audit_of_its_directory() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("canary.onnx");
    let (directory, corpus) = (data("canary"), data("canary").join("corpus.txt"));
    let spec = AuditSpec::default().prefix(8).suffix(16).bos(StartToken::Id(0)).windows(12).lengths(3);
    let own = audit(&directory, &corpus, spec.clone(), 12);
    assert!(own.text.windows.as_ref().unwrap().extractable > 0, "something is memorized");
    for precision in [Precision::F32, Precision::F64] {
        exported(&directory, &file, precision);
        same(&own, &audit(&file, &corpus, spec.clone(), 12));
    }
}

#[test]
fn other_families_have_the_audits_of_their_directories() {
    let place = tempfile::tempdir().unwrap();
    let (file, ids) = (place.path().join("model.onnx"), place.path().join("ids.jsonl"));
    std::fs::write(
        &ids,
        "{\"text\": [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]}\n{\"text\": [2, 7, 1, 8, 2, 8, 1, 8]}\n",
    )
    .unwrap();
    let spec = AuditSpec::default().prefix(2).suffix(2).decode(true).lengths(4);
    for name in ["gpt2", "gpt_neox", "llama"] {
        let directory = data("huggingface").join(name);
        exported(&directory, &file, Precision::F32);
        same(&audit(&directory, &ids, spec.clone(), 9), &audit(&file, &ids, spec.clone(), 9));
    }
}

/// With logits of a known table, the code length is known.
#[test]
fn logits_are_those_of_their_positions() {
    let place = tempfile::tempdir().unwrap();
    let ids = place.path().join("ids.jsonl");
    std::fs::write(&ids, "{\"text\": [0, 3, 1, 4, 4, 2]}\n").unwrap();
    let found =
        audit(&data("onnx/bigram.onnx"), &ids, AuditSpec::default().prefix(1).suffix(2).lengths(2), 9);
    let logit = |row: usize, token: usize| (((5 * row + token) % 7) as f64) / 2.0;
    let log_prob = |row: usize, token: usize| {
        logit(row, token) - (0..5).map(|other| logit(row, other).exp()).sum::<f64>().ln()
    };
    let pairs = [(0, 3), (3, 1), (1, 4), (4, 4), (4, 2)];
    let bits: f64 = pairs.iter().map(|&(a, b)| -log_prob(a, b) / std::f64::consts::LN_2).sum();
    assert!((found.text.bits - bits).abs() < 1e-5, "{:?} {bits}", found.text.bits);
    assert_eq!((found.model.d_vocab, found.model.parameters), (5, Some(25)));
}

#[test]
fn graphs_that_break_a_rule_are_refused() {
    for (name, part) in [
        ("not_causal", "is not causal: another token at position 5 changes a logit of position 0 by"),
        ("mixes_rows", "mixes the rows of a batch"),
        ("not_finite", "computes a logit that is"),
        ("other_inputs", "has the inputs input_ids, past_key_values.0.key, but needs input_ids"),
        ("fixed_length", "reads 8 tokens and no other number"),
    ] {
        let text = refusal(&data(&format!("onnx/{name}.onnx")), None);
        assert!(text.contains(part), "{name}: {text}");
    }
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("noise.onnx");
    for bytes in [&b""[..], b"\x08\x09not a graph", &[0xff; 100]] {
        std::fs::write(&file, bytes).unwrap();
        assert!(refusal(&file, None).contains("noise.onnx"));
    }
    // Up to the end of the graph; what follows is the version of the operators.
    let whole = std::fs::read(data("onnx/bigram.onnx")).unwrap();
    for end in (0..250).step_by(7) {
        std::fs::write(&file, &whole[..end]).unwrap();
        assert!(refusal(&file, None).contains("noise.onnx"), "cut to {end} bytes");
    }
}

#[test]
fn a_tokenizer_must_fit_the_model() {
    let choice = TokenizerChoice::File(data("canary").join("tokenizer.json"));
    let text = refusal(&data("onnx/bigram.onnx"), Some(&choice));
    assert!(text.contains("token ids up to 399, but the model's vocabulary has 5 tokens"), "{text}");
    // Without one, only ids can be read.
    let subject = Subject::load(&data("onnx/bigram.onnx"), None, None).unwrap();
    let job = AuditJob::default().text(TextSpec::files([data("canary").join("corpus.txt")]));
    let error = audit::run(&subject, None, &job, None, &Silent).unwrap_err().to_string();
    assert!(error.contains("no tokenizer"), "{error}");
}
