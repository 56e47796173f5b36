//! Where the weights of a model are in the tensors of a file.
//!
//! Each of our tensors has at most four dimensions here (one of ours may count as two), and its entry (i, j, k, l) is entry
//! `start + i strides[0] + j strides[1] + k strides[2] + l strides[3]` of one tensor of the file, counted row by row.

use crate::Result;
use crate::model::TensorName;
use std::ops::Range;

/// One of our dimensions: its size, and what a step along it means in the file.
pub(crate) type Dimension = (usize, usize);

/// Where one of our tensors is.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) tensor: TensorName,
    start: usize,
    /// Our dimensions, row-major, after as many of size 1 as are missing.
    dims: [Dimension; 4],
}

/// A tensor of a file and what it holds.
#[derive(Debug, Clone)]
pub(crate) struct Foreign {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) parts: Vec<Part>,
}

impl Foreign {
    /// A tensor in our order.
    pub(crate) fn same(name: String, tensor: TensorName, shape: &[usize]) -> Self {
        let (width, rows) = shape.split_last().map_or((1, &[][..]), |(width, rows)| (*width, rows));
        let part = Part::new(tensor, 0, [(rows.iter().product(), width), (width, 1)]);
        Self { name, shape: shape.to_vec(), parts: vec![part] }
    }

    /// A map stored as [out, in].
    pub(crate) fn transposed(name: String, tensor: TensorName, inputs: usize, outputs: usize) -> Self {
        let part = Part::new(tensor, 0, [(inputs, 1), (outputs, inputs)]);
        Self { name, shape: vec![outputs, inputs], parts: vec![part] }
    }
}

/// A dimension by size, step in the file and step in our tensor.
#[derive(Debug, Clone, Copy)]
struct Axis {
    n: usize,
    there: usize,
    here: usize,
}

/// How many lines of a tensor of the file are transposed together: what they write of one of our lines fills a cache line.
const TILE: usize = 16;

impl Part {
    /// A part with these dimensions, in our order.
    pub(crate) fn new<const N: usize>(tensor: TensorName, start: usize, dims: [Dimension; N]) -> Self {
        let mut all = [(1, 0); 4];
        all[4 - N..].copy_from_slice(&dims);
        Self { tensor, start, dims: all }
    }

    /// The index of each of our entries, in order.
    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        let [(a, by_a), (b, by_b), (c, by_c), (d, by_d)] = self.dims;
        let line = move |i: usize, j: usize, k: usize| {
            let start = self.start + i * by_a + j * by_b + k * by_c;
            (0..d).map(move |l| start + l * by_d)
        };
        (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).flat_map(move |k| line(i, j, k))))
    }

    /// The dimensions in the order of the file, the closest entries last.
    fn axes(&self) -> [Axis; 4] {
        let mut here = 1;
        let mut axes = self.dims.map(|(n, there)| Axis { n, there, here: 0 });
        for axis in axes.iter_mut().rev() {
            axis.here = here;
            here *= axis.n;
        }
        axes.sort_by_key(|axis| (axis.n > 1, std::cmp::Reverse(axis.there)));
        axes
    }

    /// One more than the last index of the part.
    pub(crate) fn end(&self) -> usize {
        self.start + self.dims.iter().map(|&(n, step)| n.saturating_sub(1) * step).sum::<usize>() + 1
    }

    /// Fills our tensor from the tensor of the file, which is read in order and in pieces: `read` puts the entries of a range of it
    /// into a vector. Ranges begin and end at multiples of `width`, which divides the size of the tensor, and have about `most`
    /// entries.
    pub(crate) fn fill<T: Copy>(
        &self,
        values: &mut [T],
        width: usize,
        most: usize,
        mut read: impl FnMut(Range<usize>, &mut Vec<T>) -> Result<()>,
    ) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let [a, b, c, d] = self.axes();
        let last = self.end().next_multiple_of(width);
        let (mut held, mut window) = (0..0, Vec::new());
        // Lines of the inner two dimensions that are read at once.
        let lines = (most / c.there.max(1)).max(1).next_multiple_of(TILE);
        for (i, j) in (0..a.n).flat_map(|i| (0..b.n).map(move |j| (i, j))) {
            let (there, here) = (self.start + i * a.there + j * b.there, i * a.here + j * b.here);
            for first in (0..c.n).step_by(lines) {
                let n = lines.min(c.n - first);
                let (there, here) = (there + first * c.there, here + first * c.here);
                let end = there + (n - 1) * c.there + (d.n - 1) * d.there + 1;
                if there < held.start || end > held.end {
                    let start = there / width * width;
                    held = start..end.max(start + most).next_multiple_of(width).min(last);
                    read(held.clone(), &mut window)?;
                }
                let block = &window[there - held.start..end - held.start];
                copy(block, &mut values[here..], Axis { n, ..c }, d);
            }
        }
        Ok(())
    }
}

/// Copies lines of the file to where they belong.
fn copy<T: Copy>(from: &[T], to: &mut [T], c: Axis, d: Axis) {
    if d.there == 1 && d.here == 1 {
        for line in 0..c.n {
            to[line * c.here..][..d.n].copy_from_slice(&from[line * c.there..][..d.n]);
        }
        return;
    }
    for first in (0..c.n).step_by(TILE) {
        let lines = first..c.n.min(first + TILE);
        for l in 0..d.n {
            for k in lines.clone() {
                to[k * c.here + l * d.here] = from[k * c.there + l * d.there];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_read_in_pieces_is_the_part_index_by_index() {
        let name = TensorName::of("W");
        let parts = [
            (Part::new(name, 0, [(60, 1)]), [6, 10]),
            (Part::new(name, 0, [(10, 1), (6, 10)]), [6, 10]),
            // The second of three fused [in, out] maps with 2 heads of 5: [heads, in, e].
            (Part::new(name, 10, [(2, 5), (4, 30), (5, 1)]), [4, 30]),
            // Head by head: [heads, in, e] of rows that hold three kinds.
            (Part::new(name, 4 * 7, [(3, 3 * 4 * 7), (7, 1), (4, 7)]), [36, 7]),
            // Halves of a head in turns.
            (Part::new(name, 0, [(3, 4 * 5), (5, 1), (2, 5), (2, 10)]), [12, 5]),
            (Part::new(name, 3, [(1, 7)]), [2, 4]),
        ];
        for (part, [rows, width]) in parts {
            let source: Vec<usize> = (0..rows * width).collect();
            for most in [1, 17, 1000] {
                let expected: Vec<usize> = part.indices().collect();
                let mut values = vec![usize::MAX; expected.len()];
                let mut reads = 0;
                part.fill(&mut values, width, most, |range, window| {
                    assert!(range.start % width == 0 && range.end % width == 0, "{range:?}");
                    reads += range.len();
                    window.clear();
                    window.extend_from_slice(&source[range]);
                    Ok(())
                })
                .unwrap();
                assert_eq!(values, expected, "{part:?}, pieces of {most}");
                assert!(reads <= source.len() * 2, "{part:?}: {reads} of {}", source.len());
            }
        }
    }
}
