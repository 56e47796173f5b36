//! Synthetic sequences: x_{t+1} = f(x_t) with a different map f for every sequence.
//!
//! | task | map | sander2024 |
//! |---|---|---|
//! | linear, orthogonal | f(x) = W x, W uniform on the orthogonal group | instances (1), (2) |
//! | linear, rotations | W made of 2 x 2 rotations by uniform angles along the diagonal (a unitary diagonal matrix in
//! real form; for odd d one more entry, 1 or -1) | instances (1), (2) |
//! | linear, contractive | W = rho times orthogonal: norms decrease by the factor rho per step | ours |
//! | periodic | p uniform in a range, p uniform points on the sphere, repeated | instance (3) |
//! | nonlinear | f(x) = g / norm(g), g = A x + tanh(B x), entries of A and B standard normal | instance (4), map ours |
//!
//! The first vector is uniform on the sphere, and all tasks except the contractive one stay there: vectors are rescaled
//! to norm 1 after each step, which changes them by no more than rounding does. Sequence `index` of a seed is drawn
//! without drawing those before it, and is the same on every machine: it uses only correctly rounded arithmetic and the
//! program's own hyperbolic tangent.
//!
//! Reference: M. E. Sander and G. Peyre, arXiv 2410.03011, figure 3 (only the paper's abstract was available).

use super::rows::Rows;
use super::sequence::{Sequence, norm};
use crate::num::Stream;
use crate::observe::{Counter, Silent, Stage};
use crate::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The longest sequence that is generated: its product with the dimension must fit in memory.
pub const MOST_LENGTH: usize = 10_000_000;
/// The largest dimension that is generated.
pub const MOST_DIMENSION: usize = 4096;

/// The matrix of a linear task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Map {
    /// Uniform on the orthogonal group.
    Orthogonal,
    /// Plane rotations along the diagonal.
    Rotations,
    /// An orthogonal matrix times this number, between 0 and 1.
    Contractive(f64),
}

/// How a sequence is generated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SequenceTask {
    /// x_{t+1} = W x_t.
    Linear(Map),
    /// x_{t+p} = x_t, with a period between the first and the second of these.
    Periodic(usize, usize),
    /// x_{t+1} in the direction of A x_t + tanh(B x_t).
    Nonlinear,
}

impl SequenceTask {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SequenceTask::Linear(_) => "linear",
            SequenceTask::Periodic(..) => "periodic",
            SequenceTask::Nonlinear => "nonlinear",
        }
    }

    /// Generates sequence number `index` of a seed: `length` vectors in R^d.
    pub fn generate(self, d: usize, length: usize, seed: u64, index: u64) -> Result<Sequence> {
        self.generate_counted(d, length, seed, index, &unwatched())
    }

    /// The vectors that one sequence takes: those of its map, if that has to be made orthogonal, and its own.
    pub(super) fn vectors(self, d: usize, length: usize) -> u64 {
        let map = match self {
            SequenceTask::Linear(Map::Orthogonal | Map::Contractive(_)) => d,
            SequenceTask::Linear(Map::Rotations) | SequenceTask::Periodic(..) | SequenceTask::Nonlinear => 0,
        };
        (map as u64).saturating_add(length as u64)
    }

    /// As [`SequenceTask::generate`], counting vectors as they are made.
    pub(super) fn generate_counted(
        self,
        d: usize,
        length: usize,
        seed: u64,
        index: u64,
        counter: &Counter<'_>,
    ) -> Result<Sequence> {
        if !(1..=MOST_DIMENSION).contains(&d) {
            return Err(Error::setting("d", format!("must be from 1 to {MOST_DIMENSION} (got {d})")));
        }
        if length > MOST_LENGTH + 1 {
            return Err(Error::setting("length", format!("must be at most {MOST_LENGTH} (got {length})")));
        }
        let stream = |purpose| Stream::new(seed, purpose, index);
        let mut values = Vec::with_capacity(length * d);
        match self {
            SequenceTask::Periodic(least, most) => {
                if least < 1 || least > most || most > MOST_LENGTH {
                    return Err(Error::setting(
                        "period",
                        format!(
                            "must be a range that starts at 1 or above, smaller end first (got {least}..{most})"
                        ),
                    ));
                }
                let mut draw = stream("incontext periodic");
                let period = least + draw.below((most - least + 1) as u64) as usize;
                for t in 0..length {
                    counter.add(1)?;
                    if t < period {
                        values.extend(on_sphere(&mut draw, d));
                    } else {
                        values.extend_from_within((t - period) * d..(t - period + 1) * d);
                    }
                }
            }
            SequenceTask::Linear(map) => {
                let w = linear_map(map, d, &mut stream("incontext linear map"), counter)?;
                let shrinks = matches!(map, Map::Contractive(_));
                let mut x = on_sphere(&mut stream("incontext first"), d);
                for _ in 0..length {
                    counter.add(1)?;
                    values.extend_from_slice(&x);
                    x = apply(&w, &x);
                    if !shrinks {
                        to_sphere(&mut x)?;
                    }
                }
            }
            SequenceTask::Nonlinear => {
                let mut draw = stream("incontext nonlinear");
                let mut gaussian = || Rows::whole(d, (0..d * d).map(|_| draw.normal()).collect());
                let (a, b) = (gaussian(), gaussian());
                let mut x = on_sphere(&mut stream("incontext first"), d);
                for _ in 0..length {
                    counter.add(1)?;
                    values.extend_from_slice(&x);
                    let inner = apply(&b, &x);
                    x = apply(&a, &x);
                    x.iter_mut().zip(inner).for_each(|(x, z)| *x += libm::tanh(z));
                    to_sphere(&mut x)?;
                }
            }
        }
        Sequence::new(Rows::whole(d, values))
    }
}

