//! Double-double arithmetic: `x ln x` of integers, and sums of such terms, to about 100 bits.
//!
//! The floor is `H = sum_i (c_i ln c_i - sum_gamma k ln k)`, a small difference of large sums, and a plain
//! running sum in `f64` is wrong in its 12th digit. Here a number is an unevaluated sum `hi + lo` with
//! `|lo| <= ulp(hi) / 2`, built from two error-free transformations:
//!
//! ```text
//! two_sum(a, b):  s = fl(a + b),  s + e = a + b exactly        (Knuth, TAOCP 2, 4.2.2)
//! two_prod(a, b): p = fl(a * b),  p + e = a * b exactly        (Dekker 1971, by splitting at 27 bits)
//! ```
//!
//! Splitting needs no fused multiply-add, which is a slow call without target features and is wrong in some C
//! libraries. With `u = 2^-53` and barring overflow and underflow (`2^-900 < |x| < 2^900`), the relative
//! errors are below `3.1 u^2` for `+` and `-`, also under cancellation, and `5 u^2` for `*` (algorithms
//! AccurateDWPlusDW and DWTimesDW1: Joldes, Muller, Popescu, ACM TOMS 44(2), 2017; Muller, Rideau, ACM TOMS
//! 48(1), 2022), and a few `u^2` for `/` (long division). A sum of `n` numbers of one sign has a relative error
//! of at most about `3 n u^2`.
//!
//! The logarithm: with `x = 2^e m`, `1 <= m < 2`, `c` the multiple of 1/64 nearest to `m`, and
//! `z = (m - c) / (m + c)`,
//!
//! ```text
//! ln x = e ln 2 + ln c + 2 (z + z^3/3 + z^5/5 + ...),      |z| <= 1/256,
//! ```
//!
//! with `ln c` from a table that the compiler computes by the same series at `c = 1`. For `x >= 2` nothing
//! cancels, so `ln x` and `x ln x` have relative error below `1e-30`, tested against 47-digit values.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// The unevaluated sum `hi + lo`, where `hi` is the sum rounded to `f64`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Dd {
    hi: f64,
    lo: f64,
}

/// Returns `a + b` rounded, and the exact rounding error.
const fn two_sum(a: f64, b: f64) -> Dd {
    let hi = a + b;
    let b_part = hi - a;
    Dd { hi, lo: (a - (hi - b_part)) + (b - b_part) }
}

/// Like [`two_sum`], for `|a| >= |b|` or `a = 0`.
const fn fast_two_sum(a: f64, b: f64) -> Dd {
    let hi = a + b;
    Dd { hi, lo: b - (hi - a) }
}

/// Splits `a` into two numbers of at most 26 significant bits.
const fn split(a: f64) -> (f64, f64) {
    let scaled = 134_217_729.0 * a; // 2^27 + 1
    let high = scaled - (scaled - a);
    (high, a - high)
}

/// Returns `a * b` rounded, and the exact rounding error.
const fn two_prod(a: f64, b: f64) -> Dd {
    let hi = a * b;
    let (a1, a2) = split(a);
    let (b1, b2) = split(b);
    Dd { hi, lo: ((a1 * b1 - hi) + a1 * b2 + a2 * b1) + a2 * b2 }
}

impl Dd {
    /// Zero.
    pub const ZERO: Dd = Dd { hi: 0.0, lo: 0.0 };
    /// `ln 2`, with an error below `1e-33`.
    pub const LN_2: Dd = Dd { hi: std::f64::consts::LN_2, lo: 2.319_046_813_846_299_6e-17 };

    /// Returns the leading part: the value rounded to `f64`.
    #[inline]
    pub const fn to_f64(self) -> f64 {
        self.hi
    }

    const fn from_f64(x: f64) -> Self {
        Dd { hi: x, lo: 0.0 }
    }

    const fn plus(self, other: Dd) -> Self {
        let s = two_sum(self.hi, other.hi);
        let t = two_sum(self.lo, other.lo);
        let v = fast_two_sum(s.hi, s.lo + t.hi);
        fast_two_sum(v.hi, t.lo + v.lo)
    }

    const fn minus(self, other: Dd) -> Self {
        self.plus(Dd { hi: -other.hi, lo: -other.lo })
    }

    const fn times(self, other: Dd) -> Self {
        let p = two_prod(self.hi, other.hi);
        let cross = self.hi * other.lo + self.lo * other.hi;
        fast_two_sum(p.hi, p.lo + cross)
    }

    /// Divides by long division with three digits of 53 bits.
    const fn over(self, other: Dd) -> Self {
        let q1 = self.hi / other.hi;
        let r = self.minus(other.times(Dd::from_f64(q1)));
        let q2 = r.hi / other.hi;
        let r = r.minus(other.times(Dd::from_f64(q2)));
        let q3 = r.hi / other.hi;
        fast_two_sum(q1, q2).plus(Dd::from_f64(q3))
    }

