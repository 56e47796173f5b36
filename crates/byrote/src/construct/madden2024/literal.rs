//! The construction exactly as in madden2024's proof, with as many bits as it needs.
//!
//! The proof of Theorem 5 reduces to one dimension: token gamma is the number z_gamma, position t the number u_t, and a context
//! alpha with x_t = z_(alpha_t) + u_t becomes
//!
//! ```text
//! f(alpha) = sum_t x_t e^(x_t x_last) / sum_t e^(x_t x_last)      attention (Theorem 4)
//!          = sum_t u_t z_(alpha_t)                                token averaging (Theorem 6)
//! ```
//!
//! with z and u drawn at random. Neuron k has the weight eps w_k, drawn at random and scaled to lie where psi's series
//! at eta converges, and the bias eta; the n x n matrix of features F_ik = psi(eps w_k f_i + eta) is regular for almost
//! every draw (Theorem 3 with E2), and V = F^-1 Y gives the targets Y. That is all: no direction is chosen and no
//! neuron is placed.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | n, omega | n = m, omega | contexts and neurons, tokens |
//! | f | f(z, u, alpha) | the mixer's output for a context |
//! | `scale` | eps | the largest \|eps w_k f_i\| |
//! | `eta` | eta | the bias of all neurons |
//!
//! The matrix is nearly singular: each additional context multiplies its condition number by 30 to 1,000 (eta 0.5 to
//! 0). In f64 the logits are wrong from 3 to 9 contexts on. So numbers have p bits after the binary point
//! ([`crate::num::precise`]), p = 64 + 16 n (24 n below scale 1/2), doubled until features, solution and forward pass
//! are accurate and F is *proven* to be regular. V has hundreds of bits; it is reported, not stored.
//!
//! **It refuses** f64 where that is not precise enough, ReLU (wherever it is analytic, it is a polynomial), more than
//! [`MOST_CONTEXTS`] contexts, and mixers with two nearly equal |f| or one near 0 after eight draws: the theorem needs
//! distinct *absolute values* (E2, E3); distinct values are not enough.
//!
//! Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024), Theorems 3 to 7 and the text after Theorem 5.

use super::{DRAWS, KEY};
use crate::construct::{Madden2024Spec, Targets, check_tolerance};
use crate::dataset::Dataset;
use crate::error::Refusal;
use crate::model::{Activation, Mixer};
use crate::num::Stream;
use crate::num::linear::{Mat, factor, product, to_rows};
use crate::num::precise::linear::{self, is_certainly_regular};
use crate::num::precise::{Dyadic, IBig, Precise, log2, to_f64};
use crate::observe::{Observer, Stage};
use crate::setting::choices;
use crate::units::Nats;
use crate::{Error, Result};
use dashu_base::Abs;
use rayon::prelude::*;
use serde::Serialize;

/// The maximum number of contexts: the work grows with the fourth power of their number.
pub const MOST_CONTEXTS: usize = 128;
/// The maximum number of bits after the binary point.
pub const MOST_BITS: usize = 16_384;
/// The number of additional bits with which the mixer's values are computed.
const GUARD: usize = 64;

/// The arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// Double precision.
    F64,
    /// As many bits as needed.
    Bits,
}

choices!(Arithmetic, "arithmetic" { Bits = "bits", F64 = "f64" });

/// Describes the construction.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LiteralSettings {
    /// Attention or token averaging.
    pub mixer: Mixer,
    /// The function of the hidden neurons.
    pub activation: Activation,
    /// The largest |eps w_k f_i|.
    pub scale: f64,
    /// The bias of all neurons.
    pub eta: f64,
    /// The arithmetic.
    pub arithmetic: Arithmetic,
    /// The requested total gap.
    pub gap: Nats,
    /// The largest accepted error of a logit.
    pub tolerance: f64,
    /// The seed of the random draws.
    pub seed: u64,
}

/// As in [`Madden2024Spec`].
impl Default for LiteralSettings {
    fn default() -> Self {
        Madden2024Spec::default().literal_settings(0)
    }
}

crate::setting::setters!(LiteralSettings {
    mixer: plain(Mixer),
    activation: plain(Activation),
    scale: plain(f64),
    eta: plain(f64),
    arithmetic: plain(Arithmetic),
    gap: plain(Nats),
    tolerance: plain(f64),
    seed: plain(u64),
});

