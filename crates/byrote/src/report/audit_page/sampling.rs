//! How likely sampling is to produce windows, and how many samples that takes.

use super::{WindowSet, colours};
use crate::audit::{Audit, WindowFigures};
use crate::units::grouped;
use byrote_figures::html::{Exhibit, Prose, Section};
use byrote_figures::{Axis, Bars, Figure, Line};

/// The decades of one bar.
const DECADES: i32 = 3;

/// The histogram of p_z and the frontier; none without probabilities under sampling.
pub(super) fn section(audit: &Audit) -> Option<Section> {
    if !audit.known.sampled {
        return None;
    }
    let sets = WindowSet::all(audit);
    let set = sets.first()?;
    let settings = &audit.settings;
    let about = format!(
        "*p_z* is the probability that one sample produces the {} tokens of a suffix, given its prefix, when every token is drawn from \
         the {} most likely ones at temperature {}. A suffix with a token that is not among these can never be drawn. In n samples \
         it appears at least once with probability 1 - (1 - p_z)^n. Both figures are about windows {}.",
        settings.suffix,
        grouped(u64::from(settings.top_k)),
        settings.temperature,
        set.in_words()
    );
    let section = Section::new("Sampling").anchor("sampling").paragraph(Prose::parse(&about)).exhibit(
        Exhibit::new(histogram(set))
            .name("p-z")
            .alt("The share of windows by the probability of sampling their suffix.")
            .caption(Prose::parse(
                "The bar at 0 holds the windows that sampling cannot produce; every other bar begins at the power of ten below it \
                 and spans three. The last one, from 0.001, is what [@cooper2025] counts as memorized.",
            )),
    );
    Some(section.exhibit(
        Exhibit::new(frontier(set))
            .name("frontier")
            .alt("The share of windows that n samples produce at least once with probability p, against n.")
            .caption(Prose::parse(
                "Windows that n samples produce at least once with probability p: (n, p)-discoverable, [@hayes2024]. A single sample \
                 is the strictest test.",
            )),
    ))
}

/// The bars: those that cannot be drawn, then groups of decades.
fn groups(figures: &WindowFigures) -> Vec<(Option<i32>, u64)> {
    let mut found: Vec<(Option<i32>, u64)> = Vec::new();
    for decade in &figures.p_z_histogram {
        let from = decade.log10_from.map(|from| from.div_euclid(DECADES) * DECADES);
        match found.iter_mut().find(|group| group.0 == from) {
            Some(group) => group.1 += decade.count,
            None => found.push((from, decade.count)),
        }
    }
    found
}

fn histogram(set: &WindowSet<'_>) -> Figure {
    let names: Vec<String> = groups(set.corpus)
        .iter()
        .enumerate()
        .map(|(i, (from, _))| match from {
            None => "0".to_owned(),
            // The lowest decade holds all below it.
            Some(from) if i == 1 => format!("< 1e{}", from + DECADES),
            Some(-3) => "0.001".to_owned(),
            Some(from) => format!("1e{from}"),
        })
        .collect();
    let figure = Figure::new(
        "How likely windows are sampled",
        Axis::named("p_z, from", names),
        Axis::linear("share of windows (%)"),
    )
    .palette(colours())
    .size(900.0, 420.0);
    set.sides().fold(figure, |figure, (key, windows)| {
        let share = |n: u64| 100.0 * n as f64 / windows.count.max(1) as f64;
        figure.bars(Bars::new(key, key, groups(windows).into_iter().map(|(_, count)| share(count))))
    })
}

fn frontier(set: &WindowSet<'_>) -> Figure {
    let mut figure = Figure::new(
        "How many samples it takes",
        Axis::log("samples n"),
        Axis::linear("share of windows (%)").from_zero(),
    )
    .size(900.0, 460.0);
    for (key, windows) in set.sides() {
        let mut probabilities: Vec<f64> = windows.frontier.iter().map(|point| point.p).collect();
        probabilities.dedup();
        // One line of the held-out text is enough to see whether it differs.
        for p in probabilities.into_iter().filter(|p| key == "corpus" || *p == 0.5) {
            let points = windows.frontier.iter().filter(|point| point.p == p);
            let points = points.map(|point| (point.n as f64, 100.0 * point.share));
            let (line, label) = match key {
                "corpus" => (format!("p {p}"), format!("p = {p}")),
                _ => (key.to_owned(), format!("{key}, p = {p}")),
            };
            figure = figure.line(Line::new(line, label, points).with_markers());
        }
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::WindowTally;

    #[test]
    fn decades_fall_into_groups_whose_last_is_the_published_threshold() {
        let mut figures = WindowTally::default().figures(false, 0);
        for decade in &mut figures.p_z_histogram {
            decade.count = decade.log10_from.map_or(7, |from| from.unsigned_abs().into());
        }
        let found = groups(&figures);
        assert_eq!(found.len(), 11);
        assert_eq!(
            (found[0], found[1], found[10]),
            ((None, 7), (Some(-30), 30 + 29 + 28), (Some(-3), 3 + 2 + 1))
        );
        let set = WindowSet { name: "alone", corpus: &figures, held_out: None };
        let names = histogram(&set).x.names;
        assert_eq!(
            (names[0].as_str(), names[1].as_str(), names[2].as_str(), names[10].as_str()),
            ("0", "< 1e-27", "1e-27", "0.001")
        );
    }
}
