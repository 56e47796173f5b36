//! A network with its task: answers queries.

use super::compiled::Compiled;
use super::exact_network::ExactNetwork;
use super::task::{Goal, Task};
use crate::Result;
use dashu_int::IBig;
use serde::{Deserialize, Serialize};

/// How the memory behind the contextual map was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// There is only one label, so there is no memory.
    Constant,
    /// Lookup and scan: with a worst-case guarantee.
    Bounded,
    /// Lookup and scan with one set of weights for all words but the first.
    Looped,
    /// One hash and table per block: smaller, found by search.
    Searched,
}

impl Method {
    /// The name in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Constant => "constant",
            Method::Bounded => "bounded",
            Method::Looped => "looped",
            Method::Searched => "searched",
        }
    }
}

/// A network with its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactModel {
    /// The task.
    pub task: Task,
    /// How it was built.
    pub method: Method,
    /// The network.
    pub network: ExactNetwork,
}

/// The answer of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A label.
    Label(u32),
    /// A number that is not a label: the context has not been memorized. (The converse does not hold: most unknown contexts
    /// get some label.)
    Nonsense(IBig),
    /// No context of this length has been memorized.
    UnknownLength,
}

impl Answer {
    /// The label, if the answer is one.
    pub fn label(&self) -> Option<u32> {
        match self {
            Answer::Label(label) => Some(*label),
            _ => None,
        }
    }
}

impl ExactModel {
    /// Prepares the model for many queries.
    pub fn ready(&self) -> Ready<'_> {
        Ready { model: self, compiled: Compiled::new(&self.network) }
    }
}

/// A model prepared for many queries.
#[derive(Debug)]
pub struct Ready<'m> {
    model: &'m ExactModel,
    compiled: Compiled<'m>,
}

impl Ready<'_> {
    /// The answer for a context: at its last token, or at `position` of a sequence-to-sequence task.
    pub fn answer(&self, tokens: &[u32], position: Option<usize>) -> Result<Answer> {
        let task = &self.model.task;
        let position = match (task.goal, position) {
            (Goal::EveryPosition, Some(position)) => position,
            _ => tokens.len().saturating_sub(1),
        };
        let (seen, read) = task.query(tokens, position)?;
        let Some(out) = self.compiled.run(&seen, read) else { return Ok(Answer::UnknownLength) };
        let label = out.integer().and_then(|n| u32::try_from(n).ok()).filter(|&y| y < task.labels);
        Ok(match label {
            Some(label) => Answer::Label(label),
            // Rounded down if it is not an integer.
            None => Answer::Nonsense(out.mantissa() >> out.exponent()),
        })
    }
}
