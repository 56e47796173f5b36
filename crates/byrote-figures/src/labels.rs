//! Places labels so that none covers another.
//!
//! Labels beside the plot form one column, each as close as possible to the end of its line ([`spread`]). Labels inside
//! the plot take the best position from a list ([`Board::place`]): inside the frame, away from other labels and
//! markers, and crossed by as few lines as possible.

use super::clip::{cross, length_inside};
use super::scene::{Area, Point};

/// Moves the centres of blocks of the given heights apart, inside `lo..hi`, so that none overlaps and the sum of
/// squared moves is minimal. `wanted` must be in ascending order; the order is kept.
///
/// With the heights subtracted, "no overlap" becomes "ascending", so this is isotonic regression (pool adjacent
/// violators), and the bounded solution is the clamped unbounded one. If the blocks together are taller than the room,
/// they overflow at the end.
pub(super) fn spread(wanted: &[f64], heights: &[f64], lo: f64, hi: f64) -> Vec<f64> {
    assert_eq!(wanted.len(), heights.len(), "{} centres for {} heights", wanted.len(), heights.len());
    // Half a height to the first centre, then half of this and half of the next.
    let mut offsets = Vec::with_capacity(heights.len());
    let mut used = 0.0;
    for height in heights {
        offsets.push(used + height / 2.0);
        used += height;
    }
    let mut pools: Vec<(f64, usize)> = Vec::new(); // (mean, number of blocks)
    for (w, offset) in wanted.iter().zip(&offsets) {
        let mut pool = (w - offset, 1);
        while let Some(&(mean, n)) = pools.last().filter(|(mean, _)| *mean > pool.0) {
            pool = ((mean * n as f64 + pool.0 * pool.1 as f64) / (n + pool.1) as f64, n + pool.1);
            pools.pop();
        }
        pools.push(pool);
    }
    let tops = pools.iter().flat_map(|(mean, n)| std::iter::repeat_n(*mean, *n));
    let last = (hi - used).max(lo);
    tops.zip(&offsets).map(|(top, offset)| top.clamp(lo, last) + offset).collect()
}

/// A possible position for a label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub area: Area,
    /// How much worse than the best position it is when nothing is in the way, in pixels of a crossing line.
    pub penalty: f64,
    /// The marker the label belongs to; if it is not next to it, a leader connects them.
    pub marker: Option<(Point, f64)>,
    /// The index of the line breaking it is for.
    pub setting: usize,
}

impl Candidate {
    /// The leader, for a label that is not beside its marker.
    pub fn leader(&self) -> Option<(Point, Point)> {
        let (from, radius) = self.marker?;
        let area = &self.area;
        let to = [from[0].clamp(area.left, area.right), from[1].clamp(area.top, area.bottom)];
        let distance = (to[0] - from[0]).hypot(to[1] - from[1]);
        let t = (radius + 2.0) / distance;
        let start = [from[0] + t * (to[0] - from[0]), from[1] + t * (to[1] - from[1])];
        (distance > radius + 9.0).then_some((start, to))
    }
}

/// The cost of touching a line, in addition to the covered length; and of crossing one with a leader.
const TOUCH: f64 = 8.0;
const TANGLE: f64 = 7.0;

/// What is already drawn inside the frame.
#[derive(Debug, Clone)]
pub(super) struct Board {
    pub frame: Area,
    pub boxes: Vec<Area>,
    pub segments: Vec<(Point, Point)>,
}

impl Board {
    /// Returns the cheapest candidate inside the frame, or the cheapest of all if none is inside; `None` without
    /// candidates. The position is occupied from then on.
    pub fn place(&mut self, candidates: &[Candidate]) -> Option<Candidate> {
        let cost = |candidate: &Candidate| {
            let area = candidate.area.grown(2.0);
            let outside = area.width() * area.height() - area.overlap(&self.frame);
            let covered: f64 = self.boxes.iter().map(|b| area.overlap(b)).sum();
            let lengths = self.segments.iter().map(|(a, b)| length_inside(*a, *b, &area));
            let crossed: f64 = lengths.filter(|length| *length > 0.0).map(|length| TOUCH + length).sum();
            let leader = candidate.leader();
            let tangled = leader.map_or(0, |l| self.segments.iter().filter(|s| cross(l, **s)).count());
            let struck: f64 =
                leader.map_or(0.0, |(a, b)| self.boxes.iter().map(|x| length_inside(a, b, x)).sum());
            1000.0 * outside
                + 10.0 * (covered + struck)
                + crossed
                + TANGLE * tangled as f64
                + candidate.penalty
        };
        let best = candidates.iter().min_by(|a, b| cost(a).total_cmp(&cost(b))).copied()?;
        self.boxes.push(best.area);
        self.segments.extend(best.leader());
        Some(best)
    }
}

