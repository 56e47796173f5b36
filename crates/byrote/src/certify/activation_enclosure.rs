//! Elementary functions with proven errors.
//!
//! The line is divided into cells of width 1/16. A cell holds the Taylor coefficients of the function at its centre c, to degree
//! 16, computed with 256 bits ([`crate::num::precise`]) and rounded to doubles, and a bound E on all errors for |t| <= 1/32,
//! where t = z - c is exact (z and c are multiples of the same power of two, and t is smaller than both, or c is 0):
//!
//! ```text
//! E = M (h / rho)^17 / (1 - h / rho)      truncation of the series (Cauchy: |f| <= M on the disc of radius rho around c)
//!   + sum_k |a_k - fl(a_k)| h^k           rounded coefficients
//!   + e_0                                 Horner's rule: e_k = u Q_k + h (e_(k+1) + u Q_(k+1)), Q_k = |a_k| + h Q_(k+1)
//! ```
//!
//! with h = 1/32, u = 2^-53. Discs and bounds:
//!
//! | function | rho | M | because |
//! |---|---|---|---|
//! | tanh | 1 | 1.6 | poles at +-i pi/2; on abs(Im z) <= 1, abs(tanh z) <= tan 1 |
//! | logistic | 2 | 1.2 | poles at +-i pi; on abs(Im z) <= 2, abs(1 + e^-z) >= sin 2 |
//! | normal | 1 | 1.7 | entire; 1 + the integral of the density over a path of length 1 with abs(Im z) <= 1 |
//! | erf | 1 | 4.1 | entire; 1 + 2 e / sqrt(pi) |
//! | arctan, abs(c) <= 1 | 1/2 | 3 | poles at +-i; abs(1 + z^2) >= 1/4 on the disc |
//! | exp, abs(c) <= 1/2 | 1 | 4.5 | entire; e^1.5 |
//!
//! Beyond the tables: 1 - tanh z < 2 e^-2z, 1 - logistic z < e^-z, 1 - Phi(z) < phi(z) / z, erfc z < e^-z^2 / (z sqrt(pi)),
//! and arctan z = pi/2 - arctan(1/z).
//!
//! If the argument is only known to within a radius, the radius times the largest slope is added.

use super::floating::{ACTIVATION_UNITS, Errors, FORMATS, WIDER};
use super::interval::Interval;
use crate::model::Activation;
use crate::num::precise::{Dyadic, IBig, Precise, to_f64};
use dashu_base::Abs;
use std::sync::OnceLock;

/// Bits after the point of the numbers from which the tables are computed.
const BITS: usize = 256;
const DEGREE: usize = 16;
/// Cells per unit.
const CELLS: i64 = 16;
/// Half the width of a cell.
const HALF: f64 = 1.0 / 32.0;
/// The unit roundoff.
const U: f64 = f64::EPSILON / 2.0;

/// One cell of the line.
struct Cell {
    coefficients: [f64; DEGREE + 1],
    error: f64,
}

/// The cells of a function around 0.
struct Table {
    /// Cells from -last to last.
    last: i64,
    cells: Vec<Cell>,
}

impl Table {
    /// A table for |z| <= `to`, of a function whose Taylor coefficients at a point are given in units of 2^-256, bounded by
    /// `most` on discs of radius `rho`.
    fn new(to: f64, rho: f64, most: f64, series: impl Fn(&Precise, &Dyadic) -> Vec<IBig>) -> Self {
        let last = (to * CELLS as f64).ceil() as i64;
        let precise = Precise::new(BITS);
        let centre = |j: i64| Dyadic::from(j as f64 / CELLS as f64);
        let cells = (-last..=last).map(|j| Cell::new(&series(&precise, &centre(j)), rho, most)).collect();
        Self { last, cells }
    }

    /// The value at a z within the table, and a bound on its error.
    fn value(&self, z: f64) -> (f64, f64) {
        let j = (z * CELLS as f64).round();
        let cell = &self.cells[(j as i64 + self.last) as usize];
        let t = z - j / CELLS as f64;
        let [rest @ .., top] = &cell.coefficients;
        (rest.iter().rev().fold(*top, |sum, a| sum * t + a), cell.error)
    }
}

