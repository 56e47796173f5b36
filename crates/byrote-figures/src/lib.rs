//! Figures and pages as data, written as SVG, PNG, self-contained HTML and CSV.
//!
//! A [`Figure`] is plain data: two [`Axis`]es, and the [`Line`]s, [`Points`], [`Bars`], [`Band`]s, reference lines or the
//! [`Heat`] map on them; [`Panels`] are several figures side by side, and [`Guide`]s make pictures without axes. A figure is laid out once into a [`Scene`] of
//! primitives, and two writers draw that scene, so the SVG of a page and the PNG of a slide show the same thing:
//!
//! ```text
//! figure ──> layout (scale, labels, clip, text) ──> scene ──> svg | png
//!    └─────> csv (the data behind it)
//! ```
//!
//! An [`html::Page`] is plain data as well: sections of paragraphs, callouts, key figures, tables and drawings. It is
//! written as one HTML file that works offline, on a phone, in dark mode and on paper.
//!
//! Equal figures and pages give equal bytes. [`Palette`] gives every key one colour; names are set beside the lines
//! so that no two overlap; dashed lines are known only up to a constant; whatever cannot be drawn (zero on a
//! logarithmic axis, a point outside the range) is reported below the figure.
//!
//! ```
//! # use byrote_figures::{Axis, Figure, Line, Points};
//! let figure = Figure::new("Contexts against parameters", Axis::log("parameters"), Axis::log("contexts"))
//!     .line(Line::new("lower", "lower bound", [(1e3, 60.0), (1e6, 6e4)]))
//!     .line(Line::new("upper", "upper bound", [(1e3, 900.0), (1e6, 9e7)]).dashed())
//!     .points(Points::one("text", "this text", 2.1e4, 2_637.0));
//! assert!(figure.to_svg()?.contains("this text"));
//! assert!(figure.to_png(2.0)?.starts_with(b"\x89PNG"));
//! assert!(figure.to_csv()?.starts_with("kind,key,series,parameters,contexts\n"));
//! # Ok::<(), byrote_figures::Error>(())
//! ```

mod bars;
mod clip;
mod data_table;
mod drawing;
mod error;
mod figure;
mod grid;
mod heat;
pub mod html;
mod labels;
mod layout;
mod legend;
mod notes;
mod palette;
mod panels;
mod plot;
mod png;
mod residual;
mod scale;
mod scene;
mod sketch;
mod svg;
mod text;

pub use bars::Bars;
pub use drawing::Drawing;
pub use error::{Error, Result};
pub use figure::{Band, Direction, Figure, Line, Naming, Points, Rule};
pub use heat::Heat;
pub use palette::{Colour, Palette};
pub use panels::Panels;
pub use residual::residuals;
pub use scale::{Axis, ScaleKind};
pub use scene::{Anchor, Area, Frame, Group, MarkerForm, Point, Scene, Shape, Stroke, Text, Weight};
pub use sketch::{Axes, Guide, View};

#[cfg(test)]
mod tests {
    use super::*;

