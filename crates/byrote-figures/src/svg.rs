//! A scene as an SVG file: text stays text, nothing is fetched, and the data is included.
//!
//! The file works on its own or inside an HTML page: no style sheet, no script, no identifiers that could clash.
//! `<title>` and `<desc>` are for screen readers, `<metadata>` contains the figure as JSON, and the group of a series
//! has its key in `data-key`. The bytes depend only on the scene.

use std::fmt::Write;

use super::palette::Colour;
use super::scale::ScaleKind;
use super::scene::{Anchor, Area, Frame, Point, Scene, Shape, Stroke, Text, Weight};

/// The typeface of the metrics first, then common fonts of similar width.
const FONTS: &str =
    "'Noto Sans','Open Sans','Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif";

/// Writes a scene.
pub(super) fn write(scene: &Scene) -> String {
    let (width, height) = (num(scene.width), num(scene.height));
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" style=\"max-width:100%;height:auto\" font-family=\"{FONTS}\">\n\
         <title>{}</title>\n<desc>{}</desc>\n<metadata>{}</metadata>\n",
        escape(&scene.title),
        escape(&scene.description),
        escape(&json_for_xml(&scene.data)),
    );
    groups_to(&mut out, scene, false);
    out.push_str("</svg>\n");
    out
}

/// Writes a scene for embedding in an HTML page: the style sheet can change its colours, `label` (escaped) serves
/// screen readers instead of `<title>`, which browsers would show over the whole drawing, and `data-frames` tells where
/// the plots are and which values their edges have. The page contains the data elsewhere.
pub(super) fn inline(scene: &Scene, class: &str, label: &str) -> String {
    let (width, height) = (num(scene.width), num(scene.height));
    let frames: Vec<String> = scene.frames.iter().map(frame).collect();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{label}\" data-frames=\"[{}]\" font-family=\"{FONTS}\">\n",
        frames.join(",")
    );
    groups_to(&mut out, scene, true);
    out.push_str("</svg>\n");
    out
}

/// A frame as JSON without quotes: left, top, right, bottom, then for x and for y whether it is logarithmic, and both
/// ends.
fn frame(frame: &Frame) -> String {
    let Area { left, top, right, bottom } = frame.area;
    let axis = |(kind, lo, hi): (ScaleKind, f64, f64)| {
        format!("{},{lo:e},{hi:e}", u8::from(kind == ScaleKind::Log10))
    };
    let area = [left, top, right, bottom].map(num).join(",");
    format!("[{area},{},{}]", axis(frame.x), axis(frame.y))
}

fn groups_to(out: &mut String, scene: &Scene, page: bool) {
    for group in &scene.groups {
        if group.shapes.is_empty() || (page && group.role == "page") {
            continue;
        }
        let _ = write!(out, "<g data-role=\"{}\"", escape(group.role));
        if let Some(key) = &group.key {
            let _ = write!(out, " data-key=\"{}\"", escape(key));
        }
        out.push_str(">\n");
        if let Some(title) = &group.title {
            let _ = writeln!(out, "<title>{}</title>", escape(title));
        }
        for shape in &group.shapes {
            shape_to(out, shape);
        }
        out.push_str("</g>\n");
    }
}

fn shape_to(out: &mut String, shape: &Shape) {
    let _ = match shape {
        Shape::Polyline { points, stroke } => {
            let path = if let [a, b] = points[..] {
                let [[x1, y1], [x2, y2]] = [a, b].map(|p| p.map(num));
                format!("<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"")
            } else {
                format!("<polyline fill=\"none\" points=\"{}\"", list(points))
            };
            writeln!(out, "{path}{}/>", stroke_attributes(stroke))
        }
        Shape::Polygon { points, fill, opacity } => {
            let opacity =
                if *opacity < 1.0 { format!(" fill-opacity=\"{}\"", num(*opacity)) } else { String::new() };
            writeln!(out, "<polygon points=\"{}\" fill=\"{}\"{opacity}/>", list(points), fill.hex())
        }
        Shape::Marker { at, radius, form, fill } => {
            let paint =
                format!("fill=\"{}\" stroke=\"{}\" stroke-width=\"1.5\"", fill.hex(), Colour::WHITE.hex());
            match form.corners(*at, *radius) {
                None => {
                    let [x, y] = at.map(num);
                    writeln!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{}\" {paint}/>", num(*radius))
                }
                Some(corners) => writeln!(out, "<polygon points=\"{}\" {paint}/>", list(&corners)),
            }
        }
        Shape::Text(text) => text_to(out, text),
    };
}

