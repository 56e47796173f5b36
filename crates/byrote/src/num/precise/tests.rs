//! Checks against published digits, an independent implementation (dashu-float), identities, and the error bound of one unit.

use super::*;
use crate::num::Stream;
use dashu_float::FBig;
use dashu_float::round::mode::HalfEven;

type Float = FBig<HalfEven, 2>;

/// Returns a decimal fraction in units of 2^-bits.
fn decimal(text: &str, bits: usize) -> IBig {
    let (whole, fraction) = text.split_once('.').unwrap();
    let digits: IBig = format!("{whole}{fraction}").parse().unwrap();
    (digits << bits) / IBig::from(10u32).pow(fraction.len())
}

fn off(a: &IBig, b: &IBig) -> IBig {
    (a - b).abs()
}

#[test]
fn values_agree_with_60_digits() {
    let precise = Precise::new(180);
    let at = |x: f64| Dyadic::from(x);
    // mpmath at 70 digits.
    let cases = [
        (precise.tanh(&at(0.5)), "0.462117157260009758502318483643672548730289280330113038552731"),
        (precise.erf(&at(0.5)), "0.520499877813046537682746653891964528736451575757963700058805"),
        (precise.erf(&at(3.0)), "0.999977909503001414558627223870417679620152292912600750342761"),
        (precise.gelu(&at(1.0)), "0.841344746068542948585232545632037922477912966726604390987394"),
        (precise.arctan(&at(1.0)), "0.785398163397448309615660845819875721049292349843776455243736"),
        (precise.exp(&at(1.0)), "2.718281828459045235360287471352662497757247093699959574966967"),
        (precise.cos(&at(1.0)), "0.540302305868139717400936607442976603732310420617922227670097"),
        (precise.logistic(&at(-1.0)), "0.268941421369995120748840758178163725634855359834943480723634"),
        (precise.normal(&at(-2.0)), "0.022750131948179207200282637166533437471776223701678433983666"),
        (precise.density(&at(1.0), 1), "0.241970724519143349797830192935560654828671970737435025487555"),
        (precise.density(&at(-1.0), 2), "0.207553748710297351670134124720668682684453514969634759265374"),
    ];
    // 60 digits are 199 bits; the error bound is one unit of 2^-180.
    for (i, (found, text)) in cases.iter().enumerate() {
        assert!(off(found, &decimal(text, 180)) <= IBig::from(2), "case {i}");
    }
}

#[test]
fn an_independent_implementation_agrees() {
    let bits = 300;
    let precise = Precise::new(bits);
    let mut stream = Stream::new(3, "fixed", 0);
    let compare = |ours: IBig, theirs: Float, what: &str, x: f64| {
        let difference = Float::from_parts(ours, -(bits as isize)).with_precision(400).value() - theirs;
        let unit = Float::from_parts(IBig::from(2), -(bits as isize));
        assert!(difference.abs() <= unit, "{what}({x})");
    };
    for i in 0..40 {
        let x = stream.normal() * [0.01, 1.0, 7.0, 60.0][i % 4];
        let (at, big) = (Dyadic::from(x), Float::try_from(x).unwrap().with_precision(500).value());
        compare(precise.tanh(&at), big.tanh(), "tanh", x);
        compare(precise.arctan(&at), big.atan(), "arctan", x);
        compare(precise.exp(&at), big.exp(), "exp", x);
        compare(precise.cos(&at), big.cos(), "cos", x);
    }
}

