//! Linear maps of enclosures.
//!
//! Sixteen contexts go through together, a lane each. A column's sum over its inputs x_k with weights v_k is the compensated
//! dot product of Ogita, Rump and Oishi (2005): the error of every product and of every sum is kept and added at the end,
//! as if the sum were computed with twice the digits and rounded once,
//!
//! ```text
//! |result - sum_k v_k x_k| <= u |result| (1 + u) + gamma_n^2 sum_k |v_k| |x_k|,     gamma_n = n u / (1 - n u).
//! ```
//!
//! The radii r_k of the inputs add sum_k |v_k| r_k, computed on the way and widened by its own rounding. Entries that are 0
//! are not visited: the output of a sorted construction has a few in a thousand.

use crate::num::simd::{Isa, Kernel, run};
use std::ops::Range;

/// Contexts that go through together.
pub const BLOCK: usize = 16;

const U: f64 = f64::EPSILON / 2.0;

type Lanes = [f64; BLOCK];

/// Enclosures of vectors, a lane a context.
#[derive(Debug, Clone)]
pub struct Block {
    centre: Vec<Lanes>,
    radius: Vec<Lanes>,
}

impl Block {
    /// Vectors of `n` zeros.
    pub fn zeros(n: usize) -> Self {
        Self { centre: vec![[0.0; BLOCK]; n], radius: vec![[0.0; BLOCK]; n] }
    }

    /// Sets a coordinate of a lane.
    pub fn set(&mut self, coordinate: usize, lane: usize, centre: f64, radius: f64) {
        self.centre[coordinate][lane] = centre;
        self.radius[coordinate][lane] = radius;
    }

    /// The centre and radius of each coordinate of a lane.
    pub fn row(&self, lane: usize) -> impl Iterator<Item = (f64, f64)> + Clone {
        self.centre.iter().zip(&self.radius).map(move |(c, r)| (c[lane], r[lane]))
    }

    /// Replaces the first `n` coordinates by a function of each.
    pub fn map(&mut self, n: usize, f: impl Fn(f64, f64) -> (f64, f64)) {
        for (centre, radius) in self.centre.iter_mut().zip(&mut self.radius).take(n) {
            for (c, r) in centre.iter_mut().zip(radius) {
                (*c, *r) = f(*c, *r);
            }
        }
    }

    /// Adds another block of the same size.
    pub fn add(&mut self, other: &Block) {
        for i in 0..self.centre.len() {
            for lane in 0..BLOCK {
                let sum = self.centre[i][lane] + other.centre[i][lane];
                let radius = self.radius[i][lane] + other.radius[i][lane] + U * sum.abs();
                self.centre[i][lane] = sum;
                self.radius[i][lane] = radius * (1.0 + 4.0 * U);
            }
        }
    }

    /// The largest centre in absolute value, over the first `n` coordinates; NaN where one is not a number.
    fn largest(&self, n: usize) -> f64 {
        let values = self.centre[..n].iter().flatten();
        values.fold(0.0, |m: f64, x| if x.is_nan() || m.is_nan() { f64::NAN } else { m.max(x.abs()) })
    }
}

/// A linear map with a bias: the entries that are not 0, in chunks of inputs and, within a chunk, column by column.
pub struct Layer {
    depth: usize,
    chunk: usize,
    bias: Vec<f64>,
    /// Upper bounds of the sums of absolute values, the bias included.
    norms: Vec<f64>,
    /// Where the entries of each chunk and column begin; one more at the end.
    starts: Vec<usize>,
    /// Inputs, counted from the start of the chunk, and weights.
    entries: Vec<(u32, f64)>,
}

/// Sums on their way: high parts, low parts, radii, and the largest input so far.
pub struct Sums {
    high: Vec<Lanes>,
    low: Vec<Lanes>,
    radius: Vec<Lanes>,
    largest: f64,
}

impl Layer {
    /// A row-major matrix `[depth, columns]`, read `chunk` inputs at a time.
    pub fn new(matrix: &[f64], bias: Option<&[f64]>, depth: usize, columns: usize, chunk: usize) -> Self {
        assert!(matrix.len() == depth * columns && chunk > 0, "{depth} x {columns} from {}", matrix.len());
        let bias = bias.map_or_else(|| vec![0.0; columns], <[f64]>::to_vec);
        let mut norms: Vec<f64> = bias.iter().map(|b| b.abs()).collect();
        for row in matrix.chunks_exact(columns.max(1)) {
            norms.iter_mut().zip(row).for_each(|(n, v)| *n += v.abs());
        }
        norms.iter_mut().for_each(|n| *n *= 1.0 + 2.0 * (depth + 2) as f64 * U);
        let (mut starts, mut entries) = (vec![0], Vec::new());
        for first in (0..depth).step_by(chunk) {
            let rows = &matrix[first * columns..(first + chunk).min(depth) * columns];
            for column in 0..columns {
                let values = rows.iter().skip(column).step_by(columns);
                entries.extend((0u32..).zip(values).filter(|&(_, &v)| v != 0.0).map(|(k, &v)| (k, v)));
                starts.push(entries.len());
            }
        }
        Self { depth, chunk, bias, norms, starts, entries }
    }

