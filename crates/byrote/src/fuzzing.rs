//! One entry point per reader of files, each over bytes: what the targets in `fuzz/` call, and what a test replays their
//! seeds with. Not part of the public interface.
//!
//! A reader must end without a panic and without an absurd allocation whatever the bytes; where it accepts them, what it
//! read is used, so that a lie it overlooked shows.

use crate::construct::kajitsuka2024::exact_file::ExactFile;
use crate::construct::kajitsuka2024::pairs;
use crate::construct::kajitsuka2024::task::{Goal, Visibility};
use crate::corpus::{
    self, Corpus, DocumentRule, MemoryFile, Options, Outputs, Source, TokenizerChoice, Window,
};
use crate::incontext::{self, NetworkFile};
use crate::inference::onnx_frame::is_framed;
use crate::model::{self, ModelFile, Precision};
use crate::observe::Silent;
use crate::study::Study;
use crate::sweep::{Plan, Record};
use crate::train::Checkpoint;
use std::io::Cursor;
use std::path::Path;

/// A target: its name, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("model", model),
    ("huggingface", huggingface),
    ("gguf", gguf),
    ("onnx", onnx),
    ("exact_network", exact_network),
    ("incontext_network", incontext_network),
    ("checkpoint", checkpoint),
    ("summary", summary),
    ("range", range),
    ("run_directory", run_directory),
    ("plan", plan),
    ("study", study),
    ("tokenizer", tokenizer),
    ("npy", npy),
    ("bin", bin),
    ("indexed", indexed),
    ("arrow", arrow),
    ("parquet", parquet),
    ("jsonl", jsonl),
    ("text", text),
    ("sequences", sequences),
    ("pairs", pairs_file),
];

/// A one-layer transformer.
pub fn model(bytes: &[u8]) {
    if let Ok(file) = ModelFile::from_bytes(Path::new("memory"), bytes) {
        assert!(file.to_bytes().is_ok(), "a model that was read can be written");
        if file.model.parameters().len() < 1 << 12 {
            let _ = file.model.logits(&[0]);
        }
    }
}

/// A directory of Hugging Face: `config.json`, the list of shards (empty if there is none) and the weights, with a NUL byte after
/// each of the first two.
pub fn huggingface(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |&b| b == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (config, index, weights) = (part(), part(), part());
    let index = Some(index).filter(|index| !index.is_empty());
    if let Ok(file) = model::huggingface::from_bytes(config, index, weights) {
        let written = model::huggingface::to_bytes(&file, Precision::F64);
        let (config, weights) =
            written.unwrap_or_else(|e| panic!("a model that was read can be written: {e}"));
        let again = model::huggingface::from_bytes(&config, None, &weights);
        let again = again.unwrap_or_else(|e| panic!("a model that was written can be read: {e}"));
        assert_eq!(again.model, file.model, "the way there and back changes nothing");
        if file.model.parameters().len() < 1 << 12 {
            let _ = file.model.logits(&[0]);
        }
    }
}

/// A GGUF file.
pub fn gguf(bytes: &[u8]) {
    if let Ok(file) = model::gguf::from_bytes(Path::new("memory.gguf"), bytes) {
        let written = file.to_bytes();
        let written = written.unwrap_or_else(|e| panic!("a model that was read can be written: {e}"));
        let again = ModelFile::from_bytes(Path::new("memory"), &written);
        assert_eq!(again.ok(), Some(file.clone()), "the way to a file of byrote and back changes nothing");
        if file.model.parameters().len() < 1 << 12 {
            let _ = file.model.logits(&[0]);
            let _ = file.reading().tokens("Once upon a time, naïve Zoë said: 123\u{1f600}!", false, None);
        }
    }
}

/// The frame of an ONNX file.
pub fn onnx(bytes: &[u8]) {
    let mut file = Cursor::new(bytes);
    let framed = is_framed(&mut file, bytes.len() as u64);
    let framed = framed.unwrap_or_else(|e| panic!("nothing beyond the end is read: {e}"));
    assert!(!framed || file.position() == bytes.len() as u64, "the fields fill the file");
}

/// An exact network.
pub fn exact_network(bytes: &[u8]) {
    if let Ok(file) = ExactFile::from_bytes(Path::new("memory"), bytes) {
        assert!(file.to_text().is_ok_and(|text| text.as_bytes() == bytes), "one network, one file");
    }
}

/// A network of many layers.
pub fn incontext_network(bytes: &[u8]) {
    if let Ok(file) = NetworkFile::from_bytes(Path::new("memory"), bytes) {
        assert!(file.to_bytes().is_ok(), "a network that was read can be written");
    }
}

/// A checkpoint of a training.
pub fn checkpoint(bytes: &[u8]) {
    if let Ok(checkpoint) = Checkpoint::from_bytes(Path::new("memory"), bytes) {
        assert!(checkpoint.to_bytes().is_ok(), "a checkpoint that was read can be written");
    }
}

/// A shard summary, or the run inside of one: compression and its checksum would keep a fuzzer out.
pub fn summary(bytes: &[u8]) {
    if let Ok(corpus) = corpus::read_summary_bytes(bytes) {
        assert!(corpus.summary.floor_nats.0 >= 0.0, "a floor is not negative");
    }
}

