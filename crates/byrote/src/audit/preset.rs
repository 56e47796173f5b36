//! The conventions of published memorization tests.
//!
//! | preset | windows | measure | source, and what differs here |
//! |---|---|---|---|
//! | none | 50 + 50 tokens; all of them in document context, 1,000 drawn ones alone | all | |
//! | carlini | 50 + 50 tokens, one every 50, alone | extractable, by duplicates | Carlini et al., arXiv 2202.07646; the paper also varies the prefix up to 500 |
//! | pythia | the first 32 + 32 tokens of each document, alone, decoded | free-running accuracy | Biderman et al., arXiv 2304.11158; their documents are packed rows of 2,049 tokens (`documents = chunk:2049`) |
//! | goldfish | the last 50 of the first 2,048 tokens of each document, given all before, decoded | extractable, ROUGE-L | Hans et al., arXiv 2406.10209 |
//! | cooper | 50 + 50 tokens at every 10th character, tokenized from there, no start token | p_z of top-40 sampling, at least 0.001 | Cooper et al., arXiv 2505.12546 |

use super::spec::{StartToken, WindowStride};
use crate::setting::choices;

/// The conventions of a paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditPreset {
    /// Carlini et al., arXiv 2202.07646.
    Carlini,
    /// Biderman et al., arXiv 2304.11158.
    Pythia,
    /// Hans et al., arXiv 2406.10209.
    Goldfish,
    /// Cooper et al., arXiv 2505.12546.
    Cooper,
}

choices!(AuditPreset, "preset" { Carlini = "carlini", Pythia = "pythia", Goldfish = "goldfish", Cooper = "cooper" });

/// Which windows of a document are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// All that a stride reaches.
    Every,
    /// The first.
    First,
    /// One whose suffix is the end of the document, or of as much of it as prefix and suffix hold together; its prefix is all that
    /// stands before.
    End,
}

choices!(Placement, "placement" { Every = "every", First = "first", End = "end" });

/// What a preset fixes.
pub(super) struct Rules {
    pub(super) prefix: usize,
    pub(super) suffix: usize,
    /// The suffix, where none is given.
    pub(super) stride: Option<WindowStride>,
    pub(super) placement: Placement,
    pub(super) windows: Option<u64>,
    pub(super) decode: bool,
    pub(super) bos: StartToken,
    /// The longest context that the preset needs.
    pub(super) n_ctx: u64,
}

impl AuditPreset {
    /// The rules of a preset, or those without one.
    pub(super) fn rules(preset: Option<Self>) -> Rules {
        let plain = Rules {
            prefix: 50,
            suffix: 50,
            stride: None,
            placement: Placement::Every,
            windows: None,
            decode: false,
            bos: StartToken::Auto,
            n_ctx: 0,
        };
        match preset {
            None => Rules { windows: Some(1000), ..plain },
            Some(Self::Carlini) => Rules { stride: Some(WindowStride::Tokens(50)), ..plain },
            Some(Self::Pythia) => {
                Rules { prefix: 32, suffix: 32, placement: Placement::First, decode: true, ..plain }
            }
            Some(Self::Goldfish) => {
                Rules { prefix: 1998, placement: Placement::End, decode: true, n_ctx: 2048, ..plain }
            }
            Some(Self::Cooper) => {
                Rules { stride: Some(WindowStride::Characters(10)), bos: StartToken::None, ..plain }
            }
        }
    }

    /// What to cite.
    pub fn source(self) -> &'static str {
        match self {
            Self::Carlini => "Carlini et al. 2023, arXiv 2202.07646",
            Self::Pythia => "Biderman et al. 2023, arXiv 2304.11158",
            Self::Goldfish => "Hans et al. 2024, arXiv 2406.10209",
            Self::Cooper => "Cooper et al. 2025, arXiv 2505.12546",
        }
    }
}
