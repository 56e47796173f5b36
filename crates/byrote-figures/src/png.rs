//! A scene as a PNG file: `tiny-skia` fills the paths, the letters are outlines of the embedded typeface.
//!
//! Nothing depends on the machine: no system fonts, no graphics card, no vector unit that might round differently, and
//! a compressor with fixed choices. The file is the simplest kind of PNG: 8-bit RGB, one `IDAT` chunk, every row
//! unfiltered (which compresses flat colours best), written here because it is only lengths and checksums.

use miniz_oxide::deflate::compress_to_vec_zlib;
use tiny_skia::{
    FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke as SkiaStroke, StrokeDash, Transform,
};
use ttf_parser::OutlineBuilder;

use super::palette::Colour;
use super::scene::{Anchor, Point, Scene, Shape, Stroke, Text};
use super::text;
use crate::{Error, Result};

/// The maximum number of pixels: 64 million pixels take 256 MB while drawing.
const MOST_PIXELS: f64 = 64e6;

/// Draws a scene, with `scale` pixels per unit, on white.
pub(super) fn write(scene: &Scene, scale: f64) -> Result<Vec<u8>> {
    let (width, height) = ((scene.width * scale).round(), (scene.height * scale).round());
    let size_ok = scale.is_finite() && width >= 1.0 && height >= 1.0 && width * height <= MOST_PIXELS;
    let pixmap = if size_ok { Pixmap::new(width as u32, height as u32) } else { None };
    let Some(mut pixmap) = pixmap else {
        let message =
            format!("PNG scale {scale}: gives {width} x {height} pixels, allowed are 1 to 64 million");
        return Err(Error::figure(message));
    };
    pixmap.fill(skia(Colour::WHITE, 1.0));
    let transform = Transform::from_scale(scale as f32, scale as f32);
    let mut canvas = Canvas { pixmap, transform };
    for shape in scene.shapes() {
        canvas.draw(shape);
    }
    Ok(encode(&canvas.pixmap))
}

struct Canvas {
    pixmap: Pixmap,
    transform: Transform,
}

impl Canvas {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Polyline { points, stroke } => {
                if let Some(path) = path(points, false) {
                    self.stroke(&path, stroke, self.transform);
                }
            }
            Shape::Polygon { points, fill, opacity } => {
                if let Some(path) = path(points, true) {
                    self.fill(&path, *fill, *opacity, self.transform);
                }
            }
            Shape::Marker { at, radius, form, fill } => {
                let outline = match form.corners(*at, *radius) {
                    None => PathBuilder::from_circle(at[0] as f32, at[1] as f32, *radius as f32),
                    Some(corners) => path(&corners, true),
                };
                if let Some(outline) = outline {
                    self.fill(&outline, *fill, 1.0, self.transform);
                    let rim = Stroke { colour: Colour::WHITE, width: 1.5, dash: None };
                    self.stroke(&outline, &rim, self.transform);
                }
            }
            Shape::Text(text) => self.text(text),
        }
    }

    fn text(&mut self, item: &Text) {
        let mut pen = Pen(PathBuilder::new());
        text::outline(&item.content, item.size, item.weight, &mut pen);
        let Some(outline) = pen.0.finish() else { return }; // only spaces
        let width = text::width(&item.content, item.size, item.weight);
        let left = match item.anchor {
            Anchor::Start => item.at[0],
            Anchor::Middle => item.at[0] - width / 2.0,
            Anchor::End => item.at[0] - width,
        };
        let transform = self.transform.pre_translate(left as f32, item.at[1] as f32);
        if item.halo {
            let rim = Stroke { colour: Colour::WHITE, width: 3.0, dash: None };
            self.stroke(&outline, &rim, transform);
        }
        self.fill(&outline, item.colour, 1.0, transform);
    }

    fn fill(&mut self, path: &Path, colour: Colour, opacity: f64, transform: Transform) {
        self.pixmap.fill_path(path, &paint(colour, opacity), FillRule::Winding, transform, None);
    }

    fn stroke(&mut self, path: &Path, stroke: &Stroke, transform: Transform) {
        let dash = stroke.dash.and_then(|[on, off]| StrokeDash::new(vec![on as f32, off as f32], 0.0));
        let how = SkiaStroke {
            width: stroke.width as f32,
            line_join: LineJoin::Round,
            dash,
            ..SkiaStroke::default()
        };
        self.pixmap.stroke_path(path, &paint(stroke.colour, 1.0), &how, transform, None);
    }
}

