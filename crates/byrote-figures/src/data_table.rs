//! The data of a figure as a table in long form: one row per point.
//!
//! Columns: `panel` (if there are several), `kind` (bar, line, points, band, rule, cell), `key`, `series`, the two axes by
//! their labels, `low` and `high` if there are bands or error bars, and the quantity of a heat map. Numbers are written
//! so that they read back to the same double; an axis with names has those instead; a cell that was not measured is empty.

use super::figure::{Direction, Figure};
use super::panels::Panels;
use crate::Result;

/// The contents of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Panel,
    Kind,
    Key,
    Series,
    X,
    Y,
    Low,
    High,
    Value,
}

impl Role {
    const ALL: [Role; 9] = [
        Role::Panel,
        Role::Kind,
        Role::Key,
        Role::Series,
        Role::X,
        Role::Y,
        Role::Low,
        Role::High,
        Role::Value,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Role::Panel => "panel",
            Role::Kind => "kind",
            Role::Key => "key",
            Role::Series => "series",
            Role::X => "x",
            Role::Y => "y",
            Role::Low => "low",
            Role::High => "high",
            Role::Value => "value",
        }
    }
}

/// A row: the index of its panel, then the values by role.
struct Record<'a> {
    panel: &'a str,
    kind: &'static str,
    key: &'a str,
    series: &'a str,
    /// The names of the x axis.
    names: &'a [String],
    /// x, y, low, high, value.
    numbers: [Option<f64>; 5],
}

impl Record<'_> {
    /// The name at its place on the x axis, or the number.
    fn x(&self) -> String {
        let x = self.numbers[0];
        let place = x.filter(|x| *x >= 0.0 && x.fract() == 0.0).map(|x| x as usize);
        place.and_then(|place| self.names.get(place)).cloned().unwrap_or_else(|| number(x))
    }
}

/// The data of a drawing.
pub(super) struct DataTable {
    /// The contents of the columns, in order.
    pub roles: Vec<Role>,
    /// The names of the panels, in order; a single empty name for a single figure.
    pub panels: Vec<String>,
    /// The names of the x axis of every panel; none where it has numbers.
    pub names: Vec<Vec<String>>,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl DataTable {
    pub fn of_figure(figure: &Figure) -> Result<Self> {
        figure.check()?;
        Ok(Self::new(&[figure], false))
    }

    pub fn of_panels(panels: &Panels) -> Result<Self> {
        panels.check()?;
        Ok(Self::new(&panels.panels.iter().collect::<Vec<_>>(), true))
    }

    fn new(figures: &[&Figure], panels: bool) -> Self {
        let names = names(figures);
        let records: Vec<Record<'_>> =
            figures.iter().zip(&names).flat_map(|(f, name)| records(f, name)).collect();
        let used = |role: &Role| match role {
            Role::Panel => panels,
            Role::Low | Role::High => records.iter().any(|r| r.numbers[2].is_some()),
            Role::Value => figures.iter().any(|f| f.heat.is_some()),
            _ => true,
        };
        let roles: Vec<Role> = Role::ALL.into_iter().filter(used).collect();
        let first = |label: &dyn Fn(&Figure) -> Option<String>, role: Role| {
            let found = figures.iter().find_map(|f| label(f).filter(|l| !l.is_empty()));
            found.unwrap_or_else(|| role.name().into())
        };
        let header = roles.iter().map(|role| match role {
            Role::X => first(&|f| Some(f.x.label.clone()), Role::X),
            Role::Y => first(&|f| Some(f.y.label.clone()), Role::Y),
            Role::Value => first(&|f| f.heat.as_ref().map(|h| h.label.clone()), Role::Value),
            role => role.name().into(),
        });
        let field = |record: &Record<'_>, role: &Role| match role {
            Role::Panel => record.panel.to_string(),
            Role::Kind => record.kind.to_string(),
            Role::Key => record.key.to_string(),
            Role::Series => record.series.to_string(),
            Role::X => record.x(),
            Role::Y => number(record.numbers[1]),
            Role::Low => number(record.numbers[2]),
            Role::High => number(record.numbers[3]),
            Role::Value => number(record.numbers[4]),
        };
        let header = header.collect();
        let rows = records.iter().map(|record| roles.iter().map(|role| field(record, role)).collect());
        let rows = rows.collect();
        DataTable {
            header,
            rows,
            panels: if panels { names } else { vec![String::new()] },
            names: figures.iter().map(|f| f.x.names.clone()).collect(),
            roles,
        }
    }

