//! Networks of many layers as safetensors files.
//!
//! Tensors, all f64, have the names of TransformerLens with the layer's index:
//!
//! ```text
//! W_E [d_in, d_model]     W_pos [n_ctx, d_model]     W_U [d_model, d_out]
//! blocks.{l}.attn.W_Q, .W_K [n_heads, d_model, d_head]     .W_V [n_heads, d_model, d_value]     .W_O [n_heads, d_value, d_model]
//! blocks.{l}.step [1]     blocks.{l}.mlp.W_in [d_model, d_mlp], .mlp.W_out [d_mlp, d_model] where the layer has neurons
//! ```
//!
//! The metadata key `byrote-network` holds canonical JSON: `format`, `input` (what is read of a vector: `x`, `x,
//! x/|x|`, or `x, |x|^2`), and for each layer `attention`, `hidden` (whether it has neurons) and `repeat` (the number
//! of times it is applied: the layers of a construction are identical and are stored once). Equal networks give equal
//! files. The reader checks everything it reads.

use super::kernel::Attention;
use super::network::{AttentionHead, HiddenLayer, Layer, Network};
use super::rows::Rows;
use crate::model::Precision;
use crate::model::container::{self, Stored};
use crate::output::OutputFile;
use crate::{Error, Result};
use safetensors::tensor::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use std::path::Path;

const KEY: &str = "byrote-network";
const FORMAT: u32 = 1;
/// The maximum number of layers in a file, not counting repetitions.
const MOST_BLOCKS: usize = 100_000;

/// What a network reads of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// The vector.
    #[serde(rename = "x")]
    Vector,
    /// The vector and its direction.
    #[serde(rename = "x, x/|x|")]
    WithDirection,
    /// The vector and its square.
    #[serde(rename = "x, |x|^2")]
    WithSquare,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    attention: Attention,
    hidden: bool,
    repeat: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    format: u32,
    input: Input,
    layers: Vec<Block>,
}

/// A network and its input.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkFile {
    /// The network.
    pub network: Network,
    /// What it reads of a vector.
    pub input: Input,
}

impl NetworkFile {
    /// Returns the bytes of the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let network = &self.network;
        network.check()?;
        let matrix = |name: String, m: &Rows| {
            Stored::new(name, vec![m.len(), m.columns()], Precision::F64, m.values())
        };
        let mut stored = vec![
            matrix("W_E".into(), &network.w_e),
            matrix("W_pos".into(), &network.w_pos),
            matrix("W_U".into(), &network.w_u),
        ];
        for (l, layer) in network.layers.iter().enumerate() {
            for (name, shape, values) in Self::stacked(layer) {
                stored.push(Stored::new(format!("blocks.{l}.attn.{name}"), shape, Precision::F64, &values));
            }
            stored.push(Stored::new(format!("blocks.{l}.step"), vec![1], Precision::F64, &[layer.step]));
            if let Some(hidden) = &layer.hidden {
                stored.push(matrix(format!("blocks.{l}.mlp.W_in"), &hidden.w_in));
                stored.push(matrix(format!("blocks.{l}.mlp.W_out"), &hidden.w_out));
            }
        }
        container::write(KEY, &self.about(), &stored)
    }

    /// Returns the metadata as stored in the file.
    pub fn metadata(&self) -> Result<String> {
        serde_json::to_string(&self.about()).map_err(|e| Error::setting("network", e.to_string()))
    }

    fn about(&self) -> Metadata {
        let block =
            |l: &Layer| Block { attention: l.attention, hidden: l.hidden.is_some(), repeat: l.repeat };
        let layers = self.network.layers.iter().map(block).collect();
        Metadata { format: FORMAT, input: self.input, layers }
    }

    /// The matrices of a layer's heads, grouped by kind: name, shape, values.
    pub(crate) fn stacked(layer: &Layer) -> [(&'static str, Vec<usize>, Vec<f64>); 4] {
        type Part = fn(&AttentionHead) -> &Rows;
        let parts: [(&str, Part); 4] =
            [("W_Q", |h| &h.w_q), ("W_K", |h| &h.w_k), ("W_V", |h| &h.w_v), ("W_O", |h| &h.w_o)];
        parts.map(|(name, part)| {
            let sides = layer.heads.first().map_or((0, 0), |h| (part(h).len(), part(h).columns()));
            let values = layer.heads.iter().flat_map(|h| part(h).values().iter().copied()).collect();
            (name, vec![layer.heads.len(), sides.0, sides.1], values)
        })
    }

    /// Whether a file declares itself to be a network.
    pub fn is_network(path: &Path) -> Result<bool> {
        container::has_key(path, KEY)
    }

    /// Writes the file.
    pub fn save(&self, path: &Path) -> Result<()> {
        OutputFile::write(path, &self.to_bytes()?)
    }

    /// Reads a network from a file.
    pub fn load(path: &Path) -> Result<Self> {
        container::load(path, Self::parse)
    }

    /// Reads a network from bytes; `path` is the name used in messages.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        container::parse(path, bytes, Self::parse)
    }

    /// Reads a network from bytes; the error message says what is wrong with them.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let (metadata, file) = container::read::<Metadata>(bytes, KEY, "an in-context network", FORMAT)?;
        if metadata.layers.len() > MOST_BLOCKS {
            return Err(format!("{} layers; at most {MOST_BLOCKS} are read", metadata.layers.len()));
        }
        let mut names: Vec<String> = Vec::new();
        let mut matrix = |name: String| -> Result<Rows, String> {
            let (shape, values) = tensor(&file, &name)?;
            names.push(name.clone());
            match shape[..] {
                [rows, columns] if rows > 0 && columns > 0 => Ok(Rows::whole(columns, values)),
                _ => Err(format!("{name} has shape {shape:?}, but a matrix has two dimensions")),
            }
        };
        let (w_e, w_pos, w_u) = (matrix("W_E".into())?, matrix("W_pos".into())?, matrix("W_U".into())?);
        let mut layers = Vec::new();
        for (l, block) in metadata.layers.iter().enumerate() {
            let hidden = match block.hidden {
                true => Some(HiddenLayer {
                    w_in: matrix(format!("blocks.{l}.mlp.W_in"))?,
                    w_out: matrix(format!("blocks.{l}.mlp.W_out"))?,
                }),
                false => None,
            };
            layers.push((block, hidden));
        }
        let mut out = Vec::new();
        for (l, (block, hidden)) in layers.into_iter().enumerate() {
            let mut parts = Vec::new();
            for part in ["W_Q", "W_K", "W_V", "W_O"] {
                let name = format!("blocks.{l}.attn.{part}");
                parts.push(stack(&file, &name)?);
                names.push(name);
            }
            let [w_q, w_k, w_v, w_o] =
                <[Vec<Rows>; 4]>::try_from(parts).map_err(|_| "a head has four matrices".to_owned())?;
            if [w_k.len(), w_v.len(), w_o.len()] != [w_q.len(); 3] {
                return Err(format!("blocks.{l}: the matrices have different numbers of heads"));
            }
            let name = format!("blocks.{l}.step");
            let (_, step) = tensor(&file, &name)?;
            names.push(name);
            let [step] = step[..] else { return Err(format!("blocks.{l}.step is not one number")) };
            let heads = w_q.into_iter().zip(w_k).zip(w_v).zip(w_o);
            let heads = heads.map(|(((w_q, w_k), w_v), w_o)| AttentionHead { w_q, w_k, w_v, w_o }).collect();
            out.push(Layer { attention: block.attention, step, heads, hidden, repeat: block.repeat });
        }
        if let Some(other) = file.names().into_iter().filter(|n| !names.iter().any(|m| m == n)).min() {
            return Err(format!("a tensor {other:?} that belongs to no layer"));
        }
        let network = Network { w_e, w_pos, layers: out, w_u };
        network.defect()?;
        Ok(Self { network, input: metadata.input })
    }
}

