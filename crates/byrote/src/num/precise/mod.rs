//! Elementary functions to any number of bits, with a proven error.
//!
//! A number is an integer times 2^-bits. Every function of [`Precise`] takes an exact argument and returns a result within one
//! unit, 2^-bits, of the true value, for arguments up to [`LARGEST`]. Internally it works with enough extra bits to keep the sum
//! of all rounding errors below that. The proof is beside each function and counts in units of the working precision, written
//! u. A product or quotient truncated to the working precision costs less than one u.
//!
//! Series and reductions are classical: e^-y by halving y and the Taylor series; tanh and the logistic function from e^-y; the
//! normal distribution by the series of positive terms x e^(-x^2/2) sum x^(2n) / (2n+1)!!; arctan by its half-angle formula; pi
//! by Machin's formula. Linear systems in these numbers are in [`linear`].

pub mod linear;

use dashu_base::{Abs, BitTest, Signed, SquareRoot};
pub use dashu_int::IBig;
use dashu_int::UBig;
use std::cmp::Ordering;

/// The largest absolute value that an argument may have.
pub const LARGEST: u64 = 4096;

/// An integer times a power of two, with exact sums and products.
#[derive(Debug, Clone)]
pub struct Dyadic {
    mantissa: IBig,
    exponent: isize,
}

impl Dyadic {
    /// Creates `mantissa * 2^exponent`.
    pub fn new(mantissa: IBig, exponent: isize) -> Self {
        Self { mantissa, exponent }
    }

    /// Returns the product.
    pub fn times(&self, other: &Dyadic) -> Dyadic {
        Dyadic::new(&self.mantissa * &other.mantissa, self.exponent + other.exponent)
    }

    /// Returns the sum.
    pub fn plus(&self, other: &Dyadic) -> Dyadic {
        let exponent = self.exponent.min(other.exponent);
        let at = |x: &Dyadic| &x.mantissa << (x.exponent - exponent).unsigned_abs();
        Dyadic::new(at(self) + at(other), exponent)
    }

    /// Returns the difference.
    pub fn minus(&self, other: &Dyadic) -> Dyadic {
        self.plus(&Dyadic::new(-&other.mantissa, other.exponent))
    }

    /// Returns the absolute value.
    #[cfg_attr(not(test), allow(dead_code, reason = "tests compare with it"))]
    pub fn abs(&self) -> Dyadic {
        Dyadic::new(self.mantissa.clone().abs(), self.exponent)
    }

    /// Converts to f64 with the accuracy of [`to_f64`].
    #[cfg_attr(not(test), allow(dead_code, reason = "tests compare with it"))]
    pub fn to_f64(&self) -> f64 {
        match usize::try_from(-self.exponent) {
            Ok(bits) => to_f64(&self.mantissa, bits),
            Err(_) => to_f64(&(&self.mantissa << self.exponent.unsigned_abs()), 0),
        }
    }

    /// Returns the value in units of 2^-bits, rounded down.
    pub fn floor(&self, bits: usize) -> IBig {
        shifted(&self.mantissa, self.exponent + bits.cast_signed())
    }

    /// Returns whether the absolute value is at most [`LARGEST`].
    pub fn is_moderate(&self) -> bool {
        self.mantissa == IBig::ZERO
            || self.mantissa.bit_len().cast_signed() + self.exponent <= LARGEST.ilog2() as isize
    }
}

