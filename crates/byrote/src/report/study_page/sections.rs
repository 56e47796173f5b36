//! The sections of a study's page.

use crate::bounds::families::{Family, Guarantee};
use crate::bounds::{self, CorpusFacts, Situation};
use crate::certify;
use crate::corpus::LengthSummary;
use crate::model::Counting;
use crate::output::csv_text;
use crate::report::bounds_figure::capacity;
use crate::report::incontext_figure::errors_against_t;
use crate::report::numbers::{nats, sentence, share_of_floor, thousands, visible};
use crate::study::{BuildOutcome, BuiltModel, ModelProof, Study, TrainedModel};
use crate::train::StopKind;
use crate::units::Nats;
use byrote_figures::html::{Callout, Cell, Column, Exhibit, KeyFigure, Prose, Section, Status, Table};
use byrote_figures::{Axis, Figure, Line, Points};

impl Study {
    pub(super) fn answer(&self) -> Section {
        let certified = self.built.iter().any(|b| {
            matches!(b.model(), Some(BuiltModel { certificate: ModelProof::Enclosed(c), .. })
                if c.verdict == certify::Verdict::Certified)
        });
        let status = if certified { Status::Good } else { Status::Neutral };
        let lines = self.verdict();
        let verdict = lines
            .iter()
            .skip(1)
            .fold(Callout::new(status, lines[0].as_str()), |v, line| v.line(line.as_str()));
        let s = &self.summary;
        let each = s.floor_nats_per_prediction.unwrap_or_default();
        Section::new("The answer").callout(verdict).key_figures([
            KeyFigure::new("floor per prediction", format!("{:.4}", each.at_least()), "nats")
                .detail(format!("{:.4} bits", each.bits_at_least())),
            KeyFigure::new("floor in total", nats(s.floor_nats.at_least()), "nats"),
            KeyFigure::new("contexts", thousands(s.contexts), ""),
            KeyFigure::new("predictions", thousands(s.predictions), ""),
            KeyFigure::new("vocabulary", thousands(s.d_vocab), "tokens"),
        ])
    }

    pub(super) fn corpus(&self) -> Section {
        let s = &self.summary;
        let seen = s.by_length.iter().filter(|l| l.contexts > 0);
        let bits = seen.map(|l| (f64::from(l.length), per_prediction(l).bits())).collect::<Vec<_>>();
        let figure = Figure::new(
            "The floor by context length",
            Axis::linear("context length (tokens)"),
            Axis::linear("floor (bits per prediction)").from_zero(),
        )
        .line(Line::new("floor", "floor", bits).with_markers());
        if let Some(windows) = &s.windows {
            return self.windows(s, windows, figure);
        }
        let left_out = match s.tokens_left_out {
            0 => String::new(),
            n => format!(" ({} tokens here)", thousands(n)),
        };
        Section::new("The text and its floor")
            .anchor("corpus")
            .paragraph(Prose::parse(&format!(
                "The text has {} documents and {} tokens, {} of them distinct. A *context* is the beginning of a document, at \
                 most {} tokens long, that is followed by another token; tokens beyond the first {} of a document are left \
                 out{left_out}. {} contexts always have the same next token, {} have several. Where several tokens follow, no model \
                 that sees only the context can know which one comes: the entropy of the next token, summed over all \
                 predictions, is the *floor*, the lowest training loss that any such model can reach.",
                thousands(s.documents),
                thousands(s.tokens),
                thousands(s.d_vocab),
                s.n_ctx,
                s.n_ctx + 1,
                thousands(s.deterministic_contexts),
                thousands(s.contradictions()),
            )))
            .exhibit(
                Exhibit::new(figure)
                    .name("floor-by-length")
                    .alt("The floor in bits per prediction against the length of the context.")
                    .caption("The average entropy of the next token, given the whole context, for contexts of each length."),
            )
            .table(floor_table(&s.by_length))
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
                    .alt("Contexts that a model can store against its parameters, one line per published bound, with this corpus.")
                    .caption(
                        "The bounds that apply. A model above a line marked \u{201c}at most\u{201d} cannot hold every choice of \
                         targets; that says nothing about this one corpus. Dashed lines are known only up to a constant.",
                    ),
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
        let mut table = Table::new("The smallest models that the theorems give for this corpus.", columns);
        for f in &families {
            table = table.row(family_row(f));
        }
        section.table(table)
    }

