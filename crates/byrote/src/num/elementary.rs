//! Branch-free exp, tanh, erf, arctan, logistic function and normal distribution.
//!
//! In a loop inside a [`super::simd::SimdKernel`] the compiler vectorizes them. Each is a polynomial after argument
//! reduction; the coefficients are Chebyshev fits computed with 50 digits and rounded. The largest errors in units in the
//! last place, with fused multiply-adds (tested; without them, up to twice as large):
//!
//! | function | f32 | f64 |
//! |---|---|---|
//! | [`exp`] | 1.2 | 1.2 |
//! | [`tanh`] | 2 | 2 |
//! | [`erf`], value; slope | 3; 3 | 2; 3 |
//! | [`arctan`] | 3 | 2 |
//! | [`logistic`], value; slope | 3; 5 | 3; 5 |
//! | [`normal`], distribution; density | 6; 3 | 5; 3 |
//!
//! Limits: results of exp below 2^-125 (f64: 2^-1021) are 0, so none is subnormal and slow; results above the largest finite
//! number are infinite; NaN gives NaN.

use super::simd::{Float, Isa};
use std::ops::{Div, Neg, Sub};

/// The constants and bit operations of a precision.
pub trait Elementary:
    Float + PartialOrd + Sub<Output = Self> + Div<Output = Self> + Neg<Output = Self> + 'static
{
    /// log2(e).
    const LOG2_E: Self;
    /// ln 2 in two parts; the product of the first with an integer exponent is exact.
    const LN_2: (Self, Self);
    /// 1.5 times 2 to the mantissa bits, plus the exponent bias minus one. Adding it to a number rounds that number to an
    /// integer whose last bits form an exponent field.
    const ROUND: Self;
    /// The arguments below which exp is 0 and above which it is infinite.
    const EXP_RANGE: (Self, Self);
    /// The argument below which e^x is negligible compared with 1. Products with it stay clear of subnormal numbers, which
    /// are slow.
    const NEGLIGIBLE: Self;
    /// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2.
    const EXP: &'static [Self];
    /// (tanh x / x - 1) / x^2 in x^2, for |x| <= 5/8.
    const TANH: &'static [Self];
    /// (arctan x / x - 1) / x^2 in x^2, for |x| <= tan(pi / 8).
    const ARCTAN: &'static [Self];
    /// erf x / x in x^2, for |x| <= 1.
    const ERF: &'static [Self];
    /// a, and (x + a) e^(x^2) erfc x as a polynomial in (x - a) / (x + a), for x from 0 to where erfc underflows.
    const ERFCX: (Self, &'static [Self]);

    /// Rounds a constant to this precision.
    fn constant(x: f64) -> Self;
    /// Returns the power of two whose exponent field is the last bits of `self`.
    fn exponent(self) -> Self;
    /// Returns |x|.
    fn magnitude(self) -> Self;
    /// Returns the magnitude of `self` with the sign of `sign`.
    fn signed(self, sign: Self) -> Self;
}

macro_rules! bits {
    ($mantissa:literal) => {
        #[inline(always)]
        fn constant(x: f64) -> Self {
            x as Self
        }
        #[inline(always)]
        fn exponent(self) -> Self {
            Self::from_bits(self.to_bits() << $mantissa)
        }
        #[inline(always)]
        fn magnitude(self) -> Self {
            self.abs()
        }
        #[inline(always)]
        fn signed(self, sign: Self) -> Self {
            self.copysign(sign)
        }
    };
}

#[allow(clippy::excessive_precision, clippy::unreadable_literal, clippy::approx_constant)]
impl Elementary for f32 {
    const LOG2_E: Self = std::f32::consts::LOG2_E;
    const LN_2: (Self, Self) = (0.693359375, -2.12194440e-4);
    const ROUND: Self = 12_582_912.0 + 126.0;
    const EXP_RANGE: (Self, Self) = (-86.92, 88.722_84);
    const NEGLIGIBLE: Self = -46.0;
    const EXP: &'static [Self] = &[0.5, 0.166665763, 0.0416665524, 0.00836323295, 0.00139262504];
    const TANH: &'static [Self] = &[-0.333333284, 0.133327693, -0.0538509078, 0.0209971797, -0.00609671418];
    const ARCTAN: &'static [Self] = &[-0.333333313, 0.199995399, -0.142639309, 0.107434675, -0.0645105466];
    const ERF: &'static [Self] =
        &[1.12837911, -0.37612626, 0.112835944, -0.0268542115, 0.00518908724, -0.00080168643, 7.87587487e-5];
    const ERFCX: (Self, &'static [Self]) = (
        3.0,
        &[
            1.07400692,
            -0.88339448,
            0.590228438,
            -0.310466647,
            0.119527332,
            -0.0268362164,
            -0.00121688913,
            0.00307705789,
            -0.000500258757,
            -0.000334224402,
        ],
    );
    bits!(23);
}

#[allow(clippy::excessive_precision, clippy::unreadable_literal, clippy::approx_constant)]
impl Elementary for f64 {
    const LOG2_E: Self = std::f64::consts::LOG2_E;
    const LN_2: (Self, Self) = (0.693145751953125, 1.42860682030941723212e-6);
    const ROUND: Self = 6_755_399_441_055_744.0 + 1022.0;
    const EXP_RANGE: (Self, Self) = (-707.98, 709.782_712_893_384);
    const NEGLIGIBLE: Self = -460.0;
    const EXP: &'static [Self] = &[
        0.5000000000000001,
        0.16666666666666669,
        0.041666666666623824,
        0.008333333333330039,
        0.0013888888917367081,
        0.00019841269863171557,
        2.4801521057868204e-05,
        2.7557268276905696e-06,
        2.7620201591031547e-07,
        2.5100472505694996e-08,
    ];
    const TANH: &'static [Self] = &[
        -0.3333333333333332,
        0.13333333333326658,
        -0.05396825396139557,
        0.021869488260559115,
        -0.008863229830925709,
        0.0035920589774734554,
        -0.001455309297534642,
        0.0005874372860094381,
        -0.00023077616269519857,
        7.959955735264808e-05,
        -1.724487449484433e-05,
    ];
    const ARCTAN: &'static [Self] = &[
        -0.3333333333333333,
        0.19999999999995505,
        -0.1428571428466294,
        0.1111111101496664,
        -0.09090904566354399,
        0.07692182917461161,
        -0.06664507597561675,
        0.05858115476299884,
        -0.050852748016420944,
        0.03922660551087136,
        -0.01917070039374299,
    ];
    const ERF: &'static [Self] = &[
        1.1283791670955126,
        -0.3761263890318375,
        0.11283791670954879,
        -0.026866170645076792,
        0.0052239776248180145,
        -0.000854832698083379,
        0.0001205533111164271,
        -1.4925595266831182e-05,
        1.6461000484121368e-06,
        -1.6350312701054695e-07,
        1.4659775274047436e-08,
        -1.1372848856791674e-09,
        5.957176147748911e-11,
    ];
    const ERFCX: (Self, &'static [Self]) = (
        3.75,
        &[
            1.0919229095627891,
            -0.9587415766529118,
            0.7363189252217405,
            -0.4904702912074705,
            0.279062049034456,
            -0.13195540118414484,
            0.0491187785995782,
            -0.01253587997381892,
            0.0009863382649682214,
            0.0007948226824657875,
            -0.00034864810390014246,
            1.0595362886233496e-05,
            3.7476809053292885e-05,
            -8.905934036456444e-06,
            -3.3022172130568486e-06,
            1.6550999577307097e-06,
            2.989615861865778e-07,
            -2.559670538564868e-07,
            -4.241030139536297e-08,
            2.9688995856761243e-08,
            8.19211238112497e-09,
        ],
    );
    bits!(52);
}

