//! Line search for a step t that satisfies the strong Wolfe conditions
//!
//! ```text
//! f(x + t d) <= f(x) + c_1 t f'(x; d)        |f'(x + t d; d)| <= c_2 |f'(x; d)|
//! ```
//!
//! by bracketing and cubic interpolation (Nocedal & Wright, Numerical Optimization, 2nd ed., algorithms 3.5 and 3.6). Near
//! the minimum, rounding errors swamp differences of f before they swamp its slopes. Where f has changed by at most
//! `noise |f|`, the first condition is therefore replaced by one on slopes, f'(x + t d; d) <= (2 c_1 - 1) f'(x; d) (Hager &
//! Zhang, SIAM J. Optim. 16, 2005, equation 4.1).

use super::vectors::{combine, dot};
use super::{Objective, Stopped};
use crate::num::Real;

/// The conditions on a step and the budget for finding it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wolfe {
    /// The constant of sufficient decrease.
    pub c_1: f64,
    /// The constant of sufficient flattening.
    pub c_2: f64,
    /// The relative size of the rounding errors of f.
    pub noise: f64,
    /// The number of evaluations before the search gives up.
    pub most: u32,
}

impl Default for Wolfe {
    fn default() -> Self {
        Self { c_1: 1e-4, c_2: 0.9, noise: 0.0, most: 25 }
    }
}

/// A point on the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinePoint {
    /// The step length.
    pub t: f64,
    /// The value at the point.
    pub value: f64,
    /// The slope along the direction.
    pub slope: f64,
}

/// A line search from `x` along `direction`. On success, `trial` and `trial_gradient` hold the accepted point.
pub struct Search<'a, T> {
    /// The start.
    pub x: &'a [T],
    /// The direction.
    pub direction: &'a [T],
    /// The buffer for trial points.
    pub trial: &'a mut [T],
    /// The gradient at the trial point.
    pub trial_gradient: &'a mut [T],
    /// The number of evaluations so far.
    pub evaluations: u32,
}

impl<T: Real> Search<'_, T> {
    fn at<O: Objective<T> + ?Sized>(&mut self, objective: &mut O, t: f64) -> Result<LinePoint, Stopped> {
        combine(self.trial, &[(1.0, self.x), (t, self.direction)]);
        self.evaluations += 1;
        let value = objective.evaluate(self.trial, self.trial_gradient)?;
        Ok(LinePoint { t, value, slope: dot(self.trial_gradient, self.direction) })
    }

    /// Searches from `start` (at t = 0) with a first guess for t. Returns `None` if no point is low enough.
    pub fn run<O: Objective<T> + ?Sized>(
        &mut self,
        objective: &mut O,
        wolfe: Wolfe,
        start: LinePoint,
        guess: f64,
    ) -> Result<Option<LinePoint>, Stopped> {
        let noise = wolfe.noise * start.value.abs();
        let low = |p: LinePoint| p.value <= start.value + wolfe.c_1 * p.t * start.slope;
        let flat = |p: LinePoint| p.slope.abs() <= -wolfe.c_2 * start.slope;
        let nearly = |p: LinePoint| {
            (p.value - start.value).abs() < noise && p.slope <= (2.0 * wolfe.c_1 - 1.0) * start.slope
        };
        let accepted = |p: LinePoint| p.finite() && flat(p) && (low(p) || nearly(p));

        // Expand until an interval is known to contain an acceptable point.
        let (mut near, mut t) = (start, guess);
        let (mut lo, mut hi);
        loop {
            let p = self.at(objective, t)?;
            if accepted(p) {
                return Ok(Some(p));
            }
            if !p.finite() || !(low(p) || nearly(p)) || (p.value >= near.value + noise && near.t > 0.0) {
                (lo, hi) = (near, p);
                break;
            }
            if p.slope >= 0.0 {
                (lo, hi) = (p, near);
                break;
            }
            if self.evaluations >= wolfe.most {
                return Ok(Some(p));
            }
            t = (p.t + (p.t - near.t)).max(beyond(near, p)).min(p.t + 9.0 * (p.t - near.t));
            near = p;
        }
        // Zoom: lo is the lowest point known, and f decreases from it towards hi.
        let mut last = Some(hi);
        while self.evaluations < wolfe.most && (hi.t - lo.t).abs() > 1e-12 * lo.t.max(hi.t) {
            let p = self.at(objective, between(lo, hi))?;
            last = Some(p);
            if accepted(p) {
                return Ok(Some(p));
            }
            if !p.finite() || !(low(p) || nearly(p)) || p.value >= lo.value + noise {
                hi = p;
            } else {
                if p.slope * (hi.t - lo.t) >= 0.0 {
                    hi = lo;
                }
                lo = p;
            }
        }
        // No point satisfied both conditions; a lower value is better than nothing.
        if lo.t > 0.0 && lo.value < start.value {
            return Ok(Some(if last == Some(lo) { lo } else { self.at(objective, lo.t)? }));
        }
        Ok(None)
    }
}