    pub(super) fn about_part(&self) -> Section {
        Section::new("The part used for building and training").anchor("part").note(Prose::parse(&format!(
            "The floor and the bounds above are those of the whole text. Models were built and trained on **{}**: {} \
             contexts over {} distinct tokens, with a floor of {} nats in total, {} nats per prediction. {}",
            self.part.in_words(&self.summary),
            thousands(self.part.contexts),
            thousands(self.part.d_vocab),
            nats(self.part.floor_nats.at_least()),
            self.part.floor_nats.per(self.part.predictions).map_or("0".into(), |n| nats(n.at_least())),
            match self.summary.windows {
                Some(_) => "Fewer windows are easier to tell apart, so their floor is lower than that of the text.",
                None => "A full study uses all of it.",
            }
        )))
    }

    pub(super) fn closed_form(&self) -> Section {
        let columns = [
            Column::left("construction"),
            Column::right("parameters"),
            Column::right("non-zero"),
            Column::right("per context"),
            Column::right("memorized"),
            Column::right("gap").unit("nats per prediction"),
            Column::left("proof"),
        ];
        let mut table = Table::new("Models whose weights were computed without training.", columns);
        let contexts = self.part.contexts.max(1);
        for b in &self.built {
            let name = Prose::new().strong(b.method.as_str()).text(format!(", {}", b.words));
            table = match &b.outcome {
                BuildOutcome::Built(o) => table.row([
                    Cell::from(name),
                    thousands(o.parameters).into(),
                    o.counts.map_or_else(Cell::none, |c| thousands(c.total(Counting::Nonzero) as u64).into()),
                    format!("{:.2}", o.parameters as f64 / contexts as f64).into(),
                    thousands(o.memorized).into(),
                    o.gap_nats
                        .map_or_else(
                            || "\u{2013}".into(),
                            |gap| nats(gap.per(self.part.predictions).unwrap_or(gap).0),
                        )
                        .into(),
                    proof(o, self.part.predictions),
                ]),
                BuildOutcome::NotBuilt(why) => table.row([
                    Cell::from(name),
                    Cell::none(),
                    Cell::none(),
                    Cell::none(),
                    Cell::none(),
                    Cell::none(),
                    Cell::status(Status::Neutral, format!("not built: {why}")),
                ]),
            };
        }
        Section::new("Closed form: weights without training")
            .anchor("built")
            .paragraph(
                "Three papers prove that some weights memorize any text; the weights below follow their constructions. A \
                 certificate is a theorem about the stored weights in exact arithmetic: interval arithmetic encloses every \
                 logit, and in every context a most frequent next token has the largest one. \u{201c}In f64 as well\u{201d} means \
                 that this survives the rounding errors of a program that computes in f64, in any order of summation. kajitsuka2024 is evaluated in \
                 exact integers; its parameters are few but long, so it saves parameters, not storage. \
                 Most entries of its matrices are zero, and the paper counts only the non-zero ones.",
            )
            .table(table)
    }

    pub(super) fn training(&self) -> Section {
        let mut section = Section::new("Trained").anchor("trained").paragraph(
            "One-layer transformers with one head, width 16 and GELU neurons (the experiments of madden2024), trained on \
             all contexts at once until the loss is within 1% of the floor, stops falling, or the steps are used up.",
        );
        if self.trained.iter().any(|t| t.curve.len() > 1) {
            section = section.exhibit(
                Exhibit::new(self.training_figure())
                    .name("training")
                    .alt("The gap to the floor against the steps of training, one line per width.")
                    .caption(self.training_caption()),
            );
        }
        section = section.table(self.training_table());
        match self.widths_figure() {
            Some(figure) => section.exhibit(
                Exhibit::new(figure)
                    .name("widths")
                    .alt(
                        "The gap relative to the floor at the end of training against the number of neurons.",
                    )
                    .caption(self.widths_caption()),
            ),
            None => section,
        }
    }

