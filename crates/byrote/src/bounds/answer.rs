//! One sentence for a corpus, a model, or both.
//!
//! What is *guaranteed* rests on Theorems 5 and 7 of madden2024 alone: a hidden layer with as many neurons as there
//! are contexts, or hidden layers that have as many together. Attention alone (dana2024) is guaranteed only for contexts in general position, which its builder
//! checks, and only for associations while its output is too narrow for distributions.
//!
//! Nothing here ever says that a corpus is out of reach. Lemma 1 of madden2024 says what it takes to hold *every*
//! choice of distributions on n contexts; one given corpus may need far fewer parameters. Where a model is smaller
//! than that, the sentence says so and what it does not imply. The vocabulary of the corpus decides there, since a
//! model with a wider vocabulary needs no fewer parameters for the tokens that occur.

use super::row::{Bound, BoundRow, MemorizationTask, grouped};
use super::situation::{CorpusFacts, Situation};
use super::yang2018::OutputRank;
use super::{dana2024, families, madden2024, madden2024_blocks, madden2024_positions};
use families::Guarantee;
use madden2024_positions::Alike;
use serde::Serialize;

/// The answer in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoundsAnswer {
    /// The model holds any distributions on the contexts of the corpus.
    Guaranteed,
    /// It does if the contexts are in general position.
    Conditional,
    /// No theorem decides.
    Open,
    /// The model is too small to hold every choice of distributions on this many contexts. No theorem decides whether
    /// it holds this corpus.
    NotEveryChoice,
    /// The model cannot read the corpus.
    Unreadable,
    /// Only one of corpus and model is known; the sentence gives limits for the other.
    Limits,
    /// Nothing is known.
    Nothing,
}

/// An answer and the sentence that explains it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BoundsVerdict {
    /// For programs.
    pub answer: BoundsAnswer,
    /// For readers.
    pub sentence: String,
}

/// What the bounds say about this situation as a whole.
pub fn verdict(situation: &Situation) -> BoundsVerdict {
    let (answer, sentence) = match (&situation.corpus, situation.parameter_count()) {
        (Some(corpus), Some(k)) => for_both(situation, corpus, k),
        (Some(corpus), None) => (BoundsAnswer::Limits, for_corpus(corpus)),
        (None, Some(k)) => (BoundsAnswer::Limits, for_model(situation, k)),
        (None, None) => {
            (BoundsAnswer::Nothing, "nothing to judge: give a corpus, a shape or a parameter count".into())
        }
    };
    BoundsVerdict { answer, sentence }
}

/// What the theorems guarantee about the model: how many contexts, by which bound, and under which condition.
///
/// The first of these that gives a number: Theorem 5 or 7 of madden2024 and their extension to blocks, which prove it; Theorem 1 of
/// dana2024, which gives one only where its output is not a bottleneck; the associations of its Corollary 1.
pub(super) fn promised(situation: &Situation) -> Option<(u128, BoundRow)> {
    let bounds = [
        &madden2024::THEOREM5,
        &madden2024::THEOREM7,
        &madden2024_blocks::DISTRIBUTIONS,
        &dana2024::THEOREM1,
        &dana2024::D2,
    ];
    let mut rows = bounds.into_iter().map(|bound| bound.evaluate(situation));
    rows.find_map(|row| Some((row.contexts?.count()?, row)))
}

