//! `byrote rank`: proves how many contexts m neurons can distinguish.

use crate::args::Common;
use crate::progress::Terminal;
use crate::ui::{self, Table};
use byrote::Stream;
use byrote::certify::rank::{self, Certificate, Function, Interval, Theorem, certify};
use byrote::{Error, Result};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

pub const EXAMPLES: &str =
    "The matrix psi(a b^T) has one row for each of m neurons (with weight a) and one column for each
of n contexts (which the mixer maps to b). Its rank is the number of contexts that the neurons
distinguish: this many can be given arbitrary next-token distributions. The Kruskal rank is the
largest r such that any r of the contexts can.

Examples:
  byrote rank                                             tanh, 8 random neurons and contexts
  byrote rank --activation gelu --n 32 --seed 3
  byrote rank --activation tanh --b 1,-1                  opposite contexts: rank 1, the paper prints 2
  byrote rank --polynomial 1,0,1 --b 1,-1                 1 + x^2: likewise
  byrote rank --polynomial 1,1,0,1 --a 2,3,7 --b 1,2,-3   1 + x + x^3 at given weights";

#[derive(Debug, Args)]
pub struct RankCommand {
    /// The function psi: gelu, gelu-tanh, tanh, logistic, arctan, relu, erf, exp or cos [default: tanh]
    #[arg(long, value_name = "NAME", value_parser = |s: &str| s.parse::<Function>().map_err(|e| e.to_string()))]
    pub activation: Option<Function>,
    /// Use a polynomial as psi, given by its coefficients from the constant term up: 1,0,1 is 1 + x^2
    #[arg(long, value_name = "C0,C1,...", allow_hyphen_values = true, conflicts_with = "activation")]
    pub polynomial: Option<String>,
    /// The weights of the neurons, instead of random ones
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub a: Option<String>,
    /// The values of the contexts, instead of random ones
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub b: Option<String>,
    /// The number of random neurons [default: as many as contexts]
    #[arg(long, value_name = "M", conflicts_with = "a", allow_negative_numbers = true)]
    pub m: Option<usize>,
    /// The number of random contexts [default: as many as neurons, or 8]
    #[arg(long, value_name = "N", conflicts_with = "b", allow_negative_numbers = true)]
    pub n: Option<usize>,
    /// The largest product |a b| of the random numbers
    #[arg(long, value_name = "S", default_value_t = 1.0, allow_negative_numbers = true)]
    pub scale: f64,
}

/// A comma-separated list of numbers.
fn list(name: &'static str, text: &str) -> Result<Vec<f64>> {
    let number = |part: &str| {
        let wrong = || Error::setting(name, format!("{:?} is not a number", part.trim()));
        part.trim().parse::<f64>().ok().filter(|x| x.is_finite()).ok_or_else(wrong)
    };
    text.split(',').map(number).collect()
}

/// Draws standard normal numbers.
fn draw(seed: u64, purpose: &str, count: usize) -> Vec<f64> {
    (0..count as u64).map(|i| Stream::new(seed, purpose, i).normal()).collect()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |m, x| m.max(x.abs()))
}

pub fn run(args: &RankCommand, common: &Common) -> Result<ExitCode> {
    let psi = match (&args.polynomial, &args.activation) {
        (Some(text), _) => Function::Polynomial(list("polynomial", text)?),
        (None, Some(psi)) => psi.clone(),
        (None, None) => "tanh".parse()?,
    };
    if !(args.scale > 0.0 && args.scale.is_finite()) {
        return Err(Error::setting("scale", format!("must be above 0 (got {})", args.scale)));
    }
    for (name, count) in [("m", args.m), ("n", args.n)] {
        if let Some(count) = count.filter(|count| !(1..=rank::MOST).contains(count)) {
            let message = format!("must be between 1 and {} (got {count})", rank::MOST);
            return Err(Error::setting(name, message));
        }
    }
    let given = |name, text: &Option<String>| text.as_deref().map(|t| list(name, t)).transpose();
    let (a, b) = (given("a", &args.a)?, given("b", &args.b)?);
    let m = a.as_ref().map(Vec::len).or(args.m);
    let n = b.as_ref().map(Vec::len).or(args.n).or(m).unwrap_or(8);
    let m = m.unwrap_or(n);
    let drawn = (a.is_none(), b.is_none());
    let b = b.unwrap_or_else(|| draw(common.seed, "rank-b", n));
    let mut a = a.unwrap_or_else(|| draw(common.seed, "rank-a", m));
    let product = largest(&a) * largest(&b);
    if drawn.0 && product > 0.0 {
        // The weights are scaled, because b may be given.
        a.iter_mut().for_each(|x| *x *= args.scale / product);
    }
    let found = certify(&psi, &a, &b, &Terminal::new(common.quiet))?;
    if common.json {
        let mut object = json!({
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
        });
        object["a"] = json!(a);
        object["b"] = json!(b);
        ui::print_json(&object)?;
    } else {
        ui::print(&human(&psi, m, n, &found))?;
    }
    Ok(if found.rank.value().is_some() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn verdict(found: &Certificate) -> &'static str {
    match (found.rank.value(), found.kruskal.value()) {
        (Some(_), Some(_)) => "certified",
        (Some(_), None) => "rank-certified",
        (None, _) => "undecided",
    }
}

fn theorem(theorem: &Theorem) -> Value {
    json!({
        "rank": theorem.rank.and_then(Interval::value),
        "kruskal_rank": theorem.kruskal.and_then(Interval::value),
        "place": theorem.place,
    })
}

/// A rank, or its bounds.
fn shown(interval: Option<Interval>) -> String {
    match interval {
        None => "-".into(),
        Some(i) => i.value().map_or_else(|| format!("{} to {}", i.lower, i.upper), |r| r.to_string()),
    }
}

fn human(psi: &Function, m: usize, n: usize, found: &Certificate) -> String {
    let mut out = format!("psi(a b^T) for psi = {psi}, {m} neurons, {n} contexts\n\n");
    let mut table = Table::new(&["", "rank", "Kruskal rank", ""], &[0, 3]);
    let verdict = match verdict(found) {
        "certified" => "certified",
        "rank-certified" => "the rank is certified, the Kruskal rank has bounds",
        _ => "undecided: these are proven bounds",
    };
    let row = |name: &str, rank, kruskal, text: &str| {
        vec![name.to_owned(), shown(rank), shown(kruskal), text.to_owned()]
    };
    table.row(row("this matrix", Some(found.rank), Some(found.kruskal), verdict));
    let theorems = &found.theorems;
    for (name, t) in [("theory, corrected", &theorems.corrected), ("theory, as printed", &theorems.published)]
    {
        table.row(row(name, t.rank, t.kruskal, &t.place));
    }
    out += &table.render();
    let _ = write!(out, "\nrank: {}\nKruskal rank: {}\n", found.rank_by, found.kruskal_by);
    let printed = theorems.published.rank.map_or(0, |i| i.lower);
    if printed > found.rank_of_any_weights {
        out += "This matrix refutes the printed rank, and no other weights reach it (docs/errata.md, E1 and E2).\n";
    } else if printed > found.rank.upper {
        out += "These weights are special: the theorems are about generic weights, which may reach a higher rank.\n";
    }
    out
}
