//! From enclosures of logits to a verdict.
//!
//! For a context with next-token counts n_g, its *top set* holds the tokens of largest count. With logits in [lo_g, hi_g],
//!
//! ```text
//! margin >= max over the top set of lo_g  -  max over the others of hi_g
//! KL     <= sum_g pi_g (ln pi_g - lo_g) + M + ln sum_g exp(hi_g - M)           for any M
//! ```
//!
//! A context is *certified* if the margin is proven to be positive, *refuted* if the largest logit outside the top set is
//! proven to be at least as large as every logit in it, and *undecided* otherwise. A model is certified if all contexts
//! are, refuted if one is, and undecided otherwise.
//!
//! That is a statement about real arithmetic on the stored weights. A second one is about programs: if e_g bounds the error of
//! computing the logit of token g in f64 (or f32), in any order of summation ([`super::floating`]), then computed logits lie in
//! [lo_g - e_g, hi_g + e_g], and the same comparison tells whether the largest *computed* logit belongs to the top set.

use super::activation_enclosure::{exp, ln_above};
use super::floating::FORMATS;
use super::injective::Injectivity;
use super::interval::Interval;
use super::layer::Entry;
use crate::dataset::Dataset;
use crate::model::Precision;
use crate::units::{AtLeast, AtMost};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What is proven.
///
/// ```
/// use byrote::certify::{Verdict, certify};
/// use byrote::construct::madden2024::{Settings, build};
/// use byrote::dataset::Dataset;
/// use byrote::observe::Silent;
///
/// // After 1 comes 0; after 0 comes `next`.
/// let text = |next| Dataset::new(2, 1, [(vec![0], vec![(next, 1.0)]), (vec![1], vec![(0, 1.0)])]);
/// let (model, _) = build(&text(1)?, &Settings::default(), &Silent)?;
/// assert_eq!(certify(&model, &text(1)?, &Silent)?.verdict, Verdict::Certified);
/// assert_eq!(certify(&model, &text(0)?, &Silent)?.verdict, Verdict::Refuted);
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every context is memorized.
    Certified,
    /// Some context is not memorized.
    Refuted,
    /// For some contexts the enclosures are too wide to decide.
    Undecided,
}

impl Verdict {
    fn of(contexts: u64, certified: u64, refuted: u64) -> Self {
        match () {
            () if refuted > 0 => Verdict::Refuted,
            () if certified == contexts => Verdict::Certified,
            () => Verdict::Undecided,
        }
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Certified => "certified",
            Verdict::Refuted => "refuted",
            Verdict::Undecided => "undecided",
        }
    }
}

/// How the bounds of a certificate are computed.
const ARITHMETIC: &str =
    "intervals with outward rounding, compensated sums with proven bounds, functions from 256-bit tables";

/// How those of a model of blocks are computed.
const DEEP_ARITHMETIC: &str =
    "pairs of doubles with proven radii, functions from integers with 160 bits after the point";

/// Why a certificate of a model of blocks says nothing about programs.
const NO_ROUNDING: &str = "the rounding errors of programs are not bounded for models of blocks";

/// A context that is not certified.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UncertifiedContext {
    /// Its index in the dataset.
    pub context: usize,
    /// A lower bound on the margin.
    pub margin_lower_bound: AtLeast,
    /// An upper bound on the margin.
    pub margin_upper_bound: AtMost,
    /// The largest radius of an enclosure of a logit of this context.
    pub radius: AtMost,
}

/// A theorem about a model and a corpus, in real arithmetic on the stored weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Certificate {
    /// What is proven.
    pub verdict: Verdict,
    /// The number of contexts.
    pub contexts: u64,
    /// Contexts that are proven to be memorized.
    pub certified_contexts: u64,
    /// Contexts that are proven not to be memorized.
    pub refuted_contexts: u64,
    /// The remaining contexts.
    pub undecided_contexts: u64,
    /// A lower bound on the margins of all contexts.
    pub min_margin_lower_bound: AtLeast,
    /// An upper bound on the gap to the floor; infinite (null in JSON) if some logit has no enclosure.
    pub gap_nats_upper_bound: AtMost,
    /// The same divided by the number of predictions; infinite in certificates of earlier versions, which do not have it.
    #[serde(default = "no_bound")]
    pub gap_nats_per_prediction_upper_bound: AtMost,
    /// The largest radius of an enclosure of a logit.
    pub largest_radius: AtMost,
    /// What is proven about evaluating the model in f64, which is how this library evaluates models.
    pub floating_point: FloatingPoint,
    /// What is proven about rounding the weights to f32 and evaluating the model in f32.
    pub floating_point_f32: FloatingPoint,
    /// The refuted context of smallest margin, or else the undecided context of smallest margin.
    pub doubt: Option<UncertifiedContext>,
    /// Whether the mixer maps all contexts to different vectors.
    pub injectivity: Injectivity,
    /// How the bounds were computed.
    pub arithmetic: Cow<'static, str>,
    /// What this kind of model has no proof of, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_available: Option<Cow<'static, str>>,
}