impl PartialEq for Dyadic {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Dyadic {}

impl PartialOrd for Dyadic {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dyadic {
    /// Compares by value, whatever the exponents.
    fn cmp(&self, other: &Self) -> Ordering {
        self.minus(other).mantissa.cmp(&IBig::ZERO)
    }
}

impl From<f64> for Dyadic {
    /// Converts a finite number exactly.
    fn from(x: f64) -> Self {
        let (mantissa, exponent) = super::modular::dyadic(x);
        Dyadic::new(mantissa.into(), exponent as isize)
    }
}

/// Returns x 2^by, rounded down.
fn shifted(x: &IBig, by: isize) -> IBig {
    if by >= 0 { x << by.unsigned_abs() } else { x >> by.unsigned_abs() }
}

/// Converts x 2^-bits to f64 with an error of at most two units in the last place. Values out of range become infinite.
pub fn to_f64(x: &IBig, bits: usize) -> f64 {
    let size = x.bit_len();
    let cut = size.saturating_sub(64);
    let top = i128::try_from(&(x >> cut)).unwrap_or(0) as f64;
    // Two steps, so that the power of two does not leave the range of f64 while the result is inside it.
    let exponent = cut as i64 - bits as i64;
    let half = exponent.clamp(-4000, 4000) / 2;
    let power = |e: i64| 2f64.powi(e as i32);
    top * power(half) * power(exponent.clamp(-4000, 4000) - half)
}

/// Returns log2 |x 2^-bits| to about ten digits, minus infinity for 0.
pub fn log2(x: &IBig, bits: usize) -> f64 {
    let size = x.bit_len();
    let cut = size.saturating_sub(64);
    let top = i128::try_from(&(x.clone().abs() >> cut)).unwrap_or(0) as f64;
    top.log2() + cut as f64 - bits as f64
}

/// The extra bits of the working precision.
const GUARD: usize = 40;

/// Elementary functions with results in units of 2^-bits.
#[derive(Debug, Clone)]
pub struct Precise {
    bits: usize,
    /// pi in units of 2^-(bits + GUARD), with an error below 2^6 units.
    pi: IBig,
}

impl Precise {
    /// Creates functions whose results have this many bits after the point.
    pub fn new(bits: usize) -> Self {
        Self { bits, pi: machin(bits + GUARD) }
    }

    /// Returns the number of bits after the point.
    pub fn bits(&self) -> usize {
        self.bits
    }

    fn work(&self) -> usize {
        self.bits + GUARD
    }

    /// Returns the magnitude of the argument in working precision (error below u), and whether it is negative.
    fn reduced(&self, x: &Dyadic) -> (IBig, bool) {
        let x = x.floor(self.work());
        let negative = x.is_negative();
        (x.abs(), negative)
    }

    fn finish(&self, y: IBig, negative: bool) -> IBig {
        (if negative { -y } else { y }) >> GUARD
    }

    /// Returns tanh x. The slope is at most 1 and (1 - t) / (1 + t) has slope at most 2 in t = e^-2x, so the error is below 6 u.
    pub fn tanh(&self, x: &Dyadic) -> IBig {
        let w = self.work();
        let (a, negative) = self.reduced(x);
        let t = exp_minus(&(a << 1), w);
        let one = IBig::ONE << w;
        self.finish(((&one - &t) << w) / (&one + &t), negative)
    }

    /// Returns 1 / (1 + e^-x). The error is below 4 u.
    pub fn logistic(&self, x: &Dyadic) -> IBig {
        self.finish(self.logistic_to_work(x), false)
    }

    /// Returns 1 / (1 + e^-x) in working precision.
    fn logistic_to_work(&self, x: &Dyadic) -> IBig {
        let w = self.work();
        let (a, negative) = self.reduced(x);
        let one = IBig::ONE << w;
        let y = (&one << w) / (&one + exp_minus(&a, w));
        if negative { one - y } else { y }
    }

    /// Returns x / (1 + e^-x). The second factor has an error below 4 u, and x is at most 2^12.
    pub fn silu(&self, x: &Dyadic) -> IBig {
        let w = self.work();
        self.finish((x.floor(w) * self.logistic_to_work(x)) >> w, false)
    }

    /// Returns e^x. For x > 0 it is 1 / t with t = e^-x, with an error of (error of x and of t) e^(2x), for which 3 x more bits
    /// are kept.
    pub fn exp(&self, x: &Dyadic) -> IBig {
        let (a, negative) = self.reduced(x);
        if negative {
            // The floor of x has an error below u, and the slope is at most 1.
            return self.finish(exp_minus(&a, self.work()), false);
        }
        let whole = usize::try_from(&(&a >> self.work())).unwrap_or(0);
        let w = self.work() + 3 * whole + 8;
        let t = exp_minus(&x.floor(w), w);
        ((IBig::ONE << (2 * w)) / t) >> (w - self.bits)
    }

