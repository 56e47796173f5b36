//! Fits and comparisons against known parameters and against scipy.

use super::law::tests::example;
use super::*;
use crate::num::Stream;
use proptest::prelude::*;

const X: [f64; 8] = [1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 16.0, 20.0];

/// A law with noise: normal, of standard deviation `noise` times the range of the curve.
fn noisy(law: Law, parameters: &[f64], x: &[f64], n_groups: u64, noise: f64, index: u64) -> Points {
    let curve: Vec<f64> = x.iter().map(|&x| law.value(parameters, x)).collect();
    let range =
        curve.iter().copied().fold(f64::MIN, f64::max) - curve.iter().copied().fold(f64::MAX, f64::min);
    let noise = noise * if range > 0.0 { range } else { 1.0 };
    let mut stream = Stream::new(5, "fit tests", index);
    let mut points = Vec::new();
    for group in 0..n_groups {
        for (&x, y) in x.iter().zip(&curve) {
            points.push(Point::new(x, y + noise * stream.normal(), group));
        }
    }
    Points::new(points).unwrap()
}

fn close(found: &[f64], expected: &[f64], tolerance: f64, what: &dyn std::fmt::Debug) {
    assert_eq!(found.len(), expected.len());
    for (f, e) in found.iter().zip(expected) {
        assert!((f - e).abs() <= tolerance * (1e-12 + e.abs()), "{what:?}: {found:?}, expected {expected:?}");
    }
}

#[test]
fn every_law_is_recovered_from_points_on_it() {
    for law in Law::ALL {
        let truth = example(law);
        for scale in [ResidualScale::Plain, ResidualScale::Relative] {
            // Quadratic, cubic and logarithmic examples have values below zero.
            let points = noisy(law, &truth, &X, 1, 0.0, 0);
            if scale == ResidualScale::Relative && points.as_slice().iter().any(|p| p.y <= 0.0) {
                continue;
            }
            let found = fit(&points, law, &FitMethod { scale, loss: Loss::Squares }).unwrap();
            close(&found.values(), &truth, 1e-6, &(law, scale));
            assert!(found.r_squared.is_none_or(|r| r > 1.0 - 1e-12) && !found.at_bound, "{law}");
        }
    }
}

#[test]
fn every_law_is_recovered_from_noisy_points_within_its_standard_errors() {
    let x: Vec<f64> = (1..=20).map(f64::from).collect();
    for law in Law::ALL {
        let truth = example(law);
        for index in 0..5 {
            let found = fit(&noisy(law, &truth, &x, 5, 0.01, index), law, &FitMethod::default()).unwrap();
            for (parameter, truth) in found.parameters.iter().zip(&truth) {
                let z = (parameter.value - truth) / parameter.standard_error.unwrap();
                assert!(z.abs() < 4.0, "{law} {index}: {parameter:?}, truth {truth}");
            }
        }
    }
}

#[test]
fn sizes_in_millions_are_as_good_as_sizes_in_tens() {
    // x ln x is not the same law in another unit.
    for law in Law::ALL.into_iter().filter(|law| *law != Law::RootLog) {
        let truth = example(law);
        let values: Vec<f64> = X.iter().map(|&x| law.value(&truth, x)).collect();
        let large = Points::of_lists(&X.map(|x| 1e6 * x), &values).unwrap();
        let found = fit(&large, law, &FitMethod::default()).unwrap();
        for (x, y) in X.iter().zip(&values) {
            assert!((found.value(1e6 * x) - y).abs() < 1e-7 * (1.0 + y.abs()), "{law} at {x}");
        }
    }
}

/// Law, y at the sizes X, and of scipy.optimize.curve_fit 1.17 (tolerances 1e-15): parameters, standard errors, sum of squares.
type Golden = (Law, [f64; 8], &'static [f64], &'static [f64], f64);

