//! `byrote reproduce`: a paper's figure, small by default, `--full` as published.

mod kajitsuka2024;
pub mod sander2024;
pub mod sweep;

use crate::args::Common;
use crate::ui::{self, Table};
use byrote::{Error, Result};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  byrote reproduce                             the figures there are
  byrote reproduce madden2024-fig1             the report in madden2024-fig1/report.html
  byrote reproduce madden2024-fig1 --full --dry-run
  byrote reproduce sander2024-fig3 --out figures
  byrote reproduce sander2024-fig4 --full
  byrote reproduce kajitsuka2024-scaling --out scaling";

#[derive(Debug, Args)]
pub struct ReproduceCommand {
    /// The figure; without one, all that there are
    #[arg(value_name = "FIGURE")]
    pub figure: Option<String>,
    /// Where its files go [default: the figure's name]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// As published, not small
    #[arg(long)]
    pub full: bool,
    /// Say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

/// What a figure's maker is told.
pub struct Job<'a> {
    pub out: &'a Path,
    pub full: bool,
    pub dry_run: bool,
    pub common: &'a Common,
}

/// What it gives back.
pub struct Made {
    /// What it does or did, for people.
    pub text: String,
    /// The same for programs.
    pub json: Value,
    /// The files it wrote.
    pub files: Vec<PathBuf>,
}

struct Entry {
    key: &'static str,
    what: &'static str,
    make: Maker,
}

/// How a figure is made.
enum Maker {
    /// By a function of its own.
    Own(fn(&Job<'_>) -> Result<Made>),
    /// As a sweep: the small plan, and the one as published.
    Sweep { small: &'static str, full: &'static str },
}

/// The plans of a figure, from the folder plans.
macro_rules! plans {
    ($key:literal) => {
        Maker::Sweep {
            small: include_str!(concat!("../../../../../plans/", $key, ".toml")),
            full: include_str!(concat!("../../../../../plans/", $key, "-full.toml")),
        }
    };
}

const FIGURES: &[Entry] = &[
    Entry {
        key: "madden2024-fig1",
        what: "the gap by contexts and width, and the smallest model that reaches the floor",
        make: plans!("madden2024-fig1"),
    },
    Entry {
        key: "dana2024-fig1a",
        what: "associations: accuracy against heads",
        make: plans!("dana2024-fig1a"),
    },
    Entry {
        key: "dana2024-fig1b",
        what: "associations: accuracy against the width of heads",
        make: plans!("dana2024-fig1b"),
    },
    Entry {
        key: "dana2024-fig2a",
        what: "associations: accuracy against the width of the model",
        make: plans!("dana2024-fig2a"),
    },
    Entry {
        key: "dana2024-fig2b",
        what: "associations: growth with the heads, against d = d_h",
        make: plans!("dana2024-fig2b"),
    },
    Entry {
        key: "dana2024-fig3",
        what: "associations: attention alone and a hidden layer at equal parameters",
        make: plans!("dana2024-fig3"),
    },
    Entry {
        key: "dana2024-fig4",
        what: "associations: two dimensions, ten tokens",
        make: plans!("dana2024-fig4"),
    },
    Entry {
        key: "capacity",
        what: "contexts and bits a parameter: three kinds of trained models, three constructions",
        make: plans!("capacity"),
    },
    Entry {
        key: "kajitsuka2024-scaling",
        what: "parameters of the square-root construction against facts, beside linear-size ones",
        make: Maker::Own(kajitsuka2024::scaling),
    },
    Entry {
        key: "kajitsuka2024-fold",
        what: "the fold that the square-root construction rests on",
        make: Maker::Own(kajitsuka2024::fold),
    },
    Entry {
        key: "sander2024-fig3",
        what: "squared error against t of causal kernel descent: linear, periodic and nonlinear sequences",
        make: Maker::Own(sander2024::fig3),
    },
    Entry {
        key: "sander2024-fig4",
        what: "the ideal method, the constructed network and trained ones",
        make: Maker::Own(sander2024::fig4),
    },
];

pub fn run(args: &ReproduceCommand, common: &Common) -> Result<ExitCode> {
    let Some(name) = &args.figure else {
        let list: Vec<Value> = FIGURES.iter().map(|f| json!({"figure": f.key, "what": f.what})).collect();
        if common.json {
            ui::print_json(&json!({ "figures": list }))?;
        } else {
            let mut table = Table::new(&["figure", "what"], &[0, 1]);
            FIGURES.iter().for_each(|f| table.row(vec![f.key.into(), f.what.into()]));
            ui::print(&table.render())?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let entry = FIGURES.iter().find(|f| f.key == name).ok_or_else(|| {
        let known: Vec<&str> = FIGURES.iter().map(|f| f.key).collect();
        Error::setting("figure", format!("{name:?}; there are {}", known.join(", ")))
    })?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(entry.key));
    if !args.dry_run {
        std::fs::create_dir_all(&out).map_err(|e| Error::io(&out, "create", e))?;
    }
    let job = Job { out: &out, full: args.full, dry_run: args.dry_run, common };
    let (made, code) = match entry.make {
        Maker::Own(make) => (make(&job)?, ExitCode::SUCCESS),
        Maker::Sweep { small, full } => sweep::make(&job, entry.key, if args.full { full } else { small })?,
    };
    if common.json {
        let mut json = made.json;
        json["figure"] = json!(entry.key);
        json["files"] = made.files.iter().map(|f| json!(f.to_string_lossy())).collect();
        ui::print_json(&json)?;
    } else {
        ui::print(&made.text)?;
    }
    for path in &made.files {
        ui::note(common.quiet, &format!("wrote {}", path.display()));
    }
    Ok(code)
}
