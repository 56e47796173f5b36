//! Transformers as universal approximators: why these theorems give no number here.
//!
//! For every continuous map from sequences to sequences on a compact domain, every p < infinity and every eps > 0
//! there is a transformer within eps of it in the L^p norm (with positional encodings; without them for
//! permutation-equivariant maps). The second paper proves the same for sparse attention with O(T) connections per
//! layer. In words: with enough layers, transformers can approximate anything.
//!
//! Neither theorem bounds what *n given contexts* take. An L^p norm does not control the values at finitely many
//! points, and the number of layers grows with the number of cells in a grid over the domain, not with n. So both
//! rows state the result and say why there is no number. [`kim2023`](super::kim2023) and
//! [`kajitsuka2024`](super::kajitsuka2024) turned the proof technique (contextual mappings) into counts.
//!
//! | here | in the papers | meaning |
//! |---|---|---|
//! | T, d | n, d | length, width of a token |
//!
//! Reference: C. Yun, S. Bhojanapalli, A. S. Rawat, S. J. Reddi, S. Kumar, arXiv:1912.10077v2 (ICLR 2020), abstract;
//! C. Yun, Y.-W. Chang, S. Bhojanapalli, A. S. Rawat, S. J. Reddi, S. Kumar, arXiv:2006.04862v2 (NeurIPS 2020),
//! abstract.

use super::row::{Bound, BoundKind, MemorizationTask, Order};
use crate::bibliography::{YUN2020, YUN2020_SPARSE};

const WHY_NOT: &str = "it approximates functions, with a depth that depends on a grid over their domain; it gives no \
                       count for finitely many contexts";

/// Dense attention.
pub static DENSE: Bound = Bound {
    key: "yun2020",
    name: "universal approximation",
    task: MemorizationTask::SequenceToSequence,
    kind: BoundKind::Sufficient,
    order: Order::UpToConstant,
    expression: "some depth, for every continuous function and every eps > 0",
    statement: "Transformers of fixed width and enough depth approximate every continuous map from sequences to \
                sequences in an L^p norm.",
    needs: "nothing: it gives no number for a finite set of contexts",
    paper: &YUN2020,
    place: "abstract",
    judge: |_| Err(WHY_NOT.into()),
};

/// Sparse attention.
pub static SPARSE: Bound = Bound {
    key: "yun2020-sparse",
    name: "universal approximation, sparse attention",
    task: MemorizationTask::SequenceToSequence,
    kind: BoundKind::Sufficient,
    order: Order::UpToConstant,
    expression: "some depth, for every continuous function and every eps > 0",
    statement: "Transformers whose attention has only O(T) connections per layer approximate every continuous map \
                from sequences to sequences in an L^p norm.",
    needs: "nothing: it gives no number for a finite set of contexts",
    paper: &YUN2020_SPARSE,
    place: "abstract",
    judge: |_| Err(WHY_NOT.into()),
};

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;

    #[test]
    fn universal_approximation_is_listed_and_gives_no_number() {
        for bound in [&DENSE, &SPARSE] {
            let row = bound.evaluate(&of_corpus(stories()));
            assert!(row.why_not.unwrap().contains("no count for finitely many contexts"));
        }
    }
}