#[rustfmt::skip]
const GOLDEN: [Golden; 10] = [
    (Law::Quadratic, [-0.715, -1.918, -2.717, -2.88, 1.091, 13.045, 32.946, 61.058], &[1.047416723, -2.009015066, 0.2504259974], &[0.07329092, 0.019667032, 0.00094154097], 0.03773129421),
    (Law::Power, [3.011, 1.988, 1.553, 1.159, 0.839, 0.671, 0.554, 0.515], &[3.01328888, -0.6027086175], &[0.013370183, 0.0043940121], 0.001316695054),
    (Law::PowerOffset, [3.002, 3.814, 4.425, 5.459, 6.657, 7.914, 9.065, 9.995], &[1.115181721, 1.882738096, 0.5182197786], &[0.074079383, 0.06021043, 0.0082874513], 0.002122395298),
    (Law::Logarithmic, [-1.136, -0.54, -0.13, 0.266, 0.674, 0.999, 1.324, 1.341], &[-1.109044783, 0.8497503745], &[0.039356062, 0.019853078], 0.01858976713),
    (Law::BrokenLine, [2.924, 5.409, 7.129, 11.133, 16.022, 16.795, 18.158, 19.147], &[1.099171419, 2.018028574, 0.2684499996, 7.243474954], &[0.22026698, 0.07054189, 0.023329538, 0.21921038], 0.1741655429),
    (Law::SaturatingExponential, [0.186, 0.36, 0.5, 0.659, 0.819, 0.905, 0.933, 0.933], &[0.9511814652, 4.156985739], &[0.0074375771, 0.098515591], 0.000680854127),
    (Law::Hyperbola, [0.298, 0.518, 0.673, 0.893, 1.157, 1.323, 1.472, 1.517], &[1.972201234, 5.773058789], &[0.027529442, 0.21199512], 0.001560786634),
    (Law::Logistic, [0.036, 0.091, 0.193, 0.494, 0.765, 0.905, 0.929, 0.948], &[0.975420821, 4.944186575, 2.677355091], &[0.013066589, 0.10536639, 0.12315365], 0.0009661336168),
    (Law::LogisticFloor, [0.205, 0.222, 0.286, 0.483, 0.711, 0.869, 0.925, 0.927], &[0.1957302833, 0.7663752041, 6.07748667, 2.821763358], &[0.0091620292, 0.017864842, 0.12966532, 0.16641752], 0.0004025205417),
    (Law::Decay, [3.126, 2.391, 1.784, 1.1, 0.561, 0.299, 0.314, 0.283], &[0.2566113389, 3.943348183, 3.193881953], &[0.021401797, 0.061397993, 0.097565113], 0.005554820039),
];

#[test]
fn fits_are_those_of_scipy() {
    for (law, y, parameters, errors, sum) in GOLDEN {
        let found = fit(&Points::of_lists(&X, &y).unwrap(), law, &FitMethod::default()).unwrap();
        close(&found.values(), parameters, 1e-6, &law);
        let found_errors: Vec<f64> = found.parameters.iter().map(|p| p.standard_error.unwrap()).collect();
        close(&found_errors, errors, 1e-5, &law);
        close(&[found.loss], &[sum], 1e-8, &law);
        let n_free = (8 - parameters.len()) as f64;
        close(&[found.standard_error.unwrap()], &[(sum / n_free).sqrt()], 1e-8, &law);
        // AICc from scipy's sum, by its formula.
        let k = parameters.len() as f64 + 1.0;
        let aicc =
            (8.0 > k + 1.0).then(|| 8.0 * (sum / 8.0).ln() + 2.0 * k + 2.0 * k * (k + 1.0) / (7.0 - k));
        close(&[found.aicc.unwrap()], &[aicc.unwrap()], 1e-8, &law);
    }
}

