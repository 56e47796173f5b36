//! The figures of the square-root construction: parameters and bits against facts, and the fold it is based on.
//!
//! Parameters are counted under both conventions ([`Counting`]), tables included. Constructions whose size is linear in
//! the facts count all entries, so the dense count is the one to compare with them.

use crate::model::{Counting, ParameterCount};
use crate::output::{csv_field, csv_text};
use crate::units::AtLeast;
use byrote_figures::{Axis, Figure, Line};
use serde::Serialize;

/// One size of the scaling table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScalingRow {
    /// What was memorized.
    pub data: String,
    /// N: facts.
    pub samples: u64,
    /// C: labels.
    pub labels: u64,
    /// Parameters of the bounded memory.
    pub bounded: ParameterCount,
    /// The non-zero parameters, tables included, that it never exceeds on any data with the same ids.
    pub guarantee: u64,
    /// Parameters of the searched memory.
    pub searched: ParameterCount,
    /// Layers of the smaller network.
    pub depth: u64,
    /// Bits of its longest weight.
    pub largest_weight_bits: u64,
    /// Bits of all its weights, embedding included.
    pub total_bits: u64,
    /// N log2 C.
    pub information_bits: AtLeast,
    /// The fewest parameters that a hardmax transformer can have.
    pub lower_bound: u64,
    /// The smallest one-layer transformers for the same facts.
    pub linear: Vec<LinearSize>,
}

/// The smallest N with fewer parameters than facts, for each convention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Crossings {
    /// Counting weights that are not zero.
    pub nonzero: u64,
    /// Counting all entries.
    pub dense: u64,
}

impl Crossings {
    /// The crossing of a convention.
    pub fn of(&self, counting: Counting) -> u64 {
        match counting {
            Counting::Nonzero => self.nonzero,
            Counting::Dense => self.dense,
        }
    }

    /// Describes both in a sentence.
    pub fn sentence(&self) -> String {
        use super::numbers::thousands;
        format!(
            "Fewer parameters than facts from N = {} on counting non-zero weights, and from N = {} on counting all entries; \
             embedding and label table included, found by bisection to within 1%.",
            thousands(self.nonzero),
            thousands(self.dense)
        )
    }
}

/// A construction whose size is linear in the facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinearSize {
    /// The name of its family.
    pub key: String,
    /// A short name.
    pub name: String,
    /// Its parameters, embedding included.
    pub parameters: u64,
    /// Whether its theorem covers these data; if not, this is the size it would have.
    pub proved: bool,
}

impl ScalingRow {
    /// The memory of the fewer non-zero parameters.
    pub fn smaller(&self) -> &ParameterCount {
        if self.searched.nonzero <= self.bounded.nonzero { &self.searched } else { &self.bounded }
    }

    /// The parameters of the smaller memory, tables included.
    pub fn parameters(&self, counting: Counting) -> u64 {
        u64::try_from(self.smaller().total(counting)).unwrap_or(u64::MAX)
    }

    /// The linear construction with this key.
    pub fn linear(&self, key: &str) -> Option<&LinearSize> {
        self.linear.iter().find(|l| l.key == key)
    }

    /// The constant before sqrt N.
    pub fn per_root(&self, counting: Counting) -> f64 {
        self.parameters(counting) as f64 / (self.samples as f64).sqrt()
    }
}

/// Writes the table as CSV. All parameters include embedding and label table, which are listed as well.
pub fn scaling_csv(rows: &[ScalingRow]) -> String {
    let names: Vec<&str> =
        rows.first().map_or(Vec::new(), |r| r.linear.iter().map(|l| l.key.as_str()).collect());
    let columns = [
        "data",
        "samples",
        "labels",
        "bounded_nonzero",
        "bounded_dense",
        "guarantee_nonzero",
        "searched_nonzero",
        "searched_dense",
        "embedding",
        "label_table",
        "depth",
        "largest_weight_bits",
        "total_bits",
        "information_bits",
        "lower_bound",
    ];
    let fields = |r: &ScalingRow| {
        let mut fields = vec![
            r.data.clone(),
            r.samples.to_string(),
            r.labels.to_string(),
            r.bounded.total(Counting::Nonzero).to_string(),
            r.bounded.total(Counting::Dense).to_string(),
            r.guarantee.to_string(),
            r.searched.total(Counting::Nonzero).to_string(),
            r.searched.total(Counting::Dense).to_string(),
            r.smaller().embedding.to_string(),
            r.smaller().label_table.to_string(),
            r.depth.to_string(),
            r.largest_weight_bits.to_string(),
            r.total_bits.to_string(),
            format!("{:.1}", r.information_bits),
            r.lower_bound.to_string(),
        ];
        fields.extend(names.iter().map(|name| csv_field(r.linear(name).map(|l| l.parameters))));
        fields
    };
    csv_text(columns.iter().chain(&names), rows.iter().map(fields))
}

