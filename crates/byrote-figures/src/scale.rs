//! Axes: map numbers to positions between 0 and 1, and choose the ticks that get labels.
//!
//! A linear axis maps `v` to `(v - lo) / (hi - lo)`; a logarithmic one does the same with `log10 v`, and cannot show
//! values at or below zero. Ticks are chosen from a list of candidates, densest first: the first whose labels do not
//! touch wins. On a logarithmic axis the candidates are the decades (every one, every second, every third, ... so that
//! a long axis reads 1, 1k, 1M), with 1-2-5 steps below three decades and plain round numbers below one.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How numbers are spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScaleKind {
    /// Equal differences are equally long.
    Linear,
    /// Equal ratios are equally long.
    Log10,
}

/// One axis of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The quantity, with its unit: "parameters", "loss (nats per prediction)".
    pub label: String,
    /// Linear or logarithmic.
    pub kind: ScaleKind,
    /// The interval to draw; by default it covers all values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
    /// Whether a linear axis begins at zero even if no value is near it.
    #[serde(default)]
    pub from_zero: bool,
    /// The names of the positions 0, 1, 2, ..., if the axis has names instead of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Axis {
    /// A linear axis that covers its values.
    pub fn linear(label: impl Into<String>) -> Self {
        let (kind, range, from_zero, names) = (ScaleKind::Linear, None, false, Vec::new());
        Axis { label: label.into(), kind, range, from_zero, names }
    }

    /// A logarithmic axis that covers its positive values.
    pub fn log(label: impl Into<String>) -> Self {
        Axis { kind: ScaleKind::Log10, ..Axis::linear(label) }
    }

    /// An axis of names, one beside the other. A value on it is the position of a name: 0, 1, 2, ...; a data file has the name.
    pub fn named<N: Into<String>>(label: impl Into<String>, names: impl IntoIterator<Item = N>) -> Self {
        Axis { names: names.into_iter().map(Into::into).collect(), ..Axis::linear(label) }
    }

    /// Draws only this interval. Lines are clipped at its ends; points outside are counted below the figure.
    pub fn range(mut self, lo: f64, hi: f64) -> Self {
        self.range = Some((lo, hi));
        self
    }

    /// Begins a linear axis at zero, so that lengths can be compared.
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }
}

/// A labelled position on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub value: f64,
    /// From 0 (start of the axis) to 1.
    pub position: f64,
    pub label: String,
}

/// The ticks of an axis; minor ticks have no label.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Ticks {
    pub major: Vec<Tick>,
    /// Positions from 0 to 1.
    pub minor: Vec<f64>,
}

/// An axis with its interval determined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    kind: ScaleKind,
    /// The ends, as logarithms on a logarithmic axis.
    lo: f64,
    hi: f64,
}

/// The room beside the outermost padded value, as a fraction of the axis.
const PADDING: f64 = 0.05;
/// The room beside the first and the last name of an axis, where the distance of two names is 1.
const BESIDE: f64 = 0.6;
/// Intervals narrower than this fraction of their own magnitude are widened, because they contain no round numbers.
const NARROW: f64 = 1e-9;

impl Scale {
    /// Determines the interval of `axis`. It covers the `tight` values exactly and leaves room beside the `padded`
    /// ones.
    pub fn cover(axis: &Axis, tight: &[f64], padded: &[f64]) -> Result<Self> {
        let kind = axis.kind;
        if let Some((lo, hi)) = axis.range {
            return Scale::fixed(axis, lo, hi);
        }
        if !axis.names.is_empty() {
            return Ok(Scale { kind, lo: -BESIDE, hi: axis.names.len() as f64 - 1.0 + BESIDE });
        }
        let ends = |values: &[f64]| {
            values.iter().filter(|v| accepts(kind, **v)).map(|v| forward(kind, *v)).fold(None, |ends, u| {
                match ends {
                    None => Some((u, u)),
                    Some((lo, hi)) => Some((f64::min(lo, u), f64::max(hi, u))),
                }
            })
        };
        let (tight, padded) = (ends(tight), ends(padded));
        let zero = kind == ScaleKind::Linear && axis.from_zero;
        let (mut lo, mut hi) = match (tight, padded) {
            (None, None) => return Ok(Scale { kind, lo: 0.0, hi: 1.0 }),
            (Some(ends), None) | (None, Some(ends)) => ends,
            (Some(a), Some(b)) => (a.0.min(b.0), a.1.max(b.1)),
        };
        let (below, above) = (lo, hi);
        if zero {
            (lo, hi) = (lo.min(0.0), hi.max(0.0));
        }
        if hi - lo <= NARROW * lo.abs().max(hi.abs()) {
            let room = match kind {
                ScaleKind::Log10 => 0.5,
                ScaleKind::Linear if lo == 0.0 => 0.5,
                ScaleKind::Linear => 0.5 * lo.abs().max(hi.abs()),
            };
            (lo, hi) = (lo - room, hi + room);
        } else if let Some(padded) = padded {
            let room = PADDING * (hi - lo);
            (lo, hi) = (lo.min(padded.0 - room), hi.max(padded.1 + room));
        }
        if zero && below >= 0.0 {
            lo = 0.0;
        }
        if zero && above <= 0.0 {
            hi = 0.0;
        }
        Ok(Scale { kind, lo, hi })
    }

