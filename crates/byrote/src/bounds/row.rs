//! A bound, what it says in a situation, and how that becomes a row of a table or of JSON.
//!
//! The fixed part of a bound ([`Bound`]) says what it claims. Its judge looks at a [`Situation`] and returns plain
//! quantities (`Findings`) or the reason why the bound does not apply. Only [`Bound::evaluate`] turns quantities
//! into values, according to the bound's [`Order`], so a bound that is not exact cannot put a plain number into a
//! row. It also checks, once for all bounds, that there is something to store and that the model can read it.
//!
//! A **necessary** row is about the worst case. Lemma 1 of madden2024, for example, counts the parameters it takes
//! to hold *every possible* set of next-token distributions on n contexts. It says nothing about one given corpus,
//! which may need far fewer: [`BoundRow::reading`] spells this out.

pub(crate) use super::phrases::{counted, grouped, joined};
use super::situation::{Situation, WhyNot};
pub use crate::bibliography::Paper;
use crate::model::shape::serialize_count;
use crate::units::{AtLeast, AtMost, Number, grouped_number};
use serde::{Serialize, Serializer};
use std::fmt;

/// What is to be memorized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemorizationTask {
    /// The whole next-token distribution of every context.
    Distribution,
    /// The most frequent next token of every context.
    Association,
    /// A label at every position of every sequence.
    SequenceToSequence,
}

impl fmt::Display for MemorizationTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            MemorizationTask::Distribution => "distribution",
            MemorizationTask::Association => "association",
            MemorizationTask::SequenceToSequence => "sequence to sequence",
        })
    }
}

impl MemorizationTask {
    /// What a model must reproduce.
    pub fn targets(self) -> &'static str {
        match self {
            MemorizationTask::Distribution => "next-token distributions",
            MemorizationTask::Association => "next tokens",
            MemorizationTask::SequenceToSequence => "labels at every position",
        }
    }
}

/// What kind of statement a bound is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoundKind {
    /// Proved: no smaller model holds *every* choice of targets on this many contexts. One given corpus may need
    /// less.
    Necessary,
    /// Proved: some weights hold any targets on this many contexts.
    Sufficient,
    /// Computed, but proved in neither direction for this case.
    Estimate,
    /// Observed in experiments.
    Empirical,
}

impl BoundKind {
    /// On which side of the truth the number of contexts lies.
    pub fn side(self) -> Side {
        match self {
            BoundKind::Necessary => Side::AtMost,
            BoundKind::Sufficient => Side::AtLeast,
            BoundKind::Estimate | BoundKind::Empirical => Side::About,
        }
    }

    /// What a statement of this kind is about.
    pub fn about(self) -> About {
        match self {
            BoundKind::Necessary => About::EveryChoice,
            BoundKind::Sufficient | BoundKind::Estimate | BoundKind::Empirical => About::AnyCorpus,
        }
    }
}

/// What the number of parameters in a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// Holding every possible choice of targets on this many contexts. It excludes nothing for one given corpus.
    EveryChoice,
    /// Any one corpus with this many contexts, so also the one that was given.
    AnyCorpus,
}

impl fmt::Display for BoundKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            BoundKind::Necessary => "necessary",
            BoundKind::Sufficient => "sufficient",
            BoundKind::Estimate => "estimate",
            BoundKind::Empirical => "empirical",
        })
    }
}

/// How to read the number of contexts in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The model holds at least this many.
    AtLeast,
    /// The model cannot hold every choice of targets on more than this many.
    AtMost,
    /// The model holds about this many.
    About,
}

/// How precisely a bound is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Every constant is explicit.
    Exact,
    /// A constant factor is unknown.
    UpToConstant,
    /// Logarithmic factors are unknown as well.
    UpToLogs,
}

/// A number in a row, together with how precisely it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BoundValue {
    /// A count with every constant explicit.
    Exact(u128),
    /// A real number with every constant explicit.
    Real(f64),
    /// A lower bound on a real number, every constant explicit.
    AtLeast(AtLeast),
    /// An upper bound on a real number, every constant explicit.
    AtMost(AtMost),
    /// Only the order of growth is known: this is the expression with its constant set to one.
    Order(f64),
}

impl BoundValue {
    /// The number, unless only its order is known.
    pub fn number(self) -> Option<f64> {
        match self {
            BoundValue::Exact(n) => Some(n as f64),
            BoundValue::Real(x) | BoundValue::AtLeast(AtLeast(x)) | BoundValue::AtMost(AtMost(x)) => Some(x),
            BoundValue::Order(_) => None,
        }
    }

