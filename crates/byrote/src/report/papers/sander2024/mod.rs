//! sander2024: the pages of its figures, and of the limit of many small layers. Here figures 3 and 4: errors of causal kernel
//! descent against t.
//!
//! Reference: M. E. Sander, G. Peyre, arXiv:2410.03011 (2024), figures 3 and 4 and their captions (not checked against
//! the text).

pub mod depth;
pub mod layers;
pub mod sphere;

use super::{Agreement, Claim, Paper};
use crate::incontext::ErrorSeries;
use crate::report::incontext_figure::ROUNDING;
use crate::report::numbers::brief;
use byrote_figures::Figure;
use byrote_figures::html::{Exhibit, Page, Section};
use serde_json::Value;

/// The first step that counts: from here on a linear map in 15 dimensions has been seen in every direction.
const FROM: usize = 16;

/// The page of figure 3; every panel has a title, a figure and its curves.
pub fn fig3(panels: &[(String, Figure, Vec<ErrorSeries>)], full: bool, command: &str) -> Page {
    let claims = panels.iter().map(|(title, _, series)| {
        let falls: Vec<(String, f64)> =
            series.iter().filter_map(|s| Some((s.label.clone(), fall(s)?))).collect();
        let words: Vec<String> = falls.iter().map(|(label, f)| format!("{label}: {}", factor(*f))).collect();
        let agrees = match (falls.iter().all(|f| f.1 > 2.0), falls.iter().any(|f| f.1 > 2.0)) {
            _ if falls.is_empty() => Agreement::Open,
            (true, _) => Agreement::Yes,
            (false, true) => Agreement::Nearly,
            (false, false) => Agreement::No,
        };
        let last = series.first().map_or(0, |s| s.errors.len());
        Claim::new(
            format!("{title}: the squared error of the method's limit falls with t."),
            format!("from t = {FROM} to {last} it falls, {}.", words.join("; ")),
            agrees,
        )
    });
    let claims = claims.collect();
    let sections = panels.iter().enumerate().map(|(i, (title, figure, _))| {
        Section::new(title.clone()).anchor(format!("panel-{}", i + 1)).exhibit(
            Exhibit::new(figure.clone())
                .name(format!("panel-{}", i + 1))
                .alt(format!("{title}: squared error against t, one line per kernel."))
                .caption("Means over five sequences, as published; bands are their range."),
        )
    });
    let paper = Paper {
        title: "sander2024, figure 3: learning in context".into(),
        subtitle: "Squared error of the next vector against the vectors seen, in the limit of many layers."
            .into(),
        claims,
        sections: sections.collect(),
        json: Value::Null,
        references: &["sander2024"],
    };
    paper.into_page(full, command)
}

/// The error at [`FROM`] divided by the last one; infinite if the last one is only rounding.
fn fall(series: &ErrorSeries) -> Option<f64> {
    let (first, last) = (series.errors.get(FROM - 1)?.squared_error, series.errors.last()?.squared_error);
    Some(if last > ROUNDING { first / last } else { f64::INFINITY })
}

fn factor(fall: f64) -> String {
    match fall.is_finite() {
        true => format!("by a factor of {}", brief(fall)),
        false => "down to rounding".into(),
    }
}

/// The page of figure 4: errors per coordinate of the ideal method, the constructed network and trained ones.
pub fn fig4(
    figure: &Figure,
    series: &[ErrorSeries],
    d: usize,
    about: &str,
    full: bool,
    command: &str,
) -> Page {
    let mean = |s: &ErrorSeries| {
        s.errors.iter().map(|e| e.squared_error).sum::<f64>() / (s.errors.len().max(1) * d.max(1)) as f64
    };
    let words: Vec<String> = series.iter().map(|s| format!("{}: {}", s.label, brief(mean(s)))).collect();
    let paper = Paper {
        title: "sander2024, figure 4: constructed and trained".into(),
        subtitle: "What training adds to a constructed network.".into(),
        claims: vec![Claim::new(
            "errors per coordinate of the ideal method, the constructed network and the trained one, over a test set; the paper \
             gives no numbers.",
            format!("means over t: {}.", words.join("; ")),
            Agreement::Open,
        )],
        sections: vec![
            Section::new("Errors against t").anchor("errors").paragraph(about).exhibit(
                Exhibit::new(figure.clone())
                    .name("errors")
                    .alt("Squared error per coordinate against t for the ideal method, the constructed and the trained networks.")
                    .caption("Means over sequences that were not trained on."),
            ),
        ],
        json: Value::Null,
        references: &["sander2024"],
    };
    paper.into_page(full, command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incontext::ErrorAt;

    #[test]
    fn an_error_that_falls_to_rounding_has_no_factor() {
        let series = |last: f64| {
            let error = |t: usize| if t < 20 { 0.5 } else { last };
            let at = |t| ErrorAt { t, squared_error: error(t), lowest: error(t), highest: error(t) };
            ErrorSeries { key: "k".into(), label: "l".into(), errors: (1..=20).map(at).collect() }
        };
        assert_eq!(factor(fall(&series(0.0)).unwrap()), "down to rounding");
        assert_eq!(factor(fall(&series(1e-33)).unwrap()), "down to rounding");
        assert_eq!(factor(fall(&series(0.05)).unwrap()), "by a factor of 10.0");
    }
}
