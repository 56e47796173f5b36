//! From enclosures of logits to a verdict.
//!
//! For a context with next-token counts n_g, its *top set* holds the tokens of largest count. With logits in [lo_g, hi_g],
//!
//! ```text
//! margin >= max over the top set of lo_g  -  max over the others of hi_g
//! KL     <= sum_g pi_g (ln pi_g - lo_g) + M + ln sum_g exp(hi_g - M)           for any M
//! ```
//!
//! A context is *certified* where the margin is proven to be positive, *refuted* where the largest logit outside the top set
//! is proven to be at least as large as every logit in it, and *undecided* in between. A model is certified where all
//! contexts are, refuted where one is, undecided else.

use super::function::{exp, ln_above};
use super::injective::Injectivity;
use super::interval::Interval;
use crate::train::Problem;
use crate::units::{AtLeast, AtMost};
use serde::Serialize;

/// What is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every context is memorized.
    Certified,
    /// A context is not.
    Refuted,
    /// For some contexts the arithmetic does not tell.
    Undecided,
}

impl Verdict {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Certified => "certified",
            Verdict::Refuted => "refuted",
            Verdict::Undecided => "undecided",
        }
    }
}

/// A context that is not certified.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Doubt {
    /// Its place in the problem.
    pub context: usize,
    /// A lower bound on the margin.
    pub margin_lower_bound: AtLeast,
    /// An upper bound on the margin.
    pub margin_upper_bound: AtMost,
    /// The largest radius of an enclosure of a logit of this context.
    pub radius: AtMost,
}

/// A theorem about a model and a corpus.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Certificate {
    /// What is proven.
    pub verdict: Verdict,
    /// Contexts.
    pub contexts: u64,
    /// Contexts that are proven to be memorized.
    pub certified_contexts: u64,
    /// Contexts that are proven not to be.
    pub refuted_contexts: u64,
    /// The rest.
    pub undecided_contexts: u64,
    /// No context has a smaller margin.
    pub min_margin_lower_bound: AtLeast,
    /// The gap to the floor is at most this; infinite where some logit is not known.
    #[serde(serialize_with = "finite")]
    pub gap_nats_upper_bound: AtMost,
    /// The widest radius of a logit.
    pub largest_radius: AtMost,
    /// The refuted context of smallest margin, or else the undecided one that is furthest from a decision.
    pub doubt: Option<Doubt>,
    /// Whether the mixer tells the contexts apart.
    pub injectivity: Injectivity,
    /// How it was computed.
    pub arithmetic: &'static str,
}

/// JSON has no infinity.
fn finite<S: serde::Serializer>(nats: &AtMost, serializer: S) -> Result<S::Ok, S::Error> {
    match nats.0.is_finite() {
        true => serializer.serialize_some(&nats.0),
        false => serializer.serialize_none(),
    }
}

/// What is proven of one context.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Finding {
    pub(super) margin: Interval,
    pub(super) kl_above: f64,
    pub(super) radius: f64,
}

/// Looks at the enclosures of the logits of a context.
pub(super) fn judge(
    problem: &Problem,
    context: usize,
    logits: impl Iterator<Item = (f64, f64)> + Clone,
) -> Finding {
    let next = problem.next_of(context);
    let count = problem.counts[context];
    let most = next.iter().fold(0.0, |m: f64, &(_, n)| m.max(n));
    let none = Interval::exact(f64::NEG_INFINITY);
    let (mut top, mut other) = (none, none);
    let (mut radius, mut largest) = (0f64, f64::NEG_INFINITY);
    // Counts by token: contexts have few next tokens.
    let follows = |token: usize| next.iter().find(|n| n.0 as usize == token).map(|n| n.1);
    let mut sum = Interval::exact(0.0);
    for (token, (centre, r)) in logits.clone().enumerate() {
        let logit = Interval::around(centre, r);
        radius = radius.max(r);
        largest = largest.max(centre);
        match follows(token) {
            Some(n) => {
                if n == most {
                    top = top.max(logit);
                } else {
                    other = other.max(logit);
                }
                // pi (ln pi - logit), from above.
                let pi = Interval::exact(n) / Interval::exact(count);
                let ln = if n == count { 0.0 } else { ln_above(pi.hi) };
                sum = sum + pi * (Interval::exact(ln) - Interval::exact(logit.lo));
            }
            None => other = other.max(logit),
        }
    }
    let shift = Interval::exact(if largest.is_finite() { largest } else { 0.0 });
    let total = logits.fold(Interval::exact(0.0), |total, (centre, r)| {
        total + exp(Interval::exact((centre + r).next_up()) - shift)
    });
    let kl = sum + shift + Interval::exact(ln_above(total.hi));
    // One token alone has no other to be above.
    let margin = if other == none { Interval { lo: f64::MAX, hi: f64::INFINITY } } else { top - other };
    Finding { margin, kl_above: if kl.hi.is_nan() { f64::INFINITY } else { kl.hi }, radius }
}

impl Certificate {
    pub(super) fn new(problem: &Problem, findings: &[Finding], injectivity: Injectivity) -> Self {
        let count = |f: fn(&Finding) -> bool| findings.iter().filter(|x| f(x)).count() as u64;
        let certified = count(|f| f.margin.lo > 0.0);
        let refuted = count(|f| f.margin.hi <= 0.0);
        let contexts = findings.len() as u64;
        let gap = findings.iter().zip(&problem.counts).fold(0.0, |gap: f64, (f, c)| {
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
            verdict: match () {
                () if refuted > 0 => Verdict::Refuted,
                () if certified == contexts => Verdict::Certified,
                () => Verdict::Undecided,
            },
            contexts,
            certified_contexts: certified,
            refuted_contexts: refuted,
            undecided_contexts: contexts - certified - refuted,
            min_margin_lower_bound: AtLeast(findings.iter().map(|f| f.margin.lo).fold(f64::MAX, f64::min)),
            gap_nats_upper_bound: AtMost(gap),
            largest_radius: AtMost(findings.iter().map(|f| f.radius).fold(0.0, f64::max)),
            doubt: worst.map(|&(context, f)| Doubt {
                context,
                margin_lower_bound: AtLeast(f.margin.lo),
                margin_upper_bound: AtMost(f.margin.hi),
                radius: AtMost(f.radius),
            }),
            injectivity,
            arithmetic: "intervals with outward rounding, compensated sums with proven bounds, functions by tables of 256 bits",
        }
    }
}