#[inline(always)]
fn polynomial<T: Elementary, I: Isa>(isa: I, x: T, coefficients: &'static [T]) -> T {
    let mut sum = coefficients[coefficients.len() - 1];
    for &c in coefficients[..coefficients.len() - 1].iter().rev() {
        sum = isa.fma(sum, x, c);
    }
    sum
}

/// Returns e^x.
#[inline(always)]
pub fn exp<T: Elementary, I: Isa>(isa: I, x: T) -> T {
    let k = T::constant;
    let t = isa.fma(x, T::LOG2_E, T::ROUND);
    let n = t - T::ROUND;
    let r = isa.fma(n, -T::LN_2.1, isa.fma(n, -T::LN_2.0, x));
    let more = isa.fma(r * r, polynomial(isa, r, T::EXP), r);
    // 2 e^r times 2^(n - 1), because n can exceed the largest exponent by one.
    let y = isa.fma(more, k(2.0), k(2.0)) * t.exponent();
    let y = if x < T::EXP_RANGE.0 { k(0.0) } else { y };
    if x > T::EXP_RANGE.1 { k(f64::INFINITY) } else { y }
}

/// Returns tanh x.
#[inline(always)]
pub fn tanh<T: Elementary, I: Isa>(isa: I, x: T) -> T {
    let k = T::constant;
    let (a, s) = (x.magnitude(), x * x);
    let near = isa.fma(x * s, polynomial(isa, s, T::TANH), x);
    let far = (k(1.0) - k(2.0) / (exp(isa, a + a) + k(1.0))).signed(x);
    if a < k(0.625) { near } else { far }
}