    /// How many columns.
    pub fn columns(&self) -> usize {
        self.bias.len()
    }

    /// Sums that hold the bias.
    pub fn start(&self) -> Sums {
        let zeros = vec![[0.0; BLOCK]; self.columns()];
        let high = self.bias.iter().map(|&b| [b; BLOCK]).collect();
        Sums { high, low: zeros.clone(), radius: zeros, largest: 1.0 }
    }

    /// Adds what chunk `index` of the inputs contributes.
    pub fn add(&self, inputs: &Block, index: usize, sums: &mut Sums) {
        let n = self.chunk.min(self.depth - index * self.chunk);
        let largest = inputs.largest(n);
        sums.largest = if largest.is_nan() { f64::NAN } else { sums.largest.max(largest) };
        let columns = self.columns();
        let starts = &self.starts[index * columns..(index + 1) * columns + 1];
        run(Compensated { starts, entries: &self.entries, inputs, sums });
    }

    /// The enclosures.
    pub fn finish(&self, sums: Sums) -> Block {
        let Sums { high, low, radius, largest } = sums;
        let mut out = Block { centre: high, radius };
        let n = (self.depth + 2) as f64;
        let gamma = n * U / (1.0 - n * U);
        for (column, low) in low.iter().enumerate() {
            // Twice what the theorem says; products may underflow by the smallest double each.
            let left = 2.0 * gamma * gamma * self.norms[column] * largest + n * f64::MIN_POSITIVE;
            let lanes = out.centre[column].iter_mut().zip(&mut out.radius[column]).zip(low);
            for ((centre, radius), low) in lanes {
                let value = *centre + low;
                let carried = *radius * (1.0 + 4.0 * n * U);
                let wide = (carried + 2.0 * U * value.abs() + left) * (1.0 + 8.0 * U);
                // What is not a number is not known.
                let known = value.is_finite() && wide.is_finite();
                (*centre, *radius) = if known { (value, wide) } else { (0.0, f64::INFINITY) };
            }
        }
        out
    }

    /// All columns of all inputs.
    pub fn apply(&self, inputs: &Block) -> Block {
        let mut sums = self.start();
        if inputs.centre.len() <= self.chunk {
            self.add(inputs, 0, &mut sums);
        } else {
            for (index, first) in (0..self.depth).step_by(self.chunk).enumerate() {
                let range = first..(first + self.chunk).min(self.depth);
                let part = Block {
                    centre: inputs.centre[range.clone()].to_vec(),
                    radius: inputs.radius[range].to_vec(),
                };
                self.add(&part, index, &mut sums);
            }
        }
        self.finish(sums)
    }

    /// Some columns, of inputs that are one chunk, into the first coordinates of a block.
    pub fn apply_to(&self, inputs: &Block, columns: Range<usize>, out: &mut Block) {
        debug_assert!(self.depth <= self.chunk);
        let part =
            |values: &[f64]| values[columns.clone()].iter().map(|&b| [b; BLOCK]).collect::<Vec<Lanes>>();
        let zeros = vec![[0.0; BLOCK]; columns.len()];
        let largest = inputs.largest(self.depth);
        let mut sums = Sums { high: part(&self.bias), low: zeros.clone(), radius: zeros, largest };
        let starts = &self.starts[columns.start..columns.end + 1];
        run(Compensated { starts, entries: &self.entries, inputs, sums: &mut sums });
        let norms = &self.norms[columns.clone()];
        let view = Layer {
            depth: self.depth,
            chunk: self.chunk,
            bias: Vec::new(),
            norms: norms.to_vec(),
            starts: Vec::new(),
            entries: Vec::new(),
        };
        sums.largest = if largest.is_nan() { f64::NAN } else { largest.max(1.0) };
        let found = view.finish(sums);
        out.centre[..columns.len()].copy_from_slice(&found.centre);
        out.radius[..columns.len()].copy_from_slice(&found.radius);
    }
}

