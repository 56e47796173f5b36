//! The seeds of the fuzz targets, replayed: no reader panics, runs forever or asks for absurd amounts of memory.

use allocation_counter::measure;
use byrote::fuzzing::TARGETS;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum memory that a reader may hold for a seed: a few slabs, whatever the seed claims to contain.
const MOST_BYTES: u64 = 96 << 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_seed_is_read_or_refused_within_bounds() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for (target, read) in TARGETS {
        let seeds = entries(&folder().join(target));
        assert!(!seeds.is_empty(), "{target} has no seeds");
        for seed in seeds {
            let bytes = fs::read(&seed).unwrap();
            // On one thread, the one whose allocations are counted.
            let held = pool.install(|| measure(|| read(&bytes))).bytes_max;
            assert!(held <= MOST_BYTES, "{} takes {held} bytes", seed.display());
        }
    }
}

#[test]
fn every_folder_of_seeds_has_a_target_and_every_target_a_program() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|t| t.0.to_owned()).collect();
    let name = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    assert_eq!(entries(&folder()).into_iter().map(name).collect::<BTreeSet<_>>(), targets);
    let programs = folder().join("../fuzz_targets");
    assert_eq!(entries(&programs).into_iter().map(name).collect::<BTreeSet<_>>(), targets);
}

/// Writes the Parquet seeds; the others come from `fuzz/make_seeds.py`.
#[cfg(feature = "parquet")]
#[test]
fn parquet_seeds_are_what_the_writer_makes() {
    use parquet::basic::{Compression, Encoding, GzipLevel, ZstdLevel};
    use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    fn write(
        schema: &str,
        properties: WriterProperties,
        column: impl Fn(&mut SerializedColumnWriter<'_>),
    ) -> Vec<u8> {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut next = group.next_column().unwrap().unwrap();
        column(&mut next);
        next.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        bytes
    }
    let with = |compression| WriterProperties::builder().set_compression(compression);
    let texts = |properties| {
        write("message m { optional binary text (UTF8); }", properties, |column| {
            let values = ["abab", "abac", "abb"].map(ByteArray::from);
            column.typed::<ByteArrayType>().write_batch(&values, Some(&[1, 0, 1, 1]), None).unwrap();
        })
    };
    let list = |kind: &str| {
        format!(
            "message m {{ optional group ids (LIST) {{ repeated group list {{ optional {kind} element; }} }} }}"
        )
    };
    let plain = || with(Compression::UNCOMPRESSED);
    let long = write(&list("int64"), plain().build(), |column| {
        let written =
            column.typed::<Int64Type>().write_batch(&[1, 2, 3], Some(&[3, 3, 3, 0]), Some(&[0, 1, 0, 0]));
        assert_eq!(written.unwrap(), 3);
    });
    let short = write(&list("int32"), with(Compression::SNAPPY).build(), |column| {
        column.typed::<Int32Type>().write_batch(&[1, -2], Some(&[3, 2, 3]), Some(&[0, 1, 1])).unwrap();
    });
    let whole = texts(plain().build());
    let seeds = [
        ("plain", whole.clone()),
        ("snappy", texts(with(Compression::SNAPPY).build())),
        ("gzip", texts(with(Compression::GZIP(GzipLevel::default())).build())),
        ("zstd", texts(with(Compression::ZSTD(ZstdLevel::default())).build())),
        ("lz4", texts(with(Compression::LZ4_RAW).build())),
        ("no-dictionary", texts(plain().set_dictionary_enabled(false).build())),
        (
            "delta",
            texts(plain().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BYTE_ARRAY).build()),
        ),
        ("lists", long),
        ("nulls-and-negatives", short),
        ("truncated", whole[..whole.len() / 2].to_vec()),
        ("lying-footer", [&whole[..whole.len() - 8], &[255, 255, 255, 127], b"PAR1"].concat()),
    ];
    // The rows and how they are stored; `None` for a file that cannot be read.
    let read = |bytes: Vec<u8>| -> Option<(Vec<String>, String)> {
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).ok()?;
        let column = file.metadata().row_group(0).column(0);
        let encodings: Vec<Encoding> = column.encodings().collect();
        let stored = format!("{:?} {encodings:?}", column.compression());
        let rows = file.get_row_iter(None).ok()?.map(|row| row.ok().map(|row| row.to_string()));
        Some((rows.collect::<Option<_>>()?, stored))
    };
    let rows = |name: &str| read(fs::read(folder().join("parquet").join(name)).unwrap()).map(|r| r.0.len());
    let bless = std::env::var_os("BYROTE_BLESS").is_some();
    for (name, bytes) in seeds {
        let path = folder().join("parquet").join(name);
        if bless {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &bytes).unwrap();
        }
        let saved = fs::read(&path).unwrap_or_default();
        assert_eq!(read(saved), read(bytes), "{name}: run the tests with BYROTE_BLESS=1 to write it");
    }
    assert_eq!((rows("plain"), rows("lists"), rows("truncated")), (Some(4), Some(3), None));
}
