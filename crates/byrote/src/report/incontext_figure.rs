//! Figures of in-context learning: squared error against t, mean and range over sequences.

use crate::incontext::{ErrorAt, ErrorSeries};
use byrote_figures::{Axis, Band, Figure, Line};

/// Squared errors below this are rounding for numbers of size 1: 2^-53 squared.
pub(super) const ROUNDING: f64 = 1e-32;

/// Draws errors against t; every error is divided by `divisor` (the dimension in sander2024's figure 4, else 1).
pub fn errors_against_t(
    title: impl Into<String>,
    subtitle: impl Into<String>,
    series: &[ErrorSeries],
    divisor: f64,
) -> Figure {
    let quantity = if divisor == 1.0 { "squared error" } else { "squared error / d" };
    let all = || series.iter().flat_map(|s| &s.errors);
    let last = all().map(|e| e.t).max().unwrap_or(1);
    let most = all().map(|e| e.highest / divisor).fold(0.0, f64::max);
    let rounding = all().any(|e| e.squared_error / divisor < ROUNDING) && most > ROUNDING;
    let mut y = Axis::log(quantity);
    if rounding {
        y = y.range(ROUNDING, 10f64.powf(most.log10().ceil()).max(10.0 * ROUNDING));
    }
    let mut x = Axis::linear("t");
    if last > 1 {
        x = x.range(1.0, last as f64);
    }
    let mut caption = Vec::new();
    let spread = |s: &ErrorSeries| s.errors.iter().any(|e| e.lowest < e.highest);
    match series.iter().filter(|s| spread(s)).count() {
        0 => {}
        n if n == series.len() => {
            caption.push("Lines are means, bands reach from the lowest to the highest sequence.");
        }
        _ => caption.push(
            "Lines are means; a band, where one is drawn, reaches from the lowest to the highest sequence.",
        ),
    }
    if rounding {
        caption.push("Errors below 1e-32 are due to rounding; the axis ends there.");
    }
    let mut figure = Figure::new(title, x, y).subtitle(subtitle).caption(caption.join(" "));
    let bottom = if rounding { ROUNDING } else { 0.0 };
    for ErrorSeries { key, label, errors } in series {
        let t = |e: &ErrorAt| e.t as f64;
        let mean = errors.iter().map(|e| (t(e), e.squared_error / divisor));
        figure = figure.line(Line::new(key, label, mean));
        // The lower end of a band cannot be 0 on a logarithmic axis: there it has none.
        let band: Vec<_> = errors
            .iter()
            .map(|e| (t(e), (e.lowest / divisor).max(bottom), e.highest / divisor))
            .filter(|(_, low, high)| *low > 0.0 && low < high)
            .collect();
        if !band.is_empty() {
            figure = figure.band(Band::new(key, "", band));
        }
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_mean_and_a_band_the_range() {
        let at = |t, squared_error, lowest, highest| ErrorAt { t, squared_error, lowest, highest };
        let series = |key: &str, errors| ErrorSeries { key: key.into(), label: format!("by {key}"), errors };
        let figure = errors_against_t(
            "title",
            "sub",
            &[
                series("direct", vec![at(1, 2.0, 1.0, 4.0), at(2, 0.5, 0.0, 1.0)]),
                series("layers", vec![at(1, 3.0, 3.0, 3.0)]),
            ],
            2.0,
        );
        assert_eq!(figure.lines[0].points, [(1.0, 1.0), (2.0, 0.25)]);
        assert_eq!(figure.bands.len(), 1);
        assert_eq!(figure.bands[0].points, [(1.0, 0.5, 2.0)], "no lower end on a logarithmic axis, no band");
        let tiny = errors_against_t(
            "",
            "",
            &[series("a", vec![at(1, 1.0, 0.0, 2.0), at(2, 1e-40, 0.0, 1e-39)])],
            1.0,
        );
        assert_eq!(tiny.y.range, Some((1e-32, 10.0)));
        assert_eq!(tiny.bands[0].points, [(1.0, 1e-32, 2.0)]);
        assert!(
            figure.caption.contains("where one is drawn") && tiny.caption.contains("Lines are means, bands")
        );
        let svg = figure.to_svg().unwrap();
        assert!(svg.contains("by layers") && svg.contains("squared error / d"));
    }
}
