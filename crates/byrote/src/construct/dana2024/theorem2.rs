//! Theorem 2 in numbers: how far a lookup table blurred by noise is from an encoder of random codes.
//!
//! **Statement** (in the tighter form of E10; the paper's H is minus the entropy). Let W have rows w_1..w_N with |<w_i, w_j> - [i = j]| <= C < 1/2, g the most likely next token
//! of a context, H its entropy. Some encoder with these W has
//!
//! ```text
//! KL <= (1 - pi_g) ln((N - 1) / (e^H - 1)) (1 + 2C) / (1 - 2C)
//! ```
//!
//! for every context, hence on average. Its codes are lambda w_g, with lambda >= 0 from H = ln sum_j e^(lambda <w_j - w_g, w_g>)
//! (equation 6). For codes of length 1 the factor may be (1 + nu) / (1 - mu), mu the largest and -nu the smallest inner
//! product of w_g with the others.
//!
//! Five numbers, each at most the one before it if it is finite, in nats per prediction:
//!
//! | | |
//! |---|---|
//! | `paper` | with C = sqrt(32 ln(N + 1) / d), that of the theorem: infinite up to d = 128 ln(N + 1) |
//! | `measured` | with C of the actual codes |
//! | `unit` | with mu and nu of the actual codes, context by context |
//! | `equation6` | the divergence itself with lambda from equation (6) |
//! | `best` | the same with the best lambda, for which E_softmax <w_j, w_g> = E_pi <w_j, w_g> |
//!
//! (`paper` need not be above `measured` if the codes are bad.) Contexts with one next token contribute 0, as lambda
//! tends to infinity; so do uniform ones, with lambda = 0.
//!
//! dana2024 (arXiv:2411.10115), Theorem 2, equation (6).

use super::codes::Codes;
use crate::Result;
use crate::bounds::dana2024_encoder::code_distortion;
use crate::dataset::Dataset;
use crate::observe::Observer;
use crate::units::Nats;
use serde::Serialize;

/// The numbers, in nats per prediction; `None` if a bound is infinite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Theorem2 {
    /// With the C of the theorem.
    pub paper_nats: Option<Nats>,
    /// With the C of the codes.
    pub measured_nats: Option<Nats>,
    /// With the largest and the smallest inner product of each code.
    pub unit_nats: Option<Nats>,
    /// The divergence with lambda from equation (6).
    pub equation6_nats: Nats,
    /// The divergence with the best lambda.
    pub best_nats: Nats,
    /// C of the theorem.
    pub paper_c: f64,
    /// C of the codes.
    pub measured_c: f64,
}

