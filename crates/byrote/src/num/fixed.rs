//! Numbers of 256 bits after the point, on big integers: slow, and easy to reason about.
//!
//! A product or a quotient is off by less than one unit of 2^-256, sums are exact. The functions here are the source of the
//! tables that rigorous arithmetic reads, and of the oracle that tests it. Each states its error; all are below 2^-200 for
//! arguments up to 100, which is 2^-147 of the last bit that a double keeps of a number near 1.

use dashu_int::IBig;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Bits after the point.
const BITS: usize = 256;

/// A multiple of 2^-256.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fixed(IBig);

impl Fixed {
    /// 0.
    pub fn zero() -> Self {
        Self(IBig::ZERO)
    }

    /// A whole number.
    pub fn whole(n: i64) -> Self {
        Self(IBig::from(n) << BITS)
    }

    /// A double: exact where its last bit is at least 2^-256, else off by less than one unit.
    ///
    /// # Panics
    /// When it is not finite.
    pub fn of(x: f64) -> Self {
        assert!(x.is_finite(), "{x} as a number of fixed precision");
        let bits = x.to_bits();
        let field = (bits >> 52 & 0x7ff) as i64;
        let mantissa = (bits & ((1 << 52) - 1)) | if field > 0 { 1 << 52 } else { 0 };
        let shift = BITS as i64 + field.max(1) - 1075;
        let magnitude = IBig::from(mantissa);
        let magnitude = if shift >= 0 { magnitude << shift as usize } else { magnitude >> (-shift) as usize };
        Self(if x < 0.0 { -magnitude } else { magnitude })
    }

    /// The double near it, off by at most 2^-52 of its size.
    pub fn to_f64(&self) -> f64 {
        let negative = self.0 < IBig::ZERO;
        let magnitude = if negative { -self.0.clone() } else { self.0.clone() };
        let length = dashu_int::ops::BitTest::bit_len(&magnitude);
        let shift = length.saturating_sub(60);
        let leading: i64 = (magnitude >> shift).try_into().unwrap_or(0);
        let value = leading as f64 * 2f64.powi(shift as i32 - BITS as i32);
        if negative { -value } else { value }
    }

    /// |x|.
    pub fn abs(&self) -> Self {
        if self.0 < IBig::ZERO { Self(-self.0.clone()) } else { self.clone() }
    }

    /// x / n, exact to one unit.
    pub fn over(&self, n: i64) -> Self {
        Self(&self.0 / IBig::from(n))
    }

    /// n x, exact.
    pub fn times(&self, n: i64) -> Self {
        Self(&self.0 * IBig::from(n))
    }

    fn is_zero(&self) -> bool {
        self.0 == IBig::ZERO
    }

    /// e^-x for x >= 0, to 2^-230.
    ///
    /// The series at x / 2^20, then 20 squarings; each at most doubles the error of a number below 1.
    pub fn exp_minus(x: &Self) -> Self {
        const HALVINGS: usize = 20;
        let r = Self(&x.0 >> HALVINGS);
        let mut term = Self::whole(1);
        let mut sum = term.clone();
        for k in 1.. {
            term = -(&term * &r).over(k);
            // Rounding towards minus infinity ends at -1.
            if term.abs().0 <= IBig::ONE {
                break;
            }
            sum = &sum + &term;
        }
        for _ in 0..HALVINGS {
            sum = &sum * &sum;
        }
        sum
    }

    /// e^x for |x| <= 1, to 2^-220.
    pub fn exp_small(x: &Self) -> Self {
        let e = Self::exp_minus(&x.abs());
        if x.0 < IBig::ZERO { e } else { &Self::whole(1) / &e }
    }

    /// pi, to 2^-240: Machin's 16 arctan(1/5) - 4 arctan(1/239).
    pub fn pi() -> Self {
        let arctan_of_inverse = |n: i64| {
            let mut power = Self::whole(1).over(n);
            let mut sum = Self::zero();
            for k in 0.. {
                let term = power.over(2 * k + 1);
                if term.is_zero() {
                    break;
                }
                sum = if k % 2 == 0 { &sum + &term } else { &sum - &term };
                power = power.over(n * n);
            }
            sum
        };
        &arctan_of_inverse(5).times(16) - &arctan_of_inverse(239).times(4)
    }

    /// The root of x >= 0, to one unit.
    pub fn sqrt(&self) -> Self {
        let square = dashu_int::ops::UnsignedAbs::unsigned_abs(&self.0 << BITS);
        Self(dashu_int::ops::SquareRoot::sqrt(&square).into())
    }

    /// tanh x, to 2^-220.
    pub fn tanh(&self) -> Self {
        let e = Self::exp_minus(&self.abs().times(2));
        let one = Self::whole(1);
        let value = &(&one - &e) / &(&one + &e);
        if self.0 < IBig::ZERO { -value } else { value }
    }

    /// 1 / (1 + e^-x), to 2^-220.
    pub fn logistic(&self) -> Self {
        let e = Self::exp_minus(&self.abs());
        let one = Self::whole(1);
        let top = if self.0 < IBig::ZERO { e.clone() } else { one.clone() };
        &top / &(&one + &e)
    }

    /// The sum of x^(2n + 1) 2^(n h) / (2n + 1)!! over n, for x >= 0: a series of positive terms.
    fn odd_series(x: &Self, h: usize) -> Self {
        let square = Self((x * x).0 << h);
        let (mut term, mut sum) = (x.clone(), x.clone());
        for n in 0.. {
            term = (&term * &square).over(2 * n + 3);
            if term.is_zero() {
                break;
            }
            sum = &sum + &term;
        }
        sum
    }