#[test]
fn relative_fits_are_those_of_scipy_and_weighted_ones_those_of_rational_arithmetic() {
    let y = [3.1, 3.7, 4.6, 5.3, 6.9, 7.7, 9.3, 9.8];
    let relative = FitMethod { scale: ResidualScale::Relative, ..FitMethod::default() };
    let found = fit(&Points::of_lists(&X, &y).unwrap(), Law::PowerOffset, &relative).unwrap();
    close(&found.values(), &[1.317752333986, 1.742529224601, 0.536122046941], 1e-6, &"relative");
    let errors: Vec<f64> = found.parameters.iter().map(|p| p.standard_error.unwrap()).collect();
    close(&errors, &[0.586564228, 0.513376993, 0.0826671653], 1e-5, &"relative");
    close(&[found.loss], &[0.007086229075776], 1e-8, &"relative");

    let y = [1.1, 2.3, 2.9, 5.2, 7.7, 12.4, 16.3, 19.5];
    let weights = [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0];
    for unit in [1.0, 1e6] {
        let points = (0..8).map(|i| Point { weight: unit * weights[i], ..Point::new(X[i], y[i], 0) });
        let found = fit(&Points::new(points).unwrap(), Law::Linear, &FitMethod::default()).unwrap();
        close(&found.values(), &[0.22734551426811744, 0.9796551016218435], 1e-12, &"weighted");
        let errors: Vec<f64> = found.parameters.iter().map(|p| p.standard_error.unwrap()).collect();
        close(&errors, &[0.2000887349771605, 0.016743973761214784], 1e-12, &"weighted");
    }
}

#[test]
fn robust_fits_are_those_of_scipy_and_bear_an_outlier() {
    // least_squares(loss="huber", f_scale=1.345 * scale); the sixth point is an outlier in both.
    let line = [1.1, 2.3, 2.9, 5.2, 7.7, 25.0, 16.3, 19.5];
    let curve = [0.29, 0.5, 0.66, 0.91, 1.15, 2.6, 1.45, 1.54];
    let huber = |scale| FitMethod { loss: Loss::Huber { tuning: 1.345, scale }, ..FitMethod::default() };
    let points = |y: &[f64]| Points::of_lists(&X, y).unwrap();
    let found = fit(&points(&line), Law::Linear, &huber(Some(0.2))).unwrap();
    close(&found.values(), &[0.141357908847, 0.993489276139], 1e-6, &"line");
    close(&[found.loss], &[7.384600282842], 1e-8, &"line");
    let found = fit(&points(&curve), Law::Hyperbola, &huber(Some(0.01))).unwrap();
    close(&found.values(), &[2.006478565134, 6.009985204038], 1e-6, &"curve");
    close(&[found.loss], &[0.03397835958819], 1e-8, &"curve");

    // With the scale from the residuals the outlier is borne as well; squares follow it.
    let robust =
        fit(&points(&curve), Law::Hyperbola, &FitMethod { loss: Loss::HUBER, ..FitMethod::default() })
            .unwrap();
    let squares = fit(&points(&curve), Law::Hyperbola, &FitMethod::default()).unwrap();
    assert!((robust.value(20.0) - 1.54).abs() < 0.03 && (squares.value(20.0) - 1.54).abs() > 0.1);
    assert!(robust.r_squared.unwrap() > squares.r_squared.unwrap());
}

#[test]
fn the_interval_of_an_exponent_holds_it_as_often_as_it_says() {
    // y = 2 x^1.5 with errors of 5%, one seed, 9 sizes; 300 trials of 95%: 285, standard deviation 3.8, three of them.
    let relative = FitMethod { scale: ResidualScale::Relative, ..FitMethod::default() };
    let held = (0..300).filter(|&trial| {
        let mut stream = Stream::new(8, "exponent test", trial);
        let points = (0..9).map(|i| {
            let x = f64::from(1 << i);
            Point::new(x, 2.0 * x.powf(1.5) * (0.05 * stream.normal()).exp(), 0)
        });
        let points = Points::new(points).unwrap();
        let power = fit(&points, Law::Power, &relative).unwrap();
        let settings = Bootstrap { replicates: 400, seed: trial, ..Bootstrap::default() };
        bootstrap(&points, &power, &settings).unwrap().interval("p").unwrap().holds(1.5)
    });
    let held = held.count();
    assert!((274..=296).contains(&held), "{held} of 300");
}

const CANDIDATES: [Law; 6] =
    [Law::Linear, Law::Quadratic, Law::Square, Law::Power, Law::Logarithmic, Law::SaturatingExponential];

fn quick() -> CompareSettings {
    CompareSettings {
        bootstrap: Bootstrap { replicates: 200, ..Bootstrap::default() },
        ..CompareSettings::default()
    }
}

