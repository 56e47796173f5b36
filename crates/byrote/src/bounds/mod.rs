//! How much a transformer can memorize: the capacity bounds of 21 papers in one registry.
//!
//! Describe what you know in a [`Situation`] (a corpus, a shape, a parameter count) and [`evaluate`] it: each
//! [`Bound`] checks its own hypotheses and returns a [`BoundRow`]. A bound that does not apply is a row that names the
//! hypothesis that fails or the input that is missing. A bound known only up to a constant or up to logarithms never
//! yields a plain number: its values are [`BoundValue::Order`], the expression with the constant set to one.
//!
//! ```
//! use byrote::bounds::{self, CorpusFacts, Situation, verdict};
//! use byrote::model::Shape;
//!
//! // 337 contexts over 185 tokens, as in the first 100 built-in stories.
//! let corpus = CorpusFacts {
//!     contexts: 337,
//!     d_vocab: 185,
//!     n_ctx: 9,
//!     predictions: 900,
//!     labels: 172,
//!     ..CorpusFacts::default()
//! };
//! let situation = Situation::default().corpus(corpus.clone());
//!
//! // To hold *every* choice of distributions on 337 contexts takes 337 * 184 parameters ...
//! let rows = bounds::evaluate(&situation);
//! let lemma1 = rows.iter().find(|row| row.bound.key == "madden2024-lemma1").unwrap();
//! assert_eq!(lemma1.required_parameters.unwrap().count(), Some(62_008));
//! assert!(lemma1.reading(337).unwrap().ends_with("this says nothing about one given corpus."));
//!
//! // ... and a hidden layer with one neuron per context is guaranteed to hold any of them.
//! let shape = Shape { d_vocab: 185, d_mlp: 337, ..Shape::default() };
//! let answer = verdict(&situation.shape(shape));
//! assert_eq!(answer.answer, bounds::BoundsAnswer::Guaranteed);
//! ```
//!
//! **Three tasks** must not be mixed up. A *distribution* asks for the whole next-token distribution of every
//! context (omega - 1 free numbers each); an *association* only for the most frequent next token (one of C
//! labels); *sequence to sequence* for a label at every position. What is necessary for the first says nothing
//! about the second.
//!
//! **Necessary is about every choice.** A necessary bound counts what it takes to hold every possible choice of
//! targets on n contexts. It excludes nothing for one given corpus, which may need far fewer parameters.
//!
//! Symbols, the same in every file: k parameters, omega = `d_vocab`, n distinct contexts, N_seq sequences, T
//! = `n_ctx` (S where all contexts have one length), d = `d_model`, H = `n_heads`, d_h = `d_head`, m =
//! `d_mlp`, T_eps contexts that carry at least 1 - eps of the predictions, C labels.
//!
//! | file | what it bounds |
//! |---|---|
//! | [`madden2024`] | distributions, from both sides, equal up to a constant |
//! | [`madden2024_out_of_reach`] | the corpus that its Theorem 1 promises, and the gap that remains |
//! | [`madden2024_rank`] | the rank of the hidden features |
//! | [`madden2024_blocks`] | models of many layers: their neurons add up |
//! | [`madden2024_positions`] | contexts that have equal logits at any depth |
//! | [`yang2018`] | the softmax bottleneck: what the width of the output leaves at any depth |
//! | [`dana2024`] | attention alone: distributions and associations |
//! | [`dana2024_encoder`] | what an output of rank d_model can reach |
//! | [`mahdavi2024`] | attention alone: associations |
//! | [`kajitsuka2023`] | one attention layer: one label per position |
//! | [`kim2023`], [`kajitsuka2024`] | depth: about the square root of the number of labels |
//! | [`kajitsuka2024_lower`] | the same from below, with constants |
//! | [`yun2020`] | universal approximation, which gives no count |
//! | [`baum1988`], [`bubeck2020`], [`madden2023`] | two-layer networks on points, for comparison |
//! | [`yun2019`], [`vershynin2020`], [`park2021`], [`vardi2022`] | deeper networks on points, for comparison |
//! | [`sontag1997`] | points in general position, from below |
//! | [`cabannes2024`] | one linear associative memory |
//! | [`information`] | bits |
//! | [`morris2025`], [`allenzhu2024`] | rules of thumb from experiments |
//!
//! [`families`] turns a corpus into the smallest models that hold it, `answer` turns a situation into one sentence,
//! and [`curve`] into lines for a picture.

