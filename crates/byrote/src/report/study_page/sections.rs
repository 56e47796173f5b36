//! The sections of a study's page.

use super::{BuiltOutcome, Certificate, Study};
use crate::bounds::families::{Family, Guarantee};
use crate::bounds::{self, CorpusFacts, Situation};
use crate::certify;
use crate::report::bounds_figure::capacity;
use crate::report::incontext_figure::errors_against_t;
use crate::report::numbers::{nats, sentence, thousands};
use crate::units::Nats;
use byrote_figures::html::{Cell, Column, Exhibit, KeyFigure, Prose, Section, Status, Table, Verdict};
use byrote_figures::{Axis, Figure, Line, Points};

impl Study {
    pub(super) fn answer(&self) -> Section {
        let certified = self.built.iter().any(|b| {
            matches!(&b.outcome, Ok(BuiltOutcome { certificate: Certificate::Enclosed(c), .. })
                if c.verdict == certify::Verdict::Certified)
        });
        let status = if certified { Status::Good } else { Status::Neutral };
        let lines = self.verdict();
        let verdict = lines
            .iter()
            .skip(1)
            .fold(Verdict::new(status, lines[0].as_str()), |v, line| v.line(line.as_str()));
        let s = &self.summary;
        Section::new("The answer").verdict(verdict).key_figures([
            KeyFigure::new("floor", nats(s.floor_nats.at_least()), "nats"),
            KeyFigure::new(
                "a prediction",
                format!("{:.4}", s.floor_bits_per_prediction.unwrap_or(0.0)),
                "bits",
            ),
            KeyFigure::new("contexts", thousands(s.contexts), ""),
            KeyFigure::new("predictions", thousands(s.predictions), ""),
            KeyFigure::new("vocabulary", thousands(s.d_vocab), "tokens"),
        ])
    }

    pub(super) fn corpus(&self) -> Section {
        let s = &self.summary;
        let by_length = |f: &dyn Fn(&crate::corpus::LengthSummary) -> f64| -> Vec<(f64, f64)> {
            s.by_length.iter().filter(|l| l.contexts > 0).map(|l| (f64::from(l.length), f(l))).collect()
        };
        let bits = by_length(&|l| l.floor_nats.0 / std::f64::consts::LN_2 / l.predictions.max(1) as f64);
        let figure = Figure::new(
            "What cannot be learned, by context length",
            Axis::linear("tokens of context"),
            Axis::linear("floor (bits a prediction)").from_zero(),
        )
        .line(Line::new("floor", "floor", bits).with_markers());
        let columns = [
            Column::right("length"),
            Column::right("contexts"),
            Column::right("predictions"),
            Column::right("floor").unit("nats"),
            Column::right("bits a prediction"),
        ];
        let mut csv = String::from("length,contexts,predictions,floor_nats\n");
        let mut table = Table::new("The floor by context length.", columns);
        for l in &s.by_length {
            csv += &format!("{},{},{},{}\n", l.length, l.contexts, l.predictions, l.floor_nats.0);
            let bits = l.floor_nats.0 / std::f64::consts::LN_2 / l.predictions.max(1) as f64;
            table = table.row([
                l.length.to_string(),
                thousands(l.contexts),
                thousands(l.predictions),
                nats(l.floor_nats.at_least()),
                format!("{bits:.4}"),
            ]);
        }
        Section::new("The text and its floor")
            .anchor("corpus")
            .paragraph(Prose::parse(&format!(
                "{} documents, {} tokens kept, {} of them different. A *context* is a beginning of a document, at most {} \
                 tokens long, that is followed by a token; {} contexts have a single next token, {} have several. Where \
                 several follow, no model can know which: the entropy of what follows, summed over all predictions, is \
                 the floor.",
                thousands(s.documents),
                thousands(s.tokens),
                thousands(s.d_vocab),
                s.n_ctx,
                thousands(s.deterministic_contexts),
                thousands(s.contradictions()),
            )))
            .exhibit(
                Exhibit::new(figure)
                    .name("floor-by-length")
                    .alt("The floor in bits a prediction against the length of the context.")
                    .caption("What no model can know when it sees only the document so far: at each length, the entropy of what follows, \
                         a prediction.",
                    ),
            )
            .table(table.csv("floor-by-length.csv", csv))
    }

