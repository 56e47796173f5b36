//! Models of every kind.

use crate::error::OrRaise;
use crate::work::{self, How};
use byrote::any_model::AnyModel;
use byrote::construct::kajitsuka2024::ExactFile;
use byrote::corpus::Reading;
use byrote::incontext::NetworkFile;
use byrote::model::{ModelFile, Precision};
use byrote::report::json;
use byrote::{Error, Result};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A model: a transformer, an exact network, or a network that learns in context.
#[pyclass(frozen, module = "byrote._byrote")]
pub struct Model {
    /// The model itself.
    pub any: Arc<AnyModel>,
}

impl From<ModelFile> for Model {
    fn from(file: ModelFile) -> Self {
        Self { any: Arc::new(AnyModel::OneLayer(file)) }
    }
}

impl Model {
    /// The transformer, or an error that says `why` another kind will not do.
    pub fn transformer(&self, why: &str) -> Result<&ModelFile> {
        match &*self.any {
            AnyModel::OneLayer(file) => Ok(file),
            other => Err(Error::setting("model", format!("is {}; {why}", other.kind()))),
        }
    }

    /// How it reads text.
    pub fn reading(&self, py: Python<'_>) -> PyResult<Reading<'_>> {
        let found = match &*self.any {
            AnyModel::OneLayer(file) => Ok(file.reading()),
            AnyModel::Exact(file) => Ok(file.reading()),
            other => Err(Error::setting("model", format!("is {}, which reads vectors", other.kind()))),
        };
        found.or_raise(py)
    }
}

#[pymethods]
impl Model {
    /// Reads a file of any kind, or a directory of Hugging Face.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let any = work::run(py, How::default(), move |_| AnyModel::load(&path))?;
        Ok(Self { any: Arc::new(any) })
    }

    /// Reads a model from the kind and the bytes of its file, as [`Self::to_bytes`] returns them.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, kind: &str, data: &[u8]) -> PyResult<Self> {
        let path = Path::new("bytes");
        let any = match kind {
            "transformer" => ModelFile::from_bytes(path, data).map(AnyModel::OneLayer),
            "exact" => ExactFile::from_bytes(path, data).map(AnyModel::Exact),
            "in-context" => NetworkFile::from_bytes(path, data).map(AnyModel::InContext),
            other => Err(Error::setting("kind", format!("there is no model of the kind {other}"))),
        };
        Ok(Self { any: Arc::new(any.or_raise(py)?) })
    }

    /// Writes the file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let any = self.any.clone();
        work::run(py, How::default(), move |_| match &*any {
            AnyModel::OneLayer(file) => file.save(&path),
            AnyModel::InContext(file) => file.save(&path),
            AnyModel::Exact(file) => file.save(&path),
            other => Err(Error::setting("model", format!("{} cannot be written", other.kind()))),
        })
    }

    /// What it is, in words.
    fn kind(&self) -> &'static str {
        self.any.kind()
    }

    /// What it holds, as JSON.
    fn show(&self) -> String {
        match &*self.any {
            AnyModel::OneLayer(file) => json::model(file).to_string(),
            AnyModel::InContext(file) => json::network(file).to_string(),
            AnyModel::Exact(file) => json::exact_network(file).to_string(),
            _ => "{}".into(),
        }
    }

    /// The tokens by id, as text.
    fn vocabulary(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let vocabulary = self.reading(py)?.vocabulary;
        Ok((0..vocabulary.len() as u32).map(|id| vocabulary.text(id)).collect())
    }

    /// The token ids of a text.
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<Vec<u32>> {
        self.reading(py)?.tokens(text, false, None).or_raise(py)
    }

    /// The logits after a context of ids.
    fn logits<'py>(&self, py: Python<'py>, ids: Vec<u32>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let file = self.transformer("it has no logits").or_raise(py)?;
        let logits = py.detach(|| file.model.logits(&ids)).or_raise(py)?;
        Ok(PyArray1::from_vec(py, logits))
    }

    /// The weights by name, in the precision in which they are stored.
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let file = self.transformer("its weights are not arrays of floats by name").or_raise(py)?;
        let tensors = PyDict::new(py);
        let add = |name: String, shape: &[usize], values: &[f64]| -> PyResult<()> {
            match file.precision {
                Precision::F32 => {
                    let values = values.iter().map(|&x| x as f32).collect();
                    tensors.set_item(name, PyArray1::from_vec(py, values).reshape(shape.to_vec())?)
                }
                Precision::F64 => {
                    tensors.set_item(name, PyArray1::from_vec(py, values.to_vec()).reshape(shape.to_vec())?)
                }
            }
        };
        for tensor in file.model.tensors() {
            let values = &file.model.parameters()[tensor.range.clone()];
            add(tensor.name.to_string(), &tensor.shape, values)?;
        }
        // Fixed positions are no parameters, but whoever runs the model needs them.
        let config = file.model.config();
        if let Some(positions) = file.model.positions().filter(|_| !tensors.contains("W_pos").unwrap_or(true))
        {
            let width = config.position_width() as usize;
            if width > 0 && config.shape.blocks.is_none() {
                add("W_pos".into(), &[positions.len() / width, width], positions)?;
            }
        }
        Ok(tensors)
    }

    /// The kind and the bytes of the file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<(&'static str, Bound<'py, PyBytes>)> {
        let (kind, bytes) = match &*self.any {
            AnyModel::OneLayer(file) => ("transformer", file.to_bytes()),
            AnyModel::Exact(file) => ("exact", file.to_text().map(String::into_bytes)),
            AnyModel::InContext(file) => ("in-context", file.to_bytes()),
            other => {
                return Err(Error::setting("model", format!("{} cannot be copied", other.kind())))
                    .or_raise(py);
            }
        };
        Ok((kind, PyBytes::new(py, &bytes.or_raise(py)?)))
    }
}
