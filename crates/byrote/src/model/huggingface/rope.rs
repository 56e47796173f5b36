//! Rotary positions in `config.json`.
//!
//! `transformers` 4 has `rope_theta` (`rotary_emb_base` in GPT-NeoX) and `rope_scaling`, version 5 collects them in
//! `rope_parameters`. Both are read; the former are written, because both versions read them.

use super::settings::Settings;
use crate::Result;
use crate::model::{Rotary, RotaryScaling};
use serde_json::{Map, Value, json};

/// The base of the frequencies where the file has none.
const THETA: f64 = 10_000.0;

/// The fields that describe rotary positions, wherever they are.
pub(super) fn parameters(settings: &Settings) -> Result<Settings> {
    let all = settings.object("rope_parameters")?.merged(settings.object("rope_scaling")?);
    match all.nested() {
        Some(name) => Err(all.wrong(name, "rotary positions that differ by layer are not supported")),
        None => Ok(all),
    }
}

/// The share of each head that is rotated, if the file says so.
pub(super) fn partial(settings: &Settings) -> Result<Option<f64>> {
    let own = parameters(settings)?.number(&["partial_rotary_factor"])?;
    Ok(own.or(settings.number(&["partial_rotary_factor", "rotary_pct"])?))
}

/// Reads the rotary positions of `dims` numbers of each head.
pub(super) fn read(settings: &Settings, dims: u64) -> Result<Rotary> {
    let own = parameters(settings)?;
    let theta = match own.number(&["rope_theta"])? {
        Some(theta) => theta,
        None => settings.number(&["rope_theta", "rotary_emb_base"])?.unwrap_or(THETA),
    };
    let positive = |name: &str| {
        let found = own.number(&[name])?;
        let message = match found {
            Some(x) if x > 0.0 && x.is_finite() => return Ok(x),
            Some(x) => format!("must be finite and above 0 (got {x})"),
            None => "is missing".to_owned(),
        };
        Err(own.wrong(name, &message))
    };
    let scaling = match own.text("rope_type")?.or(own.text("type")?) {
        None | Some("default") => None,
        Some("linear") => Some(RotaryScaling::Linear { factor: positive("factor")? }),
        Some("llama3") => {
            let scaling = RotaryScaling::Llama3 {
                factor: positive("factor")?,
                low_freq_factor: positive("low_freq_factor")?,
                high_freq_factor: positive("high_freq_factor")?,
                original_n_ctx: own.count(&["original_max_position_embeddings"])?,
            };
            if positive("high_freq_factor")? <= positive("low_freq_factor")? {
                return Err(own.wrong("high_freq_factor", "must be above low_freq_factor"));
            }
            Some(scaling)
        }
        Some(other) => {
            let message = format!("{other:?} is not supported; byrote reads default, linear and llama3");
            return Err(own.wrong("rope_type", &message));
        }
    };
    Ok(Rotary { dims, theta, scaling })
}

/// Returns `rope_scaling` for a file.
pub(super) fn scaling(rotary: &Rotary) -> Value {
    match rotary.scaling {
        None => Value::Null,
        Some(RotaryScaling::Linear { factor }) => {
            json!({"rope_type": "linear", "type": "linear", "factor": factor})
        }
        Some(RotaryScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_n_ctx }) => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low_freq_factor,
            "high_freq_factor": high_freq_factor,
            "original_max_position_embeddings": original_n_ctx,
        }),
    }
}

/// The numbers of a head of `d_head` that a share of it covers, rounded down as `transformers` does.
pub(super) fn dims(d_head: u64, share: f64) -> u64 {
    (d_head as f64 * share) as u64
}

/// The share of a head of `d_head` that is rotated, such that [`dims`] gives the number back.
pub(super) fn share(d_head: u64, rotated: u64) -> f64 {
    let exact = rotated as f64 / d_head as f64;
    if dims(d_head, exact) == rotated { exact } else { (rotated as f64 + 0.5) / d_head as f64 }
}

/// Adds the fields of rotary positions under the names of Llama.
pub(super) fn write(rotary: &Rotary, fields: &mut Map<String, Value>) {
    fields.insert("rope_theta".into(), json!(rotary.theta));
    fields.insert("rope_scaling".into(), scaling(rotary));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_rotated_dimensions_comes_back_from_its_share() {
        for d_head in 1..=300 {
            for rotated in 1..=d_head {
                assert_eq!(dims(d_head, share(d_head, rotated)), rotated, "{rotated} of {d_head}");
            }
        }
        assert_eq!(share(64, 16), 0.25);
    }
}