impl Cell {
    fn new(series: &[IBig], rho: f64, most: f64) -> Self {
        let mut coefficients = [0.0; DEGREE + 1];
        let ratio = HALF / rho;
        let mut error = most * ratio.powi(DEGREE as i32 + 1) / (1.0 - ratio);
        let mut power = 1.0;
        for (a, exact) in coefficients.iter_mut().zip(series) {
            *a = to_f64(exact, BITS);
            let off = (exact - Dyadic::from(*a).floor(BITS)).abs();
            // 2^-200 covers the error of the coefficient itself: the first is within one unit of 2^-256, and a step of the
            // recurrence multiplies the error by at most 40 / (n + 1).
            error += power * (to_f64(&off, BITS) + 2f64.powi(-200));
            power *= HALF;
        }
        let (mut size, mut rounding) = (0.0, 0.0);
        for a in coefficients.iter().rev() {
            let (above, error_above) = (size, rounding);
            size = a.abs() + HALF * above;
            rounding = U * size + HALF * (error_above + U * above);
        }
        // Computing the bound takes a few dozen roundings.
        Self { coefficients, error: (error + rounding) * (1.0 + 1e-12) }
    }
}

/// a_(n+1) = next(n, a_0..a_n) / (n + 1), up to the degree of the tables.
fn recurrence(first: IBig, next: impl Fn(usize, &[IBig]) -> IBig) -> Vec<IBig> {
    let mut a = vec![first];
    for n in 0..DEGREE {
        let following = next(n, &a) / (n as u32 + 1);
        a.push(following);
    }
    a
}

/// The coefficient of t^n in the square of a series.
fn square(a: &[IBig], n: usize) -> IBig {
    (0..=n).map(|i| &a[i] * &a[n - i]).sum::<IBig>() >> BITS
}

/// The series whose value is `value` and whose derivative is `slope`.
fn integral(value: IBig, slope: &[IBig]) -> Vec<IBig> {
    recurrence(value, |n, _| slope[n].clone())
}

/// The coefficient before the n-th, or 0.
fn before(a: &[IBig], n: usize) -> IBig {
    if n == 0 { IBig::ZERO } else { a[n - 1].clone() }
}

fn tanh_table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        // f' = 1 - f^2
        Table::new(20.0, 1.0, 1.6, |precise, c| {
            recurrence(precise.tanh(c), |n, a| {
                let one = if n == 0 { IBig::ONE << BITS } else { IBig::ZERO };
                one - square(a, n)
            })
        })
    })
}

fn logistic_table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        // f' = f - f^2
        Table::new(40.0, 2.0, 1.2, |precise, c| recurrence(precise.logistic(c), |n, a| &a[n] - square(a, n)))
    })
}

/// g' = -s x g: (n + 1) g_(n+1) = -s (c g_n + g_(n-1)).
fn gaussian(c: &Dyadic, value: IBig, s: u32) -> Vec<IBig> {
    let c = c.floor(BITS);
    recurrence(value, |n, g| -(((&c * &g[n]) >> BITS) + before(g, n)) * s)
}

fn normal_table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        Table::new(9.5, 1.0, 1.7, |precise, c| {
            integral(precise.normal(c), &gaussian(c, precise.density(c, 1), 1))
        })
    })
}

fn erf_table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        // f' = 2 / sqrt(pi) e^(-x^2)
        Table::new(7.0, 1.0, 4.1, |precise, c| {
            integral(precise.erf(c), &gaussian(c, precise.density(c, 2) << 1, 2))
        })
    })
}