    /// The count, if it is one and every constant is explicit.
    pub fn count(self) -> Option<u128> {
        match self {
            BoundValue::Exact(n) => Some(n),
            BoundValue::Real(_) | BoundValue::AtLeast(_) | BoundValue::AtMost(_) | BoundValue::Order(_) => {
                None
            }
        }
    }

    /// The expression with its constant set to one, where only the order is known.
    pub fn order_of(self) -> Option<f64> {
        match self {
            BoundValue::Order(x) => Some(x),
            BoundValue::Exact(_) | BoundValue::Real(_) | BoundValue::AtLeast(_) | BoundValue::AtMost(_) => {
                None
            }
        }
    }
}

impl fmt::Display for BoundValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match *self {
            BoundValue::Exact(n) => grouped(n),
            BoundValue::Real(x) => real(x),
            BoundValue::AtLeast(x) => real(x),
            BoundValue::AtMost(x) => real(x),
            BoundValue::Order(x) if x.abs() < 10.0 => format!("~{x:.1}"),
            BoundValue::Order(x) if x.abs() < 1e9 => format!("~{}", grouped(x.round() as u128)),
            BoundValue::Order(x) => format!("~{x:.1e}"),
        })
    }
}

/// A real number with a few digits; bounds are rounded outwards.
fn real(x: impl Number) -> String {
    match x.value().abs() {
        0.0 => "0".into(),
        size if size < 1e-3 => format!("{x:.1e}"),
        size if size < 1e3 => format!("{x:.4}"),
        size if size < 1e12 => grouped_number(x, 0),
        _ => format!("{x:.1e}"),
    }
}

impl Serialize for BoundValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            BoundValue::Exact(n) => serialize_count(n, serializer),
            BoundValue::Real(x)
            | BoundValue::Order(x)
            | BoundValue::AtLeast(AtLeast(x))
            | BoundValue::AtMost(AtMost(x)) => serializer.serialize_f64(*x),
        }
    }
}

/// The note of a sequence-to-sequence row that gives a number of contexts.
pub(super) const POSITIONS: &str = "the contexts here are labelled positions, T N_seq of them";

/// A named number that is neither contexts nor parameters: an accuracy, a divergence, a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NamedValue {
    /// What it measures.
    pub name: &'static str,
    /// On which side of the truth the number lies; `None` where it is the quantity itself.
    pub side: Option<Side>,
    /// Its unit, empty for a pure number.
    pub unit: &'static str,
    /// The number.
    pub value: BoundValue,
}

/// A published bound: what it claims, and the function that applies it to a situation.
#[derive(Debug)]
pub struct Bound {
    /// The paper's key, with a suffix where a paper has several bounds.
    pub key: &'static str,
    /// A few words for a table.
    pub name: &'static str,
    /// What is memorized.
    pub task: MemorizationTask,
    /// What kind of statement it is.
    pub kind: BoundKind,
    /// How precisely it is known.
    pub order: Order,
    /// The formula as text.
    pub expression: &'static str,
    /// The claim in one plain sentence.
    pub statement: &'static str,
    /// The inputs it needs to give a number.
    pub needs: &'static str,
    /// Where it was published.
    pub paper: &'static Paper,
    /// The theorem, equation or section in that paper.
    pub place: &'static str,
    pub(super) judge: fn(&Situation) -> Judgement,
}

/// What a judge returns: quantities, or the hypothesis that fails.
pub(super) type Judgement = Result<Findings, WhyNot>;

/// The plain quantities a judge computes, before the order of the bound turns them into values.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub contexts: Option<Quantity>,
    pub shape_parameters: Option<u128>,
    pub required_parameters: Option<Quantity>,
    pub figure: Option<Measured>,
    pub condition: Option<&'static str>,
    pub note: Option<String>,
}

impl Findings {
    fn are_empty(&self) -> bool {
        self.contexts.is_none() && self.required_parameters.is_none() && self.figure.is_none()
    }
}

/// A named quantity, before it becomes a [`NamedValue`].
#[derive(Debug)]
pub(super) struct Measured {
    pub name: &'static str,
    pub side: Option<Side>,
    pub unit: &'static str,
    pub quantity: Quantity,
}

/// A number a judge computed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Quantity {
    Count(u128),
    Real(f64),
    AtLeast(AtLeast),
    AtMost(AtMost),
}

impl From<u64> for Quantity {
    fn from(count: u64) -> Self {
        Quantity::Count(count.into())
    }
}