/// The result of the construction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiteralReport {
    /// The number of contexts, and of neurons.
    pub contexts: usize,
    /// The arithmetic.
    pub arithmetic: Arithmetic,
    /// The number of bits after the binary point; 53 for double precision.
    pub bits: usize,
    /// log2 of the condition number of the features (infinity norm; estimated in the 1-norm for double precision).
    pub log2_condition: f64,
    /// log2 of the largest output weight.
    pub log2_largest_weight: f64,
    /// The largest difference between a logit and its target, measured with features of 64 more bits than the weights
    /// were solved for, and with as many.
    pub max_logit_error: f64,
    /// Whether the true features are proven to be regular.
    pub certified_regular: bool,
    /// The error of a double-precision forward pass with these weights, rounded; `None` if everything was in double
    /// precision.
    pub max_logit_error_in_f64: Option<f64>,
    /// The smallest difference between two |f|.
    pub smallest_gap: f64,
    /// The smallest |f|.
    pub smallest_value: f64,
    /// The seed of the draw.
    pub seed: u64,
    /// The number of draws before it.
    pub retries: u64,
    /// The smallest probability of a token.
    pub eps: f64,
}

/// A draw: the numbers of tokens, positions and neurons, all f64.
struct Parameters {
    z: Vec<f64>,
    u: Vec<f64>,
    w: Vec<f64>,
}

/// Constructs and measures; see the module documentation.
pub fn literal(
    dataset: &Dataset,
    settings: &LiteralSettings,
    observer: &dyn Observer,
) -> Result<LiteralReport> {
    let n = dataset.len();
    check(n, settings)?;
    let targets = Targets::new(dataset, settings.gap)?;
    let mut worst = None;
    for retry in 0..DRAWS {
        let seed = settings.seed.wrapping_add(retry);
        let mut parameters = draw(dataset, n, seed);
        let rough = mixed(dataset, &parameters, settings.mixer, 128);
        match separation(&rough, 128) {
            Ok(found) => {
                scale(&mut parameters.w, &rough, settings.scale);
                let construction =
                    Construction { dataset, targets: &targets, settings, parameters, observer };
                let (gap, value) = found;
                let solved = match settings.arithmetic {
                    Arithmetic::F64 => construction.in_f64(),
                    Arithmetic::Bits => construction.in_bits(),
                }?;
                return Ok(LiteralReport {
                    contexts: n,
                    arithmetic: settings.arithmetic,
                    bits: solved.bits,
                    log2_condition: solved.log2_condition,
                    log2_largest_weight: solved.log2_largest_weight,
                    max_logit_error: solved.error,
                    certified_regular: solved.certified,
                    max_logit_error_in_f64: solved.error_in_f64,
                    smallest_gap: gap,
                    smallest_value: value,
                    seed,
                    retries: retry,
                    eps: targets.eps,
                });
            }
            Err(refusal) => worst = Some(refusal),
        }
    }
    let refusal = worst.unwrap_or(Refusal::Collision { first: 0, second: 0, relative_gap: 0.0 });
    Err(Error::Refused { builder: KEY, refusal })
}

impl LiteralSettings {
    /// Makes every check that does not need contexts.
    pub(in crate::construct) fn check(&self) -> Result<()> {
        if !self.activation.is_analytic_non_polynomial_somewhere() {
            let message = format!(
                "{} is linear around every point where it is analytic; the literal construction needs a series that is \
                 not a polynomial",
                self.activation
            );
            return Err(Error::setting("activation", message));
        }
        if !(self.scale > 0.0 && self.scale <= 64.0) {
            return Err(Error::setting(
                "scale",
                format!("must be above 0 and at most 64 (got {})", self.scale),
            ));
        }
        if self.eta.is_nan() || self.eta.abs() > 64.0 {
            return Err(Error::setting("eta", format!("must be from -64 to 64 (got {})", self.eta)));
        }
        check_tolerance(self.tolerance)
    }
}

fn check(n: usize, settings: &LiteralSettings) -> Result<()> {
    if n == 0 {
        return Err(Error::EmptyCorpus { message: "no context is followed by a token".into() });
    }
    if n > MOST_CONTEXTS {
        let message = format!(
            "literal takes at most {MOST_CONTEXTS} contexts (got {n}), because its numbers need more bits with every \
             context; the other methods have no such limit"
        );
        return Err(Error::setting("method", message));
    }
    settings.check()
}

