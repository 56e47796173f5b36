//! What to build, by paper: the settings of every construction.

use super::kajitsuka2024::{self, Goal, Lookup, MemoryKind, Switches, Visibility};
use super::madden2024::literal::{Arithmetic, LiteralSettings};
use super::{dana2024, madden2024};
use crate::model::{Activation, Mixer};
use crate::setting::{choices, setters};
use crate::units::Nats;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A construction and its settings.
///
/// ```
/// use byrote::construct::{BuildSpec, Madden2024Spec};
/// let spec = BuildSpec::Madden2024(Madden2024Spec::default().d_model(1));
/// assert_eq!(spec.key(), "madden2024");
/// assert!(spec.check().is_ok());
/// let read: BuildSpec = serde_json::from_str(r#"{"madden2024": {"d_model": 1}}"#).unwrap();
/// assert_eq!(read, spec);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BuildSpec {
    /// One hidden neuron per context.
    Madden2024(Madden2024Spec),
    /// Attention alone.
    Dana2024(Dana2024Spec),
    /// About sqrt(N) parameters for N facts.
    Kajitsuka2024(Kajitsuka2024Spec),
}

impl BuildSpec {
    /// The key of the paper.
    pub fn key(&self) -> &'static str {
        match self {
            BuildSpec::Madden2024(_) => "madden2024",
            BuildSpec::Dana2024(_) => "dana2024",
            BuildSpec::Kajitsuka2024(_) => "kajitsuka2024",
        }
    }

    /// Makes every check that needs no corpus.
    pub fn check(&self) -> Result<()> {
        match self {
            BuildSpec::Madden2024(spec) => spec.check(),
            BuildSpec::Dana2024(spec) => spec.check(),
            BuildSpec::Kajitsuka2024(spec) => spec.check(),
        }
    }
}

/// The default gap to the floor, in nats.
const GAP: f64 = 5e-5;
/// The default tolerance of logits.
const TOLERANCE: f64 = 1e-6;
/// The default limit for the matrices of a linear system, in bytes.
pub const MAX_MEMORY: u64 = 8 << 30;

fn above_zero(name: &'static str, value: f64, unit: &str) -> Result<()> {
    match value > 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(Error::setting(name, format!("must be finite and above 0{unit} (got {value})"))),
    }
}

fn at_least_one(name: &'static str, value: Option<u64>) -> Result<()> {
    match value {
        Some(0) => Err(Error::setting(name, "must be at least 1 (got 0)")),
        _ => Ok(()),
    }
}

/// How madden2024's weights are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Madden2024Method {
    /// Steps or one linear system; works at any size.
    #[default]
    Closed,
    /// The proof's own weights, for a few dozen contexts; reported, not stored.
    Literal,
    /// The algorithm of section 6 in double precision: sample, shrink, solve.
    Sampled,
}

choices!(Madden2024Method, "method" { Closed = "closed", Literal = "literal", Sampled = "sampled" });

/// The settings of madden2024: one hidden neuron per context.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Model"))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Madden2024Spec {
    /// The function of the hidden neurons
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", default_value_t = Madden2024Spec::default().activation))]
    pub activation: Activation,
    /// attention (Theorem 5) or average (Theorem 7)
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", default_value_t))]
    pub mixer: Mixer,
    /// Add the embedding of the last token to the mixer's output
    #[cfg_attr(feature = "clap", arg(long))]
    pub skip: bool,
    /// Width of the residual stream, at least 1
    #[cfg_attr(
        feature = "clap",
        arg(long, allow_negative_numbers = true, value_name = "D", default_value_t = Madden2024Spec::default().d_model)
    )]
    pub d_model: u64,
    /// Attention heads [default: 4, or 1 if d_model is below 4]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "H"))]
    pub n_heads: Option<u64>,
    /// Dimension of the queries, keys and values of each head [default: d_model / n_heads, rounded up]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "D"))]
    pub d_head: Option<u64>,
    /// Neurons beyond one per context, as a share of the contexts; 0.05 gains one digit of accuracy where a linear
    /// system is solved
    #[cfg_attr(
        feature = "clap",
        arg(long, allow_negative_numbers = true, value_name = "SHARE", default_value_t = Madden2024Spec::default().slack)
    )]
    pub slack: f64,
    /// Hidden neurons, at least one per context [default: contexts plus slack]
    #[cfg_attr(
        feature = "clap",
        arg(long, allow_negative_numbers = true, value_name = "M", conflicts_with = "slack")
    )]
    pub d_mlp: Option<u64>,
    /// closed works at any size; sampled draws small random weights and solves for the output, as the paper suggests, and works
    /// for few contexts; literal follows the proof to the letter, for a few dozen contexts, and is reported but not stored
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW", default_value_t))]
    pub method: Madden2024Method,
    /// The arithmetic of the literal method: as many bits as it takes, or double precision
    #[cfg_attr(feature = "clap", arg(long, value_name = "KIND", default_value_t = Madden2024Spec::default().arithmetic))]
    pub arithmetic: Arithmetic,
    /// The largest |eps w f| of the literal method
    #[cfg_attr(
        feature = "clap",
        arg(long, allow_negative_numbers = true, value_name = "X", default_value_t = Madden2024Spec::default().scale)
    )]
    pub scale: f64,
    /// The bias of all neurons of the literal method
    #[cfg_attr(
        feature = "clap",
        arg(long, allow_negative_numbers = true, value_name = "X", default_value_t = Madden2024Spec::default().eta)
    )]
    pub eta: f64,
    /// The largest total gap to the floor, in nats
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "NATS", default_value_t = GAP))]
    pub gap: f64,
    /// Refuse a model whose largest logit error is above this
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "E", default_value_t = TOLERANCE))]
    pub logit_tolerance: f64,
}

