//! Makes any text safe between tags and in quoted attributes.
//!
//! Besides the five characters of markup, three kinds are made visible or harmless: control characters are shown as
//! their pictures (U+2400 and following), characters that no HTML file should contain become U+FFFD, and so do the
//! controls that reorder the text around them (U+202A to U+202E, U+2066 to U+2069): a quoted token must not reverse the
//! text around it. The page isolates quoted text instead, so that right-to-left text displays correctly.

use std::fmt::Write;

use crate::svg::{escape_with, json_for_xml};

/// Escapes a text for use between tags or inside a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    escape_with(text, |c| match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if is_noncharacter(c) => '\u{fffd}',
        c => c,
    })
}

/// JSON for use in a quoted attribute; it reads back to the same values.
pub(super) fn json_attribute(json: &str) -> String {
    json_for_xml(json).replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

fn is_noncharacter(c: char) -> bool {
    let code = u32::from(c);
    (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe
}

/// A `data:` address that contains a CSV file.
pub(super) fn csv_address(csv: &str) -> String {
    let mut out = String::with_capacity(csv.len() + csv.len() / 4);
    out.push_str("data:text/csv;charset=utf-8,");
    for byte in csv.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b','
            | b'.'
            | b'-'
            | b'_'
            | b'~'
            | b':'
            | b';'
            | b'('
            | b')' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_controls_and_reordering_lose_their_power() {
        assert_eq!(
            escape("<script>\"'&\u{0}\u{1b}\r\u{7f}\u{85}\u{202e}\u{2066}\u{ffff}\u{fdd0}\n"),
            "&lt;script&gt;&quot;&#39;&amp;␀␛␍␡\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\n"
        );
        assert_eq!(escape("é שלום 語 \u{200d}"), "é שלום 語 \u{200d}");
    }

    #[test]
    fn an_address_holds_only_characters_that_need_no_quotes() {
        let address = csv_address("a,\"b c\"\n1.5,<é>\n");
        assert_eq!(address, "data:text/csv;charset=utf-8,a,%22b%20c%22%0A1.5,%3C%C3%A9%3E%0A");
    }
}
