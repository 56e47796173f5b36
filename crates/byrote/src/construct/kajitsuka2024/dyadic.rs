//! Dyadic numbers a 2^-e: the exact weights and activations of the network.
//!
//! Sums and products of dyadic numbers are dyadic, so a network with dyadic weights is evaluated without rounding. A value
//! is kept in lowest terms (a is odd, or e = 0), so equal values are equal structs and bit counts are well defined.

use dashu_int::ops::BitTest;
use dashu_int::{IBig, Sign};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Neg;

/// The number `mantissa * 2^-exponent`, in lowest terms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dyadic {
    mantissa: IBig,
    exponent: usize,
}

impl Dyadic {
    /// `mantissa * 2^-exponent`.
    pub fn new(mantissa: IBig, exponent: usize) -> Self {
        let mut number = Self { mantissa, exponent };
        number.reduce();
        number
    }

    /// `2^power`.
    pub fn power_of_two(power: usize) -> Self {
        Self { mantissa: IBig::ONE << power, exponent: 0 }
    }

    /// `2^-power`.
    pub fn half_to_the(power: usize) -> Self {
        Self { mantissa: IBig::ONE, exponent: power }
    }

    /// The number a in a 2^-e: odd, unless e = 0.
    pub fn mantissa(&self) -> &IBig {
        &self.mantissa
    }

    /// The number e in a 2^-e.
    pub fn exponent(&self) -> usize {
        self.exponent
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.mantissa.is_zero()
    }

    /// Whether it is above 0.
    pub fn is_positive(&self) -> bool {
        !self.mantissa.is_zero() && self.mantissa.sign() == Sign::Positive
    }

    /// The value, if it is an integer.
    pub fn integer(&self) -> Option<&IBig> {
        (self.exponent == 0).then_some(&self.mantissa)
    }

    /// Bits of the magnitude in fixed-point notation, down to the last binary place in use.
    pub fn fixed_bits(&self) -> usize {
        self.mantissa.bit_len().max(self.exponent)
    }

    /// Bits of the magnitude before the point: the least b with |x| < 2^b, and 0 below 1.
    pub fn whole_bits(&self) -> usize {
        self.mantissa.bit_len().saturating_sub(self.exponent)
    }

    /// Bits of the odd part and of its power of two: the size of a number with few significant bits.
    pub fn float_bits(&self) -> usize {
        let zeros = self.mantissa.trailing_zeros().unwrap_or(0);
        let power = zeros.max(self.exponent);
        // One more bit for the sign of the power, where there is one.
        let sign = usize::from(power > 0);
        self.mantissa.bit_len() - zeros + (usize::BITS - power.leading_zeros()) as usize + sign
    }

    /// Adds `weight * value`.
    pub fn add_product(&mut self, weight: &Dyadic, value: &Dyadic) {
        let exponent = weight.exponent + value.exponent;
        let product = match (weight.mantissa.is_one(), value.mantissa.is_one()) {
            (true, _) => value.mantissa.clone(),
            (_, true) => weight.mantissa.clone(),
            _ => &weight.mantissa * &value.mantissa,
        };
        self.add_parts(product, exponent);
    }

    /// Adds another number.
    pub fn add(&mut self, other: &Dyadic) {
        if self.exponent == 0 && other.exponent == 0 {
            self.mantissa += &other.mantissa;
        } else {
            self.add_parts(other.mantissa.clone(), other.exponent);
        }
    }

    fn add_parts(&mut self, mantissa: IBig, exponent: usize) {
        match self.exponent.cmp(&exponent) {
            Ordering::Equal => self.mantissa += mantissa,
            Ordering::Greater => self.mantissa += mantissa << (self.exponent - exponent),
            Ordering::Less => {
                self.mantissa <<= exponent - self.exponent;
                self.mantissa += mantissa;
                self.exponent = exponent;
            }
        }
        self.reduce();
    }

    fn reduce(&mut self) {
        if self.exponent == 0 {
            return;
        }
        let zeros = self.mantissa.trailing_zeros().unwrap_or(self.exponent).min(self.exponent);
        if zeros > 0 {
            self.mantissa >>= zeros;
            self.exponent -= zeros;
        }
    }
}

impl From<IBig> for Dyadic {
    fn from(mantissa: IBig) -> Self {
        Self { mantissa, exponent: 0 }
    }
}

impl From<i64> for Dyadic {
    fn from(n: i64) -> Self {
        IBig::from(n).into()
    }
}

impl Neg for Dyadic {
    type Output = Self;
    fn neg(self) -> Self {
        Self { mantissa: -self.mantissa, exponent: self.exponent }
    }
}

impl PartialOrd for Dyadic {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dyadic {
    fn cmp(&self, other: &Self) -> Ordering {
        match self.exponent.cmp(&other.exponent) {
            Ordering::Equal => self.mantissa.cmp(&other.mantissa),
            Ordering::Greater => self.mantissa.cmp(&(&other.mantissa << (self.exponent - other.exponent))),
            Ordering::Less => (&self.mantissa << (other.exponent - self.exponent)).cmp(&other.mantissa),
        }
    }
}

impl fmt::Display for Dyadic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exponent {
            0 => write!(f, "{}", self.mantissa),
            e => write!(f, "{}*2^-{e}", self.mantissa),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn d(mantissa: i64, exponent: usize) -> Dyadic {
        Dyadic::new(mantissa.into(), exponent)
    }

    #[test]
    fn numbers_are_in_lowest_terms() {
        assert_eq!(d(12, 2), d(3, 0));
        assert_eq!(d(0, 7), Dyadic::default());
        assert_eq!(d(87, 1).to_string(), "87*2^-1");
        assert_eq!((d(6, 0).integer(), d(3, 1).integer()), (Some(&IBig::from(6)), None));
    }

    #[test]
    fn bits_are_counted_by_hand() {
        // 43.5 = 1010111 * 2^-1: seven bits; 2^-8 needs eight places; 4096 = 2^12 has 13 bits.
        assert_eq!([d(87, 1), d(1, 8), d(4096, 0)].map(|x| x.fixed_bits()), [7, 8, 13]);
        // 87 and 2^-1: 7 + 1 + 1; 1 and 2^-8: 1 + 4 + 1; 1 and 2^12: 1 + 4 + 1; 5: 3.
        assert_eq!([d(87, 1), d(1, 8), d(4096, 0), d(5, 0)].map(|x| x.float_bits()), [9, 6, 6, 3]);
    }

    proptest! {
        /// f64 is exact for numbers this small.
        #[test]
        fn arithmetic_is_that_of_rationals(
            a in -1000i64..1000, b in -1000i64..1000, c in -1000i64..1000,
            i in 0usize..12, j in 0usize..12, k in 0usize..12
        ) {
            let real = |n: i64, e: usize| n as f64 / (1u64 << e) as f64;
            let of = |x: &Dyadic| real(i64::try_from(x.mantissa().clone()).unwrap(), x.exponent());
            let (x, y, z) = (d(a, i), d(b, j), d(c, k));
            let (p, q, r) = (real(a, i), real(b, j), real(c, k));
            let mut sum = x.clone();
            sum.add_product(&y, &z);
            prop_assert_eq!(of(&sum), p + q * r);
            sum.add(&x);
            prop_assert_eq!(of(&sum), p + q * r + p);
            prop_assert_eq!(x.cmp(&y), p.total_cmp(&q));
            prop_assert_eq!(x.is_positive(), p > 0.0);
        }
    }
}