setters!(Madden2024Spec {
    activation: plain(Activation),
    mixer: plain(Mixer),
    skip: plain(bool),
    d_model: plain(u64),
    n_heads: some(u64),
    d_head: some(u64),
    slack: plain(f64),
    d_mlp: some(u64),
    method: plain(Madden2024Method),
    arithmetic: plain(Arithmetic),
    scale: plain(f64),
    eta: plain(f64),
    gap: plain(f64),
    logit_tolerance: plain(f64),
});

impl Default for Madden2024Spec {
    fn default() -> Self {
        Self {
            activation: Activation::Tanh,
            mixer: Mixer::default(),
            skip: false,
            d_model: 16,
            n_heads: None,
            d_head: None,
            slack: 0.0,
            d_mlp: None,
            method: Madden2024Method::default(),
            arithmetic: Arithmetic::Bits,
            scale: 1.0,
            eta: 0.5,
            gap: GAP,
            logit_tolerance: TOLERANCE,
        }
    }
}

impl Madden2024Spec {
    /// Makes every check that needs no corpus.
    pub fn check(&self) -> Result<()> {
        at_least_one("d_model", Some(self.d_model))?;
        at_least_one("n_heads", self.n_heads)?;
        at_least_one("d_head", self.d_head)?;
        at_least_one("d_mlp", self.d_mlp)?;
        if !(0.0..=100.0).contains(&self.slack) {
            return Err(Error::setting("slack", format!("must be from 0 to 100 (got {})", self.slack)));
        }
        above_zero("gap", self.gap, " nats")?;
        super::check_tolerance(self.logit_tolerance)?;
        match self.method {
            Madden2024Method::Closed => Ok(()),
            Madden2024Method::Literal => self.literal(0).map(|_| ()),
            Madden2024Method::Sampled => madden2024::sampled::check(self.activation),
        }
    }

    /// The settings of the closed and the sampled method.
    pub fn resolve(&self, seed: u64, max_memory: u64) -> Result<madden2024::Settings> {
        self.check()?;
        Ok(self.settings(seed, max_memory))
    }

    pub(super) fn settings(&self, seed: u64, max_memory: u64) -> madden2024::Settings {
        madden2024::Settings {
            mixer: self.mixer,
            skip: self.skip,
            activation: self.activation,
            d_model: self.d_model,
            n_heads: self.n_heads,
            d_head: self.d_head,
            slack: self.slack,
            d_mlp: self.d_mlp,
            gap: Nats(self.gap),
            tolerance: self.logit_tolerance,
            sampled: self.method == Madden2024Method::Sampled,
            seed,
            max_memory,
        }
    }

    /// The settings of the literal method.
    pub fn literal(&self, seed: u64) -> Result<LiteralSettings> {
        if self.slack != 0.0
            || self.d_mlp.is_some()
            || self.n_heads.is_some()
            || self.d_head.is_some()
            || self.skip
        {
            let message =
                "literal has one head of dimension 1, no skip connection and one neuron per context";
            return Err(Error::setting("method", message));
        }
        let settings = self.literal_settings(seed);
        settings.check()?;
        Ok(settings)
    }

