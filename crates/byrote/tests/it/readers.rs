//! Files of every format and every defect.

use byrote::corpus::{
    ContextRule, Corpus, DocumentRule, Format, IdType, Options, Outputs, Source, Summary, TokenizerChoice,
    Window,
};
use byrote::observe::Silent;
use byrote::{Error, Result};
use std::io::Write;
use std::path::{Path, PathBuf};

struct Case {
    directory: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn options() -> Options {
    Options::default().window(Window::default().n_ctx(3))
}

fn chars() -> Options {
    options().tokenizer(TokenizerChoice::Char)
}

fn read(path: &Path, options: &Options) -> Result<Summary> {
    let source = Source::Files(vec![path.to_path_buf()]);
    let outputs = Outputs::default().may_be_empty(true);
    Corpus::read(&source, options, outputs, &Silent).map(|c| c.summary)
}

/// The statistics without the settings, to compare corpora read in different ways.
fn figures(s: &Summary) -> (u64, u64, u64, u64, u64, f64) {
    (s.documents, s.tokens, s.d_vocab, s.contexts, s.predictions, s.floor_nats.0)
}

const TEXT: &str = "abab\nabac\nabb\n";

#[test]
fn line_ends_marks_and_a_missing_last_newline_are_no_text() {
    let case = Case::new();
    let plain = read(&case.file("plain.txt", TEXT), &chars()).unwrap();
    for (name, text) in [
        ("crlf.txt", TEXT.replace('\n', "\r\n")),
        ("bom.txt", format!("\u{feff}{TEXT}")),
        ("bom-crlf.txt", format!("\u{feff}{}", TEXT.replace('\n', "\r\n"))),
        ("last.txt", TEXT.trim_end().to_owned()),
        ("no extension", TEXT.to_owned()),
    ] {
        assert_eq!(read(&case.file(name, text), &chars()).unwrap(), plain, "{name}");
    }
    let blank = chars().documents(DocumentRule::BlankLine);
    let lf = read(&case.file("blank.txt", "ab\nc\n\n\nabc\n"), &blank).unwrap();
    assert_eq!(read(&case.file("blank-crlf.txt", "ab\r\nc\r\n\r\n\r\nabc\r\n"), &blank).unwrap(), lf);
    assert_eq!(lf.documents, 2);
}

#[test]
fn empty_files_lines_and_documents_are_counted_as_such() {
    let case = Case::new();
    let empty = read(&case.file("empty.txt", ""), &chars()).unwrap();
    assert_eq!((empty.documents, empty.contexts, empty.floor_nats.0), (0, 0, 0.0));
    assert_eq!(empty.floor_nats_per_prediction, None);
    let only_mark = read(&case.file("mark.txt", "\u{feff}"), &chars()).unwrap();
    assert_eq!((only_mark.documents, only_mark.dropped.empty), (0, 0));
    let lines = read(&case.file("lines.txt", "\n\na\n\n"), &chars()).unwrap();
    assert_eq!((lines.documents, lines.dropped.empty, lines.contexts, lines.d_vocab), (1, 3, 0, 1));
    let bos = chars().window(chars().window.bos(true));
    let lines = read(&case.file("lines.txt", "\n\na\n\n"), &bos).unwrap();
    assert_eq!((lines.documents, lines.dropped.empty, lines.contexts, lines.d_vocab), (1, 3, 1, 2));
}

#[test]
fn document_rules_cut_as_they_say() {
    let case = Case::new();
    let path = case.file("a.txt", "ab|cd\nab|ce");
    let with = |rule: &str| chars().documents(rule.parse::<DocumentRule>().unwrap());
    assert_eq!(read(&path, &with("line")).unwrap().documents, 2);
    assert_eq!(read(&path, &with("file")).unwrap().documents, 1);
    assert_eq!(read(&path, &with("separator:|")).unwrap().documents, 3);
    assert_eq!(read(&path, &with("separator:|c")).unwrap().documents, 3);
    assert_eq!(read(&path, &with("chunk:3")).unwrap().documents, 4);
}

#[test]
fn invalid_utf8_is_placed_or_replaced() {
    let case = Case::new();
    let path = case.file("bad.txt", b"\xef\xbb\xbfab\ncd\xff\ne\n");
    let Err(Error::InvalidUtf8 { line, offset, .. }) = read(&path, &chars()) else { panic!() };
    assert_eq!((line, offset), (2, 8));
    let lossy = read(&path, &chars().lossy(true)).unwrap();
    assert_eq!((lossy.documents, lossy.tokens), (3, 6));
    let bytes = read(&path, &options().tokenizer(TokenizerChoice::Byte)).unwrap();
    assert_eq!((bytes.documents, bytes.tokens), (3, 6));
    // Also beyond the window: whether a file is valid does not depend on T.
    let long = case.file("long.txt", [b"abcdefgh".as_slice(), b"\xc3\x28"].concat());
    assert!(matches!(read(&long, &chars()), Err(Error::InvalidUtf8 { line: 1, offset: 8, .. })));
}

#[test]
fn compressed_files_read_as_what_they_hold() {
    let case = Case::new();
    let plain = read(&case.file("a.txt", TEXT), &chars()).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&TEXT.as_bytes()[..5]).unwrap();
    let first = gz.finish().unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&TEXT.as_bytes()[5..]).unwrap();
    let both = [first.clone(), gz.finish().unwrap()].concat();
    assert_eq!(read(&case.file("a.txt.gz", &both), &chars()).unwrap(), plain, "members follow each other");
    let zst = zstd::encode_all(TEXT.as_bytes(), 1).unwrap();
    assert_eq!(read(&case.file("a.txt.zst", &zst), &chars()).unwrap(), plain);
    for (name, bytes) in [
        ("cut.txt.gz", &both[..both.len() - 5]),
        ("cut.txt.zst", &zst[..zst.len() - 3]),
        ("not.txt.gz", TEXT.as_bytes()),
        ("not.txt.zst", TEXT.as_bytes()),
    ] {
        let path = case.file(name, bytes);
        let error = read(&path, &chars()).unwrap_err();
        assert_eq!((error.kind(), error.path()), ("io", Some(path.as_path())), "{name}: {error}");
    }
    let npy = read(&case.file("a.npy.gz", &both), &chars()).unwrap_err();
    assert!(npy.to_string().contains("decompress it first"), "{npy}");
}

