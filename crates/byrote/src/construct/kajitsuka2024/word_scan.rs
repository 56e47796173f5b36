//! The scan: from the word of a block in Z and C x in U to -label in U.
//!
//! For each word j but the last, with the folds of Z at 2^(rest_j + L_j - 1), ..., 2^(rest_j):
//!
//! ```text
//! relu(Z) -> U -= 2^-e_j      (start read, in the layer of the first fold)
//! fold Z, L_j times
//! relu(Z) -> U += 2^-e_j      (end read: U has lost exactly D_j)
//! relu(1 - U) -> Z -= 2^rest_j    (kill)
//! ```
//!
//! 3 L_j + 7 parameters; the last word is read by relu(Z) -> U -= 1, two parameters.
//!
//! *Why.* Before word j of a live scan Z = 2 D_j 2^rest_j + r with 0 <= r < 2^rest_j and U = C x - K_{j-1}. The folds leave r, so
//! the two reads take (Z - r) 2^-e_j = D_j from U, which becomes C x - K_j. If x > x_j then U >= 1 and nothing is killed. If
//! x = x_j then U = -y_j, the kill is 1 + y_j >= 1 and Z becomes negative; a negative Z activates no neuron that reads it, later
//! kills only lower it, and U remains -y_j to the end.
//!
//! **Looped.** With one width L for all words but the first, one set of weights serves them all: after each word Z is
//! multiplied by 2^L (relu(Z) -> Z += 2^L - 1, in the layer of the kill), so that the next word takes the place of this one. The
//! network runs m - 1 times through 3 L + 9 parameters.

use super::blocks::Blocks;
use super::dyadic::Dyadic;
use super::exact_network::{Channel, NetworkStage, Neuron, StagePurpose, SubLayer};
use Channel::{U, Z};
use dashu_int::IBig;

/// Start read, folds and end read of a word of `width` bits that has `rest` bits below it and begins at `shift`.
fn read(width: usize, rest: usize, shift: usize) -> Vec<SubLayer> {
    let start = Neuron::simple(Z, 0, U, -Dyadic::half_to_the(shift));
    let mut layers: Vec<SubLayer> = (rest..rest + width)
        .rev()
        .map(|k| SubLayer::of(vec![Neuron::fold(Z, Dyadic::power_of_two(k))]))
        .collect();
    match layers.first_mut() {
        Some(SubLayer::Feed { neurons, .. }) => neurons.insert(0, start),
        _ => layers.push(SubLayer::of(vec![start])),
    }
    layers.push(SubLayer::of(vec![Neuron::simple(Z, 0, U, Dyadic::half_to_the(shift))]));
    layers
}

/// Z becomes negative where the match is reached.
fn kill(rest: usize) -> Neuron {
    Neuron { input: vec![(U, (-1).into())], bias: 1.into(), output: vec![(Z, -Dyadic::power_of_two(rest))] }
}

/// The stage that scans every word with its own weights.
pub fn untied(blocks: &Blocks) -> Vec<NetworkStage> {
    let last = blocks.words() - 1;
    let mut layers = Vec::new();
    for j in 0..last {
        layers.extend(read(blocks.widths[j], blocks.rest[j], blocks.shift[j]));
        layers.push(SubLayer::of(vec![kill(blocks.rest[j])]));
    }
    layers.push(SubLayer::of(vec![Neuron::simple(Z, 0, U, -1)]));
    vec![NetworkStage::once(StagePurpose::Scan, layers)]
}

/// The stages that scan the first word, and all others with the same weights.
///
/// # Panics
/// When a block has a single word: there is nothing to run twice.
pub fn looped(blocks: &Blocks) -> Vec<NetworkStage> {
    let m = blocks.words();
    assert!(m > 1, "a loop over {m} words");
    let (rest, width) = (blocks.rest[0], blocks.widths[1]);
    let mut first = read(blocks.widths[0], rest, blocks.shift[0]);
    first.push(SubLayer::of(vec![kill(rest)]));
    let mut body = read(width, rest - width, rest - width + 1);
    let rescale = Neuron::simple(Z, 0, Z, (IBig::ONE << width) - 1);
    body.push(SubLayer::of(vec![kill(rest), rescale]));
    vec![
        NetworkStage::once(StagePurpose::Scan, first),
        NetworkStage { part: StagePurpose::Scan, times: m - 1, layers: body },
    ]
}
