//! Packing a matrix into panels within its own memory, so that no second copy of a large matrix is needed.
//!
//! The values of [`Panels`] are first filled with the plain matrix, then reordered. A panel holds [`PANEL`] columns, all rows end to
//! end. In the transpose of the matrix these columns are adjacent rows, so every panel is reordered within its own range. In the
//! matrix itself the panels are interleaved: with blocks of [`PANEL`] columns as elements it is transposed in place, cycle by cycle.

use super::aligned::padded;
use super::gemm::{PANEL, Panels, fill_panel_transposed};
use super::real::Real;
use rayon::prelude::*;

impl<T: Real> Panels<T> {
    /// Fills the panels with a row-major matrix of `columns` columns that `read` writes to memory.
    pub fn read_rows<E>(
        &mut self,
        columns: usize,
        read: impl FnOnce(&mut [T]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (depth, values) = self.plain(columns);
        read(&mut values[..depth * columns])?;
        let (full, rest) = (columns / PANEL, columns % PANEL);
        let kept = full * PANEL;
        let width = padded(rest);
        let mut last = vec![T::default(); depth * width];
        if rest > 0 {
            for (k, target) in last.chunks_exact_mut(width).enumerate() {
                target[..rest].copy_from_slice(&values[k * columns + kept..][..rest]);
                values.copy_within(k * columns..k * columns + kept, k * kept);
            }
        }
        transpose_blocks(&mut values[..depth * kept], depth, full);
        values[depth * kept..][..last.len()].copy_from_slice(&last);
        Ok(())
    }

    /// Fills the panels with the transpose of a row-major matrix, of one row per column here, that `read` writes to memory.
    pub fn read_columns<E>(
        &mut self,
        columns: usize,
        read: impl FnOnce(&mut [T]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (depth, values) = self.plain(columns);
        read(&mut values[..depth * columns])?;
        let panels = values.par_chunks_mut((depth * PANEL).max(1)).enumerate();
        panels.for_each_init(Vec::new, |plain, (i, panel)| {
            let n = PANEL.min(columns - i * PANEL);
            plain.clear();
            plain.extend_from_slice(&panel[..n * depth]);
            panel.fill(T::default());
            fill_panel_transposed(panel, 0, plain, depth);
        });
        Ok(())
    }

    /// The number of rows, and the values.
    fn plain(&mut self, columns: usize) -> (usize, &mut [T]) {
        let width = self.width();
        assert_eq!(padded(columns), width, "{columns} columns for panels of {width}");
        let (_, values) = self.parts();
        (values.len() / width.max(1), values)
    }
}

/// Transposes a matrix of blocks of [`PANEL`] numbers in place.
fn transpose_blocks<T: Real>(values: &mut [T], rows: usize, columns: usize) {
    let (blocks, _) = values.as_chunks_mut::<PANEL>();
    let mut placed = vec![false; blocks.len()];
    for start in 0..blocks.len() {
        if placed[start] {
            continue;
        }
        let (mut carried, mut at) = (blocks[start], start);
        loop {
            let to = at % columns * rows + at / columns;
            std::mem::swap(&mut carried, &mut blocks[to]);
            placed[to] = true;
            at = to;
            if at == start {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &[f32]) -> impl Fn(&mut [f32]) -> Result<(), ()> {
        move |target| {
            target.copy_from_slice(source);
            Ok(())
        }
    }

    #[test]
    fn packing_in_place_is_packing() {
        for (depth, columns) in [(1, 1), (3, 48), (5, 47), (7, 96), (20, 130), (2, 300), (48, 49), (1, 200)] {
            let plain: Vec<f32> = (0..depth * columns).map(|i| i as f32 + 1.0).collect();
            let transposed: Vec<f32> =
                (0..depth * columns).map(|i| plain[i % depth * columns + i / depth]).collect();
            let mut expect = Panels::zeros(depth, columns);
            expect.set((0, 0), &plain, columns);
            let mut rows = Panels::zeros(depth, columns);
            rows.read_rows(columns, read(&plain)).unwrap();
            assert!(*rows.parts().1 == *expect.parts().1, "[{depth}, {columns}]");
            let mut turned = Panels::zeros(depth, columns);
            turned.read_columns(columns, read(&transposed)).unwrap();
            assert!(*turned.parts().1 == *expect.parts().1, "[{depth}, {columns}] transposed");
        }
    }

    #[test]
    fn a_matrix_that_cannot_be_read_is_an_error() {
        let mut panels = Panels::<f32>::zeros(2, 3);
        assert_eq!(panels.read_rows(3, |_| Err("gone")), Err("gone"));
        assert_eq!(panels.read_columns(3, |_| Err("gone")), Err("gone"));
    }
}