    fn training_table(&self) -> Table {
        let relative = match self.part.floor_nats.0 > 0.0 {
            true => vec![Column::right("gap / floor")],
            false => Vec::new(),
        };
        let mut columns = vec![
            Column::right("neurons"),
            Column::right("parameters"),
            Column::right("steps"),
            Column::left("ended"),
            Column::right("gap").unit("nats per prediction"),
        ];
        columns.extend(relative);
        columns.extend([Column::right("gap").unit("nats in total"), Column::right("memorized")]);
        let width = columns.len();
        let caption = "Training, by the number of hidden neurons; the gap is the loss minus the floor.";
        let mut table = Table::new(caption, columns);
        for TrainedModel { row, .. } in &self.trained {
            let mut cells = vec![Cell::from(thousands(row.d_mlp)), thousands(row.parameters).into()];
            match &row.result {
                Some(r) => {
                    let reached = row.relative_gap().is_some_and(|g| g <= 0.01);
                    let status = if reached { Status::Good } else { Status::Caution };
                    cells.push(thousands(r.steps).into());
                    cells.push(Cell::status(status, r.stop.name()));
                    cells.push(nats(r.gap_nats / row.predictions.max(1) as f64).into());
                    if self.part.floor_nats.0 > 0.0 {
                        cells.push(row.relative_gap().map_or_else(Cell::none, |g| share_of_floor(g).into()));
                    }
                    cells.extend([Cell::from(nats(r.gap_nats)), thousands(r.memorized).into()]);
                }
                None => {
                    cells.push(Cell::none());
                    cells.push(Cell::status(Status::Bad, row.error.clone().unwrap_or_default()));
                    cells.resize_with(width, Cell::none);
                }
            }
            table = table.row(cells);
        }
        table
    }

    /// The gap against steps, one line per width.
    fn training_figure(&self) -> Figure {
        let mut figure = Figure::new(
            "The gap to the floor while training",
            Axis::linear("steps"),
            Axis::log("gap to the floor (nats per prediction)"),
        );
        for t in &self.trained {
            let each = t.row.predictions.max(1) as f64;
            let points: Vec<(f64, f64)> =
                t.curve.iter().filter(|p| p.1 > 0.0).map(|p| (p.0, p.1 / each)).collect();
            if points.len() > 1 {
                let label = format!("{} neurons", thousands(t.row.d_mlp));
                figure = figure.line(Line::new(format!("width {}", t.row.d_mlp), label, points));
            }
        }
        let predictions = self.trained.first().map_or(1, |t| t.row.predictions.max(1));
        match self.part.floor_nats.0 {
            floor if floor > 0.0 => figure.horizontal(0.01 * floor / predictions as f64, "1% of the floor"),
            _ => figure.horizontal(0.01, "0.01 nats per prediction"),
        }
    }

    /// The gap at the end of training against neurons, where two widths or more have one.
    fn widths_figure(&self) -> Option<Figure> {
        let gap = |t: &TrainedModel| Some((t.row.d_mlp as f64, t.row.relative_gap().filter(|g| *g > 0.0)?));
        let gaps: Vec<(f64, f64)> = self.trained.iter().filter_map(gap).collect();
        let (y, level) = match self.part.floor_nats.0 > 0.0 {
            true => ("gap / floor", "1%"),
            false => ("gap (nats per prediction)", "0.01"),
        };
        (gaps.len() > 1).then(|| {
            Figure::new("Where the floor is reached", Axis::log("hidden neurons"), Axis::log(y))
                .line(Line::new("trained", "trained", gaps.clone()).with_markers())
                .points(Points::new("trained", "", gaps))
                .horizontal(0.01, level)
                .vertical(self.part.contexts as f64, "one neuron per context: guaranteed")
        })
    }

    /// Says what the curves show.
    fn training_caption(&self) -> String {
        let level = match self.part.floor_nats.0 > 0.0 {
            true => "1% of the floor",
            false => "0.01 nats per prediction",
        };
        let ended = |stop: StopKind| {
            self.trained.iter().any(|t| t.row.result.as_ref().is_some_and(|r| r.stop == stop))
        };
        match (self.threshold().is_some(), ended(StopKind::Stalled), ended(StopKind::Steps)) {
            (true, true, _) => {
                format!(
                    "With too few neurons the gap stops falling too early; with enough neurons it falls to {level}."
                )
            }
            (true, false, true) => format!(
                "With enough neurons the gap falls to {level}; widths that ran out of steps might get there with more."
            ),
            (true, false, false) => format!("The gap of every width falls to {level}."),
            (false, _, true) => format!(
                "The steps ran out before the gap fell to {level}, so this does not show how many neurons that takes."
            ),
            (false, true, false) => "Every width stops improving above the floor.".into(),
            (false, false, false) => "No width reached the floor.".into(),
        }
    }

