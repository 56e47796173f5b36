//! The bounds as text: the verdict first, then the rows in the order of how directly they answer.

use super::TextTable;
use crate::bounds::families::{Family, Guarantee};
use crate::bounds::{
    BoundKind, BoundRow, BoundValue, BoundsVerdict, CorpusFacts, MemorizationTask, Order, Relevance, Side,
    Situation,
};
use crate::construct::dana2024::EncoderGap;
use crate::model::{Mixer, Shape};
use crate::units::{AtMost, Nats, counted, grouped, significant};
use std::fmt::Write as _;

/// Shows bounds for a corpus, a model or both; `title` names the corpus.
pub fn bounds(
    situation: &Situation,
    title: &str,
    rows: &[BoundRow],
    families: &[Family],
    verdict: &BoundsVerdict,
) -> String {
    Text { situation, title, rows, families, verdict }.render()
}

struct Text<'a> {
    situation: &'a Situation,
    title: &'a str,
    rows: &'a [BoundRow],
    families: &'a [Family],
    verdict: &'a BoundsVerdict,
}

impl Text<'_> {
    fn render(&self) -> String {
        let mut out = subject(self.situation, self.title);
        let _ = write!(out, "\nVerdict: {}.\n", self.verdict.sentence.trim_end_matches('.'));
        out += &self.legend();
        for (relevance, title) in [
            (Relevance::Proved, "Proved, with every hypothesis checked:"),
            (Relevance::Conditional, "Proved under a condition that is not checked:"),
            (
                Relevance::Indicative,
                "Orders of growth, estimates and experiments (~ means that the constant is set to one):",
            ),
        ] {
            out += &self.group(relevance, title);
        }
        if self.rows.iter().any(|row| row.applies() && row.bound.kind == BoundKind::Necessary) {
            out += "\nA necessary bound is about every choice: the size needed to hold every possible set of targets on this \
                    many contexts. It says nothing about one given corpus, which may need far fewer parameters.\n";
        }
        out + &notes(self.rows) + &families(self.families) + &inapplicable(self.rows)
    }

    /// What the columns of the tables count.
    fn legend(&self) -> String {
        let held = match (&self.situation.shape, self.situation.parameter_count()) {
            (Some(_), _) => Some("\"contexts\" is how many contexts the model holds".to_owned()),
            (None, Some(_)) => {
                Some("\"contexts\" is how many contexts a model of this size holds".to_owned())
            }
            (None, None) => None,
        };
        let needed = self.situation.corpus.as_ref().map(|corpus| {
            format!("\"parameters\" is how many parameters {} contexts take", grouped(corpus.contexts))
        });
        let columns: Vec<_> = [held, needed].into_iter().flatten().collect();
        match columns.is_empty() || self.rows.iter().all(|row| !row.applies()) {
            true => String::new(),
            false => format!("In the tables, {}.\n", columns.join(", and ")),
        }
    }

    /// The rows of one relevance as a table, those with a number of contexts or parameters first.
    fn group(&self, relevance: Relevance, title: &str) -> String {
        let mut rows: Vec<_> = self.rows.iter().filter(|row| row.relevance() == relevance).collect();
        if rows.is_empty() {
            return String::new();
        }
        rows.sort_by_key(|row| row.contexts.is_none() && row.required_parameters.is_none());
        let corpus = self.situation.corpus.as_ref();
        let with_model = self.situation.parameter_count().is_some();
        let mut heads = vec!["bound", "task", "kind"];
        heads.extend(with_model.then_some("contexts"));
        heads.extend(corpus.map(|_| "parameters"));
        let mut table = TextTable::new(&heads, &[0, 1, 2]);
        for row in rows {
            let task = match row.bound.task {
                MemorizationTask::SequenceToSequence => "seq-to-seq".into(),
                task => task.to_string(),
            };
            let mut cells = vec![row.bound.key.to_owned(), task, row.bound.kind.to_string()];
            if with_model {
                cells.push(row.contexts.map_or("-".into(), |held| holds(row, held)));
            }
            if corpus.is_some() {
                cells.push(row.required_parameters.map_or("-".into(), |needed| needs(row, needed)));
            }
            table.row(cells);
            table.note(remarks(row));
        }
        format!("\n{title}\n{}", table.fitted(&[1, 2]))
    }
}