/// A theorem about evaluating a model in floating point, in any order of summation, under the assumptions of
/// [`super::floating`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FloatingPoint {
    /// The format.
    pub precision: Precision,
    /// What is proven of the computed logits.
    pub verdict: Verdict,
    /// Contexts whose largest computed logit is proven to belong to the top set.
    pub certified_contexts: u64,
    /// A lower bound on the margins of the computed logits of all contexts; null in JSON if there is none.
    pub min_margin_lower_bound: AtLeast,
    /// An upper bound on the rounding error of any logit; null in JSON if there is none.
    pub largest_rounding_error: AtMost,
}

/// What is proven of one context.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Finding {
    pub(super) margin: Interval,
    pub(super) kl_above: f64,
    pub(super) radius: f64,
    /// Margins of computed logits, and the largest error of one, for each format.
    computed: [(Interval, f64); FORMATS.len()],
}

/// The largest logit inside the top set and the largest outside, enclosed.
#[derive(Clone, Copy)]
struct Contest {
    top: Interval,
    other: Interval,
}

impl Contest {
    const NONE: Interval = Interval::exact(f64::NEG_INFINITY);
    const OPEN: Contest = Contest { top: Self::NONE, other: Self::NONE };

    fn add(&mut self, logit: Interval, is_top: bool) {
        let side = if is_top { &mut self.top } else { &mut self.other };
        *side = side.max(logit);
    }

    fn margin(self) -> Interval {
        // If there is no other token, there is nothing to be above.
        match self.other == Self::NONE {
            true => Interval { lo: f64::MAX, hi: f64::INFINITY },
            false => self.top - self.other,
        }
    }

    /// The margin of computed logits, each of which is off by at most `error`. If that is infinite, a logit may not be a number,
    /// and which token a program then finds largest depends on how it compares, even if the logit belongs to the top set.
    fn computed_margin(self, error: f64) -> Interval {
        match error.is_finite() || self.other == Self::NONE {
            true => self.margin(),
            false => Interval::ALL,
        }
    }
}

/// Compares the enclosures of the logits of a context.
pub(super) fn judge(
    dataset: &Dataset,
    context: usize,
    logits: impl Iterator<Item = Entry> + Clone,
) -> Finding {
    let next = dataset.next_of(context);
    let count = dataset.counts[context];
    let most = next.iter().fold(0.0, |m: f64, &(_, n)| m.max(n));
    let mut contest = Contest::OPEN;
    let mut computed = [(Contest::OPEN, 0f64); FORMATS.len()];
    let (mut radius, mut largest) = (0f64, f64::NEG_INFINITY);
    // Counts by token: contexts have few next tokens.
    let follows = |token: usize| next.iter().find(|n| n.0 as usize == token).map(|n| n.1);
    let mut sum = Interval::exact(0.0);
    for (token, entry) in logits.clone().enumerate() {
        let logit = Interval::around(entry.centre, entry.radius);
        radius = radius.max(entry.radius);
        largest = largest.max(entry.centre);
        let next = follows(token);
        let is_top = next == Some(most);
        contest.add(logit, is_top);
        for ((contest, largest), error) in computed.iter_mut().zip(entry.errors) {
            contest.add(Interval::around(entry.centre, (entry.radius + error).next_up()), is_top);
            *largest = largest.max(error);
        }
        if let Some(n) = next {
            // pi (ln pi - logit), from above.
            let pi = Interval::exact(n) / Interval::exact(count);
            let ln = if n == count { 0.0 } else { ln_above(pi.hi) };
            sum = sum + pi * (Interval::exact(ln) - Interval::exact(logit.lo));
        }
    }
    let shift = Interval::exact(if largest.is_finite() { largest } else { 0.0 });
    let total = logits.fold(Interval::exact(0.0), |total, entry| {
        total + exp(Interval::exact((entry.centre + entry.radius).next_up()) - shift)
    });
    let kl = sum + shift + Interval::exact(ln_above(total.hi));
    Finding {
        margin: contest.margin(),
        kl_above: if kl.hi.is_nan() { f64::INFINITY } else { kl.hi },
        radius,
        computed: computed.map(|(contest, error)| (contest.computed_margin(error), error)),
    }
}