fn arctan_table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        // f' = g with (1 + (c + t)^2) g = 1: g_(n+1) = -(2 c g_n + g_(n-1)) / (1 + c^2).
        Table::new(1.0, 0.5, 3.0, |precise, c| {
            let (twice, below) = (c.floor(BITS + 1), c.times(c).plus(&Dyadic::from(1.0)).floor(BITS));
            let mut slope = vec![(IBig::ONE << (2 * BITS)) / &below];
            for n in 0..DEGREE {
                let sum = ((&twice * &slope[n]) >> BITS) + before(&slope, n);
                slope.push(-(sum << BITS) / &below);
            }
            integral(precise.arctan(c), &slope)
        })
    })
}

fn exp_table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        Table::new(0.5, 1.0, 4.5, |precise, c| recurrence(precise.exp(c), |n, a| a[n].clone()))
    })
}

/// An activation with enclosures.
#[derive(Debug, Clone, Copy)]
pub struct EnclosedActivation(Activation);

impl EnclosedActivation {
    /// The function of an activation.
    pub fn of(activation: Activation) -> Self {
        Self(activation)
    }

    /// Encloses the values at all points within `radius` of z: a double, and a bound on their distance from it.
    pub fn enclose(self, z: f64, radius: f64) -> (f64, f64) {
        if !(z.is_finite() && radius.is_finite()) {
            return (0.0, f64::INFINITY);
        }
        // Arguments are at least this far from 0.
        let away = (z.abs() - radius).next_down();
        let (value, error) = match self.0 {
            Activation::Tanh if away >= 19.0 => (1f64.copysign(z), 6.4e-17), // 2 e^-38 = 6.28e-17
            Activation::Logistic if away >= 38.0 => (f64::from(u8::from(z > 0.0)), 3.2e-17), // e^-38 = 3.14e-17
            Activation::Erf if away >= 6.5 => (1f64.copysign(z), 4e-20), // e^-42.25 / (6.5 sqrt(pi)) = 3.9e-20
            Activation::Tanh => {
                // sech^2 = 1 - tanh^2, and tanh is at least this over the whole interval.
                let (value, error) = tanh(z);
                let least = (value.abs() - error - radius - U).max(0.0);
                smooth(radius, (value, error), 1.0 - least * least + 2.0 * U)
            }
            Activation::Logistic => smooth(radius, logistic(z), 0.25),
            Activation::Erf => smooth(radius, erf(z), 1.13),
            Activation::Arctan => smooth(radius, arctan(z), 1.0),
            Activation::Relu => (z.max(0.0), radius),
            Activation::Gelu => {
                let (p, error) = normal(z);
                let value = z * p;
                smooth(radius, (value, z.abs() * error + U * value.abs()), 1.13)
            }
            Activation::Silu => {
                let (s, error) = logistic(z);
                let value = z * s;
                smooth(radius, (value, z.abs() * error + U * value.abs()), 1.1)
            }
            Activation::GeluTanh => {
                let (centre, spread) = gelu_tanh_argument(z).ball();
                let (t, error) = EnclosedActivation(Activation::Tanh).enclose(centre, spread);
                let part = Interval::exact(0.5 * z) * (Interval::exact(1.0) + Interval::around(t, error));
                let (value, error) = part.ball();
                smooth(radius, (value, error), 1.13)
            }
        };
        // Computing the bounds takes a few roundings, and may underflow.
        (value, error * (1.0 + 16.0 * U) + f64::MIN_POSITIVE)
    }
}

impl EnclosedActivation {
    /// Bounds on the errors of computed values of the function at an argument that lies within `radius` of z exactly, and is
    /// computed with these errors: the largest slope between the two times the error of the argument, and the error of the
    /// function itself ([`super::floating`]).
    pub fn errors(self, z: f64, radius: f64, errors: Errors) -> Errors {
        let mut out = errors;
        for (error, format) in out.iter_mut().zip(&FORMATS) {
            let reach = (radius + *error) * WIDER;
            let units = ACTIVATION_UNITS * format.unit;
            let own = match self.0 {
                Activation::Relu => 0.0,
                Activation::Arctan => 2.0 * units,
                Activation::Tanh | Activation::Logistic | Activation::Erf => units,
                Activation::Gelu | Activation::GeluTanh | Activation::Silu => {
                    units * (z.abs() + reach).max(1.0)
                }
            };
            let total = (self.slope(z, reach) * *error + own + 4.0 * format.smallest) * WIDER;
            *error = if total.is_finite() { total } else { f64::INFINITY };
        }
        out
    }