#[test]
fn jsonl_takes_the_field_and_says_what_is_wrong_where() {
    let case = Case::new();
    let plain = read(&case.file("a.txt", TEXT), &chars()).unwrap();
    let records = "{\"text\":\"abab\"}\n\n  {\"n\":1,\"text\":\"abac\"}\r\n{\"text\":\"abb\"}";
    assert_eq!(figures(&read(&case.file("a.jsonl", records), &chars()).unwrap()), figures(&plain));
    let body = chars().field("body");
    assert!(
        read(&case.file("a.jsonl", records), &body).unwrap_err().to_string().contains("no field \"body\"")
    );
    let ids = "{\"text\":[0,1,0,1]}\n{\"text\":[0,1,0,2]}\n{\"text\":null}\n{\"text\":[0,1,1]}\n";
    let counted = read(&case.file("ids.jsonl", ids), &options()).unwrap();
    assert_eq!(figures(&counted), figures(&plain));
    assert_eq!((counted.dropped.empty, counted.tokenizer.as_str()), (1, "ids"));
    for (records, line, says) in [
        ("{\"text\":\"a\"}\nnot json\n", 2, "not a JSON record"),
        ("{\"text\":\"a\"}\n{\"text\":[1]}\n", 2, "token ids here but text in earlier records"),
        ("{\"text\":[1]}\n{\"text\":\"a\"}\n", 2, "text here but token ids in earlier records"),
        ("{\"text\":[1]}\n{\"text\":[4294967296]}\n", 2, "4294967296"),
    ] {
        let error = read(&case.file("bad.jsonl", records), &chars()).unwrap_err();
        assert_eq!(error.line(), Some(line), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let bytes = [b"{\"text\":\"a\xff\"}\n".as_slice()].concat();
    let path = case.file("utf8.jsonl", bytes);
    assert!(matches!(read(&path, &chars()), Err(Error::InvalidUtf8 { line: 1, offset: 10, .. })));
    assert_eq!(read(&path, &chars().lossy(true)).unwrap().tokens, 2);
}

fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let size = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00".as_slice(), &size, header.as_bytes(), data].concat()
}

#[test]
fn arrays_of_ids_are_read_and_wrong_ones_refused() {
    let case = Case::new();
    let ids: Vec<u8> = [0u16, 1, 0, 1, 0, 1, 0, 2].iter().flat_map(|i| i.to_le_bytes()).collect();
    let rows = read(&case.file("a.npy", npy("<u2", false, "(2, 4)", &ids)), &options()).unwrap();
    assert_eq!((rows.documents, rows.contexts, rows.d_vocab), (2, 3, 3));
    let flat = case.file("flat.npy", npy("<u2", false, "(8,)", &ids));
    assert!(
        read(&flat, &options()).unwrap_err().to_string().contains("`separator_id` or `documents = chunk:L`")
    );
    let chunk = options().documents(DocumentRule::Chunk(4));
    assert_eq!(figures(&read(&flat, &chunk).unwrap()), figures(&rows));
    let raw = case.file("a.bin", &ids);
    assert_eq!(figures(&read(&raw, &chunk).unwrap()), figures(&rows));
    let separated = options().separator_id(2);
    let s = read(&raw, &separated).unwrap();
    assert_eq!((s.documents, s.d_vocab, s.tokens), (1, 2, 4), "the separator belongs to no document");
    let u32s = chunk.clone().dtype(IdType::U32);
    assert_eq!(read(&raw, &u32s).unwrap().documents, 1);
    let negative: Vec<u8> = [0i64, -1].iter().flat_map(|i| i.to_be_bytes()).collect();
    let big: Vec<u8> = [0u64, 1 << 32].iter().flat_map(|i| i.to_le_bytes()).collect();
    for (name, bytes, says) in [
        ("float.npy", npy("<f4", false, "(1, 2)", &ids), "token ids must be integers"),
        ("fortran.npy", npy("<u2", true, "(2, 4)", &ids), "stored in column order"),
        ("deep.npy", npy("<u2", false, "(2, 2, 2)", &ids), "3 dimensions"),
        ("short.npy", npy("<u2", false, "(3, 4)", &ids), "ends in the middle"),
        ("negative.npy", npy(">i8", false, "(1, 2)", &negative), "is -1"),
        ("big.npy", npy("<u8", false, "(1, 2)", &big), "is 4294967296"),
        ("not.npy", TEXT.into(), "not a NumPy"),
        ("empty.npy", Vec::new(), "not a NumPy"),
        ("huge.npy", npy("<u2", false, "(99999999999999999, 4)", &ids), "ends in the middle"),
    ] {
        let error = read(&case.file(name, bytes), &options()).unwrap_err();
        assert!(error.to_string().contains(says), "{name}: {error}");
    }
    let odd = read(&case.file("odd.bin", &ids[..7]), &chunk).unwrap_err();
    assert!(odd.to_string().contains("ends in the middle"), "{odd}");
    let none = read(&case.file("none.npy", npy("<u2", false, "(0, 4)", &[])), &options()).unwrap();
    assert_eq!(none.documents, 0);
}

#[cfg(feature = "parquet")]
mod parquet_files {
    use super::*;
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    fn write(
        schema: &str,
        column: impl Fn(&mut parquet::file::writer::SerializedColumnWriter<'_>),
    ) -> Vec<u8> {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let compression = parquet::basic::Compression::SNAPPY;
        let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
        for _ in 0..2 {
            let mut group = writer.next_row_group().unwrap();
            let mut next = group.next_column().unwrap().unwrap();
            column(&mut next);
            next.close().unwrap();
            group.close().unwrap();
        }
        writer.close().unwrap();
        bytes
    }

    #[test]
    fn a_column_of_texts_is_read_with_its_nulls() {
        let case = Case::new();
        let bytes = write("message m { optional binary text (UTF8); }", |column| {
            let values = ["abab", "abac", "abb"].map(ByteArray::from);
            column.typed::<ByteArrayType>().write_batch(&values, Some(&[1, 0, 1, 1]), None).unwrap();
        });
        let s = read(&case.file("a.parquet", &bytes), &chars()).unwrap();
        assert_eq!((s.documents, s.dropped.empty, s.contexts, s.predictions), (6, 2, 3, 16));
        let error = read(&case.file("a.parquet", &bytes), &chars().field("body")).unwrap_err();
        assert!(error.to_string().contains("no single column \"body\"; the columns are text"), "{error}");
        for cut in [0, 10, bytes.len() / 2, bytes.len() - 1] {
            let error = read(&case.file("cut.parquet", &bytes[..cut]), &chars()).unwrap_err();
            assert!(error.to_string().contains("not a Parquet file"), "{error}");
        }
    }

    #[test]
    fn a_dot_leads_into_a_struct_unless_a_column_has_it() {
        let case = Case::new();
        let texts = |column: &mut parquet::file::writer::SerializedColumnWriter<'_>| {
            // abab, a struct without a text, no struct, abb
            let values = ["abab", "abb"].map(ByteArray::from);
            column.typed::<ByteArrayType>().write_batch(&values, Some(&[2, 1, 0, 2]), None).unwrap();
        };
        let bytes = write("message m { optional group meta { optional binary text (UTF8); } }", texts);
        let path = case.file("a.parquet", &bytes);
        for field in ["meta.text", "meta"] {
            let s = read(&path, &chars().field(field)).unwrap();
            assert_eq!((s.documents, s.dropped.empty, s.tokens), (4, 4, 14), "{field}");
        }
        for field in ["text", "meta.tex", "meta.text.more", "meta."] {
            let error = read(&path, &chars().field(field)).unwrap_err().to_string();
            assert!(error.contains("the columns are meta.text; choose one"), "{field}: {error}");
        }
        let literal = write("message m { required binary meta.text (UTF8); }", |column| {
            let values = ["abab", "abac", "abb"].map(ByteArray::from);
            column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
        });
        assert_eq!(read(&case.file("b.parquet", literal), &chars().field("meta.text")).unwrap().documents, 6);
    }

    /// Files by another writer (pyarrow): the delta encodings in both versions of the page format, with nulls.
    #[test]
    fn delta_encodings_of_another_writer_are_read_and_lying_ones_refused() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/parquet");
        let lines = ["the cat sat", "the cat ran", "a dog", "", "the dog ran away from the cat", ""];
        let text = Case::new();
        let plain = text.file("plain.txt", format!("{}\n", lines.join("\n")).repeat(30));
        let wanted = read(&plain, &options()).unwrap();
        for name in [
            "delta_byte_array-v1",
            "delta_byte_array-v2",
            "delta_length_byte_array-v1",
            "delta_length_byte_array-v2",
        ] {
            let found = read(&seeds.join(format!("{name}.parquet")), &options()).unwrap();
            assert_eq!(figures(&found), figures(&wanted), "{name}");
        }
        let lying = seeds.join("found-more-values-than-the-page");
        let case = Case::new();
        let path = case.file("lying.parquet", std::fs::read(lying).unwrap());
        let said = read(&path, &options()).unwrap_err().to_string();
        assert!(said.contains("cannot be decoded"), "{said}");
    }

    #[test]
    fn a_column_of_lists_holds_ids() {
        let case = Case::new();
        let schema =
            "message m { optional group text (LIST) { repeated group list { optional int64 element; } } }";
        let list = |values: &'static [i64]| {
            // [0,1,0,1], [0,1,0,2], null, [], [0,1,1]
            let def: Vec<i16> = [[3i16; 8].as_slice(), &[0, 1], &[3; 3]].concat();
            let rep: Vec<i16> = vec![0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 1];
            write(schema, move |column| {
                column.typed::<Int64Type>().write_batch(values, Some(&def), Some(&rep)).unwrap();
            })
        };
        let s = read(&case.file("a.parquet", list(&[0, 1, 0, 1, 0, 1, 0, 2, 0, 1, 1])), &options()).unwrap();
        assert_eq!((s.documents, s.dropped.empty, s.contexts, s.predictions), (6, 4, 3, 16));
        let error =
            read(&case.file("b.parquet", list(&[0, 1, 0, 1, 0, 1, 0, -2, 0, 1, 1])), &options()).unwrap_err();
        assert_eq!(error.line(), Some(2), "{error}");
    }

    #[test]
    fn a_null_among_ids_is_refused() {
        let case = Case::new();
        let schema =
            "message m { optional group text (LIST) { repeated group list { optional int64 element; } } }";
        let bytes = write(schema, |column| {
            // [1, null, 3]
            column.typed::<Int64Type>().write_batch(&[1, 3], Some(&[3, 2, 3]), Some(&[0, 1, 1])).unwrap();
        });
        let error = read(&case.file("a.parquet", bytes), &options()).unwrap_err();
        assert!(error.to_string().contains("a null among the token ids"), "{error}");
    }

    #[test]
    fn a_damaged_file_is_refused_or_read_but_never_panics() {
        let case = Case::new();
        let bytes = write("message m { optional binary text (UTF8); }", |column| {
            let values = ["abab", "abac", "abb"].map(ByteArray::from);
            column.typed::<ByteArrayType>().write_batch(&values, Some(&[1, 0, 1, 1]), None).unwrap();
        });
        let mut stream = byrote::Stream::new(0, "damage", 0);
        for _ in 0..400 {
            let mut damaged = bytes.clone();
            for _ in 0..=stream.below(3) {
                let at = stream.below(damaged.len() as u64) as usize;
                damaged[at] = stream.below(256) as u8;
            }
            let _ = read(&case.file("damaged.parquet", &damaged), &chars());
        }
    }
}

