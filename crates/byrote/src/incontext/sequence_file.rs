//! Reads sequences from files, one row per step: CSV (or numbers separated by spaces, tabs or semicolons) and NumPy's
//! `.npy`, whose arrays may also hold several sequences of equal length.

use super::rows::Rows;
use super::sequence::Sequence;
use crate::corpus::read::npy;
use crate::input::{MOST_HELD, read_capped};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Reads the sequences of a file; a name that ends in `.npy` is a NumPy file, anything else is text. An array of three
/// dimensions holds several sequences, any other file one.
pub fn read(path: &Path) -> Result<Vec<Sequence>> {
    from_bytes(path, &read_capped(path, MOST_HELD, "a sequence")?)
}

/// Reads the sequences of files, all of one dimension.
///
/// # Errors
/// If a file cannot be read, or its vectors have another dimension than those of the first file.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Sequence>> {
    let mut all: Vec<Sequence> = Vec::new();
    for path in paths {
        let read = read(path)?;
        if let (Some(first), Some(own)) = (all.first(), read.first())
            && first.d() != own.d()
        {
            let message = format!(
                "has {} numbers per step, but {} has {}",
                own.d(),
                paths.first().map_or_else(String::new, |first| first.display().to_string()),
                first.d()
            );
            return Err(Error::format(path, message));
        }
        all.extend(read);
    }
    Ok(all)
}

/// Reads sequences from bytes; `path` is the name used in messages.
pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Vec<Sequence>> {
    let all = if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) {
        numpy(path, bytes)?
    } else {
        vec![text(path, bytes)?]
    };
    if let Some(short) = all.iter().find(|rows| rows.len() < 2) {
        return Err(too_short(path, short.len() as u64));
    }
    all.into_iter().map(Sequence::new).collect()
}

fn too_short(path: &Path, rows: u64) -> Error {
    Error::format(path, format!("has {rows} rows; a sequence needs at least 2"))
}

fn text(path: &Path, bytes: &[u8]) -> Result<Rows> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let line = 1 + bytes[..e.valid_up_to()].iter().filter(|&&b| b == b'\n').count() as u64;
        Error::format_at(
            path,
            line,
            "not a text file of numbers; NumPy arrays must have names that end in .npy",
        )
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut numbers = Numbers::default();
    match [b',', b';'].into_iter().find(|mark| text.as_bytes().contains(mark)) {
        Some(mark) => separated(path, text, mark, &mut numbers)?,
        None => {
            for (line, number) in text.lines().zip(1u64..) {
                numbers.row(path, number, &line.split_whitespace().collect::<Vec<_>>())?;
            }
        }
    }
    if numbers.columns == 0 {
        return Err(Error::format(path, "no numbers; a sequence has one row per step"));
    }
    Ok(Rows::whole(numbers.columns, numbers.values))
}

/// Reads the rows of a CSV file with this separator.
fn separated(path: &Path, text: &str, mark: u8, numbers: &mut Numbers) -> Result<()> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(mark)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut record = csv::StringRecord::new();
    loop {
        let (start, line) = (reader.position().byte() as usize, reader.position().line());
        // The reader skips empty lines before a record.
        let skipped = text.as_bytes()[start.min(text.len())..]
            .iter()
            .take_while(|b| b"\r\n".contains(b))
            .filter(|&&b| b == b'\n')
            .count();
        let number = line + skipped as u64;
        match reader.read_record(&mut record) {
            Ok(true) => numbers.row(path, number, &record.iter().collect::<Vec<_>>())?,
            Ok(false) => return Ok(()),
            Err(error) => return Err(Error::format_at(path, number, error.to_string())),
        }
    }
}

/// The numbers read so far.
#[derive(Default)]
struct Numbers {
    columns: usize,
    values: Vec<f64>,
    /// Whether a row that is not blank has been seen.
    begun: bool,
}

impl Numbers {
    /// Adds a row. Blank rows are skipped, and so is a first row without any number: it is a header.
    fn row(&mut self, path: &Path, number: u64, fields: &[&str]) -> Result<()> {
        if fields.iter().all(|field| field.is_empty()) && fields.len() < 2 {
            return Ok(());
        }
        let is_header = !self.begun && fields.iter().all(|field| field.parse::<f64>().is_err());
        self.begun = true;
        if is_header {
            return Ok(());
        }
        if self.columns == 0 {
            self.columns = fields.len();
        }
        if fields.len() != self.columns {
            let message = format!("{} numbers, but earlier rows have {}", fields.len(), self.columns);
            return Err(Error::format_at(path, number, message));
        }
        for field in fields {
            match field.parse::<f64>() {
                Ok(x) if x.is_finite() => self.values.push(x),
                _ => return Err(Error::format_at(path, number, format!("{field:?} is not a finite number"))),
            }
        }
        Ok(())
    }
}

