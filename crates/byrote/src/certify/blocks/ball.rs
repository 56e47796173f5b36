//! Real numbers enclosed around a sum of two doubles.
//!
//! In a deep model the radius of an enclosure grows by the absolute row sums of every weight matrix, a factor of thousands per
//! block. Starting from the unit roundoff of a double, nothing would be left after a few blocks. A [`Ball`] therefore has a centre
//! hi + lo of about 106 bits: |lo| <= u |hi|, and the sum of both, as a real number, is the centre.
//!
//! Sums and products follow Dekker and Knuth (`two_sum` and the error of a product by a fused multiply-add are exact), and each
//! operation adds a bound on what it drops to the radius.

use crate::num::precise::{Dyadic, IBig, to_f64};

/// The unit roundoff.
pub const U: f64 = f64::EPSILON / 2.0;

/// Bits after the point of the integers in which everything but linear maps is computed.
pub const BITS: usize = 160;

/// 2^-BITS.
pub const UNIT: f64 = 1.0 / ((1u128 << 80) as f64 * (1u128 << 80) as f64);

/// Covers the roundings of computing a radius: fewer than 2^20 in succession.
pub const WIDER: f64 = 1.0 + 1e-9;

/// A real number within `radius` of hi + lo.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ball {
    /// The centre, rounded to a double.
    pub hi: f64,
    /// The rest of the centre.
    pub lo: f64,
    /// The distance that is allowed.
    pub radius: f64,
}

/// a + b as a double and the error of that, exactly.
#[inline(always)]
pub fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

impl Ball {
    /// Nothing is known.
    pub const UNKNOWN: Ball = Ball { hi: 0.0, lo: 0.0, radius: f64::INFINITY };

    /// A number that is known exactly.
    pub const fn exact(x: f64) -> Self {
        Self { hi: x, lo: 0.0, radius: 0.0 }
    }

    /// The ball around hi + lo, whatever their sizes.
    pub fn new(hi: f64, lo: f64, radius: f64) -> Self {
        let (hi, lo) = two_sum(hi, lo);
        // Written so that what is not a number is not known.
        if hi.is_finite() && lo.is_finite() && radius < f64::INFINITY {
            Self { hi, lo, radius }
        } else {
            Self::UNKNOWN
        }
    }

    /// Whether there is a bound at all.
    pub fn is_known(&self) -> bool {
        self.radius < f64::INFINITY
    }

    /// An upper bound on the absolute value of the centre.
    pub fn size(&self) -> f64 {
        (self.hi.abs() + self.lo.abs()) * (1.0 + 4.0 * U)
    }

    /// The centre.
    pub fn centre(&self) -> Dyadic {
        Dyadic::from(self.hi).plus(&Dyadic::from(self.lo))
    }

    /// The centre in units of 2^-BITS, rounded down.
    pub fn fixed(&self) -> IBig {
        self.centre().floor(BITS)
    }

    /// The ball around an integer in units of 2^-BITS.
    pub fn of_fixed(value: &IBig, radius: f64) -> Self {
        let hi = to_f64(value, BITS);
        if !hi.is_finite() {
            return Self::UNKNOWN;
        }
        let rest = value - Dyadic::from(hi).floor(BITS);
        let lo = to_f64(&rest, BITS);
        // The floor costs less than a unit, and `lo` is off by at most two units in its last place.
        Self::new(hi, lo, (radius + 8.0 * U * lo.abs() + 2.0 * UNIT) * WIDER)
    }

    /// The sum.
    pub fn plus(self, other: Self) -> Self {
        let (hi, error) = two_sum(self.hi, other.hi);
        let rest = self.lo + other.lo;
        let lo = error + rest;
        let dropped = U * (rest.abs() + lo.abs()) + f64::MIN_POSITIVE;
        Self::new(hi, lo, (self.radius + other.radius + 2.0 * dropped) * WIDER)
    }

    /// The difference.
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self { hi: -other.hi, lo: -other.lo, ..other })
    }

    /// The product.
    pub fn times(self, other: Self) -> Self {
        let hi = self.hi * other.hi;
        let error = self.hi.mul_add(other.hi, -hi);
        let (left, right) = (self.hi * other.lo, self.lo * other.hi);
        let cross = left + right;
        let lo = error + cross;
        // Each of the four roundings, the product of the low parts, and underflow.
        let rounded = U * (left.abs() + right.abs() + cross.abs() + lo.abs());
        let dropped = 2.0 * rounded + 2.0 * (self.lo * other.lo).abs() + 8.0 * f64::MIN_POSITIVE;
        let spread = self.size() * other.radius + other.size() * self.radius + self.radius * other.radius;
        Self::new(hi, lo, (spread + dropped) * WIDER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn holds(ball: Ball, exact: &Dyadic) -> bool {
        exact.minus(&ball.centre()).abs() <= Dyadic::from(ball.radius)
    }

    #[test]
    fn units_are_powers_of_two() {
        assert_eq!(UNIT, 2f64.powi(-(BITS as i32)));
    }

    proptest! {
        #[test]
        fn operations_hold_the_exact_result_of_every_corner(
            (a, b, c, d) in (-1e3f64..1e3, -1e-14f64..1e-14, -1e3f64..1e3, -1e-14f64..1e-14),
            (r, s) in (0.0f64..1e-20, 0.0f64..1e-3),
            scale in prop_oneof![Just(1.0), Just(1e-12), Just(1e9)],
        ) {
            let (x, y) = (Ball::new(a * scale, b, r), Ball::new(c, d, s));
            prop_assert!(x.lo.abs() <= U * x.hi.abs());
            for (p, q) in [(1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (0.0, 0.0)] {
                let at = |ball: Ball, sign: f64| ball.centre().plus(&Dyadic::from(sign * ball.radius));
                let (u, v) = (at(x, p), at(y, q));
                prop_assert!(holds(x.plus(y), &u.plus(&v)));
                prop_assert!(holds(x.minus(y), &u.minus(&v)));
                prop_assert!(holds(x.times(y), &u.times(&v)));
            }
            let exact = Ball { radius: 0.0, ..x }.times(Ball { radius: 0.0, ..y });
            prop_assert!(exact.radius <= 1e-30 * exact.hi.abs() + 1e-290);
            let fixed = Ball::of_fixed(&x.fixed(), x.radius);
            prop_assert!(holds(fixed, &x.centre()) && fixed.radius <= 2.0 * x.radius + 1e-30 * x.hi.abs() + 1e-47);
        }
    }

    #[test]
    fn what_is_not_finite_is_unknown() {
        let large = Ball::exact(1e300);
        assert!(!large.times(large).is_known() && !large.times(Ball::UNKNOWN).is_known());
        assert!(!Ball::exact(0.0).times(Ball::UNKNOWN).is_known(), "0 times infinity is not a number");
        assert!(!Ball::UNKNOWN.minus(Ball::UNKNOWN).is_known());
    }
}
