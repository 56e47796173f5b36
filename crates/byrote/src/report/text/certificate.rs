//! Certificates as text.

use super::TextTable;
use crate::certify::{Certificate, FloatingPoint, Injectivity, Verdict};
use crate::dataset::Dataset;
use crate::model::ModelFile;
use crate::units::{AtLeast, grouped, significant};
use std::fmt::Write as _;

/// Shows what is proven about a model.
pub fn certificate(
    title: &str,
    file: &ModelFile,
    dataset: &Dataset,
    found: &Certificate,
    seconds: f64,
) -> String {
    let parameters = grouped(file.model.parameters().len() as u64);
    let mut out = format!("{title}: a model of {parameters} parameters, {seconds:.1} s\n\n");
    let why = match found.verdict {
        Verdict::Certified => "in exact arithmetic on the stored weights, every context is memorized",
        Verdict::Refuted => "in exact arithmetic on the stored weights, a context is not memorized",
        Verdict::Undecided => "the enclosures are too wide to decide for some contexts",
    };
    let mut table = TextTable::new(&["verdict", found.verdict.name(), why], &[0, 2]);
    let margin = match found.min_margin_lower_bound {
        AtLeast(f64::MAX) => "no other token".to_owned(),
        margin if margin.0.abs() < 1e6 => format!("{margin:.6}"),
        margin => significant(margin, 4),
    };
    let rows = [
        (
            "certified",
            grouped(found.certified_contexts),
            format!(
                "of {} contexts: the largest logit of the top set is above all others",
                grouped(found.contexts)
            ),
        ),
        ("refuted", grouped(found.refuted_contexts), "a logit outside the top set is the largest".into()),
        ("undecided", grouped(found.undecided_contexts), String::new()),
        ("smallest margin", margin, "or more: no context has a smaller one".into()),
        (
            "gap",
            significant(found.gap_nats_per_prediction_upper_bound, 5),
            format!(
                "nats per prediction above the floor at most; {} in total",
                significant(found.gap_nats_upper_bound, 5)
            ),
        ),
        ("widest enclosure", significant(found.largest_radius, 2), "plus or minus, of a logit".into()),
        injectivity(&found.injectivity),
        floating_point("in f64", &found.floating_point, found.contexts),
        floating_point("in f32", &found.floating_point_f32, found.contexts),
        ("arithmetic", String::new(), found.arithmetic.to_string()),
    ];
    for (name, value, note) in rows {
        if let Some(why) = found.not_available.as_ref().filter(|_| name == "in f64") {
            table.row(vec!["in f64, f32".into(), "not available".into(), why.to_string()]);
        }
        if found.not_available.is_some() && name.starts_with("in f") {
            continue;
        }
        // In a model of blocks it is what the output reads.
        let name = if found.not_available.is_some() && name == "mixer" { "stream" } else { name };
        table.row(vec![name.into(), value, note]);
    }
    out += &table.render();
    if let Some(doubt) = &found.doubt {
        let text = dataset.text_of(doubt.context);
        let (low, high) = (doubt.margin_lower_bound, doubt.margin_upper_bound);
        let _ = match found.verdict {
            Verdict::Refuted => {
                writeln!(out, "\nrefuted by: {text}\n  its margin is at most {}", significant(high, 4))
            }
            _ if !doubt.radius.0.is_finite() => writeln!(
                out,
                "\nundecided: {text}\n  a logit has no enclosure, because an intermediate value exceeds 1e308; smaller \
                 weights would help"
            ),
            _ => writeln!(
                out,
                "\nundecided: {text}\n  its margin is between {} and {}; deciding takes logits known to within {}, \
                 and these are known to within {}",
                significant(low, 4),
                significant(high, 4),
                significant(0.25 * (low.0 + high.0).abs(), 2),
                significant(doubt.radius, 2)
            ),
        };
    }
    out
}

/// Says what is proven about the mixer.
fn injectivity(found: &Injectivity) -> (&'static str, String, String) {
    let (plain, absolute) = (found.smallest_gap_lower_bound, found.smallest_absolute_gap_lower_bound);
    let note = match (found.distinct, found.distinct_absolute_values) {
        (true, _) if plain.0 == f64::INFINITY => "there is only one context".into(),
        (true, true) if plain == absolute => format!(
            "values in coordinate {} differ by at least {}, and so do their absolute values",
            found.coordinate,
            significant(plain, 2)
        ),
        (true, true) => format!(
            "values in coordinate {} differ by at least {}, their absolute values by at least {}",
            found.coordinate,
            significant(plain, 2),
            significant(absolute, 2)
        ),
        (true, false) => format!(
            "values in coordinate {} differ by at least {}; two absolute values may agree",
            found.coordinate,
            significant(plain, 2)
        ),
        (false, _) => "no coordinate is proven to differ between all contexts".into(),
    };
    ("mixer", if found.distinct { "injective" } else { "not proven" }.into(), note)
}

/// Says what is proven about the logits that programs compute.
fn floating_point(
    name: &'static str,
    found: &FloatingPoint,
    contexts: u64,
) -> (&'static str, String, String) {
    let error = match found.largest_rounding_error {
        error if error.0.is_finite() => {
            format!("rounding changes a logit by at most {}", significant(error, 2))
        }
        _ => "rounding errors have no bound".into(),
    };
    let note = match found.verdict {
        Verdict::Certified if found.min_margin_lower_bound.0 == f64::MAX => {
            "summing in any order: there is no other token".into()
        }
        Verdict::Certified => {
            format!(
                "summing in any order, margins are at least {}; {error}",
                significant(found.min_margin_lower_bound, 4)
            )
        }
        Verdict::Refuted => format!("summing in any order, a context is predicted wrongly; {error}"),
        Verdict::Undecided => format!(
            "proven for {} of {} contexts: {error}",
            grouped(found.certified_contexts),
            grouped(contexts)
        ),
    };
    (name, found.verdict.name().into(), note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixer_is_injective_even_if_absolute_values_agree() {
        let found = |distinct, distinct_absolute_values| Injectivity {
            coordinate: 0,
            distinct,
            smallest_gap_lower_bound: AtLeast(0.5),
            distinct_absolute_values,
            smallest_absolute_gap_lower_bound: AtLeast(0.0),
        };
        for (distinct, absolute, word) in
            [(true, true, "injective"), (true, false, "injective"), (false, false, "not proven")]
        {
            assert_eq!(injectivity(&found(distinct, absolute)).1, word);
        }
        let both = Injectivity { smallest_absolute_gap_lower_bound: AtLeast(0.5), ..found(true, true) };
        assert_eq!(
            injectivity(&both).2,
            "values in coordinate 0 differ by at least 0.50, and so do their absolute values"
        );
        assert!(
            injectivity(&found(true, true))
                .2
                .ends_with("by at least 0.50, their absolute values by at least 0")
        );
    }
}
