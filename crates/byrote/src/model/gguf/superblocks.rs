//! Blocks of 256 numbers, the "K" types: Q2_K, Q3_K, Q4_K, Q5_K and Q6_K.
//!
//! A block is divided into sub-blocks of 16 or 32 numbers with scales s (and minima m) of a few bits, whose own scales d (and dmin)
//! are F16. q_j is a whole number of 2 to 6 bits. Bytes are listed in the order of the file:
//!
//! | type | bytes | content | number j of sub-block i |
//! |---|---|---|---|
//! | Q2_K | 84 | 16 bytes s_i + 16 m_i; 64 bytes of pairs of bits; d; dmin | (d s_i) q_j - dmin m_i |
//! | Q3_K | 110 | 32 bytes of third bits; 64 bytes of pairs of bits; 12 bytes of scales; d | (d (s_i - 32)) (q_j - 4) |
//! | Q4_K | 144 | d; dmin; 12 bytes of scales and minima; 128 bytes of nibbles | (d s_i) q_j - dmin m_i |
//! | Q5_K | 176 | d; dmin; 12 bytes of scales and minima; 32 bytes of fifth bits; 128 bytes of nibbles | (d s_i) q_j - dmin m_i |
//! | Q6_K | 210 | 128 bytes of nibbles; 64 bytes of pairs of bits; 16 scales s_i with a sign; d | (d s_i) (q_j - 32) |
//!
//! Where the bits of number j are, with j = 128 h + 32 g + l (half h, group g of four, l < 32):
//!
//! | bits | of number j |
//! |---|---|
//! | pairs of Q2_K, Q3_K | bits 2g and 2g + 1 of byte 32 h + l |
//! | third bits of Q3_K | bit 4h + g of byte l |
//! | nibbles of Q4_K, Q5_K | byte 64 h + 32 (g / 2) + l: the lower half if g is even, else the upper half |
//! | fifth bits of Q5_K | bit 4h + g of byte l |
//! | nibbles of Q6_K | byte 64 h + 32 (g mod 2) + l: the lower half if g < 2, else the upper half |
//! | pairs of Q6_K (its upper bits) | bits 2g and 2g + 1 of byte 32 h + l |
//!
//! The 12 bytes b of Q4_K and Q5_K hold 8 scales and 8 minima of six bits: for i < 4, s_i and m_i are the lower six bits of b_i and
//! b_(i+4); for i >= 4, the lower four bits of s_i and m_i are the lower and upper half of b_(i+4), and their upper two bits are those
//! of b_(i-4) and b_i. The 12 bytes of Q3_K hold 16 scales of six bits: the lower four bits of s_i are the lower half of b_i for
//! i < 8, else the upper half of b_(i-8); the upper two are bits 2 (i / 4) and 2 (i / 4) + 1 of b_(8 + i mod 4). Products and sums are
//! rounded to f32 one after the other.

use super::blocks::half;

/// The numbers of a block.
pub(super) const SIZE: usize = 256;

/// Fills a block by sub-blocks of 16: `scale` gives the factor and what is added, `q` the whole number at (half, group, l).
fn by_sixteen(
    values: &mut [f32; SIZE],
    scale: impl Fn(usize) -> (f32, f32),
    q: impl Fn(usize, usize, usize) -> f32,
) {
    for (i, sub_block) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let (factor, added) = scale(i);
        let (h, g, first) = (i / 8, i / 2 % 4, i % 2 * 16);
        for (k, value) in sub_block.iter_mut().enumerate() {
            *value = factor * q(h, g, first + k) + added;
        }
    }
}

/// Fills a block by sub-blocks of 32.
fn by_thirty_two(
    values: &mut [f32; SIZE],
    scale: impl Fn(usize) -> (f32, f32),
    q: impl Fn(usize, usize, usize) -> f32,
) {
    for (i, sub_block) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (factor, added) = scale(i);
        for (l, value) in sub_block.iter_mut().enumerate() {
            *value = factor * q(i / 4, i % 4, l) + added;
        }
    }
}