fn for_both(situation: &Situation, corpus: &CorpusFacts, k: u128) -> (BoundsAnswer, String) {
    let n = u128::from(corpus.contexts);
    let contexts = grouped(n);
    if let Err(nothing) = situation.anything_to_store() {
        return (BoundsAnswer::Guaranteed, nothing);
    }
    if let Err(why_not) = situation.readable() {
        return (BoundsAnswer::Unreadable, format!("this model cannot read this corpus: {why_not}"));
    }
    if corpus.d_vocab < 2 {
        return (BoundsAnswer::Guaranteed, "guaranteed: with one token there is nothing to predict".into());
    }
    if let Some((held, BoundRow { bound, condition, .. })) =
        promised(situation).filter(|(held, _)| *held >= n)
    {
        let (held, Bound { paper, place, task, .. }) = (grouped(held), bound);
        return match condition {
            None => (
                BoundsAnswer::Guaranteed,
                format!(
                    "guaranteed: some weights get arbitrarily close to the floor, since the model holds any \
                     distributions on {held} contexts and the corpus has {contexts} ({}, {place})",
                    paper.key
                ),
            ),
            Some(condition) => (
                BoundsAnswer::Conditional,
                format!(
                    "guaranteed for {} {condition}: the model then holds {held} contexts and the corpus has \
                     {contexts} ({}, {place}); build the model to find out",
                    task_name(*task),
                    paper.key
                ),
            ),
        };
    }
    let needed = madden2024::min_parameters(corpus.contexts, corpus.d_vocab);
    let limit = bottleneck(situation, corpus.d_vocab).filter(|output| u128::from(output.rank) < n);
    let width = limit.map_or_else(String::new, |output| format!("; {}", too_narrow(output)));
    let top = top_tokens(situation, n);
    let alike = alike(situation).filter(|_| n > 1);
    let besides = alike.map_or_else(String::new, |alike| format!("; besides, {}", alike.clause()));
    if situation.smooth().is_ok() && k < needed {
        let sentence = format!(
            "not guaranteed: to hold every possible set of next-token distributions on {contexts} contexts takes \
             at least {} parameters and the model has {} (madden2024, Lemma 1){width}; that says nothing about this \
             corpus, which may need far fewer, so build or train the model to find out{top}{besides}",
            grouped(needed),
            grouped(k)
        );
        return (BoundsAnswer::NotEveryChoice, sentence);
    }
    if let Some(output) = limit {
        let sentence = format!(
            "not guaranteed: {}; that says nothing about this corpus, which may be easier, so build or train the model to find \
             out{top}{besides}",
            too_narrow(output)
        );
        return (BoundsAnswer::NotEveryChoice, sentence);
    }
    if let Some(alike) = alike {
        let sentence = format!(
            "not guaranteed: {}, so the model does not hold every choice of targets on them ({PLACE_OF_ALIKE}); where a corpus has \
             no such contexts, no theorem decides, so build or train the model to find out",
            alike.clause()
        );
        return (BoundsAnswer::NotEveryChoice, sentence);
    }
    let sentence = format!(
        "not guaranteed: no theorem decides whether {} parameters of this kind hold {contexts} contexts; build or \
         train the model to find out{top}",
        grouped(k)
    );
    (BoundsAnswer::Open, sentence)
}

/// The output, if it reads the residual stream and has less rank than distributions over `d_vocab` tokens have free numbers.
fn bottleneck(situation: &Situation, d_vocab: u64) -> Option<OutputRank> {
    let reads_stream = situation.shape?.blocks.is_some() || !situation.shape?.has_hidden_layer();
    OutputRank::of(situation).filter(|output| reads_stream && output.limits(d_vocab))
}

/// Where it is proved that some contexts have equal logits.
const PLACE_OF_ALIKE: &str = "docs/derivations/depth.md";

/// The contexts that the model gives equal logits, where it has any and the corpus may.
fn alike(situation: &Situation) -> Option<Alike> {
    let applies = madden2024_positions::DISTRIBUTIONS.evaluate(situation).applies();
    situation.blocks().filter(|_| applies).and_then(|(config, _)| Alike::of(config))
}

/// What the softmax bottleneck says.
fn too_narrow(output: OutputRank) -> String {
    format!(
        "the output reads {} numbers, so at no depth does the model hold every choice of distributions on more than {} contexts \
         (yang2018, softmax bottleneck), while the most frequent next tokens are not limited in this way",
        grouped(output.width),
        grouped(output.rank)
    )
}

/// What is guaranteed of the most frequent next tokens of `n` contexts, as the end of a sentence.
fn top_tokens(situation: &Situation, n: u128) -> String {
    let row = madden2024_blocks::ASSOCIATIONS.evaluate(situation);
    match row.contexts.and_then(|held| held.count()).filter(|&held| held >= n) {
        Some(held) => format!(
            "; guaranteed for the most frequent next tokens alone, of which it holds {} (madden2024, extended to blocks)",
            grouped(held)
        ),
        None => String::new(),
    }
}

fn for_corpus(corpus: &CorpusFacts) -> String {
    let n = grouped(corpus.contexts);
    if corpus.contexts == 0 {
        return "the corpus has no contexts: there is nothing to store".into();
    }
    if corpus.d_vocab < 2 {
        return format!("with one token there is nothing to predict: any model holds these {n} contexts");
    }
    let least = grouped(madden2024::min_parameters(corpus.contexts, corpus.d_vocab));
    let families = families::smallest(corpus);
    let smallest = |tasks: &[MemorizationTask]| {
        let proved = families.iter().filter(|f| tasks.contains(&f.task) && f.guarantee == Guarantee::Proved);
        let models = proved.filter(|f| !f.key.starts_with("lookup"));
        models
            .min_by_key(|f| f.parameters)
            .map_or("none".into(), |f| format!("{} parameters ({})", grouped(f.parameters), f.key))
    };
    // A model of the distributions has the most frequent next tokens as well.
    format!(
        "the smallest model guaranteed to hold this corpus has {}, and {} are enough for the most frequent \
         next tokens alone; to hold every possible set of next-token distributions on {n} contexts takes at least \
         {least} parameters; this corpus alone may need fewer",
        smallest(&[MemorizationTask::Distribution]),
        smallest(&[MemorizationTask::Distribution, MemorizationTask::Association]),
    )
}

