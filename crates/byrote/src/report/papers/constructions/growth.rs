//! How the sizes of constructions grow: laws through them, and whether these are what theory says.

use super::{Known, MEASURES, Measure, Size, names, series};
use crate::Result;
use crate::fit::{self, Law, ParameterInterval, Point, ResidualScale};
use crate::report::numbers::{brief, thousands};
use crate::report::papers::{Agreement, Claim};
use byrote_figures::html::{Cell, Column, Table};
use serde::Serialize;

/// The smallest size that is fitted.
const FROM: u64 = 100;
/// How far from a line the parameters of a one-layer construction may be: the number of heads is rounded up.
const NEAR: f64 = 0.02;

/// An exponent with its interval.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Exponent {
    name: String,
    measure: &'static str,
    exponent: f64,
    low: Option<f64>,
    high: Option<f64>,
    sizes: usize,
}

/// A law through one measure of a construction, and the interval of one of its parameters; `None` if there are fewer than four
/// sizes.
fn fitted(
    all: &[Size],
    name: &str,
    of: fn(&Size) -> Option<f64>,
    law: Law,
    parameter: &str,
) -> Result<Option<(fit::Fit, Option<ParameterInterval>)>> {
    let points = series(all, name, of).into_iter().filter(|p| p.0 >= FROM as f64);
    let points: Vec<Point> = points.map(|(x, y)| Point::new(x, y, 0)).collect();
    if points.len() < 4 {
        return Ok(None);
    }
    let points = fit::Points::new(points)?;
    let method = fit::FitMethod { scale: ResidualScale::Relative, ..fit::FitMethod::default() };
    let found = fit::fit(&points, law, &method)?;
    let replicates = fit::bootstrap(&points, &found, &fit::Bootstrap::default())?;
    let interval = replicates.interval(parameter).copied();
    Ok(Some((found, interval)))
}

/// The exponent of a power law through one measure of a construction.
pub(super) fn exponent(all: &[Size], name: &str, measure: Measure) -> Result<Option<Exponent>> {
    let sizes = series(all, name, measure.of).into_iter().filter(|p| p.0 >= FROM as f64);
    let sizes: Vec<f64> = sizes.map(|(_, y)| y).collect();
    if sizes.windows(2).all(|y| y[0].to_bits() == y[1].to_bits()) {
        return Ok(None);
    }
    let Some((found, interval)) = fitted(all, name, measure.of, Law::Power, "p")? else { return Ok(None) };
    let value = found.parameters.iter().find(|p| p.name == "p").map(|p| p.value);
    Ok(value.map(|exponent| Exponent {
        name: name.to_owned(),
        measure: measure.key,
        exponent,
        low: interval.as_ref().map(|i| i.low),
        high: interval.as_ref().map(|i| i.high),
        sizes: sizes.len(),
    }))
}

impl Exponent {
    fn words(&self) -> String {
        let within = self.low.zip(self.high);
        let within = within.map_or(String::new(), |(low, high)| format!(" ({low:.3} to {high:.3})"));
        format!("{:.3}{within}", self.exponent)
    }
}

/// A straight line through the dense parameters of a construction.
#[derive(Debug, Clone, Serialize)]
pub(super) struct LinearFit {
    name: String,
    per_sequence: f64,
    low: Option<f64>,
    high: Option<f64>,
    /// The largest relative distance from the line.
    off: f64,
}

/// The lines of all one-layer constructions with four sizes or more.
pub(super) fn straight_lines(all: &[Size]) -> Result<Vec<LinearFit>> {
    let mut found = Vec::new();
    for (_, name) in names(all, |s| s.known == Known::Built && !s.is_square_root()) {
        let Some((line, interval)) = fitted(all, name, |s| s.dense, Law::Linear, "b")? else { continue };
        let off = line.residuals.iter().map(|r| (r.y / r.fitted - 1.0).abs()).fold(0.0, f64::max);
        let Some(b) = line.parameters.iter().find(|p| p.name == "b") else { continue };
        found.push(LinearFit {
            name: name.to_owned(),
            per_sequence: b.value,
            low: interval.as_ref().map(|i| i.low),
            high: interval.as_ref().map(|i| i.high),
            off,
        });
    }
    Ok(found)
}