pub(super) fn q2_k(block: &[u8; 84], values: &mut [f32; SIZE]) {
    let (scales, q) = (&block[..16], &block[16..80]);
    let (d, d_min) = (half(block, 80), half(block, 82));
    let scale = |i: usize| (d * f32::from(scales[i] & 15), -(d_min * f32::from(scales[i] >> 4)));
    by_sixteen(values, scale, |h, g, l| f32::from(q[32 * h + l] >> (2 * g) & 3));
}

pub(super) fn q3_k(block: &[u8; 110], values: &mut [f32; SIZE]) {
    let (high, low, scales, d) = (&block[..32], &block[32..96], &block[96..108], half(block, 108));
    let scale = |i: usize| {
        let lower = if i < 8 { scales[i] & 15 } else { scales[i - 8] >> 4 };
        let upper = scales[8 + i % 4] >> (2 * (i / 4)) & 3;
        (d * (f32::from(lower | upper << 4) - 32.0), 0.0)
    };
    by_sixteen(values, scale, |h, g, l| {
        let q = low[32 * h + l] >> (2 * g) & 3 | (high[l] >> (4 * h + g) & 1) << 2;
        f32::from(q) - 4.0
    });
}

/// The scale and the minimum of sub-block i of Q4_K and Q5_K.
fn scale_and_minimum(bytes: &[u8], i: usize) -> (u8, u8) {
    match i {
        0..4 => (bytes[i] & 63, bytes[i + 4] & 63),
        _ => (bytes[i + 4] & 15 | bytes[i - 4] >> 6 << 4, bytes[i + 4] >> 4 | bytes[i] >> 6 << 4),
    }
}

pub(super) fn q4_k(block: &[u8; 144], values: &mut [f32; SIZE]) {
    let (d, d_min, scales, q) = (half(block, 0), half(block, 2), &block[4..16], &block[16..]);
    let scale = |i: usize| {
        let (scale, minimum) = scale_and_minimum(scales, i);
        (d * f32::from(scale), -(d_min * f32::from(minimum)))
    };
    by_thirty_two(values, scale, |h, g, l| f32::from(q[64 * h + 32 * (g / 2) + l] >> (4 * (g % 2)) & 15));
}

pub(super) fn q5_k(block: &[u8; 176], values: &mut [f32; SIZE]) {
    let (d, d_min, scales) = (half(block, 0), half(block, 2), &block[4..16]);
    let (high, low) = (&block[16..48], &block[48..]);
    let scale = |i: usize| {
        let (scale, minimum) = scale_and_minimum(scales, i);
        (d * f32::from(scale), -(d_min * f32::from(minimum)))
    };
    by_thirty_two(values, scale, |h, g, l| {
        let lower = low[64 * h + 32 * (g / 2) + l] >> (4 * (g % 2)) & 15;
        f32::from(lower | (high[l] >> (4 * h + g) & 1) << 4)
    });
}

pub(super) fn q6_k(block: &[u8; 210], values: &mut [f32; SIZE]) {
    let (low, high, scales, d) = (&block[..128], &block[128..192], &block[192..208], half(block, 208));
    let scale = |i: usize| (d * f32::from(scales[i].cast_signed()), 0.0);
    by_sixteen(values, scale, |h, g, l| {
        let lower = low[64 * h + 32 * (g % 2) + l] >> (4 * (g / 2)) & 15;
        f32::from(lower | (high[32 * h + l] >> (2 * g) & 3) << 4) - 32.0
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_bit_scales_are_put_together_from_their_halves() {
        let mut bytes = [0u8; 12];
        bytes[1] = 0b10_000111; // s_1 = 7; the upper bits of s_5 are 10
        bytes[5] = 0b01_000011; // m_1 = 3; the upper bits of m_5 are 01
        bytes[9] = 0x5c; // the lower bits of s_5 are 12, of m_5 5
        assert_eq!(scale_and_minimum(&bytes, 1), (7, 3));
        assert_eq!(scale_and_minimum(&bytes, 5), (0b10 << 4 | 12, 0b01 << 4 | 5));
    }
}