    pub(super) fn bounds(&self) -> Section {
        let facts = CorpusFacts::from(&self.summary);
        let families = bounds::families::smallest(&facts);
        let situation = Situation { corpus: Some(facts), ..Situation::default() };
        let mut section = Section::new("How many parameters it takes")
            .anchor("bounds")
            .paragraph(sentence(&bounds::verdict(&situation).sentence));
        let named = format!("{}: {} contexts", self.title, thousands(self.summary.contexts));
        if let Some(figure) = capacity(&situation, &named, "") {
            section = section.exhibit(
                Exhibit::new(figure)
                    .name("bounds")
                    .alt("Contexts that a model holds against its parameters, a line a published bound, with this corpus.")
                    .caption("Every published bound that applies. Dashed lines are known only up to a constant."),
            );
        }
        let columns = [
            Column::left("model"),
            Column::left("stores"),
            Column::right("width"),
            Column::right("neurons"),
            Column::right("parameters"),
            Column::left("guarantee"),
        ];
        let mut table = Table::new("The smallest models for this corpus.", columns);
        for f in &families {
            table = table.row(family_row(f));
        }
        section.table(table)
    }

    pub(super) fn about_part(&self) -> Section {
        Section::new("The part that was built and trained on").anchor("part").note(Prose::parse(&format!(
            "The floor and the bounds above are of the whole text. Building and training used its **first {} documents**: {} \
             contexts over {} tokens, with a floor of {} nats. A full study uses all of it.",
            thousands(self.part.documents),
            thousands(self.part.contexts),
            thousands(self.part.d_vocab),
            nats(Nats(self.part.floor_nats).at_least())
        )))
    }

    pub(super) fn closed_form(&self) -> Section {
        let columns = [
            Column::left("construction"),
            Column::right("parameters"),
            Column::right("a context"),
            Column::right("memorized"),
            Column::right("gap").unit("nats"),
            Column::left("proof"),
        ];
        let mut table = Table::new("Models written down without training.", columns);
        let contexts = self.part.contexts.max(1);
        for b in &self.built {
            let name = Prose::new().strong(b.method).text(format!(", {}", b.words));
            table = match &b.outcome {
                Ok(o) => table.row([
                    Cell::from(name),
                    thousands(o.parameters).into(),
                    format!("{:.2}", o.parameters as f64 / contexts as f64).into(),
                    thousands(o.memorized).into(),
                    o.gap_nats.map_or_else(|| "\u{2013}".into(), nats).into(),
                    proof(o),
                ]),
                Err(why) => table.row([
                    Cell::from(name),
                    Cell::none(),
                    Cell::none(),
                    Cell::none(),
                    Cell::none(),
                    Cell::status(Status::Neutral, format!("not built: {why}")),
                ]),
            };
        }
        Section::new("Written down, not trained")
            .anchor("built")
            .paragraph(
                "Three papers prove that weights which memorize any text exist; these are such weights. A certificate is a \
                 theorem about the stored numbers: every logit is enclosed by arithmetic that accounts for all rounding, \
                 and in every context the most frequent next token is ahead. kajitsuka2024 is evaluated in whole numbers, without \
                 any rounding; its few parameters are long: it saves parameters, not storage.",
            )
            .table(table)
    }

