//! The section of a study's page about models of several layers.

use crate::report::numbers::{nats, thousands};
use crate::study::{Study, TrainedModel};
use byrote_figures::html::{Cell, Column, Exhibit, Section, Status, Table};
use byrote_figures::{Axis, Figure, Line, Points};

impl Study {
    /// The number of layers of the deep models.
    fn layers(&self) -> u64 {
        self.spec.n_layers.unwrap_or(1)
    }

    /// The deep model with the fewest parameters that came within 1% of the floor.
    fn deep_threshold(&self) -> Option<&TrainedModel> {
        let reached = |t: &&TrainedModel| t.row.relative_gap().is_some_and(|g| g <= 0.01);
        self.deep.iter().filter(reached).min_by_key(|t| t.row.parameters)
    }

    /// One sentence: what depth changes.
    pub(super) fn depth_line(&self) -> String {
        let level = self.level();
        let layers = self.layers();
        let name = if layers == 1 { "1 layer".to_owned() } else { format!("{layers} layers") };
        let Some(deep) = self.deep_threshold() else {
            return format!("Depth: no GPT-2 of {name} came within {level} of the floor.");
        };
        let start = format!(
            "Depth: GPT-2 with {name} reaches that level with {} parameters (width {})",
            thousands(deep.row.parameters),
            thousands(deep.row.settings.model.width()),
        );
        let least = self.trained.iter().filter(|t| t.row.relative_gap().is_some_and(|g| g <= 0.01));
        match least.min_by_key(|t| t.row.parameters) {
            Some(one) => format!(
                "{start}, one layer as in the papers with {}; both are the smallest of the widths tried.",
                thousands(one.row.parameters)
            ),
            None => format!("{start}, one layer as in the papers with no width tried."),
        }
    }

    pub(super) fn level(&self) -> &'static str {
        if self.part.floor_nats.0 > 0.0 { "1%" } else { "0.01 nats per prediction" }
    }

    pub(super) fn depth(&self) -> Section {
        let paragraph = format!(
            "GPT-2 with {}, by the width of its residual stream, trained in the same way as the models above. Every distinct prefix \
             is evaluated once per layer.",
            if self.layers() == 1 { "one layer".to_owned() } else { format!("{} layers", self.layers()) }
        );
        let section = Section::new("Depth beside width").anchor("depth").paragraph(paragraph);
        let section = match self.depth_figure() {
            Some(figure) => section.exhibit(
                Exhibit::new(figure)
                    .name("depth")
                    .alt("The gap relative to the floor at the end of training against parameters, with one layer and with several.")
                    .caption(self.depth_line()),
            ),
            None => section.paragraph(self.depth_line()),
        };
        section.table(self.depth_table())
    }

    /// The gap at the end of training against parameters, with one layer and with several.
    fn depth_figure(&self) -> Option<Figure> {
        let gaps = |models: &[TrainedModel]| -> Vec<(f64, f64)> {
            let gap = |t: &TrainedModel| {
                Some((t.row.parameters as f64, t.row.relative_gap().filter(|g| *g > 0.0)?))
            };
            models.iter().filter_map(gap).collect()
        };
        let (one, deep) = (gaps(&self.trained), gaps(&self.deep));
        let (y, level) = match self.part.floor_nats.0 > 0.0 {
            true => ("gap / floor", "1%"),
            false => ("gap (nats per prediction)", "0.01"),
        };
        let label = format!("GPT-2, {} layers", self.layers());
        (one.len() > 1 && deep.len() > 1).then(|| {
            Figure::new("Depth beside width", Axis::log("parameters"), Axis::log(y))
                .line(Line::new("one", "one layer", one.clone()).with_markers())
                .line(Line::new("deep", label, deep.clone()).with_markers())
                .points(Points::new("one", "", one))
                .points(Points::new("deep", "", deep))
                .horizontal(0.01, level)
        })
    }

    fn depth_table(&self) -> Table {
        let columns = [
            Column::right("width"),
            Column::right("heads"),
            Column::right("parameters"),
            Column::right("steps"),
            Column::left("ended"),
            Column::right("gap").unit("nats per prediction"),
            Column::right("memorized"),
        ];
        let caption = "Training models of several layers; the gap is the loss minus the floor.";
        self.deep.iter().fold(Table::new(caption, columns), |table, TrainedModel { row, .. }| {
            let mut cells = vec![
                Cell::from(thousands(row.settings.model.width())),
                thousands(row.n_heads).into(),
                thousands(row.parameters).into(),
            ];
            match &row.result {
                Some(r) => {
                    let reached = row.relative_gap().is_some_and(|g| g <= 0.01);
                    let status = if reached { Status::Good } else { Status::Caution };
                    cells.push(thousands(r.steps).into());
                    cells.push(Cell::status(status, r.stop.name()));
                    cells.push(nats(r.gap_nats / row.predictions.max(1) as f64).into());
                    cells.push(thousands(r.memorized).into());
                }
                None => {
                    cells.push(Cell::none());
                    cells.push(Cell::status(Status::Bad, row.error.clone().unwrap_or_default()));
                    cells.extend([Cell::none(), Cell::none()]);
                }
            }
            table.row(cells)
        })
    }
}
