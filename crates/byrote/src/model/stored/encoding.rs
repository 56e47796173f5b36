//! How the numbers of a tensor are stored, and how they become f32 or f64.
//!
//! | encoding | bytes per number | value |
//! |---|---|---|
//! | F64, F32 | 8, 4 | IEEE 754, little endian |
//! | F16 | 2 | sign, 5 bits of exponent (bias 15), 10 bits of fraction |
//! | BF16 | 2 | the upper half of an F32 |
//!
//! Every value of F16 and BF16 is a value of F32. Quantized types are those of GGUF files ([`Quantization`]).

use crate::model::gguf::Quantization;
use crate::num::Real;

/// How numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Encoding {
    F64,
    F32,
    F16,
    Bf16,
    Quantized(Quantization),
}

impl Encoding {
    /// The name in messages and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Quantized(quantization) => quantization.name(),
        }
    }

    /// The numbers of a block, which can only be decoded together, and its bytes.
    pub(crate) fn block(self) -> (usize, usize) {
        match self {
            Self::F64 => (1, 8),
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Quantized(quantization) => quantization.block(),
        }
    }

    /// Appends the numbers of whole blocks to `values`.
    pub(crate) fn decode<T: Real>(self, bytes: &[u8], values: &mut Vec<T>) {
        match self {
            Self::F64 => {
                values.extend(bytes.as_chunks().0.iter().map(|b| T::from_f64(f64::from_le_bytes(*b))));
            }
            Self::F32 => of_f32(bytes, f32::from_le_bytes, values),
            Self::F16 => of_f32(bytes, |b| of_f16(u16::from_le_bytes(b)), values),
            Self::Bf16 => of_f32(bytes, |b| of_bf16(u16::from_le_bytes(b)), values),
            Self::Quantized(quantization) => quantization.decode(bytes, values),
        }
    }
}

/// Appends numbers of N bytes that are values of f32.
fn of_f32<const N: usize, T: Real>(bytes: &[u8], value: impl Fn([u8; N]) -> f32, values: &mut Vec<T>) {
    values.extend(bytes.as_chunks().0.iter().map(|b| T::from_f64(f64::from(value(*b)))));
}

/// A number of 16 bits with the exponent of f32.
fn of_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// A number of 16 bits with 5 bits of exponent.
pub(crate) fn of_f16(bits: u16) -> f32 {
    let (sign, size) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff) << 13);
    let size = match bits & 0x7c00 {
        // Infinities and NaN.
        0x7c00 => size | 0x7f80_0000,
        // The biases of the exponents differ by 112; the product is exact for subnormal numbers too.
        _ => (f32::from_bits(size) * f32::from_bits((127 + 112) << 23)).to_bits(),
    };
    f32::from_bits(sign | size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, term by term.
    fn by_definition(bits: u16) -> f64 {
        let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
        sign * match exponent {
            0 => fraction * 2f64.powi(-14),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
        }
    }

    #[test]
    fn every_half_is_read_exactly() {
        for bits in 0..=u16::MAX {
            let (a, b) = (f64::from(of_f16(bits)), by_definition(bits));
            assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{bits:#x}: {a} {b}");
        }
        assert_eq!((of_bf16(0x3f80), of_bf16(0xc0a0)), (1.0, -5.0));
    }

    #[test]
    fn numbers_are_decoded_in_order() {
        let mut values: Vec<f64> = Vec::new();
        Encoding::F64.decode(&[1.5f64.to_le_bytes(), (-2.0f64).to_le_bytes()].concat(), &mut values);
        Encoding::F32.decode(&0.25f32.to_le_bytes(), &mut values);
        Encoding::F16.decode(&[0x00, 0x3c, 0x01, 0x00], &mut values);
        Encoding::Bf16.decode(&[0xa0, 0xc0], &mut values);
        assert_eq!(values, [1.5, -2.0, 0.25, 1.0, 2f64.powi(-24), -5.0]);
    }
}