    /// An upper bound on the absolute value of the slope within `reach` of z.
    fn slope(self, z: f64, reach: f64) -> f64 {
        // Arguments are at least this far from 0.
        let away = (z.abs() - reach).max(0.0);
        match self.0 {
            Activation::Relu => f64::from(u8::from(z + reach > 0.0)),
            Activation::Arctan => 1.0 / (1.0 + away * away),
            // sech^2 x < 4 e^-2x, and s (1 - s) < e^-x.
            Activation::Tanh => (4.0 * exp_below(2.0 * away)).min(1.0),
            Activation::Logistic => exp_below(away).min(0.25),
            Activation::Erf => 1.13 * exp_below(away * away),
            // Below -8: Phi(x) + x phi(x), and its approximation, are smaller than 1e-12 in absolute value.
            Activation::Gelu | Activation::GeluTanh if z + reach < -8.0 => 1e-12,
            Activation::Gelu | Activation::GeluTanh => 1.13,
            // The largest slope is 1.0998..., at 2.3994; below -40, |s + x s (1 - s)| < 40 e^-40.
            Activation::Silu if z + reach < -40.0 => 1e-12,
            Activation::Silu => 1.1,
        }
    }
}

/// e^-k for k up to 64, rounded up in the first power; 63 products cost less than 1e-14.
static POWERS: [f64; 65] = {
    let mut powers = [1.0; 65];
    let mut k = 1;
    while k < powers.len() {
        powers[k] = powers[k - 1] * 0.367_879_441_171_442_4;
        k += 1;
    }
    powers
};

/// An upper bound of e^-x for x >= 0, within a factor of e up to 64.
fn exp_below(x: f64) -> f64 {
    POWERS[x.min(64.0) as usize] * (1.0 + 1e-13)
}

/// Adds the effect of the radius of the argument.
fn smooth(radius: f64, (value, error): (f64, f64), slope: f64) -> (f64, f64) {
    (value, error + slope * radius)
}

fn tanh(z: f64) -> (f64, f64) {
    if z.abs() > 19.5 { (1f64.copysign(z), 6.4e-17) } else { tanh_table().value(z) }
}

fn logistic(z: f64) -> (f64, f64) {
    if z.abs() > 39.0 { (f64::from(u8::from(z > 0.0)), 3.2e-17) } else { logistic_table().value(z) }
}

fn erf(z: f64) -> (f64, f64) {
    if z.abs() > 6.5 { (1f64.copysign(z), 4e-20) } else { erf_table().value(z) }
}

/// Phi(z). Beyond 9, z times the tail decreases, so the tail is bounded by phi(9) / z.
fn normal(z: f64) -> (f64, f64) {
    if z.abs() <= 9.0 {
        normal_table().value(z)
    } else if z > 0.0 {
        // |z| (1 - Phi(z)) < phi(z) <= phi(9) = 1.03e-18, so 1 - Phi(z) is below this by z.
        (1.0, 1.1e-18 / z)
    } else {
        (0.0, 1.1e-18 / -z)
    }
}

fn arctan(z: f64) -> (f64, f64) {
    let size = z.abs();
    if size <= 1.0 {
        return arctan_table().value(z);
    }
    // 1 / z is off by u / z at most; the slope of arctan is at most 1.
    let (value, error) = arctan_table().value(1.0 / size);
    let half_pi = std::f64::consts::FRAC_PI_2;
    let result = half_pi - value;
    // pi / 2 is off by less than u; the difference is rounded once more.
    ((result).copysign(z), error + U / size + U + U * 2.0)
}

