//! What is known when a bound is evaluated: facts about a corpus, the shape of a model, a bare number of parameters,
//! or several of these. Hypotheses that several papers share are checked here, each with the reason why it fails.

use super::deep::regular;
use super::row::grouped;
use crate::corpus::{Coverage, Summary};
use crate::model::{Config, Mixer, ParametersByKind, Shape};
use crate::units::Nats;

/// Why a bound does not apply: the hypothesis that fails, with its numbers.
pub(super) type WhyNot = String;

/// The contexts of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LengthFacts {
    /// Tokens in the context.
    pub length: u64,
    /// Distinct contexts of that length.
    pub contexts: u64,
}

/// What the bounds need to know about a corpus.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CorpusFacts {
    /// Distinct documents kept, N_seq.
    pub sequences: u64,
    /// Tokens in the vocabulary, omega.
    pub d_vocab: u64,
    /// Longest context requested, T.
    pub n_ctx: u64,
    /// Distinct contexts, n.
    pub contexts: u64,
    /// Predictions, the sum of all counts.
    pub predictions: u64,
    /// The lowest training loss of any model, over all predictions.
    pub floor: Nats,
    /// Contexts with a single next token.
    pub deterministic_contexts: u64,
    /// Contexts by their length.
    pub by_length: Vec<LengthFacts>,
    /// Distinct last tokens of the contexts.
    pub distinct_last_tokens: u64,
    /// Distinct next tokens, C.
    pub labels: u64,
    /// Contexts after which every token of the vocabulary occurs.
    pub full_support_contexts: u64,
    /// T_eps for a few values of eps.
    pub coverage: Vec<Coverage>,
}

impl From<&Summary> for CorpusFacts {
    fn from(summary: &Summary) -> Self {
        let by_length =
            |l: &crate::corpus::LengthSummary| LengthFacts { length: l.length.into(), contexts: l.contexts };
        CorpusFacts {
            sequences: summary.sequences,
            d_vocab: summary.d_vocab,
            n_ctx: summary.n_ctx.into(),
            contexts: summary.contexts,
            predictions: summary.predictions,
            floor: summary.floor_nats,
            deterministic_contexts: summary.deterministic_contexts,
            by_length: summary.by_length.iter().map(by_length).collect(),
            distinct_last_tokens: summary.distinct_last_tokens,
            labels: summary.labels,
            full_support_contexts: summary.full_support_contexts,
            coverage: summary.coverage.clone(),
        }
    }
}

impl CorpusFacts {
    /// The longest context that occurs; `n_ctx` where lengths are not listed.
    pub fn longest_context(&self) -> u64 {
        self.lengths().max().unwrap_or(self.n_ctx)
    }

    /// The length S that all contexts share, or why there is none.
    pub(super) fn one_length(&self) -> Result<u64, WhyNot> {
        let shortest = self.lengths().min().unwrap_or(self.n_ctx);
        let longest = self.longest_context();
        if shortest == longest {
            Ok(longest)
        } else {
            Err(format!("all contexts must have one length, but they have {shortest} to {longest} tokens"))
        }
    }

    /// What an association means where contexts have more than one next token; `None` where none has.
    pub(super) fn labels_kept(&self) -> Option<String> {
        match self.contradictions() {
            0 => None,
            1 => Some("1 contradictory context keeps its most frequent next token".into()),
            some => {
                Some(format!("{} contradictory contexts keep their most frequent next token", grouped(some)))
            }
        }
    }

    /// Assumption 2 of dana2024: every token follows every context.
    pub(super) fn full_support(&self) -> Result<(), WhyNot> {
        match self.contexts.saturating_sub(self.full_support_contexts) {
            0 => Ok(()),
            some => Err(format!("every token must follow every context, but {} lack some", grouped(some))),
        }
    }

    /// Contexts with more than one next token.
    pub fn contradictions(&self) -> u64 {
        self.contexts.saturating_sub(self.deterministic_contexts)
    }

    fn lengths(&self) -> impl Iterator<Item = u64> {
        self.by_length.iter().filter(|l| l.contexts > 0).map(|l| l.length)
    }
}

/// Everything a bound may look at. Set what is known and leave the rest as in [`Situation::default`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Situation {
    /// The corpus to be memorized.
    pub corpus: Option<CorpusFacts>,
    /// The model.
    pub shape: Option<Shape>,
    /// The switches of a model of blocks, whose shape is also given ([`Situation::of_model`] sets both).
    pub model: Option<Config>,
    /// The number of parameters, where the shape is not known or has more parameters than its paper counts.
    pub parameters: Option<u64>,
    /// Tokens in the vocabulary, where neither shape nor corpus gives it.
    pub d_vocab: Option<u64>,
    /// Longest context, where neither shape nor corpus gives it.
    pub n_ctx: Option<u64>,
    /// Arithmetic operations that compute one prediction.
    pub operations: Option<u64>,
    /// Bits that store a parameter.
    pub bits_per_parameter: u32,
}