    /// The figure the library is made for: nine bounds over a range of sizes, with a corpus and a model among them.
    fn contexts_against_parameters() -> Figure {
        let curve = |f: &dyn Fn(f64) -> f64| {
            (0..=60)
                .map(|i| 10f64.powf(3.0 + f64::from(i) / 10.0 * 5.0 / 6.0))
                .map(|p| (p, f(p)))
                .collect::<Vec<_>>()
        };
        Figure::new("Contexts against parameters", Axis::log("parameters"), Axis::log("contexts held"))
            .subtitle(
                "How many contexts a one-layer transformer can memorize, by every published bound that applies to this \
                 shape (d_model 16, d_vocab 780, n_ctx 9).",
            )
            .line(Line::new("madden2024", "madden2024, next-token, lower", curve(&|p| p / 780.0 * 0.9)))
            .line(Line::new("madden2024-upper", "madden2024, next-token, upper", curve(&|p| p / 779.0 * 2.2)))
            .line(Line::new("kajitsuka2024", "kajitsuka2024, square root", curve(&|p| p * p / 330.0)).dashed())
            .line(Line::new("kajitsuka2024-upper", "kajitsuka2024, sequence-to-sequence", curve(&|p| p * p / 9000.0)).dashed())
            .line(Line::new("dana2024", "dana2024, associations", curve(&|p| (p - 700.0) / 34.0)))
            .line(Line::new("mahdavi2024", "mahdavi2024, heads", curve(&|p| p / 64.0)))
            .line(Line::new("kim2023", "kim2023, deep", curve(&|p| (p / p.ln()).powi(2) / 400.0)).dashed())
            .line(Line::new("information", "information limit, 16 bits a weight", curve(&|p| p * 16.0 / 780f64.log2())))
            .line(Line::new("sander2024", "sander2024", curve(&|p| p.powf(0.75) / 3.0)).dashed())
            .points(Points::one("corpus", "TinyStories, 1,000 documents: 2,257 contexts", 1.76e6, 2257.0))
            .points(Points::one("model", "trained, d_mlp 64", 7.1e4, 2180.0).form(MarkerForm::Diamond))
            .palette(Palette::default().in_ink(["corpus", "model"]))
            .caption(
                "Lower bounds say what some weights hold, upper bounds what none can exceed. The point of the corpus is \
                 at the parameters madden2024 asks for.",
            )
    }

    /// All pieces of text with their areas.
    fn texts(scene: &Scene) -> Vec<(String, Area)> {
        let text = |shape: &Shape| match shape {
            Shape::Text(text) => Some((text.content.clone(), text.area())),
            _ => None,
        };
        scene.shapes().filter_map(text).collect()
    }

    fn assert_texts_are_apart(scene: &Scene) {
        let page = Area { left: 0.0, top: 0.0, right: scene.width, bottom: scene.height };
        let texts = texts(scene);
        for (i, (words, area)) in texts.iter().enumerate() {
            assert!(page.holds(area), "\"{words}\" leaves the page: {area:?}");
            for (others, other) in &texts[i + 1..] {
                assert_eq!(
                    area.grown(-0.5).overlap(&other.grown(-0.5)),
                    0.0,
                    "\"{words}\" covers \"{others}\""
                );
            }
        }
    }

    #[test]
    fn the_main_figure_names_every_series_without_overlaps() {
        let figure = contexts_against_parameters();
        let scene = figure.to_scene().unwrap();
        assert_texts_are_apart(&scene);
        let all = texts(&scene).into_iter().map(|t| t.0).collect::<Vec<_>>().join(" ");
        for label in figure.lines.iter().map(|l| &l.label).chain(figure.points.iter().map(|p| &p.label)) {
            assert!(all.contains(label.as_str()), "{label} is missing");
        }
        assert!(
            all.contains("dashed: known only up to a constant") && all.contains("solid: explicit constants")
        );
    }

    #[test]
    fn no_text_covers_another_whatever_the_size_and_the_naming() {
        let mut cut = contexts_against_parameters().vertical(7.1e4, "parameters of the model");
        cut.y = Axis::log("contexts held").range(1.0, 1e5);
        for figure in [contexts_against_parameters(), cut] {
            for (width, height) in
                [(240.0, 160.0), (420.0, 420.0), (700.0, 400.0), (900.0, 580.0), (1600.0, 900.0)]
            {
                assert_texts_are_apart(&figure.clone().size(width, height).to_scene().unwrap());
                assert_texts_are_apart(&figure.clone().size(width, height).legend().to_scene().unwrap());
            }
        }
    }

    #[test]
    fn too_many_names_for_the_column_go_below_the_plot() {
        let roles = |n: u32| {
            let mut figure = Figure::new("", Axis::linear("x"), Axis::linear("y"));
            for i in 0..n {
                let line =
                    Line::new(format!("k{i}"), format!("series {i}"), [(0.0, 0.0), (1.0, f64::from(i))]);
                figure = figure.line(line);
            }
            let scene = figure.to_scene().unwrap();
            assert_texts_are_apart(&scene);
            let count = |role| scene.groups.iter().filter(|g| g.role == role).count();
            (count("name"), count("legend"), scene.height > 580.0)
        };
        assert_eq!(roles(9), (9, 0, false));
        assert_eq!(roles(60), (0, 60, true));
    }

