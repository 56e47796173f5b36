//! The section of a study's page about models of several layers.

use crate::report::numbers::{nats, thousands};
use crate::study::{Study, TrainedModel};
use crate::sweep::JobRow;
use byrote_figures::html::{Cell, Column, Exhibit, Section, Status, Table};
use byrote_figures::{Axis, Figure, Line, Points};

impl Study {
    /// The number of layers of the deep models.
    fn layers(&self) -> u64 {
        self.spec.n_layers.unwrap_or(1)
    }

    /// One sentence: what depth changes.
    pub(super) fn depth_line(&self) -> String {
        let deep = least(&self.deep).map(|row| (row.parameters, row.settings.model.width()));
        let one = least(&self.trained).map(|row| row.parameters);
        let steps = self.deep.first().and_then(|t| t.row.settings.training.steps);
        comparison(&self.name(), deep, one, self.level(), steps)
    }

    /// The number of layers in words.
    fn name(&self) -> String {
        if self.layers() == 1 { "one layer".to_owned() } else { format!("{} layers", self.layers()) }
    }

    pub(super) fn level(&self) -> &'static str {
        if self.part.floor_nats.0 > 0.0 { "1%" } else { "0.01 nats per prediction" }
    }

    pub(super) fn depth(&self) -> Section {
        let paragraph = format!(
            "GPT-2 with {}, by the width of its residual stream, trained in the same way as the models above. Every distinct prefix \
             is evaluated once per layer. These models differ from those of one layer in more than depth: they have LayerNorm, \
             learned positions, skip connections, and an output tied to the embedding, which therefore counts once.",
            self.name()
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

/// The model with the fewest parameters that came within 1% of the floor.
fn least(models: &[TrainedModel]) -> Option<&JobRow> {
    let reached = models.iter().map(|t| &t.row).filter(|row| row.relative_gap().is_some_and(|g| g <= 0.01));
    reached.min_by_key(|row| row.parameters)
}

/// The smallest models within a level of the floor, in one sentence: of GPT-2 the parameters and the width, of one layer the
/// parameters.
fn comparison(
    layers: &str,
    deep: Option<(u64, u64)>,
    one: Option<u64>,
    level: &str,
    steps: Option<u64>,
) -> String {
    let steps = steps.map_or(String::new(), |steps| format!(" in at most {} steps", thousands(steps)));
    let Some((parameters, width)) = deep else {
        return format!(
            "Depth: GPT-2 with {layers} does not come within {level} of the floor{steps} at any of the widths tried."
        );
    };
    let deep = format!(
        "Depth: GPT-2 with {layers} takes {} parameters (width {}) to come within {level} of the floor",
        thousands(parameters),
        thousands(width)
    );
    match one {
        Some(one) => format!(
            "{deep}, and one layer as in the papers takes {}; both are the smallest of the widths tried that come so near{steps}, \
             and they differ in architecture as well as in depth.",
            thousands(one)
        ),
        None => format!(
            "{deep}, the smallest of the widths tried that comes so near{steps}; one layer as in the papers does so at none of the \
             widths tried."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_models_are_those_that_come_near_the_floor_in_time() {
        let line = |deep, one| comparison("2 layers", deep, one, "1%", Some(400));
        assert_eq!(
            line(Some((9696, 16)), Some(17_161)),
            "Depth: GPT-2 with 2 layers takes 9,696 parameters (width 16) to come within 1% of the floor, and one layer as in the \
             papers takes 17,161; both are the smallest of the widths tried that come so near in at most 400 steps, and they \
             differ in architecture as well as in depth."
        );
        assert!(line(Some((9696, 16)), None).ends_with("does so at none of the widths tried."));
        assert_eq!(
            line(None, Some(1)),
            "Depth: GPT-2 with 2 layers does not come within 1% of the floor in at most 400 steps at any of the widths tried."
        );
    }
}