    fn fixed(axis: &Axis, lo: f64, hi: f64) -> Result<Self> {
        let kind = axis.kind;
        let wrong =
            |why: &str| Err(Error::figure(format!("axis \"{}\", range {lo} to {hi}: {why}", axis.label)));
        if !(lo.abs() <= super::figure::LARGEST && hi.abs() <= super::figure::LARGEST) {
            return wrong("both ends must be finite, at most 1e300");
        }
        if !(accepts(kind, lo) && accepts(kind, hi)) {
            return wrong("a logarithmic axis needs positive ends");
        }
        let (lo, hi) = (forward(kind, lo), forward(kind, hi));
        if hi - lo <= NARROW * lo.abs().max(hi.abs()) {
            return wrong("the first end must be clearly below the second");
        }
        Ok(Scale { kind, lo, hi })
    }

    /// Whether this kind of axis can show a value.
    pub fn accepts(&self, value: f64) -> bool {
        accepts(self.kind, value)
    }

    /// Whether a value lies in the drawn interval.
    pub fn contains(&self, value: f64) -> bool {
        self.accepts(value) && (-1e-9..=1.0 + 1e-9).contains(&self.position(value))
    }

    /// The labelled ticks at these values, or every n-th of them if not all fit.
    pub fn ticks_at(&self, values: &[f64], fits: &dyn Fn(&[Tick]) -> bool) -> Ticks {
        let all: Vec<Tick> = values.iter().map(|v| self.tick(*v, number(*v))).collect();
        let every = |n: usize| all.iter().step_by(n).cloned().collect::<Vec<_>>();
        let major = (1..=all.len().max(1)).map(every).find(|some| fits(some)).unwrap_or_default();
        Ticks { major, minor: Vec::new() }
    }

    /// The ticks of an axis with names, or of every n-th name if not all fit.
    pub fn named_ticks(&self, names: &[String], fits: &dyn Fn(&[Tick]) -> bool) -> Ticks {
        let all: Vec<Tick> =
            names.iter().enumerate().map(|(i, name)| self.tick(i as f64, name.clone())).collect();
        let every = |n: usize| all.iter().step_by(n).cloned().collect::<Vec<_>>();
        let major = (1..=all.len().max(1)).map(every).find(|some| fits(some)).unwrap_or_default();
        Ticks { major, minor: Vec::new() }
    }

    /// The position of a value: 0 at the start of the axis, 1 at its end, and beyond these outside it.
    pub fn position(&self, value: f64) -> f64 {
        (forward(self.kind, value) - self.lo) / (self.hi - self.lo)
    }

    /// The ends of the drawn interval.
    pub fn ends(&self) -> (f64, f64) {
        match self.kind {
            ScaleKind::Linear => (self.lo, self.hi),
            ScaleKind::Log10 => (10f64.powf(self.lo), 10f64.powf(self.hi)),
        }
    }

    /// The densest candidate whose labels fit.
    pub fn ticks(&self, fits: &dyn Fn(&[Tick]) -> bool) -> Ticks {
        let mut last = Ticks::default();
        for candidate in self.candidates() {
            if candidate.major.len() >= 2 && fits(&candidate.major) {
                return candidate;
            }
            if !candidate.major.is_empty() {
                last = candidate;
            }
        }
        // If not even two labels fit, one is better than a collision.
        last.major.truncate(1);
        last
    }