/// Evaluates the theorem on a dataset with codes of all tokens in `d` dimensions.
pub fn theorem2(dataset: &Dataset, d: u64, seed: u64, observer: &dyn Observer) -> Result<Theorem2> {
    let d_vocab = dataset.d_vocab();
    let codes = Codes::new(d_vocab as usize, d as usize, seed, observer)?;
    let n = codes.len();
    let products = |g: usize| -> Vec<f64> {
        let own = codes.of(g);
        (0..n).map(|j| codes.of(j).iter().zip(own).map(|(a, b)| a * b).sum()).collect()
    };
    // Tokens that are the most likely one somewhere, with the values that the bounds need.
    let mut rows: Vec<Option<(Vec<f64>, f64, f64)>> = vec![None; n];
    let mut top = vec![false; n];
    (0..dataset.len()).for_each(|i| top[top_token(dataset, i) as usize] = true);
    let paper_c = code_distortion(d, d_vocab);
    // |<w_i, w_j>| is at most 1, so that the largest is found among all pairs.
    let mut measured_c = 0f64;
    for g in 0..n {
        observer.check()?;
        let row = products(g);
        let rest = || row.iter().enumerate().filter(|&(j, _)| j != g).map(|(_, &a)| a);
        measured_c = rest().fold(measured_c, |m, a| m.max(a.abs())).max((row[g] - 1.0).abs());
        let (least, most) = rest().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), a| (l.min(a), m.max(a)));
        if top[g] {
            rows[g] = Some((row, most, (-least).max(0.0)));
        }
    }
    let factor = |c: f64| if c < 0.5 { (1.0 + 2.0 * c) / (1.0 - 2.0 * c) } else { f64::INFINITY };
    let (mut base, mut unit, mut equation6, mut best) = (0.0, 0.0, 0.0, 0.0);
    let total = dataset.predictions();
    for i in 0..dataset.len() {
        observer.check()?;
        let (next, count) = (dataset.next_of(i), dataset.counts[i]);
        let g = top_token(dataset, i);
        let Some((row, mu, nu)) = &rows[g as usize] else { continue };
        let weight = count / total;
        let pi_g = next.iter().find(|&&(t, _)| t == g).map_or(0.0, |&(_, c)| c / count);
        if pi_g >= 1.0 {
            continue;
        }
        let entropy = dataset.floor_of(i) / count;
        let spread = ((n as f64 - 1.0) / entropy.exp_m1()).ln().max(0.0);
        base += weight * (1.0 - pi_g) * spread;
        unit += weight * (1.0 - pi_g) * spread * (1.0 + nu) / (1.0 - mu);
        let own = row[g as usize];
        // sum_j pi_j <w_g - w_j, w_g>
        let lag: f64 = next.iter().map(|&(t, c)| c / count * (own - row[t as usize])).sum();
        let excess = |lambda: f64| row.iter().map(|a| (lambda * (a - own)).exp()).sum::<f64>().ln();
        let divergence = |lambda: f64| excess(lambda) + lambda * lag - entropy;
        let lambda = root(|lambda| excess(lambda) - entropy);
        equation6 += weight * divergence(lambda);
        // The derivative of the divergence: E_pi <w_g - w_j, w_g> - E_softmax of the same.
        let slope = |lambda: f64| {
            let (mut sum, mut mean) = (0.0, 0.0);
            for a in row {
                let e = (lambda * (a - own)).exp();
                sum += e;
                mean += e * (own - a);
            }
            mean / sum - lag
        };
        best += weight * divergence(root(slope)).min(divergence(lambda));
    }
    let finite = |x: f64| x.is_finite().then_some(Nats(x));
    let bound = |c: f64| finite(if base == 0.0 { 0.0 } else { base * factor(c) });
    Ok(Theorem2 {
        paper_nats: bound(paper_c),
        measured_nats: bound(measured_c),
        unit_nats: finite(unit),
        equation6_nats: Nats(equation6),
        best_nats: Nats(best),
        paper_c,
        measured_c,
    })
}

/// The most frequent next token; the smallest id in case of a tie.
pub fn top_token(dataset: &Dataset, context: usize) -> u32 {
    let next = dataset.next_of(context);
    next.iter().fold((0, f64::NEG_INFINITY), |m, &(t, c)| if c > m.1 { (t, c) } else { m }).0
}

