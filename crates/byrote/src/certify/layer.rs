//! Linear maps of enclosures.
//!
//! Sixteen contexts are processed together, one per lane. The sum of a column over its inputs x_k with weights v_k is the
//! compensated dot product of Ogita, Rump and Oishi (2005): the errors of all products and sums are accumulated and added at
//! the end, as if the sum had been computed with twice the digits and rounded once,
//!
//! ```text
//! |result - sum_k v_k x_k| <= u |result| (1 + u) + gamma_n^2 sum_k |v_k| |x_k|,     gamma_n = n u / (1 - n u).
//! ```
//!
//! The radii r_k of the inputs add sum_k |v_k| r_k, computed alongside and widened by its own rounding. So do the bounds on the
//! errors of floating-point evaluation ([`super::floating`]). Zero entries are skipped: the output matrix of a sorted
//! construction has a few nonzero entries in a thousand.

use super::floating::{Errors, FORMATS};
use crate::num::simd::{Isa, SimdKernel, run};
use std::ops::Range;

/// Contexts that are processed together.
pub const BLOCK: usize = 16;

const U: f64 = f64::EPSILON / 2.0;

type Lanes = [f64; BLOCK];

/// Enclosures of vectors, one context per lane.
#[derive(Debug, Clone)]
pub struct Block {
    centre: Vec<Lanes>,
    radius: Vec<Lanes>,
    /// Bounds on how far computed values are off, for each format.
    errors: [Vec<Lanes>; FORMATS.len()],
}

/// One coordinate of one context: an enclosure, and bounds on the errors of computed values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// The exact value lies within `radius` of this.
    pub centre: f64,
    /// See `centre`.
    pub radius: f64,
    /// How far a computed value may be from the exact one, for each format.
    pub errors: Errors,
}

impl Entry {
    /// Nothing is known.
    pub const UNKNOWN: Entry =
        Entry { centre: 0.0, radius: f64::INFINITY, errors: [f64::INFINITY; FORMATS.len()] };
}

impl Block {
    /// Vectors of `n` zeros.
    pub fn zeros(n: usize) -> Self {
        let zeros = || vec![[0.0; BLOCK]; n];
        Self { centre: zeros(), radius: zeros(), errors: [zeros(), zeros()] }
    }

    /// Sets a coordinate of a lane.
    pub fn set(&mut self, coordinate: usize, lane: usize, entry: Entry) {
        self.centre[coordinate][lane] = entry.centre;
        self.radius[coordinate][lane] = entry.radius;
        for (errors, error) in self.errors.iter_mut().zip(entry.errors) {
            errors[coordinate][lane] = error;
        }
    }

    fn get(&self, coordinate: usize, lane: usize) -> Entry {
        Entry {
            centre: self.centre[coordinate][lane],
            radius: self.radius[coordinate][lane],
            errors: [self.errors[0][coordinate][lane], self.errors[1][coordinate][lane]],
        }
    }

    /// Each coordinate of a lane.
    pub fn row(&self, lane: usize) -> impl Iterator<Item = Entry> + Clone {
        (0..self.centre.len()).map(move |coordinate| self.get(coordinate, lane))
    }

    /// Replaces the first `n` coordinates by a function of each.
    pub fn map(&mut self, n: usize, f: impl Fn(Entry) -> Entry) {
        for coordinate in 0..n {
            for lane in 0..BLOCK {
                self.set(coordinate, lane, f(self.get(coordinate, lane)));
            }
        }
    }

    /// Adds the skip connection to what a layer with these factors gamma computes.
    pub fn add_skip(&mut self, skip: &Block, gammas: Errors) {
        for coordinate in 0..self.centre.len() {
            for lane in 0..BLOCK {
                let (a, b) = (self.get(coordinate, lane), skip.get(coordinate, lane));
                let centre = a.centre + b.centre;
                let radius = (a.radius + b.radius + U * centre.abs()) * (1.0 + 4.0 * U);
                let size = b.centre.abs() + b.radius;
                let mut errors = a.errors;
                for (p, format) in FORMATS.iter().enumerate() {
                    let carried = a.errors[p] + format.carried(gammas[p], size, b.errors[p]);
                    errors[p] = format.of_sum(carried, 0.0, gammas[p], 1, 0.0, centre.abs() + carried);
                }
                self.set(coordinate, lane, Entry { centre, radius, errors });
            }
        }
    }