/// Counts vectors for nobody.
pub(super) fn unwatched() -> Counter<'static> {
    Counter::new(&Silent, Stage::Sequences, None)
}

fn apply(matrix: &Rows, x: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
}

fn to_sphere(x: &mut [f64]) -> Result<()> {
    let norm = norm(x);
    if norm == 0.0 {
        return Err(Error::Sequence {
            t: None,
            message: "the map leads to the zero vector; use another seed".into(),
        });
    }
    x.iter_mut().for_each(|x| *x /= norm);
    Ok(())
}

/// A uniform point of the unit sphere.
pub(super) fn on_sphere(draw: &mut Stream, d: usize) -> Vec<f64> {
    loop {
        let mut x: Vec<f64> = (0..d).map(|_| draw.normal()).collect();
        if to_sphere(&mut x).is_ok() {
            return x;
        }
    }
}

pub(super) fn linear_map(map: Map, d: usize, draw: &mut Stream, counter: &Counter<'_>) -> Result<Rows> {
    match map {
        Map::Orthogonal => orthogonal(d, draw, counter),
        Map::Contractive(rho) => {
            if !(rho > 0.0 && rho < 1.0) {
                return Err(Error::setting("rho", format!("must be between 0 and 1 (got {rho})")));
            }
            let mut w = orthogonal(d, draw, counter)?;
            w.values_mut().iter_mut().for_each(|x| *x *= rho);
            Ok(w)
        }
        Map::Rotations => {
            let mut w = Rows::zeros(d, d);
            for i in (0..d).step_by(2) {
                if i + 1 == d {
                    *w.at_mut(i, i) = if draw.below(2) == 0 { 1.0 } else { -1.0 };
                } else {
                    let c = on_sphere(draw, 2);
                    for (row, column, x) in
                        [(i, i, c[0]), (i, i + 1, -c[1]), (i + 1, i, c[1]), (i + 1, i + 1, c[0])]
                    {
                        *w.at_mut(row, column) = x;
                    }
                }
            }
            Ok(w)
        }
    }
}

/// A uniform orthogonal matrix: Gaussian rows orthonormalised twice, so that rounding leaves no trace of their angles.
pub(super) fn orthogonal(d: usize, draw: &mut Stream, counter: &Counter<'_>) -> Result<Rows> {
    let mut values: Vec<f64> = Vec::with_capacity(d * d);
    while values.len() < d * d {
        let mut x = on_sphere(draw, d);
        for _ in 0..2 {
            for row in values.chunks_exact(d) {
                let along: f64 = row.iter().zip(&x).map(|(a, b)| a * b).sum();
                x.iter_mut().zip(row).for_each(|(x, r)| *x -= along * r);
            }
            // A draw within rounding of the span of the others is repeated; this practically never happens.
            if to_sphere(&mut x).is_err() {
                break;
            }
        }
        if (norm(&x) - 1.0).abs() < 1e-12 {
            values.extend(x);
            counter.add(1)?;
        }
    }
    Ok(Rows::whole(d, values))
}

