//! From a figure to a scene: title, frame, axes, names of the series, small print.
//!
//! From top to bottom: title, subtitle, the name of the y axis (horizontal, above its axis, so that it is easy to
//! read), the frame with its ticks, the name of the x axis, the meaning of solid and dashed lines, the legend if there
//! is one, caption and notes. Series are named in a column to the right of the frame, each beside the end of its line,
//! with a sample of the line; if the column would be too tall or too wide, the names go into a legend below.

use super::bars::Bars;
use super::figure::{Band, Direction, Figure, Line, Naming, Points};
use super::heat::{self, Heat};
use super::labels::spread;
use super::legend::{self, CAPTION, GAP, Item, ROW, Row, SAMPLE, SLACK, Sample, words};
use super::notes::{describe, notes};
use super::palette::{Colour, Palette};
use super::plot::{LABEL, Plot, Side, Tag, block, extent, letter};
use super::scale::{Axis, Scale, ScaleKind, Tick, Ticks};
use super::scene::{Anchor, Area, Frame, Group, Point, Scene, Shape, Stroke, Text, Weight, rounded};
use super::sketch::{Axes, isometric};
use super::text;
use crate::Result;

pub(super) const PAD: f64 = 22.0;
const TITLE: (f64, f64) = (19.0, 25.0); // size, line
const PANEL_TITLE: (f64, f64) = (13.5, 19.0);
const SUBTITLE: (f64, f64) = (13.0, 18.0);
/// The distance from the frame to the samples in the column.
const LEAD: f64 = 16.0;
/// The minimum height of the plot; if there is no room, the sheet grows.
const LOWEST_PLOT: f64 = 140.0;

/// A series that needs a name outside the frame.
pub(super) struct Entry<'a> {
    pub item: Item,
    series: Series<'a>,
}

