//! The measures by name, with their meaning and their sources.
//!
//! The literature uses one word for several measures and several words for one, so the page says what each name means here. The
//! names are those of [`audit`](crate::audit).

use crate::audit::{Audit, AuditPreset};
use byrote_figures::html::{Cell, Column, Prose, Section, Table};

/// A measure: its name, its meaning, what others call it, and the papers it comes from.
struct Measure {
    name: &'static str,
    meaning: &'static str,
    elsewhere: &'static str,
    sources: &'static [&'static str],
}

/// Every measure of the page.
const MEASURES: [Measure; 14] = [
    Measure {
        name: "extractable",
        meaning: "greedy decoding continues the prefix with the suffix, token for token",
        elsewhere: "k-extractable, discoverable; exact match (of sequences)",
        sources: &["carlini2023", "hans2024"],
    },
    Measure {
        name: "teacher-forced accuracy",
        meaning: "share of suffix tokens that are the most likely one, given the true text before them",
        elsewhere: "exact memorization; exact match (of tokens)",
        sources: &["tirumala2022"],
    },
    Measure {
        name: "free-running accuracy",
        meaning: "share of positions at which greedy decoding agrees with the suffix",
        elsewhere: "memorization score",
        sources: &["biderman2023"],
    },
    Measure {
        name: "p_z",
        meaning: "probability that sampling produces the suffix; 0 if one of its tokens is never drawn",
        elsewhere: "probabilistic extraction",
        sources: &["hayes2024", "cooper2025"],
    },
    Measure {
        name: "(n, p)-discoverable",
        meaning: "n samples produce the suffix at least once with probability p: 1 - (1 - p_z)^n is at least p",
        elsewhere: "",
        sources: &["hayes2024"],
    },
    Measure {
        name: "extraction strength",
        meaning: "share of the suffix that follows by greedy decoding once the rest of it is given",
        elsewhere: "",
        sources: &["carlini2021"],
    },
    Measure {
        name: "longest run",
        meaning: "consecutive tokens that are each the most likely one; fresh if none of them can be copied from the context",
        elsewhere: "",
        sources: &[],
    },
    Measure {
        name: "bits",
        meaning: "code length of the text under the model: minus the sum of log2 of its probabilities",
        elsewhere: "loss, perplexity",
        sources: &[],
    },
    Measure {
        name: "zlib ratio",
        meaning: "bits divided by the size of the document compressed by zlib, level 9",
        elsewhere: "zlib entropy ratio",
        sources: &["carlini2021"],
    },
    Measure {
        name: "Min-k%",
        meaning: "mean log-probability of the least likely fifth of the tokens",
        elsewhere: "",
        sources: &["shi2024"],
    },
    Measure {
        name: "Min-k%++",
        meaning: "the same of log-probabilities that are standardized at each position",
        elsewhere: "",
        sources: &["zhang2025"],
    },
    Measure {
        name: "unintended bits",
        meaning: "how much shorter the code of a document is than under a reference model, or 0; summed over documents",
        elsewhere: "unintended memorization",
        sources: &["morris2025"],
    },
    Measure {
        name: "gap",
        meaning: "distance of the loss to the floor, the lowest that any model can reach given the same tokens",
        elsewhere: "",
        sources: &["madden2024"],
    },
    Measure {
        name: "exposure",
        meaning: "log2 of how far an inserted string ranks above those that were never inserted",
        elsewhere: "",
        sources: &["carlini2019"],
    },
];

impl Measure {
    /// Whether the audit has it.
    fn is_used(&self, audit: &Audit) -> bool {
        let (known, text) = (audit.known, &audit.text);
        let windows = text.windows.is_some() || text.document_context.is_some();
        match self.name {
            "extractable" | "teacher-forced accuracy" | "extraction strength" => windows,
            "free-running accuracy" => audit.settings.decode && windows,
            "p_z" | "(n, p)-discoverable" => windows && known.sampled,
            "longest run" => known.hits,
            "zlib ratio" => text.zlib_ratio.is_some(),
            "Min-k%++" => known.moments,
            "unintended bits" => audit.reference.is_some(),
            "gap" => audit.gap.is_some(),
            "exposure" => audit.canaries.is_some(),
            _ => true,
        }
    }
}

/// The table of measures.
pub(super) fn section(audit: &Audit) -> Section {
    let columns = [
        Column::left("name here"),
        Column::left("meaning"),
        Column::left("called elsewhere"),
        Column::left("source"),
    ];
    let mut table = Table::new("The measures of this page.", columns);
    for measure in MEASURES.iter().filter(|measure| measure.is_used(audit)) {
        let mut sources = Prose::new();
        for (i, key) in measure.sources.iter().enumerate() {
            sources = if i > 0 { sources.text(", ") } else { sources };
            sources = sources.cite(*key);
        }
        table = table.row([
            Cell::from(measure.name),
            measure.meaning.into(),
            measure.elsewhere.into(),
            sources.into(),
        ]);
    }
    Section::new("What the measures mean").anchor("measures").table(table)
}

/// The papers that the page refers to.
pub(super) fn sources(audit: &Audit) -> Vec<&'static str> {
    let measures =
        MEASURES.iter().filter(|measure| measure.is_used(audit)).flat_map(|m| m.sources.iter().copied());
    let preset = audit.settings.preset.map(|preset| match preset {
        AuditPreset::Carlini => "carlini2023",
        AuditPreset::Pythia => "biderman2023",
        AuditPreset::Goldfish => "hans2024",
        AuditPreset::Cooper => "cooper2025",
    });
    let capacity = audit.reference.as_ref().and_then(|r| r.bits_per_parameter).map(|_| "allenzhu2024");
    let mut keys: Vec<&str> = measures.chain(preset).chain(capacity).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bibliography::paper;

    #[test]
    fn every_source_is_in_the_bibliography() {
        for measure in &MEASURES {
            assert!(measure.sources.iter().all(|key| paper(key).is_some()), "{}", measure.name);
        }
    }

    #[test]
    fn every_measure_of_the_library_is_on_the_page() {
        let head = include_str!("../../audit/mod.rs");
        let names: Vec<&str> = head
            .lines()
            .filter_map(|line| line.strip_prefix("//! | "))
            .filter_map(|line| line.split(" | ").next())
            .filter(|name| *name != "name")
            .collect();
        assert!(names.len() >= 9, "{names:?}");
        for name in names {
            assert!(MEASURES.iter().any(|measure| measure.name == name), "{name}");
        }
    }
}