fn draw(dataset: &Dataset, n: usize, seed: u64) -> Parameters {
    let longest = dataset.places.iter().map(|&(_, position)| position as usize + 1).max().unwrap_or(0);
    let normals = |purpose, count: usize| {
        let mut stream = Stream::new(seed, purpose, 0);
        (0..count).map(|_| stream.normal()).collect()
    };
    Parameters {
        z: normals("literal-z", dataset.d_vocab() as usize),
        u: normals("literal-u", longest),
        w: normals("literal-w", n),
    }
}

/// f of every context, in units of 2^-bits and accurate to one unit.
///
/// With GUARD more bits an exponential is accurate to one unit there, numbers x_t are below 2^6 and a context has fewer
/// than 2^32 tokens, so sums are within 2^39; the denominator is at least 1: f is within 2^46 of these units before it
/// is truncated.
fn mixed(dataset: &Dataset, parameters: &Parameters, mixer: Mixer, bits: usize) -> Vec<IBig> {
    let work = bits + GUARD;
    let precise = Precise::new(work);
    (0..dataset.len())
        .into_par_iter()
        .map(|i| {
            let tokens = dataset.tokens_of(i);
            let z = |t: u32| Dyadic::from(parameters.z[t as usize]);
            let places = || tokens.iter().zip(&parameters.u).map(|(&t, &u)| (z(t), Dyadic::from(u)));
            match mixer {
                Mixer::Average | Mixer::None => {
                    let zero = Dyadic::from(0.0);
                    places().fold(zero, |sum, (z, u)| sum.plus(&z.times(&u))).floor(bits)
                }
                Mixer::Attention => {
                    let x: Vec<Dyadic> = places().map(|(z, u)| z.plus(&u)).collect();
                    let Some(last) = x.last() else { return IBig::ZERO };
                    let scores: Vec<Dyadic> = x.iter().map(|x| x.times(last)).collect();
                    // A softmax does not change if one number is subtracted from all scores; subtracting the largest
                    // avoids overflow.
                    let coarse = |s: &Dyadic| s.floor(GUARD);
                    let top = scores.iter().map(coarse).max().unwrap_or(IBig::ZERO);
                    let below = Dyadic::new(-top - IBig::ONE, -(GUARD as isize));
                    let weights: Vec<IBig> = scores.iter().map(|s| precise.exp(&s.plus(&below))).collect();
                    let sum: IBig = weights.iter().sum();
                    let moved: IBig = weights.iter().zip(&x).map(|(w, x)| (w * x.floor(work)) >> work).sum();
                    ((moved << work) / sum) >> GUARD
                }
            }
        })
        .collect()
}

/// The smallest difference between two |f|, and the smallest |f|; a refusal if either is too small to build on.
fn separation(f: &[IBig], bits: usize) -> Result<(f64, f64), Refusal> {
    let mut sizes: Vec<(IBig, usize)> = f.iter().map(|f| f.clone().abs()).zip(0..).collect();
    sizes.sort();
    let value = to_f64(&sizes[0].0, bits);
    let largest = to_f64(&sizes[sizes.len() - 1].0, bits);
    let gaps = sizes.windows(2).map(|w| (to_f64(&(&w[1].0 - &w[0].0), bits), w[0].1, w[1].1));
    let closest = gaps.min_by(|a, b| a.0.total_cmp(&b.0));
    let (gap, first, second) = closest.unwrap_or((value, sizes[0].1, sizes[0].1));
    // 2^-30 of the range: still far above the resolution of the first precision.
    if gap <= 1e-9 * largest || value <= 1e-9 * largest {
        return Err(Refusal::Collision { first, second, relative_gap: gap.min(value) / largest });
    }
    Ok((gap, value))
}

/// Scales the weights so that the largest product with a value is `scale`, or just below.
fn scale(w: &mut [f64], f: &[IBig], scale: f64) {
    let largest = f.iter().map(|f| to_f64(f, 128).abs()).fold(0.0, f64::max);
    let most = w.iter().fold(0f64, |m, w| m.max(w.abs()));
    w.iter_mut().for_each(|w| *w *= scale / (most * largest) * (1.0 - 1e-12));
}

struct Construction<'a> {
    dataset: &'a Dataset,
    targets: &'a Targets,
    settings: &'a LiteralSettings,
    parameters: Parameters,
    observer: &'a dyn Observer,
}