pub(super) enum Series<'a> {
    Line(&'a Line),
    Points(&'a Points),
    Band(&'a Band),
    Bars(&'a Bars),
}

/// Lays out a checked figure.
pub(super) fn lay_out(figure: &Figure) -> Result<Scene> {
    let (x, y) = scales(figure)?;
    let mut palette = figure.palette.clone();
    for key in keys(figure) {
        palette.add(key.clone());
    }
    let entries = if figure.naming == Naming::Nowhere { Vec::new() } else { entries(figure, &palette) };
    let notes = notes(figure, &x, &y);
    let colours = figure.heat.as_ref().map(Heat::scale).transpose()?;
    let sheet = Sheet {
        figure,
        palette: &palette,
        x: &x,
        y: &y,
        colours: colours.as_ref(),
        entries: &entries,
        // For panels, the surrounding sheet shows it.
        notes: if figure.naming == Naming::Nowhere { &[] } else { &notes },
    };
    let mut drawn = sheet.draw(figure.naming == Naming::Auto);
    if !drawn.fits {
        drawn = sheet.draw(false);
    }
    let axis = |scale: &Scale, kind| {
        let (lo, hi) = scale.ends();
        (kind, lo, hi)
    };
    Ok(Scene {
        width: figure.size.0,
        height: drawn.height,
        title: figure.title.clone(),
        description: describe(figure, &x, &y, &notes),
        notes,
        data: figure.to_json()?,
        frames: vec![Frame { area: drawn.frame, x: axis(&x, figure.x.kind), y: axis(&y, figure.y.kind) }],
        groups: drawn.groups,
    })
}

/// The keys of all series, in the order in which they take colours.
pub(super) fn keys(figure: &Figure) -> impl Iterator<Item = &String> {
    let keys = figure.lines.iter().map(|l| &l.key).chain(figure.points.iter().map(|p| &p.key));
    keys.chain(figure.bands.iter().map(|b| &b.key)).chain(figure.bars.iter().map(|b| &b.key))
}

/// Lines extend to the very edge of the x axis; everything else has some space around it.
pub(super) fn scales(figure: &Figure) -> Result<(Scale, Scale)> {
    if let Some(heat) = &figure.heat {
        // The cells fill the frame; anything drawn over them is clipped at its edge.
        let axis = |axis: &Axis, places| {
            let (lo, hi) = Heat::ends(places, axis.kind);
            Scale::cover(&axis.clone().range(lo, hi), &[], &[])
        };
        return Ok((axis(&figure.x, &heat.columns)?, axis(&figure.y, &heat.rows)?));
    }
    // A value that the other axis cannot show is not drawn, so it does not widen this one.
    let drawn = |p: &&(f64, f64)| {
        (figure.x.kind != ScaleKind::Log10 || p.0 > 0.0) && (figure.y.kind != ScaleKind::Log10 || p.1 > 0.0)
    };
    let lines: Vec<(f64, f64)> = figure.lines.iter().flat_map(|l| &l.points).filter(drawn).copied().collect();
    let points: Vec<(f64, f64)> =
        figure.points.iter().flat_map(|p| &p.points).filter(drawn).copied().collect();
    let bands = || figure.bands.iter().flat_map(|b| &b.points);
    let edges: Vec<(f64, f64)> = bands().flat_map(|b| [(b.0, b.1), (b.0, b.2)]).collect();
    let edges: Vec<(f64, f64)> = edges.iter().filter(drawn).copied().collect();
    let guides = || figure.guides.iter().flat_map(|g| &g.points).filter(drawn);
    let rules = |direction| figure.rules.iter().filter(move |r| r.direction == direction).map(|r| r.value);
    let tight_x: Vec<f64> = lines.iter().chain(&edges).map(|p| p.0).collect();
    let padded_x = points.iter().chain(guides()).map(|p| p.0).chain(rules(Direction::Vertical));
    let padded_x: Vec<f64> = padded_x.collect();
    let bars: Vec<(f64, f64)> = figure
        .points
        .iter()
        .flat_map(|p| p.points.iter().zip(&p.errors).flat_map(|(at, ends)| [(at.0, ends.0), (at.0, ends.1)]))
        .collect();
    let bars: Vec<(f64, f64)> = bars.iter().filter(drawn).copied().collect();
    let heights: Vec<(f64, f64)> = figure.bars.iter().flat_map(Bars::points).collect();
    let all_y =
        lines.iter().chain(&heights).chain(&edges).chain(&points).chain(&bars).chain(guides()).map(|p| p.1);
    let padded_y: Vec<f64> = all_y.chain(rules(Direction::Horizontal)).collect();
    // The lengths of bars can be compared only from zero on.
    let y = Axis { from_zero: figure.y.from_zero || !figure.bars.is_empty(), ..figure.y.clone() };
    Ok((Scale::cover(&figure.x, &tight_x, &padded_x)?, Scale::cover(&y, &[], &padded_y)?))
}

pub(super) fn entries<'a>(figure: &'a Figure, palette: &Palette) -> Vec<Entry<'a>> {
    let entry = |key: &String, label: &String, sample, series| {
        let (key, words, colour) = (Some(key.clone()), label.clone(), palette.colour(key));
        Entry { item: Item { key, tag: None, sample, colour, words }, series }
    };
    let lines = figure.lines.iter().filter(|l| !l.points.is_empty()).map(|l| {
        entry(&l.key, &l.label, Sample::Line { dashed: l.dashed, markers: l.markers }, Series::Line(l))
    });
    let points = figure.points.iter().filter(|p| p.points.len() > 1);
    let points = points.map(|p| entry(&p.key, &p.label, Sample::Points(p.form), Series::Points(p)));
    let bands = figure.bands.iter().filter(|b| !b.points.is_empty());
    let bands = bands.map(|b| entry(&b.key, &b.label, Sample::Band, Series::Band(b)));
    let bars = figure.bars.iter().map(|b| entry(&b.key, &b.label, Sample::Bar, Series::Bars(b)));
    lines.chain(points).chain(bands).chain(bars).filter(|e| !e.item.words.trim().is_empty()).collect()
}

/// Letters for lines, as long as the alphabet lasts. A key of the figure's palette has the letter of its position
/// there, so that figures that share a palette share their letters; all other lines take the remaining letters, in
/// order.
fn tags<'a>(lines: impl IntoIterator<Item = &'a Line>, palette: &Palette) -> Vec<Tag<'a>> {
    let mut free: Vec<char> = ('a'..='z').collect();
    let lines: Vec<&Line> = lines.into_iter().collect();
    let mut letters: Vec<Option<char>> = Vec::with_capacity(lines.len());
    for line in &lines {
        let own = palette.position(&line.key).and_then(|i| ('a'..='z').nth(i));
        letters.push(own.filter(|c| free.contains(c)));
        free.retain(|c| Some(*c) != own);
    }
    let mut free = free.into_iter();
    let tag = |(line, letter): (&'a Line, Option<char>)| {
        Some(Tag { line, letter: letter.or_else(|| free.next())? })
    };
    lines.into_iter().zip(letters).filter_map(tag).collect()
}

