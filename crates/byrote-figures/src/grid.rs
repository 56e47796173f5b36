//! From panels to a scene: each panel is laid out as a figure without names, then moved to its place; all share one
//! legend.

use super::figure::{Figure, Naming};
use super::layout::{self, PAD, dashes, entries, heading, keys, print, scales};
use super::legend::{self, Item, Row};
use super::palette::Colour;
use super::panels::Panels;
use super::scale::ScaleKind;
use super::scene::{Area, Frame, Group, Scene, Shape};
use crate::Result;

/// The minimum size of a panel; if there is no room, fewer are placed side by side, or the sheet grows.
const LEAST: (f64, f64) = (210.0, 200.0);

/// Lays out checked panels.
pub(super) fn lay_out(panels: &Panels) -> Result<Scene> {
    let (width, height) = panels.size;
    let room = width - 2.0 * PAD;
    let figures = alike(panels)?;
    let across = panels.columns.min(panels.panels.len()).min((width / LEAST.0).floor() as usize).max(1);
    let down = figures.len().div_ceil(across);

    let (header, top) = heading(&panels.title, &panels.subtitle, room);
    let whole: Vec<Scene> = figures
        .iter()
        .map(|figure| layout::lay_out(&Figure { naming: Naming::Auto, ..figure.clone() }))
        .collect::<Result<_>>()?;
    let rows = below(panels, &figures, &whole, room);
    let rows_height: f64 = rows.iter().map(Row::height).sum();
    let share = (height - top - rows_height - PAD + 6.0) / down as f64;
    let size = ((width / across as f64).floor(), share.floor().max(LEAST.1));

    let mut groups = vec![header];
    let mut frames = Vec::new();
    let mut at = top - PAD + 8.0;
    for line in figures.chunks(across) {
        let mut tallest: f64 = 0.0;
        for (i, figure) in line.iter().enumerate() {
            let scene = layout::lay_out(&figure.clone().size(size.0, size.1))?;
            tallest = tallest.max(scene.height);
            let by = [i as f64 * size.0, at];
            for mut group in scene.groups.into_iter().filter(|g| g.role != "page") {
                group.shift(by);
                groups.push(group);
            }
            frames.extend(scene.frames.into_iter().map(|frame| moved(frame, by)));
        }
        at += tallest;
    }
    let height = height.max((at + rows_height + PAD - 10.0).ceil());
    let page = Area { left: 0.0, top: 0.0, right: width, bottom: height };
    groups.insert(0, Group::new("page", None, vec![Shape::rectangle(page, Colour::WHITE, 1.0)]));
    groups.extend(legend::draw(rows, PAD, at - 8.0));
    Ok(Scene {
        width,
        height,
        title: panels.title.clone(),
        description: describe(panels, &whole),
        notes: Vec::new(),
        data: panels.to_json()?,
        frames,
        groups,
    })
}

/// The panels with one palette, and with one range on the axes they share.
fn alike(panels: &Panels) -> Result<Vec<Figure>> {
    let mut palette = panels.palette.clone();
    for key in panels.panels.iter().flat_map(keys) {
        palette.add(key.clone());
    }
    let colours = colour_range(&panels.panels);
    let ends: Vec<_> = panels.panels.iter().map(scales).collect::<Result<_>>()?;
    let union = |of: &dyn Fn(usize) -> (f64, f64)| {
        (0..ends.len()).map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |a, b| (a.0.min(b.0), a.1.max(b.1)))
    };
    let (x, y) = (union(&|i| ends[i].0.ends()), union(&|i| ends[i].1.ends()));
    let kinds =
        |kind: &dyn Fn(&Figure) -> ScaleKind| panels.panels.windows(2).all(|w| kind(&w[0]) == kind(&w[1]));
    let one_x = panels.share_x && kinds(&|f| f.x.kind);
    let one_y = panels.share_y && kinds(&|f| f.y.kind);
    let alike = panels.panels.iter().map(|figure| {
        let mut figure = figure.clone();
        (figure.subtitle, figure.caption) = Default::default();
        (figure.palette, figure.naming) = (palette.clone(), Naming::Nowhere);
        if one_x {
            figure.x.range = Some(x);
        }
        if one_y {
            figure.y.range = Some(y);
        }
        if let Some(heat) = figure.heat.as_mut().filter(|heat| heat.range.is_none()) {
            heat.range = colours;
        }
        figure
    });
    Ok(alike.collect())
}

/// One colour range for all heat maps of the same quantity.
fn colour_range(figures: &[Figure]) -> Option<(f64, f64)> {
    let heats: Vec<_> = figures.iter().filter_map(|f| f.heat.as_ref()).collect();
    let first = heats.first()?;
    if heats.iter().any(|h| h.label != first.label || h.kind != first.kind) {
        return None;
    }
    let values = heats.iter().flat_map(|h| h.values());
    let ends = values
        .filter(|v| first.kind == ScaleKind::Linear || *v > 0.0)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |a, v| (a.0.min(v), a.1.max(v)));
    (ends.0 < ends.1).then_some(ends)
}

