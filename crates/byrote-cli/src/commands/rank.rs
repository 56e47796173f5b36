//! `byrote rank`: proves how many contexts m neurons can distinguish.

use crate::args::Common;
use crate::progress::Terminal;
use crate::ui;
use byrote::Result;
use byrote::certify::rank::{FeatureMatrix, RankCertificate, RankRange, RankSpec, RankTheorem, certify};
use byrote::report::text;
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

pub const EXAMPLES: &str =
    "The matrix psi(a b^T) has one row for each of m neurons (with weight a) and one column for each
of n contexts (which the mixer maps to b). Its rank is the number of contexts that the neurons
distinguish: this many can be given arbitrary next-token distributions. The Kruskal rank is the
largest r such that any r of the contexts can.

Examples:
  byrote rank                                             tanh, 8 random neurons and contexts
  byrote rank --activation gelu --n 32 --seed 3
  byrote rank --activation tanh --b 1,-1                  opposite contexts: rank 1, not 2
  byrote rank --polynomial 1,0,1 --b 1,-1                 1 + x^2: rank 1 as well
  byrote rank --polynomial 1,1,0,1 --a 2,3,7 --b 1,2,-3   1 + x + x^3 at given weights";

#[derive(Debug, Args)]
pub struct RankCommand {
    #[command(flatten)]
    pub spec: RankSpec,
}

pub fn run(args: &RankCommand, common: &Common) -> Result<ExitCode> {
    let FeatureMatrix { psi, a, b, .. } = args.spec.resolve(common.seed)?;
    let (m, n) = (a.len(), b.len());
    let found = certify(&psi, &a, &b, &Terminal::new(common.quiet))?;
    let json = || {
        json!({
            "psi": psi,
            "m": m,
            "n": n,
            "seed": common.seed,
            "verdict": verdict(&found),
            "rank": found.rank.value(),
            "rank_interval": found.rank,
            "kruskal_rank": found.kruskal.value(),
            "kruskal_rank_interval": found.kruskal,
            "rank_of_any_weights": found.rank_of_any_weights,
            "rank_by": found.rank_by,
            "kruskal_rank_by": found.kruskal_by,
            "bits": found.bits,
            "corrected": theorem(&found.theorems.corrected),
            "published": theorem(&found.theorems.published),
            "a": a,
            "b": b,
        })
    };
    ui::show(common, json, || text::rank(&psi, m, n, &found))?;
    Ok(if found.rank.value().is_some() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn verdict(found: &RankCertificate) -> &'static str {
    match (found.rank.value(), found.kruskal.value()) {
        (Some(_), Some(_)) => "certified",
        (Some(_), None) => "rank-certified",
        (None, _) => "undecided",
    }
}

fn theorem(theorem: &RankTheorem) -> Value {
    json!({
        "rank": theorem.rank.and_then(RankRange::value),
        "kruskal_rank": theorem.kruskal.and_then(RankRange::value),
        "place": theorem.place,
    })
}