impl LinePoint {
    fn finite(self) -> bool {
        self.value.is_finite() && self.slope.is_finite()
    }
}

/// Returns the minimum of the cubic through two points with slopes, if it has one.
fn cubic(a: LinePoint, b: LinePoint) -> Option<f64> {
    let d1 = a.slope + b.slope - 3.0 * (a.value - b.value) / (a.t - b.t);
    let square = d1 * d1 - a.slope * b.slope;
    let d2 = square.sqrt().copysign(b.t - a.t);
    let t = b.t - (b.t - a.t) * (b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2);
    (square >= 0.0 && t.is_finite()).then_some(t)
}

/// Returns a point beyond `b`, where f is still decreasing.
fn beyond(a: LinePoint, b: LinePoint) -> f64 {
    cubic(a, b).filter(|&t| t > b.t).unwrap_or(b.t)
}

/// Returns a point between the two, not too close to either.
fn between(lo: LinePoint, hi: LinePoint) -> f64 {
    let middle = 0.5 * (lo.t + hi.t);
    if !hi.finite() {
        return lo.t + 0.1 * (hi.t - lo.t);
    }
    let (left, right) = if lo.t < hi.t { (lo.t, hi.t) } else { (hi.t, lo.t) };
    let margin = 0.1 * (right - left);
    cubic(lo, hi).map_or(middle, |t| t.clamp(left + margin, right - margin))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches f from 0 along the positive axis.
    fn search(f: impl Fn(f64) -> (f64, f64), wolfe: Wolfe, guess: f64) -> (Option<LinePoint>, u32) {
        let mut objective = |x: &[f64], g: &mut [f64]| {
            let (value, slope) = f(x[0]);
            g[0] = slope;
            value
        };
        let (value, slope) = f(0.0);
        let (mut trial, mut trial_gradient) = ([0.0], [0.0]);
        let mut search = Search {
            x: &[0.0],
            direction: &[1.0],
            trial: &mut trial,
            trial_gradient: &mut trial_gradient,
            evaluations: 0,
        };
        let found = search.run(&mut objective, wolfe, LinePoint { t: 0.0, value, slope }, guess).unwrap();
        let evaluations = search.evaluations;
        if let Some(p) = found {
            assert_eq!((trial[0], trial_gradient[0]), (p.t, p.slope), "the trial holds the accepted point");
        }
        (found, evaluations)
    }

    #[test]
    fn the_conditions_hold_from_any_guess() {
        let functions: [fn(f64) -> (f64, f64); 3] = [
            |t| ((t - 3.0).powi(2), 2.0 * (t - 3.0)),
            |t| (t.exp() - 20.0 * t, t.exp() - 20.0),
            // Moré & Thuente's first: -t / (t^2 + 2).
            |t| (-t / (t * t + 2.0), (t * t - 2.0) / (t * t + 2.0).powi(2)),
        ];
        for f in functions {
            for guess in [1e-3, 0.1, 1.0, 10.0, 1e3] {
                for c_2 in [0.9, 0.1] {
                    let wolfe = Wolfe { c_2, ..Wolfe::default() };
                    let (found, n) = search(f, wolfe, guess);
                    let p = found.unwrap();
                    let (f0, s0) = f(0.0);
                    assert!(p.value <= f0 + 1e-4 * p.t * s0 && p.slope.abs() <= -c_2 * s0, "{guess} {p:?}");
                    assert!(n <= 20, "{n} evaluations from {guess}");
                }
            }
        }
    }

    #[test]
    fn the_search_backs_off_from_values_that_are_not_finite() {
        let f = |t: f64| if t > 0.01 { (f64::NAN, f64::NAN) } else { (-t, -1.0) };
        let (found, _) = search(f, Wolfe::default(), 1.0);
        assert!(found.unwrap().t <= 0.01);
    }

    #[test]
    fn the_search_fails_where_no_value_is_lower() {
        // The reported slope is wrong: the function only increases.
        let (found, n) = search(|t| (t, -1.0), Wolfe::default(), 1.0);
        assert!(found.is_none() && n <= 26);
    }

    #[test]
    fn slopes_find_a_minimum_that_rounding_hides() {
        // The value is so large that the parabola on top of it is lost to rounding.
        let f = |t: f64| (1e17 + (t - 1.0).powi(2), 2.0 * (t - 1.0));
        let wolfe = Wolfe { noise: 1e-15, c_2: 0.1, ..Wolfe::default() };
        assert!((search(f, wolfe, 0.3).0.unwrap().t - 1.0).abs() < 0.11);
    }
}
