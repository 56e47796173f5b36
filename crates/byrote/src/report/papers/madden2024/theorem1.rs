//! madden2024, Theorem 1: corpora that are out of reach, trained on.
//!
//! Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024), Theorems 1 and 5. The experiment is ours.

use super::super::{Agreement, Claim, Paper};
use crate::report::numbers::{brief, nats, thousands};
use crate::units::AtLeast;
use byrote_figures::html::{Cell, Column, Exhibit, Page, Section, Table};
use byrote_figures::{Axis, Figure, Line, Points};
use serde::Serialize;
use serde_json::Value;

const SMALL: &str = "A small version: the full version has wider models and more seeds.";
/// A gap of at most this part of the floor counts as having reached it.
pub const REACHED: f64 = 1e-5;

/// A given model, the corpus that Theorem 1 promises for it, and models with fewer and more neurons trained on this corpus.
#[derive(Debug, Clone, Serialize)]
pub struct Case {
    /// A name for files and anchors.
    pub key: &'static str,
    /// The title of its section.
    pub title: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// omega.
    pub d_vocab: u64,
    /// T.
    pub n_ctx: u64,
    /// The width of the residual stream.
    pub d_model: u64,
    /// The neurons of the given model.
    pub given_neurons: u64,
    /// Its trained parameters, k.
    pub parameters: u64,
    /// n', the contexts of T tokens.
    pub full_contexts: u64,
    /// All contexts.
    pub contexts: u64,
    /// The most contexts that the theorem allows.
    pub promised_contexts: u64,
    /// The number of documents.
    pub documents: u64,
    /// The free numbers of the distributions.
    pub free_numbers: u64,
    /// The floor.
    pub floor_nats: f64,
    /// The models, from the narrowest to the widest.
    pub models: Vec<Neurons>,
}

/// All runs with one number of neurons.
#[derive(Debug, Clone, Serialize)]
pub struct Neurons {
    /// The number of neurons.
    pub neurons: u64,
    /// Trained parameters.
    pub parameters: u64,
    /// The measured dimension of what the model can reach.
    pub dimension: u64,
    /// A proved lower bound on the gap.
    pub gap_at_least_nats: AtLeast,
    /// The gap of every seed.
    pub gaps_nats: Vec<f64>,
}