/// The legend of all panels, the meaning of dashed lines, the small print and the notes of every panel.
fn below(panels: &Panels, figures: &[Figure], whole: &[Scene], room: f64) -> Vec<Row> {
    let mut items: Vec<Item> = Vec::new();
    for figure in figures {
        for entry in entries(figure, &figure.palette) {
            if !items.iter().any(|i| i.key == entry.item.key && i.words == entry.item.words) {
                items.push(entry.item);
            }
        }
    }
    let mut rows = legend::columns(items, PAD, room);
    if let Some(figure) = figures.iter().find(|f| f.lines.iter().any(|l| l.dashed)) {
        let solid = figures.iter().any(|f| f.lines.iter().any(|l| !l.dashed));
        rows.extend(legend::columns(dashes(figure, solid), PAD, room));
    }
    let notes = figures.iter().zip(whole).flat_map(|(figure, scene)| {
        let title = figure.title.trim_end_matches('.');
        let name = if title.is_empty() { String::new() } else { format!("{title}: ") };
        scene.notes.iter().map(move |note| format!("{name}{note}"))
    });
    rows.extend(print(&panels.caption, &notes.collect::<Vec<_>>(), room));
    rows
}

fn moved(frame: Frame, by: [f64; 2]) -> Frame {
    let Area { left, top, right, bottom } = frame.area;
    let area = Area { left: left + by[0], right: right + by[0], top: top + by[1], bottom: bottom + by[1] };
    Frame { area, ..frame }
}

fn describe(panels: &Panels, whole: &[Scene]) -> String {
    let mut out = String::new();
    if !panels.subtitle.is_empty() {
        out.push_str(&format!("{} ", panels.subtitle));
    }
    out.push_str(&format!("{} panels.", panels.panels.len()));
    for (i, scene) in whole.iter().enumerate() {
        let title = if scene.title.is_empty() { String::new() } else { format!(", {}", scene.title) };
        out.push_str(&format!(" Panel {}{title}: {}", i + 1, scene.description));
    }
    if !panels.caption.is_empty() {
        out.push_str(&format!(" {}", panels.caption));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Figure, Heat, Line, Panels, Points};

    fn panel(title: &str, top: f64) -> Figure {
        Figure::new(title, Axis::log("d_mlp"), Axis::log("gap (nats)"))
            .line(Line::new("a", "fit", [(1.0, top), (100.0, 1.0)]).dashed())
            .points(Points::new("b", "measured", [(10.0, 2.0), (20.0, 0.0)]))
    }

    #[test]
    fn panels_share_ranges_and_one_legend() {
        let panels = Panels::new("Widths", [panel("n = 1", 10.0), panel("n = 2", 1e4), panel("n = 3", 5.0)]);
        let scene = panels.to_scene().unwrap();
        assert_eq!(scene.frames.len(), 3);
        assert!(scene.frames.windows(2).all(|w| w[0].x == w[1].x && w[0].y == w[1].y));
        assert!(scene.frames[0].area.right < scene.frames[1].area.left);
        assert_eq!(scene.groups.iter().filter(|g| g.role == "page").count(), 1);
        let legend = |key: &str| {
            scene.groups.iter().filter(|g| g.role == "legend" && g.key.as_deref() == Some(key)).count()
        };
        assert_eq!((legend("a"), legend("b")), (1, 1));
        assert!(scene.description.contains("Panel 2, n = 2"));
        assert!(panels.to_svg().unwrap().contains("n = 1: Left out"));
        assert!(panels.to_png(1.0).is_ok());
    }

    #[test]
    fn panels_stay_on_the_sheet_whatever_its_size() {
        let panels =
            Panels::new("t", (0..5).map(|i| panel(&format!("n = {i}"), 9.0))).caption("c ".repeat(300));
        for (width, height) in [(240.0, 160.0), (380.0, 900.0), (900.0, 300.0), (1600.0, 900.0)] {
            let scene = panels.clone().size(width, height).to_scene().unwrap();
            for frame in &scene.frames {
                assert!(frame.area.right <= width && frame.area.bottom <= scene.height);
                assert!(frame.area.width() > 90.0 && frame.area.height() > 60.0, "{frame:?}");
            }
        }
    }

    #[test]
    fn heat_maps_of_one_quantity_share_their_colours() {
        let map = |v: f64| {
            let heat = Heat::log("gap", vec![1.0, 2.0], vec![1.0], vec![vec![Some(1.0), Some(v)]]);
            Figure::new("", Axis::log("x"), Axis::linear("y")).heat(heat)
        };
        let panels = Panels::new("t", [map(10.0), map(1000.0)]);
        let scene = panels.to_scene().unwrap();
        let fills: Vec<_> = scene
            .groups
            .iter()
            .filter(|g| g.role == "cell")
            .map(|g| match &g.shapes[0] {
                super::Shape::Polygon { fill, .. } => fill.hex(),
                _ => String::new(),
            })
            .collect();
        assert_eq!(fills[0], fills[2]);
        assert_ne!(fills[1], fills[3]);
        assert_eq!(fills[3], "#fde725");
    }

    #[test]
    fn no_panels_and_no_columns_are_refused() {
        assert!(Panels::new("t", []).to_svg().is_err());
        assert!(Panels::new("t", [panel("", 9.0)]).columns(0).to_svg().is_err());
    }

    #[test]
    fn panels_survive_their_json() {
        let panels = Panels::new("t", [panel("", 9.0)]);
        let read: super::super::Drawing = serde_json::from_str(&panels.to_json().unwrap()).unwrap();
        assert_eq!(read, panels.into());
        let figure = panel("", 9.0);
        let read: super::super::Drawing = serde_json::from_str(&figure.to_json().unwrap()).unwrap();
        assert_eq!(read, figure.into());
    }
}
