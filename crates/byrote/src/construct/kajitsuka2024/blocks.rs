//! Facts cut into blocks, each packed into one long word.
//!
//! Facts are sorted by id. The key of fact j is K_j = C x_j + y_j: the label is its last digit, so a register that holds C x
//! becomes -y_j when K_j is subtracted at the match, at least 1 where x > x_j, and at most -C where x < x_j.
//!
//! A block holds the first key and then the differences, D_1 = K_1, D_j = K_j - K_{j-1} >= 1 (0 where a block is one
//! fact short). Word j of every block has the same width L_j = 1 + bl(max D_j) bits. The extra bit is always 0 and keeps
//! the folds from mirroring the rest of the word. The last word needs no such bit, since nothing follows it.
//! With rest_j the bits below word j, the block is Z = sum_j D_j 2^(e_j), e_j = rest_j + 1, e_m = 0.
//!
//! In the looped variant all words but the first have the same width, and the last one has its extra bit too.

use super::context_map::Fact;
use dashu_int::UBig;

/// All blocks of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    /// C.
    pub labels: u32,
    /// The first id of each block.
    pub first: Vec<u64>,
    /// The last id of each block.
    pub last: Vec<u64>,
    /// L_j: the width of each word.
    pub widths: Vec<usize>,
    /// rest_j: the bits below each word.
    pub rest: Vec<usize>,
    /// e_j: where the number of each word begins.
    pub shift: Vec<usize>,
    /// Z_b.
    pub packed: Vec<UBig>,
}

impl Blocks {
    /// Blocks of at most `size` facts, as equal as possible; `tied` for the looped variant.
    pub fn new(facts: &[Fact], labels: u32, size: usize, tied: bool) -> Self {
        let cut = Cut::new(facts.len(), size);
        let widths = widths(facts, labels, cut, tied);
        let m = widths.len();
        let mut rest = vec![0; m];
        for j in (0..m - 1).rev() {
            rest[j] = rest[j + 1] + widths[j + 1];
        }
        let shift: Vec<usize> =
            rest.iter().enumerate().map(|(j, r)| if j + 1 < m || tied { r + 1 } else { 0 }).collect();
        let pack = |block: &[Fact]| {
            differences(block, labels)
                .zip(&shift)
                .fold(UBig::ZERO, |word, (d, &e)| word + (UBig::from(d) << e))
        };
        Self {
            labels,
            first: cut.blocks(facts).map(|b| b[0].id).collect(),
            last: cut.blocks(facts).map(|b| b[b.len() - 1].id).collect(),
            packed: cut.blocks(facts).map(pack).collect(),
            widths,
            rest,
            shift,
        }
    }

    /// B: the number of blocks.
    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// Always `false`: there is at least one block.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// m: words per block.
    pub fn words(&self) -> usize {
        self.widths.len()
    }
}

/// A partition of the facts into blocks: the first `longer` blocks have one fact more than the others.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    blocks: usize,
    base: usize,
    longer: usize,
}

impl Cut {
    /// Cuts into the fewest blocks of at most `size` facts.
    pub fn new(facts: usize, size: usize) -> Self {
        let blocks = facts.div_ceil(size.max(1)).max(1);
        Self { blocks, base: facts / blocks, longer: facts % blocks }
    }

    /// B.
    pub fn count(&self) -> usize {
        self.blocks
    }

    /// m.
    pub fn words(&self) -> usize {
        self.base + usize::from(self.longer > 0)
    }

    /// The blocks.
    pub fn blocks(self, facts: &[Fact]) -> impl Iterator<Item = &[Fact]> {
        let (long, short) = facts.split_at(self.longer * (self.base + 1));
        // A base of 0 does not occur: there is no block without a fact.
        long.chunks(self.base + 1).chain(short.chunks(self.base.max(1)))
    }
}

/// D_1, D_2, ... of a block.
fn differences(block: &[Fact], labels: u32) -> impl Iterator<Item = u128> {
    let key = move |f: &Fact| u128::from(f.id) * u128::from(labels) + u128::from(f.label);
    block.iter().scan(0, move |last, fact| {
        let difference = key(fact) - *last;
        *last = key(fact);
        Some(difference)
    })
}

/// L_j of the blocks of a partition.
pub fn widths(facts: &[Fact], labels: u32, cut: Cut, tied: bool) -> Vec<usize> {
    let m = cut.words();
    let mut largest = vec![0u128; m];
    for block in cut.blocks(facts) {
        for (most, d) in largest.iter_mut().zip(differences(block, labels)) {
            *most = (*most).max(d);
        }
    }
    if tied && m > 1 {
        let most = largest[1..].iter().copied().max().unwrap_or(0);
        largest[1..].fill(most);
    }
    let bits = |d: u128| (u128::BITS - d.leading_zeros()) as usize;
    largest.iter().enumerate().map(|(j, &d)| bits(d) + usize::from(j + 1 < m || tied)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts(keys: &[(u64, u32)]) -> Vec<Fact> {
        keys.iter().map(|&(id, label)| Fact { id, label }).collect()
    }

    #[test]
    fn words_are_packed_as_by_hand() {
        // C = 2. Keys 7, 10, 13 and 20, 23: differences 7 3 3 and 20 3 0. Widths 1 + 5, 1 + 2, 2; rest 5, 2, 0; shifts 6, 3, 0.
        let blocks = Blocks::new(&facts(&[(3, 1), (5, 0), (6, 1), (10, 0), (11, 1)]), 2, 3, false);
        assert_eq!((blocks.widths, blocks.rest, blocks.shift), (vec![6, 3, 2], vec![5, 2, 0], vec![6, 3, 0]));
        assert_eq!(blocks.first, [3, 10]);
        assert_eq!(blocks.packed, [7u32 * 64 + 3 * 8 + 3, 20 * 64 + 3 * 8].map(UBig::from));
    }

    #[test]
    fn words_of_a_loop_have_one_width() {
        let blocks = Blocks::new(&facts(&[(3, 1), (5, 0), (9, 1), (10, 0)]), 2, 4, true);
        // Differences 7, 3, 9, 1: widths 4, 5, 5, 5; the last begins at 1.
        assert_eq!((blocks.widths, blocks.shift), (vec![4, 5, 5, 5], vec![16, 11, 6, 1]));
    }

    proptest! {
        #[test]
        fn a_cut_covers_everything_evenly(n in 1usize..500, size in 1usize..600) {
            let facts: Vec<Fact> = (0..n as u64).map(|id| Fact { id, label: 0 }).collect();
            let cut = Cut::new(n, size);
            let blocks: Vec<&[Fact]> = cut.blocks(&facts).collect();
            prop_assert_eq!(&blocks.concat(), &facts);
            prop_assert_eq!(blocks.len(), cut.count());
            let lengths = || blocks.iter().map(|b| b.len());
            prop_assert_eq!(lengths().max(), Some(cut.words()));
            prop_assert!(cut.words() <= size && lengths().min().unwrap() + 1 >= cut.words());
        }
    }
}