    pub(super) fn training(&self) -> Section {
        let columns = [
            Column::right("neurons"),
            Column::right("parameters"),
            Column::right("steps"),
            Column::left("ended"),
            Column::right("gap").unit("nats"),
            if self.part.floor_nats > 0.0 {
                Column::right("of the floor")
            } else {
                Column::right("gap a prediction").unit("nats")
            },
            Column::right("memorized"),
        ];
        let mut table = Table::new("Training, by the number of hidden neurons.", columns);
        let mut figure = Figure::new(
            "The gap to the floor while training",
            Axis::linear("steps"),
            Axis::log("gap to the floor (nats)"),
        );
        for t in &self.trained {
            let row = &t.row;
            let reached = row.relative_gap().is_some_and(|g| g <= 0.01);
            let cells: Vec<Cell> = match &row.result {
                Some(r) => vec![
                    thousands(row.d_mlp).into(),
                    thousands(row.parameters).into(),
                    thousands(r.steps).into(),
                    Cell::status(if reached { Status::Good } else { Status::Caution }, r.stop.clone()),
                    nats(r.gap_nats).into(),
                    self.relative(row.relative_gap().unwrap_or(f64::NAN), 2).into(),
                    thousands(r.memorized).into(),
                ],
                None => {
                    let why = row.error.clone().unwrap_or_default();
                    let mut cells = vec![
                        Cell::from(thousands(row.d_mlp)),
                        thousands(row.parameters).into(),
                        Cell::none(),
                    ];
                    cells.push(Cell::status(Status::Bad, why));
                    cells.extend([Cell::none(), Cell::none(), Cell::none()]);
                    cells
                }
            };
            table = table.row(cells);
            let points: Vec<(f64, f64)> = t.curve.iter().copied().filter(|p| p.1 > 0.0).collect();
            if points.len() > 1 {
                let label = format!("{} neurons", thousands(row.d_mlp));
                figure = figure.line(Line::new(format!("width {}", row.d_mlp), label, points));
            }
        }
        if self.part.floor_nats > 0.0 {
            figure = figure.horizontal(0.01 * self.part.floor_nats, "1% of the floor");
        }
        let mut section = Section::new("Trained")
            .anchor("trained")
            .paragraph(
                "One-layer transformers with one head, width 16 and GELU neurons (the experiments of madden2024), trained \
                 on all contexts at once until the loss is within 1% of the floor, it stands still, or the steps are \
                 used up.",
            );
        if self.trained.iter().any(|t| t.curve.len() > 1) {
            section = section.exhibit(
                Exhibit::new(figure)
                    .name("training")
                    .alt("The gap to the floor against the steps of training, a line a width.")
                    .caption(self.training_caption()),
            );
        }
        section = section.table(table);
        let gaps: Vec<(f64, f64)> = self
            .trained
            .iter()
            .filter_map(|t| Some((t.row.d_mlp as f64, t.row.relative_gap().filter(|g| *g > 0.0)?)))
            .collect();
        if gaps.len() > 1 {
            let figure = Figure::new(
                "Where the floor is reached",
                Axis::log("hidden neurons"),
                Axis::log(if self.part.floor_nats > 0.0 {
                    "gap by floor"
                } else {
                    "gap (nats a prediction)"
                }),
            )
            .line(Line::new("trained", "trained", gaps.clone()).with_markers())
            .points(Points::new("trained", "", gaps))
            .horizontal(0.01, if self.part.floor_nats > 0.0 { "1%" } else { "0.01" })
            .vertical(self.part.contexts as f64, "one neuron a context: guaranteed");
            section = section.exhibit(
                Exhibit::new(figure)
                    .name("widths")
                    .alt(
                        "The gap relative to the floor at the end of training against the number of neurons.",
                    )
                    .caption(self.widths_caption()),
            );
        }
        section
    }

    /// A gap by the floor, or in nats a prediction where the floor is 0.
    fn relative(&self, gap: f64, digits: usize) -> String {
        match self.part.floor_nats > 0.0 {
            true => format!("{:.digits$}%", 100.0 * gap),
            false => format!("{gap:.3}"),
        }
    }