    /// Returns `|self|`.
    #[cfg(test)]
    const fn abs(self) -> Self {
        if self.hi < 0.0 { Dd { hi: -self.hi, lo: -self.lo } } else { self }
    }
}

/// The intervals of `[1, 2]` in the table of logarithms.
const STEPS: usize = 64;
/// The terms of the series for `|z| <= 1/256`: the first omitted one is below `2^-112 / 15` of the sum.
const TERMS: usize = 7;
/// The terms of the series for `z <= 1/3`, from which the table is computed.
const TABLE_TERMS: usize = 36;

/// `1 / (2k + 1)`.
static ODD_RECIPROCALS: [Dd; TERMS] = {
    let mut table = [Dd::ZERO; TERMS];
    let mut k = 0;
    while k < TERMS {
        table[k] = Dd::from_f64(1.0).over(Dd::from_f64((2 * k + 1) as f64));
        k += 1;
    }
    table
};

/// `ln(1 + j / 64)`, the last entry being `ln 2`.
static LN_TABLE: [Dd; STEPS + 1] = {
    let one = Dd::from_f64(1.0);
    let mut table = [Dd::ZERO; STEPS + 1];
    let mut j = 1;
    while j <= STEPS {
        let c = Dd::from_f64(1.0 + j as f64 / STEPS as f64);
        let z = c.minus(one).over(c.plus(one));
        let w = z.times(z);
        let mut sum = Dd::ZERO;
        let mut k = TABLE_TERMS;
        while k > 0 {
            k -= 1;
            sum = sum.times(w).plus(one.over(Dd::from_f64((2 * k + 1) as f64)));
        }
        let half = z.times(sum);
        table[j] = half.plus(half);
        j += 1;
    }
    table
};

/// Returns `ln x` with a relative error below `1e-30`.
///
/// # Panics
/// If `x` is 0.
pub fn ln(x: u64) -> Dd {
    assert!(x > 0, "0 has no logarithm");
    let e = x.ilog2();
    // Dividing both parts by a power of two is exact.
    let scale = 1.0 / (1u64 << e) as f64;
    let whole = Dd::from(x);
    let m = Dd { hi: whole.hi * scale, lo: whole.lo * scale };
    let j = ((m.hi - 1.0) * STEPS as f64 + 0.5) as usize;
    let c = Dd::from_f64(1.0 + j as f64 / STEPS as f64);
    let z = (m - c) / (m + c);
    let w = z * z;
    let sum = ODD_RECIPROCALS.iter().rev().fold(Dd::ZERO, |sum, &reciprocal| sum * w + reciprocal);
    let half = z * sum;
    Dd::LN_2 * Dd::from(u64::from(e)) + LN_TABLE[j] + (half + half)
}

/// Returns `x ln x`, with `0 ln 0 = 0` and a relative error below `1e-30`.
pub fn xlnx(x: u64) -> Dd {
    if x < 2 { Dd::ZERO } else { Dd::from(x) * ln(x) }
}

impl From<f64> for Dd {
    fn from(x: f64) -> Self {
        Dd::from_f64(x)
    }
}

impl From<u64> for Dd {
    /// Converts exactly.
    fn from(x: u64) -> Self {
        fast_two_sum((x >> 32) as f64 * 4_294_967_296.0, (x & 0xffff_ffff) as f64)
    }
}

impl From<i64> for Dd {
    /// Converts exactly.
    fn from(x: i64) -> Self {
        let size = Dd::from(x.unsigned_abs());
        if x < 0 { -size } else { size }
    }
}

impl Neg for Dd {
    type Output = Dd;
    fn neg(self) -> Dd {
        Dd { hi: -self.hi, lo: -self.lo }
    }
}

impl Add for Dd {
    type Output = Dd;
    fn add(self, other: Dd) -> Dd {
        self.plus(other)
    }
}

impl Sub for Dd {
    type Output = Dd;
    fn sub(self, other: Dd) -> Dd {
        self.minus(other)
    }
}

impl Mul for Dd {
    type Output = Dd;
    fn mul(self, other: Dd) -> Dd {
        self.times(other)
    }
}

impl Div for Dd {
    type Output = Dd;
    fn div(self, other: Dd) -> Dd {
        self.over(other)
    }
}

impl AddAssign for Dd {
    fn add_assign(&mut self, other: Dd) {
        *self = *self + other;
    }
}

impl SubAssign for Dd {
    fn sub_assign(&mut self, other: Dd) {
        *self = *self - other;
    }
}

