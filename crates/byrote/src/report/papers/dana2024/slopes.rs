//! Figure 2b: with d = d_h, the growth of accuracy with the heads against d.

use super::{Agreement, Claim, FULL_MEMORY, Family, Paper, agreement, d_model, described, heads};
use super::{law_json, means, protocols};
use crate::Result;
use crate::fit::{self, Law, Point, ResidualScale};
use crate::report::laws::{Question, parameters};
use crate::sweep::{JobRow, Record};
use byrote_figures::html::{Exhibit, Section};
use byrote_figures::{Axis, Figure, Points};
use serde_json::json;

const LAWS: &[Law] = &[Law::Linear, Law::Square, Law::Quadratic, Law::Cube, Law::CubicFromZero, Law::Power];
const CLAIMED: &[Law] = &[Law::Cube, Law::CubicFromZero, Law::Cubic];

/// The page of the figure.
pub(super) fn page(record: &Record) -> Result<Paper> {
    let title = "dana2024, figure 2b: growth with the heads, against the width";
    let mut figure =
        Figure::new(title, Axis::linear("width d = d_h"), Axis::linear("accuracy per head").from_zero());
    let (mut claims, mut sections, mut json) = (Vec::new(), Vec::new(), json!({}));
    let mut found = Vec::new();
    for family in Family::ALL {
        let slopes = slopes_by_width(family, &family.rows(record));
        let (mean, ends) = means(&slopes);
        let Ok(points) = fit::Points::new(slopes) else { continue };
        let question = Question {
            name: family.key(),
            title: family.words(),
            x: Axis::linear("width d = d_h"),
            y: Axis::linear("accuracy per head"),
            points: &points,
            laws: LAWS,
            drawn: Law::Cube,
            scale: ResidualScale::Plain,
        };
        let answer = question.answer()?;
        figure = answer
            .drawn_in(figure, family.key(), family.words())
            .points(Points::new(family.key(), family.words(), mean).with_errors(ends).form(family.form()));
        let power = answer.comparison.row(Law::Power).map(parameters).unwrap_or_default();
        let exponent =
            answer.comparison.row(Law::Power).and_then(|r| r.replicates.as_ref()?.interval("p").copied());
        // A cubic whose leading coefficient may be 0 is a parabola: the coefficient must be clearly above 0, or the interval of the
        // exponent must contain 3.
        let cubic = answer.comparison.row(Law::CubicFromZero);
        let cubed =
            cubic.and_then(|r| r.replicates.as_ref()?.interval("d").copied()).is_some_and(|d| d.low > 0.0);
        let third = exponent.is_none_or(|p| p.holds(3.0));
        let supported = answer.comparison.verdict.laws().contains(&Law::Cube);
        let agrees = match agreement(&answer.comparison, CLAIMED) {
            Agreement::Yes | Agreement::Nearly if !(supported || cubed || third) => Agreement::No,
            agrees => agrees,
        };
        found.push((family, agrees));
        claims.push(Claim::new(
            "the growth with the heads is cubic in d where d = d_h.",
            format!("with {}, {}; as b x^p: {power}.", family.named(), answer.comparison.sentence),
            agrees,
        ));
        json[family.key()] = law_json(&answer.comparison);
        let section =
            Section::new(format!("Laws for {}", family.words())).anchor(format!("laws-{}", family.key()));
        sections.push(question.show(section, &answer));
    }
    let mut first = Section::new("Growth with the heads").anchor("slopes").exhibit(
        Exhibit::new(figure)
            .name("slopes")
            .alt("The slope of accuracy over heads against the width, for three families of training runs.")
            .caption("Each point is the slope of a line through the accuracies at several numbers of heads, before the memory is full."),
    );
    if let Some(words) = described("The cubic law that the paper reports", &found) {
        first = first.paragraph(words);
    }
    first = first.paragraph(
        "Where d = d_h, the authors' program has no shared map, so its model differs from the paper's only in where positions \
         are added.",
    );
    sections.insert(0, first);
    sections.push(protocols(record));
    Ok(Paper {
        title: title.into(),
        subtitle: "The associations that attention alone learns.".into(),
        claims,
        sections,
        json: json!({ "laws": json }),
        references: &["dana2024"],
    })
}

/// The slope of accuracy over heads for every width and seed, before the memory is full.
fn slopes_by_width(family: Family, rows: &[&JobRow]) -> Vec<Point> {
    let accuracy = |r: &JobRow| family.accuracy(r);
    let mut rows: Vec<&JobRow> = rows.iter().copied().filter(|r| accuracy(r) < FULL_MEMORY).collect();
    let group = |r: &JobRow| (r.settings.model.width(), r.settings.seed);
    rows.sort_by_key(|r| (group(r), r.n_heads));
    let slope = |part: &[&JobRow]| {
        let n = part.len() as f64;
        let (x, y) = part.iter().fold((0.0, 0.0), |(x, y), r| (x + heads(r) / n, y + accuracy(r) / n));
        let (xy, xx) = part.iter().fold((0.0, 0.0), |(xy, xx), r| {
            (xy + (heads(r) - x) * (accuracy(r) - y), xx + (heads(r) - x) * (heads(r) - x))
        });
        (xx > 0.0).then(|| Point::new(d_model(part[0]), xy / xx, part[0].settings.seed))
    };
    rows.chunk_by(|a, b| group(a) == group(b)).filter_map(slope).collect()
}
