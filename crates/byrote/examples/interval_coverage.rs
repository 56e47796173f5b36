//! Prints how often 95% intervals hold the truth: the table of docs/laws.md.
//!
//! ```text
//! cargo run --release --example interval_coverage [TRIALS]
//! ```

#![allow(clippy::print_stdout)]

use byrote::fit::ResidualScale;
use byrote::fit::coverage::{ErrorModel, FIGURE_ONE, QUANTITIES, TWO_DECADES, measure};

fn main() -> byrote::Result<()> {
    let trials = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000);
    println!("| sizes | errors | fitted in | b of b x | b of a + b x | p of b x^p |");
    println!("|---|---|---|---|---|---|");
    for layout in [FIGURE_ONE, TWO_DECADES] {
        for errors in ErrorModel::ALL {
            for (scale, name) in [(ResidualScale::Plain, "y"), (ResidualScale::Relative, "ln y")] {
                let mut cells =
                    vec![layout.name.to_owned(), format!("{errors:?}").to_lowercase(), name.to_owned()];
                for quantity in QUANTITIES {
                    let found = measure(layout, errors, scale, quantity, trials, 1)?;
                    cells.push(format!("{:.1}%", 100.0 * found.part()));
                }
                println!("| {} |", cells.join(" | "));
            }
        }
    }
    Ok(())
}
