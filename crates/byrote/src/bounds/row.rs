//! A bound, what it found in a situation, and how that reads as a row of a table or of JSON.
//!
//! The fixed part of a bound ([`Bound`]) says what it is; its judge looks at a situation and gives plain
//! quantities (`Findings`) or the reason it does not apply. Only [`Bound::evaluate`] turns quantities into
//! values, and it does so by the bound's [`Order`]: a bound that is not exact cannot put a plain number into
//! a row. It also asks, once for all bounds, whether there is anything to store and whether the model can read
//! it.

use super::situation::{Situation, WhyNot};
pub(crate) use super::words::{counted, grouped, joined};
use crate::model::shape::serialize_count;
use crate::units::{AtLeast, AtMost, Number, grouped_number};
use serde::{Serialize, Serializer};
use std::fmt;

/// What is to be memorized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// The whole next-token distribution of every context.
    Distribution,
    /// The most frequent next token of every context.
    Association,
    /// A label at every position of every sequence.
    SequenceToSequence,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Task::Distribution => "distribution",
            Task::Association => "association",
            Task::SequenceToSequence => "sequence to sequence",
        })
    }
}

/// What a bound is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Proved: no model does better.
    Necessary,
    /// Proved: some weights do it.
    Sufficient,
    /// Computed, but neither side is proved for the case at hand.
    Estimate,
    /// Seen in experiments.
    Empirical,
}

impl Kind {
    /// Which side of the truth the number of contexts lies on.
    pub fn side(self) -> Side {
        match self {
            Kind::Necessary => Side::AtMost,
            Kind::Sufficient => Side::AtLeast,
            Kind::Estimate | Kind::Empirical => Side::About,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Necessary => "necessary",
            Kind::Sufficient => "sufficient",
            Kind::Estimate => "estimate",
            Kind::Empirical => "empirical",
        })
    }
}

/// How the number of contexts of a row is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The model holds at least so many.
    AtLeast,
    /// The model holds at most so many.
    AtMost,
    /// The model holds about so many.
    About,
}

/// How much of a bound is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Every constant is explicit.
    Exact,
    /// A constant factor is hidden.
    UpToConstant,
    /// Logarithmic factors are hidden too.
    UpToLogs,
}

/// A number of a row, with how much of it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A count with every constant explicit.
    Exact(u128),
    /// A real number with every constant explicit.
    Real(f64),
    /// A lower bound on a real number, every constant explicit.
    AtLeast(AtLeast),
    /// An upper bound on a real number, every constant explicit.
    AtMost(AtMost),
    /// Only the order is known: this is the expression with its constant set to one.
    Order(f64),
}

impl Value {
    /// The number, unless only its order is known.
    pub fn number(self) -> Option<f64> {
        match self {
            Value::Exact(n) => Some(n as f64),
            Value::Real(x) | Value::AtLeast(AtLeast(x)) | Value::AtMost(AtMost(x)) => Some(x),
            Value::Order(_) => None,
        }
    }

    /// The count, if it is one and every constant is explicit.
    pub fn count(self) -> Option<u128> {
        match self {
            Value::Exact(n) => Some(n),
            Value::Real(_) | Value::AtLeast(_) | Value::AtMost(_) | Value::Order(_) => None,
        }
    }

    /// The expression with its constant set to one, where only the order is known.
    pub fn order_of(self) -> Option<f64> {
        match self {
            Value::Order(x) => Some(x),
            Value::Exact(_) | Value::Real(_) | Value::AtLeast(_) | Value::AtMost(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match *self {
            Value::Exact(n) => grouped(n),
            Value::Real(x) => real(x),
            Value::AtLeast(x) => real(x),
            Value::AtMost(x) => real(x),
            Value::Order(x) if x.abs() < 10.0 => format!("~{x:.1}"),
            Value::Order(x) if x.abs() < 1e9 => format!("~{}", grouped(x.round() as u128)),
            Value::Order(x) => format!("~{x:.1e}"),
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

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Exact(n) => serialize_count(n, serializer),
            Value::Real(x) | Value::Order(x) | Value::AtLeast(AtLeast(x)) | Value::AtMost(AtMost(x)) => {
                serializer.serialize_f64(*x)
            }
        }
    }
}

/// The note of a sequence-to-sequence row that gives a number of contexts.
pub(super) const POSITIONS: &str = "contexts counts the labelled positions, T N_seq";

/// A named number that is neither contexts nor parameters: an accuracy, a divergence, a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// What it measures, with its side where it has one.
    pub name: &'static str,
    /// Its unit, empty for a pure number.
    pub unit: &'static str,
    /// The number.
    pub value: Value,
}

/// A publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Paper {
    /// The key that stands for it everywhere.
    #[serde(rename = "paper")]
    pub key: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Where it appeared, with the arXiv version used.
    pub source: &'static str,
}

/// A published bound: what it claims, and the function that judges a situation by it.
#[derive(Debug)]
pub struct Bound {
    /// The paper's key, with a suffix where a paper has several bounds.
    pub key: &'static str,
    /// A few words for a table.
    pub name: &'static str,
    /// What is memorized.
    pub task: Task,
    /// What it is worth.
    pub kind: Kind,
    /// How much of it is known.
    pub order: Order,
    /// The formula as text.
    pub expression: &'static str,
    /// The claim in one plain sentence.
    pub statement: &'static str,
    /// The inputs that give it a value.
    pub needs: &'static str,
    /// Where it was published.
    pub paper: &'static Paper,
    /// The theorem, equation or section there.
    pub place: &'static str,
    pub(super) judge: fn(&Situation) -> Outcome,
}