fn for_model(situation: &Situation, k: u128) -> String {
    let at_least = promised(situation).map(|(held, row)| {
        let (held, task) = (grouped(held), task_name(row.bound.task));
        match row.condition {
            None => format!("holds any {task} on {held} contexts"),
            Some(condition) => format!("holds {task} on {held} contexts {condition}"),
        }
    });
    if situation.vocabulary().is_none() {
        return format!(
            "the size alone, {} parameters, guarantees nothing; give the size of its vocabulary, or a corpus, for a \
             limit",
            grouped(k)
        );
    }
    if let Some(alike) = alike(situation) {
        return format!(
            "the size alone, {} parameters, guarantees nothing; such a model cannot hold every choice of distributions, or of next \
             tokens, on more than 1 context: {} ({PLACE_OF_ALIKE})",
            grouped(k),
            alike.clause()
        );
    }
    let at_most = madden2024::LEMMA1.evaluate(situation);
    let at_most = match (at_most.contexts.and_then(|held| held.count()), at_most.why_not) {
        (Some(held), _) => {
            format!("cannot hold every choice of distributions on more than {} contexts", grouped(held))
        }
        (None, why_not) => {
            format!("has no limit by Lemma 1 of madden2024 ({})", why_not.unwrap_or_default())
        }
    };
    let k = grouped(k);
    let at_most = match situation.vocabulary().and_then(|omega| bottleneck(situation, omega)) {
        Some(output) => format!("{at_most}; {}", too_narrow(output)),
        None => at_most,
    };
    match at_least {
        Some(at_least) => format!("a model of this shape, {k} parameters, {at_least}, and {at_most}"),
        None => format!("the size alone, {k} parameters, guarantees nothing; such a model {at_most}"),
    }
}

