//! Plots of residuals around zero.

use super::{Axis, Figure, Points};

/// Residuals against the variable of the fit. Zero is drawn in the middle, so that a drift to one side is visible.
pub fn residuals(
    title: impl Into<String>,
    x: Axis,
    y_label: impl Into<String>,
    points: Vec<Points>,
) -> Figure {
    let ends = |p: &Points| {
        let values = p.points.iter().map(|v| v.1.abs()).fold(0.0, f64::max);
        p.errors.iter().map(|e| e.0.abs().max(e.1.abs())).fold(values, f64::max)
    };
    let most = points.iter().map(ends).fold(0.0, f64::max);
    let mut y = Axis::linear(y_label);
    if most > 0.0 && most < 1e299 {
        y = y.range(-1.08 * most, 1.08 * most);
    }
    points.into_iter().fold(Figure::new(title, x, y).horizontal(0.0, "").size(900.0, 320.0), Figure::points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_stands_in_the_middle() {
        let points = Points::new("fit", "residual", [(1.0, 0.2), (2.0, -0.5)]);
        let figure = residuals("r", Axis::log("x"), "measured - fitted", vec![points]);
        assert_eq!(figure.y.range, Some((-0.54, 0.54)));
        assert!(figure.to_svg().is_ok());
        assert!(residuals("r", Axis::log("x"), "y", vec![]).to_svg().is_ok());
        let exact = vec![Points::new("fit", "", [(1.0, 0.0), (2.0, 0.0)])];
        assert!(residuals("r", Axis::log("x"), "y", exact).to_svg().is_ok());
    }
}
