//! Draws the inside of the frame: bands, reference lines, lines, points and their labels.

use super::bars;
use super::clip::{clip_path, clip_polygon, clip_segment, thin};
use super::figure::{Band, Direction, Figure, Line, Points, Rule};
use super::heat;
use super::labels::{Board, Candidate, along, around, spread};
use super::palette::{Colour, Palette};
use super::scale::{Scale, number};
use super::scene::{Anchor, Area, Group, MarkerForm, Point, Shape, Stroke, Text, Weight};
use super::sketch;
use super::text;

/// The font size of labels, and the distance between their baselines.
pub(super) const LABEL: f64 = 12.0;
pub(super) const LABEL_LINE: f64 = 15.5;
/// Dash and gap: long enough to be distinguished from a solid line at any size.
pub(super) const DASH: [f64; 2] = [6.0, 4.0];
pub(super) const LINE_WIDTH: f64 = 2.0;
pub(super) const BAND_OPACITY: f64 = 0.18;
/// Single points are large, clouds of points small.
const LARGE: f64 = 5.5;
const SMALL: f64 = 3.2;
/// Labels inside the plot wrap at one of these widths, whichever finds the better place.
const WIDTHS: [f64; 2] = [190.0, 115.0];
/// Series with more points than this have one title instead of one per point.
const MOST_TITLES: usize = 200;
/// Half the width of the end of an error bar.
const CAP: f64 = 3.5;
/// A line that ends within this fraction of the plot's width from the right edge is still named there.
const NEAR: f64 = 0.08;

/// The stroke of a line of the figure.
pub(super) fn line_stroke(colour: Colour, dashed: bool) -> Stroke {
    Stroke { colour, width: LINE_WIDTH, dash: dashed.then_some(DASH) }
}

/// The text of a block, vertically centred on `middle`.
pub(super) fn block(lines: &[String], left: f64, middle: f64, colour: Colour, halo: bool) -> Vec<Shape> {
    let top = middle - lines.len() as f64 * LABEL_LINE / 2.0;
    let text = |(i, line): (usize, &String)| {
        let at = super::scene::rounded([left, top + (i as f64 + 0.5) * LABEL_LINE + 0.36 * LABEL]);
        let (content, weight) = (line.clone(), Weight::Regular);
        Shape::Text(Text { at, anchor: Anchor::Start, size: LABEL, weight, colour, halo, content })
    };
    lines.iter().enumerate().map(text).collect()
}

/// A letter that denotes a line, at its end and beside its name.
pub(super) struct Tag<'a> {
    pub line: &'a Line,
    pub letter: char,
}

/// The letter itself, centred.
pub(super) fn letter(letter: char, [x, y]: Point, colour: Colour) -> Shape {
    let at = super::scene::rounded([x, y + 0.3 * LABEL]);
    let (content, weight) = (letter.to_string(), Weight::Bold);
    Shape::Text(Text { at, anchor: Anchor::Middle, size: LABEL, weight, colour, halo: true, content })
}

/// Where a line leaves the plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// At the right edge, or close enough to be connected to a name beside it.
    Right,
    Top,
    /// It ends inside the plot, or leaves downwards.
    Inside,
}

/// The inside of the frame.
pub(super) struct Plot<'a> {
    pub figure: &'a Figure,
    pub palette: &'a Palette,
    pub x: &'a Scale,
    pub y: &'a Scale,
    /// From the values of the heat map to its colours.
    pub colours: Option<&'a Scale>,
    pub frame: Area,
}

