//! Greedy decoding with keys and values kept, many sequences per step.
//!
//! The prefixes are read as windows are, and their paths kept, one per sequence and block. Each step then adds one row per sequence.
//! Sequences whose paths do not fit in memory together are decoded one group after the other.

use super::attention::Path;
use super::forward::{Batch, BlockNetwork, Pool};
use super::network::not_finite;
use super::statistics::Seen;
use crate::Result;
use crate::model::Mixer;

/// The most bytes of keys and values, unless one sequence needs more.
const KEPT: usize = 192 << 20;

impl BlockNetwork {
    /// Continues prefixes that are not empty, and not too long with `n` more tokens.
    pub(super) fn decode(&self, prefixes: &[&[u32]], n: usize) -> Result<Vec<Vec<u32>>> {
        let mut texts = Vec::with_capacity(prefixes.len());
        let pool = Pool::default();
        let mut rest = prefixes;
        while !rest.is_empty() && n > 0 {
            let mut bytes = 0;
            let fits = |prefix: &&&[u32]| {
                bytes += self.bytes_of_path(prefix.len() + n);
                bytes <= KEPT
            };
            let together = rest.iter().take_while(fits).count().max(1);
            let (group, later) = rest.split_at(together);
            self.decode_group(group, n, &pool, &mut texts)?;
            rest = later;
        }
        texts.resize(prefixes.len(), Vec::new());
        Ok(texts)
    }

    fn bytes_of_path(&self, levels: usize) -> usize {
        let averaging = self.config.shape.mixer == Mixer::Average;
        self.weights.blocks.len() * Path::bytes(levels, averaging, self.weights.sizes)
    }

    fn decode_group(
        &self,
        prefixes: &[&[u32]],
        n: usize,
        pool: &Pool,
        texts: &mut Vec<Vec<u32>>,
    ) -> Result<()> {
        let first = texts.len();
        texts.resize(first + prefixes.len(), Vec::with_capacity(n));
        let mut batch = Batch::default();
        for prefix in prefixes {
            batch.push(prefix, 0, prefix.len() + n);
        }
        let mut paths: Vec<Vec<Path>> = self.weights.blocks.iter().map(|_| batch.paths(self)).collect();
        for step in 0..n {
            let last: Vec<usize> = batch.groups.iter().map(|group| group.rows.end - 1).collect();
            let y = self.forward(&batch, pool, &mut paths, &last);
            let mut seen = vec![Seen::nothing(); last.len()];
            self.see(&y, &mut seen, pool);
            batch = Batch::default();
            for (i, (seen, prefix)) in seen.into_iter().zip(prefixes).enumerate() {
                let levels = prefix.len() + n;
                if !seen.moments.is_finite() {
                    return Err(not_finite(first + i, prefix.len() + step));
                }
                texts[first + i].push(seen.moments.top);
                batch.push(&[seen.moments.top], prefix.len() + step, levels);
            }
        }
        Ok(())
    }
}