    pub(super) fn literal_settings(&self, seed: u64) -> LiteralSettings {
        LiteralSettings {
            mixer: self.mixer,
            activation: self.activation,
            scale: self.scale,
            eta: self.eta,
            arithmetic: self.arithmetic,
            gap: Nats(self.gap),
            tolerance: self.logit_tolerance,
            seed,
        }
    }
}

/// The settings of dana2024: attention alone, with a skip connection.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Model"))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Dana2024Spec {
    /// Width of the residual stream [default: 16, or the number of one-token contexts if larger]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "D"))]
    pub d_model: Option<u64>,
    /// Attention heads [default: as many as the contexts need]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "H"))]
    pub n_heads: Option<u64>,
    /// Dimension of the queries, keys and values of each head; more than d_model adds nothing [default: d_model]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "D"))]
    pub d_head: Option<u64>,
    /// exact stores every context, refit fits all of them as well as possible, truncate stores only the most frequent
    /// ones [default: exact if it fits, else refit]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW", hide_possible_values = true))]
    pub method: Option<dana2024::Method>,
    /// Store the most frequent next token (association) or its distribution [default: association if every context has one
    /// next token]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT"))]
    pub task: Option<dana2024::Task>,
    /// The largest total gap to the floor, in nats, if the width of the output allows it
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "NATS", default_value_t = GAP))]
    pub gap: f64,
    /// The share of the predictions that truncate leaves out [default: what does not fit]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "SHARE"))]
    pub epsilon: Option<f64>,
    /// Spread of the attention scores
    #[cfg_attr(
        feature = "clap",
        arg(long, allow_negative_numbers = true, value_name = "K", default_value_t = dana2024::KAPPA)
    )]
    pub kappa: f64,
    /// Refuse a model with a logit error above this times the largest logit (or 1)
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "X", default_value_t = TOLERANCE))]
    pub logit_tolerance: f64,
}

setters!(Dana2024Spec {
    d_model: some(u64),
    n_heads: some(u64),
    d_head: some(u64),
    method: some(dana2024::Method),
    task: some(dana2024::Task),
    gap: plain(f64),
    epsilon: some(f64),
    kappa: plain(f64),
    logit_tolerance: plain(f64),
});

impl Default for Dana2024Spec {
    fn default() -> Self {
        Self {
            d_model: None,
            n_heads: None,
            d_head: None,
            method: None,
            task: None,
            gap: GAP,
            epsilon: None,
            kappa: dana2024::KAPPA,
            logit_tolerance: TOLERANCE,
        }
    }
}

impl Dana2024Spec {
    /// Makes every check that needs no corpus.
    pub fn check(&self) -> Result<()> {
        at_least_one("d_model", self.d_model)?;
        at_least_one("n_heads", self.n_heads)?;
        at_least_one("d_head", self.d_head)?;
        above_zero("gap", self.gap, " nats")?;
        self.settings(0, u64::MAX).check()
    }

    /// The settings of the builder.
    pub fn resolve(&self, seed: u64, max_memory: u64) -> Result<dana2024::Settings> {
        self.check()?;
        Ok(self.settings(seed, max_memory))
    }

    pub(super) fn settings(&self, seed: u64, max_memory: u64) -> dana2024::Settings {
        dana2024::Settings {
            d_model: self.d_model,
            n_heads: self.n_heads,
            d_head: self.d_head,
            method: self.method,
            task: self.task,
            gap: Nats(self.gap),
            epsilon: self.epsilon,
            kappa: self.kappa,
            tolerance: self.logit_tolerance,
            // Not settings of the spec: a builder in Rust may change them.
            effort: dana2024::Effort::default().restarts(0).work(4e11),
            steps: dana2024::Steps::default(),
            seed,
            max_memory,
        }
    }
}