    /// Densest first.
    fn candidates(&self) -> Vec<Ticks> {
        let span = self.hi - self.lo;
        match self.kind {
            ScaleKind::Log10 if span >= 1.0 => {
                let mut list = Vec::new();
                if span <= 3.0 {
                    list.push(self.multiples());
                }
                // On a long axis every third decade reads better than every second: 1, 1k, 1M.
                let strides = [1, 2, 3, 6, 9, 12, 15, 30, 60, 120, 300].into_iter();
                list.extend(strides.filter(|s| *s != 2 || span < 9.0).map(|stride| self.decades(stride)));
                list
            }
            _ => [10, 8, 6, 5, 4, 3, 2, 1].map(|n| self.round_numbers(n)).into(),
        }
    }

    fn tick(&self, value: f64, label: String) -> Tick {
        Tick { value, position: self.position(value), label }
    }

    /// Multiples of 1, 2, 2.5 or 5 times a power of ten, about `n` of them.
    fn round_numbers(&self, n: u32) -> Ticks {
        let (lo, hi) = self.ends();
        let raw = (hi - lo) / f64::from(n);
        let power = power_of_ten(raw.log10().floor() as i32);
        let step = [1.0, 2.0, 2.5, 5.0].iter().map(|m| m * power).find(|s| *s >= raw * (1.0 - 1e-9));
        let step = step.unwrap_or(10.0 * power);
        let (first, last) = ((lo / step - 1e-9).ceil() as i64, (hi / step + 1e-9).floor() as i64);
        let largest = step * first.abs().max(last.abs()) as f64;
        let major = (first..=last).map(|i| i as f64 * step).filter(|v| self.accepts(*v));
        Ticks { major: major.map(|v| self.tick(v, label(v, step, largest))).collect(), minor: Vec::new() }
    }

    /// The powers of ten inside whose exponent is a multiple of `stride`.
    fn decades(&self, stride: i32) -> Ticks {
        let exponents = (self.lo - 1e-9).ceil() as i32..=(self.hi + 1e-9).floor() as i32;
        let major: Vec<Tick> = exponents
            .clone()
            .filter(|e| e % stride == 0)
            .map(|e| self.tick(power_of_ten(e), label(power_of_ten(e), power_of_ten(e), power_of_ten(e))))
            .collect();
        let minor = if stride > 1 {
            exponents.filter(|e| e % stride != 0).map(|e| self.position(power_of_ten(e))).collect()
        } else if self.hi - self.lo <= 10.0 {
            self.between_decades(&[2, 3, 4, 5, 6, 7, 8, 9]).map(|(v, _)| self.position(v)).collect()
        } else {
            Vec::new()
        };
        Ticks { major, minor }
    }

    /// 1, 2 and 5 in every decade.
    fn multiples(&self) -> Ticks {
        let major =
            self.between_decades(&[1, 2, 5]).map(|(v, power)| self.tick(v, label(v, power, v))).collect();
        let minor = self.between_decades(&[3, 4, 6, 7, 8, 9]).map(|(v, _)| self.position(v)).collect();
        Ticks { major, minor }
    }

    /// The multiples of powers of ten in the interval, each with its power.
    fn between_decades<'a>(&'a self, digits: &'a [i32]) -> impl Iterator<Item = (f64, f64)> + 'a {
        (self.lo.floor() as i32..=self.hi.floor() as i32)
            .flat_map(move |e| digits.iter().map(move |m| (f64::from(*m) * power_of_ten(e), power_of_ten(e))))
            .filter(|(v, _)| self.contains(*v))
    }
}

fn accepts(kind: ScaleKind, value: f64) -> bool {
    kind == ScaleKind::Linear || value > 0.0
}

pub(super) fn forward(kind: ScaleKind, value: f64) -> f64 {
    match kind {
        ScaleKind::Linear => value,
        ScaleKind::Log10 => value.log10(),
    }
}

/// The double nearest to a power of ten: `powi` is off by a unit in the last place for many exponents.
fn power_of_ten(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().unwrap_or_else(|_| 10f64.powi(exponent))
}