/// sqrt(2 / pi) (z + 0.044715 z^3).
fn gelu_tanh_argument(z: f64) -> Interval {
    // The double nearest to each constant, and the neighbours around it.
    let constant = |x: f64| Interval { lo: x.next_down(), hi: x.next_up() };
    let z = Interval::exact(z);
    let cubic = constant(0.044715) * z * z * z;
    constant(0.797_884_560_802_865_4) * (z + cubic)
}

/// e^x for x in an interval.
pub fn exp(x: Interval) -> Interval {
    Interval { lo: exp_of(x.lo).lo, hi: exp_of(x.hi).hi }
}

/// e^x. With k = round(x / ln 2) and r = x - k ln 2, e^x = 2^k e^r. ln 2 is taken in two parts: a multiple of the first by
/// k is exact, and the subtraction of it is too; the rest is off by less than u (|k| 2^-54 + |r|).
fn exp_of(x: f64) -> Interval {
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8; // 33 bits
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    if x.is_nan() {
        return Interval::ALL;
    }
    if x > 709.0 {
        return Interval { lo: 8e307, hi: f64::INFINITY };
    }
    if x < -700.0 {
        return Interval { lo: 0.0, hi: 1e-304 };
    }
    let k = (x * std::f64::consts::LOG2_E).round();
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    let (value, error) = exp_table().value(r);
    // e^r lies between 0.7 and 1.42; r is off by less than u.
    let relative = error / value + 2.0 * U;
    let scale = 2f64.powi(k as i32);
    Interval { lo: scale * value * (1.0 - 2.0 * relative), hi: scale * value * (1.0 + 2.0 * relative) }
}

/// An upper bound of ln x for x > 0: a double whose exponential is proven to be at least x. Like [`exp`], it is coarse at the
/// ends of the range.
pub fn ln_above(x: f64) -> f64 {
    if x < 1e-300 {
        return -690.0; // e^-690 = 2.2e-300
    }
    if x > 8e307 {
        return if x.is_finite() { 710.0 } else { f64::INFINITY }; // e^710 = 2.2e308
    }
    let mut y = x.ln();
    let step = 4.0 * U * y.abs().max(1.0);
    while y.is_finite() && exp_of(y).lo < x {
        y += step;
    }
    if y.is_nan() { f64::INFINITY } else { y }
}