fn task_name(task: MemorizationTask) -> &'static str {
    match task {
        MemorizationTask::Distribution => "distributions",
        MemorizationTask::Association => "associations",
        MemorizationTask::SequenceToSequence => "labels at every position",
    }
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;
    use crate::model::{Activation, Mixer, Shape};
    use proptest::prelude::*;

    fn with(shape: Shape) -> BoundsVerdict {
        verdict(&Situation { shape: Some(shape), ..of_corpus(stories()) })
    }

    fn stories_shape(d_mlp: u64) -> Shape {
        Shape { d_vocab: 1000, n_heads: 1, d_head: 16, d_mlp, ..Shape::default() }
    }

    #[test]
    fn as_many_neurons_as_contexts_are_a_guarantee_with_either_mixer() {
        for mixer in [Mixer::Attention, Mixer::Average] {
            let verdict = with(Shape { mixer, ..stories_shape(2637) });
            assert_eq!(verdict.answer, BoundsAnswer::Guaranteed);
            assert!(
                verdict.sentence.contains("the corpus has 2,637 (madden2024, Theorem"),
                "{}",
                verdict.sentence
            );
        }
    }

    #[test]
    fn a_model_too_small_for_every_choice_is_never_said_to_be_too_small_for_the_corpus() {
        let verdict = with(stories_shape(512));
        assert_eq!(verdict.answer, BoundsAnswer::NotEveryChoice);
        assert!(
            verdict.sentence.starts_with("not guaranteed: to hold every possible set"),
            "{}",
            verdict.sentence
        );
        assert!(verdict.sentence.contains("at least 2,634,363 parameters"));
        assert!(verdict.sentence.contains("says nothing about this corpus"));
    }

    #[test]
    fn no_verdict_calls_a_corpus_impossible() {
        for d_mlp in [1, 512, 2600, 2637] {
            let sentence = with(stories_shape(d_mlp)).sentence;
            assert!(!sentence.contains("impossible") && !sentence.contains("cannot"), "{sentence}");
        }
    }

    #[test]
    fn between_the_bounds_and_for_relu_nothing_is_decided() {
        // m = 2600: 2600 * 1017 + 1024 + 16,144 = 2,661,368 parameters, above 2,634,363 though m < n.
        assert_eq!(with(stories_shape(2600)).answer, BoundsAnswer::Open);
        assert_eq!(
            with(Shape { activation: Activation::Relu, ..stories_shape(16) }).answer,
            BoundsAnswer::Open
        );
    }

    #[test]
    fn a_model_that_cannot_read_the_corpus_is_reported_first() {
        assert_eq!(with(Shape { n_ctx: 4, ..stories_shape(5000) }).answer, BoundsAnswer::Unreadable);
    }

    #[test]
    fn attention_alone_is_guaranteed_in_general_position() {
        // 50 heads of 2 and the skip connection hold 102; for 103 nothing is guaranteed, and the model has fewer
        // than 103 * 49 parameters.
        let on = |n| verdict(&Situation { shape: Some(attention_only(2, 2, 50)), ..of_corpus(bigrams(n)) });
        assert_eq!(on(102).answer, BoundsAnswer::Conditional);
        let sentence = on(102).sentence;
        assert!(sentence.starts_with("guaranteed for associations if in general position"), "{sentence}");
        assert_eq!(on(103).answer, BoundsAnswer::NotEveryChoice);
    }

    #[test]
    fn a_corpus_alone_gives_both_sizes() {
        let BoundsVerdict { answer, sentence } = verdict(&of_corpus(stories()));
        assert_eq!(answer, BoundsAnswer::Limits);
        assert!(sentence.contains("takes at least 2,634,363 parameters; this corpus alone"), "{sentence}");
        assert!(
            sentence.contains("has 2,643,283 parameters (madden2024-average)")
                && sentence.contains("10,787 parameters (kajitsuka2024)")
        );
    }

    #[test]
    fn a_model_alone_gives_both_limits() {
        let sentence = |s: Situation| verdict(&s).sentence;
        assert_eq!(
            sentence(of_shape(stories_shape(2637))),
            "a model of this shape, 2,698,997 parameters, holds any distributions on 2,637 contexts, and \
             cannot hold every choice of distributions on more than 2,701 contexts"
        );
        let bare = Situation { parameters: Some(9990), d_vocab: Some(1000), ..Situation::default() };
        assert!(
            sentence(bare).ends_with("cannot hold every choice of distributions on more than 10 contexts")
        );
        let relu = Shape { activation: Activation::Relu, ..stories_shape(4) };
        assert!(
            sentence(of_shape(relu))
                .contains("has no limit by Lemma 1 of madden2024 (the activation must be C^1")
        );
        let attention = |d, heads| sentence(of_shape(attention_only(d, d, heads)));
        assert!(attention(10, 20).contains("holds associations on 210 contexts if in general position"));
        assert!(attention(49, 2).contains("holds distributions on 147 contexts if in general position"));
        assert_eq!(verdict(&Situation::default()).answer, BoundsAnswer::Nothing);
    }

    #[test]
    fn the_top_token_never_costs_more_than_the_distribution() {
        // Two contexts, two tokens: 2 * 2 + 2 + 2 + 2 + 9 parameters of averaging beat the square root.
        let few = CorpusFacts { contexts: 2, d_vocab: 2, labels: 2, ..stories() };
        let sentence = verdict(&of_corpus(few)).sentence;
        assert!(
            sentence.contains("and 19 parameters (madden2024-average) are enough for the most frequent"),
            "{sentence}"
        );
    }

    #[test]
    fn an_empty_corpus_has_nothing_to_store() {
        let empty = CorpusFacts { contexts: 0, ..stories() };
        let with_model = Situation { shape: Some(stories_shape(1)), ..of_corpus(empty.clone()) };
        for situation in [of_corpus(empty), with_model] {
            assert!(verdict(&situation).sentence.ends_with("there is nothing to store"));
        }
    }

    proptest! {
        #[test]
        fn every_situation_has_a_verdict(situation in any_situation()) {
            prop_assert!(!verdict(&situation).sentence.is_empty());
        }

        #[test]
        fn a_hidden_layer_is_guaranteed_exactly_from_one_neuron_per_context(
            n in 1u64..3000, d_vocab in 2u64..2000, d_mlp in 1u64..3000, d_model in 1u64..40,
        ) {
            let corpus = CorpusFacts { contexts: n, d_vocab, ..stories() };
            let shape = Shape { d_model, d_mlp, d_vocab, ..Shape::default() };
            let both = Situation { shape: Some(shape), ..of_corpus(corpus) };
            prop_assert_eq!(verdict(&both).answer == BoundsAnswer::Guaranteed, d_mlp >= n);
        }
    }
}