fn tag_of(tags: &[Tag<'_>], entry: &Entry<'_>) -> Option<char> {
    let Series::Line(line) = entry.series else { return None };
    tags.iter().find(|tag| std::ptr::eq(tag.line, line)).map(|tag| tag.letter)
}

struct Sheet<'a> {
    figure: &'a Figure,
    palette: &'a Palette,
    x: &'a Scale,
    y: &'a Scale,
    colours: Option<&'a Scale>,
    entries: &'a [Entry<'a>],
    notes: &'a [String],
}

/// A complete sheet.
struct Drawn {
    groups: Vec<Group>,
    frame: Area,
    height: f64,
    /// Whether there was room for the names beside the frame, if they were supposed to be there.
    fits: bool,
}

impl Sheet<'_> {
    /// Draws the whole sheet, with the names beside the frame or below it.
    fn draw(&self, beside: bool) -> Drawn {
        let (width, wanted_height) = self.figure.size;
        let room = width - 2.0 * PAD;
        let (header, top) = self.header(room);
        // The order of the names does not depend on the size of the frame, so it is determined first.
        let nominal = Area { left: 0.0, top: 0.0, right: width, bottom: wanted_height };
        let order = self.stands(&self.plot(nominal));
        // In a legend below the plot, every line needs a letter; beside it, only those that do not end there.
        let tagged = order.iter().filter(|s| if beside { s.end.is_none() } else { order.len() > 1 });
        let letters = tags(tagged.filter_map(|s| line_of(s.entry)), &self.figure.palette);
        let rows = self.rows(room, (!beside).then_some((&order[..], &letters[..])));
        let below: f64 = rows.iter().map(Row::height).sum();
        let x_label = if self.figure.x.label.is_empty() { 0.0 } else { ROW };
        let under_frame = 24.0 + x_label + below + PAD - 6.0;
        let lowest = (0.5 * width.min(wanted_height)).max(LOWEST_PLOT);
        let plot_height = (wanted_height - top - under_frame).max(lowest);
        let height = wanted_height.max((top + lowest + under_frame).ceil());

        let names: Vec<Vec<String>> = match beside {
            true => self
                .entries
                .iter()
                .map(|e| text::wrap(&e.item.words, LABEL, Weight::Regular, 0.27 * width, 2))
                .collect(),
            false => Vec::new(),
        };
        let extents: Vec<(f64, f64)> = names.iter().filter_map(|lines| extent(lines)).collect();
        let widest = extents.iter().map(|e| e.0).fold(0.0, f64::max);
        let beside_width = if extents.is_empty() { 0.0 } else { LEAD + SAMPLE + GAP + SLACK * widest - 8.0 };
        let heights: Vec<f64> = extents.iter().map(|e| e.1 + 3.0).collect();

        let y_ticks = self.y_ticks(plot_height);
        let tick_width =
            y_ticks.major.iter().map(|t| text::width(&t.label, LABEL, Weight::Regular)).fold(0.0, f64::max);
        let snap = |v: f64| v.floor() + 0.5; // one-pixel lines are aligned to pixels
        let frame = Area {
            left: snap(PAD + tick_width * SLACK + 9.0),
            top: snap(top),
            right: snap(width - PAD - beside_width),
            bottom: snap(top + plot_height),
        };
        if beside && (heights.iter().sum::<f64>() > frame.height() + 12.0 || frame.width() < 0.45 * width) {
            return Drawn { groups: Vec::new(), frame, height, fits: false };
        }
        let x_ticks = self.x_ticks(&frame);
        let page = Area { left: 0.0, top: 0.0, right: width, bottom: height };
        let mut groups = vec![group("page", vec![Shape::rectangle(page, Colour::WHITE, 1.0)]), header];
        groups.extend(self.ground(&frame, &x_ticks, &y_ticks));
        let frame = match self.figure.axes {
            Axes::Isometric => {
                let length = |scale: &Scale| scale.ends().1 - scale.ends().0;
                isometric(frame, (length(self.x), length(self.y)))
            }
            _ => frame,
        };
        let plot = self.plot(frame);
        let (drawn, something) = plot.draw(&letters);
        groups.extend(drawn);
        if !something {
            let at = [(frame.left + frame.right) / 2.0, (frame.top + frame.bottom) / 2.0];
            let notice = words(at, Anchor::Middle, LABEL + 2.0, Colour::MUTED, "no values to draw");
            groups.push(group("empty", vec![notice]));
        }
        if beside {
            groups.extend(column(&frame, &self.stands(&plot), &names, &heights, &letters));
        }
        groups.extend(legend::draw(rows, PAD, frame.bottom + 24.0 + x_label));
        Drawn { groups, frame, height, fits: true }
    }

    /// The ticks of the y axis, none if axes are hidden.
    fn y_ticks(&self, height: f64) -> Ticks {
        let heat = self.figure.heat.as_ref();
        let fits = |ticks: &[Tick]| apart(ticks, |_| if heat.is_some() { 8.0 } else { 20.0 }, height, 8.0);
        match heat {
            _ if !self.figure.axes.are_labelled() => Ticks::default(),
            Some(heat) => self.y.ticks_at(&heat.rows, &fits),
            None => self.y.ticks(&fits),
        }
    }

    /// The ticks of the x axis, none if axes are hidden.
    fn x_ticks(&self, frame: &Area) -> Ticks {
        let heat = self.figure.heat.as_ref();
        let label_width = |t: &Tick| text::width(&t.label, LABEL, Weight::Regular);
        let gap = if heat.is_some() { 8.0 } else { 16.0 };
        let fits = |ticks: &[Tick]| apart(ticks, label_width, frame.width(), gap);
        match heat {
            _ if !self.figure.axes.are_labelled() => Ticks::default(),
            Some(heat) => self.x.ticks_at(&heat.columns, &fits),
            None if !self.figure.x.names.is_empty() => self.x.named_ticks(&self.figure.x.names, &fits),
            None => self.x.ticks(&fits),
        }
    }

    /// The grid, except below a heat map, and the axes, unless they are hidden.
    fn ground(&self, frame: &Area, x_ticks: &Ticks, y_ticks: &Ticks) -> Vec<Group> {
        if !self.figure.axes.are_labelled() {
            return Vec::new();
        }
        let axes = group("axes", self.axes(frame, x_ticks, y_ticks));
        match self.figure.heat {
            None => {
                // Between names there is nothing to read off.
                let upright = if self.figure.x.names.is_empty() { x_ticks } else { &Ticks::default() };
                vec![group("grid", grid(frame, upright, y_ticks)), axes]
            }
            Some(_) => vec![axes],
        }
    }

    /// Draws the title, the subtitle and the name of the y axis; also returns where the frame begins.
    fn header(&self, room: f64) -> (Group, f64) {
        let size = if self.figure.naming == Naming::Nowhere { PANEL_TITLE } else { TITLE };
        let (mut shapes, mut top) = lines(&self.figure.title, PAD - 4.0, room, size, Weight::Bold);
        let (subtitle, below) = lines(&self.figure.subtitle, top, room, SUBTITLE, Weight::Regular);
        shapes.extend(subtitle);
        top = below;
        if !self.figure.y.label.is_empty() {
            top += 10.0;
            let name = text::wrap(&self.figure.y.label, LABEL, Weight::Regular, room / SLACK, 1).concat();
            shapes.push(words([PAD, top + 11.0], Anchor::Start, LABEL, Colour::INK, &name));
            top += 16.0;
        }
        (group("title", shapes), top + 13.0)
    }

    /// The rows below the name of the x axis; including the legend if names have letters.
    fn rows(&self, room: f64, names: Option<(&[Stand<'_>], &[Tag<'_>])>) -> Vec<Row> {
        let mut rows = Vec::new();
        if let Some((heat, scale)) = self.figure.heat.as_ref().zip(self.colours) {
            let shapes = heat::strip(heat, scale, PAD, 0.0, room.min(320.0));
            rows.extend([Row::Ready(group("colours", shapes), heat::STRIP), Row::Space(4.0)]);
        }
        if let Some((order, letters)) = names {
            let item = |s: &Stand<'_>| Item { tag: tag_of(letters, s.entry), ..s.entry.item.clone() };
            rows.extend(legend::columns(order.iter().map(item).collect(), PAD, room));
        }
        let drawn = || self.figure.lines.iter().filter(|l| !l.points.is_empty());
        if drawn().any(|l| l.dashed) && self.figure.naming != Naming::Nowhere {
            rows.extend((!rows.is_empty()).then_some(Row::Space(6.0)));
            rows.extend(legend::columns(dashes(self.figure, drawn().any(|l| !l.dashed)), PAD, room));
        }
        if !rows.is_empty() {
            rows.insert(0, Row::Space(6.0));
        }
        rows.extend(print(&self.figure.caption, self.notes, room));
        rows
    }

    fn axes(&self, frame: &Area, x_ticks: &Ticks, y_ticks: &Ticks) -> Vec<Shape> {
        let stroke = Stroke { colour: Colour::GREY, width: 1.0, dash: None };
        let mut shapes = vec![
            Shape::polyline([[frame.left, frame.bottom], [frame.right, frame.bottom]], stroke),
            Shape::polyline([[frame.left, frame.top], [frame.left, frame.bottom]], stroke),
        ];
        let x_at = |position: f64| frame.left + position * frame.width();
        let y_at = |position: f64| frame.bottom - position * frame.height();
        let x_mark = |p: f64, long: f64| {
            Shape::polyline([[x_at(p), frame.bottom], [x_at(p), frame.bottom + long]], stroke)
        };
        let y_mark = |p: f64, long: f64| {
            Shape::polyline([[frame.left - long, y_at(p)], [frame.left, y_at(p)]], stroke)
        };
        shapes.extend(x_ticks.minor.iter().map(|p| x_mark(*p, 3.0)));
        shapes.extend(y_ticks.minor.iter().map(|p| y_mark(*p, 3.0)));
        for tick in &x_ticks.major {
            shapes.push(x_mark(tick.position, 5.5));
            let at = [x_at(tick.position), frame.bottom + 19.0];
            shapes.push(words(at, Anchor::Middle, LABEL, Colour::MUTED, &tick.label));
        }
        for tick in &y_ticks.major {
            shapes.push(y_mark(tick.position, 5.5));
            let at = [frame.left - 9.0, y_at(tick.position) + 0.36 * LABEL];
            shapes.push(words(at, Anchor::End, LABEL, Colour::MUTED, &tick.label));
        }
        if !self.figure.x.label.is_empty() {
            let room = 2.0 * ((frame.left + frame.right) / 2.0 - PAD).min(frame.width());
            let name = text::wrap(&self.figure.x.label, LABEL, Weight::Regular, room / SLACK, 1).concat();
            let at = [(frame.left + frame.right) / 2.0, frame.bottom + 24.0 + 15.0];
            shapes.push(words(at, Anchor::Middle, LABEL, Colour::INK, &name));
        }
        shapes
    }

    fn plot(&self, frame: Area) -> Plot<'_> {
        let Sheet { figure, palette, x, y, colours, .. } = *self;
        Plot { figure, palette, x, y, colours, frame }
    }

    /// The preferred positions of the names beside the frame, from top to bottom.
    fn stands<'b>(&'b self, plot: &Plot<'_>) -> Vec<Stand<'b>> {
        let middle = (plot.frame.top + plot.frame.bottom) / 2.0;
        let mut stands: Vec<Stand<'b>> = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let (at, end) = match entry.series {
                Series::Line(line) => match plot.end_of(line) {
                    Some((at, Side::Right)) => (at, Some(at)),
                    Some((at, _)) => (at, None),
                    None => ([0.0, middle], None),
                },
                Series::Points(points) => ([0.0, plot.height_of(&points.points).unwrap_or(middle)], None),
                // The tallest bar, so that the names of several series do not stand in one place.
                Series::Bars(bars) => {
                    let tallest = bars.points().max_by(|a, b| a.1.total_cmp(&b.1));
                    ([0.0, plot.height_of(tallest.as_slice()).unwrap_or(middle)], None)
                }
                Series::Band(band) => {
                    let last: Vec<(f64, f64)> =
                        band.points.iter().rev().take(1).map(|p| (p.0, p.2)).collect();
                    ([0.0, plot.height_of(&last).unwrap_or(middle)], None)
                }
            };
            stands.push(Stand { entry, index, at, end });
        }
        // Lines that leave at the top are ordered by their height further to the right.
        stands.sort_by(|a, b| a.at[1].total_cmp(&b.at[1]).then(a.at[0].total_cmp(&b.at[0])));
        stands
    }
}

