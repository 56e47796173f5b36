//! Tables as CSV text: RFC 4180, with lines that end in a line feed.

use std::fmt::Display;

/// Writes a header and one record per row. Fields are quoted only where they must be.
///
/// ```
/// # use byrote::output::csv_text;
/// let text = csv_text(["name", "nats"], [["a, b".to_owned(), 0.5.to_string()]]);
/// assert_eq!(text, "name,nats\n\"a, b\",0.5\n");
/// ```
pub fn csv_text<H, R>(header: H, rows: R) -> String
where
    H: IntoIterator<Item: AsRef<[u8]>>,
    R: IntoIterator<Item: IntoIterator<Item: AsRef<[u8]>>>,
{
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    // Writing to memory cannot fail.
    let _ = writer.write_record(header);
    for row in rows {
        let _ = writer.write_record(row);
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A value that may be missing, as a field: an empty one where there is none.
pub(crate) fn csv_field(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_rows_still_has_its_header() {
        assert_eq!(csv_text(["a", "b"], [] as [[&str; 2]; 0]), "a,b\n");
        assert_eq!(csv_text(["a", "b"], [["", "\"x\""]]), "a,b\n,\"\"\"x\"\"\"\n");
        assert_eq!((csv_field(Some(2.5)), csv_field(None::<u8>)), ("2.5".into(), String::new()));
    }
}
