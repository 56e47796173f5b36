//! The report of a study: one corpus from its floor to its worst-remembered contexts.

mod depth;
mod sections;
mod windows;

use super::new_page;
use super::numbers::{nats, references, thousands, visible};
use crate::bounds::families::Guarantee;
use crate::bounds::{self, CorpusFacts};
use crate::certify;
use crate::model::Counting;
use crate::study::{BuiltModel, ModelProof, Study, TrainedModel, WorstContext};
use crate::train::StopKind;
use byrote_figures::html::{Page, Prose};

/// A text of a corpus in quotation marks.
fn quoted(text: &str) -> String {
    format!("\u{201c}{}\u{201d}", visible(text))
}

/// The tokens that follow a context, each in quotation marks, with their counts if there are several.
fn continuations(w: &WorstContext) -> String {
    match w.next_tokens.as_slice() {
        [] => quoted(&w.next),
        [(token, _)] => quoted(token),
        several => {
            let counted = several.iter().map(|(token, n)| {
                format!("{} ({} time{})", quoted(token), thousands(*n), if *n == 1 { "" } else { "s" })
            });
            counted.collect::<Vec<_>>().join(", ")
        }
    }
}

impl Study {
    /// Five lines: floor, size, closed form, training, worst context; with models of several layers, one on depth before the last.
    pub fn verdict(&self) -> Vec<String> {
        let part = match self.part.is_all {
            true => String::new(),
            false => {
                format!(
                    " (on {}, {} contexts)",
                    self.part.in_words(&self.summary),
                    thousands(self.part.contexts)
                )
            }
        };
        let mut lines =
            vec![self.floor_line(), self.size_line(), self.built_line(&part), self.trained_line(&part)];
        if !self.deep.is_empty() {
            lines.push(self.depth_line());
        }
        lines.push(self.worst_line());
        lines
    }

    fn floor_line(&self) -> String {
        let s = &self.summary;
        let each = s.floor_nats_per_prediction.unwrap_or_default();
        let left_out = match s.tokens_left_out {
            0 => String::new(),
            n => format!(" Left out: {} tokens beyond the window.", thousands(n)),
        };
        if s.floor_nats.0 == 0.0 {
            return format!(
                "Floor: it is 0, because every context has one next token. The text has {} distinct contexts of at most {} \
                 tokens.{left_out}",
                thousands(s.contexts),
                s.n_ctx
            );
        }
        format!(
            "Floor: no model that sees only the preceding tokens of its own {} can have a training loss below {:.4} \
             nats ({:.4} bits) per prediction, {} nats in total. The text has {} distinct contexts of at most {} tokens.{left_out}",
            if s.windows.is_some() { "window" } else { "document" },
            each.at_least(),
            each.bits_at_least(),
            nats(s.floor_nats.at_least()),
            thousands(s.contexts),
            s.n_ctx
        )
    }

    fn size_line(&self) -> String {
        let facts = CorpusFacts::from(&self.summary);
        let lookup =
            bounds::families::smallest(&facts).into_iter().find(|f| f.key == "madden2024-attention-16");
        match lookup {
            Some(f) if f.guarantee == Guarantee::Proved => format!(
                "Size: {} neurons ({} parameters at width 16) are guaranteed to suffice (madden2024, Theorem 5).",
                thousands(self.summary.contexts),
                thousands(u64::try_from(f.parameters).unwrap_or(u64::MAX))
            ),
            _ => "Size: no theorem guarantees a size for this corpus.".into(),
        }
    }