fn curve(rows: &[ScalingRow], of: impl Fn(&ScalingRow) -> f64) -> Vec<(f64, f64)> {
    rows.iter().map(|r| (r.samples as f64, of(r))).collect()
}

/// Parameters against facts, under both conventions.
pub fn scaling_figure(rows: &[ScalingRow], crossings: &Crossings) -> Figure {
    let total = |count: &ParameterCount, counting| count.total(counting) as f64;
    let memory = |key: &str, label: &str, counting, count: fn(&ScalingRow) -> &ParameterCount| {
        let line = Line::new(key, label, curve(rows, |r| total(count(r), counting)));
        line.with_markers()
    };
    let mut figure = Figure::new(
        "Parameters against facts: the square root, built and verified",
        Axis::log("facts N"),
        Axis::log("parameters"),
    )
    .subtitle(
        "Random contexts of 1 to 8 tokens out of 50, one of 10 labels each. Every fact verified in exact arithmetic.",
    )
    .line(memory("kajitsuka2024", "searched, non-zero", Counting::Nonzero, |r| &r.searched))
    .line(memory("kajitsuka2024-dense", "searched, dense", Counting::Dense, |r| &r.searched))
    .line(memory("kajitsuka2024-exact", "bounded, non-zero", Counting::Nonzero, |r| &r.bounded))
    .line(memory("kajitsuka2024-exact-dense", "bounded, dense", Counting::Dense, |r| &r.bounded))
    .line(Line::new(
        "kajitsuka2024-guarantee",
        "bounded, worst case, non-zero",
        curve(rows, |r| r.guarantee as f64),
    ))
    .line(Line::new("identity", "one parameter per fact", curve(rows, |r| r.samples as f64)))
    .line(Line::new(
        "kajitsuka2024-lb-hardmax",
        "lower bound, hardmax",
        curve(rows, |r| r.lower_bound as f64),
    ));
    for LinearSize { key, name, .. } in rows.first().map_or(&[][..], |r| &r.linear) {
        let cost = |r: &ScalingRow| r.linear(key).map_or(0.0, |l| l.parameters as f64);
        let proved = rows.iter().all(|r| r.linear(key).is_some_and(|l| l.proved));
        let line = Line::new(key.clone(), name.clone(), curve(rows, cost));
        figure = figure.line(if proved { line } else { line.dashed() });
    }
    for counting in Counting::ALL {
        let label = format!("fewer {counting} parameters than facts");
        figure = figure.vertical(crossings.of(counting) as f64, label);
    }
    figure
        .dash_key("built, or proved for these data", "the size it would have: proved for contexts of one length")
        .caption(
            "Embedding (58 scalars) and label table included. Dense: all entries of all matrices, as madden2024 and \
             dana2024 count. Non-zero: as kajitsuka2024 counts. Parameters are saved, not storage: the weights are long, and \
             together they have more bits than the labels (N log2 C).",
        )
}

/// Draws bits against facts, which the parameter counts do not show.
pub fn bits_figure(rows: &[ScalingRow]) -> Figure {
    Figure::new("Bits against facts: nothing is saved", Axis::log("facts N"), Axis::log("bits"))
        .subtitle("The same networks. Fixed-point bits of all weights, embedding included, and of the longest one.")
        .line(
            Line::new("kajitsuka2024", "all weights together", curve(rows, |r| r.total_bits as f64))
                .with_markers(),
        )
        .line(Line::new("information", "the labels, N log2 C", curve(rows, |r| r.information_bits.0)))
        .line(
            Line::new("longest", "the longest weight", curve(rows, |r| r.largest_weight_bits as f64))
                .with_markers(),
        )
        .caption(
            "No memory of arbitrary labels has fewer bits than the labels. A network of few parameters pays with the length of its \
             weights.",
        )
}