    /// Says what the widths show.
    fn widths_caption(&self) -> String {
        match self.threshold() {
            Some(t) if 2 * t.row.d_mlp <= self.part.contexts => format!(
                "Training reached the target with {} neurons; the theorem, which holds for any text, guarantees that {} suffice.",
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
        Section::new("Learning in context instead")
            .anchor("in-context")
            .paragraph(Prose::parse(&format!(
                "Nothing above generalizes: the models only memorize. A causal transformer can also *learn* while it reads. These \
                 networks (sander2024) are constructed, not trained, and know nothing of the map that generates the sequence: \
                 each layer is one step of gradient descent on the vectors seen so far, over {sequences} vectors."
            )))
            .list(lines)
            .exhibit(
                Exhibit::new(figure)
                    .name("in-context")
                    .alt("Squared error of the next vector against the vectors seen, for networks of several depths.")
                    .caption("More layers come closer to the limit; longer contexts give smaller errors."),
            )
    }

    pub(super) fn worst_contexts(&self) -> Section {
        let columns = [
            Column::left("context"),
            Column::right("count"),
            Column::left("followed by"),
            Column::left("model's first guess"),
            Column::right("probability"),
            Column::right("KL").unit("nats"),
        ];
        let mut table = Table::new("The contexts that cost the best trained model the most.", columns);
        for w in &self.worst {
            table = table.row([
                Cell::from(Prose::new().quote(visible(&w.text))),
                thousands(w.count).into(),
                Prose::new().quote(visible(&w.next)).into(),
                Prose::new().quote(visible(&w.predicted)).into(),
                format!("{:.1}%", 100.0 * w.probability).into(),
                nats(w.kl_nats.0).into(),
            ]);
        }
        Section::new("The worst-remembered contexts").anchor("worst").table(table)
    }
}

/// The floor of one length, per prediction.
fn per_prediction(l: &LengthSummary) -> Nats {
    l.floor_nats.per(l.predictions).unwrap_or_default()
}

pub(super) fn floor_table(lengths: &[LengthSummary]) -> Table {
    let columns = [
        Column::right("length"),
        Column::right("contexts"),
        Column::right("predictions"),
        Column::right("floor").unit("nats per prediction"),
        Column::right("floor").unit("bits per prediction"),
        Column::right("floor").unit("nats in total"),
    ];
    let row = |l: &LengthSummary| {
        let each = per_prediction(l);
        [
            l.length.to_string(),
            thousands(l.contexts),
            thousands(l.predictions),
            format!("{:.4}", each.at_least()),
            format!("{:.4}", each.bits_at_least()),
            nats(l.floor_nats.at_least()),
        ]
    };
    let plain = |l: &LengthSummary| {
        [l.length.to_string(), l.contexts.to_string(), l.predictions.to_string(), l.floor_nats.0.to_string()]
    };
    let csv = csv_text(["length", "contexts", "predictions", "floor_nats"], lengths.iter().map(plain));
    let table = Table::new("The floor by context length.", columns);
    lengths.iter().map(row).fold(table, Table::row).csv("floor-by-length.csv", csv)
}

fn proof(outcome: &BuiltModel, predictions: u64) -> Cell {
    match &outcome.certificate {
        ModelProof::Enclosed(c) => match c.verdict {
            certify::Verdict::Certified => {
                let margin = match c.min_margin_lower_bound.0 < f64::MAX {
                    true => format!("certified: margin at least {}", nats(c.min_margin_lower_bound)),
                    false => "certified: there is no other token".into(),
                };
                // A model of labels alone has no distributions, hence no gap.
                let gap = match outcome.gap_nats {
                    Some(_) => format!(
                        ", gap at most {} nats per prediction ({} nats in total)",
                        nats(c.gap_nats_upper_bound.per(predictions)),
                        nats(c.gap_nats_upper_bound)
                    ),
                    None => String::new(),
                };
                let computed = &c.floating_point;
                let (status, computed) = match computed.verdict {
                    certify::Verdict::Certified => (Status::Good, "in f64 as well".to_owned()),
                    verdict => (
                        Status::Caution,
                        format!(
                            "in f64 {}, {} of {} contexts certified",
                            verdict.name(),
                            thousands(computed.certified_contexts),
                            thousands(c.contexts)
                        ),
                    ),
                };
                Cell::status(status, format!("{margin}{gap}; {computed}"))
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
        ModelProof::Exact(n) => {
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
