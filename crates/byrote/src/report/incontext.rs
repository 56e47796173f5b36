//! The figures of `byrote incontext` and of sander2024: squared error against t, mean and range over sequences.

use super::{Axis, Band, Figure, Line};
use crate::incontext::ErrorAt;

/// One method's errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Decides the colour.
    pub key: String,
    /// The name in the figure.
    pub label: String,
    /// The errors.
    pub errors: Vec<ErrorAt>,
}

/// The figure; every error is divided by `divisor` (the dimension in sander2024's figure 4, else 1).
pub fn errors_against_t(
    title: impl Into<String>,
    subtitle: impl Into<String>,
    series: &[Series],
    divisor: f64,
) -> Figure {
    let quantity = if divisor == 1.0 { "squared error" } else { "squared error / d" };
    let mut figure = Figure::new(title, Axis::linear("t"), Axis::log(quantity)).subtitle(subtitle);
    let ranges = series.iter().any(|s| s.errors.iter().any(|e| e.lowest < e.highest));
    if ranges {
        figure = figure.caption("Lines are means, bands reach from the lowest to the highest sequence.");
    }
    for Series { key, label, errors } in series {
        let t = |e: &ErrorAt| e.t as f64;
        let mean = errors.iter().map(|e| (t(e), e.squared_error / divisor));
        figure = figure.line(Line::new(key, label, mean));
        // The lower end of a band cannot be 0 on a logarithmic axis: there it has none.
        let band: Vec<_> = errors
            .iter()
            .filter(|e| e.lowest > 0.0 && e.lowest < e.highest)
            .map(|e| (t(e), e.lowest / divisor, e.highest / divisor))
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
        let series = |key: &str, errors| Series { key: key.into(), label: format!("by {key}"), errors };
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
        assert_eq!(figure.bands[0].points, [(1.0, 0.5, 2.0)]);
        let svg = figure.to_svg().unwrap();
        assert!(svg.contains("by layers") && svg.contains("squared error / d"));
    }
}