/// The settings of kajitsuka2024: about sqrt(N) parameters for N facts, in exact arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Construction"))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Kajitsuka2024Spec {
    /// The memory: bounded has a worst-case guarantee, searched is smaller, looped ties its weights [default: the smaller of
    /// bounded and searched]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHICH", hide_possible_values = true))]
    pub method: Option<MemoryKind>,
    /// One label per sequence (next) or per position (every-position, or s2s)
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TASK", default_value_t, hide_possible_values = true)
    )]
    pub task: Goal,
    /// What a position sees
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHICH", default_value_t))]
    pub attention: Visibility,
    /// Pad sequences to the longest: fewer parameters if lengths differ, one more token
    #[cfg_attr(feature = "clap", arg(long))]
    pub pad: bool,
    /// The lookup of the bounded memory: two neurons per block (steps), or one and a few folds (slopes) [default: the cheaper]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHICH", hide_possible_values = true))]
    pub lookup: Option<Lookup>,
    /// Facts per block of the bounded or looped memory [default: the best; looped: 512]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "M"))]
    pub block: Option<usize>,
    /// Hashes that the searched memory tries per block; more tries give fewer parameters
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = Kajitsuka2024Spec::default().tries))]
    pub tries: u64,
}

setters!(Kajitsuka2024Spec {
    method: some(MemoryKind),
    task: plain(Goal),
    attention: plain(Visibility),
    pad: plain(bool),
    lookup: some(Lookup),
    block: some(usize),
    tries: plain(u64),
});

impl Default for Kajitsuka2024Spec {
    fn default() -> Self {
        Self {
            method: None,
            task: Goal::default(),
            attention: Visibility::default(),
            pad: false,
            lookup: None,
            block: None,
            tries: 100_000,
        }
    }
}

impl Kajitsuka2024Spec {
    /// Makes every check that needs no corpus.
    pub fn check(&self) -> Result<()> {
        let most = 1u64 << 32;
        if !(1..=most).contains(&self.tries) {
            return Err(Error::setting("tries", format!("must be from 1 to {most} (got {})", self.tries)));
        }
        at_least_one("block", self.block.map(|b| b as u64))?;
        let searches = matches!(self.method, None | Some(MemoryKind::Searched));
        for (name, given) in [("block", self.block.is_some()), ("lookup", self.lookup.is_some())] {
            if given && searches {
                let message = "applies to the bounded and looped memories; choose one: `method = bounded`";
                return Err(Error::setting(name, message));
            }
        }
        Ok(())
    }

    /// What is labelled, and what a position sees.
    pub fn switches(&self) -> Switches {
        Switches { goal: self.task, attention: self.attention, padded: self.pad }
    }

    /// The settings of the builder.
    pub fn resolve(&self, seed: u64) -> Result<kajitsuka2024::Settings> {
        self.check()?;
        Ok(self.settings(seed))
    }

    pub(super) fn settings(&self, seed: u64) -> kajitsuka2024::Settings {
        kajitsuka2024::Settings {
            seed,
            memory: self.method,
            lookup: self.lookup,
            block: self.block,
            tries: self.tries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused_by_name() {
        let madden = Madden2024Spec::default();
        let dana = Dana2024Spec::default();
        let kajitsuka = Kajitsuka2024Spec::default();
        for (spec, name) in [
            (BuildSpec::Madden2024(madden.d_model(0)), "d_model"),
            (BuildSpec::Madden2024(madden.slack(-1.0)), "slack"),
            (BuildSpec::Madden2024(madden.gap(0.0)), "gap"),
            (BuildSpec::Madden2024(madden.logit_tolerance(f64::NAN)), "logit_tolerance"),
            (BuildSpec::Madden2024(madden.method(Madden2024Method::Literal).n_heads(2)), "method"),
            (BuildSpec::Madden2024(madden.method(Madden2024Method::Literal).scale(0.0)), "scale"),
            (BuildSpec::Dana2024(dana.kappa(f64::NAN)), "kappa"),
            (BuildSpec::Dana2024(dana.epsilon(0.5)), "epsilon"),
            (BuildSpec::Dana2024(dana.n_heads(0)), "n_heads"),
            (BuildSpec::Kajitsuka2024(kajitsuka.tries(0)), "tries"),
            (BuildSpec::Kajitsuka2024(kajitsuka.block(4)), "block"),
        ] {
            assert_eq!(spec.check().unwrap_err().setting_name(), Some(name), "{spec:?}");
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_builders() {
        let madden2024 = Madden2024Spec::default();
        assert_eq!(madden2024.resolve(0, MAX_MEMORY).unwrap(), madden2024::Settings::default());
        assert_eq!(madden2024.literal(0).unwrap(), LiteralSettings::default());
        assert_eq!(Dana2024Spec::default().resolve(0, MAX_MEMORY).unwrap(), dana2024::Settings::default());
        assert_eq!(Kajitsuka2024Spec::default().resolve(0).unwrap(), kajitsuka2024::Settings::default());
    }
}