#[test]
fn files_without_records_hold_neither_text_nor_ids() {
    let case = Case::new();
    let paths = [
        case.file("empty.jsonl", "\n"),
        case.file("null.jsonl", "{\"text\":null}\n"),
        case.file("ids.jsonl", "{\"text\":[1,2]}\n"),
    ];
    for order in [[0, 1, 2], [2, 1, 0]] {
        let source = Source::Files(order.map(|i| paths[i].clone()).to_vec());
        let summary = Corpus::read(&source, &options(), Outputs::default(), &Silent).unwrap().summary;
        assert_eq!((summary.documents, summary.tokenizer.as_str()), (1, "ids"));
    }
    let error = Corpus::read(&Source::Files(vec![paths[0].clone()]), &options(), Outputs::default(), &Silent);
    assert_eq!(error.unwrap_err().kind(), "empty_corpus");
}

#[test]
fn options_that_cannot_apply_are_refused() {
    let case = Case::new();
    let text = case.file("a.txt", TEXT);
    let raw = case.file("a.bin", [0u8; 8]);
    assert!(read(&text, &chars().dtype(IdType::U32)).is_err());
    assert!(read(&text, &chars().separator_id(3)).is_err());
    assert!(read(&raw, &options().separator_id(70_000)).is_err());
}