/// A name to be placed beside the frame.
struct Stand<'a> {
    entry: &'a Entry<'a>,
    /// The index of its entry.
    index: usize,
    /// The height it should be close to.
    at: Point,
    /// The end of its line, if that is at or near the right edge.
    end: Option<Point>,
}

fn line_of<'a>(entry: &Entry<'a>) -> Option<&'a Line> {
    if let Series::Line(line) = entry.series { Some(line) } else { None }
}

/// Draws the names beside the frame: a leader from the end of the line or its letter, a sample of it, its name.
fn column(
    frame: &Area,
    stands: &[Stand<'_>],
    names: &[Vec<String>],
    heights: &[f64],
    letters: &[Tag<'_>],
) -> Vec<Group> {
    let wanted: Vec<f64> = stands.iter().map(|s| s.at[1]).collect();
    let heights: Vec<f64> = stands.iter().map(|s| heights[s.index]).collect();
    let centres = spread(&wanted, &heights, frame.top - 6.0, frame.bottom + 6.0);
    let mut groups = Vec::new();
    for (stand, centre) in stands.iter().zip(centres) {
        let Item { key, sample, colour, .. } = &stand.entry.item;
        let left = frame.right + LEAD;
        let mut shapes = Vec::new();
        if let Some(end) = stand.end {
            // Thin and pale: it connects a name to a line and is not part of the line.
            let stroke = Stroke { colour: colour.lighter(0.35), width: 1.0, dash: None };
            let bend = (end[0] + 1.5).max(frame.right);
            let mut way = vec![[end[0] + 1.5, end[1]], [bend, end[1]], [left - 2.0, centre]];
            way.dedup();
            shapes.push(Shape::polyline(way, stroke));
        }
        let tag = tag_of(letters, stand.entry);
        shapes.extend(tag.map(|tag| letter(tag, [left - 8.0, centre], colour.for_text())));
        shapes.extend(sample.draw(*colour, left, centre));
        shapes.extend(block(&names[stand.index], left + SAMPLE + GAP, centre, colour.for_text(), false));
        groups.push(Group::new("name", key.clone(), shapes));
    }
    groups
}

/// Draws the title and subtitle of a sheet; also returns where they end.
pub(super) fn heading(title: &str, subtitle: &str, room: f64) -> (Group, f64) {
    let (mut shapes, top) = lines(title, PAD - 4.0, room, TITLE, Weight::Bold);
    let (below, top) = lines(subtitle, top, room, SUBTITLE, Weight::Regular);
    shapes.extend(below);
    (group("title", shapes), top)
}

/// Draws a title (bold) or the sentence below it, starting at `top`; also returns where it ends.
fn lines(
    content: &str,
    mut top: f64,
    room: f64,
    (size, line): (f64, f64),
    weight: Weight,
) -> (Vec<Shape>, f64) {
    let (colour, most) = if weight == Weight::Bold { (Colour::INK, 2) } else { (Colour::MUTED, 4) };
    let mut shapes = Vec::new();
    for content in text::wrap(content, size, weight, room / SLACK, most) {
        let at = rounded([PAD, top + 0.5 * line + 0.36 * size]);
        let (anchor, halo) = (Anchor::Start, false);
        shapes.push(Shape::Text(Text { at, anchor, size, weight, colour, halo, content }));
        top += line;
    }
    (shapes, top)
}

/// Draws the meaning of solid lines (if there are any) and dashed lines.
pub(super) fn dashes(figure: &Figure, solid: bool) -> Vec<Item> {
    let means = [(false, &figure.dash_key.0), (true, &figure.dash_key.1)].into_iter();
    let item = |(dashed, words): (bool, &String)| {
        let word = if dashed { "dashed" } else { "solid" };
        let (sample, colour) = (Sample::Line { dashed, markers: false }, Colour::MUTED);
        Item { key: None, tag: None, sample, colour, words: format!("{word}: {words}") }
    };
    means.filter(|(dashed, _)| *dashed || solid).map(item).collect()
}

/// The small print.
pub(super) fn print(caption: &str, notes: &[String], room: f64) -> Vec<Row> {
    let all = [caption].into_iter().chain(notes.iter().map(String::as_str));
    let lines: Vec<String> =
        all.flat_map(|words| text::wrap(words, CAPTION.0, Weight::Regular, room / SLACK, 12)).collect();
    let space = (!lines.is_empty()).then_some(Row::Space(6.0));
    space.into_iter().chain(lines.into_iter().map(Row::Print)).collect()
}

fn group(role: &'static str, shapes: Vec<Shape>) -> Group {
    Group::new(role, None, shapes)
}

fn grid(frame: &Area, x_ticks: &Ticks, y_ticks: &Ticks) -> Vec<Shape> {
    let stroke = Stroke { colour: Colour::FAINT, width: 1.0, dash: None };
    let upright = x_ticks.major.iter().map(|t| frame.left + t.position * frame.width());
    let level = y_ticks.major.iter().map(|t| frame.bottom - t.position * frame.height());
    upright
        .map(|x| Shape::polyline([[x, frame.top], [x, frame.bottom]], stroke))
        .chain(level.map(|y| Shape::polyline([[frame.left, y], [frame.right, y]], stroke)))
        .collect()
}

/// Whether labels of these widths, centred on their ticks on an axis of this length, stay `gap` pixels apart.
fn apart(ticks: &[Tick], width: impl Fn(&Tick) -> f64, length: f64, gap: f64) -> bool {
    ticks.windows(2).all(|pair| {
        let distance = (pair[1].position - pair[0].position) * length;
        distance >= (width(&pair[0]) + width(&pair[1])) / 2.0 + gap
    })
}
