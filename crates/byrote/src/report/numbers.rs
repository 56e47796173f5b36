//! How pages write numbers and references.

use crate::bibliography::{Paper, paper};
pub(super) use crate::units::grouped as thousands;
use crate::units::{Number, grouped_number};
use byrote_figures::html::Reference;

/// Gives a sentence a capital and a full stop.
pub(super) fn sentence(words: &str) -> String {
    let mut letters = words.trim_end_matches('.').chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Writes a number of nats: an estimate, or a bound that is rounded outwards.
pub(super) fn nats(x: impl Number) -> String {
    match x.value().abs() {
        0.0 => "0".into(),
        a if a < 1e-3 => format!("{x:.2e}"),
        a if a < 100.0 => format!("{x:.3}"),
        a if a < 1e18 => grouped_number(x, 2).replace('-', "\u{2212}"),
        _ => format!("{x:.2e}"),
    }
}

/// Writes a text so that a reader sees it: one of spaces alone would be invisible.
pub(super) fn visible(text: &str) -> String {
    match text.chars().all(|c| c == ' ') {
        true => "\u{2420}".repeat(text.len()),
        false => text.to_owned(),
    }
}

/// Writes a gap divided by the floor: as a percentage up to 100%, and above that as a multiple. A floor close to 0 makes
/// percentages of many digits, which say nothing.
pub(super) fn share_of_floor(relative: f64) -> String {
    match relative {
        r if r <= 1.0 => format!("{:.2}%", 100.0 * r),
        r => format!("{} times", brief(r)),
    }
}

/// Writes a number with about three significant digits.
pub(super) fn brief(x: f64) -> String {
    match x.abs() {
        a if a == 0.0 || !x.is_finite() => format!("{x}"),
        a if (1e-3..100.0).contains(&a) => {
            let digits = (2.0 - a.log10().floor()).clamp(0.0, 6.0) as usize;
            format!("{x:.digits$}")
        }
        a if (100.0..1e15).contains(&a) => {
            let sign = if x < 0.0 { "\u{2212}" } else { "" };
            format!("{sign}{}", thousands(a.round() as u64))
        }
        _ => format!("{x:.2e}"),
    }
}

/// The references of the papers with these keys.
pub(super) fn references(keys: &[&str]) -> Vec<Reference> {
    let entry = |paper: &Paper| {
        let reference = Reference::new(paper.key, paper.citation());
        paper.address.iter().fold(reference, |reference, &address| reference.address(address))
    };
    keys.iter().filter_map(|key| paper(key)).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{AtLeast, AtMost};

    #[test]
    fn numbers_are_as_long_as_they_say_something() {
        let all = [0.0, 0.012345, 1.0, 12.345, 123.4, 123_456.0, -2000.0, 1e-7];
        let written = ["0", "0.0123", "1.00", "12.3", "123", "123,456", "\u{2212}2,000", "1.00e-7"];
        assert_eq!(all.map(brief), written);
        assert_eq!([nats(0.5), nats(4520.125), nats(1e-6)], ["0.500", "4,520.12", "1.00e-6"]);
        assert_eq!([nats(539.99693), nats(-250.5), nats(1e30)], ["540.00", "\u{2212}250.50", "1.00e30"]);
        assert_eq!([nats(AtLeast(318.24992)), nats(AtMost(4.500006e-5))], ["318.24", "4.51e-5"]);
        assert_eq!((thousands(999u64), sentence("no law.")), ("999".into(), "No law.".into()));
    }

    #[test]
    fn a_space_is_seen() {
        assert_eq!(["a b", " ", "  ", ""].map(visible), ["a b", "\u{2420}", "\u{2420}\u{2420}", ""]);
    }

    #[test]
    fn a_share_above_the_floor_is_a_multiple() {
        assert_eq!([0.00123, 1.0].map(share_of_floor), ["0.12%", "100.00%"]);
        assert_eq!(
            [1.5, 69.7433, 19_119.3].map(share_of_floor),
            ["1.50 times", "69.7 times", "19,119 times"]
        );
    }

    #[test]
    fn a_paper_that_is_asked_for_is_there() {
        let keys = [
            "madden2024",
            "dana2024",
            "kajitsuka2024",
            "sander2024",
            "mahdavi2024",
            "morris2025",
            "allenzhu2024",
        ];
        assert_eq!(references(&keys).len(), keys.len());
    }
}