impl Plot<'_> {
    /// The position of a value in pixels; `None` if the axes cannot show it.
    pub fn pixel(&self, (x, y): (f64, f64)) -> Option<Point> {
        if !(self.x.accepts(x) && self.y.accepts(y)) {
            return None;
        }
        // Far outside, only the direction matters; the bound keeps the clipping arithmetic finite.
        let bounded = |v: f64| v.clamp(-1e7, 1e7);
        Some([
            bounded(self.frame.left + self.x.position(x) * self.frame.width()),
            bounded(self.frame.bottom - self.y.position(y) * self.frame.height()),
        ])
    }

    fn visible(&self, point: (f64, f64)) -> Option<Point> {
        (self.x.contains(point.0) && self.y.contains(point.1)).then(|| self.pixel(point)).flatten()
    }

    /// The unbroken runs of a series, in pixels: a value that the axes cannot show breaks the line.
    fn runs(&self, points: &[(f64, f64)]) -> Vec<Vec<Point>> {
        let pixels: Vec<Option<Point>> = points.iter().map(|p| self.pixel(*p)).collect();
        pixels.split(Option::is_none).map(|run| run.iter().flatten().copied().collect()).collect()
    }

    /// The visible pieces of a line; a point between two gaps is a piece of one point.
    pub fn pieces(&self, line: &Line) -> Vec<Vec<Point>> {
        let mut out = Vec::new();
        for run in self.runs(&line.points) {
            match run[..] {
                [] => {}
                [one] if self.frame.grown(1e-6).contains(one) => out.push(vec![one]),
                _ => out.extend(clip_path(&thin(run, self.frame.width()), &self.frame)),
            }
        }
        out
    }

    /// Where the visible part of a line ends on the right.
    pub fn end_of(&self, line: &Line) -> Option<(Point, Side)> {
        let points = self.pieces(line).into_iter().flatten();
        let at = points.max_by(|a, b| a[0].total_cmp(&b[0]).then(b[1].total_cmp(&a[1])))?;
        let side = if at[0] > self.frame.right - 2.0 {
            Side::Right
        } else if at[1] < self.frame.top + 2.0 {
            Side::Top
        } else if at[0] > self.frame.right - NEAR * self.frame.width() {
            Side::Right
        } else {
            Side::Inside
        };
        Some((at, side))
    }

    /// Roughly where the other series named beside the frame are: the middle of their visible part.
    pub fn height_of(&self, points: &[(f64, f64)]) -> Option<f64> {
        let heights: Vec<f64> = points.iter().filter_map(|p| self.visible(*p)).map(|p| p[1]).collect();
        (!heights.is_empty()).then(|| heights.iter().sum::<f64>() / heights.len() as f64)
    }

    /// Letters at the ends of lines, outside the frame if they end at its edge.
    fn tags(&self, tags: &[Tag<'_>], board: &mut Board) -> Vec<Group> {
        const STEP: f64 = 12.0; // the size of a letter in either direction
        let ends: Vec<(&Tag<'_>, Point, Side)> =
            tags.iter().filter_map(|tag| self.end_of(tag.line).map(|(at, side)| (tag, at, side))).collect();
        let on_edge = |edge: Side, axis: usize, lo: f64, hi: f64| {
            let mut some: Vec<_> = ends.iter().filter(|e| e.2 == edge).map(|e| (e.0, e.1[axis])).collect();
            some.sort_by(|a, b| a.1.total_cmp(&b.1));
            let wanted: Vec<f64> = some.iter().map(|s| s.1).collect();
            let places = spread(&wanted, &vec![STEP; some.len()], lo, hi);
            some.into_iter().zip(places).map(|((tag, _), place)| (tag, place)).collect::<Vec<_>>()
        };
        let frame = &self.frame;
        let top = on_edge(Side::Top, 0, frame.left - 6.0, frame.right + 6.0).into_iter();
        let right = on_edge(Side::Right, 1, frame.top - 6.0, frame.bottom + 6.0).into_iter();
        let inside = ends.iter().filter(|e| e.2 == Side::Inside).filter_map(|(tag, at, _)| {
            let area = board.place(&around(*at, 1.0, 0.7 * STEP, STEP))?.area;
            Some((*tag, [(area.left + area.right) / 2.0, (area.top + area.bottom) / 2.0]))
        });
        top.map(|(tag, x)| (tag, [x, frame.top - 9.0]))
            .chain(right.map(|(tag, y)| (tag, [frame.right + 9.0, y])))
            .chain(inside)
            .map(|(tag, at)| {
                let shape = letter(tag.letter, at, self.palette.colour(&tag.line.key).for_text());
                Group::new("tag", Some(tag.line.key.clone()), vec![shape])
            })
            .collect()
    }

    /// Everything drawn over the cells of a heat map: lines and reference lines as segments, and the positions of
    /// markers.
    pub fn overlays(&self) -> (Vec<(Point, Point)>, Vec<Point>) {
        let figure = self.figure;
        let pieces = figure.lines.iter().flat_map(|line| self.pieces(line));
        let rules = figure.rules.iter().filter_map(|rule| self.rule_ends(rule)).map(Vec::from);
        let ends = |path: Vec<Point>| path.windows(2).map(|w| (w[0], w[1])).collect::<Vec<_>>();
        let markers = figure.points.iter().flat_map(|p| &p.points).filter_map(|p| self.visible(*p));
        (pieces.chain(rules).flat_map(ends).collect(), markers.collect())
    }

    /// Draws everything, and reports whether there was anything to draw.
    pub fn draw(&self, tags: &[Tag<'_>]) -> (Vec<Group>, bool) {
        let figure = self.figure;
        let mut board = Board { frame: self.frame, boxes: Vec::new(), segments: Vec::new() };
        let mut groups: Vec<Group> = match figure.heat.as_ref().zip(self.colours) {
            Some((heat, colours)) => {
                let (groups, numbers) = heat::draw(figure, heat, colours, self);
                board.boxes.extend(numbers);
                groups
            }
            None => Vec::new(),
        };
        let (guides, words, segments) = sketch::draw(self);
        groups.extend(guides);
        board.boxes.extend(words);
        board.segments.extend(segments);
        let (bars, taken) = bars::draw(self);
        groups.extend(bars);
        board.boxes.extend(taken);
        groups.extend(figure.bands.iter().map(|band| self.band(band)));
        let rules: Vec<(&Rule, [Point; 2])> =
            figure.rules.iter().filter_map(|rule| Some((rule, self.rule_ends(rule)?))).collect();
        for (_, ends) in &rules {
            let stroke = Stroke { colour: Colour::GREY, width: 1.0, dash: None };
            groups.push(Group::new("rule", None, vec![Shape::polyline(*ends, stroke)]));
            board.segments.push((ends[0], ends[1]));
        }
        for line in &figure.lines {
            let pieces = self.pieces(line);
            board.segments.extend(pieces.iter().flat_map(|piece| piece.windows(2).map(|w| (w[0], w[1]))));
            groups.extend(self.line(line, &pieces));
        }
        for points in &figure.points {
            let (radius, colour) = (radius(points), self.palette.colour(&points.key));
            groups.extend(self.error_bars(points, colour, &mut board));
            let seen = points.points.iter().filter_map(|p| Some((*p, self.visible(*p)?)));
            let seen: Vec<((f64, f64), Point)> = seen.collect();
            board.boxes.extend(seen.iter().map(|(_, at)| around_point(*at, radius + 1.0)));
            groups.extend(self.markers("points", (&points.key, &points.label), &seen, radius, points.form));
        }
        let something = groups.iter().any(|g| !g.shapes.is_empty());
        groups.extend(self.tags(tags, &mut board));
        for points in figure.points.iter().filter(|p| p.points.len() == 1) {
            groups.extend(self.point_label(points, &mut board));
        }
        for (rule, ends) in rules {
            groups.extend(self.rule_label(rule, ends, &mut board));
        }
        (groups, something)
    }

    fn band(&self, band: &Band) -> Group {
        let colour = self.palette.colour(&band.key);
        let edges: Vec<Option<(Point, Point)>> = band
            .points
            .iter()
            .map(|&(x, low, high)| self.pixel((x, low)).zip(self.pixel((x, high))))
            .collect();
        let mut shapes = Vec::new();
        for run in edges.split(Option::is_none).filter(|run| run.len() >= 2) {
            let low = run.iter().flatten().map(|e| e.0);
            let outline: Vec<Point> = low.chain(run.iter().rev().flatten().map(|e| e.1)).collect();
            let outline = clip_polygon(&outline, &self.frame);
            if outline.len() >= 3 {
                shapes.push(Shape::polygon(outline, colour, BAND_OPACITY));
            }
        }
        Group::new("band", Some(band.key.clone()), shapes).titled(if band.label.is_empty() {
            &band.key
        } else {
            &band.label
        })
    }

    fn line(&self, line: &Line, pieces: &[Vec<Point>]) -> Vec<Group> {
        let colour = self.palette.colour(&line.key);
        let mut shapes = Vec::new();
        for piece in pieces {
            match piece[..] {
                [one] => shapes.push(Shape::marker(one, SMALL, MarkerForm::Circle, colour)),
                _ => {
                    if self.figure.heat.is_some() {
                        // Over cells of any colour, a line needs a rim.
                        let stroke = line_stroke(Colour::WHITE, line.dashed);
                        let rim = Stroke { width: LINE_WIDTH + 2.6, ..stroke };
                        shapes.push(Shape::polyline(piece.iter().copied(), rim));
                    }
                    shapes.push(Shape::polyline(piece.iter().copied(), line_stroke(colour, line.dashed)));
                }
            }
        }
        let mut groups = vec![Group::new("line", Some(line.key.clone()), shapes).titled(&line.label)];
        if line.markers {
            let seen = line.points.iter().filter_map(|p| Some((*p, self.visible(*p)?)));
            let seen: Vec<((f64, f64), Point)> = seen.collect();
            groups.extend(self.markers("line", (&line.key, &line.label), &seen, SMALL, MarkerForm::Circle));
        }
        groups
    }

    /// Markers at positions; if they are few, each shows its values.
    fn markers(
        &self,
        role: &'static str,
        (key, label): (&str, &str),
        seen: &[((f64, f64), Point)],
        radius: f64,
        form: MarkerForm,
    ) -> Vec<Group> {
        let colour = self.palette.colour(key);
        let marker = |at: &Point| Shape::marker(*at, radius, form, colour);
        if seen.len() > MOST_TITLES {
            let shapes = seen.iter().map(|(_, at)| marker(at)).collect();
            return vec![Group::new(role, Some(key.into()), shapes).titled(label)];
        }
        let name =
            |label: &str, letter: &str| if label.is_empty() { letter.into() } else { label.to_string() };
        let (x_name, y_name) = (name(&self.figure.x.label, "x"), name(&self.figure.y.label, "y"));
        seen.iter()
            .map(|((x, y), at)| {
                let told = format!("{label}: {x_name} {}, {y_name} {}", number(*x), number(*y));
                Group::new(role, Some(key.into()), vec![marker(at)]).titled(told)
            })
            .collect()
    }

    /// Error bars; one that extends below what a logarithmic axis can show runs to its edge, without a cap.
    fn error_bars(&self, points: &Points, colour: Colour, board: &mut Board) -> Option<Group> {
        let stroke = Stroke { colour, width: 1.3, dash: None };
        let mut shapes = Vec::new();
        for (&(x, y), &(low, high)) in points.points.iter().zip(&points.errors) {
            let (Some(at), Some(top)) = (self.pixel((x, y)), self.pixel((x, high))) else { continue };
            let bottom = self.pixel((x, low)).unwrap_or([at[0], self.frame.bottom + 1e3]);
            let Some((a, b)) = clip_segment(top, bottom, &self.frame) else { continue };
            shapes.push(Shape::polyline([a, b], stroke));
            for (end, wanted) in [(a, top), (b, bottom)] {
                if end == wanted {
                    shapes.push(Shape::polyline([[end[0] - CAP, end[1]], [end[0] + CAP, end[1]]], stroke));
                }
            }
            board.segments.push((a, b));
        }
        (!shapes.is_empty()).then(|| Group::new("errors", Some(points.key.clone()), shapes))
    }

    fn rule_ends(&self, rule: &Rule) -> Option<[Point; 2]> {
        let frame = self.frame;
        match rule.direction {
            Direction::Horizontal if self.y.contains(rule.value) => {
                let y = frame.bottom - self.y.position(rule.value) * frame.height();
                Some([[frame.left, y], [frame.right, y]])
            }
            Direction::Vertical if self.x.contains(rule.value) => {
                let x = frame.left + self.x.position(rule.value) * frame.width();
                Some([[x, frame.top], [x, frame.bottom]])
            }
            _ => None,
        }
    }

    fn point_label(&self, points: &Points, board: &mut Board) -> Option<Group> {
        let place = self.visible(*points.points.first()?)?;
        let (candidate, lines) = self.settle(&points.label, board, |w, h| around(place, LARGE, w, h))?;
        let colour = self.palette.colour(&points.key).for_text();
        let tie = |(from, to)| Shape::polyline([from, to], Stroke { colour, width: 1.0, dash: None });
        let mut shapes: Vec<Shape> = candidate.leader().map(tie).into_iter().collect();
        let area = candidate.area;
        shapes.extend(block(&lines, area.left, (area.top + area.bottom) / 2.0, colour, true));
        Some(Group::new("label", Some(points.key.clone()), shapes))
    }

    fn rule_label(&self, rule: &Rule, [from, to]: [Point; 2], board: &mut Board) -> Option<Group> {
        let (candidate, lines) = self.settle(&rule.label, board, |w, h| along(from, to, w, h))?;
        let area = candidate.area;
        let shapes = block(&lines, area.left, (area.top + area.bottom) / 2.0, Colour::MUTED, true);
        Some(Group::new("label", None, shapes))
    }

    /// Breaks a label into lines and places it; `places` lists the positions for a block of a given width and height.
    fn settle(
        &self,
        label: &str,
        board: &mut Board,
        places: impl Fn(f64, f64) -> Vec<Candidate>,
    ) -> Option<(Candidate, Vec<String>)> {
        let room = |width: f64| width.min(0.6 * self.frame.width());
        let settings = WIDTHS.map(|width| text::wrap(label, LABEL, Weight::Regular, room(width), 3));
        let mut candidates = Vec::new();
        for (setting, lines) in settings.iter().enumerate() {
            // A narrow setting must not drop words.
            if setting > 0 && lines.last().is_none_or(|line| line.ends_with('…')) {
                continue;
            }
            let (width, height) = extent(lines)?;
            let penalty = 10.0 * setting as f64;
            candidates.extend(places(width, height).into_iter().map(|c| Candidate {
                penalty: c.penalty + penalty,
                setting,
                ..c
            }));
        }
        let candidate = board.place(&candidates)?;
        let [wide, narrow] = settings;
        Some((candidate, if candidate.setting == 0 { wide } else { narrow }))
    }
}

/// Width and height of a block of lines; `None` without lines.
pub(super) fn extent(lines: &[String]) -> Option<(f64, f64)> {
    let width = lines.iter().map(|l| text::width(l, LABEL, Weight::Regular)).fold(0.0, f64::max);
    (!lines.is_empty()).then_some((width, lines.len() as f64 * LABEL_LINE))
}

pub(super) fn radius(points: &Points) -> f64 {
    if points.points.len() == 1 { LARGE } else { SMALL }
}

fn around_point([x, y]: Point, radius: f64) -> Area {
    Area { left: x - radius, right: x + radius, top: y - radius, bottom: y + radius }
}
