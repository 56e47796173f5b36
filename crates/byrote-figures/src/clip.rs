//! Clips lines and areas at the edge of the plot, and thins paths that are finer than a pixel.
//!
//! Lines are clipped by Liang and Barsky's parameter test, areas by Sutherland and Hodgman's half-planes. The geometry
//! is clipped here, not by the viewer, so both writers draw the same and labels can find where a line really ends.

use super::scene::{Area, Point};

/// The part of a segment inside an area.
pub(super) fn clip_segment(a: Point, b: Point, area: &Area) -> Option<(Point, Point)> {
    let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
    let (mut from, mut to) = (0.0_f64, 1.0_f64);
    let sides =
        [(-dx, a[0] - area.left), (dx, area.right - a[0]), (-dy, a[1] - area.top), (dy, area.bottom - a[1])];
    for (p, q) in sides {
        if p == 0.0 {
            if q < 0.0 {
                return None;
            }
        } else if p < 0.0 {
            from = from.max(q / p);
        } else {
            to = to.min(q / p);
        }
    }
    let at = |t: f64| [a[0] + t * dx, a[1] + t * dy];
    (from <= to).then(|| (at(from), at(to)))
}

/// How much of a segment lies inside an area, in pixels.
pub(super) fn length_inside(a: Point, b: Point, area: &Area) -> f64 {
    clip_segment(a, b, area).map_or(0.0, |(p, q)| (p[0] - q[0]).hypot(p[1] - q[1]))
}

/// The visible pieces of a path.
pub(super) fn clip_path(points: &[Point], area: &Area) -> Vec<Vec<Point>> {
    let mut pieces: Vec<Vec<Point>> = Vec::new();
    let mut open = false;
    for pair in points.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let Some((p, q)) = clip_segment(a, b, area) else {
            open = false;
            continue;
        };
        match pieces.last_mut() {
            Some(piece) if open => piece.push(q),
            _ => pieces.push(vec![p, q]),
        }
        // The path continues in the same piece only if it did not leave.
        open = q == b;
    }
    pieces
}

/// The part of a polygon inside an area; empty if they do not intersect.
pub(super) fn clip_polygon(points: &[Point], area: &Area) -> Vec<Point> {
    // (coordinate, edge, +1 keeps what is above the edge)
    let edges = [(0, area.left, 1.0), (0, area.right, -1.0), (1, area.top, 1.0), (1, area.bottom, -1.0)];
    let mut current = points.to_vec();
    for (axis, edge, sign) in edges {
        let inside = |p: Point| sign * (p[axis] - edge) >= 0.0;
        let mut next = Vec::with_capacity(current.len() + 4);
        for (i, &b) in current.iter().enumerate() {
            let a = current[(i + current.len() - 1) % current.len()];
            if inside(a) != inside(b) {
                let t = (edge - a[axis]) / (b[axis] - a[axis]);
                next.push([a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])]);
            }
            if inside(b) {
                next.push(b);
            }
        }
        current = next;
    }
    current
}

/// Whether two segments cross.
pub(super) fn cross(a: (Point, Point), b: (Point, Point)) -> bool {
    let side =
        |(p, q): (Point, Point), r: Point| (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
    side(a, b.0) * side(a, b.1) < 0.0 && side(b, a.0) * side(b, a.1) < 0.0
}

/// Thins a path with many points per pixel: from every column half a pixel wide it keeps the first, lowest, highest and
/// last, so the drawing looks the same. Paths that are short, or that go backwards, are left alone.
pub(super) fn thin(points: Vec<Point>, width: f64) -> Vec<Point> {
    if (points.len() as f64) < 8.0 * width || points.windows(2).any(|w| w[1][0] < w[0][0]) {
        return points;
    }
    let mut out = Vec::new();
    for column in points.chunk_by(|a, b| (2.0 * a[0]).floor() == (2.0 * b[0]).floor()) {
        let by_height = |i: &usize, j: &usize| column[*i][1].total_cmp(&column[*j][1]);
        let lowest = (0..column.len()).min_by(by_height).unwrap_or(0);
        let highest = (0..column.len()).max_by(by_height).unwrap_or(0);
        let mut kept = [0, lowest, highest, column.len() - 1];
        kept.sort_unstable();
        for (i, index) in kept.iter().enumerate() {
            if i == 0 || kept[i - 1] != *index {
                out.push(column[*index]);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: Area = Area { left: 0.0, top: 0.0, right: 10.0, bottom: 10.0 };

    #[test]
    fn a_segment_is_cut_where_it_crosses_the_edge() {
        assert_eq!(clip_segment([-5.0, 5.0], [15.0, 5.0], &BOX), Some(([0.0, 5.0], [10.0, 5.0])));
        assert_eq!(clip_segment([-5.0, -5.0], [-1.0, 20.0], &BOX), None);
        assert_eq!(clip_segment([1.0, 2.0], [3.0, 4.0], &BOX), Some(([1.0, 2.0], [3.0, 4.0])));
        assert_eq!(length_inside([5.0, -7.0], [5.0, 3.0], &BOX), 3.0);
    }

    #[test]
    fn segments_cross_only_where_both_pass_through() {
        assert!(cross(([0.0, 0.0], [4.0, 4.0]), ([0.0, 4.0], [4.0, 0.0])));
        assert!(!cross(([0.0, 0.0], [1.0, 1.0]), ([0.0, 4.0], [4.0, 0.0])));
        assert!(!cross(([0.0, 0.0], [4.0, 0.0]), ([0.0, 1.0], [4.0, 1.0])));
    }

    #[test]
    fn a_path_that_leaves_and_returns_becomes_two_pieces() {
        let pieces = clip_path(&[[1.0, 5.0], [5.0, 5.0], [5.0, 25.0], [8.0, 25.0], [8.0, 5.0]], &BOX);
        assert_eq!(pieces, [vec![[1.0, 5.0], [5.0, 5.0], [5.0, 10.0]], vec![[8.0, 10.0], [8.0, 5.0]]]);
    }

    #[test]
    fn a_polygon_around_the_box_becomes_the_box() {
        let area = |p: &[Point]| {
            let shoelace = |i: usize| p[i][0] * p[(i + 1) % p.len()][1] - p[(i + 1) % p.len()][0] * p[i][1];
            ((0..p.len()).map(shoelace).sum::<f64>() / 2.0).abs()
        };
        assert_eq!(
            area(&clip_polygon(&[[-9.0, -9.0], [90.0, -9.0], [90.0, 90.0], [-9.0, 90.0]], &BOX)),
            100.0
        );
        assert_eq!(area(&clip_polygon(&[[-5.0, 0.0], [5.0, 0.0], [5.0, 5.0], [-5.0, 5.0]], &BOX)), 25.0);
        assert!(clip_polygon(&[[20.0, 0.0], [30.0, 0.0], [30.0, 9.0]], &BOX).is_empty());
    }

    #[test]
    fn thinning_keeps_ends_and_extremes() {
        let wave = |i: usize| [i as f64 / 100.0, if i == 777 { 9.0 } else { (i % 7) as f64 }];
        let thinned = thin((0..10_000).map(wave).collect(), 100.0);
        assert!(thinned.len() <= 800, "{}", thinned.len());
        assert_eq!(thinned[0], wave(0));
        assert_eq!(thinned.last(), Some(&wave(9_999)));
        assert!(thinned.contains(&wave(777)));
        assert!(thinned.windows(2).all(|w| w[0][0] <= w[1][0]));
    }
}
