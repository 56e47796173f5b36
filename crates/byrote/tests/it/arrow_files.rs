//! Arrow files by another writer, pyarrow: `fuzz/make_arrow_seeds.py` has written them, twice the same batch each.

use byrote::corpus::{Corpus, MemoryFile, Options, Outputs, Source, Summary, TokenizerChoice, Window};
use byrote::observe::Silent;
use byrote::{Error, Result};
use std::path::Path;

fn bytes(name: &str) -> Vec<u8> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/arrow");
    std::fs::read(seeds.join(name)).unwrap()
}

fn read_as(bytes: Vec<u8>, field: &str) -> Result<Summary> {
    let source = Source::Memory(vec![MemoryFile { name: "a.arrow".into(), bytes: bytes.into() }]);
    let window = Window::default().n_ctx(3);
    let options = Options::default().window(window).tokenizer(TokenizerChoice::Char).field(field);
    Corpus::read(&source, &options, Outputs::default().may_be_empty(true), &Silent).map(|c| c.summary)
}

fn read(name: &str, field: &str) -> Result<Summary> {
    read_as(bytes(name), field)
}

/// The documents, those without tokens, the contexts and the predictions.
fn figures(s: &Summary) -> (u64, u64, u64, u64) {
    (s.documents, s.dropped.empty, s.contexts, s.predictions)
}

/// Those of abab, abac, null, abb, twice.
const THREE: (u64, u64, u64, u64) = (6, 2, 3, 16);

#[test]
fn texts_are_read_from_streams_and_files() {
    for name in ["stream", "file", "large", "zstd", "lz4", "sliced", "many-columns", "many-columns-file"] {
        assert_eq!(figures(&read(name, "text").unwrap()), THREE, "{name}");
    }
    // A text of more than twelve bytes is in another buffer than its view.
    let views = read("views", "text").unwrap();
    assert_eq!((views.documents, views.dropped.empty, views.tokens), (6, 2, 24));
    let beside = read("many-columns", "view").unwrap();
    assert_eq!((beside.documents, beside.dropped.empty), (6, 2));
    // A stream may end without saying so.
    assert_eq!(figures(&read("no-end", "text").unwrap()), THREE);
    for name in ["none", "schema-only"] {
        assert_eq!(figures(&read(name, "text").unwrap()), (0, 0, 0, 0), "{name}");
    }
}

#[test]
fn lists_are_ids_and_dots_lead_into_structs() {
    for name in ["lists", "large-lists", "bytes", "many-columns", "many-columns-file"] {
        let found = read(name, "ids").unwrap();
        assert_eq!((figures(&found), found.tokenizer.as_str()), (THREE, "ids"), "{name}");
    }
    let fixed = read("fixed-lists", "ids").unwrap();
    assert_eq!((fixed.documents, fixed.dropped.empty, fixed.tokens), (6, 2, 24));
    for name in ["many-columns", "many-columns-file"] {
        // The second struct is null, so that its text is not read.
        let inside = read(name, "meta.text").unwrap();
        assert_eq!((inside.documents, inside.dropped.empty), (4, 4), "{name}");
        assert_eq!(read(name, "meta.view").unwrap().documents, 6);
        assert_eq!(read(name, "a.b").unwrap().documents, 8, "a name with a dot");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    for (name, field, says) in [
        ("stream", "body", "no column \"body\"; the columns are text; choose one with `field`"),
        ("many-columns", "meta", "column \"meta\" has the type Struct"),
        ("many-columns", "meta.y", "meta.x, meta.view, meta.text"),
        ("many-columns", "kind", "encoded by a dictionary"),
        ("many-columns", "names", "it must hold text or lists of integers"),
        ("dictionary", "text", "encoded by a dictionary"),
        ("numbers", "text", "has the type Int; it must hold text"),
        ("null-among-ids", "ids", "line 2: a null among the token ids"),
        ("negative", "ids", "line 2: -2 is not a token id"),
        ("large-id", "ids", "line 1: 4294967296 is not a token id"),
        ("empty", "text", "not an Arrow file or stream: it is empty"),
        ("wrong-magic", "text", "not an Arrow file or stream"),
        ("zeros", "text", "not an Arrow file or stream: it does not begin with a schema"),
        ("huge-metadata", "text", "impossible size"),
        ("negative-metadata", "text", "impossible size"),
        ("huge-batch-metadata", "text", "cut short within the metadata"),
        ("truncated", "text", "cut short within"),
        ("file-cut", "text", "cut short"),
        ("file-without-footer", "text", "its footer is missing"),
        ("offset-4", "text", "line 1: cannot be decoded: it lies outside of its batch"),
        ("offset-8", "text", "line 2: cannot be decoded"),
        ("zstd-huge", "text", "impossible length"),
        ("zstd-short", "text", "lies about its length"),
    ] {
        let error = read(name, field).unwrap_err();
        assert!(error.to_string().contains(says), "{name}: {error}");
    }
    let not = read_as(b"a b c\na b\n".to_vec(), "text").unwrap_err().to_string();
    assert!(not.contains("not an Arrow file or stream: a message does not begin as one"), "{not}");
}

#[test]
fn damaged_files_are_refused_or_read_but_never_panic() {
    let mut stream = byrote::Stream::new(0, "damage", 0);
    for (name, field) in [("many-columns", "text"), ("many-columns-file", "meta.text"), ("lists", "ids")] {
        let whole = bytes(name);
        for _ in 0..300 {
            let mut damaged = whole.clone();
            for _ in 0..=stream.below(3) {
                let at = stream.below(damaged.len() as u64) as usize;
                damaged[at] = stream.below(256) as u8;
            }
            let _ = read_as(damaged, field);
        }
        for _ in 0..100 {
            let end = stream.below(whole.len() as u64 - 8) as usize;
            let cut = read_as(whole[..end].to_vec(), field);
            // Streams may end between two batches.
            assert!(matches!(cut, Err(Error::Format { .. })) || !name.ends_with("file"), "{name} {end}");
        }
    }
}