/// The outcome at one precision.
struct Solved {
    bits: usize,
    log2_condition: f64,
    log2_largest_weight: f64,
    error: f64,
    certified: bool,
    error_in_f64: Option<f64>,
}

impl Construction<'_> {
    /// The tokens that have a target somewhere, in order; all other columns of Y and V are 0.
    fn tokens(&self) -> Vec<u32> {
        let mut tokens: Vec<u32> =
            (0..self.targets.len()).flat_map(|i| self.targets.of(i)).map(|&(t, _)| t).collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    fn target(&self, context: usize, token: u32) -> f64 {
        self.targets.of(context).iter().find(|e| e.0 == token).map_or(0.0, |e| e.1)
    }

    /// Features `[contexts, neurons]` in units of 2^-bits.
    fn features(&self, bits: usize) -> Vec<IBig> {
        let f = mixed(self.dataset, &self.parameters, self.settings.mixer, bits);
        let precise = Precise::new(bits);
        let eta = Dyadic::from(self.settings.eta);
        f.par_iter()
            .flat_map_iter(|f| {
                let f = Dyadic::new(f.clone(), -(bits as isize));
                let (precise, eta) = (&precise, &eta);
                self.parameters.w.iter().map(move |&w| {
                    self.settings.activation.precise(precise, &Dyadic::from(w).times(&f).plus(eta))
                })
            })
            .collect()
    }

    /// How far a feature is from that of the true f: one unit of its own, and |w| sup |psi'| (at most 1.13) units of f.
    fn radius(&self) -> u32 {
        let most = self.parameters.w.iter().fold(0f64, |m, w| m.max(w.abs()));
        (2.0 + 1.2 * most).ceil().min(1e9) as u32
    }

    fn in_bits(&self) -> Result<Solved> {
        let n = self.dataset.len();
        let mut bits = 64 + if self.settings.scale < 0.5 { 24 * n } else { 16 * n };
        loop {
            self.observer.report(Stage::Solving, 0, None)?;
            let solved = self.at(bits)?;
            let (error, log2_condition) =
                solved.as_ref().map_or((f64::INFINITY, f64::NAN), |s| (s.error, s.log2_condition));
            match solved {
                Some(solved) if solved.certified && error <= self.settings.tolerance => return Ok(solved),
                _ if 2 * bits > MOST_BITS => {
                    let refusal = Refusal::PrecisionExhausted {
                        contexts: n,
                        bits,
                        log2_condition,
                        error,
                        tolerance: self.settings.tolerance,
                        advice: "use fewer contexts or another seed",
                    };
                    return Err(Error::Refused { builder: KEY, refusal });
                }
                _ => bits *= 2,
            }
        }
    }

    /// The construction at one precision; `None` if elimination meets a pivot of 0.
    fn at(&self, bits: usize) -> Result<Option<Solved>> {
        let n = self.dataset.len();
        let features = self.features(bits);
        let Some(lu) = linear::Lu::of(features.clone(), n, bits, self.observer)? else { return Ok(None) };
        let inverse = lu.inverse(self.observer)?;
        let certified = is_certainly_regular(&features, &inverse, n, bits, self.radius());
        let finer = bits + GUARD;
        let fine_features = self.features(finer);
        // One column per token: the weights, and the largest error of its logits in both precisions and in f64.
        let rounded: Vec<f64> = features.iter().map(|x| to_f64(x, bits)).collect();
        let columns: Vec<(IBig, IBig, f64)> = self
            .tokens()
            .into_par_iter()
            .map(|token| {
                let y: Vec<Dyadic> = (0..n).map(|i| Dyadic::from(self.target(i, token))).collect();
                let y_fixed: Vec<IBig> = y.iter().map(|y| y.floor(bits)).collect();
                let v = lu.solve(&y_fixed);
                let worst = |features: &[IBig], width: usize| {
                    let error = |(row, y): (&[IBig], &Dyadic)| {
                        let logit: IBig = row.iter().zip(&v).map(|(f, v)| f * v).sum();
                        (logit - y.floor(width + bits)).abs()
                    };
                    let most = features.chunks(n).zip(&y).map(error).max().unwrap_or(IBig::ZERO);
                    // In units of 2^-(width + bits); converted to 2^-(finer + bits).
                    most << (finer - width)
                };
                let error = worst(&features, bits).max(worst(&fine_features, finer));
                let v64: Vec<f64> = v.iter().map(|v| to_f64(v, bits)).collect();
                let in_f64 = rounded.chunks(n).enumerate().map(|(i, row)| {
                    let logit: f64 = row.iter().zip(&v64).map(|(f, v)| f * v).sum();
                    (logit - self.target(i, token)).abs()
                });
                let in_f64 = in_f64.fold(0.0, larger);
                let largest = v.into_iter().map(Abs::abs).max().unwrap_or(IBig::ZERO);
                (largest, error, in_f64)
            })
            .collect();
        let largest = columns.iter().map(|c| &c.0).max().cloned().unwrap_or(IBig::ZERO);
        let error = columns.iter().map(|c| &c.1).max().cloned().unwrap_or(IBig::ZERO);
        Ok(Some(Solved {
            bits,
            log2_condition: log2(&linear::norm(&features, n), bits) + log2(&linear::norm(&inverse, n), bits),
            log2_largest_weight: log2(&largest, bits),
            error: to_f64(&error, finer + bits),
            certified,
            error_in_f64: Some(columns.iter().map(|c| c.2).fold(0.0, larger)),
        }))
    }

    /// The construction as an ordinary program would do it: features, LU with one refinement and forward pass in f64.
    fn in_f64(&self) -> Result<Solved> {
        let n = self.dataset.len();
        let f: Vec<f64> = mixed(self.dataset, &self.parameters, self.settings.mixer, 128)
            .iter()
            .map(|f| to_f64(f, 128))
            .collect();
        let psi = self.settings.activation;
        let features = Mat::from_fn(n, n, |i, k| psi.value(self.parameters.w[k] * f[i] + self.settings.eta));
        let tokens = self.tokens();
        let targets = Mat::from_fn(n, tokens.len(), |i, c| self.target(i, tokens[c]));
        let lu = factor(features.clone(), self.observer)?;
        let residual = |v: &Mat<f64>| &targets - product(features.as_ref(), v.as_ref());
        let mut v = targets.clone();
        lu.solve(&mut v);
        let mut correction = residual(&v);
        lu.solve(&mut correction);
        v += &correction;
        let r = residual(&v);
        let entries = |a: &Mat<f64>| to_rows(a.as_ref());
        let error = entries(&r).into_iter().map(f64::abs).fold(0.0, larger);
        let condition = lu.condition().log2();
        if error.is_nan() || error > self.settings.tolerance {
            let refusal = Refusal::PrecisionExhausted {
                contexts: n,
                bits: 53,
                log2_condition: condition,
                error,
                tolerance: self.settings.tolerance,
                advice: "double precision is not enough: use more bits or another method",
            };
            return Err(Error::Refused { builder: KEY, refusal });
        }
        Ok(Solved {
            bits: 53,
            log2_condition: condition,
            log2_largest_weight: entries(&v).into_iter().map(f64::abs).fold(0.0, larger).log2(),
            error,
            certified: false,
            error_in_f64: None,
        })
    }
}