/// A range of windows, or the JSON inside of one.
pub fn range(bytes: &[u8]) {
    if let Ok(summary) = corpus::Summary::from_range_bytes(bytes) {
        assert!(summary.windows.is_some(), "a range is one of windows");
    }
}

/// A run directory: manifest, journal and a curve, with a NUL byte after each of the first two.
pub fn run_directory(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |&b| b == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (manifest, journal, curve) = (part(), part(), part());
    let _ = Record::from_parts(&String::from_utf8_lossy(manifest), journal, &String::from_utf8_lossy(curve));
}

/// A plan of a sweep.
pub fn plan(bytes: &[u8]) {
    let _ = Plan::parse(&String::from_utf8_lossy(bytes), "plan");
}

/// A study, and its page.
pub fn study(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(study) = Study::from_text(Path::new("study.json"), &text) {
        let _ = study.page().to_html();
        let _ = study.verdict();
    }
}

/// A Hugging Face tokenizer, and a text through it.
pub fn tokenizer(bytes: &[u8]) {
    #[cfg(feature = "huggingface")]
    if let Ok(tokenizer) = corpus::tokenizer::HuggingFace::from_bytes(Path::new("tokenizer.json"), bytes) {
        let _ = tokenizer.encode("Once upon a time, naïve Zoë said: \u{1f600}!");
    }
    let _ = bytes;
}

/// A NumPy array: of ids, by rows, by chunk and by separator; of a sequence.
pub fn npy(bytes: &[u8]) {
    read("ids.npy", bytes, Options::default());
    read("ids.npy", bytes, Options { documents: Some(DocumentRule::Chunk(3)), ..Options::default() });
    read("ids.npy", bytes, Options { separator_id: Some(0), ..Options::default() });
    let _ = incontext::sequence_file::from_bytes(Path::new("sequence.npy"), bytes);
}

/// Raw ids, by chunk and by separator.
pub fn bin(bytes: &[u8]) {
    read("ids.bin", bytes, Options { documents: Some(DocumentRule::Chunk(3)), ..Options::default() });
    read("ids.bin", bytes, Options { separator_id: Some(0), ..Options::default() });
}

/// Raw ids with an index: the length of the index in two bytes, the index, the ids.
pub fn indexed(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let (index, ids) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    if let Ok((_, kept)) = corpus::read::indexed::read_bytes(index, ids, &Options::default()) {
        assert!(kept <= ids.len(), "an id takes a byte at least");
    }
}

/// An Arrow file or stream: a column of texts, one of ids, one within a struct.
pub fn arrow(bytes: &[u8]) {
    for field in ["text", "ids", "meta.text"] {
        read("data.arrow", bytes, Options { field: field.into(), ..Options::default() });
    }
}

/// A Parquet file.
pub fn parquet(bytes: &[u8]) {
    read("data.parquet", bytes, Options::default());
    read("data.parquet", bytes, Options { field: "ids".into(), ..Options::default() });
}

/// JSON Lines.
pub fn jsonl(bytes: &[u8]) {
    read("data.jsonl", bytes, Options::default());
    read(
        "data.jsonl",
        bytes,
        Options { lossy: true, tokenizer: TokenizerChoice::Char, ..Options::default() },
    );
}

/// Plain text under every document rule, and the same bytes as compressed text.
pub fn text(bytes: &[u8]) {
    let separator = DocumentRule::Separator(b"ab".to_vec());
    for documents in [DocumentRule::Line, DocumentRule::BlankLine, DocumentRule::File, separator] {
        let window = Window { n_ctx: 4, bos: true, eos: true, ..Window::default() };
        let options = Options { documents: Some(documents), window, ..Options::default() };
        read("data.txt", bytes, options.clone());
        read("data.txt", bytes, Options { tokenizer: TokenizerChoice::Byte, ..options.clone() });
        read("data.txt", bytes, Options { tokenizer: TokenizerChoice::Char, lossy: true, ..options });
    }
    read("data.txt.gz", bytes, Options::default());
    read("data.txt.zst", bytes, Options::default());
}

/// A sequence of vectors as CSV.
pub fn sequences(bytes: &[u8]) {
    let _ = incontext::sequence_file::from_bytes(Path::new("sequence.csv"), bytes);
}

/// Labelled pairs, as JSON Lines and as TSV.
pub fn pairs_file(bytes: &[u8]) {
    for (name, goal) in [("a.jsonl", Goal::EveryPosition), ("a.tsv", Goal::Next)] {
        let switches = pairs::Switches { goal, attention: Visibility::Causal, padded: false };
        let _ = pairs::from_bytes(Path::new(name), bytes, switches, &TokenizerChoice::WordPunct);
    }
}

fn read(name: &str, bytes: &[u8], options: Options) {
    let source = Source::Memory(vec![MemoryFile { name: name.into(), bytes: bytes.into() }]);
    let outputs = Outputs { contexts: true, ..Outputs::default() };
    if let Ok(corpus) = Corpus::read(&source, &options, outputs, &Silent) {
        assert!(corpus.summary.floor_nats.0 >= 0.0, "a floor is not negative");
        assert!(corpus.summary.contexts <= corpus.summary.predictions, "a context predicts");
    }
}