/// Returns every function with its name.
fn all(precise: &Precise, x: &Dyadic) -> [(&'static str, IBig); 11] {
    [
        ("tanh", precise.tanh(x)),
        ("logistic", precise.logistic(x)),
        ("exp", precise.exp(x)),
        ("cos", precise.cos(x)),
        ("arctan", precise.arctan(x)),
        ("erf", precise.erf(x)),
        ("gelu", precise.gelu(x)),
        ("gelu-tanh", precise.gelu_tanh(x)),
        ("normal", precise.normal(x)),
        ("density", precise.density(x, 1)),
        ("density of variance 1/2", precise.density(x, 2)),
    ]
}

#[test]
fn the_error_is_below_one_unit_compared_with_more_bits() {
    let mut stream = Stream::new(4, "fixed", 1);
    for bits in [20usize, 64, 333, 1000] {
        let (precise, finer) = (Precise::new(bits), Precise::new(2 * bits + 50));
        for i in 0..24 {
            let x = stream.normal() * [1e-9, 0.3, 2.0, 9.0, 40.0, 300.0][i % 6];
            let at = Dyadic::from(x);
            for ((name, coarse), (_, fine)) in all(&precise, &at).into_iter().zip(all(&finer, &at)) {
                // In units of the finer precision, whose own error is one unit.
                let difference = off(&(coarse << (bits + 50)), &fine);
                assert!(difference <= (IBig::ONE << (bits + 50)) + IBig::ONE, "{name}({x}) at {bits}");
            }
        }
    }
}

#[test]
fn f64_functions_agree_to_their_last_digits() {
    use crate::num::precise::to_f64;
    let precise = Precise::new(120);
    for i in -60..=60 {
        let x = f64::from(i) * 0.17;
        let at = Dyadic::from(x);
        let values = all(&precise, &at).map(|(_, y)| to_f64(&y, 120));
        let expected = [x.tanh(), 1.0 / (1.0 + (-x).exp()), x.exp(), x.cos(), x.atan(), libm::erf(x)];
        for (a, b) in values.iter().zip(expected) {
            assert!((a - b).abs() <= 4e-16 * b.abs().max(1.0), "{x}: {a} {b}");
        }
    }
}

#[test]
fn symmetries_hold_up_to_the_largest_argument() {
    let precise = Precise::new(100);
    let one = IBig::ONE << 100;
    for x in [0.0, 0.25, 5.0, 4000.0] {
        let (at, back) = (Dyadic::from(x), Dyadic::from(-x));
        for f in [Precise::tanh, Precise::erf, Precise::arctan] {
            assert!((f(&precise, &at) + f(&precise, &back)).abs() <= IBig::from(2));
        }
        assert!(off(&(precise.logistic(&at) + precise.logistic(&back)), &one) <= IBig::from(2));
        // gelu(x) - gelu(-x) = x
        assert!(off(&(precise.gelu(&at) - precise.gelu(&back)), &at.floor(100)) <= IBig::from(2));
    }
    assert!(Dyadic::from(4096.0).floor(0) == IBig::from(4096) && !Dyadic::from(1e9).is_moderate());
    assert!(Dyadic::from(1e-300).is_moderate() && Dyadic::from(0.0).is_moderate());
    assert_eq!(
        Dyadic::from(0.75).plus(&Dyadic::from(-8.0)).times(&Dyadic::from(2.0)).floor(1),
        IBig::from(-29)
    );
}

#[test]
fn conversions_keep_53_bits() {
    for x in [0.0, 1.0, -0.1, 1e-30, 123_456.789, -1e20] {
        let y = to_f64(&Dyadic::from(x).floor(400), 400);
        assert!((x - y).abs() <= 4e-16 * x.abs(), "{x} {y}");
    }
    assert_eq!(to_f64(&(IBig::ONE << 5000), 10), f64::INFINITY);
    assert_eq!(to_f64(&IBig::ONE, 5000), 0.0);
    assert!((log2(&(IBig::from(-3) << 900), 100) - 800.0 - 3f64.log2()).abs() < 1e-9);
}

#[test]
fn dyadic_numbers_are_compared_by_value() {
    let two = Dyadic::new(IBig::ONE, 1);
    assert_eq!(two, Dyadic::from(2.0));
    assert!(two > Dyadic::from(2f64.next_down()) && Dyadic::from(-1e300) < Dyadic::from(-1e-300));
    assert_eq!(
        Dyadic::from(0.1).minus(&Dyadic::from(0.3)).abs(),
        Dyadic::from(0.3).minus(&Dyadic::from(0.1))
    );
    for x in [0.0, 0.1, -7.25e200, 3e-300, 5e-324] {
        assert_eq!(Dyadic::from(x).to_f64(), x);
    }
}