fn supported(points: &Points, laws: &[Law]) -> LawVerdict {
    compare(points, laws, &quick()).unwrap().verdict
}

#[test]
fn clear_points_support_their_own_law() {
    let x: Vec<f64> = (1..=16).map(f64::from).collect();
    for (law, laws) in [
        (Law::Linear, &CANDIDATES[..]),
        (Law::Square, &CANDIDATES[..]),
        (Law::Quadratic, &CANDIDATES[..]),
        (Law::Power, &CANDIDATES[..]),
        (Law::Logarithmic, &CANDIDATES[..]),
        (Law::SaturatingExponential, &CANDIDATES[..]),
        (Law::BrokenLine, &[Law::Linear, Law::Quadratic, Law::Cubic, Law::Hyperbola, Law::BrokenLine]),
        (Law::LogisticFloor, &[Law::Linear, Law::Cubic, Law::Hyperbola, Law::LogisticFloor]),
        (Law::Decay, &[Law::Linear, Law::Power, Law::PowerOffset, Law::Decay, Law::Logarithmic]),
    ] {
        for (index, noise) in [(0, 0.0), (1, 0.01), (2, 0.01)] {
            let points = noisy(law, &example(law), &x, 5, noise, index);
            let found = compare(&points, laws, &quick()).unwrap();
            assert_eq!(found.verdict, LawVerdict::Supported { law }, "{noise} {index}: {}", found.sentence);
            let weights: f64 = found.rows.iter().filter_map(|row| row.weight).sum();
            assert!((weights - 1.0).abs() < 1e-12 && found.rows[0].delta == Some(0.0));
        }
    }
}

#[test]
fn a_robust_comparison_is_not_led_astray_by_outliers() {
    let x: Vec<f64> = (1..=16).map(f64::from).collect();
    let clean = noisy(Law::Linear, &[2.0, 3.0], &x, 3, 0.01, 3);
    let spoiled = clean.as_slice().iter().enumerate().map(|(i, &point)| match i {
        7 | 30 | 41 => Point { y: point.y + 40.0, ..point },
        _ => point,
    });
    let spoiled = Points::new(spoiled).unwrap();
    let robust =
        CompareSettings { method: FitMethod { loss: Loss::HUBER, ..FitMethod::default() }, ..quick() };
    let found = compare(&spoiled, &CANDIDATES, &robust).unwrap();
    assert_eq!(found.verdict, LawVerdict::Supported { law: Law::Linear }, "{}", found.sentence);
}

#[test]
fn laws_that_look_alike_are_not_distinguished() {
    // Near x = 10 a logarithm, a square root and a line are the same within the noise.
    let points = noisy(Law::Linear, &[1.0, 0.5], &[9.0, 9.5, 10.0, 10.5, 11.0, 11.5], 4, 0.05, 1);
    let LawVerdict::NotToldApart { laws } = supported(&points, &[Law::Linear, Law::Logarithmic, Law::Square])
    else {
        panic!("{:?}", supported(&points, &[Law::Linear, Law::Logarithmic, Law::Square]));
    };
    assert_eq!(laws.len(), 3);
}

#[test]
fn pure_noise_supports_no_law() {
    let x: Vec<f64> = (1..=12).map(f64::from).collect();
    let huge = std::env::var_os("BYROTE_TEST_HUGE").is_some_and(|value| value == "1");
    let trials = if huge { 40 } else { 15 };
    for index in 0..trials {
        let points = noisy(Law::Constant, &[3.0], &x, 1 + index % 3, 1.0, 100 + index);
        let settings =
            CompareSettings { bootstrap: Bootstrap { replicates: 100, ..Bootstrap::default() }, ..quick() };
        let found = compare(&points, &Law::ALL, &settings).unwrap();
        assert!(matches!(found.verdict, LawVerdict::NoLaw { .. }), "{index}: {}", found.sentence);
        assert!(found.sentence.starts_with("no law is supported by these points: "), "{}", found.sentence);
    }
}

