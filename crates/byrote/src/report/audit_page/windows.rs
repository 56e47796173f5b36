//! The windows: what greedy decoding and sampling repeat of them.

use super::{WindowSet, cell, colours, percent};
use crate::audit::{Audit, IntervalMethod, WindowFigures};
use crate::report::numbers::{brief, thousands};
use byrote_figures::html::{Cell, Column, Exhibit, Prose, Section, Table};
use byrote_figures::{Axis, Figure, Line};

/// The table of all windows, and how far decoding gets; none without windows.
pub(super) fn section(audit: &Audit) -> Option<Section> {
    let sets = WindowSet::all(audit);
    let first = sets.first()?;
    let mut section = Section::new("Windows")
        .anchor("windows")
        .paragraph(Prose::parse(about(&sets)))
        .table(table(audit, &sets));
    if let Some(figure) = decoding(first, audit.settings.suffix) {
        section = section.exhibit(
            Exhibit::new(figure)
                .name("decoding")
                .alt("The share of windows against the number of suffix tokens that greedy decoding gets right in a row.")
                .caption(format!(
                    "Windows {}. Where a line reaches the right edge, the whole suffix is decoded: its height there is the share \
                     of extractable windows.",
                    first.in_words()
                )),
        );
    }
    Some(section)
}

fn about(sets: &[WindowSet<'_>]) -> &'static str {
    match sets.iter().any(|set| set.name == "alone") && sets.len() > 1 {
        true => {
            "The published tests run a window *alone*: the model sees its prefix and nothing else. In its *document* it sees all \
             that comes before, which helps it to recognize the place, and to copy. The two are never mixed in one number; \
             [What was audited](#audited) says which windows were taken."
        }
        false => "[What was audited](#audited) says which windows were taken.",
    }
}

/// What a row shows of some windows.
type Shown<'a> = Box<dyn Fn(&WindowFigures) -> Option<String> + 'a>;
type Row<'a> = (String, Shown<'a>);

/// One row per measure, one column per kind of window and text.
fn table(audit: &Audit, sets: &[WindowSet<'_>]) -> Table {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut add = |name: &str, of: Shown<'static>| rows.push((name.to_owned(), of));
    add("windows", Box::new(|f| Some(thousands(f.count))));
    add("extractable", Box::new(|f| Some(thousands(f.extractable))));
    add("share extractable", Box::new(|f| f.share.map(percent)));
    add(
        "95% interval",
        Box::new(|f| f.interval.map(|i| format!("{} to {}", percent(i.low), percent(i.high)))),
    );
    if audit.known.sampled {
        for p_z in crate::audit::THRESHOLDS {
            let share = move |f: &WindowFigures| {
                f.p_z_at_least.iter().find(|t| t.p_z == p_z).map(|t| percent(t.share))
            };
            add(&format!("p_z of at least {}", probability(p_z.ln())), Box::new(share));
        }
        add("largest p_z", Box::new(|f| f.largest_ln_p_z.map(probability)));
    }
    let mean = |x: Option<f64>| x.map(|x| format!("{x:.3}"));
    add("mean teacher-forced accuracy", Box::new(move |f| mean(f.mean_teacher_forced_accuracy)));
    add("mean free-running accuracy", Box::new(move |f| mean(f.mean_free_running_accuracy)));
    add("mean ROUGE-L", Box::new(move |f| mean(f.mean_rouge_l)));
    add("mean extraction strength", Box::new(move |f| mean(f.mean_extraction_strength)));
    add("text covered by extractable ones", Box::new(|f| f.coverage.map(|c| percent(c.extractable))));
    if audit.known.sampled {
        add("text covered from p_z of 0.001", Box::new(|f| f.coverage.map(|c| percent(c.p_z))));
    }
    let sides: Vec<(&str, &str, &WindowFigures)> =
        sets.iter().flat_map(|set| set.sides().map(|(key, figures)| (key, set.name, figures))).collect();
    let columns = sides.iter().map(|(key, name, _)| Column::right(*key).unit(*name));
    let caption =
        format!("Windows by kind and text.{}", methods(&sides.iter().map(|s| s.2).collect::<Vec<_>>()));
    let mut table = Table::new(caption, [Column::left("")].into_iter().chain(columns));
    for (name, of) in rows {
        let values: Vec<Option<String>> = sides.iter().map(|(_, _, figures)| of(figures)).collect();
        if values.iter().any(Option::is_some) {
            table = table.row([Cell::from(name)].into_iter().chain(values.into_iter().map(cell)));
        }
    }
    table
}

/// How the intervals were found.
fn methods(figures: &[&WindowFigures]) -> String {
    let has = |method| figures.iter().any(|f| f.interval.is_some_and(|i| i.method == method));
    match (has(IntervalMethod::Documents), has(IntervalMethod::Wilson)) {
        (true, true) => {
            " Intervals come from drawing documents again, or from Wilson's formula where there are fewer than ten.".into()
        }
        (true, false) => " Intervals come from drawing documents again.".into(),
        (false, true) => " Intervals are Wilson's, over windows that do not overlap.".into(),
        (false, false) => String::new(),
    }
}

/// A probability by its logarithm, which may be too small for a number.
pub(super) fn probability(ln: f64) -> String {
    match ln / std::f64::consts::LN_10 {
        log10 if log10 < -300.0 => format!("1e{:.0}", log10.floor()),
        log10 if log10 < -3.5 => {
            let text = format!("{:.1e}", ln.exp());
            text.replace(".0e", "e")
        }
        _ => {
            let text = brief(ln.exp());
            let text =
                if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
            text.to_owned()
        }
    }
}

/// The share of windows whose first tokens are decoded right, by how many.
fn decoding(set: &WindowSet<'_>, suffix: usize) -> Option<Figure> {
    let mut figure = Figure::new(
        "How far greedy decoding follows the text",
        Axis::linear("suffix tokens right in a row, at least"),
        Axis::linear("share of windows (%)").from_zero(),
    )
    .palette(colours())
    .size(900.0, 420.0);
    for (key, figures) in set.sides() {
        let total: u64 = figures.first_histogram.iter().sum();
        if total == 0 {
            continue;
        }
        let at_least = |tokens: usize| figures.first_histogram.iter().skip(tokens).sum::<u64>();
        let points =
            (0..=suffix).map(|tokens| (tokens as f64, 100.0 * at_least(tokens) as f64 / total as f64));
        figure = figure.line(Line::new(key, key, points));
    }
    (suffix > 1 && !figure.lines.is_empty()).then_some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_of_any_size_are_short() {
        let written = [1.0f64, 0.5, 0.001, 0.0123, 1e-6, 2.5e-7].map(|p| probability(p.ln()));
        assert_eq!(written, ["1", "0.5", "0.001", "0.0123", "1e-6", "2.5e-7"]);
        assert_eq!(probability(-2000.0), "1e-869");
    }
}