impl Default for Situation {
    /// Nothing known; parameters of 32 bits.
    fn default() -> Self {
        Situation {
            corpus: None,
            shape: None,
            model: None,
            parameters: None,
            d_vocab: None,
            n_ctx: None,
            operations: None,
            bits_per_parameter: 32,
        }
    }
}

crate::setting::setters!(Situation {
    corpus: into(impl Into<Option<CorpusFacts>>),
    shape: into(impl Into<Option<Shape>>),
    parameters: into(impl Into<Option<u64>>),
    d_vocab: into(impl Into<Option<u64>>),
    n_ctx: into(impl Into<Option<u64>>),
    operations: into(impl Into<Option<u64>>),
    bits_per_parameter: plain(u32),
});

impl Situation {
    /// The same with a model of blocks, or whatever the configuration describes, and its shape.
    #[must_use]
    pub fn of_model(self, model: impl Into<Option<Config>>) -> Self {
        let model = model.into();
        Self {
            shape: model.map(|model| model.shape),
            model: model.filter(|m| m.shape.blocks.is_some()),
            ..self
        }
    }

    /// omega of the model: from its shape, else as stated, else from the corpus.
    pub fn vocabulary(&self) -> Option<u64> {
        let shape = self.shape.map(|shape| shape.d_vocab);
        shape.or(self.d_vocab).or_else(|| self.corpus.as_ref().map(|corpus| corpus.d_vocab))
    }

    /// T of the model: from its shape, else as stated, else from the corpus.
    pub fn longest_context(&self) -> Option<u64> {
        let shape = self.shape.map(|shape| shape.n_ctx);
        shape.or(self.n_ctx).or_else(|| self.corpus.as_ref().map(CorpusFacts::longest_context))
    }

    /// k of the model: as stated, else the count for its shape.
    pub fn parameter_count(&self) -> Option<u128> {
        self.parameters.map(u128::from).or_else(|| self.shape_parameters())
    }

    /// The paper's count for the shape; for a model of blocks, that of its own tensors.
    pub fn parameters_by_kind(&self) -> Option<ParametersByKind> {
        match (self.shape?, self.model) {
            (Shape { blocks: Some(_), .. }, model) => Some(model?.checked().ok()?.parameters_by_kind()),
            (shape, _) => Some(shape.parameters()),
        }
    }

    /// The total of that count.
    pub(super) fn shape_parameters(&self) -> Option<u128> {
        self.parameters_by_kind().map(|kinds| kinds.total())
    }

    /// C: the labels of the corpus, else any token of the vocabulary.
    pub fn labels(&self) -> Option<u64> {
        self.corpus.as_ref().map(|corpus| corpus.labels).or_else(|| self.vocabulary())
    }

    /// n of the corpus.
    pub(super) fn contexts(&self) -> Option<u64> {
        self.corpus.as_ref().map(|corpus| corpus.contexts)
    }

    /// Whether there is a context at all, where a corpus is given.
    pub(super) fn anything_to_store(&self) -> Result<(), WhyNot> {
        match self.contexts() {
            Some(0) => Err("the corpus has no contexts: there is nothing to store".into()),
            _ => Ok(()),
        }
    }

