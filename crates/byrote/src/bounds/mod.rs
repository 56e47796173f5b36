//! How much a transformer can memorize: every published capacity bound in one registry.
//!
//! A program fills a [`Situation`] with what it knows (a corpus, a shape, a parameter count) and walks
//! [`all`]: each [`Bound`] checks its own hypotheses and gives a [`Row`]. A bound that does not apply is a
//! row that says which hypothesis fails or which input is missing. A bound known only up to a constant or up
//! to logarithms never yields a plain number: its values are [`Value::Order`], the expression with the
//! constant set to one.
//!
//! The three tasks must not be mixed up. A *distribution* asks for the whole next-token distribution of every
//! context (omega - 1 free numbers each); an *association* only for the most frequent next token (one of C
//! labels); *sequence to sequence* for a label at every position. What is necessary for the first says
//! nothing of the second.
//!
//! Symbols, the same in every file: k parameters, omega = `d_vocab`, n distinct contexts, N_seq sequences, T
//! = `n_ctx` (S where all contexts have one length), d = `d_model`, H = `n_heads`, d_h = `d_head`, m =
//! `d_mlp`, T_eps contexts that carry 1 - eps of the predictions, C labels.
//!
//! | file | what it bounds |
//! |---|---|
//! | [`madden2024`] | distributions, both sides, equal up to a constant |
//! | [`madden2024_rank`] | the rank of the hidden features |
//! | [`dana2024`] | attention alone: distributions and associations |
//! | [`dana2024_encoder`] | what an output of rank d_model can reach |
//! | [`mahdavi2024`] | attention alone: associations |
//! | [`kim2023`], [`kajitsuka2024`] | depth: about the square root of the number of labels |
//! | [`kajitsuka2024_lower`] | the same from below, with constants |
//! | [`baum1988`], [`bubeck2020`], [`vardi2022`] | feed-forward networks, for comparison |
//! | [`cabannes2024`] | one linear associative memory |
//! | [`information`] | bits |
//! | [`morris2025`], [`allenzhu2024`] | rules of thumb from experiments |
//!
//! [`families`] turns a corpus into the smallest models that hold it, [`verdict`](mod@verdict) a situation
//! into one sentence, [`curve`] into lines for a picture.

pub mod allenzhu2024;
pub mod baum1988;
pub mod bubeck2020;
pub mod cabannes2024;
pub mod curve;
pub mod dana2024;
pub mod dana2024_encoder;
pub mod families;
pub mod information;
pub mod kajitsuka2024;
pub mod kajitsuka2024_lower;
pub mod kim2023;
pub mod madden2024;
pub mod madden2024_rank;
pub mod mahdavi2024;
mod monotone;
pub mod morris2025;
pub mod row;
pub mod situation;
pub mod vardi2022;
pub mod verdict;
mod words;

pub use row::{Bound, Figure, Kind, Order, Paper, Row, Side, Task, Value};
pub use situation::{CorpusFacts, LengthFacts, Situation};
pub use verdict::{Answer, Verdict, verdict};

static REGISTRY: [&Bound; 32] = [
    &madden2024::LEMMA1,
    &madden2024::THEOREM1,
    &madden2024::THEOREM5,
    &madden2024::THEOREM7,
    &madden2024::EQ3,
    &madden2024_rank::RANK,
    &dana2024::THEOREM1,
    &dana2024::D2,
    &dana2024::COROLLARY2,
    &dana2024_encoder::PROPOSITION1,
    &dana2024_encoder::THEOREM2,
    &dana2024::THEOREM3,
    &dana2024::EMPIRICAL,
    &mahdavi2024::THEOREM1,
    &kim2023::SEQUENCE,
    &kim2023::CLASSIFICATION,
    &kajitsuka2024::NEXT,
    &kajitsuka2024::NEXT_LB,
    &kajitsuka2024::S2S,
    &kajitsuka2024::EXACT,
    &kajitsuka2024_lower::LB_BITS,
    &kajitsuka2024_lower::LB_OPS,
    &kajitsuka2024_lower::LB_RELU,
    &kajitsuka2024_lower::LB_HARDMAX,
    &kajitsuka2024_lower::LB_HARDMAX_NEXT,
    &baum1988::NEURONS,
    &bubeck2020::NEURONS,
    &vardi2022::DEEP,
    &cabannes2024::MEMORY,
    &information::LIMIT,
    &morris2025::BITS,
    &allenzhu2024::BITS,
];

/// Every bound, in the order of the table.
pub fn all() -> impl ExactSizeIterator<Item = &'static Bound> {
    REGISTRY.iter().copied()
}

/// The bound with this key.
pub fn find(key: &str) -> Option<&'static Bound> {
    all().find(|bound| bound.key == key)
}

/// Every bound judged in this situation, in the order of the table.
pub fn evaluate(situation: &Situation) -> Vec<Row> {
    all().map(|bound| bound.evaluate(situation)).collect()
}
