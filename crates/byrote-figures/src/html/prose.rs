//! Text on a page: plain by default, with six kinds of spans for more.
//!
//! A `&str` or `String` becomes [`Prose`] unchanged: no character is special, so text from a file or a user is safe.
//! A program's own sentences may use a small notation through [`Prose::parse`]:
//!
//! | notation | span |
//! |---|---|
//! | `*words*` | emphasis |
//! | `**words**` | strong emphasis |
//! | `` `words` `` | code |
//! | `[words](#anchor)` | a link to a place on the same page |
//! | `[@madden2024]` | a link to an entry of the references |
//! | `\*` | the character itself |
//!
//! Notation that is not closed is plain text. No text can link to another page.

/// A run of characters of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// Plain.
    Text(String),
    /// Emphasis.
    Emphasis(String),
    /// Strong emphasis.
    Strong(String),
    /// Code: a command, a setting, a name.
    Code(String),
    /// Quoted words of a text or a user, in whatever direction they are written.
    Quote(String),
    /// A name (of a file, a corpus, a run) that stays on one line if it fits.
    Name(String),
    /// A link to an anchor on the same page.
    Link {
        /// The words.
        words: String,
        /// The anchor, without `#`.
        anchor: String,
    },
}

/// A line or a paragraph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prose {
    /// Its spans, in order.
    pub spans: Vec<Span>,
}

impl Prose {
    /// An empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds plain words.
    pub fn text(self, words: impl Into<String>) -> Self {
        self.with(Span::Text(words.into()))
    }

    /// Adds words with emphasis.
    pub fn emphasis(self, words: impl Into<String>) -> Self {
        self.with(Span::Emphasis(words.into()))
    }

    /// Adds words with strong emphasis.
    pub fn strong(self, words: impl Into<String>) -> Self {
        self.with(Span::Strong(words.into()))
    }

    /// Adds code.
    pub fn code(self, words: impl Into<String>) -> Self {
        self.with(Span::Code(words.into()))
    }

    /// Adds quoted words of a text or a user.
    pub fn quote(self, words: impl Into<String>) -> Self {
        self.with(Span::Quote(words.into()))
    }

    /// Adds a name that stays on one line if it fits.
    pub fn name(self, words: impl Into<String>) -> Self {
        self.with(Span::Name(words.into()))
    }

    /// Adds a link to an anchor of the same page.
    pub fn link(self, words: impl Into<String>, anchor: impl Into<String>) -> Self {
        self.with(Span::Link { words: words.into(), anchor: anchor.into() })
    }

    /// Adds a link to an entry of the references, by its key.
    pub fn cite(self, key: impl Into<String>) -> Self {
        let key = key.into();
        let anchor = reference_anchor(&key);
        self.with(Span::Link { words: key, anchor })
    }

    /// Adds all spans of another text.
    pub fn then(mut self, other: impl Into<Prose>) -> Self {
        self.spans.extend(other.into().spans);
        self
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.plain().is_empty()
    }

    /// Returns the characters without markup.
    pub fn plain(&self) -> String {
        self.spans.iter().map(Span::words).collect()
    }

