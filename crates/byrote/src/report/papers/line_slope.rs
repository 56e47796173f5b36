//! Lines compared by their slopes: do two kinds of models gain equally much per parameter, or per head?

use super::Agreement;
use crate::fit::{Law, ParameterInterval};
use crate::report::laws::Answer;
use crate::report::numbers::brief;
use serde_json::{Value, json};

/// Slopes that differ by at most this part of the larger one are nearly equal.
const NEAR: f64 = 0.1;

/// The slope b of a line a + b x, with its 95% interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slope {
    pub value: f64,
    pub interval: Option<ParameterInterval>,
}

impl Slope {
    /// The slope of the line in an answer.
    pub fn of(answer: &Answer) -> Option<Self> {
        let row = answer.comparison.row(Law::Linear)?;
        let value = row.fit.as_ref()?.parameters.iter().find(|p| p.name == "b")?.value;
        Some(Self { value, interval: row.replicates.as_ref().and_then(|r| r.interval("b").copied()) })
    }

    /// The slope with its interval in parentheses.
    pub fn words(&self) -> String {
        match self.interval {
            Some(i) => format!("{} ({} to {})", brief(self.value), brief(i.low), brief(i.high)),
            None => brief(self.value),
        }
    }

    pub fn json(&self) -> Value {
        json!({"slope": self.value, "interval": self.interval.map(|i| json!({"low": i.low, "high": i.high}))})
    }
}

/// Whether two kinds of models, each with its name, gain equally much: the intervals of their slopes overlap. Otherwise says which
/// one is ahead. Where most runs end at the limit of steps, nothing is decided about what the models can hold.
pub(super) fn compared(
    (first, first_name): (&Slope, &str),
    (second, second_name): (&Slope, &str),
    mostly_at_the_limit: bool,
) -> (String, Agreement) {
    let (Some(i), Some(j)) = (first.interval, second.interval) else {
        return (String::new(), Agreement::Open);
    };
    let ahead = if i.low > j.high {
        Some(first_name)
    } else if i.high < j.low {
        Some(second_name)
    } else {
        None
    };
    let mut words = match ahead {
        Some(name) => format!(" The intervals do not overlap: a difference in favour of {name}."),
        None => " The intervals overlap.".to_owned(),
    };
    if mostly_at_the_limit {
        words += " Most runs ended at the limit of steps, so this compares training, not capacity.";
        return (words, Agreement::Open);
    }
    let (smaller, larger) = (first.value.min(second.value), first.value.max(second.value));
    let agrees = match ahead {
        None => Agreement::Yes,
        Some(_) if smaller >= (1.0 - NEAR) * larger => Agreement::Nearly,
        Some(_) => Agreement::No,
    };
    (words, agrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_reported_in_either_direction_unless_training_was_cut_short() {
        let slope = |(value, low, high): (f64, f64, f64)| Slope {
            value,
            interval: Some(ParameterInterval { name: "b", value, low, high }),
        };
        let judged = |average, attention, cut| {
            compared((&slope(average), "token averaging"), (&slope(attention), "attention"), cut)
        };
        assert_eq!(
            judged((1.0, 0.8, 1.2), (1.3, 1.1, 1.5), false),
            (" The intervals overlap.".into(), Agreement::Yes)
        );
        for (average, attention, kind, agrees) in [
            ((2.0, 1.9, 2.1), (1.0, 0.9, 1.1), "token averaging", Agreement::No),
            ((1.05, 1.04, 1.06), (1.0, 0.99, 1.01), "token averaging", Agreement::Nearly),
            ((1.0, 0.99, 1.01), (1.05, 1.04, 1.06), "attention", Agreement::Nearly),
            ((1.0, 0.9, 1.1), (2.0, 1.9, 2.1), "attention", Agreement::No),
        ] {
            let (words, found) = judged(average, attention, false);
            assert_eq!(found, agrees);
            assert!(words.ends_with(&format!("a difference in favour of {kind}.")), "{words}");
            let (words, found) = judged(average, attention, true);
            assert_eq!(found, Agreement::Open);
            assert!(words.contains(kind) && words.ends_with("compares training, not capacity."), "{words}");
        }
        let unknown = Slope { value: 1.0, interval: None };
        let known = slope((1.0, 0.9, 1.1));
        assert_eq!(compared((&unknown, "a"), (&known, "b"), false).1, Agreement::Open);
    }
}