/// The oracle of the tests, within 2^-bits.
#[cfg(test)]
pub(super) fn exact(activation: Activation, x: &Dyadic, bits: usize) -> Dyadic {
    // Beyond this the tails are below e^-2000.
    let far = x.abs() > Dyadic::from(64.0);
    match activation {
        Activation::Gelu | Activation::GeluTanh if far => x.clone().max(Dyadic::from(0.0)),
        _ => Dyadic::new(activation.precise(&Precise::new(bits), x), -(bits as isize)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(activation: Activation, z: f64) -> (f64, f64) {
        check_to(activation, z, BITS)
    }

    /// The oracle itself is off by one unit of 2^-bits at most.
    fn check_to(activation: Activation, z: f64, bits: usize) -> (f64, f64) {
        let (value, error) = EnclosedActivation::of(activation).enclose(z, 0.0);
        let off = exact(activation, &Dyadic::from(z), bits).minus(&Dyadic::from(value)).abs();
        assert!(
            off <= Dyadic::from(error).plus(&Dyadic::new(IBig::ONE, -(bits as isize))),
            "{activation} {z:e}: {value:e} is off by {:e}, not {error:e}",
            off.to_f64()
        );
        (value, error)
    }

    #[test]
    fn enclosures_hold_at_the_ends_of_cells_and_are_tight() {
        for activation in Activation::ALL {
            let mut worst: f64 = 0.0;
            for j in -640i32..=640 {
                for z in
                    [f64::from(j) / 32.0, (f64::from(j) / 32.0).next_up(), (f64::from(j) / 32.0).next_down()]
                {
                    let (value, error) = check(activation, z);
                    worst = worst.max(error / value.abs().max(1.0));
                }
            }
            // The argument of the tanh inside is an interval itself.
            let most = if activation == Activation::GeluTanh { 4e-15 } else { 1e-15 };
            assert!(worst < most, "{activation}: {worst:e}");
        }
    }

    #[test]
    fn arguments_that_are_not_finite_have_no_enclosure() {
        for activation in Activation::ALL {
            for (z, radius) in [(f64::NAN, 0.0), (f64::INFINITY, 0.0), (0.0, f64::INFINITY), (1.0, f64::NAN)]
            {
                assert_eq!(EnclosedActivation::of(activation).enclose(z, radius).1, f64::INFINITY);
            }
        }
        assert_eq!(exp(Interval::ALL), Interval { lo: 0.0, hi: f64::INFINITY });
        assert_eq!(exp_of(f64::NAN), Interval::ALL);
    }

    #[test]
    fn logarithms_end_at_the_ends_of_the_range() {
        for x in [f64::MIN_POSITIVE, 5e-324, 1e-301, 1e-299, 1.0, 7e307, 8.5e307, f64::MAX] {
            let above = ln_above(x);
            assert!(above >= x.ln() && above < x.ln() + 60.0, "{x:e}: {above}");
        }
        assert_eq!(ln_above(f64::INFINITY), f64::INFINITY);
        assert_eq!(ln_above(f64::NAN), f64::INFINITY);
    }

    #[test]
    fn the_smallest_numbers_are_covered_too() {
        // x / 2 is not a double: it becomes 0 or is rounded up.
        for z in [5e-324, -5e-324, 1.5e-323, 1e-310, f64::MIN_POSITIVE] {
            for activation in Activation::ALL {
                let (_, error) = check_to(activation, z, 1200);
                assert!(error >= f64::MIN_POSITIVE, "{activation} {z:e}");
            }
        }
    }

    proptest! {
        #[test]
        fn enclosures_hold(z in -12.0f64..12.0, small in -1e-3f64..1e-3) {
            for activation in Activation::ALL {
                check(activation, z);
                check(activation, small);
            }
        }

        #[test]
        fn a_radius_covers_its_points(z in -9.0f64..9.0, radius in 0.0f64..2.0, at in -1.0f64..1.0) {
            let point = z + at * radius;
            for activation in Activation::ALL {
                let (value, error) = EnclosedActivation::of(activation).enclose(z, radius * (1.0 + 1e-15));
                let off = exact(activation, &Dyadic::from(point), BITS).minus(&Dyadic::from(value)).abs();
                prop_assert!(off <= Dyadic::from(error), "{activation} {z} {radius} {at}");
            }
        }

        #[test]
        fn far_arguments_hold(z in prop_oneof![-1e6f64..-12.0, 12.0f64..1e6]) {
            for activation in [Activation::Tanh, Activation::Logistic, Activation::Erf] {
                let (value, error) = EnclosedActivation::of(activation).enclose(z, 0.5);
                let end = if z > 0.0 { 1.0 } else if activation == Activation::Logistic { 0.0 } else { -1.0 };
                prop_assert!((value - end).abs() <= error.max(1e-5), "{activation} {z}");
            }
            let (value, error) = EnclosedActivation::of(Activation::Gelu).enclose(z, 0.0);
            prop_assert!((value - z.max(0.0)).abs() <= error && error < 1e-9);
            prop_assert!((arctan(z).0 - z.atan()).abs() < 1e-15);
        }

        #[test]
        fn exponentials_and_logarithms_hold(x in -30.0f64..30.0) {
            let value = Dyadic::new(Precise::new(BITS).exp(&Dyadic::from(x)), -(BITS as isize));
            let found = exp_of(x);
            prop_assert!(Dyadic::from(found.lo) <= value && value <= Dyadic::from(found.hi));
            prop_assert!((found.hi - found.lo) / found.hi < 3e-15);
            // ln of what exp gives is at least x.
            let above = ln_above(found.hi);
            prop_assert!(above >= x && above < x + 1e-14 * x.abs().max(1.0), "{above} {x}");
        }
    }
}
