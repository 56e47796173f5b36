//! The smallest size that reaches a level, from noisy measurements at several sizes by several seeds.
//!
//! The means of the sizes (of y, or of ln y) are made monotone by isotonic regression, weighted by the number of measurements. The
//! threshold is where that curve meets the level, interpolated linearly in ln x. A level that is already met at the smallest
//! size, or not even at the largest, is an answer as well: the threshold then lies *at or below* or *above* the sizes tried, and
//! so may the ends of its interval.
//!
//! The interval resamples whole seeds, in ln x, as [`super::bootstrap()`] does for the same number of seeds; with one seed there
//! is none. It assumes independent seeds. If some of the resampled thresholds lie outside the sizes tried, they have no
//! standard deviation, and even few seeds get percentiles, which hold the truth with probability 1 - 2^(1-G) at best.

use super::bootstrap::{Bootstrap, Ends, Resampled};
use super::isotonic::{Direction, isotonic};
use super::least_squares::ResidualScale;
use super::points::Points;
use crate::num::Stream;
use crate::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A size, or on which side of those tried it lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Size {
    /// At or below the smallest size tried: the level is reached there.
    BelowSmallest {
        /// The smallest size tried.
        smallest: f64,
    },
    /// Between two sizes tried.
    At {
        /// The size.
        size: f64,
    },
    /// Above the largest size tried: the level is not reached there.
    AboveLargest {
        /// The largest size tried.
        largest: f64,
    },
}

impl Size {
    /// The size, if it is known.
    pub fn known(self) -> Option<f64> {
        match self {
            Size::At { size } => Some(size),
            _ => None,
        }
    }

    /// ln x, or an infinity, for ordering.
    fn rank(self) -> f64 {
        match self {
            Size::BelowSmallest { .. } => f64::NEG_INFINITY,
            Size::At { size } => libm::log(size),
            Size::AboveLargest { .. } => f64::INFINITY,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::BelowSmallest { smallest } => write!(f, "at most {smallest}, the smallest size tried"),
            Size::At { size } => write!(f, "{size}"),
            Size::AboveLargest { largest } => write!(f, "above {largest}, the largest size tried"),
        }
    }
}

/// Settings of a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ThresholdSettings {
    /// The level of y.
    pub level: f64,
    /// Whether y falls to the level with the size (a gap), or rises to it (an accuracy).
    pub direction: Direction,
    /// Whether to average and interpolate y or ln y.
    pub scale: ResidualScale,
    /// How the interval is computed; seeds are resampled whatever `resample` says.
    pub bootstrap: Bootstrap,
}

impl ThresholdSettings {
    /// The size at which y falls or rises to a level, with defaults for everything else.
    pub fn new(level: f64, direction: Direction) -> Self {
        Self { level, direction, scale: ResidualScale::default(), bootstrap: Bootstrap::default() }
    }
}

crate::setting::setters!(ThresholdSettings { scale: plain(ResidualScale), bootstrap: plain(Bootstrap) });

/// The measurements at one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ThresholdStep {
    /// The size.
    pub x: f64,
    /// The number of measurements.
    pub n: usize,
    /// Their mean (geometric on the relative scale).
    pub mean: f64,
    /// The monotone curve.
    pub monotone: f64,
}

/// The interval of a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ThresholdInterval {
    /// The lower end.
    pub low: Size,
    /// The upper end.
    pub high: Size,
    /// The nominal level, as a probability.
    pub level: f64,
    /// How it was computed.
    pub resampled: Resampled,
}

/// The smallest size that reaches a level, with its interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Threshold {
    /// The settings.
    pub settings: ThresholdSettings,
    /// The threshold from all seeds together.
    pub size: Size,
    /// The interval; none with one seed.
    pub interval: Option<ThresholdInterval>,
    /// The threshold of each seed alone.
    pub by_group: Vec<GroupSize>,
    /// The curve it was read from.
    pub steps: Vec<ThresholdStep>,
}