impl From<u128> for Quantity {
    fn from(count: u128) -> Self {
        Quantity::Count(count)
    }
}

impl From<f64> for Quantity {
    fn from(real: f64) -> Self {
        Quantity::Real(real)
    }
}

impl From<AtLeast> for Quantity {
    fn from(bound: AtLeast) -> Self {
        Quantity::AtLeast(bound)
    }
}

impl From<AtMost> for Quantity {
    fn from(bound: AtMost) -> Self {
        Quantity::AtMost(bound)
    }
}

impl Order {
    fn value(self, quantity: Quantity) -> BoundValue {
        match (self, quantity) {
            (Order::Exact, Quantity::Count(n)) => BoundValue::Exact(n),
            (Order::Exact, Quantity::Real(x)) => BoundValue::Real(x),
            (Order::Exact, Quantity::AtLeast(x)) => BoundValue::AtLeast(x),
            (Order::Exact, Quantity::AtMost(x)) => BoundValue::AtMost(x),
            (Order::UpToConstant | Order::UpToLogs, Quantity::Count(n)) => BoundValue::Order(n as f64),
            (
                Order::UpToConstant | Order::UpToLogs,
                Quantity::Real(x) | Quantity::AtLeast(AtLeast(x)) | Quantity::AtMost(AtMost(x)),
            ) => BoundValue::Order(x),
        }
    }
}

impl Bound {
    /// What this bound says in this situation.
    pub fn evaluate(&'static self, situation: &Situation) -> BoundRow {
        let judged = situation.anything_to_store().and_then(|()| situation.readable());
        let (found, why_not) = match judged.and_then(|()| (self.judge)(situation)) {
            Ok(found) if found.are_empty() => (Findings::default(), Some(format!("needs {}", self.needs))),
            Ok(found) => (found, None),
            Err(why_not) => (Findings::default(), Some(why_not)),
        };
        let value = |quantity: Quantity| self.order.value(quantity);
        BoundRow {
            bound: self,
            why_not,
            contexts: found.contexts.map(value),
            shape_parameters: found.shape_parameters.map(BoundValue::Exact),
            required_parameters: found.required_parameters.map(value),
            figure: found.figure.map(|Measured { name, side, unit, quantity }| NamedValue {
                name,
                side,
                unit,
                value: value(quantity),
            }),
            condition: found.condition,
            note: found.note,
        }
    }
}

/// What a bound says in a situation.
#[derive(Debug, Clone)]
pub struct BoundRow {
    /// The bound.
    pub bound: &'static Bound,
    /// The hypothesis that fails or the input that is missing; `None` where the bound applies.
    pub why_not: Option<String>,
    /// How many contexts the given model holds. A sufficient bound: any targets on at least this many. A necessary
    /// bound: not every choice of targets on more than this many. See [`BoundKind::side`].
    pub contexts: Option<BoundValue>,
    /// The paper's count of parameters for the given shape, always exact.
    pub shape_parameters: Option<BoundValue>,
    /// The parameters that go with the number of contexts in the corpus. A sufficient bound: this many are enough
    /// for the corpus. A necessary bound: holding *every* choice of targets on this many contexts takes at least
    /// this many, which says nothing about the one corpus that was given.
    pub required_parameters: Option<BoundValue>,
    /// A number of another kind.
    pub figure: Option<NamedValue>,
    /// What the numbers depend on, where that is neither checked nor always true: "if ...", "for ...".
    pub condition: Option<&'static str>,
    /// What the numbers rest on: the width assumed, a correction, a caveat.
    pub note: Option<String>,
}

/// How directly a row answers "how large a model?" or "how many contexts?"; the most useful first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relevance {
    /// A theorem with explicit constants whose hypotheses were all checked.
    Proved,
    /// A theorem with explicit constants that depends on a condition nobody checked.
    Conditional,
    /// Known up to a constant, estimated, or observed in experiments.
    Indicative,
    /// Does not apply here.
    Inapplicable,
}

impl BoundRow {
    /// Whether every hypothesis holds and all inputs are given.
    pub fn applies(&self) -> bool {
        self.why_not.is_none()
    }

    /// How directly this row answers the question.
    pub fn relevance(&self) -> Relevance {
        let theorem = matches!(self.bound.kind, BoundKind::Necessary | BoundKind::Sufficient);
        match (self.applies(), theorem && self.bound.order == Order::Exact, self.condition) {
            (false, ..) => Relevance::Inapplicable,
            (true, true, None) => Relevance::Proved,
            (true, true, Some(_)) => Relevance::Conditional,
            (true, false, _) => Relevance::Indicative,
        }
    }