    #[test]
    fn lines_that_leave_at_the_top_carry_letters() {
        let figure = Figure::new("", Axis::log("x").range(1.0, 100.0), Axis::log("y").range(1.0, 100.0))
            .line(Line::new("a", "slow", [(1.0, 1.0), (100.0, 50.0)]))
            .line(Line::new("b", "fast", [(1.0, 5.0), (100.0, 5e4)]));
        let scene = figure.to_scene().unwrap();
        let tags: Vec<_> = scene.groups.iter().filter(|g| g.role == "tag").map(|g| g.key.clone()).collect();
        assert_eq!(tags, [Some("b".to_string())]);
        assert_eq!(texts(&scene).iter().filter(|t| t.0 == "a").count(), 2, "at the line and at the name");
    }

    #[test]
    fn equal_figures_give_equal_bytes() {
        let (a, b) = (contexts_against_parameters(), contexts_against_parameters());
        assert_eq!(a.to_svg().unwrap(), b.to_svg().unwrap());
        assert_eq!(a.to_png(1.0).unwrap(), b.to_png(1.0).unwrap());
    }

    #[test]
    fn values_a_log_axis_cannot_hold_break_the_line_and_are_reported() {
        let figure = Figure::new("t", Axis::log("x"), Axis::log("y")).line(Line::new(
            "k",
            "gap",
            [(1.0, 1.0), (2.0, 2.0), (3.0, 0.0), (4.0, 4.0), (5.0, 5.0), (6.0, -1.0), (7.0, 7.0)],
        ));
        let scene = figure.to_scene().unwrap();
        let line = scene.groups.iter().find(|g| g.role == "line").unwrap();
        // Two pieces, and the single last value as a dot.
        let kinds: Vec<bool> = line.shapes.iter().map(|s| matches!(s, Shape::Polyline { .. })).collect();
        assert_eq!(kinds, [true, true, false]);
        assert!(texts(&scene).iter().any(|t| t.0.contains("gap (2 of 7 points)")));
        assert!(figure.to_svg().unwrap().contains("gap (2 of 7 points)"));
    }

    #[test]
    fn empty_figures_and_single_points_are_drawn() {
        let empty = Figure::new("t", Axis::log("x"), Axis::linear("y"));
        assert!(empty.to_svg().unwrap().contains("no values to draw"));
        assert!(empty.to_png(1.0).is_ok());
        let only_bad = empty.clone().line(Line::new("k", "l", [(0.0, 1.0)]));
        assert!(only_bad.to_svg().unwrap().contains("no values to draw"));
        let one = empty.clone().line(Line::new("k", "l", [(10.0, 1.0)]));
        assert!(one.to_svg().unwrap().contains("<circle"));
        let point = empty.points(Points::one("corpus", "here", 10.0, 1.0)).to_scene().unwrap();
        assert_texts_are_apart(&point);
        let Some(Shape::Marker { at, .. }) = point.shapes().find(|s| matches!(s, Shape::Marker { .. }))
        else {
            panic!("no marker")
        };
        assert!(at[0] > 100.0 && at[1] > 100.0, "{at:?}");
    }

    #[test]
    fn a_band_and_its_line_share_a_colour_and_long_curves_stay_small() {
        let steps = || (0..100_000).map(f64::from);
        let figure = Figure::new("t", Axis::linear("step"), Axis::linear("loss"))
            .line(Line::new("run", "loss", steps().map(|s| (s, (s / 500.0).sin()))))
            .band(Band::new("run", "seeds", steps().step_by(1000).map(|s| (s, -1.5, 1.5))));
        let scene = figure.to_scene().unwrap();
        let colour = Palette::for_keys(["run"]).colour("run");
        assert!(scene.shapes().any(|s| matches!(s, Shape::Polygon { fill, .. } if *fill == colour)));
        let points = scene.shapes().find_map(|s| match s {
            Shape::Polyline { points, stroke } if stroke.colour == colour => Some(points.len()),
            _ => None,
        });
        assert!(points.is_some_and(|n| n < 8_000), "{points:?}");
    }
}
