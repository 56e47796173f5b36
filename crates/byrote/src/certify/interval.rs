//! Intervals with outward rounding.
//!
//! IEEE 754 rounds a sum, product, quotient or root to a nearest double, so the neighbours below and above the result
//! enclose the exact value. An operation on intervals takes the smallest and the largest result over their ends and moves
//! each to its outer neighbour.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A closed interval of real numbers. An infinite end means that nothing is known on that side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub lo: f64,
    /// The upper end.
    pub hi: f64,
}

impl Interval {
    /// The whole line: nothing is known.
    pub const ALL: Interval = Interval { lo: f64::NEG_INFINITY, hi: f64::INFINITY };

    /// The interval of one number that is known exactly.
    pub const fn exact(x: f64) -> Self {
        Self { lo: x, hi: x }
    }

    /// The numbers within `radius` of `centre`.
    pub fn around(centre: f64, radius: f64) -> Self {
        Self { lo: (centre - radius).next_down(), hi: (centre + radius).next_up() }.checked()
    }

    /// The interval with its ends rounded outwards, or the whole line if an end is NaN.
    fn outward(lo: f64, hi: f64) -> Self {
        Self { lo: lo.next_down(), hi: hi.next_up() }.checked()
    }

    fn checked(self) -> Self {
        if self.lo.is_nan() || self.hi.is_nan() { Self::ALL } else { self }
    }

    /// A double near the middle, and a radius around it that covers the interval.
    pub fn ball(self) -> (f64, f64) {
        let centre = 0.5 * self.lo + 0.5 * self.hi;
        if !centre.is_finite() {
            return (0.0, f64::INFINITY);
        }
        (centre, (centre - self.lo).next_up().max((self.hi - centre).next_up()))
    }

    /// The smallest and the largest absolute value.
    pub fn magnitudes(self) -> (f64, f64) {
        let (a, b) = (self.lo.abs(), self.hi.abs());
        if self.lo <= 0.0 && self.hi >= 0.0 { (0.0, a.max(b)) } else { (a.min(b), a.max(b)) }
    }

    /// Whether a number lies in the interval.
    pub fn contains(self, x: f64) -> bool {
        self.lo <= x && x <= self.hi
    }

    /// This interval times a number.
    pub fn times(self, x: f64) -> Self {
        let (a, b) = (self.lo * x, self.hi * x);
        if x < 0.0 { Self::outward(b, a) } else { Self::outward(a, b) }
    }

    /// The larger of two numbers that lie in these intervals.
    pub fn max(self, other: Self) -> Self {
        Self { lo: self.lo.max(other.lo), hi: self.hi.max(other.hi) }
    }
}

impl Add for Interval {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::outward(self.lo + other.lo, self.hi + other.hi)
    }
}

impl Sub for Interval {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::outward(self.lo - other.hi, self.hi - other.lo)
    }
}

impl Neg for Interval {
    type Output = Self;
    fn neg(self) -> Self {
        Self { lo: -self.hi, hi: -self.lo }
    }
}

impl Mul for Interval {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let products = [self.lo * other.lo, self.lo * other.hi, self.hi * other.lo, self.hi * other.hi];
        if products.iter().any(|p| p.is_nan()) {
            return Self::ALL;
        }
        let lo = products.iter().copied().fold(f64::INFINITY, f64::min);
        let hi = products.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self::outward(lo, hi)
    }
}

impl Div for Interval {
    type Output = Self;
    /// The whole line if the divisor may be 0.
    fn div(self, other: Self) -> Self {
        if other.lo <= 0.0 && other.hi >= 0.0 {
            return Self::ALL;
        }
        let quotients = [self.lo / other.lo, self.lo / other.hi, self.hi / other.lo, self.hi / other.hi];
        if quotients.iter().any(|q| q.is_nan()) {
            return Self::ALL;
        }
        let lo = quotients.iter().copied().fold(f64::INFINITY, f64::min);
        let hi = quotients.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self::outward(lo, hi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::precise::Dyadic;
    use proptest::prelude::*;

    fn holds(interval: Interval, exact: &Dyadic) -> bool {
        &Dyadic::from(interval.lo) <= exact && exact <= &Dyadic::from(interval.hi)
    }

    proptest! {
        #[test]
        fn operations_hold_the_exact_result(a in -1e6f64..1e6, b in -1e6f64..1e6) {
            let (x, y) = (Interval::exact(a), Interval::exact(b));
            let (da, db) = (Dyadic::from(a), Dyadic::from(b));
            prop_assert!(holds(x + y, &da.plus(&db)));
            prop_assert!(holds(x - y, &da.minus(&db)));
            prop_assert!(holds(x * y, &da.times(&db)));
            prop_assert!(holds(x.times(b), &da.times(&db)));
            if b != 0.0 {
                // The quotient times b is a.
                let (low, high) = (Dyadic::from((x / y).lo).times(&db), Dyadic::from((x / y).hi).times(&db));
                prop_assert!(low.clone().min(high.clone()) <= da && da <= low.max(high));
            }
        }

        #[test]
        fn operations_hold_the_results_of_all_their_points(
            a in -9.0f64..9.0, b in 0.0f64..3.0, c in -9.0f64..9.0, d in 0.0f64..3.0, s in 0.0f64..1.0, t in 0.0f64..1.0
        ) {
            let (x, y) = (Interval { lo: a, hi: a + b }, Interval { lo: c, hi: c + d });
            let (p, q) = ((a + s * b).min(x.hi), (c + t * d).min(y.hi));
            prop_assert!(x.times(q).contains(p * q));
            prop_assert!((x + y).contains(p + q) && (x - y).contains(p - q) && (x * y).contains(p * q));
            prop_assert!((x / y).contains(p / q) && (-x).contains(-p) && x.max(y).contains(p.max(q)));
            let (centre, radius) = x.ball();
            prop_assert!(centre - radius <= x.lo && centre + radius >= x.hi);
            let (least, most) = x.magnitudes();
            prop_assert!(least <= p.abs() && p.abs() <= most);
        }
    }

    #[test]
    fn unknown_results_are_the_whole_line() {
        let zero = Interval { lo: -1.0, hi: 1.0 };
        assert_eq!(Interval::exact(1.0) / zero, Interval::ALL);
        assert_eq!(Interval::ALL * Interval::exact(0.0), Interval::ALL);
        assert_eq!(Interval::ALL - Interval::ALL, Interval::ALL);
        assert_eq!(Interval::ALL.ball().1, f64::INFINITY);
    }
}
