//! The section of a study's page about windows.

use super::sections::floor_table;
use crate::corpus::{Summary, WindowSummary};
use crate::report::numbers::{thousands, visible};
use crate::study::Study;
use crate::units::counted;
use byrote_figures::html::{Column, Exhibit, Prose, Section, Table};
use byrote_figures::{Axis, Figure, Line, Points};

impl Study {
    /// The text, its windows and their floor; `by_position` draws the floor by position.
    pub(super) fn windows(&self, s: &Summary, windows: &WindowSummary, by_position: Figure) -> Section {
        let kind = match (s.window.exact_length, windows.stride) {
            (true, 1) => format!("every {} tokens in a row", s.n_ctx + 1),
            (true, stride) => {
                format!("{} tokens in a row, one every {} tokens", s.n_ctx + 1, thousands(stride))
            }
            (false, 1) => format!("every {} tokens in a row, fewer at the end of a document", s.n_ctx + 1),
            (false, stride) => format!(
                "{} tokens in a row, one every {} tokens, fewer at the end of a document",
                s.n_ctx + 1,
                thousands(stride)
            ),
        };
        let section = Section::new("The text and its floor")
            .anchor("corpus")
            .paragraph(Prose::parse(&format!(
                "The text has {} tokens in {}, and {} distinct tokens. A *window* is {kind}: there are {}, {} of them \
                 distinct. A *context* is the beginning of a window that is followed by another token in it. {} contexts always \
                 have the same next token, {} have several. Where several tokens follow, no model that sees only its window can know \
                 which one comes: the entropy of the next token, summed over all predictions, is the *floor*, the lowest \
                 training loss that any such model can reach.",
                thousands(s.tokens),
                counted(s.documents, "document"),
                thousands(s.d_vocab),
                thousands(windows.windows),
                thousands(windows.distinct_windows),
                thousands(s.deterministic_contexts),
                thousands(s.contradictions()),
            )))
            .exhibit(
                Exhibit::new(by_position)
                    .name("floor-by-length")
                    .alt("The floor in bits per prediction against the position in the window.")
                    .caption(
                        "The average entropy of the next token at each position of the window, given everything before it in the \
                         window: the lowest loss that a model can have there.",
                    ),
            )
            .table(floor_table(&s.by_length))
            .exhibit(
                Exhibit::new(self.curve(windows))
                    .name("floor-by-window")
                    .alt("The floor in nats per prediction against the longest context, with the models trained here.")
                    .caption(
                        "The floor of the whole text if windows had other lengths. A model that was trained here stands where its \
                         loss equals the floor of a shorter window; its own floor, that of the windows it was trained on, is lower.",
                    ),
            );
        match windows.repeats.is_empty() {
            true => section,
            false => section.table(repeats(s, windows)).table(passages(windows)),
        }
    }

    /// The floor against the longest context, and where trained models stand.
    fn curve(&self, windows: &WindowSummary) -> Figure {
        let points = |points: &[crate::corpus::FloorPoint]| {
            points
                .iter()
                .filter_map(|p| Some((p.n_ctx as f64, p.floor_nats_per_prediction?.0)))
                .filter(|&(_, floor)| floor > 0.0)
                .collect::<Vec<_>>()
        };
        let curve = points(&windows.curve);
        let mut stands = Vec::new();
        for model in &self.trained {
            let Some(loss) =
                model.row.result.as_ref().map(|r| r.loss_nats / self.part.predictions.max(1) as f64)
            else {
                continue;
            };
            stands.extend(where_it_equals(&curve, loss).map(|n_ctx| (n_ctx, loss)));
        }
        let figure = Figure::new(
            "The floor by window",
            Axis::log("longest context (tokens)"),
            Axis::log("nats per prediction"),
        )
        .line(Line::new("floor", "floor", curve).with_markers());
        match stands.is_empty() {
            true => figure,
            false => figure.points(Points::new("trained", "losses of models trained here", stands)),
        }
    }
}

/// Where a falling curve takes a value, between its points on logarithmic scales; `None` outside of it.
fn where_it_equals(curve: &[(f64, f64)], value: f64) -> Option<f64> {
    curve.windows(2).find(|pair| pair[0].1 >= value && value >= pair[1].1).map(|pair| {
        let [(a, x), (b, y)] = [pair[0], pair[1]].map(|(n, floor)| (n.ln(), floor.ln()));
        let share = if x > y { (x - value.ln()) / (x - y) } else { 0.0 };
        (a + share * (b - a)).exp()
    })
}

fn repeats(s: &Summary, windows: &WindowSummary) -> Table {
    let columns = [
        Column::right("at least").unit("tokens"),
        Column::right("tokens in them"),
        Column::right("share of the text"),
        Column::right("beyond the first time"),
    ];
    let caption = "Repeats: passages that occur more than once, and what removing duplicates would remove.";
    let mut table = Table::new(caption, columns);
    for row in &windows.repeats {
        table = table.row([
            row.length.to_string(),
            thousands(row.repeated_tokens),
            format!("{:.2}%", 100.0 * row.repeated_tokens as f64 / s.tokens.max(1) as f64),
            thousands(row.redundant_tokens),
        ]);
    }
    table
}

fn passages(windows: &WindowSummary) -> Table {
    let columns = [Column::right("tokens"), Column::left("passage")];
    let mut table = Table::new("The longest passages that occur more than once.", columns);
    for passage in &windows.longest_repeats {
        let text = visible(&passage.text);
        let short = match text.chars().count() {
            n if n > 400 => format!("{} ...", text.chars().take(400).collect::<String>()),
            _ => text,
        };
        table = table.row([thousands(passage.length), short]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_stands_between_the_points_of_the_curve() {
        let curve = [(1.0, 4.0), (4.0, 1.0), (8.0, 1.0)];
        assert!((where_it_equals(&curve, 2.0).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(where_it_equals(&curve, 1.0), Some(4.0));
        assert_eq!((where_it_equals(&curve, 5.0), where_it_equals(&curve, 0.5)), (None, None));
    }
}
