//! `byrote rank`: proves how many contexts m neurons can distinguish.

use crate::args::Common;
use crate::progress::Terminal;
use crate::ui;
use byrote::Result;
use byrote::certify::rank::{FeatureMatrix, RankSpec, certify};
use byrote::report::{json, text};
use clap::Args;
use serde_json::json;
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
    let matrix = args.spec.resolve(common.seed)?;
    let FeatureMatrix { psi, a, b, .. } = &matrix;
    let (m, n) = (a.len(), b.len());
    let found = certify(psi, a, b, &Terminal::new(common.quiet))?;
    let json = || {
        let mut object = json::rank(&matrix, &found);
        object["seed"] = json!(common.seed);
        object
    };
    ui::show(common, json, || text::rank(psi, m, n, &found))?;
    Ok(if found.rank.value().is_some() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