pub mod allenzhu2024;
pub(crate) mod answer;
pub mod baum1988;
pub mod bubeck2020;
pub mod cabannes2024;
pub mod curve;
pub mod dana2024;
pub mod dana2024_encoder;
mod deep;
pub mod families;
mod feed_forward;
pub mod information;
pub mod kajitsuka2023;
pub mod kajitsuka2024;
pub mod kajitsuka2024_lower;
pub mod kim2023;
pub mod madden2023;
pub mod madden2024;
pub mod madden2024_blocks;
pub mod madden2024_out_of_reach;
pub mod madden2024_positions;
pub mod madden2024_rank;
pub mod mahdavi2024;
mod monotone;
pub mod morris2025;
pub mod park2021;
mod phrases;
pub(crate) mod row;
pub(crate) mod situation;
pub mod sontag1997;
pub(crate) mod spec;
pub mod vardi2022;
pub mod vershynin2020;
pub mod yang2018;
pub mod yun2019;
pub mod yun2020;

pub use answer::{BoundsAnswer, BoundsVerdict, verdict};
pub use row::{
    About, Bound, BoundKind, BoundRow, BoundValue, MemorizationTask, NamedValue, Order, Paper, Relevance,
    Side,
};
pub use situation::{CorpusFacts, LengthFacts, Situation};
pub use spec::SizeSpec;

static REGISTRY: [&Bound; 45] = [
    &madden2024::LEMMA1,
    &madden2024::THEOREM1,
    &madden2024::THEOREM5,
    &madden2024::THEOREM7,
    &madden2024::EQ3,
    &madden2024_rank::RANK,
    &madden2024_blocks::DISTRIBUTIONS,
    &madden2024_blocks::ASSOCIATIONS,
    &madden2024_positions::DISTRIBUTIONS,
    &madden2024_positions::ASSOCIATIONS,
    &yang2018::BOTTLENECK,
    &dana2024::THEOREM1,
    &dana2024::D2,
    &dana2024::COROLLARY2,
    &dana2024_encoder::PROPOSITION1,
    &dana2024_encoder::THEOREM2,
    &dana2024::THEOREM3,
    &dana2024::EMPIRICAL,
    &mahdavi2024::THEOREM1,
    &kajitsuka2023::ONE_LAYER,
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
    &yun2020::DENSE,
    &yun2020::SPARSE,
    &baum1988::NEURONS,
    &bubeck2020::NEURONS,
    &madden2023::NEURONS,
    &yun2019::THREE_LAYERS,
    &vershynin2020::CONNECTIONS,
    &park2021::DEEP,
    &vardi2022::DEEP,
    &sontag1997::SHATTERING,
    &cabannes2024::MEMORY,
    &information::LIMIT,
    &morris2025::BITS,
    &allenzhu2024::BITS,
];

/// Every bound, in the order of the table.
pub fn all() -> impl ExactSizeIterator<Item = &'static Bound> {
    REGISTRY.iter().copied()
}

/// The papers whose bounds are in the registry, in the order of the table.
pub fn papers() -> Vec<&'static Paper> {
    let mut papers: Vec<&Paper> = Vec::new();
    for bound in all() {
        if !papers.contains(&bound.paper) {
            papers.push(bound.paper);
        }
    }
    papers
}

/// The bound with this key.
pub fn find(key: &str) -> Option<&'static Bound> {
    all().find(|bound| bound.key == key)
}

/// Every bound applied to this situation, in the order of the table.
pub fn evaluate(situation: &Situation) -> Vec<BoundRow> {
    all().map(|bound| bound.evaluate(situation)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_counts_the_papers() {
        assert_eq!(papers().len(), 21);
        assert!(
            include_str!("mod.rs")
                .starts_with("//! How much a transformer can memorize: the capacity bounds of 21")
        );
        assert!(papers().iter().all(|paper| crate::bibliography::paper(paper.key) == Some(paper)));
    }
}