/// A number short enough for a sentence: "2,637", "0.0313", "4e-7".
pub(super) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let step = power_of_ten(value.abs().log10().floor() as i32 - 3);
    label(value, step, value.abs())
}

/// A number with two digits, for tight places: "0.12", "34", "1.2k", "5e-7".
pub(super) fn brief(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let exponent = value.abs().log10().floor() as i32;
    if exponent >= -3 {
        return label(value, power_of_ten(exponent - 1), 1.0);
    }
    let text = format!("{:.1e}", value.abs());
    let text = text.replacen(".0e", "e", 1);
    if value < 0.0 { format!("\u{2212}{text}") } else { text }
}

/// The label of a tick, exact to its `step`: 0.5, 20, 1k, 2.5k, 1M, 1B, 1T, 5e-5.
///
/// `largest` is the largest magnitude on the axis; it decides whether all ticks use scientific notation.
fn label(value: f64, step: f64, largest: f64) -> String {
    let size = value.abs();
    if size < step * 1e-6 {
        return "0".into();
    }
    let units = [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")];
    let (unit, suffix) = units.into_iter().find(|(u, _)| size >= u * (1.0 - 1e-9)).unwrap_or((1.0, ""));
    let digits = decimals(step / unit);
    let body = if size >= 1e15 * (1.0 - 1e-9) || (largest < 0.01 && digits >= 4) {
        let digits = size.log10().floor() - step.log10().floor() + 1.0;
        let text = format!("{:.*e}", digits.clamp(0.0, 15.0) as usize, size);
        match text.split_once('e') {
            Some((mantissa, exponent)) => format!("{}e{exponent}", trim(mantissa)),
            None => text,
        }
    } else if unit > 1.0 && digits > 2 {
        grouped(size, decimals(step))
    } else {
        format!("{}{suffix}", trim(&format!("{:.*}", digits, size / unit)))
    };
    if value < 0.0 { format!("\u{2212}{body}") } else { body }
}

/// The smallest number of decimals that writes `step` exactly.
fn decimals(step: f64) -> usize {
    (0..18)
        .find(|d| {
            let shifted = step * power_of_ten(*d);
            shifted >= 0.5 && (shifted - shifted.round()).abs() < 1e-6 * shifted
        })
        .unwrap_or(18) as usize
}

/// Removes trailing zeros of the fraction.
fn trim(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// Digits in groups of three: 1,234,567.
fn grouped(size: f64, decimals: usize) -> String {
    let text = format!("{size:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { out } else { format!("{out}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, most: usize) -> Vec<String> {
        let scale = Scale::cover(axis, &[], &[]).unwrap();
        scale.ticks(&|ticks| ticks.len() <= most).major.into_iter().map(|t| t.label).collect()
    }

    #[test]
    fn a_log_axis_of_a_few_decades_is_labelled_at_every_decade() {
        assert_eq!(
            labels(&Axis::log("").range(1.0, 1e9), 12),
            ["1", "10", "100", "1k", "10k", "100k", "1M", "10M", "100M", "1B"]
        );
        assert_eq!(
            labels(&Axis::log("").range(1e-5, 1.0), 12),
            ["1e-5", "1e-4", "0.001", "0.01", "0.1", "1"]
        );
    }

    #[test]
    fn a_long_log_axis_steps_over_decades_on_round_suffixes() {
        assert_eq!(labels(&Axis::log("").range(1.0, 1e13), 5), ["1", "1k", "1M", "1B", "1T"]);
        assert_eq!(labels(&Axis::log("").range(1e-30, 1e30), 5), ["1e-24", "1e-12", "1", "1T", "1e24"]);
    }

    #[test]
    fn short_log_ranges_use_1_2_5_and_then_round_numbers() {
        assert_eq!(labels(&Axis::log("").range(9.0, 130.0), 12), ["10", "20", "50", "100"]);
        assert_eq!(labels(&Axis::log("").range(2100.0, 2900.0), 5), ["2.2k", "2.4k", "2.6k", "2.8k"]);
        assert_eq!(labels(&Axis::log("").range(2636.0, 2639.5), 5), ["2,636", "2,637", "2,638", "2,639"]);
    }

    #[test]
    fn linear_ticks_are_round_and_written_without_noise() {
        assert_eq!(labels(&Axis::linear("").range(0.0, 1.0), 6), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(
            labels(&Axis::linear("").range(-0.3, 0.31), 8),
            ["−0.3", "−0.2", "−0.1", "0", "0.1", "0.2", "0.3"]
        );
        assert_eq!(labels(&Axis::linear("").range(0.0, 10_000.0), 5), ["0", "2.5k", "5k", "7.5k", "10k"]);
        assert_eq!(labels(&Axis::linear("").range(0.0, 2e-4), 5), ["0", "5e-5", "1e-4", "1.5e-4", "2e-4"]);
        assert_eq!(
            labels(&Axis::linear("").range(1e6, 1e6 + 4.0), 5),
            ["1,000,000", "1,000,001", "1,000,002", "1,000,003", "1,000,004"]
        );
    }

    #[test]
    fn ticks_lie_inside_and_in_order_whatever_the_range() {
        let ranges =
            [(1e-300, 1e300), (1.0, 1.001), (3.7, 41.0), (0.99, 1.01), (5e-324, 1e-300), (7.0, 7.1e9)];
        for (lo, hi) in ranges {
            for axis in [Axis::log(""), Axis::linear("")] {
                let scale = Scale::cover(&axis.range(lo, hi), &[], &[]).unwrap();
                let ticks = scale.ticks(&|t| t.len() <= 8).major;
                assert!(ticks.len() >= 2, "{lo} {hi} {ticks:?}");
                assert!(ticks.iter().all(|t| scale.contains(t.value)), "{ticks:?}");
                assert!(ticks.windows(2).all(|w| w[0].position < w[1].position && w[0].label != w[1].label));
            }
        }
    }

    #[test]
    fn one_value_no_value_and_only_bad_values_still_give_an_axis() {
        let ends = |axis: Axis, values: &[f64]| Scale::cover(&axis, values, values).unwrap().ends();
        let (lo, hi) = ends(Axis::log(""), &[1000.0]);
        assert!((lo - 316.2).abs() < 0.1 && (hi - 3162.3).abs() < 0.1);
        assert_eq!(ends(Axis::linear(""), &[4.0]), (2.0, 6.0));
        assert_eq!(ends(Axis::linear(""), &[0.0]), (-0.5, 0.5));
        assert_eq!(ends(Axis::log(""), &[-1.0, 0.0]), (1.0, 10.0));
        assert_eq!(ends(Axis::linear("").from_zero(), &[2.0, 4.0]), (0.0, 4.2));
    }

    #[test]
    fn impossible_ranges_are_refused() {
        for axis in [
            Axis::log("x").range(0.0, 1.0),
            Axis::linear("x").range(1.0, 1.0),
            Axis::linear("x").range(2.0, 1.0),
            Axis::linear("x").range(f64::NAN, 1.0),
            Axis::linear("x").range(0.0, f64::INFINITY),
        ] {
            assert!(matches!(Scale::cover(&axis, &[], &[]), Err(Error::Figure(_))));
        }
    }

    #[test]
    fn names_stand_at_whole_positions_and_thin_out_where_they_do_not_fit() {
        let axis = Axis::named("group", ["a", "b", "c", "d"]);
        let scale = Scale::cover(&axis, &[], &[]).unwrap();
        let labels = |most: usize| -> Vec<(f64, String)> {
            let ticks = scale.named_ticks(&axis.names, &|t| t.len() <= most).major;
            ticks.into_iter().map(|t| (t.value, t.label)).collect()
        };
        assert_eq!(labels(4).len(), 4);
        assert_eq!(labels(3), [(0.0, "a".into()), (2.0, "c".into())]);
        assert_eq!(scale.ends(), (-0.6, 3.6));
    }

    #[test]
    fn small_places_get_two_digits() {
        let values = [0.0, 0.00455, 0.001, -0.25, 9.96, 34.4, 1234.0, 5.04e-7, 1e-4, 7.77e16];
        assert_eq!(
            values.map(brief),
            ["0", "0.0046", "0.001", "−0.25", "10", "34", "1.2k", "5e-7", "1e-4", "7.77e16"]
        );
    }
}