#[cfg(feature = "huggingface")]
#[test]
fn a_tokenizer_json_gives_its_own_ids() {
    let case = Case::new();
    let json = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
        "pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,
        "model":{"type":"WordLevel","vocab":{"<unk>":0,"b":9,"a":5},"unk_token":"<unk>"}}"#;
    let file = case.file("tokenizer.json", json);
    let options = options().tokenizer(TokenizerChoice::File(file));
    let path = case.file("a.txt", "a b a\na b zzz\n");
    let corpus = Corpus::read(&Source::Files(vec![path]), &options, Outputs::default(), &Silent).unwrap();
    assert_eq!((corpus.summary.d_vocab, corpus.summary.contexts), (3, 2));
    assert_eq!((0..3).map(|i| corpus.vocabulary.text(i)).collect::<Vec<_>>(), ["<unk>", "a", "b"]);
    assert!(corpus.summary.tokenizer.starts_with("tokenizer.json:"));
    let trailing = "{\"version\":\"1.0\",\"decoder\":{\"type\":\"ByteLevel\",},\"model\":{}}";
    for (name, json) in
        [("empty.json", ""), ("wrong.json", "{\"version\":\"1.0\"}"), ("trailing.json", trailing)]
    {
        let file = case.file(name, json);
        let options = options.clone().tokenizer(TokenizerChoice::File(file));
        let error = read(&case.file("a.txt", "a"), &options).unwrap_err();
        assert!(error.to_string().contains("not a tokenizer.json"), "{error}");
    }
}

