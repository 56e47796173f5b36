//! The weights of a model in its files: every tensor of the configuration, found under its name there and checked, unread.

use super::encoding::Encoding;
use super::place::Foreign;
use super::tensors::TensorFiles;
use crate::Result;
use crate::model::{Precision, Tensor, TensorName};
use crate::num::Real;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The weights of a model, in files.
pub(crate) struct Weights {
    tensors: TensorFiles,
    layout: Vec<Foreign>,
    /// The tensor of the layout and its part that hold one of ours.
    places: HashMap<TensorName, (usize, usize)>,
    /// How many numbers are stored in each way.
    encodings: BTreeMap<Encoding, usize>,
}

impl Weights {
    /// Compares the tensors of the files with those that the configuration needs. `owner` is what contradicts them in messages:
    /// "config.json"; tensors that are not needed are `ignored` or refused, as `unexpected ... for` some model.
    pub(crate) fn new(
        tensors: TensorFiles,
        layout: Vec<Foreign>,
        owner: &str,
        model: &str,
        ignored: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let (mut places, mut encodings) = (HashMap::new(), BTreeMap::new());
        for (i, foreign) in layout.iter().enumerate() {
            let encoding = tensors.check(&foreign.name, &foreign.shape, &format!("{owner} needs"))?;
            *encodings.entry(encoding).or_insert(0) += foreign.shape.iter().product::<usize>();
            places.extend(foreign.parts.iter().enumerate().map(|(j, part)| (part.tensor, (i, j))));
        }
        let known: BTreeSet<&str> = layout.iter().map(|foreign| foreign.name.as_str()).collect();
        if let Some(other) = tensors.names().find(|name| !known.contains(name) && !ignored(name)) {
            return Err(tensors.wrong(other, format!("unexpected tensor {other:?} for {model}")));
        }
        Ok(Self { tensors, layout, places, encodings })
    }

    /// Where the files are.
    pub(crate) fn tensors(&self) -> &TensorFiles {
        &self.tensors
    }

    /// The types of the numbers: one name, or the most frequent one "and others".
    pub(crate) fn dtype(&self) -> String {
        let most =
            self.encodings.iter().max_by_key(|(_, n)| **n).map_or("f32", |(encoding, _)| encoding.name());
        if self.encodings.len() > 1 { format!("{most} and others") } else { most.to_owned() }
    }

    /// The precision that holds every number exactly.
    pub(crate) fn precision(&self) -> Precision {
        if self.encodings.contains_key(&Encoding::F64) { Precision::F64 } else { Precision::F32 }
    }

    /// Fills one of our tensors.
    ///
    /// # Panics
    /// When the model has no such tensor, or `values` has another size.
    pub(crate) fn read<T: Real>(&mut self, tensor: &Tensor, values: &mut [T]) -> Result<()> {
        assert_eq!(values.len(), tensor.range.len(), "{} has the shape {:?}", tensor.name, tensor.shape);
        let Some(&(i, j)) = self.places.get(&tensor.name) else { panic!("no tensor {}", tensor.name) };
        let foreign = &self.layout[i];
        self.tensors.fill(&foreign.name, &foreign.parts[j], values)
    }
}