    fn trained_line(&self, part: &str) -> String {
        let level = self.level();
        if let Some(t) = self.threshold() {
            return format!(
                "Trained: {} neurons ({} parameters) came within {level} of the floor in {} steps{part}; the theorem \
                 guarantees that {} neurons suffice.",
                thousands(t.row.d_mlp),
                thousands(t.row.parameters),
                thousands(t.row.result.as_ref().map_or(0, |r| r.steps)),
                thousands(self.part.contexts)
            );
        }
        let gap = |t: &TrainedModel| t.row.result.as_ref().map(|r| r.gap_nats);
        let nearest =
            self.trained.iter().filter_map(|t| Some((t, gap(t)?))).min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((t, gap)) = nearest else { return "Trained: no model was trained.".into() };
        let share = match self.part.floor_nats.0 {
            floor if floor > 0.0 && gap < floor => format!(" ({:.1}% of the floor)", 100.0 * gap / floor),
            _ => String::new(),
        };
        let ended = match t.row.result.as_ref().filter(|r| r.stop == StopKind::Steps) {
            Some(r) => format!(" after its {} steps", thousands(r.steps)),
            None => String::new(),
        };
        format!(
            "Trained: no width came within {level} of the floor{part}; the closest, {} neurons, was {} nats per prediction \
             above it{share}{ended}.",
            thousands(t.row.d_mlp),
            nats(gap / t.row.predictions.max(1) as f64)
        )
    }

    fn worst_line(&self) -> String {
        let results = self.trained.iter().filter_map(|t| t.row.result.as_ref());
        let best = results.min_by(|a, b| a.gap_nats.total_cmp(&b.gap_nats));
        match (best, self.worst.first()) {
            (Some(best), Some(worst)) => {
                format!("Worst remembered: {}.", worst_remembered(best.max_kl_nats, worst))
            }
            _ => "Worst remembered: there is no trained model to evaluate.".into(),
        }
    }

    fn built_line(&self, part: &str) -> String {
        let proven = self.built.iter().find_map(|b| {
            let outcome = b.model()?;
            match &outcome.certificate {
                ModelProof::Enclosed(c) if c.verdict == certify::Verdict::Certified => Some((b, outcome, c)),
                _ => None,
            }
        });
        let exact = self.built.iter().find_map(|b| match b.model() {
            Some(BuiltModel { counts: Some(counts), certificate: ModelProof::Exact(_), .. }) => {
                Some((&b.method, *counts))
            }
            _ => None,
        });
        let exact = exact.map_or(String::new(), |(method, counts)| {
            let [nonzero, dense] = Counting::ALL.map(|c| thousands(counts.total(c) as u64));
            format!(
                " For the most frequent next token alone, {method} takes {nonzero} non-zero parameters ({dense} counting \
                 zeros as well), verified exactly."
            )
        });
        match proven {
            Some((b, outcome, c)) => format!(
                "Closed form: {} gives weights without training: {} parameters, certified in exact arithmetic for all {} \
                 contexts, at most {} nats per prediction above the floor ({} nats in total){part}{}.{exact}",
                b.method,
                thousands(outcome.parameters),
                thousands(c.contexts),
                nats(c.gap_nats_upper_bound.per(self.part.predictions)),
                nats(c.gap_nats_upper_bound),
                match c.floating_point.verdict {
                    certify::Verdict::Certified => "; certified in f64 for all of them too".to_owned(),
                    _ => format!(
                        "; certified in f64 for {} of them",
                        thousands(c.floating_point.certified_contexts)
                    ),
                }
            ),
            None => "Closed form: no such model was certified.".into(),
        }
    }

    /// The settings of the study, with their values.
    fn settings(&self) -> Vec<(String, String)> {
        let mut settings = vec![
            ("scale".to_owned(), self.spec.scale.to_string()),
            ("seed".to_owned(), self.spec.corpus.seed.to_string()),
            ("tokenizer".to_owned(), self.summary.tokenizer.clone()),
            ("n_ctx".to_owned(), self.summary.n_ctx.to_string()),
        ];
        // What was given of the corpus beyond that, in the order of the spec.
        if let Ok(serde_json::Value::Object(given)) = serde_json::to_value(&self.spec.corpus) {
            for (name, value) in given {
                let shown = settings.iter().any(|(known, _)| *known == name);
                let text = match value {
                    serde_json::Value::Null | serde_json::Value::Bool(false) => continue,
                    serde_json::Value::Array(list) if list.is_empty() => continue,
                    serde_json::Value::String(text) => text,
                    other => other.to_string(),
                };
                if !shown {
                    settings.push((name, text));
                }
            }
        }
        settings
    }