    /// Returns the table as a CSV file (RFC 4180, lines end in a line feed).
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in [&self.header].into_iter().chain(&self.rows) {
            // Writing to memory cannot fail, and every row has the length of the header.
            let _ = writer.write_record(row);
        }
        let bytes = writer.into_inner().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The titles of panels, with their numbers if a title is missing or not unique.
fn names(figures: &[&Figure]) -> Vec<String> {
    let unique = |title: &str| figures.iter().filter(|f| f.title == title).count() == 1 && !title.is_empty();
    let name = |(i, figure): (usize, &&Figure)| match unique(&figure.title) {
        true => figure.title.clone(),
        false => format!("{} {}", i + 1, figure.title).trim_end().to_string(),
    };
    figures.iter().enumerate().map(name).collect()
}

fn records<'a>(figure: &'a Figure, panel: &'a str) -> Vec<Record<'a>> {
    let names = &figure.x.names;
    let record = |kind, key, series, numbers| Record { panel, kind, key, series, names, numbers };
    let mut out = Vec::new();
    if let Some(heat) = &figure.heat {
        for (row, y) in heat.cells.iter().zip(&heat.rows) {
            for (value, x) in row.iter().zip(&heat.columns) {
                out.push(record("cell", "", &heat.label, [Some(*x), Some(*y), None, None, *value]));
            }
        }
    }
    for bars in &figure.bars {
        for (x, y) in bars.points() {
            out.push(record("bar", &bars.key, &bars.label, [Some(x), Some(y), None, None, None]));
        }
    }
    for line in &figure.lines {
        for &(x, y) in &line.points {
            out.push(record("line", &line.key, &line.label, [Some(x), Some(y), None, None, None]));
        }
    }
    for points in &figure.points {
        for (i, &(x, y)) in points.points.iter().enumerate() {
            let (low, high) = points.errors.get(i).copied().unzip();
            out.push(record("points", &points.key, &points.label, [Some(x), Some(y), low, high, None]));
        }
    }
    for band in &figure.bands {
        for &(x, low, high) in &band.points {
            out.push(record("band", &band.key, &band.label, [Some(x), None, Some(low), Some(high), None]));
        }
    }
    for rule in &figure.rules {
        let (x, y) = match rule.direction {
            Direction::Horizontal => (None, Some(rule.value)),
            Direction::Vertical => (Some(rule.value), None),
        };
        out.push(record("rule", "", &rule.label, [x, y, None, None, None]));
    }
    out
}

/// The shortest text that reads back to the same double.
fn number(value: Option<f64>) -> String {
    match value {
        None => String::new(),
        Some(v) if v != 0.0 && !(1e-5..1e17).contains(&v.abs()) => format!("{v:e}"),
        Some(v) => format!("{v}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Band, Figure, Heat, Line, Panels, Points};

    #[test]
    fn a_figure_is_one_row_per_point() {
        let figure = Figure::new("t", Axis::log("parameters"), Axis::linear("loss, \"nats\""))
            .line(Line::new("a", "fit", [(1.0, 0.1), (1e21, -2.5e-7)]))
            .points(Points::new("b", "runs", [(3.0, 4.0)]).with_errors([(3.5, 5.0)]))
            .band(Band::new("a", "", [(1.0, 0.0, 0.3)]))
            .horizontal(2.0, "floor")
            .vertical(7.0, "corpus");
        let expected = "kind,key,series,parameters,\"loss, \"\"nats\"\"\",low,high\n\
                        line,a,fit,1,0.1,,\nline,a,fit,1e21,-2.5e-7,,\npoints,b,runs,3,4,3.5,5\nband,a,,1,,0,0.3\n\
                        rule,,floor,,2,,\nrule,,corpus,7,,,\n";
        assert_eq!(figure.to_csv().unwrap(), expected);
    }

    #[test]
    fn a_cell_that_was_not_measured_is_empty() {
        let heat = Heat::log("gap", vec![1.0, 2.0], vec![5.0], vec![vec![Some(0.25), None]]);
        let figure = Figure::new("t", Axis::log("m"), Axis::linear("n")).heat(heat);
        assert_eq!(figure.to_csv().unwrap(), "kind,key,series,m,n,gap\ncell,,gap,1,5,0.25\ncell,,gap,2,5,\n");
    }

    #[test]
    fn panels_of_the_same_name_get_numbers() {
        let panel = |title: &str| {
            Figure::new(title, Axis::log(""), Axis::linear("")).points(Points::one("k", "p", 1.0, 2.0))
        };
        let csv = Panels::new("t", [panel("a"), panel("b"), panel("b"), panel("")]).to_csv().unwrap();
        let names: Vec<&str> = csv.lines().map(|l| l.split_once(',').unwrap().0).collect();
        assert_eq!(names, ["panel", "a", "2 b", "3 b", "4"]);
        assert!(csv.starts_with("panel,kind,key,series,x,y\n"), "{csv}");
    }

    proptest::proptest! {
        #[test]
        fn numbers_read_back_to_the_same_double(values in proptest::collection::vec(-1e300..1e300_f64, 1..20), tiny in -1e-3..1e-3_f64) {
            let values: Vec<f64> = values.into_iter().chain([tiny, tiny * 1e-200]).collect();
            let figure = Figure::new("", Axis::linear("x"), Axis::linear("y"))
                .points(Points::new("k", "p", values.iter().map(|v| (0.0, *v))));
            let csv = figure.to_csv().unwrap();
            let read: Vec<f64> = csv.lines().skip(1).map(|l| l.rsplit(',').next().unwrap().parse().unwrap()).collect();
            proptest::prop_assert_eq!(read, values);
        }
    }
}