    /// The largest absolute value of a centre over the first `n` coordinates, or NaN if one is NaN.
    fn largest(&self, n: usize) -> f64 {
        let values = self.centre[..n].iter().flatten();
        values.fold(0.0, |m: f64, x| if x.is_nan() || m.is_nan() { f64::NAN } else { m.max(x.abs()) })
    }
}

/// A linear map with a bias: its nonzero entries, in chunks of inputs and, within a chunk, column by column.
pub struct LinearLayer {
    depth: usize,
    chunk: usize,
    bias: Vec<f64>,
    /// Upper bounds of the sums of absolute values, the bias included.
    norms: Vec<f64>,
    /// Where the entries of each chunk and column begin; one more at the end.
    starts: Vec<usize>,
    /// Inputs, counted from the start of the chunk, and weights.
    entries: Vec<(u32, f64)>,
    /// The most terms that a column has: nonzero entries, a bias and a skip connection.
    terms: usize,
    /// gamma for this many terms in each format; infinite if a weight is beyond its range.
    gammas: Errors,
}

/// Partial sums: high parts, low parts, radii, errors, and the largest inputs so far, exact and as computed.
pub struct Sums {
    high: Vec<Lanes>,
    low: Vec<Lanes>,
    radius: Vec<Lanes>,
    errors: [Vec<Lanes>; FORMATS.len()],
    largest: f64,
    computed: Errors,
}