    /// The page of the study.
    pub fn page(&self) -> Page {
        let mut page = new_page(Prose::new().text("How much of ").name(self.title.as_str()).text(" can a transformer memorize?"))
            .subtitle(
                "The lowest training loss that any model can reach on this text, published bounds on the model size this requires, \
                 transformers whose weights are computed without training, and what training reaches.",
            )
            .section(self.answer())
            .section(self.corpus())
            .section(self.bounds());
        if !self.part.is_all {
            page = page.section(self.about_part());
        }
        page = page.section(self.closed_form()).section(self.training());
        if !self.deep.is_empty() {
            page = page.section(self.depth());
        }
        if !self.worst.is_empty() {
            page = page.section(self.worst_contexts());
        }
        if !self.in_context.is_empty() {
            page = page.section(self.learning_in_context());
        }
        if let Some(command) = &self.command {
            page = page.command(command.clone());
        }
        let papers: &[&str] = match self.in_context.is_empty() {
            true => &["madden2024", "dana2024", "kajitsuka2024"],
            false => &["madden2024", "dana2024", "kajitsuka2024", "sander2024"],
        };
        for (name, value) in self.settings() {
            page = page.setting(name, value);
        }
        references(papers).into_iter().fold(page, Page::reference)
    }
}

/// Describes the context that costs a model the most, given the largest KL divergence over all contexts.
///
/// A context costs its divergence times its count, so the costliest one need not have the largest divergence.
fn worst_remembered(max_kl_nats: f64, worst: &WorstContext) -> String {
    /// The divergence of a distribution that gives the only next token a probability of 90%.
    const WELL: f64 = 0.105;
    let WorstContext { next, predicted, count, .. } = worst;
    let (text, token) = (quoted(&worst.text), quoted(next));
    let percent = 100.0 * worst.probability;
    // Several next tokens are listed with their counts, so equal texts mean a single next token.
    match (max_kl_nats, next == predicted) {
        (max, _) if max <= 1e-3 => "every context is within a thousandth of a nat of its distribution".into(),
        (max, true) if max <= WELL => format!(
            "every context is remembered well; {text} costs the most, with a probability of {percent:.1}% for its next token, \
             {token}"
        ),
        (max, false) if max <= WELL => format!(
            "every context is remembered well; {text} costs the most, with a KL divergence of {} nats",
            nats(worst.kl_nats.0)
        ),
        (_, true) if worst.kl_nats.0 <= WELL => format!(
            "{text} costs the most because it occurs {} times; the model gives its next token, {token}, a probability of \
             {percent:.1}%",
            thousands(*count)
        ),
        (_, true) => format!(
            "after {text} the text continues with {token}, to which the model assigns only {percent:.0}%"
        ),
        (_, false) => format!(
            "after {text} the text continues with {}; the model expects {} with a probability of {percent:.0}%",
            continuations(worst),
            quoted(predicted)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nats;

    #[test]
    fn the_worst_context_is_called_badly_remembered_only_if_it_is() {
        let context = |probability: f64, next: &str| WorstContext {
            text: "Simon was".into(),
            count: 7,
            next: next.into(),
            next_tokens: Vec::new(),
            predicted: "a".into(),
            probability,
            kl_nats: Nats(-probability.ln()),
        };
        let say = |max_kl_nats, probability, next| worst_remembered(max_kl_nats, &context(probability, next));
        assert!(say(5e-4, 0.9995, "a").starts_with("every context is within a thousandth"));
        assert_eq!(
            say(0.02, 0.985, "a"),
            "every context is remembered well; \u{201c}Simon was\u{201d} costs the most, with a probability of 98.5% for its next \
             token, \u{201c}a\u{201d}"
        );
        assert!(say(0.02, 0.985, "a x4, the x3").ends_with("with a KL divergence of 0.015 nats"));
        assert!(say(2.0, 0.985, "a").contains("because it occurs 7 times"));
        assert!(say(2.0, 0.6, "a").ends_with("to which the model assigns only 60%"));
        assert!(say(2.0, 0.6, "the").contains("the model expects \u{201c}a\u{201d}"));
    }
}