/// What a judge returns: quantities, or the hypothesis that fails.
pub(super) type Outcome = Result<Findings, WhyNot>;

/// The plain quantities a judge computes, before the order of the bound makes values of them.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub contexts: Option<Quantity>,
    pub shape_parameters: Option<u128>,
    pub required_parameters: Option<Quantity>,
    pub figure: Option<(&'static str, &'static str, Quantity)>,
    pub condition: Option<&'static str>,
    pub note: Option<String>,
}

impl Findings {
    fn say_nothing(&self) -> bool {
        self.contexts.is_none() && self.required_parameters.is_none() && self.figure.is_none()
    }
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
    fn value(self, quantity: Quantity) -> Value {
        match (self, quantity) {
            (Order::Exact, Quantity::Count(n)) => Value::Exact(n),
            (Order::Exact, Quantity::Real(x)) => Value::Real(x),
            (Order::Exact, Quantity::AtLeast(x)) => Value::AtLeast(x),
            (Order::Exact, Quantity::AtMost(x)) => Value::AtMost(x),
            (Order::UpToConstant | Order::UpToLogs, Quantity::Count(n)) => Value::Order(n as f64),
            (
                Order::UpToConstant | Order::UpToLogs,
                Quantity::Real(x) | Quantity::AtLeast(AtLeast(x)) | Quantity::AtMost(AtMost(x)),
            ) => Value::Order(x),
        }
    }
}

impl Bound {
    /// What this bound says in this situation.
    pub fn evaluate(&'static self, situation: &Situation) -> Row {
        let judged = situation.anything_to_store().and_then(|()| situation.readable());
        let (found, why_not) = match judged.and_then(|()| (self.judge)(situation)) {
            Ok(found) if found.say_nothing() => (Findings::default(), Some(format!("needs {}", self.needs))),
            Ok(found) => (found, None),
            Err(why_not) => (Findings::default(), Some(why_not)),
        };
        let value = |quantity: Quantity| self.order.value(quantity);
        Row {
            bound: self,
            why_not,
            contexts: found.contexts.map(value),
            shape_parameters: found.shape_parameters.map(Value::Exact),
            required_parameters: found.required_parameters.map(value),
            figure: found.figure.map(|(name, unit, x)| Figure { name, unit, value: value(x) }),
            condition: found.condition,
            note: found.note,
        }
    }
}

/// What a bound says in a situation.
#[derive(Debug, Clone)]
pub struct Row {
    /// The bound.
    pub bound: &'static Bound,
    /// The hypothesis that fails or the input that is missing; `None` where the bound applies.
    pub why_not: Option<String>,
    /// How many contexts the given model holds, at least or at most; see [`Kind::side`].
    pub contexts: Option<Value>,
    /// The paper's count of parameters for the given shape, always exact.
    pub shape_parameters: Option<Value>,
    /// The parameters the given corpus needs by this bound.
    pub required_parameters: Option<Value>,
    /// A number of another kind.
    pub figure: Option<Figure>,
    /// What the numbers hold for, where that is neither checked nor true of every case: "if ...", "for ...".
    pub condition: Option<&'static str>,
    /// What the numbers rest on: the width assumed, a correction, a caveat.
    pub note: Option<String>,
}

impl Row {
    /// Whether every hypothesis holds and the inputs are there.
    pub fn applies(&self) -> bool {
        self.why_not.is_none()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = |value: Option<Value>| value.filter(|v| v.order_of().is_none());
        let order_of = |value: Option<Value>| value.and_then(Value::order_of);
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
            figure: self.figure.map(|figure| FigureJson {
                name: figure.name,
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
    task: Task,
    kind: Kind,
    order: Order,
    side: Side,
    applies: bool,
    why_not: Option<&'a str>,
    contexts: Option<Value>,
    contexts_order_of: Option<f64>,
    shape_parameters: Option<Value>,
    required_parameters: Option<Value>,
    required_parameters_order_of: Option<f64>,
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
    unit: &'a str,
    value: Option<Value>,
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
    fn a_value_shows_how_much_of_it_is_known() {
        assert_eq!(Value::Exact(2_637).to_string(), "2,637");
        assert_eq!(Value::Real(0.10232).to_string(), "0.1023");
        assert_eq!(Value::Order(51_352.4).to_string(), "~51,352");
        assert_eq!(Value::Order(1.44).to_string(), "~1.4");
        assert_eq!(Value::Order(3.14e22).to_string(), "~3.1e22");
        assert_eq!(
            (Value::Real(0.0).to_string(), Value::Real(2.5e-7).to_string()),
            ("0".into(), "2.5e-7".into())
        );
        assert_eq!((Value::Order(3.0).number(), Value::Exact(3).number()), (None, Some(3.0)));
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
    fn nothing_to_store_and_a_corpus_out_of_reading_are_told_by_every_row() {
        let empty = of_corpus(CorpusFacts { contexts: 0, ..bigrams(1) });
        let narrow = Situation { parameters: Some(9), d_vocab: Some(49), ..of_corpus(bigrams(9)) };
        for bound in all() {
            assert!(bound.evaluate(&empty).why_not.unwrap().contains("nothing to store"), "{}", bound.key);
            assert!(bound.evaluate(&narrow).why_not.unwrap().contains("vocabulary 49"), "{}", bound.key);
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