/// Adds the entries of each column to its sums.
struct Compensated<'a> {
    starts: &'a [usize],
    entries: &'a [(u32, f64)],
    inputs: &'a Block,
    sums: &'a mut Sums,
}

impl Kernel for Compensated<'_> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, _: I) {
        let Self { starts, entries, inputs, sums } = self;
        let columns = sums.high.iter_mut().zip(&mut sums.low).zip(&mut sums.radius);
        for (((high, low), radius), range) in columns.zip(starts.windows(2)) {
            let (mut h, mut l, mut r) = (*high, *low, *radius);
            for &(k, v) in &entries[range[0]..range[1]] {
                let (x, spread) = (&inputs.centre[k as usize], &inputs.radius[k as usize]);
                let size = v.abs();
                for lane in 0..BLOCK {
                    // `mul_add` has one rounding on every machine: that is what makes the error of the product exact.
                    let product = v * x[lane];
                    let product_error = v.mul_add(x[lane], -product);
                    let sum = h[lane] + product;
                    let part = sum - h[lane];
                    let sum_error = (h[lane] - (sum - part)) + (product - part);
                    h[lane] = sum;
                    l[lane] += sum_error + product_error;
                    r[lane] += size * spread[lane];
                }
            }
            (*high, *low, *radius) = (h, l, r);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::Stream;
    use crate::num::precise::Dyadic;

    /// Points of the inputs go to points of the outputs, also where everything cancels.
    #[test]
    fn enclosures_hold_the_exact_sums() {
        let (depth, columns) = (40, 5);
        for (case, cancel) in [(0, false), (1, true), (2, true)] {
            let mut stream = Stream::new(case, "layer", 0);
            let mut matrix: Vec<f64> = (0..depth * columns).map(|_| stream.normal() * 1e6).collect();
            let mut inputs = Block::zeros(depth);
            for k in 0..depth {
                for lane in 0..BLOCK {
                    inputs.set(k, lane, stream.normal(), stream.unit() * 1e-12);
                }
            }
            if cancel {
                // The second half undoes the first, but for a little.
                for k in depth / 2..depth {
                    inputs.centre[k] = inputs.centre[k - depth / 2];
                    for j in 0..columns {
                        matrix[k * columns + j] = -matrix[(k - depth / 2) * columns + j] * (1.0 + 1e-14);
                    }
                }
            }
            matrix[7] = 0.0;
            let bias: Vec<f64> = (0..columns).map(|_| stream.normal()).collect();
            for chunk in [7, depth] {
                let layer = Layer::new(&matrix, Some(&bias), depth, columns, chunk);
                let out = layer.apply(&inputs);
                for lane in 0..BLOCK {
                    // A corner of the box.
                    let point = |k: usize| {
                        let sign = if (k + lane).is_multiple_of(3) { 1.0 } else { -1.0 };
                        Dyadic::from(inputs.centre[k][lane])
                            .plus(&Dyadic::from(sign * inputs.radius[k][lane]))
                    };
                    for (j, (centre, radius)) in out.row(lane).enumerate() {
                        let exact = (0..depth).fold(Dyadic::from(bias[j]), |sum, k| {
                            sum.plus(&Dyadic::from(matrix[k * columns + j]).times(&point(k)))
                        });
                        let off = exact.minus(&Dyadic::from(centre)).abs();
                        assert!(off <= Dyadic::from(radius), "case {case}: {:e} {radius:e}", off.to_f64());
                        // Not far too wide: what the radii of the inputs make, and little more.
                        let carried: f64 =
                            (0..depth).map(|k| matrix[k * columns + j].abs() * inputs.radius[k][lane]).sum();
                        assert!(radius < 1.01 * carried + 1e-13 * centre.abs() + 1e-17);
                    }
                }
                let mut some = Block::zeros(2);
                if chunk == depth {
                    layer.apply_to(&inputs, 2..4, &mut some);
                    for lane in 0..BLOCK {
                        let (all, few): (Vec<_>, Vec<_>) =
                            (out.row(lane).collect(), some.row(lane).collect());
                        assert_eq!(all[2..4], few[..]);
                    }
                }
            }
        }
    }

    #[test]
    fn what_overflows_is_not_known() {
        let layer = Layer::new(&[1e300, 1e300], None, 2, 1, 2);
        let mut inputs = Block::zeros(2);
        inputs.set(0, 0, 1e300, 0.0);
        inputs.set(1, 0, -1e300, 0.0);
        assert_eq!(layer.apply(&inputs).row(0).next(), Some((0.0, f64::INFINITY)));
    }
}