/// Draws one, two and three folds of a number: the triangle wave that separates its bits.
pub fn fold_figure() -> Figure {
    let fold = |x: f64, threshold: f64| x - 2.0 * (x - threshold).max(0.0);
    let after = |folds: usize| -> Vec<(f64, f64)> {
        let thresholds = [8.0, 4.0, 2.0];
        (0..=16).map(f64::from).map(|x| (x, thresholds[..folds].iter().fold(x, |y, &t| fold(y, t)))).collect()
    };
    Figure::new("The fold: x becomes x - 2 relu(x - t)", Axis::linear("x"), Axis::linear("after the folds"))
        .subtitle("Thresholds 8, 4, 2: each fold halves the period. After three, x is its distance from the multiples of 4.")
        .line(Line::new("none", "no fold", after(0)))
        .line(Line::new("one", "one fold, t = 8", after(1)).with_markers())
        .line(Line::new("two", "two folds, t = 8, 4", after(2)).with_markers())
        .line(Line::new("three", "three folds, t = 8, 4, 2", after(3)).with_markers())
        .caption(
            "Three parameters per fold. A number x = 4 a + r with r at most 2 becomes r; the multiple of 4 is (x - r) / 4.",
        )
        .size(760.0, 480.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(samples: u64, bounded: u128, searched: u128) -> ScalingRow {
        let count =
            |nonzero: u128| ParameterCount { nonzero, dense: 3 * nonzero, embedding: 58, label_table: 0 };
        ScalingRow {
            data: "random".into(),
            samples,
            labels: 10,
            bounded: count(bounded),
            guarantee: bounded as u64 + 158,
            searched: count(searched),
            depth: 100,
            largest_weight_bits: 40,
            total_bits: 5000,
            information_bits: AtLeast(332.2),
            lower_bound: 3,
            linear: [("madden2024-attention", 51, true), ("dana2024-d2", 8, false)]
                .map(|(key, each, proved)| LinearSize {
                    key: key.into(),
                    name: format!("{key} by name"),
                    parameters: each * samples,
                    proved,
                })
                .to_vec(),
        }
    }

    #[test]
    fn the_table_and_the_figure_hold_every_size_and_both_counts() {
        let rows = [row(100, 285, 274), row(10_000, 2700, 1700)];
        let csv = scaling_csv(&rows);
        assert_eq!(csv.lines().count(), 3);
        assert!(csv.contains("random,10000,10,2758,8158,2858,1758,5158,58,0,100,"), "{csv}");
        assert!(csv.ends_with(",3,510000,80000\n"));
        assert_eq!(Counting::ALL.map(|c| rows[1].parameters(c)), [1758, 5158]);
        let crossings = Crossings { nonzero: 410, dense: 2_400 };
        assert!(crossings.sentence().contains("N = 410") && crossings.sentence().contains("N = 2,400"));
        let figure = scaling_figure(&rows, &crossings);
        let dashed: Vec<&str> = figure.lines.iter().filter(|l| l.dashed).map(|l| l.key.as_str()).collect();
        assert_eq!(dashed, ["dana2024-d2"], "what is not proved for these data");
        let svg = figure.to_svg().unwrap();
        for words in ["searched, dense", "madden2024-attention by name", "Parameters are saved, not storage"]
        {
            assert!(svg.contains(words), "{words}");
        }
        let bits = bits_figure(&rows);
        assert_eq!(bits.lines[0].points, [(100.0, 5000.0), (10_000.0, 5000.0)]);
        assert!(bits.to_svg().is_ok());
    }

    #[test]
    fn folds_make_triangle_waves() {
        let figure = fold_figure();
        let values: Vec<f64> = figure.lines[3].points.iter().map(|p| p.1).collect();
        assert_eq!(values, [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0].map(f64::from));
        assert!(figure.to_svg().is_ok());
    }
}