    /// What the number of parameters means for a corpus of `contexts` contexts, in one sentence; `None` where the
    /// row has no such number.
    pub fn reading(&self, contexts: u64) -> Option<String> {
        let (parameters, contexts) = (self.required_parameters?, grouped(contexts));
        let targets = self.bound.task.targets();
        let condition = self.condition.map(|condition| format!(", {condition}")).unwrap_or_default();
        Some(match self.bound.kind {
            BoundKind::Necessary => format!(
                "To hold every possible set of {targets} on {contexts} contexts takes at least {parameters} \
                 parameters{condition}; this says nothing about one given corpus."
            ),
            BoundKind::Sufficient => {
                format!("{parameters} parameters are enough to hold this corpus{condition}.")
            }
            BoundKind::Estimate | BoundKind::Empirical => {
                format!("About {parameters} parameters hold {contexts} contexts{condition}.")
            }
        })
    }
}

impl Serialize for BoundRow {
    /// The fields that other programs rely on: see `RowJson`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = |value: Option<BoundValue>| value.filter(|v| v.order_of().is_none());
        let order_of = |value: Option<BoundValue>| value.and_then(BoundValue::order_of);
        RowJson {
            key: self.bound.key,
            name: self.bound.name,
            task: self.bound.task,
            kind: self.bound.kind,
            order: self.bound.order,
            side: self.bound.kind.side(),
            applies: self.applies(),
            why_not: self.why_not.as_deref(),
            contexts: number(self.contexts),
            contexts_order_of: order_of(self.contexts),
            shape_parameters: self.shape_parameters,
            required_parameters: number(self.required_parameters),
            required_parameters_order_of: order_of(self.required_parameters),
            about: self.bound.kind.about(),
            figure: self.figure.map(|figure| FigureJson {
                name: figure.name,
                side: figure.side,
                unit: figure.unit,
                value: number(Some(figure.value)),
                value_order_of: order_of(Some(figure.value)),
            }),
            conditional: self.condition.is_some(),
            condition: self.condition,
            statement: self.bound.statement,
            note: self.note.as_deref(),
            expression: self.bound.expression,
            needs: self.bound.needs,
            reference: ReferenceJson { paper: self.bound.paper, place: self.bound.place },
        }
        .serialize(serializer)
    }
}

#[derive(Serialize)]
struct RowJson<'a> {
    key: &'a str,
    name: &'a str,
    task: MemorizationTask,
    kind: BoundKind,
    order: Order,
    side: Side,
    applies: bool,
    why_not: Option<&'a str>,
    contexts: Option<BoundValue>,
    contexts_order_of: Option<f64>,
    shape_parameters: Option<BoundValue>,
    /// For `kind` "necessary": what it takes to hold every choice of targets on as many contexts, not what this
    /// corpus takes. `about` says which of the two it is.
    required_parameters: Option<BoundValue>,
    required_parameters_order_of: Option<f64>,
    about: About,
    figure: Option<FigureJson<'a>>,
    conditional: bool,
    condition: Option<&'a str>,
    statement: &'a str,
    note: Option<&'a str>,
    expression: &'a str,
    needs: &'a str,
    reference: ReferenceJson<'a>,
}

#[derive(Serialize)]
struct FigureJson<'a> {
    name: &'a str,
    side: Option<Side>,
    unit: &'a str,
    value: Option<BoundValue>,
    value_order_of: Option<f64>,
}