/// Collects the outlines of letters.
struct Pen(PathBuilder);

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.0.close();
    }
}

fn path(points: &[Point], closed: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    let (first, rest) = points.split_first()?;
    builder.move_to(first[0] as f32, first[1] as f32);
    for [x, y] in rest {
        builder.line_to(*x as f32, *y as f32);
    }
    if closed {
        builder.close();
    }
    builder.finish()
}

fn skia(colour: Colour, opacity: f64) -> tiny_skia::Color {
    let alpha = (opacity.clamp(0.0, 1.0) * 255.0).round() as u8;
    tiny_skia::Color::from_rgba8(colour.0, colour.1, colour.2, alpha)
}

fn paint(colour: Colour, opacity: f64) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color(skia(colour, opacity));
    paint
}

/// Returns the bytes of the file. The picture is opaque, so its alpha channel is dropped.
fn encode(pixmap: &Pixmap) -> Vec<u8> {
    let mut rows = Vec::with_capacity((pixmap.width() as usize * 3 + 1) * pixmap.height() as usize);
    for row in pixmap.pixels().chunks_exact(pixmap.width() as usize) {
        rows.push(0); // filter: none
        rows.extend(row.iter().flat_map(|p| [p.red(), p.green(), p.blue()]));
    }
    let mut header = Vec::with_capacity(13);
    header.extend(pixmap.width().to_be_bytes());
    header.extend(pixmap.height().to_be_bytes());
    header.extend([8, 2, 0, 0, 0]); // 8 bits, RGB, deflate, adaptive filters, not interlaced
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut out, b"IHDR", &header);
    chunk(&mut out, b"IDAT", &compress_to_vec_zlib(&rows, 8));
    chunk(&mut out, b"IEND", &[]);
    out
}

fn chunk(out: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    out.extend((data.len() as u32).to_be_bytes());
    let start = out.len();
    out.extend(kind);
    out.extend(data);
    let sum = crc32(&out[start..]);
    out.extend(sum.to_be_bytes());
}

/// The checksum of PNG (ISO 3309), one bit at a time: the files are small.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| if c & 1 == 1 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Figure, Line};
    use super::*;

    fn figure() -> Figure {
        Figure::new("title", Axis::linear("x"), Axis::linear("y")).size(400.0, 300.0).line(Line::new(
            "madden2024",
            "line",
            [(0.0, 0.0), (1.0, 1.0)],
        ))
    }

    /// Width, height and RGB rows of a file written by this module.
    fn decode(png: &[u8]) -> (u32, u32, Vec<u8>) {
        let word = |i: usize| u32::from_be_bytes(png[i..i + 4].try_into().unwrap());
        let (width, height) = (word(16), word(20));
        let data = &png[41..41 + word(33) as usize];
        let rows = miniz_oxide::inflate::decompress_to_vec_zlib(data).unwrap();
        let rows = rows.chunks(width as usize * 3 + 1).flat_map(|r| r[1..].to_vec()).collect();
        (width, height, rows)
    }

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b"IEND"), 0xae42_6082);
    }

    #[test]
    fn the_file_has_its_signature_and_size_and_is_not_blank() {
        for (scale, size) in [(1.0, (400, 300)), (2.0, (800, 600)), (0.5, (200, 150))] {
            let png = figure().to_png(scale).unwrap();
            assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
            assert_eq!(&png[png.len() - 8..png.len() - 4], b"IEND");
            let (width, height, rgb) = decode(&png);
            assert_eq!((width, height), size);
            assert_eq!(rgb.len(), (width * height * 3) as usize);
            let inked = rgb.chunks(3).filter(|p| *p != [255, 255, 255]).count();
            let share = inked as f64 / f64::from(width * height);
            assert!((0.005..0.3).contains(&share), "{share} of the picture is inked");
        }
    }

    #[test]
    fn the_line_is_drawn_in_its_colour() {
        let (_, _, rgb) = decode(&figure().to_png(2.0).unwrap());
        assert!(rgb.chunks(3).filter(|p| *p == [0x00, 0x72, 0xb2]).count() > 100);
    }

    #[test]
    fn impossible_scales_are_refused() {
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e6] {
            assert!(matches!(figure().to_png(scale), Err(Error::Figure(_))));
        }
    }
}
