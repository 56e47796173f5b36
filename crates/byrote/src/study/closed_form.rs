//! Models in closed form: built, evaluated and certified one after the other, and saved as they are finished.

use super::{StudySpec, note};
use crate::certify;
use crate::construct::kajitsuka2024::ExactFile;
use crate::construct::{Dana2024Spec, Madden2024Spec, dana2024, kajitsuka2024, madden2024};
use crate::dataset::Dataset;
use crate::evaluate::{self, TOLERANCE};
use crate::input::{MOST_HELD, read_text_capped};
use crate::model::{Activation, Counting, Model, ModelFile, ParameterCount, Precision};
use crate::observe::Observer;
use crate::output::OutputFile;
use crate::units::Nats;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A model in closed form, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClosedForm {
    /// The paper's key.
    pub method: String,
    /// What was built, in a few words.
    pub words: String,
    /// What came of it.
    pub outcome: BuildOutcome,
}

/// How building a model ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildOutcome {
    /// With a model.
    Built(Box<BuiltModel>),
    /// Without one, for this reason.
    NotBuilt(String),
}

/// What is known of a model in closed form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BuiltModel {
    /// Its file, in the directory of the study.
    pub file: PathBuf,
    /// Parameters: all entries of all matrices (the dense count).
    pub parameters: u64,
    /// Both counts, if the paper counts only weights that are not zero.
    pub counts: Option<ParameterCount>,
    /// Contexts memorized.
    pub memorized: u64,
    /// The gap to the floor, where the model gives distributions.
    pub gap_nats: Option<Nats>,
    /// What is proven.
    pub certificate: ModelProof,
}

/// What is proven of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelProof {
    /// Every logit is enclosed by rigorous arithmetic.
    Enclosed(Box<certify::Certificate>),
    /// This many samples were verified in exact arithmetic.
    Exact(u64),
}

impl ClosedForm {
    /// The model, where there is one.
    pub fn model(&self) -> Option<&BuiltModel> {
        match &self.outcome {
            BuildOutcome::Built(model) => Some(model),
            BuildOutcome::NotBuilt(_) => None,
        }
    }
}

/// Contexts up to which dense systems are solved.
const DENSE: usize = 6000;
/// Contexts up to which the exact network is built.
const EXACT: usize = 20_000;
/// The file that keeps what is finished.
pub(super) const FILE: &str = "closed_forms.json";

/// What is finished, and for which dataset and seed.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: String,
    dataset: String,
    seed: u64,
    built: Vec<ClosedForm>,
}

/// The closed forms of a study.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Steps,
    System,
    Attention,
    SquareRoot,
}

impl Form {
    const ALL: [Self; 4] = [Self::Steps, Self::System, Self::Attention, Self::SquareRoot];

    /// The paper's key.
    fn method(self) -> &'static str {
        match self {
            Self::Steps | Self::System => "madden2024",
            Self::Attention => "dana2024",
            Self::SquareRoot => "kajitsuka2024",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Steps => "attention, tanh neurons, steps along one direction",
            Self::System => "attention, GELU neurons, one linear system",
            Self::Attention => "attention alone, for the most frequent next token",
            Self::SquareRoot => "a deep network of long weights, for the most frequent next token",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Steps => "madden2024-tanh.safetensors",
            Self::System => "madden2024-gelu.safetensors",
            Self::Attention => "dana2024.safetensors",
            Self::SquareRoot => "kajitsuka2024.txt",
        }
    }

    /// Dense systems grow with the cube of the contexts.
    fn most_contexts(self) -> usize {
        match self {
            Self::Steps => usize::MAX,
            Self::System | Self::Attention => DENSE,
            Self::SquareRoot => EXACT,
        }
    }
}

/// Whether the directory holds the closed forms of another study.
pub(super) fn are_of_another_study(spec: &StudySpec, dataset: &Dataset, directory: &Path) -> bool {
    let path = directory.join(FILE);
    path.exists() && !kept(&path).is_some_and(|k| k.is_of(&Kept::new(spec, dataset)))
}

impl Kept {
    fn new(spec: &StudySpec, dataset: &Dataset) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            dataset: format!("{:016x}", dataset.fingerprint()),
            seed: spec.corpus.seed,
            built: Vec::new(),
        }
    }

    fn is_of(&self, other: &Self) -> bool {
        (&self.version, &self.dataset, self.seed) == (&other.version, &other.dataset, other.seed)
    }
}

/// What an earlier run finished. A file that is damaged is as good as none.
fn kept(path: &Path) -> Option<Kept> {
    serde_json::from_str(&read_text_capped(path, MOST_HELD, "a list of closed forms").ok()?).ok()
}