#[derive(Serialize)]
struct ReferenceJson<'a> {
    #[serde(flatten)]
    paper: &'a Paper,
    place: &'a str,
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::super::{CorpusFacts, all, evaluate, find, madden2024};
    use super::*;
    use crate::model::Shape;
    use proptest::prelude::*;

    #[test]
    fn a_necessary_row_is_about_every_choice_and_says_so() {
        let row = madden2024::LEMMA1.evaluate(&of_corpus(stories()));
        assert_eq!(
            row.reading(2637).unwrap(),
            "To hold every possible set of next-token distributions on 2,637 contexts takes at least 2,634,363 \
             parameters; this says nothing about one given corpus."
        );
        assert_eq!(serde_json::to_value(&row).unwrap()["about"], "every-choice");
        for row in evaluate(&of_corpus(stories())).iter().filter(|row| row.bound.kind == BoundKind::Necessary)
        {
            let reading = row.reading(2637);
            assert!(
                reading.is_none_or(|r| r.contains("every possible set") && r.contains("says nothing about"))
            );
            let statement = row.bound.statement;
            assert!(
                !statement.contains("this corpus") && !statement.contains("the corpus"),
                "{}",
                row.bound.key
            );
        }
        let row = madden2024::THEOREM5.evaluate(&of_corpus(stories()));
        assert_eq!(row.reading(2637).unwrap(), "2,643,287 parameters are enough to hold this corpus.");
        assert_eq!((row.relevance(), row.bound.kind.about()), (Relevance::Proved, About::AnyCorpus));
    }

    #[test]
    fn a_value_shows_how_precisely_it_is_known() {
        assert_eq!(BoundValue::Exact(2_637).to_string(), "2,637");
        assert_eq!(BoundValue::Real(0.10232).to_string(), "0.1023");
        assert_eq!(BoundValue::Order(51_352.4).to_string(), "~51,352");
        assert_eq!(BoundValue::Order(1.44).to_string(), "~1.4");
        assert_eq!(BoundValue::Order(3.14e22).to_string(), "~3.1e22");
        assert_eq!(
            (BoundValue::Real(0.0).to_string(), BoundValue::Real(2.5e-7).to_string()),
            ("0".into(), "2.5e-7".into())
        );
        assert_eq!((BoundValue::Order(3.0).number(), BoundValue::Exact(3).number()), (None, Some(3.0)));
    }

    #[test]
    fn keys_are_unique_and_begin_with_their_paper() {
        let keys: Vec<_> = all().map(|bound| bound.key).collect();
        for (i, bound) in all().enumerate() {
            assert!(bound.key.starts_with(bound.paper.key), "{}", bound.key);
            assert!(!keys[..i].contains(&bound.key), "{} twice", bound.key);
            assert_eq!(find(bound.key).map(|b| b.key), Some(bound.key));
        }
    }

    #[test]
    fn every_row_has_either_a_number_or_a_reason_and_inexact_rows_have_no_plain_number() {
        let shape = Shape { d_vocab: 1000, d_mlp: 2637, ..Shape::default() };
        let both = Situation { shape: Some(shape), ..of_corpus(stories()) };
        for situation in
            [of_corpus(stories()), of_shape(shape), both, of_corpus(bigrams(2500)), Situation::default()]
        {
            for row in evaluate(&situation) {
                let json = serde_json::to_value(&row).unwrap();
                let numbers = [&json["contexts"], &json["required_parameters"], &json["figure"]["value"]];
                let orders = [
                    &json["contexts_order_of"],
                    &json["required_parameters_order_of"],
                    &json["figure"]["value_order_of"],
                ];
                let some = |fields: [&serde_json::Value; 3]| fields.iter().any(|field| field.is_number());
                assert_eq!(json["applies"], row.applies());
                assert_eq!(row.applies(), json["why_not"].is_null());
                assert_eq!(row.applies(), some(numbers) || some(orders), "{json}");
                assert!(!some(if row.bound.order == Order::Exact { orders } else { numbers }), "{json}");
            }
        }
    }

    #[test]
    fn a_row_has_the_fields_other_programs_rely_on() {
        let json = serde_json::to_value(madden2024::LEMMA1.evaluate(&of_corpus(stories()))).unwrap();
        assert_eq!(json["key"], "madden2024-lemma1");
        assert_eq!(json["task"], "distribution");
        assert_eq!((&json["kind"], &json["order"]), (&"necessary".into(), &"exact".into()));
        assert_eq!(json["required_parameters"], 2_634_363);
        assert_eq!(json["reference"]["source"], "arXiv:2405.13718v1");
        for field in ["name", "applies", "why_not", "contexts", "shape_parameters", "statement", "expression"]
        {
            assert!(json.get(field).is_some(), "{field}");
        }
    }

    #[test]
    fn every_row_reports_an_empty_corpus_and_one_that_the_model_cannot_read() {
        let empty = of_corpus(CorpusFacts { contexts: 0, ..bigrams(1) });
        let narrow = Situation { parameters: Some(9), d_vocab: Some(49), ..of_corpus(bigrams(9)) };
        for bound in all() {
            assert!(bound.evaluate(&empty).why_not.unwrap().contains("nothing to store"), "{}", bound.key);
            assert!(bound.evaluate(&narrow).why_not.unwrap().contains("vocabulary has 49"), "{}", bound.key);
        }
    }

    proptest! {
        #[test]
        fn no_situation_makes_a_bound_panic(situation in any_situation()) {
            for row in evaluate(&situation) {
                prop_assert!(serde_json::to_value(&row).is_ok());
            }
        }
    }
}
