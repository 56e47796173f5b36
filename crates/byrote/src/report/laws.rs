//! A law through measurements, as a page shows it: the curve with its interval, the comparison, the residuals.

use super::averages::{Mean, by_size};
use super::numbers::{brief, sentence};
use crate::Result;
use crate::fit::{self, CompareSettings, Comparison, FitMethod, Law, ResidualScale, bootstrap, compare};
use byrote_figures::html::{Cell, Column, Exhibit, Section, Status, Table};
use byrote_figures::{Axis, Band, Figure, Line, Points, ScaleKind, residuals};

/// Measurements to fit, and how to name them.
pub(super) struct Question<'a> {
    /// A file name of letters and hyphens.
    pub name: &'a str,
    /// A title for the measurements.
    pub title: &'a str,
    /// The size.
    pub x: Axis,
    /// The measurement.
    pub y: Axis,
    /// The measurements, one group per seed.
    pub points: &'a fit::Points,
    /// The laws to compare.
    pub laws: &'a [Law],
    /// The paper's law, which is drawn where no law is supported.
    pub drawn: Law,
    /// The scale on which the errors of the measurements are equal.
    pub scale: ResidualScale,
}

/// The answer to a question.
pub(super) struct Answer {
    /// All laws, compared.
    pub comparison: Comparison,
    /// The measurements with the law through them; pages add to it.
    pub figure: Figure,
    /// The law that is drawn.
    pub law: Law,
}

impl Answer {
    /// Adds the law to the figure of several measurements, in the colour of a key.
    pub fn drawn_in(&self, mut figure: Figure, key: &str, words: &str) -> Figure {
        for mut band in self.figure.bands.iter().cloned() {
            key.clone_into(&mut band.key);
            figure = figure.band(band);
        }
        for mut line in self.figure.lines.iter().cloned() {
            key.clone_into(&mut line.key);
            line.label = format!("{words}: {} law", self.law);
            figure = figure.line(line);
        }
        figure
    }
}

impl Question<'_> {
    /// Compares the laws and draws the supported one, or the paper's if none is.
    pub fn answer(&self) -> Result<Answer> {
        self.answer_with(|comparison| comparison.verdict.laws().first().copied())
    }

    /// Compares the laws and draws the paper's, whichever is supported.
    pub fn answer_by_the_papers_law(&self) -> Result<Answer> {
        self.answer_with(|_| None)
    }

    fn answer_with(&self, law: impl Fn(&Comparison) -> Option<Law>) -> Result<Answer> {
        let method = FitMethod { scale: self.scale, ..FitMethod::default() };
        let settings = CompareSettings { method, ..CompareSettings::default() };
        let mut comparison = compare(self.points, self.laws, &settings)?;
        // The paper's law gets its intervals even where another fits better.
        if let Some(row) = comparison.rows.iter_mut().find(|r| r.law == self.drawn && r.replicates.is_none())
            && let Some(fit) = &row.fit
        {
            row.replicates = Some(bootstrap(self.points, fit, &settings.bootstrap)?);
        }
        comparison.assume();
        let law = law(&comparison).unwrap_or(self.drawn);
        let mut figure = Figure::new(self.title, self.x.clone(), self.y.clone());
        let (points, errors) = by_size(self.points.as_slice().iter().map(|p| (p.x, p.y)), Mean::Plain);
        let (first, last) = (points.first().map_or(0.0, |p| p.0), points.last().map_or(1.0, |p| p.0));
        if let Some(row) = comparison.row(law)
            && let Some(fit) = &row.fit
        {
            let part = |i: i32| f64::from(i) / 80.0;
            let x: Vec<f64> = match self.x.kind {
                ScaleKind::Linear => (0..=80).map(|i| first + (last - first) * part(i)).collect(),
                ScaleKind::Log10 => (0..=80).map(|i| first * (last / first).powf(part(i))).collect(),
            };
            if let Some(band) = row.replicates.as_ref().and_then(|r| r.band(&x)) {
                figure = figure.band(Band::new("law", "", band.iter().map(|b| (b.x, b.low, b.high))));
            }
            let line = x.iter().map(|&x| (x, fit.value(x)));
            figure = figure.line(Line::new("law", format!("{law} law"), line));
        }
        let seeds = self.points.groups().len();
        let mut measured = Points::new("measured", "measured", points);
        if seeds > 1 {
            measured = measured.with_errors(errors);
        }
        Ok(Answer { comparison, figure: figure.points(measured), law })
    }

    /// The residuals of the law that is drawn.
    fn residual_figure(&self, answer: &Answer) -> Option<Figure> {
        let fit = answer.comparison.row(answer.law)?.fit.as_ref()?;
        let points = Points::new("measured", "", fit.residuals.iter().map(|r| (r.x, r.residual)));
        let title = format!("{}: residuals of the {} law", self.title, answer.law);
        let what = match self.scale {
            ResidualScale::Plain => "measured - fitted",
            ResidualScale::Relative => "ln measured - ln fitted",
        };
        Some(residuals(title, self.x.clone(), what, vec![points]))
    }

    /// Shows the comparison as a sentence, a table and residuals.
    pub fn show(&self, section: Section, answer: &Answer) -> Section {
        let c = &answer.comparison;
        let columns = [
            Column::left("law"),
            Column::left("with 95% intervals"),
            Column::right("R\u{b2}"),
            Column::right("AICc").unit("above the best"),
            Column::left("judged"),
        ];
        let seeds = if c.n_groups > 1 { format!(", {} seeds", c.n_groups) } else { String::new() };
        let caption = format!("Laws compared on {} measurements at {} sizes{seeds}.", c.n_points, c.n_sizes);
        let mut table = Table::new(caption, columns);
        for row in &c.rows {
            let supported = c.verdict.laws().contains(&row.law);
            let judged = match (supported, row.doubts.first()) {
                (true, _) => Cell::status(Status::Good, "supported"),
                (_, Some(doubt)) => Cell::status(Status::Neutral, doubt.sentence()),
                _ => Cell::status(Status::Neutral, "another law fits better"),
            };
            table = table.row([
                Cell::from(row.law.formula().to_owned()),
                parameters(row).into(),
                row.fit
                    .as_ref()
                    .and_then(|f| f.r_squared)
                    .map_or_else(Cell::none, |r| format!("{r:.4}").into()),
                row.delta.map_or_else(Cell::none, |d| format!("{d:.1}").into()),
                judged,
            ]);
        }
        let mut section = section.paragraph(sentence(&c.sentence)).table(table);
        if let Some(assumption) = &c.assumption {
            section = section.note(format!("The 95% intervals assume that {assumption}."));
        }
        match self.residual_figure(answer) {
            Some(figure) => {
                let alt = format!("Residuals of the {} law against {}.", answer.law, self.x.label);
                let caption = "Residuals should scatter around zero without a pattern.";
                section.exhibit(
                    Exhibit::new(figure).name(format!("{}-residuals", self.name)).alt(alt).caption(caption),
                )
            }
            None => section,
        }
    }
}

/// Lists the parameters of a law, with intervals where they are known.
pub(super) fn parameters(row: &fit::LawRow) -> String {
    let Some(fit) = &row.fit else { return String::new() };
    let one = |p: &fit::Parameter| {
        let interval = row.replicates.as_ref().and_then(|r| r.interval(p.name));
        match interval {
            Some(i) => format!("{} = {} ({} to {})", p.name, brief(p.value), brief(i.low), brief(i.high)),
            None => format!("{} = {}", p.name, brief(p.value)),
        }
    };
    fit.parameters.iter().map(one).collect::<Vec<_>>().join(", ")
}
