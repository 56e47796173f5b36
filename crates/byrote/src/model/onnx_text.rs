//! How a model in an ONNX file reads text: what `byrote export` wrote into the file, or what stands beside it, as exporters of
//! `transformers` leave it: `tokenizer.json`, and `config.json` with the longest context.

use super::huggingface::{self, settings::Settings};
use super::model_file::Metadata;
use super::stored::{Directory, Files, Text};
use crate::input::{MOST_TOKENIZER, read_capped};
use crate::{Error, Result};
use std::path::Path;

/// The fields of `config.json` that tell the longest context.
const LENGTHS: [&str; 3] = ["max_position_embeddings", "n_positions", "n_ctx"];

/// How the model in a file reads text, and its longest context, if that is known. `metadata` is what the file holds under the key
/// `byrote`; `tokenizer` is a `tokenizer.json` to use in place of the one beside the file.
pub(crate) fn onnx_text(
    path: &Path,
    metadata: Option<&str>,
    tokenizer: Option<&Path>,
    d_vocab: u64,
) -> Result<(Text, Option<u64>)> {
    if let Some(metadata) = metadata {
        let wrong = |e: String| Error::format(path, format!("has metadata of byrote that are damaged: {e}"));
        let metadata: Metadata = serde_json::from_str(metadata).map_err(|e| wrong(e.to_string()))?;
        if metadata.vocabulary.len() as u64 != d_vocab {
            let found = metadata.vocabulary.len();
            return Err(wrong(format!("a vocabulary of {found} tokens, but {d_vocab} logits")));
        }
        let n_ctx = metadata.config.shape.n_ctx;
        return Ok((metadata.into_text(), Some(n_ctx)));
    }
    let files = Directory(path.parent().unwrap_or(Path::new("")).to_path_buf());
    let mut text = huggingface::read_text(&files, d_vocab)?;
    if let Some(tokenizer) = tokenizer {
        let bytes = read_capped(tokenizer, MOST_TOKENIZER, "a tokenizer.json")?;
        let json =
            String::from_utf8(bytes).map_err(|_| Error::format(tokenizer, "it is not text in UTF-8"))?;
        text = huggingface::with_tokenizer(text, tokenizer, &json)?;
    }
    let mut n_ctx = None;
    if files.has(huggingface::CONFIG) {
        let bytes = files.read(huggingface::CONFIG, huggingface::MOST_CONFIG, "a config.json")?;
        let settings = Settings::parse(&files.path(huggingface::CONFIG), &bytes)?;
        n_ctx = LENGTHS.iter().find_map(|name| settings.get(name)?.as_u64()).filter(|&n| n > 0);
    }
    Ok((text, n_ctx))
}