/// The threshold of one seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GroupSize {
    /// The seed.
    pub group: u64,
    /// Its threshold.
    pub size: Size,
}

/// Finds the smallest size that reaches a level.
///
/// # Errors
/// When a size is not above zero, the level is not finite, y or the level is not above zero on the relative scale, or the
/// settings of the bootstrap are out of range.
pub fn threshold(points: &Points, settings: &ThresholdSettings) -> Result<Threshold> {
    settings.bootstrap.check()?;
    let (from, _) = points.range();
    if from <= 0.0 {
        return Err(Error::setting("x", format!("thresholds require sizes above 0 (got {from})")));
    }
    if !settings.level.is_finite() || settings.scale == ResidualScale::Relative && settings.level <= 0.0 {
        let message = format!("{} is not a level of y on this scale", settings.level);
        return Err(Error::setting("level", message));
    }
    if settings.scale == ResidualScale::Relative
        && let Some(point) = points.as_slice().iter().find(|p| p.y <= 0.0)
    {
        let message = format!("logarithms need values above 0 (got {} at x = {})", point.y, point.x);
        return Err(Error::setting("y", message));
    }
    let groups = points.groups();
    let (size, steps) = crossing(points, settings, &|_| 1.0);
    let only = |own: u64| crossing(points, settings, &|group| f64::from(u8::from(group == own))).0;
    let by_group = groups.iter().map(|&group| GroupSize { group, size: only(group) }).collect();
    let interval = (groups.len() > 1).then(|| interval(points, &groups, size, settings));
    Ok(Threshold { settings: *settings, size, interval, by_group, steps })
}

/// Where the monotone curve of the points, each counted as often as its group, meets the level.
fn crossing(
    points: &Points,
    settings: &ThresholdSettings,
    times: &dyn Fn(u64) -> f64,
) -> (Size, Vec<ThresholdStep>) {
    // x, measurements, mean and weight of every size that is there.
    let mut sizes: Vec<(f64, usize, f64, f64)> = Vec::new();
    for size in points.by_size() {
        let (mut n, mut weight, mut sum) = (0, 0.0, 0.0);
        for point in size {
            let w = point.weight * times(point.group);
            n += usize::from(w > 0.0);
            weight += w;
            sum += w * settings.scale.of(point.y);
        }
        if weight > 0.0 {
            sizes.push((size[0].x, n, sum / weight, weight));
        }
    }
    let (means, weights): (Vec<f64>, Vec<f64>) = sizes.iter().map(|s| (s.2, s.3)).unzip();
    let curve = isotonic(&means, &weights, settings.direction);
    let level = settings.scale.of(settings.level);
    let reached = |z: f64| match settings.direction {
        Direction::Rising => z >= level,
        Direction::Falling => z <= level,
    };
    let size = match curve.iter().position(|&z| reached(z)) {
        Some(0) => Size::BelowSmallest { smallest: sizes[0].0 },
        None => Size::AboveLargest { largest: sizes[sizes.len() - 1].0 },
        Some(k) => {
            let (before, after) = (libm::log(sizes[k - 1].0), libm::log(sizes[k].0));
            // The curve changes between the two, since only one of them reaches the level.
            let part = (level - curve[k - 1]) / (curve[k] - curve[k - 1]);
            let size = if part >= 1.0 { sizes[k].0 } else { libm::exp(before + part * (after - before)) };
            Size::At { size }
        }
    };
    let back = |z: f64| settings.scale.back(z);
    let step = |(s, &z): (&(f64, usize, f64, f64), &f64)| ThresholdStep {
        x: s.0,
        n: s.1,
        mean: back(s.2),
        monotone: back(z),
    };
    (size, sizes.iter().zip(&curve).map(step).collect())
}

