//! Text whose stretches are marked by strength, such as what a model can repeat of it.
//!
//! A stretch has a level, shown as a background from pale to strong, and may be underlined as well: colour never says
//! anything alone that matters most. The levels are named above the text. Line ends are visible, and everything is escaped.

use super::prose::Prose;
use crate::{Error, Result};

/// The highest level of a stretch; the style sheet has one colour per level.
pub const LEVELS: usize = 5;

/// A stretch of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The text; nothing in it is interpreted.
    pub text: String,
    /// How strongly it is marked, from 0 (not at all) to [`LEVELS`].
    pub level: usize,
    /// Whether it is underlined.
    pub underlined: bool,
}

impl Mark {
    /// A stretch that is not marked.
    pub fn plain(text: impl Into<String>) -> Self {
        Mark { text: text.into(), level: 0, underlined: false }
    }

    /// A stretch with a level.
    pub fn level(text: impl Into<String>, level: usize) -> Self {
        Mark { level, ..Mark::plain(text) }
    }

    /// Underlines it.
    pub fn underlined(mut self) -> Self {
        self.underlined = true;
        self
    }
}

/// Marked text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MarkedText {
    /// A title; may be empty.
    pub caption: Prose,
    /// What the levels 1, 2, ... mean, shown above the text; empty if another marked text has said so.
    pub levels: Vec<String>,
    /// What underlining means; empty if another marked text has said so.
    pub underline: String,
    /// Passages, each a run of stretches; what lies between two passages is left out.
    pub passages: Vec<Vec<Mark>>,
}

impl MarkedText {
    /// A text without passages.
    pub fn new(caption: impl Into<Prose>) -> Self {
        MarkedText { caption: caption.into(), ..MarkedText::default() }
    }

    /// Says what the levels and the underline mean.
    pub fn key<N: Into<String>>(
        mut self,
        levels: impl IntoIterator<Item = N>,
        underline: impl Into<String>,
    ) -> Self {
        self.levels = levels.into_iter().map(Into::into).collect();
        self.underline = underline.into();
        self
    }

    /// Adds a passage.
    pub fn passage(mut self, marks: impl IntoIterator<Item = Mark>) -> Self {
        self.passages.push(marks.into_iter().collect());
        self
    }

    /// Refuses levels without a colour.
    pub(super) fn check(&self) -> Result<()> {
        let highest = self.passages.iter().flatten().map(|mark| mark.level).max().unwrap_or(0);
        match highest.max(self.levels.len()) {
            level if level > LEVELS => {
                let caption = self.caption.plain();
                Err(Error::page(format!("marked text \"{caption}\": level {level} is above {LEVELS}")))
            }
            _ => Ok(()),
        }
    }
}

/// The class of a stretch in the style sheet; none for plain text.
pub(super) fn class(level: usize, underlined: bool) -> Option<String> {
    match (level, underlined) {
        (0, false) => None,
        (level, false) => Some(format!("l{level}")),
        (0, true) => Some("u".into()),
        (level, true) => Some(format!("l{level} u")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Colour;

    #[test]
    fn a_level_without_a_colour_is_refused() {
        let text = |level| MarkedText::new("t").passage([Mark::level("a", level)]);
        assert!(text(LEVELS).check().is_ok());
        let error = text(LEVELS + 1).check().unwrap_err().to_string();
        assert_eq!(error, "page: marked text \"t\": level 6 is above 5");
    }

    #[test]
    fn text_on_every_level_can_be_read_by_day_and_by_night() {
        let style = include_str!("style.css");
        let colours = |name: String| -> Vec<Colour> {
            let found =
                style.match_indices(&name).map(|(at, _)| &style[at + name.len() + 2..at + name.len() + 8]);
            let part = |hex: &str, i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
            found.map(|hex| Colour(part(hex, 0), part(hex, 1), part(hex, 2))).collect()
        };
        let ink = colours("--ink:".into());
        for level in 1..=LEVELS {
            for (ink, ground) in ink.iter().zip(colours(format!("--l{level}:"))) {
                let contrast = ink.contrast(ground);
                assert!(contrast >= 4.5, "level {level}: {contrast} on {}", ground.hex());
            }
        }
    }

    #[test]
    fn every_level_has_a_colour_by_day_and_by_night() {
        let style = include_str!("style.css");
        for level in 1..=LEVELS {
            assert_eq!(style.matches(&format!("--l{level}:")).count(), 2, "level {level}");
            assert!(style.contains(&format!("mark.l{level} {{")), "level {level}");
        }
    }
}