/// Positions for a block of text around a marker, from adjacent to further away.
pub(super) fn around([x, y]: Point, radius: f64, width: f64, height: f64) -> Vec<Candidate> {
    let mut out = Vec::new();
    for (ring, distance) in [0.0, 8.0, 16.0, 25.0, 36.0, 50.0, 66.0, 84.0].into_iter().enumerate() {
        let (gap, slant) = (radius + 5.0 + distance, 0.7 * (radius + 3.0 + distance));
        let (above, below) = (y - gap - height, y + gap);
        let places = [
            (x + gap, y - height / 2.0),
            (x - gap - width, y - height / 2.0),
            (x + slant, y - slant - height),
            (x + slant, y + slant),
            (x - slant - width, y - slant - height),
            (x - slant - width, y + slant),
            (x - 0.5 * width, above),
            (x - 0.5 * width, below),
            (x - 0.25 * width, above),
            (x - 0.25 * width, below),
            (x - 0.75 * width, above),
            (x - 0.75 * width, below),
        ];
        for (rank, (left, top)) in places.into_iter().enumerate() {
            let area = Area { left, top, right: left + width, bottom: top + height };
            let (penalty, marker) = (ring as f64 * 7.0 + rank as f64 / 2.0, Some(([x, y], radius)));
            out.push(Candidate { area, penalty, marker, setting: 0 });
        }
    }
    out
}

/// Positions for a block of text along a horizontal or vertical line, on both sides of it.
pub(super) fn along(from: Point, to: Point, width: f64, height: f64) -> Vec<Candidate> {
    const PLACES: u32 = 16;
    const GAP: f64 = 4.0;
    let vertical = from[0] == to[0];
    let mut out = Vec::new();
    for i in 0..=PLACES {
        let t = f64::from(i) / f64::from(PLACES);
        for (side, shift) in [GAP, -GAP].into_iter().enumerate() {
            let (left, top) = if vertical {
                let left = if side == 0 { from[0] + shift } else { from[0] + shift - width };
                (left, from[1].min(to[1]) + GAP + t * ((to[1] - from[1]).abs() - height - 2.0 * GAP))
            } else {
                let top = if side == 0 { from[1] - shift - height } else { from[1] - shift };
                (from[0].min(to[0]) + GAP + t * ((to[0] - from[0]).abs() - width - 2.0 * GAP), top)
            };
            let area = Area { left, top, right: left + width, bottom: top + height };
            let penalty = f64::from(i.min(PLACES - i)) + 0.5 * side as f64;
            out.push(Candidate { area, penalty, marker: None, setting: 0 });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlaps(centres: &[f64], heights: &[f64]) -> bool {
        let ends: Vec<(f64, f64)> =
            centres.iter().zip(heights).map(|(c, h)| (c - h / 2.0, c + h / 2.0)).collect();
        ends.windows(2).any(|w| w[1].0 < w[0].1 - 1e-9)
    }

    #[test]
    fn labels_that_do_not_touch_stay_where_they_are() {
        assert_eq!(spread(&[10.0, 40.0, 90.0], &[12.0; 3], 0.0, 100.0), [10.0, 40.0, 90.0]);
        assert!(spread(&[], &[], 0.0, 100.0).is_empty());
    }

    #[test]
    fn crowded_labels_move_apart_evenly_around_their_mean() {
        assert_eq!(spread(&[50.0, 50.0, 50.0], &[10.0; 3], 0.0, 100.0), [40.0, 50.0, 60.0]);
        assert_eq!(spread(&[50.0, 52.0], &[10.0, 20.0], 0.0, 100.0), [43.5, 58.5]);
    }

    #[test]
    fn labels_never_overlap_nor_leave_the_room() {
        for seed in 0..200_u64 {
            let draw =
                |i: u64| (seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i * i * 977) >> 7) % 300;
            let mut wanted: Vec<f64> = (0..9).map(|i| draw(i) as f64 - 20.0).collect();
            wanted.sort_by(f64::total_cmp);
            let heights: Vec<f64> = (0..9).map(|i| 12.0 + (draw(i + 50) % 20) as f64).collect();
            let centres = spread(&wanted, &heights, 0.0, 290.0);
            assert!(!overlaps(&centres, &heights), "{wanted:?} {centres:?}");
            assert!(centres[0] - heights[0] / 2.0 >= -1e-9 && centres[8] + heights[8] / 2.0 <= 290.0 + 1e-9);
        }
    }

    #[test]
    fn a_label_avoids_lines_markers_labels_and_the_edge() {
        let frame = Area { left: 0.0, top: 0.0, right: 200.0, bottom: 200.0 };
        let mut board = Board { frame, boxes: vec![], segments: vec![([0.0, 100.0], [200.0, 100.0])] };
        let first = board.place(&around([190.0, 100.0], 5.0, 60.0, 14.0)).unwrap();
        assert!(frame.holds(&first.area));
        assert_eq!(length_inside([0.0, 100.0], [200.0, 100.0], &first.area), 0.0);
        let second = board.place(&around([190.0, 100.0], 5.0, 60.0, 14.0)).unwrap();
        assert_eq!(first.area.overlap(&second.area), 0.0);
    }
}
