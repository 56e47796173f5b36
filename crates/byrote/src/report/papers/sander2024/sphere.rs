//! sander2024, figure 2: the picture of projections on the sphere, the lengths that fall, and the norm of the product.

use super::super::{Agreement, Claim, Paper};
use crate::incontext::{Projections, Rows};
use crate::report::numbers::brief;
use crate::units::grouped;
use byrote_figures::html::{Exhibit, Page, Section};
use byrote_figures::{Axis, Band, Figure, Line, MarkerForm, Points, View};
use serde::Serialize;
use serde_json::Value;

const SMALL: &str =
    "The picture is as published. The check of the norms runs on 500 draws; the full version takes 10,000.";

/// A point, its projections, and the norm of their product.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// P_1 .. P_n.
    pub projections: Projections,
    /// nu, P_n nu, P_{n-1} P_n nu, ...
    pub path: Rows,
    /// |P_1 ... P_n|.
    pub product_norm: f64,
    /// The number of draws from which this one was taken.
    pub of: u64,
}

impl Drawn {
    /// The name of a point of the path.
    pub fn name(&self, i: usize) -> String {
        let n = self.path.len() - 1;
        match i {
            0 => "nu".into(),
            1 => format!("P{n} nu"),
            2 => format!("P{} P{n} nu", n - 1),
            i => format!("P{} ... P{n} nu", n + 1 - i),
        }
    }

    /// The lengths along the path.
    pub fn norms(&self) -> Vec<f64> {
        self.path.iter().map(|x| x.iter().map(|x| x * x).sum::<f64>().sqrt()).collect()
    }
}

/// Norms of products of projections over many draws.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Check {
    /// The dimensions from which directions are drawn.
    pub dimensions: usize,
    /// The number of projections.
    pub projections: usize,
    /// The number of draws.
    pub draws: u64,
    /// The mean norm.
    pub mean: f64,
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
    /// In how many draws the norm is below 1 and the directions span the space, or neither.
    pub agree: u64,
}

impl Check {
    /// Without draws so far, of `draws` to come.
    pub fn new(dimensions: usize, projections: usize, draws: u64) -> Self {
        Self { dimensions, projections, draws, mean: 0.0, lowest: f64::INFINITY, highest: 0.0, agree: 0 }
    }

    /// Adds a draw.
    pub fn add(&mut self, norm: f64, spans: bool, below: bool) {
        self.mean += norm / self.draws as f64;
        self.lowest = self.lowest.min(norm);
        self.highest = self.highest.max(norm);
        self.agree += u64::from(spans == below);
    }
}

/// The figures with their names: the picture, the lengths and the norms.
pub fn figures(drawn: &Drawn, checks: &[Check]) -> Vec<(&'static str, Figure)> {
    vec![("sphere", picture(drawn)), ("lengths", lengths(drawn)), ("norms", norms(checks))]
}

/// The page.
pub fn fig2(drawn: &Drawn, checks: &[Check], full: bool, command: &str) -> Page {
    let lengths = drawn.norms();
    let steps: Vec<String> = lengths.iter().map(|x| brief(*x)).collect();
    let falls = lengths.windows(2).all(|w| w[1] <= w[0] + 1e-15);
    let (agree, draws) = checks.iter().fold((0, 0), |(a, d), c| (a + c.agree, d + c.draws));
    let verdict = |yes| if yes { Agreement::Yes } else { Agreement::No };
    let n = lengths.len() - 1;
    let claims = vec![
        Claim::new(
            "a point of the sphere, projected onto the complements of six random directions in turn (a picture without \
             numbers).",
            format!(
                "its length falls with every projection: {}. No point of the sphere keeps more than {} of its length.",
                steps.join(", "),
                brief(drawn.product_norm)
            ),
            verdict(falls && *lengths.last().unwrap_or(&1.0) <= drawn.product_norm + 1e-15),
        ),
        Claim::new(
            "the norm of a product of projections is below 1 if and only if the directions span the space (our statement of \
             what the picture is for).",
            format!(
                "the two agree in {} of {} draws of 1 to 12 directions, in space and in a plane.",
                grouped(agree),
                grouped(draws)
            ),
            verdict(agree == draws),
        ),
    ];
    let names = ["sphere", "lengths", "norms"];
    let texts = [
        (
            "The picture",
            format!(
                "P_i is the orthogonal projection onto the complement of nu_i. Let nu_1 .. nu_{n} be the first {n} vectors of a \
                 sequence x_(t+1) = A x_t with A orthogonal, and nu the next one. The error of the linear kernel is then \
                 -A P_1 ... P_{n} nu, so the length of the last vector in the picture is the distance between the prediction \
                 and what follows. Every further vector of the sequence is one more projection."
            ),
            format!(
                "The great circles are the equator and two meridians; their rear halves are pale. Triangles are the directions \
                 nu_i, discs the projected points. Of {} random draws, this is the one whose points are farthest apart.",
                drawn.of
            ),
        ),
        (
            "Lengths",
            "A projection never lengthens a vector, and leaves it alone only if the vector is already at right angles to the \
             direction."
                .into(),
            "The same seven points.".to_owned(),
        ),
        (
            "The norm of the product",
            "One or two directions leave a vector of space alone that is at right angles to both, so the norm is 1. Three \
             directions span the space, except by accident, and the norm is below 1. Directions in one plane never span it, \
             however many there are."
                .into(),
            "Lines are means over the draws, bands reach from the lowest to the highest.".to_owned(),
        ),
    ];
    let exhibits = names.into_iter().zip(texts).zip(figures(drawn, checks));
    let sections = exhibits.map(|((name, (title, words, caption)), (_, figure))| {
        let exhibit = Exhibit::new(figure).name(name).caption(caption);
        Section::new(title).anchor(name).paragraph(words).exhibit(exhibit)
    });
    let paper = Paper {
        title: "sander2024, figure 2: projections on the sphere".into(),
        subtitle:
            "Why the error of causal kernel descent shrinks: every vector that is seen projects it once more."
                .into(),
        claims,
        sections: sections.collect(),
        json: Value::Null,
        references: &["sander2024"],
    };
    paper.into_page_with(SMALL, full, command)
}