fn tensor(file: &SafeTensors<'_>, name: &str) -> Result<(Vec<usize>, Vec<f64>), String> {
    let view = file.tensor(name).map_err(|_| format!("the tensor {name} is missing"))?;
    if view.dtype() != Dtype::F64 {
        return Err(format!("{name} is of type {:?}, not F64", view.dtype()));
    }
    Ok((view.shape().to_vec(), Precision::F64.values(view.data())))
}

/// The matrices of all heads.
fn stack(file: &SafeTensors<'_>, name: &str) -> Result<Vec<Rows>, String> {
    let (shape, values) = tensor(file, name)?;
    match shape[..] {
        [heads, rows, columns] if heads > 0 && rows > 0 && columns > 0 => {
            Ok(values.chunks_exact(rows * columns).map(|v| Rows::whole(columns, v.to_vec())).collect())
        }
        _ => Err(format!("{name} has shape {shape:?}, not [heads, rows, columns]")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::network::tests::example;
    use super::*;
    use proptest::prelude::*;

    fn file() -> NetworkFile {
        NetworkFile { network: example(Attention::Exp, 1), input: Input::Vector }
    }

    #[test]
    fn what_is_saved_is_loaded_and_equal_networks_are_equal_files() {
        let bytes = file().to_bytes().unwrap();
        assert_eq!(bytes, file().to_bytes().unwrap());
        assert_eq!(NetworkFile::parse(&bytes).unwrap(), file());
    }

    /// The file with its header JSON altered and the length in front of it corrected.
    fn with_header(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
        let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header = String::from_utf8(bytes[8..8 + size].to_vec()).unwrap();
        assert!(header.contains(from), "{header}");
        let header = header.replacen(from, to, 1);
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes[8 + size..]].concat()
    }

    #[test]
    fn lies_are_found_out() {
        let bytes = file().to_bytes().unwrap();
        let wrong = |bytes: &[u8]| NetworkFile::parse(bytes).unwrap_err();
        assert!(wrong(b"").contains("not a safetensors file"));
        assert!(wrong(&bytes[..bytes.len() - 1]).contains("damaged"));
        let renamed = with_header(&bytes, "\"blocks.1.attn.W_K\"", "\"blocks.1.attn.W_X\"");
        assert!(wrong(&renamed).contains("blocks.1.attn.W_K is missing"));
        assert!(wrong(&with_header(&bytes, "\\\"exp\\\"", "\\\"oxp\\\"")).contains("oxp"));
        assert!(wrong(&with_header(&bytes, "\\\"repeat\\\":2", "\\\"repeat\\\":0")).contains("repeated 0"));
        assert!(
            wrong(&with_header(&bytes, "\\\"hidden\\\":true", "\\\"hidden\\\":false")).contains("mlp.W_in")
        );
        assert!(
            wrong(&with_header(&bytes, "byrote-network", "byrote-natwork")).contains("not written by byrote")
        );
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_refused_or_read_but_never_panics(
            at in prop::collection::vec((0usize..4096, any::<u8>()), 1..4), cut in prop::option::of(0usize..4096)
        ) {
            let mut bytes = file().to_bytes().unwrap();
            for (at, to) in at {
                let n = bytes.len();
                bytes[at % n] = to;
            }
            if let Some(cut) = cut {
                let n = bytes.len();
                bytes.truncate(cut % n);
            }
            if let Ok(file) = NetworkFile::parse(&bytes) {
                prop_assert!(file.network.check().is_ok());
            }
        }
    }
}