/// Builds and certifies every closed form that the directory does not hold already.
pub(super) fn build_all(
    spec: &StudySpec,
    dataset: &Dataset,
    directory: &Path,
    observer: &dyn Observer,
) -> Result<Vec<ClosedForm>> {
    let folder = directory.join("models");
    std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "create", e))?;
    let path = directory.join(FILE);
    let mut finished = Kept::new(spec, dataset);
    let before = kept(&path).filter(|k| k.is_of(&finished)).map_or_else(Vec::new, |k| k.built);
    for form in Form::ALL {
        let is_this = |b: &&ClosedForm| b.method == form.method() && b.words == form.words();
        let found = before.iter().find(is_this).cloned();
        let found = found.filter(|b| b.model().is_none_or(|m| directory.join(&m.file).exists()));
        let built = match found {
            Some(built) => built,
            None => {
                observer.check()?;
                ClosedForm {
                    method: form.method().into(),
                    words: form.words().into(),
                    outcome: build(form, spec, dataset, directory, observer)?,
                }
            }
        };
        finished.built.push(built);
        // A struct of numbers and text always serialises.
        let text = serde_json::to_string(&finished).unwrap_or_default();
        OutputFile::write(&path, text.as_bytes())?;
    }
    Ok(finished.built)
}

fn build(
    form: Form,
    spec: &StudySpec,
    dataset: &Dataset,
    directory: &Path,
    observer: &dyn Observer,
) -> Result<BuildOutcome> {
    if dataset.len() > form.most_contexts() {
        return Ok(BuildOutcome::NotBuilt(format!(
            "takes too long in a study above {} contexts; building it separately has no such limit",
            form.most_contexts()
        )));
    }
    note(observer, &format!("building {}: {}", form.method(), form.words()));
    let file = PathBuf::from("models").join(form.file());
    let made = match form {
        Form::Steps => hidden(Activation::Tanh, spec, dataset, observer),
        Form::System => hidden(Activation::Gelu, spec, dataset, observer),
        Form::Attention => {
            let settings = Dana2024Spec::default().task(dana2024::Task::Association);
            let settings = settings.resolve(spec.corpus.seed, spec.matrix_memory())?;
            dana2024::build(dataset, &settings, observer).map(|b| b.0)
        }
        Form::SquareRoot => return square_root(spec, dataset, directory, file, observer),
    };
    match made {
        Ok(model) => measured(form, model, dataset, directory, file, observer),
        Err(Error::Refused { refusal, .. }) => Ok(BuildOutcome::NotBuilt(refusal.to_string())),
        Err(other) => Err(other),
    }
}

/// The construction of madden2024 with one neuron per context.
fn hidden(
    activation: Activation,
    spec: &StudySpec,
    dataset: &Dataset,
    observer: &dyn Observer,
) -> Result<Model> {
    let settings = Madden2024Spec::default().activation(activation);
    let settings = settings.resolve(spec.corpus.seed, spec.matrix_memory())?;
    madden2024::build(dataset, &settings, observer).map(|b| b.0)
}

/// Evaluates, certifies and saves a model.
fn measured(
    form: Form,
    model: Model,
    dataset: &Dataset,
    directory: &Path,
    file: PathBuf,
    observer: &dyn Observer,
) -> Result<BuildOutcome> {
    let found = evaluate::evaluate(&model, dataset, TOLERANCE, 0, observer)?;
    let certificate = certify::certify(&model, dataset, observer)?;
    let parameters = model.parameters().len() as u64;
    let saved = ModelFile {
        model,
        precision: Precision::F64,
        tokenizer: dataset.tokenizer().to_owned(),
        vocabulary: dataset.vocabulary().as_ref().clone(),
    };
    saved.save(&directory.join(&file))?;
    Ok(BuildOutcome::Built(Box::new(BuiltModel {
        file,
        parameters,
        counts: None,
        memorized: found.memorized,
        gap_nats: (form != Form::Attention).then_some(found.gap_nats),
        certificate: ModelProof::Enclosed(Box::new(certificate)),
    })))
}

/// The exact network with about the square root of as many parameters as contexts.
fn square_root(
    spec: &StudySpec,
    dataset: &Dataset,
    directory: &Path,
    file: PathBuf,
    observer: &dyn Observer,
) -> Result<BuildOutcome> {
    let (built, labels) = kajitsuka2024::build_for(dataset, spec.corpus.seed, observer)?;
    let counts = built.parameters();
    let memorized = built.verified as u64;
    let saved = ExactFile {
        model: built.model,
        tokenizer: dataset.tokenizer().to_owned(),
        vocabulary: dataset.vocabulary().as_ref().clone(),
        labels,
    };
    saved.save(&directory.join(&file))?;
    Ok(BuildOutcome::Built(Box::new(BuiltModel {
        file,
        parameters: u64::try_from(counts.total(Counting::Dense)).unwrap_or(u64::MAX),
        counts: Some(counts),
        memorized,
        gap_nats: None,
        certificate: ModelProof::Exact(memorized),
    })))
}