    /// Returns cos x. x is halved s times; each doubling, 2 c^2 - 1, multiplies the error by four, so 2 s + 8 more bits are
    /// kept.
    pub fn cos(&self, x: &Dyadic) -> IBig {
        let (a, _) = self.reduced(x);
        let s = halvings(&a, self.work());
        let w = self.work() + 2 * s + 8;
        let r = x.floor(w).abs() >> s;
        let square = (&r * &r) >> w;
        let (mut term, mut sum, mut k) = (IBig::ONE << w, IBig::ONE << w, 0u32);
        while term != IBig::ZERO {
            k += 2;
            term = -((term * &square) >> w) / (k * (k - 1));
            sum += &term;
        }
        for _ in 0..s {
            sum = ((&sum * &sum) >> (w - 1)) - (IBig::ONE << w);
        }
        sum >> (w - self.bits)
    }

    /// Returns arctan x. Above 1 it is pi/2 - arctan(1/x); then t -> t / (1 + sqrt(1 + t^2)) halves the angle eight times, to
    /// below 2^-8. Each halving adds an error below 4 u and halves the error so far. Doubled back, the error is below
    /// 2^8 (8 + terms) u, where terms is below bits / 8 and 2^GUARD u is one unit.
    pub fn arctan(&self, x: &Dyadic) -> IBig {
        let w = self.work();
        let (a, negative) = self.reduced(x);
        let one = IBig::ONE << w;
        let far = a > one;
        let mut t = if far { (&one << w) / a } else { a };
        for _ in 0..8 {
            let root = root(&((&one << w) + &t * &t));
            t = (t << w) / (&one + root);
        }
        let square = (&t * &t) >> w;
        let (mut term, mut sum, mut k) = (t.clone(), t, 1u32);
        while term != IBig::ZERO {
            term = -((term * &square) >> w);
            k += 2;
            sum += &term / k;
        }
        let angle: IBig = sum << 8;
        self.finish(if far { (&self.pi >> 1) - angle } else { angle }, negative)
    }

    /// Returns erf x.
    pub fn erf(&self, x: &Dyadic) -> IBig {
        let (a, negative) = self.reduced(x);
        // 2 / sqrt(pi) G, with G below sqrt(pi) / 2.
        let y = match self.gauss(&a, 2) {
            Some(g) => (g << (self.work() + 1)) / self.root_of_pi(0),
            None => IBig::ONE << self.work(),
        };
        self.finish(y, negative)
    }

    /// Returns Phi(x), the distribution function of the standard normal law.
    pub fn normal(&self, x: &Dyadic) -> IBig {
        self.finish(self.normal_to_work(x), false)
    }

    /// Returns x Phi(x). Phi has an error below 2^8 u, and x is at most 2^12.
    pub fn gelu(&self, x: &Dyadic) -> IBig {
        let w = self.work();
        self.finish((x.floor(w) * self.normal_to_work(x)) >> w, false)
    }

    /// Returns Phi(x) in working precision, with an error below 2^8 u.
    fn normal_to_work(&self, x: &Dyadic) -> IBig {
        let w = self.work();
        let (a, negative) = self.reduced(x);
        let half = IBig::ONE << (w - 1);
        let y = match self.gauss(&a, 1) {
            Some(g) => (g << w) / self.root_of_pi(1),
            None => half.clone(),
        };
        if negative { half - y } else { half + y }
    }

    /// Returns the density of the normal law of variance 1 (k = 1) or 1/2 (k = 2): e^(-k x^2 / 2) / sqrt(2 pi / k). Truncating
    /// the exponent costs less than u where the slope is at most 1, the exponential is within u, and the square root, above
    /// 1, has an error below 2^7 u.
    pub fn density(&self, x: &Dyadic, k: u32) -> IBig {
        let w = self.work();
        let half = Dyadic::new(k.into(), -1);
        let bell = exp_minus(&x.times(x).times(&half).floor(w), w);
        self.finish((bell << w) / root(&((&self.pi << (w + 1)) / k)), false)
    }

    /// Returns x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, where 0.044715 is the f64 nearest to it. The inner argument has
    /// an error below 2^(6 + 36) u for x up to 2^12, for which that many more bits are kept.
    pub fn gelu_tanh(&self, x: &Dyadic) -> IBig {
        let more = Precise::new(self.bits + 48);
        let w = more.work();
        let cubic = x.plus(&x.times(x).times(x).times(&Dyadic::from(0.044_715))).floor(w);
        // sqrt(2 / pi) = 2 / sqrt(2 pi)
        let inner = (cubic << (w + 1)) / more.root_of_pi(1);
        let negative = inner.is_negative();
        let t = exp_minus(&(inner.abs() << 1), w);
        let one = IBig::ONE << w;
        let tanh = ((&one - &t) << w) / (&one + &t);
        let sum = if negative { one - tanh } else { one + tanh };
        ((x.floor(w) * sum) >> (w + 1)) >> (w - self.bits)
    }