    /// Parses the notation described in the module documentation.
    pub fn parse(text: &str) -> Self {
        let (mut out, mut plain) = (Prose::new(), String::new());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(escaped) = rest.strip_prefix('\\').and_then(|r| r.chars().next()) {
                plain.push(escaped);
                rest = &rest[1 + escaped.len_utf8()..];
            } else if let Some((span, after)) = span(rest) {
                if !plain.is_empty() {
                    out.spans.push(Span::Text(std::mem::take(&mut plain)));
                }
                out.spans.push(span);
                rest = after;
            } else {
                plain.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        if !plain.is_empty() {
            out.spans.push(Span::Text(plain));
        }
        out
    }

    fn with(mut self, span: Span) -> Self {
        self.spans.push(span);
        self
    }
}

impl Span {
    /// Its characters.
    pub fn words(&self) -> &str {
        match self {
            Span::Text(words)
            | Span::Emphasis(words)
            | Span::Strong(words)
            | Span::Code(words)
            | Span::Quote(words)
            | Span::Name(words)
            | Span::Link { words, .. } => words,
        }
    }
}

impl<T: Into<String>> From<T> for Prose {
    fn from(words: T) -> Self {
        Prose::new().text(words)
    }
}

/// The anchor of an entry of the references.
pub(super) fn reference_anchor(key: &str) -> String {
    format!("ref-{}", slug(key))
}

/// Letters and digits of a title, in lower case, joined by hyphens: the name of an anchor or a file.
pub(super) fn slug(title: &str) -> String {
    let mut out = String::new();
    for c in title.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
        if out.len() >= 60 {
            break;
        }
    }
    out.trim_end_matches('-').into()
}

/// The span at the beginning of a text, and the rest.
fn span(text: &str) -> Option<(Span, &str)> {
    let between = |open: &str, close: &str| {
        let rest = text.strip_prefix(open)?;
        let (words, after) = rest.split_once(close)?;
        let tight = !words.is_empty() && !words.starts_with(' ') && !words.ends_with(' ');
        tight.then(|| (words.to_string(), after))
    };
    if let Some((words, after)) = between("`", "`") {
        return Some((Span::Code(words), after));
    }
    if let Some((words, after)) = between("**", "**") {
        return Some((Span::Strong(words), after));
    }
    if text.starts_with("**") {
        return None;
    }
    if let Some((words, after)) = between("*", "*") {
        return Some((Span::Emphasis(words), after));
    }
    if let Some((key, after)) = between("[@", "]") {
        return Some((Span::Link { anchor: reference_anchor(&key), words: key }, after));
    }
    let (words, after) = between("[", "](#")?;
    let (anchor, after) = after.split_once(')')?;
    let safe =
        !anchor.is_empty() && anchor.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    (safe && !words.contains(']')).then(|| (Span::Link { words, anchor: anchor.into() }, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notation_becomes_spans() {
        let prose = Prose::parse("The *floor* of `a.txt`: **low** [below](#bounds), [@madden2024].");
        let expected = Prose::new()
            .text("The ")
            .emphasis("floor")
            .text(" of ")
            .code("a.txt")
            .text(": ")
            .strong("low")
            .text(" ")
            .link("below", "bounds")
            .text(", ")
            .cite("madden2024")
            .text(".");
        assert_eq!(prose, expected);
    }

    #[test]
    fn what_does_not_close_is_plain_text() {
        for text in ["2 * 3 * 4", "a*b", "`open", "[x](http://a.b)", "[x](#a b)", "**", "*", "[@", "\\"] {
            assert_eq!(Prose::parse(text), Prose::from(text), "{text}");
        }
        assert_eq!(Prose::parse(r"\*a\* \[b\]"), Prose::from("*a* [b]"));
    }

    #[test]
    fn a_string_is_taken_as_it_is() {
        assert_eq!(Prose::from("*a* `b` [c](#d)").plain(), "*a* `b` [c](#d)");
    }

    #[test]
    fn slugs_are_safe_names() {
        assert_eq!(slug("What training reaches: 1% (of 3)"), "what-training-reaches-1-of-3");
        assert_eq!(slug("../\u{202e}語"), "");
    }

    proptest::proptest! {
        #[test]
        fn reading_never_fails_and_loses_no_word(text in r"[a-z *`\\\[\]()#@]{0,60}") {
            let letters = |s: &str| s.chars().filter(char::is_ascii_lowercase).collect::<String>();
            let prose = Prose::parse(&text);
            // Anchors are not part of the text.
            if !prose.spans.iter().any(|s| matches!(s, Span::Link { .. })) {
                proptest::prop_assert_eq!(letters(&prose.plain()), letters(&text));
            }
        }
    }
}