    /// The density of the normal law, to 2^-220.
    pub fn density(&self) -> Self {
        &Self::exp_minus(&(self * self).over(2)) / &Self::pi().times(2).sqrt()
    }

    /// The distribution function of the normal law, for |x| <= 12 to 2^-200: 1/2 + density(x) sum_n x^(2n + 1) / (2n + 1)!!.
    pub fn normal(&self) -> Self {
        let half = Self::whole(1).over(2);
        let part = &self.density() * &Self::odd_series(&self.abs(), 0);
        if self.0 < IBig::ZERO { &half - &part } else { &half + &part }
    }

    /// erf x, for |x| <= 9 to 2^-200: 2 / sqrt(pi) e^(-x^2) sum_n 2^n x^(2n + 1) / (2n + 1)!!.
    pub fn erf(&self) -> Self {
        let factor = &Self::exp_minus(&(self * self)) / &Self::pi().sqrt();
        let value = (&factor * &Self::odd_series(&self.abs(), 1)).times(2);
        if self.0 < IBig::ZERO { -value } else { value }
    }

    /// arctan x, to 2^-240 for |x| <= 2: Euler's series, whose terms are positive and fall by x^2 / (1 + x^2).
    pub fn arctan(&self) -> Self {
        let x = self.abs();
        let square = &x * &x;
        let below = &Self::whole(1) + &square;
        let ratio = &square / &below;
        let mut term = &x / &below;
        let mut sum = term.clone();
        for n in 0.. {
            term = (&term * &ratio).times(2 * n + 2).over(2 * n + 3);
            if term.is_zero() {
                break;
            }
            sum = &sum + &term;
        }
        if self.0 < IBig::ZERO { -sum } else { sum }
    }
}

impl Add for &Fixed {
    type Output = Fixed;
    fn add(self, other: &Fixed) -> Fixed {
        Fixed(&self.0 + &other.0)
    }
}

impl Sub for &Fixed {
    type Output = Fixed;
    fn sub(self, other: &Fixed) -> Fixed {
        Fixed(&self.0 - &other.0)
    }
}

impl Mul for &Fixed {
    type Output = Fixed;
    fn mul(self, other: &Fixed) -> Fixed {
        Fixed((&self.0 * &other.0) >> BITS)
    }
}

impl Div for &Fixed {
    type Output = Fixed;
    fn div(self, other: &Fixed) -> Fixed {
        Fixed((&self.0 << BITS) / &other.0)
    }
}

impl Neg for Fixed {
    type Output = Fixed;
    fn neg(self) -> Fixed {
        Fixed(-self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Compares with decimal digits, to 10^-50.
    fn assert_digits(x: &Fixed, digits: &str) {
        let (sign, digits) = match digits.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, digits),
        };
        let (whole, fraction) = digits.split_once('.').unwrap();
        let all: IBig = format!("{whole}{fraction}").parse().unwrap();
        let ten = IBig::from(10).pow(fraction.len());
        let expected = Fixed((all << BITS) / ten).times(sign);
        let error = (x - &expected).abs();
        assert!(error < Fixed(IBig::ONE << (BITS - 166)), "{digits}: off by {:e}", error.to_f64());
    }

    #[test]
    fn constants_and_functions_have_fifty_digits() {
        assert_digits(&Fixed::pi(), "3.14159265358979323846264338327950288419716939937510582");
        assert_digits(&Fixed::whole(2).sqrt(), "1.41421356237309504880168872420969807856967187537694807");
        assert_digits(
            &Fixed::exp_small(&Fixed::whole(1)),
            "2.71828182845904523536028747135266249775724709369995957",
        );
        assert_digits(
            &Fixed::exp_minus(&Fixed::whole(1)),
            "0.36787944117144232159552377016146086744581113103176783",
        );
        assert_digits(&Fixed::whole(1).tanh(), "0.76159415595576488811945828260479359041276859725793655");
        assert_digits(&Fixed::whole(1).logistic(), "0.73105857863000487925115924182183627436514464016505651");
        assert_digits(&Fixed::whole(1).erf(), "0.84270079294971486934122063508260925929606699796630290");
        assert_digits(&Fixed::whole(1).normal(), "0.84134474606854294858523254563203792247791296672660439");
        assert_digits(&Fixed::whole(1).arctan(), "0.78539816339744830961566084581987572104929234984377645");
        assert_digits(&Fixed::whole(-1).arctan(), "-0.78539816339744830961566084581987572104929234984377645");
    }

    proptest! {
        #[test]
        fn functions_agree_with_doubles(x in -8.0f64..8.0) {
            let exact = Fixed::of(x);
            let near = |f: Fixed, y: f64| (f.to_f64() - y).abs() <= 1e-15 * y.abs().max(1e-3);
            prop_assert!(near(exact.tanh(), x.tanh()));
            prop_assert!(near(exact.logistic(), 1.0 / (1.0 + (-x).exp())));
            prop_assert!(near(exact.erf(), libm::erf(x)));
            // The argument of erf is rounded.
            prop_assert!((exact.normal().to_f64() - 0.5 * (1.0 + libm::erf(x / 2f64.sqrt()))).abs() < 3e-16);
            prop_assert!(near(Fixed::of(x / 8.0).arctan(), (x / 8.0).atan()));
        }

        #[test]
        fn doubles_go_in_and_out(x in any::<f64>().prop_filter("size", |x| x.abs() < 1e30 && (*x == 0.0 || x.abs() > 1e-50))) {
            let back = Fixed::of(x).to_f64();
            prop_assert!((back - x).abs() <= x.abs() * f64::EPSILON, "{x} {back}");
        }
    }
}