/// The corpus and the model that the bounds are evaluated for.
fn subject(situation: &Situation, title: &str) -> String {
    let mut out = situation.corpus.as_ref().map(|corpus| about_corpus(corpus, title)).unwrap_or_default();
    if let Some(shape) = &situation.shape {
        out += &about_shape(shape, situation.parameter_count());
    } else if let Some(k) = situation.parameters {
        let tokens = situation.vocabulary().map(|omega| format!(", {}", counted(omega, "token")));
        let n_ctx = situation.longest_context().map(|n| format!(", contexts up to {n}"));
        let sizes = [tokens, n_ctx].into_iter().flatten().collect::<String>();
        let _ = writeln!(out, "model   {} parameters{sizes}", grouped(k));
    }
    out
}

fn about_corpus(corpus: &CorpusFacts, title: &str) -> String {
    let mut out = format!(
        "corpus  {title}: {}, {}, longest context {}\n",
        counted(corpus.contexts, "context"),
        counted(corpus.d_vocab, "token"),
        corpus.longest_context()
    );
    if corpus.contradictions() > 0 {
        let _ = writeln!(
            out,
            "        {} contexts have more than one next token; as an association, the most frequent one counts",
            grouped(corpus.contradictions())
        );
    }
    out
}

fn about_shape(shape: &Shape, parameters: Option<u128>) -> String {
    let mixer = match shape.mixer {
        Mixer::Attention => {
            format!("{} head{} of {}", shape.n_heads, if shape.n_heads == 1 { "" } else { "s" }, shape.d_head)
        }
        Mixer::Average => "token averaging".into(),
        Mixer::None => "no mixer".into(),
    };
    let hidden = match shape.d_mlp {
        0 => "no hidden layer".into(),
        1 => format!("1 {} neuron", shape.activation),
        m => format!("{} {} neurons", grouped(m), shape.activation),
    };
    let blocks = shape.blocks.map_or_else(String::new, |b| format!("{} of ", counted(b.n_layers, "block")));
    format!(
        "model   {blocks}width {}, {mixer}, {hidden}, {}, contexts up to {}: {} parameters\n",
        shape.d_model,
        counted(shape.d_vocab, "token"),
        shape.n_ctx,
        parameters.map_or_else(|| "?".into(), grouped)
    )
}

/// How many contexts the model holds, and on which side of the truth that is.
fn holds(row: &BoundRow, held: BoundValue) -> String {
    match row.bound.kind.side() {
        Side::AtLeast => format!("at least {held}"),
        Side::AtMost => format!("at most {held}"),
        Side::About => about(held),
    }
}

/// How many parameters are enough for the corpus, or how many every choice of targets on as many contexts takes.
fn needs(row: &BoundRow, needed: BoundValue) -> String {
    match row.bound.kind.side() {
        Side::AtLeast => format!("{needed} are enough"),
        Side::AtMost => format!("at least {needed}"),
        Side::About => about(needed),
    }
}

fn about(value: BoundValue) -> String {
    if value.order_of().is_some() { value.to_string() } else { format!("about {value}") }
}

