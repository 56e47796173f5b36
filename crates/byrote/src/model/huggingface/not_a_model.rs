//! Directories that are no model, though one may be near: what they are, and what to give instead.

use super::{CONFIG, WEIGHTS};
use std::path::Path;

/// Why an adapter is no model; `None` for a directory that holds none.
pub(super) fn adapter(directory: &Path) -> Option<String> {
    const ADAPTER: &str = "adapter_config.json";
    directory.join(ADAPTER).exists().then(|| {
        format!(
            "holds an adapter ({ADAPTER}), not a whole model; merge it into its base model first (merge_and_unload of peft) \
             and save the result"
        )
    })
}

/// Why a directory without a `config.json` is no model.
pub(super) fn without_config(directory: &Path) -> String {
    let missing = format!("has no {CONFIG}, so it is not a model directory of Hugging Face");
    let has = |name: &str| directory.join(name).exists();
    if has("init.safetensors") || has("checkpoint.safetensors") {
        return format!("{missing}; the model of this training run is {WEIGHTS} in it");
    }
    let mut checkpoints: Vec<(u64, String)> = directories(directory)
        .into_iter()
        .filter_map(|name| Some((name.strip_prefix("checkpoint-")?.parse().ok()?, name)))
        .collect();
    checkpoints.sort_unstable();
    let names: Vec<&str> = checkpoints.iter().map(|(_, name)| name.as_str()).collect();
    match names[..] {
        [] => {}
        [only] => return format!("{missing}; give the checkpoint in it, {only}"),
        [.., last] if names.len() > 4 => {
            let others = names.len() - 1;
            return format!(
                "{missing}; give one of the checkpoints in it: {last}, or one of {others} before it"
            );
        }
        _ => return format!("{missing}; give one of the checkpoints in it: {}", names.join(", ")),
    }
    let snapshots = directory.join("snapshots");
    if let Some(name) =
        directories(&snapshots).into_iter().find(|name| snapshots.join(name).join(CONFIG).exists())
    {
        return format!("{missing} but the cache of one; give snapshots/{name} in it");
    }
    match files(directory).into_iter().find(|name| name.ends_with(".gguf")) {
        Some(name) => format!("{missing}; give a GGUF file in it, such as {name}"),
        None => missing,
    }
}

/// The names of the directories in a directory, in order; none if it cannot be read.
fn directories(parent: &Path) -> Vec<String> {
    names(parent, |path| path.is_dir())
}

/// The names of the files in a directory, in order; none if it cannot be read.
fn files(parent: &Path) -> Vec<String> {
    names(parent, Path::is_file)
}

fn names(parent: &Path, wanted: impl Fn(&Path) -> bool) -> Vec<String> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter(|e| wanted(&e.path())).map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}