/// The larger of two numbers; NaN is larger than any number.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::examples::{letters, stories};
    use crate::observe::Silent;
    use std::sync::Arc;

    /// Up to 36 contexts: runs of one letter, of length one to nine.
    fn contexts(n: usize) -> (Arc<Dataset>, u64) {
        let (mut text, mut count) = (String::new(), 0);
        'words: for length in 2.. {
            for first in 'a'..='d' {
                // All its contexts except the longest are already there.
                if count == n {
                    break 'words;
                }
                count += 1;
                text += &first.to_string().repeat(length - 1);
                text.push(if (count + length).is_multiple_of(3) { 'x' } else { 'y' });
                text.push(' ');
            }
        }
        letters(text.trim_end())
    }

    fn settings(activation: Activation) -> LiteralSettings {
        LiteralSettings { activation, ..LiteralSettings::default() }
    }

    #[test]
    fn the_construction_holds_where_double_precision_fails() {
        let (dataset, _) = contexts(16);
        let n = dataset.len();
        assert!(n >= 16, "{n}");
        for activation in [Activation::Tanh, Activation::Gelu] {
            for mixer in [Mixer::Attention, Mixer::Average] {
                let wanted = LiteralSettings { mixer, ..settings(activation) };
                let report = literal(&dataset, &wanted, &Silent).unwrap();
                assert!(report.certified_regular && report.max_logit_error <= 1e-6, "{report:?}");
                assert!(report.log2_condition > 53.0, "{report:?}");
                assert!(report.bits as f64 > report.log2_condition, "{report:?}");
                // The same weights through a double-precision forward pass.
                assert!(report.max_logit_error_in_f64.unwrap() > 1e-2, "{report:?}");
                let double = LiteralSettings { arithmetic: Arithmetic::F64, ..wanted };
                let refused = literal(&dataset, &double, &Silent).unwrap_err().to_string();
                assert!(refused.contains("53 bits") && refused.contains("more bits"), "{refused}");
            }
        }
    }

    #[test]
    fn three_contexts_are_within_double_precision() {
        let (dataset, _) = contexts(3);
        let double = LiteralSettings { arithmetic: Arithmetic::F64, ..settings(Activation::Tanh) };
        let report = literal(&dataset, &double, &Silent).unwrap();
        assert!(report.bits == 53 && report.max_logit_error <= 1e-6, "{report:?}");
        let bits = literal(&dataset, &settings(Activation::Tanh), &Silent).unwrap();
        assert!((bits.log2_condition - report.log2_condition).abs() < 4.0, "{bits:?} {report:?}");
        assert!(bits.max_logit_error < 1e-15);
    }

    #[test]
    fn every_analytic_activation_works_and_relu_is_refused() {
        let (dataset, _) = contexts(6);
        for activation in Activation::ALL {
            let found = literal(&dataset, &settings(activation), &Silent);
            match activation {
                Activation::Relu => assert!(found.unwrap_err().to_string().contains("polynomial")),
                _ => assert!(found.unwrap().certified_regular, "{activation}"),
            }
        }
    }

    #[test]
    fn smaller_weights_need_more_bits() {
        let (dataset, _) = contexts(10);
        let at = |scale| {
            literal(&dataset, &LiteralSettings { scale, ..settings(Activation::Tanh) }, &Silent).unwrap()
        };
        let (one, tenth) = (at(1.0), at(0.1));
        assert!(tenth.log2_condition > one.log2_condition + 20.0, "{one:?} {tenth:?}");
        assert!(tenth.max_logit_error <= 1e-6);
    }

    #[test]
    fn e3_opposite_values_are_redrawn_or_refused_not_built_on() {
        let opposite = [1.0, -1.0].map(|x| Dyadic::from(x).floor(128));
        assert!(matches!(separation(&opposite, 128), Err(Refusal::Collision { .. })), "|f| agree");
        let zero = [1.0, 0.0].map(|x| Dyadic::from(x).floor(128));
        assert!(separation(&zero, 128).is_err(), "f = 0");
        let fine = [1.0, -0.5].map(|x| Dyadic::from(x).floor(128));
        assert_eq!(separation(&fine, 128).unwrap(), (0.5, 0.5));
    }

    #[test]
    fn the_mixer_is_that_of_the_paper() {
        // z = (1, 2), u = (.5, -.5), context (2, 1): worked out by hand in the reference forward pass.
        let (dataset, _) = letters("bax");
        let parameters = Parameters { z: vec![1.0, 2.0, 9.0], u: vec![0.5, -0.5], w: vec![] };
        let at = (0..dataset.len()).find(|&i| dataset.tokens_of(i) == [1, 0]).unwrap();
        let attention = to_f64(&mixed(&dataset, &parameters, Mixer::Attention, 128)[at], 128);
        assert!((attention - 1.962_117_157_260_009_6).abs() < 1e-15, "{attention}");
        let average = to_f64(&mixed(&dataset, &parameters, Mixer::Average, 128)[at], 128);
        assert_eq!(average, 0.5 * 2.0 - 0.5 * 1.0);
    }

    #[test]
    fn impossible_settings_are_refused() {
        let (dataset, _) = contexts(4);
        let fine = settings(Activation::Tanh);
        for (wrong, says) in [
            (LiteralSettings { scale: 0.0, ..fine.clone() }, "scale"),
            (LiteralSettings { eta: f64::NAN, ..fine.clone() }, "eta"),
            (LiteralSettings { tolerance: 0.0, ..fine.clone() }, "logit_tolerance"),
            (LiteralSettings { gap: Nats(-1.0), ..fine.clone() }, "gap"),
        ] {
            let error = literal(&dataset, &wrong, &Silent).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let (large, _) = stories(60);
        assert!(large.len() > MOST_CONTEXTS);
        assert!(literal(&large, &fine, &Silent).unwrap_err().to_string().contains("other methods"));
    }
}