/// The remark under a row: its figure, its condition, and its formula where only the order is known.
fn remarks(row: &BoundRow) -> String {
    let figure = row.figure.map(|figure| {
        let side = match figure.side {
            Some(Side::AtLeast) => "at least ",
            Some(Side::AtMost) => "at most ",
            Some(Side::About) => "about ",
            None => "",
        };
        format!("{}: {side}{} {}", figure.name, figure.value, figure.unit).trim_end().to_owned()
    });
    let formula = (row.bound.order != Order::Exact).then(|| row.bound.expression.to_owned());
    let condition = row.condition.map(str::to_owned);
    [figure, formula, condition].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The notes under the table: what the numbers assume.
fn notes(rows: &[BoundRow]) -> String {
    let mut table = TextTable::new(&[], &[0, 1]);
    let mut any = false;
    for (row, note) in rows.iter().filter_map(|row| row.applies().then_some(row).zip(row.note.as_ref())) {
        table.row(vec![format!("  {}", row.bound.key), note.clone()]);
        any = true;
    }
    if any { format!("\nNotes:\n{}", table.render().trim_start_matches('\n')) } else { String::new() }
}

/// The smallest model of each family.
fn families(families: &[Family]) -> String {
    if families.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new(&["family", "task", "parameters"], &[0, 1]);
    for family in families {
        let sizes = family.shape.as_ref().map(|s| {
            let heads = match s.mixer {
                Mixer::Attention => format!(", heads {} x {}", grouped(s.n_heads), grouped(s.d_head)),
                Mixer::Average | Mixer::None => String::new(),
            };
            format!("width {}{heads}, neurons {}", grouped(s.d_model), grouped(s.d_mlp))
        });
        let reason = family.reason.clone().unwrap_or_default();
        let known = match family.guarantee {
            Guarantee::Proved => "guaranteed".into(),
            Guarantee::Conditional => reason,
            Guarantee::Unproved => format!("not guaranteed: {reason}"),
        };
        table.row([family.name.to_owned(), family.task.to_string(), grouped(family.parameters)]);
        let remarks = sizes.into_iter().chain([known]).chain(family.note.clone());
        table.note(remarks.collect::<Vec<_>>().join("; "));
    }
    format!("\nSmallest models for this corpus:\n{}", table.fitted(&[1]))
}

/// The bounds that do not apply, one line per reason.
fn inapplicable(rows: &[BoundRow]) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (row, why_not) in rows.iter().filter_map(|row| Some((row, row.why_not.as_deref()?))) {
        match reasons.iter_mut().find(|(reason, _)| *reason == why_not) {
            Some((_, keys)) => keys.push(row.bound.key),
            None => reasons.push((why_not, vec![row.bound.key])),
        }
    }
    let mut out = String::new();
    for (reason, keys) in &reasons {
        let _ = write!(out, "  {reason}:\n    {}\n", keys.join(", "));
    }
    if out.is_empty() { out } else { format!("\nNot applicable here, by reason:\n{out}") }
}

/// Shows what outputs of several widths can reach, whatever comes before them.
pub fn encoders(encoders: &[EncoderGap]) -> String {
    if encoders.is_empty() {
        return String::new();
    }
    let heads = ["output reads", "gap/prediction", "random codes", "codes found", "gap in total"];
    let mut table = TextTable::new(&heads, &[]);
    // Upper bounds, each computed with a few hundred roundings.
    let nats = |n: Option<Nats>| n.map_or("infinite".into(), |n| significant(AtMost(n.0 * (1.0 + 1e-12)), 5));
    for e in encoders {
        let note = match e.estimate {
            true => "an estimate: the best encoder found",
            false => "smoothing alone: the output is not a bottleneck",
        };
        table.row(vec![
            grouped(e.d_model),
            significant(e.gap_nats_per_prediction, 4),
            e.theorem2.map_or("-".into(), |t| nats(t.paper_nats)),
            e.theorem2.map_or("-".into(), |t| nats(t.unit_nats)),
            significant(e.gap_nats.0, 5),
        ]);
        table.note(note);
    }
    let about = "Encoders (dana2024, Propositions 1 to 3, Theorem 2): the estimated smallest gap of any model whose output \
                 reads this many numbers, in nats. \"Random codes\" and \"codes found\" are upper bounds on it, in nats per \
                 prediction.\n";
    format!("\n{about}{}", table.fitted(&[4]))
}