impl LinearLayer {
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
        let mut nonzero = vec![0; columns];
        for first in (0..depth).step_by(chunk) {
            let rows = &matrix[first * columns..(first + chunk).min(depth) * columns];
            for (column, nonzero) in nonzero.iter_mut().enumerate() {
                let values = rows.iter().skip(column).step_by(columns);
                let before = entries.len();
                entries.extend((0u32..).zip(values).filter(|&(_, &v)| v != 0.0).map(|(k, &v)| (k, v)));
                *nonzero += entries.len() - before;
                starts.push(entries.len());
            }
        }
        let terms = nonzero.into_iter().max().unwrap_or(0) + 2;
        let largest = matrix.iter().chain(&bias).fold(0f64, |m, v| m.max(v.abs()));
        let gammas = FORMATS.map(|f| if largest <= f.largest { f.gamma(terms) } else { f64::INFINITY });
        Self { depth, chunk, bias, norms, starts, entries, terms, gammas }
    }

    /// gamma for the sums of this layer, in each format.
    pub fn gammas(&self) -> Errors {
        self.gammas
    }

    /// How many columns.
    pub fn columns(&self) -> usize {
        self.bias.len()
    }

    /// Sums that hold the bias.
    pub fn start(&self) -> Sums {
        Sums::new(&self.bias)
    }

    /// Adds the contribution of chunk `index` of the inputs.
    pub fn add(&self, inputs: &Block, index: usize, sums: &mut Sums) {
        let n = self.chunk.min(self.depth - index * self.chunk);
        let columns = self.columns();
        self.accumulate(inputs, n, index * columns..(index + 1) * columns, sums);
    }

    /// Adds the entries of a range of [`LinearLayer::starts`] to sums of as many columns.
    fn accumulate(&self, inputs: &Block, n: usize, range: Range<usize>, sums: &mut Sums) {
        let largest = inputs.largest(n);
        sums.largest = if largest.is_nan() { f64::NAN } else { sums.largest.max(largest) };
        let mut carried = [vec![[0.0; BLOCK]; n], vec![[0.0; BLOCK]; n]];
        for (p, format) in FORMATS.iter().enumerate() {
            for (k, carried) in carried[p].iter_mut().enumerate() {
                for (lane, carried) in carried.iter_mut().enumerate() {
                    let size = inputs.centre[k][lane].abs() + inputs.radius[k][lane];
                    let error = inputs.errors[p][k][lane];
                    sums.computed[p] = sums.computed[p].max(size + error);
                    *carried = format.carried(self.gammas[p], size, error);
                }
            }
        }
        let starts = &self.starts[range.start..range.end + 1];
        run(Compensated { starts, entries: &self.entries, inputs, carried: &carried, sums });
    }

    /// Turns complete sums into enclosures.
    pub fn finish(&self, sums: Sums) -> Block {
        self.finish_columns(0..self.columns(), sums)
    }

    fn finish_columns(&self, columns: Range<usize>, sums: Sums) -> Block {
        let Sums { high, low, radius, errors, largest, computed } = sums;
        let mut out = Block { centre: high, radius, errors };
        let n = (self.depth + 2) as f64;
        let gamma = n * U / (1.0 - n * U);
        for (i, column) in columns.enumerate() {
            let (norm, bias) = (self.norms[column], self.bias[column].abs());
            // Twice what the theorem says; each product may underflow by the smallest double.
            let rest = 2.0 * gamma * gamma * norm * largest + n * f64::MIN_POSITIVE;
            for (lane, low) in low[i].iter().enumerate() {
                let sum = out.get(i, lane);
                let value = sum.centre + low;
                let carried = sum.radius * (1.0 + 4.0 * n * U);
                let wide = (carried + 2.0 * U * value.abs() + rest) * (1.0 + 8.0 * U);
                let mut errors = sum.errors;
                for (p, format) in FORMATS.iter().enumerate() {
                    let total = norm * computed[p];
                    errors[p] =
                        format.of_sum(errors[p], bias, self.gammas[p], self.terms, computed[p], total);
                }
                // Anything that is not a number is unknown.
                let known = value.is_finite() && wide.is_finite();
                let entry = Entry { centre: value, radius: wide, errors };
                out.set(i, lane, if known { entry } else { Entry::UNKNOWN });
            }
        }
        out
    }

    /// Applies the whole layer.
    pub fn apply(&self, inputs: &Block) -> Block {
        let mut sums = self.start();
        if inputs.centre.len() <= self.chunk {
            self.add(inputs, 0, &mut sums);
        } else {
            for (index, first) in (0..self.depth).step_by(self.chunk).enumerate() {
                let range = first..(first + self.chunk).min(self.depth);
                let part = Block {
                    centre: inputs.centre[range.clone()].to_vec(),
                    radius: inputs.radius[range.clone()].to_vec(),
                    errors: [0, 1].map(|p| inputs.errors[p][range.clone()].to_vec()),
                };
                self.add(&part, index, &mut sums);
            }
        }
        self.finish(sums)
    }

    /// Applies some columns to inputs that are one chunk, writing to the first coordinates of a block.
    pub fn apply_to(&self, inputs: &Block, columns: Range<usize>, out: &mut Block) {
        debug_assert!(self.depth <= self.chunk);
        let mut sums = Sums::new(&self.bias[columns.clone()]);
        self.accumulate(inputs, self.depth, columns.clone(), &mut sums);
        let n = columns.len();
        let found = self.finish_columns(columns, sums);
        out.centre[..n].copy_from_slice(&found.centre);
        out.radius[..n].copy_from_slice(&found.radius);
        for (out, found) in out.errors.iter_mut().zip(&found.errors) {
            out[..n].copy_from_slice(found);
        }
    }
}

impl Sums {
    /// Sums that hold a bias.
    fn new(bias: &[f64]) -> Self {
        let zeros = || vec![[0.0; BLOCK]; bias.len()];
        Self {
            high: bias.iter().map(|&b| [b; BLOCK]).collect(),
            low: zeros(),
            radius: zeros(),
            errors: [zeros(), zeros()],
            largest: 1.0,
            computed: [1.0; FORMATS.len()],
        }
    }
}

/// Adds the entries of each column to its sums.
struct Compensated<'a> {
    starts: &'a [usize],
    entries: &'a [(u32, f64)],
    inputs: &'a Block,
    /// What the inputs contribute to the errors of the sums, per unit of weight.
    carried: &'a [Vec<Lanes>; FORMATS.len()],
    sums: &'a mut Sums,
}