fn numpy(path: &Path, bytes: &[u8]) -> Result<Vec<Rows>> {
    let mut rest = bytes;
    let header = npy::read_header(&mut rest)
        .ok_or_else(|| Error::format(path, "not a NumPy .npy file, or its header is damaged"))?;
    let number = reader(&header.descr).ok_or_else(|| {
        Error::format(path, format!("holds elements of type {:?}; a sequence has real numbers", header.descr))
    })?;
    let (size, read) = number;
    let (sequences, rows, columns) = match header.shape[..] {
        [rows] => (1, rows, 1),
        [rows, columns] => (1, rows, columns),
        [sequences, rows, columns] => (sequences, rows, columns),
        _ => {
            let message = format!(
                "has {} dimensions; must be [steps, numbers per step] or [sequences, steps, numbers per step]",
                header.shape.len()
            );
            return Err(Error::format(path, message));
        }
    };
    let expect = header.shape.iter().try_fold(size as u64, |n, &length| n.checked_mul(length));
    if expect != Some(rest.len() as u64) {
        return Err(Error::format(
            path,
            format!(
                "holds {} bytes, not the {:?} of type {:?} that its header promises",
                rest.len(),
                header.shape,
                header.descr
            ),
        ));
    }
    if sequences == 0 {
        return Err(Error::format(path, "holds no sequences; must hold at least 1"));
    }
    if columns == 0 {
        return Err(Error::format(path, "has rows without numbers"));
    }
    if rows < 2 {
        return Err(too_short(path, rows));
    }
    let (sequences, rows, columns) = (sequences as usize, rows as usize, columns as usize);
    let stored: Vec<f64> = rest.chunks_exact(size).map(read).collect();
    let values: Vec<f64> = if header.fortran_order {
        let place = |k: usize, i: usize, j: usize| k + sequences * (i + rows * j);
        let at = |n: usize| stored[place(n / (rows * columns), n / columns % rows, n % columns)];
        (0..stored.len()).map(at).collect()
    } else {
        stored
    };
    if let Some(n) = values.iter().position(|x: &f64| !x.is_finite()) {
        let (sequence, row) = (n / (rows * columns) + 1, n / columns % rows + 1);
        let message = format!("{} is not a finite number", values[n]);
        return Err(match sequences {
            1 => Error::format_at(path, row as u64, message),
            _ => Error::format(path, format!("sequence {sequence}, row {row}: {message}")),
        });
    }
    Ok(values.chunks_exact(rows * columns).map(|one| Rows::whole(columns, one.to_vec())).collect())
}

/// The size of an element and the function that reads it.
type Reader = (usize, fn(&[u8]) -> f64);

