//! `byrote rank`: how many contexts m neurons tell apart, as a theorem.

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
    "The matrix psi(a b^T) has a row for each of m neurons (weights a) and a column for each of n
contexts (what the mixer makes of it, b). Its rank is how many contexts the neurons tell apart:
as many can be given any next-token distributions. The Kruskal rank is the largest r such that
every r contexts can.

Examples:
  byrote rank                                             tanh, 8 random neurons, 8 random contexts
  byrote rank --activation gelu --n 32 --seed 3
  byrote rank --activation tanh --b 1,-1                  opposite contexts: rank 1, the paper prints 2
  byrote rank --polynomial 1,0,1 --b 1,-1                 1 + x^2: likewise
  byrote rank --polynomial 1,1,0,1 --a 2,3,7 --b 1,2,-3   1 + x + x^3 at given weights";

#[derive(Debug, Args)]
pub struct RankCommand {
    /// psi: gelu, gelu-tanh, tanh, logistic, arctan, relu, erf, exp or cos [default: tanh]
    #[arg(long, value_name = "NAME", value_parser = |s: &str| s.parse::<Function>().map_err(|e| e.to_string()))]
    pub activation: Option<Function>,
    /// psi is a polynomial: its coefficients from the constant on, 1,0,1 is 1 + x^2
    #[arg(long, value_name = "C0,C1,...", allow_hyphen_values = true, conflicts_with = "activation")]
    pub polynomial: Option<String>,
    /// The weights of the neurons, not drawn but given
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub a: Option<String>,
    /// The values of the contexts, not drawn but given
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub b: Option<String>,
    /// Neurons to draw [default: as many as contexts]
    #[arg(long, value_name = "M", conflicts_with = "a", allow_negative_numbers = true)]
    pub m: Option<usize>,
    /// Contexts to draw [default: as many as neurons, or 8]
    #[arg(long, value_name = "N", conflicts_with = "b", allow_negative_numbers = true)]
    pub n: Option<usize>,
    /// The largest product |a b| of what is drawn
    #[arg(long, value_name = "S", default_value_t = 1.0, allow_negative_numbers = true)]
    pub scale: f64,
}

/// A comma-separated list of numbers.
fn list(name: &'static str, text: &str) -> Result<Vec<f64>> {
    let number = |part: &str| {
        let wrong = || Error::setting(name, format!("{:?} is no number", part.trim()));
        part.trim().parse::<f64>().ok().filter(|x| x.is_finite()).ok_or_else(wrong)
    };
    text.split(',').map(number).collect()
}

/// Numbers from the standard normal law.
fn draw(seed: u64, purpose: &str, count: usize) -> Vec<f64> {
    (0..count as u64).map(|i| Stream::new(seed, purpose, i).normal()).collect()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |m, x| m.max(x.abs()))
}

pub fn run(args: &RankCommand, common: &Common) -> Result<ExitCode> {
    let psi = match (&args.polynomial, &args.activation) {
        (Some(text), _) => Function::Polynomial(list("--polynomial", text)?),
        (None, Some(psi)) => psi.clone(),
        (None, None) => "tanh".parse()?,
    };
    if !(args.scale > 0.0 && args.scale.is_finite()) {
        return Err(Error::setting("scale", format!("{}; a number above 0", args.scale)));
    }
    let given = |name, text: &Option<String>| text.as_deref().map(|t| list(name, t)).transpose();
    let (a, b) = (given("--a", &args.a)?, given("--b", &args.b)?);
    let m = a.as_ref().map(Vec::len).or(args.m);
    let n = b.as_ref().map(Vec::len).or(args.n).or(m).unwrap_or(8);
    let m = m.unwrap_or(n);
    for (name, count) in [("--n", n), ("--m", m)] {
        if !(1..=rank::MOST).contains(&count) {
            return Err(Error::setting(name, format!("{count}; from 1 to {}", rank::MOST)));
        }
    }
    let drawn = (a.is_none(), b.is_none());
    let b = b.unwrap_or_else(|| draw(common.seed, "rank-b", n));
    let mut a = a.unwrap_or_else(|| draw(common.seed, "rank-a", m));
    let product = largest(&a) * largest(&b);
    if drawn.0 && product > 0.0 {
        // The weights take the scale: b may be given.
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

/// A rank, or what is known of it.
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
        "rank-certified" => "the rank is certified, the Kruskal rank lies between",
        _ => "undecided: proven bounds",
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
        out += "The rank as printed is refuted by this matrix, and no other weights reach it (docs/errata.md, E1 and E2).\n";
    } else if printed > found.rank.upper {
        out += "These weights are special: the theorems speak of generic ones, and others may reach more.\n";
    }
    out
}