fn interval(
    points: &Points,
    groups: &[u64],
    center: Size,
    settings: &ThresholdSettings,
) -> ThresholdInterval {
    let Bootstrap { replicates, level, seed, .. } = settings.bootstrap;
    let mut draws: Vec<Size> = (0..u64::from(replicates))
        .into_par_iter()
        .map(|r| {
            let mut stream = Stream::new(seed, "fit threshold", r);
            let mut times = vec![0.0; groups.len()];
            for _ in groups {
                times[stream.below(groups.len() as u64) as usize] += 1.0;
            }
            crossing(points, settings, &|group| groups.binary_search(&group).map_or(0.0, |i| times[i])).0
        })
        .collect();
    let censored = draws.iter().any(|size| size.known().is_none()) || center.known().is_none();
    let resampled = Resampled::groups(groups.len(), level, censored);
    let (low, high) = match resampled.ends {
        Ends::Student { .. } => {
            let ranks = draws.iter().map(|size| size.rank()).collect();
            let (low, high) = resampled.interval(center.rank(), ranks);
            (tried(points, low), tried(points, high))
        }
        Ends::Percentiles { tail } => {
            draws.sort_by(|p, q| p.rank().total_cmp(&q.rank()));
            // Outwards to the next draw: one cannot interpolate between a size and "above the largest".
            let last = draws.len() - 1;
            let place = tail * (draws.len() + 1) as f64 - 1.0;
            let low = (place.floor().max(0.0) as usize).min(last);
            (draws[low], draws[last - low])
        }
    };
    ThresholdInterval { low, high, level, resampled }
}

/// The size of a logarithm, or on which side of the sizes tried it lies.
fn tried(points: &Points, rank: f64) -> Size {
    let (smallest, largest) = points.range();
    match libm::exp(rank) {
        size if size <= smallest => Size::BelowSmallest { smallest },
        size if size > largest => Size::AboveLargest { largest },
        size => Size::At { size },
    }
}

#[cfg(test)]
mod tests {
    use super::super::Point;
    use super::*;

    fn asked(level: f64, direction: Direction) -> ThresholdSettings {
        ThresholdSettings { level, direction, scale: ResidualScale::Plain, bootstrap: Bootstrap::default() }
    }