impl Sum for Dd {
    fn sum<I: Iterator<Item = Dd>>(terms: I) -> Dd {
        terms.fold(Dd::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `x` and `x ln x` from mpmath 1.3 at 400 bits, the latter as three `f64` whose exact sum has 47 digits.
    const XLNX: [(u64, [f64; 3]); 15] = [
        (2, [1.3862943611198906, 4.638093627692599e-17, 1.1415416876832424e-33]),
        (3, [3.295836866004329, -5.009431212501459e-17, -2.607430941951119e-33]),
        (5, [8.047189562170502, 2.419594796292638e-16, -1.2715823648282486e-32]),
        (7, [13.621371043387192, 7.346956394783748e-16, 3.758115414438547e-32]),
        (10, [23.025850929940457, -3.94399383981999e-16, -1.2350113920312941e-33]),
        (97, [443.74696491482814, -6.790651946464648e-15, 2.20472883689683e-31]),
        (127, [615.2117599802411, -4.8833745509675716e-14, -2.3454546913136932e-30]),
        (1000, [6907.7552789821375, -4.451694736442458e-13, 4.9543076926324415e-30]),
        (65_537, [726829.5883653435, 1.1857676432510122e-11, 2.7819393872039015e-28]),
        (123_456_789, [2300173036.6200323, 3.0386378581669555e-08, 1.84523969525168e-24]),
        ((1 << 53) - 1, [3.30895682712764e+17, -31.666098700982594, -4.068533990104337e-17]),
        ((1 << 53) + 1, [3.308956827127641e+17, -20.192497561628393, 1.3072812581508777e-15]),
        (3 << 61, [3.000864926559956e+20, 16070.155307841775, 2.703625670832417e-13]),
        ((1 << 63) - 1, [4.027687223238836e+20, 30838.673594666612, -1.5119948040890656e-12]),
        (u64::MAX, [8.1832375329297e+20, 27333.11094522768, 7.931553778126337e-13]),
    ];

    fn relative_error(value: Dd, exact: [f64; 3]) -> f64 {
        let difference = exact.into_iter().fold(value, |rest, part| rest - Dd::from(part));
        (difference.to_f64() / exact[0]).abs()
    }

    #[test]
    fn xlnx_agrees_with_forty_seven_digits() {
        for (x, exact) in XLNX {
            let error = relative_error(xlnx(x), exact);
            assert!(error <= 1e-30, "{x}: relative error {error:e}");
        }
        assert_eq!([xlnx(0), xlnx(1)], [Dd::ZERO; 2]);
    }

    #[test]
    fn a_hundred_thousand_terms_sum_to_twenty_nine_digits() {
        let exact = [55065202972.33256, -2.133903756531917e-06, -4.615197346495986e-23];
        let error = relative_error((1..=100_000).map(xlnx).sum(), exact);
        assert!(error <= 1e-29, "relative error {error:e}");
    }

    #[test]
    fn a_difference_of_large_sums_keeps_its_digits() {
        // The floor of a context seen 2^40 + 1 times, once with another next token.
        let x = 1u64 << 40;
        let exact = [28.725887222398267, 3.9440305700531176e-17, 0.0];
        let difference = xlnx(x + 1) - xlnx(x);
        assert!(relative_error(difference, exact) < 1e-17, "{difference:?}");
        let plain = (x + 1) as f64 * ((x + 1) as f64).ln() - x as f64 * (x as f64).ln();
        assert!((plain - exact[0]).abs() > 1e-4, "f64 would have sufficed: {plain}");
    }

    /// Returns the value as an integer; both parts must be integers.
    fn integer(x: Dd) -> i128 {
        assert_eq!([x.hi.fract(), x.lo.fract()], [0.0; 2], "{x:?}");
        x.hi as i128 + x.lo as i128
    }

    proptest! {
        #[test]
        fn integers_up_to_104_bits_are_exact(a: i64, b: i64, c: i64) {
            let (a, b) = (a >> 11, b >> 11);
            let product = Dd::from(a) * Dd::from(b);
            prop_assert_eq!(integer(product), i128::from(a) * i128::from(b));
            prop_assert_eq!(integer(Dd::from(c)), i128::from(c));
            prop_assert_eq!(integer(Dd::from(c) + Dd::from(a)), i128::from(c) + i128::from(a));
            prop_assert_eq!(integer(product - Dd::from(c)), i128::from(a) * i128::from(b) - i128::from(c));
        }

        #[test]
        fn the_low_part_is_at_most_half_a_unit_of_the_high_part(a: u64, b in 2u64..) {
            for x in [Dd::from(a), xlnx(a), Dd::from(a) / Dd::from(b), xlnx(a) - xlnx(b)] {
                prop_assert_eq!(x.hi + x.lo, x.hi);
            }
        }

        #[test]
        fn division_undoes_multiplication(a in 1u64.., b in 1u64..) {
            let back = Dd::from(a) * Dd::from(b) / Dd::from(b) - Dd::from(a);
            prop_assert!(back.abs().to_f64() <= 2e-31 * a as f64);
        }

        #[test]
        fn the_logarithm_of_a_product_is_the_sum(a in 2u64..1 << 32, b in 2u64..1 << 32) {
            let error = ln(a * b) - ln(a) - ln(b);
            prop_assert!(error.abs().to_f64() <= 3e-30 * ln(a * b).to_f64(), "{a} {b}: {error:?}");
        }
    }
}