    /// What the curves show.
    fn training_caption(&self) -> &'static str {
        let ended =
            |stop: &str| self.trained.iter().any(|t| t.row.result.as_ref().is_some_and(|r| r.stop == stop));
        match (self.threshold().is_some(), ended("stalled"), ended("steps")) {
            (true, true, _) => "Too few neurons stand still above the floor; enough of them fall to it.",
            (true, false, true) => {
                "Enough neurons fall to the floor; where the steps ran out, more of them might too."
            }
            (true, false, false) => "Every width falls to the floor.",
            (false, _, true) => {
                "The steps ran out before the floor was reached: this says nothing of how many neurons it takes."
            }
            (false, true, false) => "Every width stands still above the floor.",
            (false, false, false) => "No width reached the floor.",
        }
    }

    /// What the widths show.
    fn widths_caption(&self) -> String {
        match self.threshold() {
            Some(t) if 2 * t.row.d_mlp <= self.part.contexts => format!(
                "Training needs {} neurons at most; the theorem, which holds for any text, asks for {}.",
                thousands(t.row.d_mlp),
                thousands(self.part.contexts)
            ),
            Some(t) => format!("The floor is reached with {} neurons.", thousands(t.row.d_mlp)),
            None => "No width reached the floor within the steps given.".into(),
        }
    }

    pub(super) fn learning_in_context(&self) -> Section {
        let first = &self.in_context[0];
        let (sequences, at) = (first.errors.len(), 60.min(first.errors.len()));
        let figure = errors_against_t(
            "Predicting a sequence never seen before",
            "Random linear maps, mean over sequences.",
            &self.in_context,
            1.0,
        );
        let mut lines = Vec::new();
        for s in &self.in_context {
            if let Some(e) = s.errors.get(at.saturating_sub(1)) {
                lines.push(format!("{}: squared error {} at t = {at}", s.label, nats(e.squared_error)));
            }
        }
        Section::new("Learning in the context instead")
            .anchor("in-context")
            .paragraph(Prose::parse(&format!(
                "Nothing above generalises: memorizing is all it does. A causal transformer can also *learn* while it reads. These \
                 networks (sander2024) are written down, not trained, and know nothing of the map that makes the sequence: each \
                 layer is one step of a descent on what was seen so far, over {sequences} vectors."
            )))
            .list(lines)
            .exhibit(
                Exhibit::new(figure)
                    .name("in-context")
                    .alt("Squared error of the next vector against the vectors seen, for networks of several depths.")
                    .caption("The more layers, the nearer to the limit; the longer the context, the smaller the error."),
            )
    }

    pub(super) fn worst_contexts(&self) -> Section {
        let columns = [
            Column::left("context"),
            Column::right("count"),
            Column::left("followed by"),
            Column::left("the model expects"),
            Column::right("with"),
            Column::right("KL").unit("nats"),
        ];
        let mut table = Table::new("The contexts that cost the best trained model most.", columns);
        for w in &self.worst {
            table = table.row([
                Cell::from(Prose::new().quote(w.text.clone())),
                thousands(w.count).into(),
                Prose::new().quote(w.next.clone()).into(),
                Prose::new().quote(w.predicted.clone()).into(),
                format!("{:.1}%", 100.0 * w.probability).into(),
                nats(w.kl_nats).into(),
            ]);
        }
        Section::new("What is remembered worst").anchor("worst").table(table)
    }
}

fn proof(outcome: &BuiltOutcome) -> Cell {
    match &outcome.certificate {
        Certificate::Enclosed(c) => match c.verdict {
            certify::Verdict::Certified => {
                let margin = match c.min_margin_lower_bound.0 < f64::MAX {
                    true => format!("certified: margin at least {}", nats(c.min_margin_lower_bound)),
                    false => "certified: there is no other token".into(),
                };
                // A gap is one of distributions; a model of labels alone has none to speak of.
                let gap = format!(", gap at most {}", nats(c.gap_nats_upper_bound));
                Cell::status(Status::Good, if outcome.gap_nats.is_some() { margin + &gap } else { margin })
            }
            certify::Verdict::Refuted => Cell::status(
                Status::Caution,
                format!(
                    "{} of {} contexts certified",
                    thousands(c.certified_contexts),
                    thousands(c.contexts)
                ),
            ),
            certify::Verdict::Undecided => Cell::status(
                Status::Caution,
                format!(
                    "{} of {} contexts certified, {} undecided",
                    thousands(c.certified_contexts),
                    thousands(c.contexts),
                    thousands(c.undecided_contexts)
                ),
            ),
        },
        Certificate::Exact(n) => {
            Cell::status(Status::Good, format!("all {} verified in exact arithmetic", thousands(*n)))
        }
    }
}

fn family_row(f: &Family) -> [Cell; 6] {
    let size = |get: fn(&crate::model::Shape) -> u64| {
        f.shape.as_ref().map_or("\u{2013}".to_owned(), |s| thousands(get(s)))
    };
    let guarantee = match f.guarantee {
        Guarantee::Proved => Cell::status(Status::Good, "guaranteed"),
        Guarantee::Conditional => Cell::status(Status::Caution, f.reason.clone().unwrap_or_default()),
        Guarantee::Unproved => {
            Cell::status(Status::Neutral, format!("not guaranteed: {}", f.reason.clone().unwrap_or_default()))
        }
    };
    [
        f.name.into(),
        f.task.to_string().into(),
        size(|s| s.d_model).into(),
        size(|s| s.d_mlp).into(),
        thousands(u64::try_from(f.parameters).unwrap_or(u64::MAX)).into(),
        guarantee,
    ]
}