/// Returns arctan x.
#[inline(always)]
pub fn arctan<T: Elementary, I: Isa>(isa: I, x: T) -> T {
    let k = T::constant;
    let a = x.magnitude();
    // Above tan(3 pi / 8) use pi/2 - arctan(1 / a), above tan(pi / 8) use pi/4 + arctan((a - 1) / (a + 1)).
    let (over, top, bottom, base) =
        (a > k(2.414_213_562_373_095), k(-1.0), a, k(std::f64::consts::FRAC_PI_2));
    let middle = a > k(0.414_213_562_373_095_03);
    let top = if over {
        top
    } else if middle {
        a - k(1.0)
    } else {
        a
    };
    let bottom = if over {
        bottom
    } else if middle {
        a + k(1.0)
    } else {
        k(1.0)
    };
    let base = if over {
        base
    } else if middle {
        k(std::f64::consts::FRAC_PI_4)
    } else {
        k(0.0)
    };
    let z = top / bottom;
    let s = z * z;
    (base + isa.fma(z * s, polynomial(isa, s, T::ARCTAN), z)).signed(x)
}

/// Returns 1 / (1 + e^-x) and its derivative.
#[inline(always)]
pub fn logistic<T: Elementary, I: Isa>(isa: I, x: T) -> (T, T) {
    let k = T::constant;
    // e^-|x| does not overflow, and both tails keep their relative accuracy.
    let e = exp(isa, -x.magnitude());
    let inverse = k(1.0) / (k(1.0) + e);
    (if x < k(0.0) { e * inverse } else { inverse }, e * inverse * inverse)
}

/// Returns e^(-x^2 / scale) for x >= 0 and a scale of 1 or 2, corrected for the rounding of x^2.
#[inline(always)]
fn gauss<T: Elementary, I: Isa>(isa: I, x: T, inverse_scale: T) -> T {
    let square = x * x;
    let rest = if I::FMA { isa.fma(x, x, -square) } else { T::constant(0.0) };
    let e = exp(isa, -square * inverse_scale);
    isa.fma(-rest * inverse_scale, e, e)
}

/// Returns e^(x^2) erfc x for x >= 0, where erfc does not underflow.
#[inline(always)]
fn scaled_erfc<T: Elementary, I: Isa>(isa: I, x: T) -> T {
    let (a, coefficients) = T::ERFCX;
    let inverse = T::constant(1.0) / (x + a);
    polynomial(isa, (x - a) * inverse, coefficients) * inverse
}

/// Returns |x|, capped where every tail is 0, so that infinities need no special case.
#[inline(always)]
fn bounded<T: Elementary>(x: T) -> T {
    let (a, bound) = (x.magnitude(), T::constant(1e4));
    if a > bound { bound } else { a }
}

/// Returns erf x and its derivative.
#[inline(always)]
pub fn erf<T: Elementary, I: Isa>(isa: I, x: T) -> (T, T) {
    let k = T::constant;
    let a = bounded(x);
    let e = gauss(isa, a, k(1.0));
    let near = x * polynomial(isa, x * x, T::ERF);
    let far = (k(1.0) - scaled_erfc(isa, a) * e).signed(x);
    (if a < k(1.0) { near } else { far }, e * k(std::f64::consts::FRAC_2_SQRT_PI))
}