#[test]
fn a_document_larger_than_a_slab_is_cut_as_if_it_were_held() {
    let case = Case::new();
    let long = |unit: &str, times: usize| unit.repeat(times);
    let text = format!("ab cd\n{} x\nab ce\n{}", long("word, ", 1_500_000), long("naïve日 ", 900_000));
    let path = case.file("long.txt", &text);
    for tokenizer in [TokenizerChoice::WordPunct, TokenizerChoice::Whitespace, TokenizerChoice::Char] {
        for rule in ["line", "separator:ce\\n", "separator:x\\nab", "blank-line", "file"] {
            let options =
                options().tokenizer(tokenizer.clone()).documents(rule.parse::<DocumentRule>().unwrap());
            let whole = read(&path, &options).unwrap();
            // The same documents with their long tails cut off, which the window never sees.
            let short = case.file(
                "short.txt",
                text.replace(&long("word, ", 1_499_990), "").replace(&long("naïve日 ", 899_990), ""),
            );
            assert_eq!(figures(&whole), figures(&read(&short, &options).unwrap()), "{rule} {tokenizer}");
        }
    }
    let spaces = case.file("spaces.txt", format!("{}a b", " ".repeat(9 << 20)));
    assert_eq!(read(&spaces, &options()).unwrap().tokens, 2);
    let token = case.file("token.txt", "x".repeat(40 << 20));
    let error = read(&token, &options()).unwrap_err();
    assert!(error.to_string().contains("a token of more than 16 MiB"), "{error}");
    assert_eq!(read(&token, &chars()).unwrap().tokens, 4);
}