impl SimdKernel for Compensated<'_> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, _: I) {
        let Self { starts, entries, inputs, carried, sums } = self;
        let [double, single] = &mut sums.errors;
        let columns = sums.high.iter_mut().zip(&mut sums.low).zip(&mut sums.radius);
        for ((((high, low), radius), (double, single)), range) in
            columns.zip(double.iter_mut().zip(single)).zip(starts.windows(2))
        {
            let (mut h, mut l, mut r) = (*high, *low, *radius);
            let (mut d, mut s) = (*double, *single);
            for &(k, v) in &entries[range[0]..range[1]] {
                let (x, spread) = (&inputs.centre[k as usize], &inputs.radius[k as usize]);
                let (in_double, in_single) = (&carried[0][k as usize], &carried[1][k as usize]);
                let size = v.abs();
                for lane in 0..BLOCK {
                    // `mul_add` rounds once on every machine, so the error of the product is exact.
                    let product = v * x[lane];
                    let product_error = v.mul_add(x[lane], -product);
                    let sum = h[lane] + product;
                    let part = sum - h[lane];
                    let sum_error = (h[lane] - (sum - part)) + (product - part);
                    h[lane] = sum;
                    l[lane] += sum_error + product_error;
                    r[lane] = size.mul_add(spread[lane], r[lane]);
                    d[lane] = size.mul_add(in_double[lane], d[lane]);
                    s[lane] = size.mul_add(in_single[lane], s[lane]);
                }
            }
            (*high, *low, *radius) = (h, l, r);
            (*double, *single) = (d, s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::Stream;
    use crate::num::precise::Dyadic;

    /// Points of the input boxes are mapped into the output boxes, also when everything cancels.
    #[test]
    fn enclosures_hold_the_exact_sums() {
        let (depth, columns) = (40, 5);
        for (case, cancel) in [(0, false), (1, true), (2, true)] {
            let mut stream = Stream::new(case, "layer", 0);
            let mut matrix: Vec<f64> = (0..depth * columns).map(|_| stream.normal() * 1e6).collect();
            let mut inputs = Block::zeros(depth);
            for k in 0..depth {
                for lane in 0..BLOCK {
                    let (centre, radius) = (stream.normal(), stream.unit() * 1e-12);
                    inputs.set(k, lane, Entry { centre, radius, errors: [0.0; 2] });
                }
            }
            if cancel {
                // The second half nearly cancels the first.
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
                let layer = LinearLayer::new(&matrix, Some(&bias), depth, columns, chunk);
                let out = layer.apply(&inputs);
                for lane in 0..BLOCK {
                    // A corner of the box.
                    let point = |k: usize| {
                        let sign = if (k + lane).is_multiple_of(3) { 1.0 } else { -1.0 };
                        Dyadic::from(inputs.centre[k][lane])
                            .plus(&Dyadic::from(sign * inputs.radius[k][lane]))
                    };
                    for (j, Entry { centre, radius, .. }) in out.row(lane).enumerate() {
                        let exact = (0..depth).fold(Dyadic::from(bias[j]), |sum, k| {
                            sum.plus(&Dyadic::from(matrix[k * columns + j]).times(&point(k)))
                        });
                        let off = exact.minus(&Dyadic::from(centre)).abs();
                        assert!(off <= Dyadic::from(radius), "case {case}: {:e} {radius:e}", off.to_f64());
                        // The radius is little more than what the radii of the inputs contribute.
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
    fn sums_that_overflow_are_unknown() {
        let layer = LinearLayer::new(&[1e300, 1e300], None, 2, 1, 2);
        let mut inputs = Block::zeros(2);
        inputs.set(0, 0, Entry { centre: 1e300, radius: 0.0, errors: [0.0; 2] });
        inputs.set(1, 0, Entry { centre: -1e300, radius: 0.0, errors: [0.0; 2] });
        assert_eq!(layer.apply(&inputs).row(0).next(), Some(Entry::UNKNOWN));
    }
}