/// Returns the distribution function of the standard normal law, accurate in the left tail too, and its density.
#[inline(always)]
pub fn normal<T: Elementary, I: Isa>(isa: I, x: T) -> (T, T) {
    let k = T::constant;
    let a = bounded(x);
    let e = gauss(isa, a, k(0.5));
    let tail = k(0.5) * scaled_erfc(isa, a * k(std::f64::consts::FRAC_1_SQRT_2)) * e;
    (if x < k(0.0) { tail } else { k(1.0) - tail }, e * k(0.398_942_280_401_432_7))
}

#[cfg(test)]
mod tests {
    use super::super::simd::{SimdKernel, each};
    use super::*;
    use std::ops::Range;

    /// A function over a slice, compiled for an instruction set.
    struct Map<'a, T> {
        x: &'a [T],
        function: Function,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Function {
        Exp,
        Tanh,
        Arctan,
        Logistic,
        LogisticSlope,
        Erf,
        ErfSlope,
        Normal,
        Density,
    }

    impl<T: Elementary> SimdKernel for Map<'_, T> {
        type Output = (bool, Vec<T>);
        #[inline(always)]
        fn call<I: Isa>(self, isa: I) -> (bool, Vec<T>) {
            let one = |x: T| match self.function {
                Function::Exp => exp(isa, x),
                Function::Tanh => tanh(isa, x),
                Function::Arctan => arctan(isa, x),
                Function::Logistic => logistic(isa, x).0,
                Function::LogisticSlope => logistic(isa, x).1,
                Function::Erf => erf(isa, x).0,
                Function::ErfSlope => erf(isa, x).1,
                Function::Normal => normal(isa, x).0,
                Function::Density => normal(isa, x).1,
            };
            (I::FMA, self.x.iter().map(|&x| one(x)).collect())
        }
    }

    fn truth(function: Function, x: f64) -> f64 {
        let logistic = |x: f64| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) };
        match function {
            Function::Exp => x.exp(),
            Function::Tanh => x.tanh(),
            Function::Arctan => x.atan(),
            Function::Logistic => logistic(x),
            Function::LogisticSlope => logistic(x) * logistic(-x),
            Function::Erf => libm::erf(x),
            Function::ErfSlope => std::f64::consts::FRAC_2_SQRT_PI * gauss(x, 1.0),
            Function::Normal => normal_tail(x),
            Function::Density => 0.398_942_280_401_432_7 * gauss(x, 0.5),
        }
    }

    /// Returns e^(-x^2 s), corrected for the rounding of the square.
    fn gauss(x: f64, s: f64) -> f64 {
        let square = x * x;
        (-square * s).exp() * (1.0 - x.mul_add(x, -square) * s)
    }

    /// Returns Phi by libm's erfc, corrected for the rounding of its argument: erfc(z + d) = erfc z - d 2/sqrt(pi) e^(-z^2).
    fn normal_tail(x: f64) -> f64 {
        let z = -x * std::f64::consts::FRAC_1_SQRT_2;
        let d = (-x).mul_add(std::f64::consts::FRAC_1_SQRT_2, -z) - x * -4.833_646_656_726_456e-17;
        0.5 * (libm::erfc(z) - d * std::f64::consts::FRAC_2_SQRT_PI * gauss(z, 1.0))
    }

    const ALL: [(Function, f64); 9] = [
        (Function::Exp, 1.2),
        (Function::Tanh, 2.0),
        (Function::Arctan, 3.0),
        (Function::Logistic, 3.0),
        (Function::LogisticSlope, 5.0),
        (Function::Erf, 3.0),
        (Function::ErfSlope, 3.0),
        (Function::Normal, 6.0),
        (Function::Density, 3.0),
    ];

    fn errors_are_small<T: Elementary>(
        widen: fn(T) -> f64,
        range: Range<f64>,
        unit: f64,
        reference_ulp: f64,
    ) {
        // Dense around zero, then out to where the functions have reached their limits.
        let mut x: Vec<T> = (-60_000..=60_000).map(|i| T::constant(f64::from(i) / 30_000.0)).collect();
        x.extend((-60_000..=60_000).map(|i| T::constant(f64::from(i) / 600.0 + 1e-4)));
        x.extend((-60_000..=60_000).map(|i| T::constant(f64::from(i) / 83.0)));
        x.extend(
            (-300..=30).flat_map(|i| [1.0, -1.0].map(|s| T::constant(s * 10f64.powf(f64::from(i) / 10.0)))),
        );
        for (function, limit) in ALL {
            let mut worst = Vec::new();
            each(
                |_| Map { x: &x, function },
                |(fma, y)| {
                    // Without fused multiply-adds the rounding of x^2 contributes up to x^2 units.
                    let loose =
                        !fma && matches!(function, Function::ErfSlope | Function::Normal | Function::Density);
                    let mut most = (0.0, 0.0);
                    for (&x, &y) in x.iter().zip(&y) {
                        let (x, y) = (widen(x), widen(y));
                        let expect = truth(function, x);
                        // Results that are subnormal, or nearly so, may be 0; those that are too large are infinite.
                        if expect.abs() < range.start || expect > range.end {
                            assert!(
                                y.abs() <= range.start || (y > 1.0 && y.is_infinite()),
                                "{function:?}({x}) = {y}"
                            );
                            continue;
                        }
                        // A unit in the last place of the expected result.
                        let ulp = unit * 2f64.powi(expect.abs().log2().floor() as i32);
                        let error = (y - expect).abs() / ulp - if loose { x * x } else { 0.0 };
                        if error > most.0 {
                            most = (error, x);
                        }
                    }
                    let allowed = limit * if fma { 1.0 } else { 2.0 } + reference_ulp;
                    worst.push((most, allowed));
                },
            );
            assert!(worst.iter().all(|(most, allowed)| most.0 <= *allowed), "{function:?}: {worst:?}");
        }
    }

    #[test]
    fn errors_are_a_few_units_in_the_last_place_in_f32() {
        errors_are_small::<f32>(f64::from, 2.4e-38..f64::from(f32::MAX), f64::from(f32::EPSILON), 0.0);
    }

    #[test]
    fn errors_are_a_few_units_in_the_last_place_in_f64() {
        // The reference itself is accurate only to about one unit.
        errors_are_small::<f64>(|x| x, 4.5e-308..f64::MAX, f64::EPSILON, 1.0);
    }

    fn infinite_arguments_give_limits<T: Elementary + std::fmt::Debug>(widen: fn(T) -> f64) {
        let x = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1e9, 1e9].map(T::constant);
        for (function, _) in ALL {
            each(
                |_| Map { x: &x, function },
                |(_, y)| {
                    let y: Vec<f64> = y.into_iter().map(widen).collect();
                    let h = std::f64::consts::FRAC_PI_2;
                    let (up, down, zero) = match function {
                        Function::Exp => (f64::INFINITY, 0.0, 1.0),
                        Function::Tanh | Function::Erf => (1.0, -1.0, 0.0),
                        Function::Arctan => (h, -h, 0.0),
                        Function::Logistic | Function::Normal => (1.0, 0.0, 0.5),
                        Function::LogisticSlope => (0.0, 0.0, 0.25),
                        Function::ErfSlope => (0.0, 0.0, std::f64::consts::FRAC_2_SQRT_PI),
                        Function::Density => (0.0, 0.0, 0.398_942_280_401_432_7),
                    };
                    let near = |a: f64, b: f64| a == b || (a - b).abs() < 2e-7;
                    assert!(y[0].is_nan(), "{function:?} {y:?}");
                    assert!(near(y[1], up) && near(y[2], down) && near(y[3], zero), "{function:?} {y:?}");
                    assert!(near(y[5], up) && near(y[4], down), "{function:?} {y:?}");
                },
            );
        }
    }

    #[test]
    fn infinite_arguments_give_limits_and_nan_stays_nan() {
        infinite_arguments_give_limits::<f32>(f64::from);
        infinite_arguments_give_limits::<f64>(|x| x);
    }
}