#[test]
fn three_points_or_three_sizes_support_no_law() {
    let few = Points::of_lists(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]).unwrap();
    let too_few = LawVerdict::NoLaw { why: Why::TooFewPoints, nearest: None };
    assert_eq!(supported(&few, &CANDIDATES), too_few);
    let sizes = noisy(Law::Linear, &[2.0, 3.0], &[1.0, 2.0, 3.0], 10, 0.001, 0);
    let found = compare(&sizes, &CANDIDATES, &quick()).unwrap();
    assert_eq!(found.verdict, too_few);
    assert_eq!(found.sentence, "no law is supported by these points: 30 points at too few sizes");
    let row = found.row(Law::Quadratic).unwrap();
    assert!(row.delta.is_none() && row.doubts[0].sentence().contains("6 points and 5 sizes are needed"));
    let one = Points::of_lists(&[1.0], &[1.0]).unwrap();
    assert_eq!(supported(&one, &Law::ALL), too_few);
}

#[test]
fn constant_points_support_no_law() {
    for level in [0.0, 1.0, -7.5] {
        let points = Points::of_lists(&X, &[level; 8]).unwrap();
        let found = compare(&points, &CANDIDATES, &quick()).unwrap();
        let why = |verdict| matches!(verdict, LawVerdict::NoLaw { why: Why::NothingVaries, .. });
        assert!(why(found.verdict), "{}", found.sentence);
    }
}

#[test]
fn a_wrong_law_alone_is_doubted_for_its_pattern() {
    // A line through a logistic curve: R^2 is high, the residuals are not noise.
    let x: Vec<f64> = (1..=14).map(f64::from).collect();
    for n_groups in [1, 5] {
        let points = noisy(Law::LogisticFloor, &[0.0, 1.0, 6.0, 3.0], &x, n_groups, 0.01, 4);
        let found = compare(&points, &[Law::Linear], &quick()).unwrap();
        let Objection::Pattern { test, .. } = found.rows[0].doubts[0] else {
            panic!("{:?}", found.rows[0].doubts)
        };
        assert_eq!(test, if n_groups == 1 { PatternTest::Runs } else { PatternTest::LackOfFit });
        let nearest = Some(Law::Linear);
        assert_eq!(found.verdict, LawVerdict::NoLaw { why: Why::Doubts, nearest });
        assert!(found.sentence.contains("the nearest is linear, but the residuals have a pattern of"));
    }
}

#[test]
fn shapes_that_the_sizes_cannot_show_are_doubted() {
    // A straight line is a saturating law far from saturation: its scale is not in the points.
    let points = noisy(Law::Proportional, &[0.01], &X, 5, 0.02, 6);
    let found = compare(&points, &[Law::SaturatingExponential], &quick()).unwrap();
    assert!(found.rows[0].doubts.contains(&Objection::AtBound), "{:?}", found.rows[0].doubts);
    // Two sizes and two more next to them do not say which power it is.
    let narrow = noisy(Law::Power, &[1.0, 2.0], &[10.0, 10.3, 10.6, 11.0, 11.3], 5, 0.15, 6);
    let found = compare(&narrow, &[Law::Power], &quick()).unwrap();
    let wide = |doubt: &Objection| matches!(doubt, Objection::WideExponent { .. });
    assert!(found.rows[0].doubts.iter().any(wide), "{:?}", found.rows[0].doubts);
}

#[test]
fn a_supported_law_is_the_true_one_or_a_simpler_one_most_of_the_time() {
    // 100 times a noisy line with 5 seeds among all laws: a law of which the line is not a special case is rarely supported.
    let x = [1.0, 2.0, 4.0, 6.0, 9.0, 13.0, 18.0, 24.0];
    let settings = CompareSettings {
        bootstrap: Bootstrap { replicates: 100, ..Bootstrap::default() },
        ..CompareSettings::default()
    };
    let (mut right, mut wrong) = (0, 0);
    for index in 0..100 {
        let points = noisy(Law::Linear, &[2.0, 1.0], &x, 5, 0.05, 500 + index);
        let laws =
            [Law::Proportional, Law::Linear, Law::Quadratic, Law::Logarithmic, Law::Power, Law::BrokenLine];
        let verdict = compare(&points, &laws, &settings).unwrap().verdict;
        right += u32::from(verdict.laws().contains(&Law::Linear));
        wrong += u32::from(!verdict.laws().is_empty() && !verdict.laws().contains(&Law::Linear));
    }
    assert!(right >= 85 && wrong <= 8, "{right} right, {wrong} wrong of 100");
}