/// Looks up a type by its NumPy name.
fn reader(descr: &str) -> Option<Reader> {
    macro_rules! number {
        ($type:ty, $from:ident) => {
            Some((size_of::<$type>(), |b: &[u8]| {
                b.try_into().map(|b| <$type>::$from(b) as f64).unwrap_or(f64::NAN)
            }))
        };
    }
    match descr {
        "<f8" => number!(f64, from_le_bytes),
        ">f8" => number!(f64, from_be_bytes),
        "<f4" => number!(f32, from_le_bytes),
        ">f4" => number!(f32, from_be_bytes),
        "<i8" => number!(i64, from_le_bytes),
        "<i4" => number!(i32, from_le_bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(words: &str) -> Result<Rows> {
        text(Path::new("a.csv"), words.as_bytes())
    }

    #[test]
    fn rows_of_numbers_are_read_however_they_are_parted() {
        let expect = Rows::whole(2, vec![1.0, 2.5, -3e-2, 4.0]);
        for text in [
            "1,2.5\n-0.03,4\n",
            "x,y\n1, 2.5\r\n-3e-2 ,4",
            "\u{feff}1 2.5\n\n  -0.03\t4\n",
            "1;2.5\n-0.03;4\n",
            "\"x, in m\",\"y\"\n\"1\",2.5\n\"-0.03\",\"4\"\n",
            "\n\n1,2.5\n  \n-0.03,4\n\n",
        ] {
            assert_eq!(read_text(text).unwrap(), expect, "{text:?}");
        }
        assert_eq!(read_text("1\n2\n3\n").unwrap().columns(), 1);
    }

    #[test]
    fn ragged_broken_and_empty_texts_are_refused_with_their_line() {
        for (text, line, says) in [
            ("1,2\n3\n", Some(2), "1 numbers, but earlier rows have 2"),
            ("a,b\n1,2\n\n3,4,5\n", Some(4), "3 numbers"),
            ("1,2\n3,x\n", Some(2), "\"x\" is not"),
            ("1,2\n3,nan\n", Some(2), "\"nan\" is not"),
            ("1,2\n3,1e999\n", Some(2), "1e999"),
            ("1,2,\n3,4,\n", Some(1), "\"\" is not"),
            ("", None, "no numbers"),
            ("only words\n", None, "no numbers"),
        ] {
            let error = read_text(text).unwrap_err();
            assert_eq!(error.line(), line, "{text:?}: {error}");
            assert!(error.to_string().contains(says), "{text:?}: {error}");
        }
        assert!(text(Path::new("a.csv"), b"1\n\xff\n").unwrap_err().to_string().contains("line 2"));
    }

    /// As NumPy writes it.
    fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
        let order = if fortran { "True" } else { "False" };
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({shape}), }}");
        while (header.len() + 11) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(data);
        out
    }

    #[test]
    fn arrays_of_numpy_are_read_by_rows_and_by_columns() {
        let path = Path::new("a.npy");
        let le = |v: &[f64]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let expect = Rows::whole(2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let by_rows = npy("<f8", false, "3, 2", &le(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        let by_columns = npy("<f8", true, "3, 2", &le(&[1.0, 3.0, 5.0, 2.0, 4.0, 6.0]));
        assert_eq!(numpy(path, &by_rows).unwrap(), std::slice::from_ref(&expect));
        assert_eq!(numpy(path, &by_columns).unwrap(), [expect]);
        let single: Vec<u8> = [1f32, 2.0].iter().flat_map(|x| x.to_be_bytes()).collect();
        assert_eq!(numpy(path, &npy(">f4", false, "2,", &single)).unwrap(), [Rows::whole(1, vec![1.0, 2.0])]);
        // Two sequences of three steps: by rows the last index is fastest, by columns the first.
        let two = [
            Rows::whole(2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            Rows::whole(2, vec![7.0, 8.0, 9.0, 10.0, 11.0, 12.0]),
        ];
        let in_order: Vec<f64> = (1..=12).map(f64::from).collect();
        assert_eq!(numpy(path, &npy("<f8", false, "2, 3, 2", &le(&in_order))).unwrap(), two);
        let reversed = [1.0, 7.0, 3.0, 9.0, 5.0, 11.0, 2.0, 8.0, 4.0, 10.0, 6.0, 12.0];
        assert_eq!(numpy(path, &npy("<f8", true, "2, 3, 2", &le(&reversed))).unwrap(), two);
        for (bytes, says) in [
            (npy("<f8", false, "3, 2", &le(&[1.0])), "holds 8 bytes"),
            (npy("<f8", false, "9223372036854775807, 9", &le(&[1.0])), "not the"),
            (npy("<c16", false, "1, 1", &[0; 16]), "<c16"),
            (npy("<f8", false, "1, 1, 1, 1", &le(&[1.0])), "4 dimensions"),
            (npy("<f8", false, "0, 2, 3", &[]), "no sequences"),
            (npy("<f8", false, "1152921504606846976, 0, 1", &[]), "has 0 rows"),
            (npy("<f8", false, "2, 1, 1", &le(&[1.0, 2.0])), "has 1 rows"),
            (npy("<f8", false, "2, 2, 1", &le(&[1.0, 2.0, f64::NAN, 3.0])), "sequence 2, row 1: NaN"),
            (npy("<f8", false, "2, 0", &[]), "without numbers"),
            (npy("<f8", false, "2, 1", &le(&[1.0, f64::NAN])), "line 2: NaN"),
            (b"nothing".to_vec(), "not a NumPy"),
        ] {
            let error = numpy(path, &bytes).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