fn text_to(out: &mut String, text: &Text) -> std::fmt::Result {
    let [x, y] = text.at.map(num);
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let weight = match text.weight {
        Weight::Regular => "",
        Weight::Bold => " font-weight=\"700\"",
    };
    let halo = match text.halo {
        true => " stroke=\"#ffffff\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\"",
        false => "",
    };
    let (size, colour, content) = (num(text.size), text.colour.hex(), escape(&text.content));
    writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{colour}\"{anchor}{weight}{halo}>{content}</text>"
    )
}

fn stroke_attributes(stroke: &Stroke) -> String {
    let dash = stroke.dash.map(|[on, off]| format!(" stroke-dasharray=\"{} {}\"", num(on), num(off)));
    format!(
        " stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{}",
        stroke.colour.hex(),
        num(stroke.width),
        dash.unwrap_or_default()
    )
}

fn list(points: &[Point]) -> String {
    let mut out = String::new();
    for (i, [x, y]) in points.iter().enumerate() {
        let space = if i > 0 { " " } else { "" };
        let _ = write!(out, "{space}{},{}", num(*x), num(*y));
    }
    out
}

/// At most two decimals, without trailing zeros.
fn num(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// Makes a text safe between tags and in attributes. Characters that XML 1.0 does not allow become U+FFFD, and so do
/// those that would reorder the text around them.
fn escape(text: &str) -> String {
    escape_with(text, |c| if c < ' ' || must_be_spelled(c) { '\u{fffd}' } else { c })
}

/// Escapes the five characters of markup; tabs and line feeds remain, and `shown` replaces every other character.
pub(super) fn escape_with(text: &str, shown: impl Fn(char) -> char) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(c),
            c => out.push(shown(c)),
        }
    }
    out
}

/// JSON may contain a few characters that should not be in a file unescaped; all are inside strings, where JSON can
/// escape them.
pub(super) fn json_for_xml(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            c if must_be_spelled(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Controls above ASCII, direction controls, and noncharacters.
fn must_be_spelled(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Figure, Line};
    use super::*;

    #[test]
    fn hostile_text_is_escaped() {
        assert_eq!(escape("a<b>&\"c'\u{0}\u{202e}é"), "a&lt;b&gt;&amp;&quot;c&#39;\u{fffd}\u{fffd}é");
        let hostile = "</text><script>alert('1')</script>&\u{0}";
        let svg = Figure::new(hostile, Axis::linear(hostile), Axis::linear(hostile))
            .subtitle(hostile)
            .caption(hostile)
            .line(Line::new(hostile, hostile, [(0.0, 0.0), (1.0, 1.0)]))
            .horizontal(0.5, hostile)
            .to_svg()
            .unwrap();
        assert!(!svg.contains("<script") && !svg.contains('\0'));
        // Checks that every opened tag is closed, in order.
        let mut open: Vec<&str> = Vec::new();
        for tag in svg.split('<').skip(1).map(|t| t.split_once('>').unwrap().0).filter(|t| !t.ends_with('/'))
        {
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None => open.push(tag.split_whitespace().next().unwrap()),
            }
        }
        assert!(open.is_empty());
    }

    #[test]
    fn the_data_can_be_read_back_from_the_file() {
        let figure = Figure::new("π < 4 & \u{ffff}\u{85}\u{202e}", Axis::linear("x"), Axis::linear("y"))
            .line(Line::new("k", "l\u{1}", [(0.1, 1e-9), (2.0, 3.0)]).dashed());
        let svg = figure.to_svg().unwrap();
        let data = svg.split_once("<metadata>").unwrap().1.split_once("</metadata>").unwrap().0;
        let data = data.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
        let data = data.replace("&#39;", "'").replace("&amp;", "&");
        assert_eq!(serde_json::from_str::<Figure>(&data).unwrap(), figure);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([1.0, 0.5, -0.001, 12.345, 100.0].map(num), ["1", "0.5", "0", "12.35", "100"]);
    }
}