#[test]
fn comparisons_are_the_same_on_any_number_of_threads() {
    let points = noisy(Law::PowerOffset, &[1.0, 2.0, 0.5], &X, 6, 0.02, 1);
    let work = || serde_json::to_string(&compare(&points, &Law::ALL, &quick()).unwrap()).unwrap();
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let one = pool(1).install(work);
    assert_eq!(one, pool(3).install(work));
    let json: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), Law::ALL.len());
    assert_eq!(json["settings"]["criteria"]["tie"], 4.0, "the criterion is in the value");
    assert_eq!(json["rows"][0]["fit"]["residuals"].as_array().unwrap().len(), 48);
}

#[test]
fn what_cannot_be_asked_is_an_error_that_says_why() {
    let error = |x: &[f64], y: &[f64], law, method: &FitMethod| {
        fit(&Points::of_lists(x, y).unwrap(), law, method).unwrap_err().to_string()
    };
    let (plain, relative) =
        (FitMethod::default(), FitMethod { scale: ResidualScale::Relative, ..FitMethod::default() });
    let (x, y) = ([-1.0, 0.0, 2.0], [1.0, -2.0, 3.0]);
    assert!(error(&x, &y, Law::Power, &plain).contains("the law power requires sizes above 0 (got -1)"));
    assert!(
        error(&x, &y, Law::Decay, &plain).contains("the law decay requires sizes of 0 and above (got -1)")
    );
    assert!(error(&[0.0, 1.0], &[1.0, 2.0], Law::Logarithmic, &plain).contains("(got 0)"));
    assert!(error(&x, &y, Law::Linear, &relative).contains("values above 0 (got -2 at x = 0)"));
    assert!(
        error(&x, &y, Law::Cubic, &plain)
            .contains("has 4 parameters, but the points have only 3 different sizes")
    );
    let bad = FitMethod { loss: Loss::Huber { tuning: 0.0, scale: None }, ..plain };
    assert!(error(&x, &y, Law::Linear, &bad).contains("must be above 0"));
    let all_zero = error(&[0.0], &[1.0], Law::Proportional, &plain);
    assert!(all_zero.contains("do not determine the law proportional"), "{all_zero}");
    let points = Points::of_lists(&x, &y).unwrap();
    assert!(compare(&points, &[Law::Power], &quick()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    // Whatever the points: an answer or an error, no panic; and least squares beat the constant where the law contains it.
    #[test]
    fn any_points_have_an_answer(
        values in prop::collection::vec((1u8..40, -3.0f64..3.0, 0u64..3), 1..25), size in -6i32..7, height in -6i32..7,
    ) {
        let mut seen = std::collections::BTreeSet::new();
        let values = values.into_iter().filter(|(x, _, group)| seen.insert((*x, *group)));
        let points = Points::new(values.map(|(x, y, group)| {
            Point::new(f64::from(x) * 10f64.powi(size), y * 10f64.powi(height), group)
        })).unwrap();
        let constant = fit(&points, Law::Constant, &FitMethod::default()).unwrap();
        for law in Law::ALL {
            if let Ok(found) = fit(&points, law, &FitMethod::default()) {
                prop_assert!(found.values().iter().all(|v| v.is_finite()));
                if law.contains(Law::Constant) && law.parameters()[0] == "a" && !matches!(law, Law::SaturatingExponential | Law::Hyperbola) {
                    prop_assert!(found.loss <= constant.loss * (1.0 + 1e-9) + 1e-300, "{law}");
                }
            }
        }
        let settings = CompareSettings { bootstrap: Bootstrap { replicates: 100, ..Bootstrap::default() }, ..CompareSettings::default() };
        prop_assert!(compare(&points, &CANDIDATES, &settings).is_ok());
    }
}