    /// Whether the model, by its shape or as far as its sizes are stated, can read the corpus at all: every
    /// token, and the longest context.
    pub(super) fn readable(&self) -> Result<(), String> {
        let Some(corpus) = &self.corpus else { return Ok(()) };
        let (longest, sizes) = (corpus.longest_context(), (self.vocabulary(), self.longest_context()));
        match sizes {
            (Some(d_vocab), _) if corpus.d_vocab > d_vocab => {
                let (found, known) = (grouped(corpus.d_vocab), grouped(d_vocab));
                Err(format!("the corpus has {found} tokens, but the model's vocabulary has {known}"))
            }
            (_, Some(n_ctx)) if longest > n_ctx => {
                Err(format!("the corpus has contexts of {longest} tokens, but the model reads {n_ctx}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the logits are continuously differentiable in the parameters, at any depth. Softmax, averaging, rotary positions
    /// and the linear maps are, so only the activation can fail, and a normalization that may divide by 0; without a shape the
    /// model is taken to be smooth.
    pub(super) fn smooth(&self) -> Result<(), WhyNot> {
        let Some(shape) = self.shape else { return Ok(()) };
        if shape.has_hidden_layer() && !shape.activation.is_c1() {
            return Err(format!("the activation must be C^1, which {} is not", shape.activation));
        }
        shape.blocks.map_or(Ok(()), |blocks| regular(&blocks))
    }

    /// The shape, if it has this mixer and a hidden layer that feeds the output.
    pub(super) fn shape_with_hidden_layer(&self, mixer: Mixer) -> Result<Option<&Shape>, WhyNot> {
        let Some(shape) = &self.shape else { return Ok(None) };
        self.one_layer()?;
        if shape.mixer != mixer {
            Err(format!("the mixer must be {mixer}, but is {}", shape.mixer))
        } else if !shape.has_hidden_layer() {
            Err("the shape has no hidden layer (d_mlp is 0)".into())
        } else {
            Ok(Some(shape))
        }
    }

    /// The shape, if it consists of attention alone.
    pub(super) fn attention_only_shape(&self) -> Result<Option<&Shape>, WhyNot> {
        let Some(shape) = &self.shape else { return Ok(None) };
        if !self.is_one_block_of_attention() {
            self.one_layer()?;
        }
        if shape.mixer != Mixer::Attention {
            Err(format!("the mixer must be attention, but is {}", shape.mixer))
        } else if shape.has_hidden_layer() {
            Err("the shape has a hidden layer, but the theorem is about attention alone (d_mlp 0)".into())
        } else {
            Ok(Some(shape))
        }
    }

    /// The shape, if its output reads the residual stream, whatever the mixer and the depth.
    pub(super) fn shape_of_rank_d_model(&self) -> Result<Option<&Shape>, WhyNot> {
        match &self.shape {
            Some(shape) if shape.has_hidden_layer() && shape.blocks.is_none() => {
                Err(format!("the hidden layer feeds the output, so its rank is d_mlp {}", shape.d_mlp))
            }
            shape => Ok(shape.as_ref()),
        }
    }

    /// S, if all contexts have one length of at least two tokens. For a shape alone, its `n_ctx`.
    pub(super) fn one_length_above_one(&self) -> Result<Option<u64>, WhyNot> {
        let length = match &self.corpus {
            Some(corpus) => Some(corpus.one_length()?),
            None => self.longest_context(),
        };
        match length {
            Some(length @ 0..2) => Err(format!(
                "contexts must have at least two tokens, but they have {length} (attention over one token is constant)"
            )),
            length => Ok(length),
        }
    }
}

#[cfg(test)]
pub(super) mod examples {
    use super::*;
    use crate::model::Activation;
    use proptest::prelude::*;

    /// The last set of madden2024: 1,000 stories of ten tokens. Its contexts are in the paper; omega = 1000
    /// is ours.
    pub(crate) fn stories() -> CorpusFacts {
        CorpusFacts {
            sequences: 1000,
            d_vocab: 1000,
            n_ctx: 9,
            contexts: 2637,
            predictions: 9000,
            floor: Nats(9000.0),
            deterministic_contexts: 2000,
            by_length: (1..=9).map(|length| LengthFacts { length, contexts: 293 }).collect(),
            distinct_last_tokens: 400,
            labels: 900,
            full_support_contexts: 0,
            coverage: vec![Coverage { epsilon: 0.1, contexts: 1800 }],
        }
    }

    /// `n` bigrams over 50 tokens, each with one next token, as in the experiments of dana2024.
    pub(crate) fn bigrams(n: u64) -> CorpusFacts {
        CorpusFacts {
            sequences: n,
            d_vocab: 50,
            n_ctx: 2,
            contexts: n,
            predictions: n,
            deterministic_contexts: n,
            by_length: vec![LengthFacts { length: 2, contexts: n }],
            distinct_last_tokens: n.min(50),
            labels: n.min(50),
            coverage: vec![Coverage { epsilon: 0.1, contexts: n - n / 10 }],
            ..CorpusFacts::default()
        }
    }

    /// A situation with nothing but this corpus.
    pub(crate) fn of_corpus(corpus: CorpusFacts) -> Situation {
        Situation { corpus: Some(corpus), ..Situation::default() }
    }

    /// A situation with this corpus and this model.
    pub(crate) fn both(corpus: CorpusFacts, shape: Shape) -> Situation {
        Situation { shape: Some(shape), ..of_corpus(corpus) }
    }

    /// A situation with nothing but this shape.
    pub(crate) fn of_shape(shape: Shape) -> Situation {
        Situation { shape: Some(shape), ..Situation::default() }
    }

    /// Attention alone over 50 tokens and contexts of two, as in dana2024.
    pub(crate) fn attention_only(d_model: u64, d_head: u64, n_heads: u64) -> Shape {
        Shape { d_vocab: 50, n_ctx: 2, d_model, d_head, n_heads, d_mlp: 0, ..Shape::default() }
    }

    /// Sizes at every edge of the range, and ordinary ones.
    pub(crate) fn any_size() -> BoxedStrategy<u64> {
        prop_oneof![Just(0), Just(1), Just(2), Just(u64::MAX), any::<u64>(), 0u64..10_000].boxed()
    }

    /// Any corpus, whether or not its facts agree with each other.
    pub(crate) fn any_corpus() -> impl Strategy<Value = CorpusFacts> {
        (prop::array::uniform9(any_size()), any::<f64>()).prop_map(|(sizes, floor)| CorpusFacts {
            sequences: sizes[1],
            d_vocab: sizes[2],
            n_ctx: sizes[3],
            contexts: sizes[4],
            predictions: sizes[5],
            floor: Nats(floor),
            deterministic_contexts: sizes[6],
            by_length: vec![LengthFacts { length: sizes[3], contexts: sizes[4] }],
            distinct_last_tokens: sizes[7],
            labels: sizes[8],
            full_support_contexts: sizes[0],
            coverage: vec![Coverage { epsilon: 0.1, contexts: sizes[4] }],
        })
    }

    /// Any shape, in range or not.
    pub(crate) fn any_shape() -> impl Strategy<Value = Shape> {
        let switches = (0..Activation::ALL.len(), any::<bool>());
        (prop::array::uniform6(any_size()), switches).prop_map(|(sizes, (activation, average))| Shape {
            d_vocab: sizes[0],
            n_ctx: sizes[1],
            d_model: sizes[2],
            n_heads: sizes[3],
            d_head: sizes[4],
            d_mlp: sizes[5],
            activation: Activation::ALL[activation],
            mixer: if average { Mixer::Average } else { Mixer::Attention },
            blocks: None,
        })
    }

    /// Any mixture of what may be known.
    pub(crate) fn any_situation() -> impl Strategy<Value = Situation> {
        let size = || prop::option::of(any_size());
        let stated = (size(), size(), size(), size(), any::<u32>());
        (prop::option::of(any_corpus()), prop::option::of(any_shape()), stated).prop_map(
            |(corpus, shape, (parameters, d_vocab, n_ctx, operations, bits_per_parameter))| Situation {
                corpus,
                shape,
                model: None,
                parameters,
                d_vocab,
                n_ctx,
                operations,
                bits_per_parameter,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::examples::*;
    use super::*;
    use crate::model::Activation;

    #[test]
    fn a_shape_takes_precedence_over_a_stated_size_and_that_over_the_corpus() {
        let mut situation = of_corpus(stories());
        assert_eq!((situation.vocabulary(), situation.longest_context()), (Some(1000), Some(9)));
        situation.d_vocab = Some(2000);
        assert_eq!(situation.vocabulary(), Some(2000));
        situation.shape = Some(Shape { d_vocab: 3000, ..Shape::default() });
        assert_eq!(situation.vocabulary(), Some(3000));
        assert_eq!(situation.parameter_count(), situation.shape_parameters());
        situation.parameters = Some(7);
        assert_eq!(situation.parameter_count(), Some(7));
    }

    #[test]
    fn a_model_too_narrow_for_the_corpus_is_refused_with_both_numbers() {
        let with = |shape| Situation { shape: Some(shape), ..of_corpus(stories()) }.readable();
        assert_eq!(with(Shape { d_vocab: 1000, ..Shape::default() }), Ok(()));
        assert!(with(Shape { d_vocab: 999, ..Shape::default() }).unwrap_err().contains("1,000 tokens"));
        assert!(with(Shape { d_vocab: 1000, n_ctx: 8, ..Shape::default() }).unwrap_err().contains("reads 8"));
    }

    #[test]
    fn several_lengths_one_length_and_length_one_are_distinguished() {
        assert!(stories().one_length().unwrap_err().contains("1 to 9"));
        assert_eq!(bigrams(10).one_length(), Ok(2));
        assert_eq!(of_corpus(bigrams(10)).one_length_above_one(), Ok(Some(2)));
        let mut unigrams = bigrams(10);
        unigrams.by_length[0].length = 1;
        assert!(of_corpus(unigrams).one_length_above_one().unwrap_err().contains("they have 1"));
    }

    #[test]
    fn relu_is_not_smooth_unless_there_is_no_hidden_layer() {
        let relu = Shape { activation: Activation::Relu, ..Shape::default() };
        assert!(of_shape(relu).smooth().unwrap_err().contains("relu"));
        assert_eq!(of_shape(Shape { d_mlp: 0, ..relu }).smooth(), Ok(()));
    }
}
