//! Figure 3: attention alone and one head with a hidden layer, at equal numbers of parameters.

use super::{Agreement, Claim, Family, Paper, means, over_all, over_last_batches, protocols};
use crate::Result;
use crate::report::averages::{Mean, Pairs, by_size};
use crate::report::numbers::{brief, thousands};
use crate::sweep::{JobRow, Record};
use byrote_figures::html::{Cell, Column, Exhibit, Section, Table};
use byrote_figures::{Axis, Figure, Line, Points};
use serde_json::json;

fn parameters(row: &JobRow) -> f64 {
    row.parameters as f64
}

/// The rows of a family with attention alone, and with a hidden layer. One head without neurons is the smallest of both.
fn by_kind(family: Family, record: &Record) -> [Vec<&JobRow>; 2] {
    let rows = family.rows(record);
    let alone = rows.iter().copied().filter(|r| r.d_mlp == 0).collect();
    let hidden = rows.iter().copied().filter(|r| r.d_mlp > 0 || r.n_heads == 1).collect();
    [alone, hidden]
}

/// The page of the figure.
pub(super) fn page(record: &Record) -> Result<Paper> {
    let title = "dana2024, figure 3: attention alone and a hidden layer";
    let mut figure = Figure::new(title, Axis::linear("parameters"), Axis::linear("accuracy").range(0.0, 1.0));
    let (mut claims, mut json) = (Vec::new(), json!({}));
    for family in Family::ALL {
        let curves = by_kind(family, record).map(|rows| means(&family.points(&rows, parameters)));
        for ((mean, ends), (key, words)) in
            curves.iter().zip([("attention", "attention alone"), ("hidden", "with a hidden layer")])
        {
            if !mean.is_empty() {
                let key = format!("{key} {}", family.key());
                figure = figure
                    .line(Line::new(key.clone(), format!("{words}, {}", family.words()), mean.clone()))
                    .points(Points::new(key, "", mean.clone()).with_errors(ends.clone()).form(family.form()));
            }
        }
        let [(alone, _), (hidden, _)] = &curves;
        // The first of both curves is the same model.
        let differences: Vec<f64> =
            alone.iter().skip(1).filter_map(|&(x, y)| Some(interpolated(hidden, x)? - y)).collect();
        if differences.is_empty() {
            continue;
        }
        let mean = differences.iter().sum::<f64>() / differences.len() as f64;
        let most = differences.iter().fold(0.0f64, |a, d| a.max(d.abs()));
        let ahead = differences.iter().filter(|&&d| d > 0.0).count();
        let agrees = match most {
            m if m <= 0.05 => Agreement::Yes,
            m if m <= 0.1 => Agreement::Nearly,
            _ => Agreement::No,
        };
        claims.push(Claim::new(
            "attention alone and a transformer with a hidden layer scale alike at equal numbers of parameters.",
            format!(
                "with {}, the hidden layer is ahead by {} in accuracy on average over {} sizes and at {ahead} of them; the \
                 largest difference is {}.",
                family.named(),
                brief(mean),
                differences.len(),
                brief(most)
            ),
            agrees,
        ));
        json[family.key()] = json!({
            "mean_difference": mean,
            "largest_difference": most,
            "sizes": differences.len(),
            "sizes_with_the_hidden_layer_ahead": ahead,
        });
    }
    let first = Section::new("Accuracy against parameters")
        .anchor("accuracy")
        .exhibit(
            Exhibit::new(figure)
                .name("parameters")
                .alt("Accuracy against parameters for attention alone and for one head with a hidden layer.")
                .caption(
                    "Attention alone: d = d_h, more heads. Hidden layer: one head with d_h = d, and 2 d (H - 1) neurons (GELU) \
                     in place of the other H - 1 heads. The authors' program is measured over its last 100 batches, the \
                     paper's model over all associations.",
                ),
        )
        .table(table(record));
    Ok(Paper {
        title: title.into(),
        subtitle: "Which remembers more, attention or a hidden layer?".into(),
        claims,
        sections: vec![first, protocols(record)],
        json: json!({ "differences": json }),
        references: &["dana2024"],
    })
}

/// Every model with both accuracies, averaged over seeds.
fn table(record: &Record) -> Table {
    let columns = [
        Column::left("family"),
        Column::left("model"),
        Column::right("parameters"),
        Column::right("accuracy").unit("last 100 batches"),
        Column::right("accuracy").unit("all associations"),
    ];
    let mut table = Table::new("Mean accuracy over the seeds, measured in two ways.", columns);
    for family in Family::ALL {
        for (rows, kind) in by_kind(family, record).iter().zip(["attention alone", "with a hidden layer"]) {
            let mean = |of: fn(&JobRow) -> Option<f64>| -> Pairs {
                by_size(rows.iter().filter_map(|r| Some((parameters(r), of(r)?))), Mean::Plain).0
            };
            let last = mean(over_last_batches);
            for (x, y) in mean(|r| Some(over_all(r))) {
                let last = last.iter().find(|p| p.0 == x);
                table = table.row([
                    Cell::from(family.words()),
                    kind.into(),
                    thousands(x as u64).into(),
                    last.map_or_else(Cell::none, |p| format!("{:.3}", p.1).into()),
                    format!("{y:.3}").into(),
                ]);
            }
        }
    }
    table
}

/// The value between two neighbours of a curve; `None` beyond its ends.
fn interpolated(curve: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = curve.iter().position(|p| p.0 >= x)?;
    if curve[after].0 == x {
        return Some(curve[after].1);
    }
    let (a, b) = (curve.get(after.checked_sub(1)?)?, curve[after]);
    Some(a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_compared_where_both_are_known() {
        let curve = [(1.0, 0.0), (3.0, 1.0)];
        assert_eq!(
            [0.5, 1.0, 2.0, 3.0, 3.5].map(|x| interpolated(&curve, x)),
            [None, Some(0.0), Some(0.5), Some(1.0), None]
        );
    }
}