/// Where a decreasing function crosses 0 on lambda >= 0; 0 if it starts below, and the largest value tried if it never
/// crosses.
fn root(f: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    if f(low) <= 0.0 {
        return 0.0;
    }
    while f(high) > 0.0 && high < 1e12 {
        low = high;
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if f(middle) > 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::dana2024::examples::*;
    use crate::observe::Silent;

    /// 95% one token, the rest spread evenly over the others.
    fn look_up(n: u32) -> Dataset {
        let noise = 0.05 / f64::from(n - 1);
        let next = |g: u32| (0..n).map(|t| (t, if t == g { 0.95 } else { noise })).collect::<Vec<_>>();
        of_contexts(n.into(), (0..n).map(|g| (vec![g, 0], 1.0, next(g))))
    }

    #[test]
    fn a_blurred_look_up_table_has_the_numbers_worked_out_by_hand() {
        // N = 50, d = 49, codes on a simplex: mu = -1/49, nu = C = 1/49. H = -.95 ln .95 + .05 ln(49/.05) = 0.393106,
        // .05 ln(49/(e^H - 1)) = 0.231126; times (1 + 2/49)/(1 - 2/49) = 1.085106 for C, times 1 for mu and nu.
        let found = theorem2(&look_up(50), 49, 0, &Silent).unwrap();
        assert_eq!(found.paper_nats, None);
        for (found, expect) in [
            (found.measured_nats.unwrap().0, 0.231_126 * 1.085_106),
            (found.unit_nats.unwrap().0, 0.231_126),
            (found.equation6_nats.0, 0.231_126),
        ] {
            assert!((found - expect).abs() < 2e-6, "{found} {expect}");
        }
        // All wrong tokens are equally likely, so a simplex gives the distribution itself.
        assert!(found.best_nats.0 < 1e-12, "{:?}", found.best_nats);
        assert!((found.measured_c - 1.0 / 49.0).abs() < 1e-12);
    }

    #[test]
    fn the_numbers_come_in_order_for_any_codes() {
        for (n, d, seed) in [(20, 3, 1), (20, 8, 2), (20, 19, 3), (20, 600, 4), (12, 2, 5)] {
            for concentration in [1.0, 0.1] {
                let dataset = distributions(n, 2, 40, concentration, seed);
                let t = theorem2(&dataset, d, seed, &Silent).unwrap();
                assert!(t.best_nats.0 <= t.equation6_nats.0 && t.best_nats.0 >= 0.0, "{t:?}");
                assert!(t.unit_nats.is_none_or(|u| t.equation6_nats.0 <= u.0 * (1.0 + 1e-12)), "{t:?}");
                let (unit, measured) = (t.unit_nats.map(|n| n.0), t.measured_nats.map(|n| n.0));
                assert!(measured.is_none_or(|m| unit.is_some_and(|u| u <= m * (1.0 + 1e-12))), "{t:?}");
                assert_eq!(t.paper_nats.is_some(), d as f64 > 128.0 * f64::from(n + 1).ln());
            }
        }
    }

    #[test]
    fn certain_and_uniform_contexts_cost_nothing() {
        let certain = of_contexts(6, (0..6).map(|t| (vec![t, 0], 1.0, vec![(t, 1.0)])));
        let t = theorem2(&certain, 5, 0, &Silent).unwrap();
        assert_eq!((t.unit_nats, t.equation6_nats, t.best_nats), (Some(Nats(0.0)), Nats(0.0), Nats(0.0)));
        let uniform = of_contexts(6, (0..6).map(|t| (vec![t, 0], 6.0, (0..6).map(|v| (v, 1.0)).collect())));
        let t = theorem2(&uniform, 5, 0, &Silent).unwrap();
        assert!(t.unit_nats.unwrap().0.abs() < 1e-12 && t.equation6_nats.0.abs() < 1e-12);
    }

    #[test]
    fn e10_the_sign_of_the_entropy_and_the_short_form() {
        // pi = (1/2, 1/2): e^H - 1 = 1, where e^-H - 1 = -1/2 has no logarithm. N = 2, C = 0 is impossible in d = 1; in the
        // plane of two orthonormal codes 0.5 ln(1/1) = 0.
        let halves = of_contexts(2, (0..2).map(|t| (vec![t, 0], 2.0, vec![(0, 1.0), (1, 1.0)])));
        assert_eq!(theorem2(&halves, 1, 0, &Silent).unwrap().equation6_nats, Nats(0.0));
        // N = 3, contexts (1/2, 1/2, 0) and (.6, .2, .2): the mean of (1 - pi_g) ln(2/(e^H - 1)) is 0.2196, the divergence of
        // the theorem's own encoder; with the mean entropy inside the logarithm it would be 0.2028, which is less.
        let rows = [vec![(0, 0.5), (1, 0.5)], vec![(0, 0.6), (1, 0.2), (2, 0.2)]];
        let dataset = of_contexts(3, rows.into_iter().zip(0..).map(|(next, t)| (vec![t, 0], 1.0, next)));
        let found = theorem2(&dataset, 2, 0, &Silent).unwrap();
        let short = 0.45 * (2.0 / (0.5 * dataset.floor.0).exp_m1()).ln();
        assert!((found.equation6_nats.0 - 0.2196).abs() < 5e-5 && (short - 0.2028).abs() < 5e-5, "{found:?}");
        assert!(found.unit_nats.unwrap().0 > short);
    }
}
