//! Blocks of 32 numbers: Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1.
//!
//! d and m are F16, little endian; q_j is a whole number of a few bits. Bytes are listed in the order of the file:
//!
//! | type | bytes | content | number j |
//! |---|---|---|---|
//! | Q8_0 | 34 | d, 32 bytes | d q_j, where q_j is byte j, with a sign |
//! | Q4_0 | 18 | d, 16 bytes of nibbles | d (q_j - 8) |
//! | Q4_1 | 20 | d, m, 16 bytes of nibbles | d q_j + m |
//! | Q5_0 | 22 | d, 4 bytes of fifth bits, 16 bytes of nibbles | d (q_j - 16) |
//! | Q5_1 | 24 | d, m, 4 bytes of fifth bits, 16 bytes of nibbles | d q_j + m |
//!
//! For j < 16 the nibble of q_j is the lower half of byte j, for j >= 16 the upper half of byte j - 16. The fifth bits are one
//! number of 32 bits, little endian, whose bit j is bit 4 of q_j. Products and sums are rounded to f32 one after the other.

use crate::model::stored::of_f16;

/// The numbers of a block.
pub(super) const SIZE: usize = 32;

/// The F16 at byte `at`.
pub(super) fn half(block: &[u8], at: usize) -> f32 {
    of_f16(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Numbers of four bits, the lower halves of the bytes first.
fn nibbles(bytes: &[u8]) -> [u8; SIZE] {
    let mut q = [0; SIZE];
    for (j, byte) in bytes.iter().enumerate() {
        (q[j], q[j + SIZE / 2]) = (byte & 15, byte >> 4);
    }
    q
}

/// Numbers of five bits.
fn five_bits(high: &[u8], low: &[u8]) -> [u8; SIZE] {
    let high = high.iter().rev().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
    let mut q = nibbles(low);
    for (j, q) in q.iter_mut().enumerate() {
        *q |= ((high >> j & 1) << 4) as u8;
    }
    q
}

pub(super) fn q8_0(block: &[u8; 34], values: &mut [f32; SIZE]) {
    let d = half(block, 0);
    for (value, q) in values.iter_mut().zip(&block[2..]) {
        *value = d * f32::from(q.cast_signed());
    }
}

pub(super) fn q4_0(block: &[u8; 18], values: &mut [f32; SIZE]) {
    let (d, q) = (half(block, 0), nibbles(&block[2..]));
    for (value, q) in values.iter_mut().zip(q) {
        *value = d * (f32::from(q) - 8.0);
    }
}

pub(super) fn q4_1(block: &[u8; 20], values: &mut [f32; SIZE]) {
    let (d, m, q) = (half(block, 0), half(block, 2), nibbles(&block[4..]));
    for (value, q) in values.iter_mut().zip(q) {
        *value = d * f32::from(q) + m;
    }
}

pub(super) fn q5_0(block: &[u8; 22], values: &mut [f32; SIZE]) {
    let (d, q) = (half(block, 0), five_bits(&block[2..6], &block[6..]));
    for (value, q) in values.iter_mut().zip(q) {
        *value = d * (f32::from(q) - 16.0);
    }
}

pub(super) fn q5_1(block: &[u8; 24], values: &mut [f32; SIZE]) {
    let (d, m, q) = (half(block, 0), half(block, 2), five_bits(&block[4..8], &block[8..]));
    for (value, q) in values.iter_mut().zip(q) {
        *value = d * f32::from(q) + m;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nibbles_and_fifth_bits_are_where_the_table_says() {
        let mut bytes = [0u8; 22];
        bytes[..2].copy_from_slice(&[0x00, 0x38]); // d = 0.5
        bytes[2] = 0b10; // bit 1: number 1
        bytes[5] = 0x80; // bit 31: number 31
        bytes[6] = 0x3a; // number 0 is 10, number 16 is 3
        let mut values = [0.0; SIZE];
        q5_0(&bytes, &mut values);
        assert_eq!((values[0], values[16]), (0.5 * (10.0 - 16.0), 0.5 * (3.0 - 16.0)));
        assert_eq!((values[1], values[31], values[2]), (0.0, 0.0, -8.0));
    }
}
