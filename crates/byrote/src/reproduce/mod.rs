//! The figures of the papers: a small version by default, or as published.
//!
//! Most figures are sweeps, whose plans (folder `plans`) are compiled in; each of the other figures has a function. [`run`] writes the
//! files of a figure into a directory.
//!
//! ```
//! use byrote::observe::Silent;
//! use byrote::reproduce::{self, PaperFigure};
//!
//! let figure = PaperFigure::by_key("kajitsuka2024-fold")?;
//! let folder = tempfile::tempdir()?;
//! let made = reproduce::run(figure, false, 0, folder.path(), None, &Silent)?;
//! assert_eq!(made.files, [folder.path().join("fold.svg"), folder.path().join("fold.png")]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod constructions;
mod kajitsuka2024;
mod madden2024;
mod sander2024;
mod sweep;

use crate::observe::Observer;
use crate::output::{Holds, claim};
use crate::setting::suggestion;
use crate::sweep::SweepOutcome;
use crate::{Error, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A figure that can be reproduced.
#[derive(Debug)]
pub struct PaperFigure {
    /// Its name: the key of the paper and the number of the figure.
    pub key: &'static str,
    /// What it shows.
    pub description: &'static str,
    make: Maker,
}

/// How a figure is made.
#[derive(Debug)]
enum Maker {
    /// By a function.
    Function(fn(&Job<'_>) -> Result<Reproduced>),
    /// As a sweep: the small plan, and the one as published.
    Sweep { small: &'static str, full: &'static str },
}

/// What is passed to the function that makes a figure.
struct Job<'a> {
    out: &'a Path,
    full: bool,
    dry_run: bool,
    seed: u64,
    command: &'a str,
    observer: &'a dyn Observer,
}

/// A figure that was made, or what making it would do.
#[derive(Debug, Clone)]
pub struct Reproduced {
    /// The result as text.
    pub text: String,
    /// The result as data.
    pub json: Value,
    /// The files that were written.
    pub files: Vec<PathBuf>,
    /// How the sweep ended, where the figure is one.
    pub outcome: Option<SweepOutcome>,
}

impl Reproduced {
    fn new(text: String, json: Value, files: Vec<PathBuf>) -> Self {
        Self { text, json, files, outcome: None }
    }
}

/// The plans of a figure, from the folder plans.
macro_rules! plans {
    ($key:literal) => {
        Maker::Sweep {
            small: include_str!(concat!("../../../../plans/", $key, ".toml")),
            full: include_str!(concat!("../../../../plans/", $key, "-full.toml")),
        }
    };
}

/// Every figure that can be reproduced.
pub const FIGURES: &[PaperFigure] = &[
    PaperFigure {
        key: "madden2024-fig1",
        description: "the gap by contexts and width, and the smallest model that reaches the floor",
        make: plans!("madden2024-fig1"),
    },
    PaperFigure {
        key: "madden2024-theorem1",
        description: "corpora that a theorem says a model cannot learn: training on them, and a proved gap",
        make: Maker::Function(madden2024::theorem1),
    },
    PaperFigure {
        key: "madden2024-mixers",
        description: "token averaging and attention at equal parameters: contexts memorized on four corpora",
        make: plans!("madden2024-mixers"),
    },
    PaperFigure {
        key: "madden2024-depth",
        description: "the smallest model that reaches the floor against contexts, with one layer and with many",
        make: plans!("madden2024-depth"),
    },
    PaperFigure {
        key: "dana2024-fig1a",
        description: "associations: accuracy against heads",
        make: plans!("dana2024-fig1a"),
    },
    PaperFigure {
        key: "dana2024-fig1b",
        description: "associations: accuracy against the width of heads",
        make: plans!("dana2024-fig1b"),
    },
    PaperFigure {
        key: "dana2024-fig2a",
        description: "associations: accuracy against the width of the model",
        make: plans!("dana2024-fig2a"),
    },
    PaperFigure {
        key: "dana2024-fig2b",
        description: "associations: growth with the heads, against d = d_h",
        make: plans!("dana2024-fig2b"),
    },
    PaperFigure {
        key: "dana2024-fig3",
        description: "associations: attention alone and a hidden layer at equal parameters",
        make: plans!("dana2024-fig3"),
    },
    PaperFigure {
        key: "dana2024-fig4",
        description: "associations: two dimensions, ten tokens",
        make: plans!("dana2024-fig4"),
    },
    PaperFigure {
        key: "dana2024-ablation",
        description: "associations: what the published program does differently, and what that changes",
        make: plans!("dana2024-ablation"),
    },
    PaperFigure {
        key: "dana2024-depth",
        description: "associations: attention alone in one, three and five layers at equal parameters",
        make: plans!("dana2024-depth"),
    },
    PaperFigure {
        key: "morris2025-small",
        description: "bits per parameter of small GPT-2 models on random tokens",
        make: plans!("morris2025-small"),
    },
    PaperFigure {
        key: "mixers",
        description: "attention, token averaging and no mixer at equal depth and parameters",
        make: plans!("mixers"),
    },
    PaperFigure {
        key: "capacity",
        description: "contexts and bits per parameter: three kinds of trained models, three constructions",
        make: plans!("capacity"),
    },
    PaperFigure {
        key: "constructions",
        description: "all constructions at equal N: parameters, depth, width and bits, built or by formula",
        make: Maker::Function(constructions::constructions),
    },
    PaperFigure {
        key: "kajitsuka2024-scaling",
        description: "parameters of the square-root construction against facts, compared with linear-size constructions",
        make: Maker::Function(kajitsuka2024::scaling),
    },
    PaperFigure {
        key: "kajitsuka2024-sharpness",
        description: "how sharp softmax must be in place of hardmax, and how even in place of the mean",
        make: Maker::Function(kajitsuka2024::sharpness),
    },
    PaperFigure {
        key: "kajitsuka2024-fold",
        description: "the fold that the square-root construction is based on",
        make: Maker::Function(kajitsuka2024::fold),
    },
    PaperFigure {
        key: "sander2024-fig1",
        description: "how the layers act on a sequence: the tokens, and the error by layer and position",
        make: Maker::Function(sander2024::fig1),
    },
    PaperFigure {
        key: "sander2024-fig2",
        description: "products of projections on the sphere, which the error of causal kernel descent is made of",
        make: Maker::Function(sander2024::fig2),
    },
    PaperFigure {
        key: "sander2024-fig3",
        description: "squared error against t of causal kernel descent: linear, periodic and nonlinear sequences",
        make: Maker::Function(sander2024::fig3),
    },
    PaperFigure {
        key: "sander2024-fig4",
        description: "the ideal method, the constructed network and trained ones",
        make: Maker::Function(sander2024::fig4),
    },
    PaperFigure {
        key: "sander2024-depth",
        description: "many layers of small steps converge to a flow, at the rate of Euler's method",
        make: Maker::Function(sander2024::depth),
    },
];

impl PaperFigure {
    /// Finds a figure by its key.
    pub fn by_key(key: &str) -> Result<&'static Self> {
        FIGURES.iter().find(|f| f.key == key).ok_or_else(|| {
            let known: Vec<&str> = FIGURES.iter().map(|f| f.key).collect();
            Error::setting("figure", format!("{key:?} is unknown; {}", suggestion(key, &known)))
        })
    }

    /// What the directory of the figure holds.
    fn holds(&self) -> Holds {
        match self.make {
            Maker::Function(_) => Holds::Page,
            Maker::Sweep { .. } => Holds::Sweep,
        }
    }

    fn make(&self, job: &Job<'_>) -> Result<Reproduced> {
        match self.make {
            Maker::Function(make) => make(job),
            Maker::Sweep { small, full } => sweep::make(job, self.key, if job.full { full } else { small }),
        }
    }
}

/// Makes a figure in a directory, which is created where needed: as published if `full`, otherwise smaller. A figure that is a
/// sweep resumes what the directory holds. `command` is what the page gives as the way to make it again.
///
/// A directory that holds something of another kind, such as a study, is refused, because the figure would replace its report.
pub fn run(
    figure: &PaperFigure,
    full: bool,
    seed: u64,
    directory: &Path,
    command: Option<&str>,
    observer: &dyn Observer,
) -> Result<Reproduced> {
    let _claim = claim(directory, figure.holds())?;
    let command = command.map_or_else(|| format!("byrote reproduce {}", figure.key), str::to_owned);
    figure.make(&Job { out: directory, full, dry_run: false, seed, command: &command, observer })
}

/// Says what [`run`] would do, without writing anything.
pub fn preview(figure: &PaperFigure, full: bool, seed: u64, observer: &dyn Observer) -> Result<Reproduced> {
    figure.make(&Job { out: Path::new(""), full, dry_run: true, seed, command: "", observer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;

    #[test]
    fn a_directory_of_another_kind_is_refused() {
        for (key, file, says) in [
            ("kajitsuka2024-fold", crate::study::FILE, "holds a study"),
            ("sander2024-fig3", "manifest.toml", "holds a sweep"),
            ("madden2024-fig1", crate::study::FILE, "holds a study"),
            ("madden2024-fig1", "report.html", "holds the report of something else"),
            ("madden2024-fig1", "checkpoint.safetensors", "holds a training run"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(file), "{}").unwrap();
            let figure = PaperFigure::by_key(key).unwrap();
            let error = run(figure, false, 0, folder.path(), None, &Silent).unwrap_err();
            assert_eq!(error.setting_name(), Some("out"));
            assert!(error.to_string().contains(says), "{key}: {error}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn an_unknown_figure_is_answered_with_the_known_ones() {
        let error = PaperFigure::by_key("figure-1").unwrap_err().to_string();
        assert!(error.contains("madden2024-fig1") && error.contains("sander2024-fig4"), "{error}");
        let error = PaperFigure::by_key("madden2024-fig").unwrap_err().to_string();
        assert!(error.ends_with("did you mean `madden2024-fig1`?"), "{error}");
    }
}