    #[test]
    fn a_crossing_is_interpolated_in_the_logarithm_of_the_size() {
        let points = Points::of_lists(&[10.0, 100.0, 1000.0], &[0.2, 0.6, 1.0]).unwrap();
        let found = threshold(&points, &asked(0.8, Direction::Rising)).unwrap();
        assert!((found.size.known().unwrap() - 1e5f64.sqrt()).abs() < 1e-9, "{found:?}");
        assert_eq!((found.interval, found.by_group[0].size), (None, found.size), "one seed");
        // Reached exactly at a size.
        let exact = threshold(&points, &asked(0.6, Direction::Rising)).unwrap().size;
        assert_eq!(exact, Size::At { size: 100.0 });
        // In ln y: from 1 to 0.01 over a decade, 0.1 is half way.
        let gap = Points::of_lists(&[10.0, 100.0], &[1.0, 0.01]).unwrap();
        let settings = ThresholdSettings { scale: ResidualScale::Relative, ..asked(0.1, Direction::Falling) };
        let size = threshold(&gap, &settings).unwrap().size.known().unwrap();
        assert!((size - 1e3f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn answers_outside_the_sizes_tried_are_values() {
        let points = Points::of_lists(&[8.0, 16.0], &[0.5, 0.02]).unwrap();
        let size = |level| threshold(&points, &asked(level, Direction::Falling)).unwrap().size;
        assert_eq!(size(0.01), Size::AboveLargest { largest: 16.0 });
        assert_eq!(size(0.5), Size::BelowSmallest { smallest: 8.0 });
        assert_eq!(size(0.01).to_string(), "above 16, the largest size tried");
        assert_eq!(serde_json::to_string(&size(0.01)).unwrap(), r#"{"kind":"above-largest","largest":16.0}"#);
    }

    #[test]
    fn an_isolated_dip_is_not_a_threshold() {
        // One lucky size reaches 0.1; with its neighbour it is pooled to 0.2, and the level is reached later.
        let points = Points::of_lists(&[1.0, 2.0, 4.0, 8.0], &[0.9, 0.1, 0.3, 0.05]).unwrap();
        let found = threshold(&points, &asked(0.1, Direction::Falling)).unwrap();
        assert!(found.size.known().unwrap() > 4.0);
        let monotone: Vec<f64> = found.steps.iter().map(|s| s.monotone).collect();
        assert_eq!(monotone, [0.9, 0.2, 0.2, 0.05]);
    }

    /// y = ln x / 5, which reaches y = 1/2 at e^2.5 = 12.18, with noise that a seed shares and independent noise.
    fn noisy(n_groups: u64, index: u64) -> Points {
        let mut stream = Stream::new(3, "threshold test", index);
        let mut points = Vec::new();
        for group in 0..n_groups {
            let shared = 0.03 * stream.normal();
            for x in [2.0f64, 4.0, 8.0, 16.0, 32.0, 64.0] {
                points.push(Point::new(x, x.ln() / 5.0 + shared + 0.02 * stream.normal(), group));
            }
        }
        Points::new(points).unwrap()
    }

    #[test]
    fn intervals_hold_the_threshold_as_often_as_they_say() {
        let truth = libm::exp(2.5);
        let bootstrap = Bootstrap { replicates: 400, ..Bootstrap::default() };
        let held = |groups| {
            (0..300)
                .filter(|&i| {
                    let bootstrap = Bootstrap { seed: i, ..bootstrap };
                    let settings = ThresholdSettings { bootstrap, ..asked(0.5, Direction::Rising) };
                    let interval = threshold(&noisy(groups, i), &settings).unwrap().interval.unwrap();
                    interval.low.rank() <= libm::log(truth) && libm::log(truth) <= interval.high.rank()
                })
                .count()
        };
        // 285 expected of 300, standard deviation 3.8; three of them.
        for groups in [10, 5, 3] {
            let found = held(groups);
            assert!((274..=296).contains(&found), "{found} of 300 with {groups} seeds");
        }
    }

    #[test]
    fn ends_of_intervals_may_lie_outside_and_threads_do_not_matter() {
        // At 64 the mean is ln 64 / 5 = 0.832, right at the level: some draws reach it, some do not.
        let settings = asked(0.832, Direction::Rising);
        let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let found = pool(1).install(|| threshold(&noisy(8, 1), &settings).unwrap());
        let interval = found.interval.unwrap();
        assert_eq!(interval.high, Size::AboveLargest { largest: 64.0 });
        assert!(interval.low.known().is_some_and(|low| low > 32.0));
        assert_eq!(found.by_group.len(), 8);
        assert_eq!(pool(3).install(|| threshold(&noisy(8, 1), &settings).unwrap()), found);
    }

    #[test]
    fn values_without_a_logarithm_are_errors() {
        let error = |x: &[f64], y: &[f64], settings: &ThresholdSettings| {
            threshold(&Points::of_lists(x, y).unwrap(), settings).unwrap_err().to_string()
        };
        let plain = asked(0.5, Direction::Falling);
        let relative = ThresholdSettings { scale: ResidualScale::Relative, ..plain };
        assert!(error(&[0.0, 1.0], &[1.0, 0.0], &plain).contains("sizes above 0 (got 0)"));
        assert!(error(&[1.0, 2.0], &[1.0, 0.0], &relative).contains("(got 0 at x = 2)"));
        assert!(
            error(&[1.0], &[1.0], &ThresholdSettings { level: -1.0, ..relative })
                .contains("-1 is not a level")
        );
        assert!(error(&[1.0], &[1.0], &asked(f64::NAN, Direction::Falling)).contains("NaN is not a level"));
    }
}