impl FloatingPoint {
    fn new(findings: &[Finding], index: usize) -> Self {
        let margins = || findings.iter().map(|f| f.computed[index].0);
        let certified = margins().filter(|m| m.lo > 0.0).count() as u64;
        let refuted = margins().filter(|m| m.hi <= 0.0).count() as u64;
        Self {
            precision: FORMATS[index].precision,
            verdict: Verdict::of(findings.len() as u64, certified, refuted),
            certified_contexts: certified,
            min_margin_lower_bound: AtLeast(margins().map(|m| m.lo).fold(f64::MAX, f64::min)),
            largest_rounding_error: AtMost(findings.iter().map(|f| f.computed[index].1).fold(0.0, f64::max)),
        }
    }
}

fn no_bound() -> AtMost {
    AtMost(f64::INFINITY)
}

impl Certificate {
    pub(super) fn new(dataset: &Dataset, findings: &[Finding], injectivity: Injectivity) -> Self {
        let count = |f: fn(&Finding) -> bool| findings.iter().filter(|x| f(x)).count() as u64;
        let certified = count(|f| f.margin.lo > 0.0);
        let refuted = count(|f| f.margin.hi <= 0.0);
        let contexts = findings.len() as u64;
        let gap = findings.iter().zip(&dataset.counts).fold(0.0, |gap: f64, (f, c)| {
            // The exact KL is not negative, so neither is its share.
            (gap + (c * f.kl_above.max(0.0)).next_up()).next_up()
        });
        let open = |f: &&(usize, &Finding)| f.1.margin.lo <= 0.0;
        let refutes = |f: &&(usize, &Finding)| f.1.margin.hi <= 0.0;
        let all: Vec<(usize, &Finding)> = findings.iter().enumerate().collect();
        let by_margin =
            |a: &&(usize, &Finding), b: &&(usize, &Finding)| a.1.margin.lo.total_cmp(&b.1.margin.lo);
        let worst = all
            .iter()
            .filter(refutes)
            .min_by(by_margin)
            .or_else(|| all.iter().filter(open).min_by(by_margin));
        Self {
            verdict: Verdict::of(contexts, certified, refuted),
            contexts,
            certified_contexts: certified,
            refuted_contexts: refuted,
            undecided_contexts: contexts - certified - refuted,
            min_margin_lower_bound: AtLeast(findings.iter().map(|f| f.margin.lo).fold(f64::MAX, f64::min)),
            gap_nats_upper_bound: AtMost(gap),
            gap_nats_per_prediction_upper_bound: AtMost(gap).per(dataset.predictions() as u64),
            largest_radius: AtMost(findings.iter().map(|f| f.radius).fold(0.0, f64::max)),
            doubt: worst.map(|&(context, f)| UncertifiedContext {
                context,
                margin_lower_bound: AtLeast(f.margin.lo),
                margin_upper_bound: AtMost(f.margin.hi),
                radius: AtMost(f.radius),
            }),
            floating_point: FloatingPoint::new(findings, 0),
            floating_point_f32: FloatingPoint::new(findings, 1),
            injectivity,
            arithmetic: ARITHMETIC.into(),
            not_available: None,
        }
    }

    /// The certificate of a model of blocks. Its injectivity is that of what the output reads.
    pub(super) fn of_blocks(dataset: &Dataset, findings: &[Finding], injectivity: Injectivity) -> Self {
        Self {
            arithmetic: DEEP_ARITHMETIC.into(),
            not_available: Some(NO_ROUNDING.into()),
            ..Self::new(dataset, findings, injectivity)
        }
    }
}
