//! Learning in context as text.

use super::TextTable;
use crate::incontext::{Attention, ErrorAt, ErrorSeries, Kernel, PredictionMethod, PredictionOutcome};
use crate::units::grouped;
use std::fmt::Write as _;

/// Shows what a transformer learns in context: the method, and the errors at about a dozen steps, beside those of baselines
/// where there are any.
pub fn incontext(
    title: &str,
    kernel: Kernel,
    attention: Attention,
    method: PredictionMethod,
    outcome: &PredictionOutcome,
    errors: &[ErrorAt],
    baselines: &[ErrorSeries],
) -> String {
    let mut out = format!("{title}\n\n");
    out += &how(kernel, attention, method, outcome);
    let many = outcome.predictions.len() > 1;
    let mut heads = vec!["t", "squared error"];
    if many {
        heads.extend(["lowest", "highest"]);
    }
    heads.extend(baselines.iter().map(|b| b.label.as_str()));
    let mut table = TextTable::new(&heads, &[]);
    for e in chosen(errors) {
        let mut cells = vec![grouped(e.t as u64), number(e.squared_error)];
        if many {
            cells.extend([number(e.lowest), number(e.highest)]);
        }
        let at = |b: &ErrorSeries| b.errors.get(e.t - 1).map_or("-".into(), |e| number(e.squared_error));
        cells.extend(baselines.iter().map(at));
        table.row(cells);
    }
    if !baselines.is_empty() && !errors.is_empty() {
        let mean = |errors: &[ErrorAt], of: fn(&ErrorAt) -> f64| {
            number(errors.iter().map(of).sum::<f64>() / errors.len().max(1) as f64)
        };
        let mut cells = vec!["mean".to_owned(), mean(errors, |e| e.squared_error)];
        if many {
            cells.extend([mean(errors, |e| e.lowest), mean(errors, |e| e.highest)]);
        }
        cells.extend(baselines.iter().map(|b| mean(&b.errors, |e| e.squared_error)));
        table.row(cells);
    }
    let _ = write!(out, "\n{}", table.render());
    out
}

/// Shows the method.
fn how(
    kernel: Kernel,
    attention: Attention,
    method: PredictionMethod,
    outcome: &PredictionOutcome,
) -> String {
    let mut table = TextTable::new(&["kernel", &kernel.to_string()], &[0, 1]);
    let mut row = |name: &str, value: String| table.row(vec![name.into(), value]);
    match (&outcome.layers, method) {
        (Some(l), _) => {
            row("attention", attention.to_string());
            row("layers", format!("{} of descent after the one that copies", grouped(l.layers)));
            row("step", format!("{:.6}", l.eta));
            row("residual", format!("{:.1e}", l.residual));
            let network = &l.file.network;
            row(
                "network",
                format!(
                    "d_model {}, {} stored numbers, equal layers once",
                    network.d_model(),
                    grouped(network.parameters() as u64)
                ),
            );
            if let Some(difference) = outcome.difference {
                row("agreement", format!("{difference:.1e} from the descent without a network"));
            }
            if let Some(difference) = l.from_flow {
                row(
                    "flow",
                    format!("{difference:.1e} from infinitely many layers with the same sum of steps"),
                );
            }
        }
        (None, PredictionMethod::Flow { time }) => {
            row("attention", attention.to_string());
            row("method", format!("the flow of infinitely many layers whose steps add up to {time}"));
        }
        (None, PredictionMethod::Recursion) => row("method", "recursion, the limit of the layers".into()),
        (None, _) => {
            row("method", "forward substitution, the limit of the layers".into());
            if let Some(difference) = outcome.difference {
                row("agreement", format!("{difference:.1e} from the recursion"));
            }
        }
    }
    if !outcome.constant_diagonal {
        row("norms", "differ, so this is not Kaczmarz's method; `normalised` makes it so".into());
    }
    table.render()
}

/// Returns the method in a few words.
pub fn method(
    outcome: &PredictionOutcome,
    kernel: Kernel,
    attention: Attention,
    method: PredictionMethod,
) -> String {
    match (&outcome.layers, method) {
        (Some(l), _) => format!("{kernel}; {} layers of {attention} attention", grouped(l.layers)),
        (None, PredictionMethod::Recursion) => format!("{kernel}; the limit, by recursion"),
        (None, PredictionMethod::Flow { time }) => format!("{kernel}; the flow, time {time}"),
        (None, _) => format!("{kernel}; the limit"),
    }
}

/// A number with few digits.
fn number(x: f64) -> String {
    if x == 0.0 || (1e-3..1e6).contains(&x) { format!("{x:.4}") } else { format!("{x:.2e}") }
}

/// Chooses about a dozen errors, closer together at first.
fn chosen(errors: &[ErrorAt]) -> Vec<ErrorAt> {
    let mut out: Vec<ErrorAt> = Vec::new();
    for (i, &e) in errors.iter().enumerate() {
        let next = out.last().map_or(1, |last| (last.t + 1).max((last.t as f64 * 1.6).ceil() as usize));
        if e.t >= next || i + 1 == errors.len() {
            out.push(e);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_a_dozen_rows_show_a_long_curve() {
        let errors: Vec<ErrorAt> =
            (1..=200).map(|t| ErrorAt { t, squared_error: 1.0, lowest: 1.0, highest: 1.0 }).collect();
        let t: Vec<usize> = chosen(&errors).iter().map(|e| e.t).collect();
        assert_eq!((t[0], t[1], t.len()), (1, 2, 11));
        assert_eq!(t.last(), Some(&200));
    }
}