impl Neurons {
    /// The smallest gap of all seeds.
    pub fn smallest_gap(&self) -> f64 {
        self.gaps_nats.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

impl Case {
    /// The number of seeds of a model that have reached the floor.
    pub fn reached(&self, model: &Neurons) -> usize {
        model.gaps_nats.iter().filter(|&&gap| gap <= REACHED * self.floor_nats).count()
    }

    fn given(&self) -> Option<&Neurons> {
        self.models.iter().find(|m| m.neurons == self.given_neurons)
    }

    /// The narrowest model that has reached the floor with some seed.
    pub fn first_to_reach(&self) -> Option<&Neurons> {
        self.models.iter().find(|m| self.reached(m) > 0)
    }

    /// The fewest neurons with enough measured dimensions for the free numbers.
    pub fn enough_dimensions(&self) -> Option<u64> {
        self.models.iter().find(|m| m.dimension >= self.free_numbers).map(|m| m.neurons)
    }

    /// The most neurons that are proved to stay above the floor.
    pub fn proved_up_to(&self) -> Option<u64> {
        self.models.iter().filter(|m| m.gap_at_least_nats.0 > 0.0).map(|m| m.neurons).max()
    }

    /// Says what was measured, and whether the theorems agree with it.
    fn claim(&self) -> Claim {
        let theory = format!(
            "{}: {} neurons ({} trained parameters) do not approach the floor of some corpus with at most {} contexts \
             (Theorem 1); as many neurons as contexts are enough (Theorem 5).",
            self.title,
            self.given_neurons,
            thousands(self.parameters),
            self.promised_contexts
        );
        let (Some(given), Some(last)) = (self.given(), self.models.last()) else {
            return Claim::new(theory, "the given model was not trained.", Agreement::Open);
        };
        let gap = given.smallest_gap();
        let proved = match given.gap_at_least_nats {
            AtLeast(x) if x > 0.0 => {
                format!("; no weights are closer than {} nats", nats(given.gap_at_least_nats))
            }
            AtLeast(_) => "; no bound is known for this one".into(),
        };
        let first = match self.first_to_reach() {
            Some(m) => format!(
                "The narrowest model that reaches the floor has {} neurons ({} of {} runs)",
                m.neurons,
                self.reached(m),
                m.gaps_nats.len()
            ),
            None => "No model reaches the floor".into(),
        };
        let measured = format!(
            "on our corpus of {} contexts, the closest of {} runs of {} neurons ends {} nats above the floor ({} of it){proved}. \
             {first}.",
            self.contexts,
            given.gaps_nats.len(),
            given.neurons,
            nats(gap),
            brief(gap / self.floor_nats)
        );
        let agrees = match (self.reached(given), self.reached(last)) {
            (0, reached) if reached > 0 => Agreement::Yes,
            (0, _) => Agreement::Nearly,
            _ => Agreement::No,
        };
        Claim::new(theory, measured, agrees)
    }

    /// The gap against neurons.
    pub fn figure(&self) -> Figure {
        let level = REACHED * self.floor_nats;
        let at = |m: &Neurons| m.neurons as f64;
        let each = self
            .models
            .iter()
            .flat_map(|m| m.gaps_nats.iter().map(move |&gap| (at(m), gap.max(level / 10.0))));
        let smallest = self.models.iter().map(|m| (at(m), m.smallest_gap().max(level / 10.0)));
        let proved = self.models.iter().filter(|m| m.gap_at_least_nats.0 > 0.0);
        Figure::new(
            format!("{}: the gap against neurons", self.title),
            Axis::linear("hidden neurons"),
            Axis::log("gap to the floor (nats)"),
        )
        .line(Line::new("closest", "closest run", smallest))
        .points(Points::new("run", "every run", each))
        .line(
            Line::new("proved", "no weights are below", proved.map(|m| (at(m), m.gap_at_least_nats.0)))
                .dashed()
                .with_markers(),
        )
        .dash_key("trained", "proved")
        .vertical(self.given_neurons as f64, "the given model")
        .horizontal(level, "counts as reached")
        .legend()
    }

    fn table(&self) -> Table {
        let columns = [
            Column::right("neurons"),
            Column::right("parameters").unit("trained"),
            Column::right("dimension")
                .unit(format!("measured, of {} free numbers", thousands(self.free_numbers))),
            Column::right("gap at least").unit("nats, proved"),
            Column::right("smallest gap").unit("nats"),
            Column::right("largest gap").unit("nats"),
            Column::right("floor reached").unit("runs"),
        ];
        let mut table = Table::new("The given model is the one that the corpus was made for.", columns);
        for m in &self.models {
            let given = if m.neurons == self.given_neurons { " (given)" } else { "" };
            table = table.row([
                Cell::from(format!("{}{given}", m.neurons)),
                thousands(m.parameters).into(),
                thousands(m.dimension).into(),
                if m.gap_at_least_nats.0 > 0.0 { nats(m.gap_at_least_nats).into() } else { Cell::none() },
                nats(m.smallest_gap()).into(),
                nats(m.gaps_nats.iter().copied().fold(0.0, f64::max)).into(),
                format!("{} of {}", self.reached(m), m.gaps_nats.len()).into(),
            ]);
        }
        table
    }

    fn section(&self) -> Section {
        let corpus = format!(
            "The corpus: {} documents of {} tokens with {} contexts, {} of them of full length, over {} tokens. The theorem \
             allows {} contexts for k = {} parameters.",
            thousands(self.documents),
            self.n_ctx + 1,
            self.contexts,
            self.full_contexts,
            self.d_vocab,
            self.promised_contexts,
            thousands(self.parameters)
        );
        let counted = match self.enough_dimensions() {
            Some(m) => format!(
                "By the measured dimensions, fewer than {m} neurons are too few for almost every choice of distributions. For \
                 counts from this grid we expect it, without proof. A measured rank can miss dimensions; \
                 docs/derivations/madden2024.md gives upper bounds."
            ),
            None => "By the measured dimensions, none of these models is large enough for every choice of distributions.".into(),
        };
        let proved = match self.proved_up_to() {
            Some(m) => format!("Up to {m} neurons the rank of the output proves a gap for this very corpus."),
            None => "The rank of the output proves nothing here.".into(),
        };
        let alt =
            "The gap to the floor against the number of hidden neurons, with the lower bound that is proved.";
        Section::new(self.title)
            .anchor(self.key)
            .paragraph(self.about)
            .paragraph(corpus)
            .paragraph(format!("{counted} {proved}"))
            .exhibit(
                Exhibit::new(self.figure()).name(self.key).alt(alt).caption(
                    "One point per run. A gap that has fallen below the level is drawn at its stop. The dashed line is a theorem; \
                     the points are only evidence, because another start or optimizer might get lower.",
                ),
            )
            .table(self.table())
    }
}

/// The page.
pub fn page(cases: &[Case], full: bool, command: &str) -> Page {
    let first = Section::new("How the corpora are made").anchor("corpora").paragraph(
        "The proof of Theorem 1 counts dimensions: k parameters reach a set without interior among the distributions of more \
         than k / (omega - 1) contexts, so almost every choice of distributions is out of reach, and counts can approximate any \
         choice. Here the counts themselves are drawn: each of the first n' sequences of T tokens is followed by every token 1, \
         2, 4, 8 or 16 times.",
    );
    let first = first.paragraph(
        "For counts from this finite grid we expect the same, without proof: the theorem does not show it for a single corpus. \
         Two more facts do better. The rank of the logits is at most the number of neurons; if the centred logarithms of the \
         counts have a larger rank, their distance from lower ranks bounds the gap from below, for all weights at once. And the \
         rank of the derivative of the predictions, which is measured, is the number of dimensions that the parameters really \
         have: symmetries make it smaller than k. Where fewer neurons get closer than more, training has not found its infimum.",
    );
    let paper = Paper {
        title: "madden2024, Theorem 1: corpora out of reach".into(),
        subtitle: "Training on the corpora that a theorem says a model cannot learn.".into(),
        claims: cases.iter().map(Case::claim).collect(),
        sections: [first].into_iter().chain(cases.iter().map(Case::section)).collect(),
        json: Value::Null,
        references: &["madden2024"],
    };
    paper.into_page_with(SMALL, full, command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(gaps: [f64; 3]) -> Case {
        let model = |(neurons, gap): (u64, f64)| Neurons {
            neurons,
            parameters: 10 * neurons,
            dimension: 9 * neurons,
            gap_at_least_nats: AtLeast(if neurons < 3 { 0.5 } else { 0.0 }),
            gaps_nats: vec![2.0 * gap, gap],
        };
        Case {
            key: "wide",
            title: "Wide",
            about: "",
            d_vocab: 8,
            n_ctx: 1,
            d_model: 1,
            given_neurons: 2,
            parameters: 20,
            full_contexts: 3,
            contexts: 3,
            promised_contexts: 7,
            documents: 100,
            free_numbers: 21,
            floor_nats: 100.0,
            models: [1, 2, 3].into_iter().zip(gaps).map(model).collect(),
        }
    }

    #[test]
    fn the_theorems_agree_only_if_the_given_model_stays_above_and_a_wider_one_reaches_the_floor() {
        let agrees = |gaps| case(gaps).claim().agrees;
        assert_eq!(agrees([2.0, 1.0, 1e-4]), Agreement::Yes);
        assert_eq!(agrees([2.0, 1.0, 0.1]), Agreement::Nearly);
        assert_eq!(agrees([2.0, 1e-4, 1e-5]), Agreement::No);
        let none = Case { given_neurons: 9, ..case([2.0, 1.0, 0.1]) };
        assert_eq!(none.claim().agrees, Agreement::Open);
    }

    #[test]
    fn the_page_says_what_is_proved_and_what_is_not() {
        let case = case([2.0, 1.0, 1e-4]);
        assert_eq!((case.proved_up_to(), case.enough_dimensions()), (Some(2), Some(3)));
        assert_eq!(case.first_to_reach().map(|m| (m.neurons, case.reached(m))), Some((3, 2)));
        let html = page(&[case], false, "byrote reproduce madden2024-theorem1").to_html().unwrap();
        assert!(html.contains("no weights are closer than") && html.contains("Up to 2 neurons"));
        assert!(html.contains("They agree"));
    }
}