#[test]
fn text_and_ids_do_not_mix_and_formats_can_be_forced() {
    let case = Case::new();
    let text = case.file("a.txt", TEXT);
    let ids = case.file("b.npy", npy("<u2", false, "(1, 2)", &[0, 0, 1, 0]));
    let source = Source::Files(vec![text.clone(), ids]);
    let error = Corpus::read(&source, &options(), Outputs::default(), &Silent).unwrap_err();
    assert!(error.to_string().contains("count them separately"), "{error}");
    let as_jsonl = options().format(Format::Jsonl);
    assert!(read(&text, &as_jsonl).unwrap_err().to_string().contains("not a JSON record"));
    let records = case.file("a.jsonl", "{\"text\":\"a\"}\n");
    let by_line = options().documents(DocumentRule::Line);
    assert!(read(&records, &by_line).unwrap_err().to_string().contains("each record of"));
}

#[test]
fn random_associations_are_as_many_as_asked() {
    let associations = byrote::corpus::random::Associations::new(500, 20, 1..=4, 7, 1).unwrap();
    let window = Window::default().n_ctx(4).contexts(ContextRule::Full);
    let options = Options::default().window(window);
    let source = Source::Random(associations);
    let s = Corpus::read(&source, &options, Outputs::default(), &Silent).unwrap().summary;
    assert_eq!((s.contexts, s.predictions, s.deterministic_contexts, s.documents), (500, 500, 500, 500));
    assert!(s.labels <= 7 && s.floor_nats.0 == 0.0);
    let short = Options::default().window(window.n_ctx(3));
    assert!(Corpus::read(&source, &short, Outputs::default(), &Silent).is_err());
}

#[test]
fn a_list_of_words_is_read_by_characters_on_request() {
    let case = Case::new();
    let asked = options().letters_of_words(true);
    for (name, text) in [
        ("words.txt", "anna\nhanna\n\njohanna\n".to_owned()),
        ("words.jsonl", "{\"text\": \"anna\"}\n{\"text\": \"hanna\"}\n".to_owned()),
    ] {
        let path = case.file(name, text);
        let found = read(&path, &asked).unwrap();
        assert_eq!(found.tokenizer, "char", "{name}");
        assert_eq!(found, read(&path, &chars()).unwrap(), "{name}");
        assert_eq!(read(&path, &options()).unwrap().tokenizer, "wordpunct", "{name}");
    }
    // Words in a row, an end token, letters or nothing at all: there is nothing to gain.
    let ends = asked.clone().window(asked.window.eos(true));
    for (text, options) in
        [("anna\nanna went\n", &asked), ("anna\n", &ends), ("a\nb\n", &asked), ("\n\n", &asked)]
    {
        assert_eq!(read(&case.file("text.txt", text), options).unwrap().tokenizer, "wordpunct", "{text:?}");
    }
    // The first file decides for all.
    let files = ["words.txt", "text.txt"].map(|name| case.directory.path().join(name)).to_vec();
    let corpus = Corpus::read(&Source::Files(files), &asked, Outputs::default(), &Silent).unwrap();
    assert_eq!(corpus.summary.tokenizer, "char");
}

#[cfg(unix)]
#[test]
fn a_study_opens_a_list_of_words_once() {
    use byrote::corpus::CorpusSpec;
    use byrote::study::{self, StudyScale, StudySpec};
    let case = Case::new();
    let pipe = case.directory.path().join("words.txt");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // A pipe that is opened a second time would wait for another writer.
    let writer = {
        let pipe = pipe.clone();
        std::thread::spawn(move || std::fs::write(pipe, "anna\nhanna\njohanna\n").unwrap())
    };
    let spec = StudySpec::default().corpus(CorpusSpec::files([pipe])).scale(StudyScale::Quick);
    let found = study::run(&spec, &case.directory.path().join("study"), None, &Silent).unwrap();
    writer.join().unwrap();
    assert_eq!((found.summary.tokenizer.as_str(), found.summary.documents), ("char", 3));
}