/// Whether dense parameters of one-layer constructions grow linearly.
pub(super) fn linear(found: &[LinearFit]) -> Claim {
    let theory = "the parameters of one-layer constructions (madden2024, dana2024) are linear in the sequences, a + b N.";
    let Some(worst) = found.iter().map(|l| l.off).reduce(f64::max) else {
        return Claim::new(theory, "too few sizes to fit a line.", Agreement::Open);
    };
    let each: Vec<String> = found
        .iter()
        .map(|l| {
            let within = l.low.zip(l.high);
            let within =
                within.map_or(String::new(), |(low, high)| format!(" ({} to {})", brief(low), brief(high)));
            format!("{}: {}{within}", l.name, brief(l.per_sequence))
        })
        .collect();
    let measured = format!(
        "b with 95% intervals, from {FROM} sequences on: {}. No size is further than {:.1}% from its line.",
        each.join("; "),
        100.0 * worst
    );
    Claim::new(theory, measured, if worst <= NEAR { Agreement::Yes } else { Agreement::No })
}

/// Whether exact networks grow more slowly.
pub(super) fn square_root(all: &[Size], exponents: &[Exponent]) -> Claim {
    let theory = "square-root constructions (kajitsuka2024) grow like sqrt(N log N), besides an overhead, in non-zero parameters.";
    let of_root = |name: &str| all.iter().any(|s| s.name == name && s.is_square_root() && !s.is_looped());
    let found: Vec<&Exponent> =
        exponents.iter().filter(|e| e.measure == "nonzero" && of_root(&e.name)).collect();
    let Some(worst) = found.iter().map(|e| e.exponent).reduce(f64::max) else {
        return Claim::new(theory, "too few sizes to fit a power.", Agreement::Open);
    };
    let each: Vec<String> = found.iter().map(|e| format!("{}: {}", e.name, e.words())).collect();
    let measured = format!("exponents with 95% intervals, from {FROM} sequences on: {}.", each.join("; "));
    Claim::new(theory, measured, if worst <= 0.75 { Agreement::Yes } else { Agreement::No })
}

/// Whether any network has fewer bits than the labels.
pub(super) fn information(all: &[Size]) -> Claim {
    let theory = "no memory of arbitrary labels has fewer bits than they have, N log2 C.";
    let ratios = all.iter().filter(|s| s.known == Known::Built);
    let mut ratios: Vec<(f64, &Size)> = ratios.filter_map(|s| Some((s.bits? / s.information(), s))).collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else {
        return Claim::new(theory, "nothing was built.", Agreement::Open);
    };
    let words = |(ratio, size): &(f64, &Size)| {
        format!("{} times as many ({}, N = {})", brief(*ratio), size.name, thousands(size.samples))
    };
    let measured = format!("from {} to {}.", words(least), words(most));
    Claim::new(theory, measured, if least.0 >= 1.0 { Agreement::Yes } else { Agreement::No })
}

/// The exponents of all measures.
pub(super) fn exponent_table(exponents: &[Exponent]) -> Table {
    let columns = [Column::left("construction")].into_iter().chain(MEASURES.map(|m| Column::right(m.key)));
    let caption = format!(
        "The exponent p of b N^p with its 95% interval, from {FROM} sequences on, where there are four sizes or more and they differ. \
         An overhead that does not grow bends it downwards, also below 1 where parameters are linear. The intervals reflect how well a power fits, not chance."
    );
    let mut names: Vec<&str> = Vec::new();
    exponents.iter().for_each(|e| {
        if !names.contains(&e.name.as_str()) {
            names.push(&e.name)
        }
    });
    names.iter().fold(Table::new(caption, columns), |table, name| {
        let of = |measure: Measure| {
            let found = exponents.iter().find(|e| e.name == *name && e.measure == measure.key);
            found.map_or_else(Cell::none, |e| e.words().into())
        };
        table.row([Cell::from((*name).to_owned())].into_iter().chain(MEASURES.map(of)))
    })
}