/// Generates `n` sequences of a task starting at number `from`, each one vector longer than `length`, so that the
/// vector after the last is known.
pub fn sequences(
    task: SequenceTask,
    d: usize,
    length: usize,
    seed: u64,
    from: u64,
    n: u64,
) -> Result<Vec<Sequence>> {
    (from..from + n).into_par_iter().map(|i| task.generate(d, length + 1, seed, i)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [SequenceTask; 5] = [
        SequenceTask::Linear(Map::Orthogonal),
        SequenceTask::Linear(Map::Rotations),
        SequenceTask::Linear(Map::Contractive(0.9)),
        SequenceTask::Periodic(3, 7),
        SequenceTask::Nonlinear,
    ];

    #[test]
    fn a_sequence_depends_on_seed_and_index_alone_and_longer_ones_begin_alike() {
        for task in ALL {
            for d in [1, 2, 5] {
                let x = task.generate(d, 30, 7, 3).unwrap();
                assert_eq!(x, task.generate(d, 30, 7, 3).unwrap());
                assert_eq!(task.generate(d, 40, 7, 3).unwrap().first(30).unwrap(), x, "{task:?}");
                if d > 1 {
                    assert_ne!(x, task.generate(d, 30, 8, 3).unwrap());
                    assert_ne!(x, task.generate(d, 30, 7, 4).unwrap());
                }
            }
        }
    }

    #[test]
    fn all_but_the_contractive_stay_on_the_sphere() {
        for task in ALL {
            let x = task.generate(6, 2000, 1, 0).unwrap();
            match task {
                SequenceTask::Linear(Map::Contractive(rho)) => {
                    let norms: Vec<f64> = x.iter().map(norm).collect();
                    assert!(norms.windows(2).all(|w| w[1] == 0.0 || (w[1] / w[0] / rho - 1.0).abs() < 1e-6));
                }
                _ => assert!(x.iter().all(|row| (norm(row) - 1.0).abs() < 1e-15), "{task:?}"),
            }
        }
    }

    #[test]
    fn linear_sequences_obey_one_orthogonal_matrix() {
        let mut draw = Stream::new(5, "test", 0);
        let w = orthogonal(7, &mut draw, &unwatched()).unwrap();
        for i in 0..7 {
            for j in 0..7 {
                let dot: f64 = w.row(i).iter().zip(w.row(j)).map(|(a, b)| a * b).sum();
                assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-15);
            }
        }
        for map in [Map::Orthogonal, Map::Rotations] {
            let x = SequenceTask::Linear(map).generate(5, 50, 2, 0).unwrap();
            let w = linear_map(map, 5, &mut Stream::new(2, "incontext linear map", 0), &unwatched()).unwrap();
            for t in 0..49 {
                let next = apply(&w, x.row(t));
                assert!(next.iter().zip(x.row(t + 1)).all(|(a, b)| (a - b).abs() < 1e-15));
            }
        }
    }

    #[test]
    fn periods_are_drawn_from_their_range() {
        let mut seen = [false; 8];
        for index in 0..60 {
            let x = SequenceTask::Periodic(3, 7).generate(4, 30, 0, index).unwrap();
            let period = (1..8).find(|&p| (0..30 - p).all(|t| x.row(t) == x.row(t + p))).unwrap();
            seen[period] = true;
        }
        assert_eq!(seen, [false, false, false, true, true, true, true, true]);
    }

    #[test]
    fn wrong_sizes_are_refused() {
        for (task, d, says) in [
            (SequenceTask::Nonlinear, 0, "d"),
            (SequenceTask::Periodic(0, 3), 2, "period"),
            (SequenceTask::Periodic(5, 3), 2, "period"),
            (SequenceTask::Linear(Map::Contractive(1.5)), 2, "rho"),
            (SequenceTask::Linear(Map::Contractive(f64::NAN)), 2, "rho"),
        ] {
            let error = task.generate(d, 10, 0, 0).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
        assert!(SequenceTask::Nonlinear.generate(2, 1, 0, 0).unwrap_err().to_string().contains("at least 2"));
    }
}
