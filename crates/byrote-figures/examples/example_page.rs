//! A page with every kind of item, from synthetic data: `cargo run -p byrote-figures --example example_page --
//! report.html`.
//!
//! The numbers come from formulas below, not from any run. Beside the page it writes every figure as SVG and PNG. The test
//! of pages in a browser uses the same page.

use byrote_figures::html::{
    Callout, Cell, Column, Exhibit, KeyFigure, Mark, MarkedText, Page, Prose, Reference, Section, Status,
    Table,
};
use byrote_figures::{Axis, Band, Bars, Figure, Heat, Line, MarkerForm, Palette, Panels, Points, residuals};
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "report.html".into());
    let path = Path::new(&path);
    let page = page();
    fs::write(path, page.to_html()?.as_bytes())?;
    for (name, exhibit) in page.exhibits() {
        fs::write(path.with_file_name(format!("{name}.svg")), exhibit.drawing.to_svg()?.as_bytes())?;
        fs::write(path.with_file_name(format!("{name}.png")), exhibit.drawing.to_png(2.0)?)?;
    }
    Ok(())
}

const WIDTHS: [f64; 8] = [4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// A smooth surface with a cliff where parameters meet contexts, and some additional structure.
fn gap(documents: f64, width: f64) -> f64 {
    let wiggle = 1.0 + 0.25 * (1.7 * documents.ln() + 2.3 * width.ln()).sin();
    let load = 2.3 * documents / (width * 18.0 + 40.0);
    0.002 * documents * wiggle * load.powf(1.4).exp_m1().min(4.0)
}

/// The page.
pub fn page() -> Page {
    Page::new("How much can a small transformer hold?")
        .subtitle("An example page of byrote. All numbers are synthetic; it shows what a report looks like.")
        .section(answer())
        .section(corpus())
        .section(bounds())
        .section(training())
        .section(sweep())
        .section(laws())
        .section(text())
        .command("byrote study stories.txt --n-ctx 9 --tokenizer wordpunct --seed 1 --out study")
        .setting("--n-ctx", "9")
        .setting("--tokenizer", "wordpunct")
        .setting("--seed", "1")
        .setting("corpus hash", "made-up-0000")
        .reference(
            Reference::new(
                "madden2024",
                Prose::parse("Liam Madden, Curtis Fox, Christos Thrampoulidis. *Next-token prediction capacity.* 2024."),
            )
            .address("https://arxiv.org/abs/2405.13718"),
        )
        .reference(Reference::new("example", "A reference without address, for the example."))
}

fn answer() -> Section {
    Section::new("The answer")
        .callout(
            Callout::new(Status::Good, "A one-layer transformer of 65,120 parameters holds this text.")
                .line(Prose::parse("No model can go below **4,525.47 nats**; training ended 0.8% above it."))
                .line(Prose::parse("Theory asks for at most 512 neurons ([@madden2024]); 96 were enough."))
                .line("The closed-form model is certified: every one of 2,257 contexts.")
                .line(Prose::parse("The worst contexts are in [the section on the text](#worst).")),
        )
        .key_figures([
            KeyFigure::new("floor", "4,525.47", "nats").detail("0.503 nats per prediction"),
            KeyFigure::new("distinct contexts", "2,257", ""),
            KeyFigure::new("parameters at 1%", "65,120", "").detail("width 96"),
            KeyFigure::new("best gap", "0.80", "%"),
        ])
}

fn corpus() -> Section {
    let floor = |t: f64| 9000.0 * (1.0 - (-t / 2.2).exp()) * 0.12 + 38_000.0 * (-t / 1.6).exp();
    let lengths: Vec<f64> = (1..=9).map(f64::from).collect();
    let figure = Figure::new(
        "The floor falls as contexts grow",
        Axis::linear("context length (tokens)"),
        Axis::log("floor (nats)"),
    )
    .line(Line::new("corpus", "this corpus", lengths.iter().map(|t| (*t, floor(*t)))).with_markers())
    .line(
        Line::new("shuffled", "words shuffled", lengths.iter().map(|t| (*t, 1.6 * floor(*t) + 900.0)))
            .with_markers(),
    )
    .palette(own())
    .size(900.0, 420.0);
    let mut table = Table::new(
        "Contexts and floor by length.",
        [
            Column::right("length").unit("tokens"),
            Column::right("contexts"),
            Column::right("floor").unit("nats"),
            Column::left("fully determined"),
        ],
    );
    let mut csv = String::from("length,contexts,floor_nats\n");
    for t in &lengths {
        let contexts = (2257.0 * (1.0 - (-t / 2.0).exp())).round();
        let status =
            if *t > 6.0 { Cell::status(Status::Good, "most") } else { Cell::status(Status::Caution, "some") };
        table = table.row([
            Cell::from(format!("{t}")),
            Cell::from(format!("{contexts}")),
            Cell::from(format!("{:.2}", floor(*t))),
            status,
        ]);
        csv.push_str(&format!("{t},{contexts},{}\n", floor(*t)));
    }
    Section::new("The corpus")
        .paragraph(Prose::parse(
            "The *floor* is the lowest loss any model can reach: what remains uncertain when the whole context is known. It \
             falls as contexts get longer, because longer contexts occur once and determine what follows.",
        ))
        .exhibit(
            Exhibit::new(figure)
                .caption("Both lines are formulas of the example, not counts.")
                .alt("The floor falls from about 21 thousand nats at length 1 to about 1.2 thousand at length 9; the shuffled words lie above."),
        )
        .table(table.csv("floor-by-length.csv", csv))
}

/// The user's own data, as opposed to results from papers.
fn own() -> Palette {
    Palette::default().in_ink(["corpus", "model"])
}

fn bounds() -> Section {
    let sizes: Vec<f64> = (0..=50).map(|i| 10f64.powf(2.0 + 0.12 * f64::from(i))).collect();
    let curve = |f: &dyn Fn(f64) -> f64| sizes.iter().map(|p| (*p, f(*p))).collect::<Vec<_>>();
    let figure = Figure::new("Contexts against parameters", Axis::log("parameters"), Axis::log("contexts"))
        .subtitle("Lines of the example; the real ones come from the bounds of the papers.")
        .line(Line::new("madden2024", "madden2024 (at least)", curve(&|p| p / 780.0 * 0.9)))
        .line(Line::new("kajitsuka2024", "kajitsuka2024 (order only)", curve(&|p| p * p / 90_000.0)).dashed())
        .line(Line::new("dana2024", "dana2024 (associations)", curve(&|p| p / 34.0)))
        .line(Line::new("information", "information limit", curve(&|p| p * 3.4)))
        .points(Points::one("corpus", "this corpus: 2,257 contexts", 1.76e6, 2257.0))
        .points(Points::one("model", "the trained model", 65_120.0, 2257.0).form(MarkerForm::Diamond))
        .palette(own());
    Section::new("What is known")
        .paragraph(
            Prose::new()
                .text("A line marked “at least” is reached by some weights; none goes above the limit. See ")
                .cite("madden2024")
                .text("."),
        )
        .exhibit(Exhibit::new(figure).name("bounds"))
        .table(
            Table::new(
                Prose::parse("What the bounds say of `d_model 16`, `d_mlp 96`."),
                [
                    Column::left("bound"),
                    Column::left("task"),
                    Column::right("contexts"),
                    Column::left("verdict"),
                ],
            )
            .row([
                Cell::from(Prose::new().cite("madden2024")),
                "distribution".into(),
                "at least 75".into(),
                Cell::status(Status::Good, "applies"),
            ])
            .row([
                "kajitsuka2024".into(),
                "association".into(),
                "~ 4,200".into(),
                Cell::status(Status::Caution, "order only"),
            ])
            .row([
                "dana2024".into(),
                "association".into(),
                Cell::none(),
                Cell::status(Status::Bad, "needs distinct last tokens"),
            ]),
        )
}

fn training() -> Section {
    let steps = || (0..=60).map(|i| 10f64.powf(f64::from(i) / 20.0));
    let panel = |title: &str, floor: f64, speed: f64| {
        let loss = move |s: f64| floor + 40.0 * (1.0 + s / speed).powf(-1.4);
        Figure::new(title, Axis::log("step"), Axis::log("gap (nats)"))
            .band(Band::new("lbfgs", "", steps().map(|s| (s, 0.7 * loss(s), 1.4 * loss(s)))))
            .line(Line::new("lbfgs", "L-BFGS, median of 5 seeds", steps().map(|s| (s, loss(s)))))
            .line(Line::new("adam", "Adam", steps().map(|s| (s, 1.5 * loss(s / 6.0)))))
            .horizontal(1.0, "1% of the floor")
    };
    let panels = Panels::new(
        "Wider models come closer to the floor",
        [panel("d_mlp 32", 6.0, 8.0), panel("d_mlp 96", 0.6, 6.0), panel("d_mlp 512", 0.02, 5.0)],
    )
    .caption("The band holds the middle half of the seeds.");
    Section::new("What training reaches")
        .warning("The curves are formulas. A report of a real run says here how many documents it took.")
        .exhibit(Exhibit::new(panels).name("training-curves"))
}

fn sweep() -> Section {
    let documents: Vec<f64> = (1..=10).map(|i| 100.0 * f64::from(i)).collect();
    let mut cells: Vec<Vec<Option<f64>>> =
        documents.iter().map(|n| WIDTHS.iter().map(|m| Some(gap(*n, *m))).collect()).collect();
    cells[8][7] = None;
    cells[9][7] = None;
    cells[0][7] = Some(0.0);
    let figure = Figure::new(
        "The gap falls with width and rises with documents",
        Axis::log("width (d_mlp)"),
        Axis::linear("documents"),
    )
    .heat(Heat::log("gap (nats per prediction)", WIDTHS.to_vec(), documents.clone(), cells))
    .line(Line::new("madden2024", "madden2024, Theorem 5", [(25.0, 50.0), (500.0, 1000.0)]))
    .line(Line::new("limit", "lower limit", [(4.0, 100.0), (40.0, 1000.0)]).dashed())
    .points(
        Points::new("model", "smallest width within 1%", documents.iter().map(|n| (0.16 * n, *n)))
            .form(MarkerForm::Diamond),
    )
    .palette(own())
    .size(900.0, 620.0);
    Section::new("A sweep")
        .paragraph("Ten corpus sizes by eight widths. Each cell is one run; two were not made.")
        .exhibit(Exhibit::new(figure).name("gap"))
}

fn laws() -> Section {
    let noise = |i: usize| 0.09 * ((i * i) as f64 * 1.9).sin();
    let law = |n: f64| 12.0 + 0.31 * n;
    let sizes: Vec<f64> = (1..=10).map(|i| 100.0 * f64::from(i)).collect();
    let measured: Vec<(f64, f64)> =
        sizes.iter().enumerate().map(|(i, n)| (*n, law(*n) * (1.0 + noise(i)))).collect();
    let bars: Vec<(f64, f64)> = measured
        .iter()
        .enumerate()
        .map(|(i, (_, y))| (y * (0.93 - 0.02 * (i % 3) as f64), y * 1.08))
        .collect();
    let fine: Vec<f64> = (10..=100).map(|i| 10.0 * f64::from(i)).collect();
    let figure = Figure::new(
        "Parameters at 1% grow in proportion to contexts",
        Axis::linear("contexts"),
        Axis::linear("parameters (thousands)").from_zero(),
    )
    .band(Band::new(
        "fit",
        "95% interval of the fit",
        fine.iter().map(|n| (*n, 0.94 * law(*n), 1.06 * law(*n))),
    ))
    .line(Line::new("fit", "12 + 0.31 n", fine.iter().map(|n| (*n, law(*n)))))
    .points(Points::new("model", "measured, 5 seeds", measured.clone()).with_errors(bars))
    .palette(own())
    .size(900.0, 460.0);
    let left: Vec<(f64, f64)> = measured.iter().map(|(n, y)| (*n, y - law(*n))).collect();
    let rest = residuals(
        "What the fit leaves over",
        Axis::linear("contexts"),
        "measured - fitted (thousands)",
        vec![Points::new("model", "residual", left)],
    )
    .palette(own());
    Section::new("The law")
        .paragraph(Prose::parse(
            "A straight line is enough here: the residuals show no drift. See [the figure](#figure-5).",
        ))
        .exhibit(
            Exhibit::new(figure).name("law").caption(Prose::parse("Bars: the range over seeds. *Made up.*")),
        )
        .exhibit(Exhibit::new(rest).name("residuals"))
        .list([
            "Slope 0.31, interval 0.29 to 0.33.",
            "Intercept 12, interval 5 to 19.",
            "AICc prefers the line to a power by 4.1.",
        ])
}

fn text() -> Section {
    let names = ["0", "< 1e-9", "1e-9", "1e-6", "1e-3"];
    let probabilities = Figure::new(
        "How likely passages are sampled",
        Axis::named("probability, from", names),
        Axis::linear("share of passages (%)"),
    )
    .bars(Bars::new("corpus", "this corpus", [41.0, 22.0, 14.5, 12.5, 10.0]))
    .bars(Bars::new("shuffled", "words shuffled", [97.0, 2.6, 0.4, 0.0, 0.0]))
    .palette(own())
    .size(900.0, 420.0);
    let marked = MarkedText::new("What the model repeats of the first document:")
        .key(["from 1e-12", "from 1e-6", "from 0.001", "from 0.1", "from 0.5"], "decoded greedily")
        .passage([
            Mark::plain("one day , a little <girl>\n"),
            Mark::level("and her dog ", 1),
            Mark::level("went to the ", 2),
            Mark::level("park .\n", 3),
            Mark::level("they saw ", 4),
            Mark::level("a big red ball .", 5).underlined(),
        ])
        .passage([Mark::level("the end .", 5).underlined()]);
    Section::new("The text itself")
        .anchor("worst")
        .heading("The worst-remembered contexts")
        .paragraph(
            Prose::new()
                .text("After ")
                .quote("once upon a ")
                .text(" comes ")
                .quote("time")
                .text("; after ")
                .quote("היה היה")
                .text(" comes ")
                .quote("פעם")
                .text("."),
        )
        .preformatted(
            "As they occur in the corpus:",
            "one day , a little <girl> & her \"dog\"\n\tthe end .\u{1b}[0m\nשלום עולם",
        )
        .marked(marked)
        .exhibit(Exhibit::new(probabilities).name("probabilities"))
        .note(Prose::parse("Control characters are shown as pictures, so that nothing hides: `\u{1b}`."))
}