    /// Returns sqrt(pi 2^k) in working precision, with an error below 2^7 u.
    fn root_of_pi(&self, k: usize) -> IBig {
        root(&(&self.pi << (self.work() + k)))
    }

    /// Returns G = a e^(-k a^2 / 2) sum_n (k a^2)^n / (2n+1)!! for a >= 0, in working precision, or `None` where the tail, at
    /// most e^(-k a^2 / 2), is below u / 4, so that G equals its limit.
    ///
    /// With s = k a^2 the sum is at most e^(s/2), because term n is at most (s/2)^n / n!. In units v, an error in term j grows
    /// by at most e^(s/2) until term n, so N terms together have an error of N^2 e^(s/2) v, which becomes N^2 v when multiplied
    /// by e^(-s/2), whose own error costs e^(s/2) v. With s/2 log2(e) + 48 more bits the total is below u for N up to 2^20.
    fn gauss(&self, a: &IBig, k: u32) -> Option<IBig> {
        let w = self.work();
        let s = (a * a * k) >> w;
        let whole = usize::try_from(&(&s >> (w + 1))).unwrap_or(usize::MAX);
        if whole > w + 2 {
            return None;
        }
        let wide = w + 3 * (whole + 1) / 2 + 48;
        let a = a << (wide - w);
        let s = (&a * &a * k) >> wide;
        let (mut term, mut sum, mut n) = (a.clone(), a, 1u32);
        while term != IBig::ZERO {
            n += 2;
            term = ((term * &s) >> wide) / n;
            sum += &term;
        }
        Some(((sum * exp_minus(&(s >> 1), wide)) >> wide) >> (wide - w))
    }
}

/// Returns the integer square root.
fn root(x: &IBig) -> IBig {
    UBig::try_from(x.clone()).map_or(IBig::ZERO, |x| x.sqrt().into())
}

/// Returns the number of halvings that bring y 2^-w below about 2^-(8 + sqrt(w) / 2), where a series needs few terms.
fn halvings(y: &IBig, w: usize) -> usize {
    (y.bit_len() + 8 + w.isqrt() / 2).saturating_sub(w)
}

/// Returns e^(-y 2^-w) 2^w for y >= 0, within one unit.
///
/// Let v be one unit of w + s + 24 bits. Truncating y 2^-s costs one v, N terms of the series cost N + 1, and each of the s
/// squarings doubles the error and adds one. The total is below 2^s (N + 4) v, which is below 2^-4 units for N up to 2^19.
fn exp_minus(y: &IBig, w: usize) -> IBig {
    if y.bit_len() > w + 20 {
        return IBig::ZERO; // e^-(2^19)
    }
    let s = halvings(y, w);
    let wide = w + s + 24;
    let r = (y << (wide - w)) >> s;
    let one = IBig::ONE << wide;
    let (mut term, mut sum, mut k) = (one.clone(), one, 0u32);
    while term != IBig::ZERO {
        k += 1;
        // Rounded towards 0, so that the series terminates.
        term = -((term * &r) / (IBig::ONE << wide)) / k;
        sum += &term;
    }
    for _ in 0..s {
        sum = (&sum * &sum) >> wide;
    }
    sum >> (wide - w)
}

/// Returns pi 2^w from pi = 16 arctan(1/5) - 4 arctan(1/239). Truncating each term gives an error below 20 (w / 4 + 2) units of
/// 2^-(w + 16): below one unit of 2^-w for w up to 2^13, and below 2^6 units far beyond.
fn machin(w: usize) -> IBig {
    let wide = w + 16;
    let inverse = |n: u32| {
        let (mut power, mut sum, mut k) = ((IBig::ONE << wide) / n, IBig::ZERO, 1u32);
        while power != IBig::ZERO {
            sum += if k % 4 == 1 { &power / k } else { -(&power / k) };
            power /= n * n;
            k += 2;
        }
        sum
    };
    (inverse(5) * 16 - inverse(239) * 4) >> 16usize
}

#[cfg(test)]
mod tests;
