//! The measurements that laws are fitted to: points (x, y), each with a seed and a weight.
//!
//! x is the size that was set, y the measurement. Points of one *group* (a seed of a sweep) may share errors; intervals
//! resample whole groups. A weight is the inverse variance of y, up to a common factor.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The size.
    pub x: f64,
    /// The measurement.
    pub y: f64,
    /// The seed, or whatever else several points have in common.
    pub group: u64,
    /// The inverse variance of y, up to a common factor.
    pub weight: f64,
}

impl Point {
    /// A point of weight 1.
    pub const fn new(x: f64, y: f64, group: u64) -> Self {
        Self { x, y, group, weight: 1.0 }
    }
}

/// One or more points, all finite and with at most one per size and group; ordered by x, then by group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Points(Vec<Point>);

impl Points {
    /// Checks and orders points. Results do not depend on the order in which they are given.
    ///
    /// # Errors
    /// When there is no point, x or y is not finite, a weight is not above zero and finite, or a group has two points at the
    /// same x.
    pub fn new(points: impl IntoIterator<Item = Point>) -> Result<Self> {
        let mut points: Vec<Point> = points.into_iter().collect();
        let wrong = |message: String| Err(Error::setting("points", message));
        if points.is_empty() {
            return wrong("there are no points".into());
        }
        for (i, point) in points.iter_mut().enumerate() {
            let &mut Point { x, y, group, weight } = point;
            if !(x.is_finite() && y.is_finite()) {
                let number = i + 1;
                return wrong(format!("point {number} (x = {x}, y = {y}, group {group}) is not finite"));
            }
            if !(weight.is_finite() && weight > 0.0) {
                return wrong(format!(
                    "point {} (x = {x}) has the weight {weight}, which must be above 0",
                    i + 1
                ));
            }
            // Turns -0 into 0, so that equal sizes have equal bits.
            point.x += 0.0;
        }
        points.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.group.cmp(&b.group)));
        let same = |pair: &&[Point]| pair[0].x == pair[1].x && pair[0].group == pair[1].group;
        if let Some(pair) = points.windows(2).find(same) {
            let Point { x, y, group, .. } = pair[0];
            return wrong(format!("group {group} has two points at x = {x} (y = {y} and {})", pair[1].y));
        }
        Ok(Self(points))
    }

    /// Points of one group from lists of x and y.
    ///
    /// # Errors
    /// As [`Points::new`], and when the lists are of different lengths.
    pub fn of_lists(x: &[f64], y: &[f64]) -> Result<Self> {
        if x.len() != y.len() {
            let message = format!("{} values of x and {} of y", x.len(), y.len());
            return Err(Error::setting("points", message));
        }
        Self::new(x.iter().zip(y).map(|(&x, &y)| Point::new(x, y, 0)))
    }

    /// The points, by x, then by group.
    pub fn as_slice(&self) -> &[Point] {
        &self.0
    }

    /// The number of points, at least one.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one point")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The distinct sizes, increasing.
    pub fn sizes(&self) -> Vec<f64> {
        let mut sizes: Vec<f64> = self.0.iter().map(|p| p.x).collect();
        sizes.dedup();
        sizes
    }

    /// The points of each size, in order.
    pub fn by_size(&self) -> impl Iterator<Item = &[Point]> {
        self.0.chunk_by(|p, q| p.x == q.x)
    }

    /// The distinct groups, increasing.
    pub fn groups(&self) -> Vec<u64> {
        let mut groups: Vec<u64> = self.0.iter().map(|p| p.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// The smallest and the largest x.
    pub fn range(&self) -> (f64, f64) {
        (self.0[0].x, self.0[self.0.len() - 1].x)
    }

    /// The difference between the largest and the smallest y.
    pub fn spread(&self) -> f64 {
        let ys = self.0.iter().map(|p| p.y);
        ys.clone().fold(f64::MIN, f64::max) - ys.fold(f64::MAX, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(points: &[Point]) -> String {
        Points::new(points.iter().copied()).unwrap_err().to_string()
    }

    #[test]
    fn points_are_ordered_whatever_their_original_order() {
        let points =
            Points::new([Point::new(2.0, 1.0, 1), Point::new(1.0, 4.0, 1), Point::new(2.0, 3.0, 0)]).unwrap();
        let order: Vec<_> = points.as_slice().iter().map(|p| (p.x, p.group)).collect();
        assert_eq!(order, [(1.0, 1), (2.0, 0), (2.0, 1)]);
        assert_eq!((points.sizes(), points.groups()), (vec![1.0, 2.0], vec![0, 1]));
        assert_eq!((points.range(), points.spread()), ((1.0, 2.0), 3.0));
        assert_eq!(points.by_size().map(<[Point]>::len).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn invalid_points_are_refused_by_number() {
        let fine = Point::new(1.0, 1.0, 0);
        assert!(refusal(&[]).contains("there are no points"));
        let nan = refusal(&[fine, Point::new(2.0, f64::NAN, 3)]);
        assert!(nan.contains("point 2 (x = 2, y = NaN, group 3) is not finite"), "{nan}");
        assert!(refusal(&[Point::new(f64::INFINITY, 1.0, 0)]).contains("x = inf"));
        assert!(refusal(&[Point { weight: 0.0, ..fine }]).contains("has the weight 0"));
        let twice = refusal(&[Point::new(0.0, 1.0, 7), Point::new(-0.0, 2.0, 7)]);
        assert!(twice.contains("group 7 has two points at x = 0 (y = 1 and 2)"), "{twice}");
        assert!(Points::of_lists(&[1.0], &[]).unwrap_err().to_string().contains("1 values of x and 0 of y"));
    }
}