/// The sphere with the point and its projections.
fn picture(drawn: &Drawn) -> Figure {
    let view = View::from_angles(35.0, 20.0);
    let mut figure = Figure::new("A point and its projections", Axis::linear(""), Axis::linear(""))
        .subtitle("Each vector is the one before it, projected onto the complement of one direction.")
        .isometric()
        .size(900.0, 700.0);
    for normal in [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]] {
        let [front, behind] = view.great_circle(normal);
        figure = figure.guide(behind).guide(front);
    }
    figure = figure.guide(view.sphere());
    let at = |x: &[f64]| view.project([x[0], x[1], x[2]]);
    for (i, nu) in drawn.projections.directions().iter().enumerate() {
        let (x, y) = at(nu);
        let point = Points::one("corpus", format!("nu{}", i + 1), x, y).form(MarkerForm::Triangle);
        figure = figure.points(point);
    }
    for (i, x) in drawn.path.iter().enumerate() {
        let (key, (x, y)) = (format!("step {i}"), at(x));
        figure = figure.line(Line::new(key.clone(), "", [(0.0, 0.0), (x, y)])).points(Points::one(
            key,
            drawn.name(i),
            x,
            y,
        ));
    }
    figure
}

/// The length against the number of projections.
fn lengths(drawn: &Drawn) -> Figure {
    let norms = drawn.norms();
    let points = norms.iter().enumerate().map(|(i, x)| (i as f64, *x));
    let x = Axis::linear("projections applied").range(0.0, (norms.len() - 1) as f64);
    Figure::new("The length falls with every projection", x, Axis::linear("length").from_zero())
        .line(Line::new("sander2024", "this point", points).with_markers())
        .horizontal(drawn.product_norm, "the most that any point keeps after all of them")
        .size(900.0, 420.0)
}

/// The norm of the product against the number of projections.
fn norms(checks: &[Check]) -> Figure {
    let x = Axis::linear("projections")
        .range(1.0, checks.iter().map(|c| c.projections).max().unwrap_or(2) as f64);
    let mut figure = Figure::new("The norm of a product of projections", x, Axis::linear("norm").from_zero())
        .size(900.0, 420.0);
    for (dimensions, key, label) in
        [(3, "sander2024", "directions in space"), (2, "plane", "directions in a plane")]
    {
        let own = || checks.iter().filter(move |c| c.dimensions == dimensions);
        let line = own().map(|c| (c.projections as f64, c.mean));
        figure = figure.line(Line::new(key, label, line).with_markers());
        let band = own().map(|c| (c.projections as f64, c.lowest, c.highest.max(c.lowest)));
        figure = figure.band(Band::new(key, "", band));
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn() -> Drawn {
        let projections = Projections::random(6, 3, 3, 1, 0);
        let path = projections.path(&[0.6, 0.0, 0.8]);
        let product_norm = projections.norm();
        Drawn { projections, path, product_norm, of: 1 }
    }

    #[test]
    fn the_picture_names_every_point_and_direction() {
        let svg = picture(&drawn()).to_svg().unwrap();
        for name in ["nu", "nu1", "nu6", "P6 nu", "P5 P6 nu", "P1 ... P6 nu"] {
            assert!(svg.contains(&format!(">{name}<")), "{name}");
        }
    }

    #[test]
    fn the_page_draws_three_figures_and_agrees_with_the_statement() {
        let mut checks = Vec::new();
        for (dimensions, n) in [(3, 2), (3, 4), (2, 2), (2, 4)] {
            let mut check = Check::new(dimensions, n, 1);
            let all = Projections::random(n, 3, dimensions, 1, 0);
            let norm = all.norm();
            check.add(norm, all.rank() == 3, norm < 1.0 - 1e-12);
            checks.push(check);
        }
        let page = fig2(&drawn(), &checks, false, "byrote reproduce sander2024-fig2");
        assert_eq!(page.exhibits().len(), 3);
        let html = page.to_html().unwrap();
        assert!(html.contains("agree in 4 of 4 draws") && !html.contains("do not agree"));
    }
}
