//! The types of tensors in a GGUF file: their numbers, names and block sizes.
//!
//! Numbers of a quantized type come in blocks ([`super::blocks`], [`super::superblocks`]); a row of a tensor is a whole number of
//! blocks.

use super::{blocks, superblocks};
use crate::model::stored::Encoding;
use crate::num::Real;

/// A type whose numbers come in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(non_camel_case_types, reason = "the names of the format")]
pub(crate) enum Quantization {
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
}

impl Quantization {
    /// The name in messages and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
            Self::Q4_1 => "q4_1",
            Self::Q5_0 => "q5_0",
            Self::Q5_1 => "q5_1",
            Self::Q2_K => "q2_k",
            Self::Q3_K => "q3_k",
            Self::Q4_K => "q4_k",
            Self::Q5_K => "q5_k",
            Self::Q6_K => "q6_k",
        }
    }

    /// The numbers of a block and its bytes.
    pub(crate) fn block(self) -> (usize, usize) {
        match self {
            Self::Q8_0 => (blocks::SIZE, 34),
            Self::Q4_0 => (blocks::SIZE, 18),
            Self::Q4_1 => (blocks::SIZE, 20),
            Self::Q5_0 => (blocks::SIZE, 22),
            Self::Q5_1 => (blocks::SIZE, 24),
            Self::Q2_K => (superblocks::SIZE, 84),
            Self::Q3_K => (superblocks::SIZE, 110),
            Self::Q4_K => (superblocks::SIZE, 144),
            Self::Q5_K => (superblocks::SIZE, 176),
            Self::Q6_K => (superblocks::SIZE, 210),
        }
    }

    /// Appends the numbers of whole blocks to `values`.
    pub(crate) fn decode<T: Real>(self, bytes: &[u8], values: &mut Vec<T>) {
        match self {
            Self::Q8_0 => each(bytes, blocks::q8_0, values),
            Self::Q4_0 => each(bytes, blocks::q4_0, values),
            Self::Q4_1 => each(bytes, blocks::q4_1, values),
            Self::Q5_0 => each(bytes, blocks::q5_0, values),
            Self::Q5_1 => each(bytes, blocks::q5_1, values),
            Self::Q2_K => each(bytes, superblocks::q2_k, values),
            Self::Q3_K => each(bytes, superblocks::q3_k, values),
            Self::Q4_K => each(bytes, superblocks::q4_k, values),
            Self::Q5_K => each(bytes, superblocks::q5_k, values),
            Self::Q6_K => each(bytes, superblocks::q6_k, values),
        }
    }
}

/// Decodes blocks of N bytes and M numbers.
fn each<const N: usize, const M: usize, T: Real>(
    bytes: &[u8],
    decode: impl Fn(&[u8; N], &mut [f32; M]),
    values: &mut Vec<T>,
) {
    let mut numbers = [0.0; M];
    for block in bytes.as_chunks().0 {
        decode(block, &mut numbers);
        values.extend(numbers.iter().map(|&x| T::from_f64(f64::from(x))));
    }
}

/// The types that byrote reads, by their numbers.
const READ: [(u32, Encoding); 13] = [
    (0, Encoding::F32),
    (1, Encoding::F16),
    (2, Encoding::Quantized(Quantization::Q4_0)),
    (3, Encoding::Quantized(Quantization::Q4_1)),
    (6, Encoding::Quantized(Quantization::Q5_0)),
    (7, Encoding::Quantized(Quantization::Q5_1)),
    (8, Encoding::Quantized(Quantization::Q8_0)),
    (10, Encoding::Quantized(Quantization::Q2_K)),
    (11, Encoding::Quantized(Quantization::Q3_K)),
    (12, Encoding::Quantized(Quantization::Q4_K)),
    (13, Encoding::Quantized(Quantization::Q5_K)),
    (14, Encoding::Quantized(Quantization::Q6_K)),
    (30, Encoding::Bf16),
];

/// The names of other types, by their numbers.
const OTHERS: [(u32, &str); 27] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
    (41, "Q1_0"),
    (42, "Q2_0"),
];

/// The encoding with a number, or what is wrong with a type that byrote does not read.
pub(super) fn encoding(number: u32) -> Result<Encoding, String> {
    if let Some((_, encoding)) = READ.iter().find(|(known, _)| *known == number) {
        return Ok(*encoding);
    }
    let name = OTHERS.iter().find(|(known, _)| *known == number).map(|(_, name)| (*name).to_owned());
    let names: Vec<String> = READ.iter().map(|(_, encoding)| encoding.name().to_uppercase()).collect();
    Err(format!("the type {}; byrote reads {}", name.unwrap_or_else(|| number.to_string()), names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Blocks with the numbers that the format's reference implementation computes from them.
    const GOLDEN: &str = include_str!("../../../tests/data/gguf/blocks.json");

    #[test]
    fn golden_blocks_are_decoded_exactly() {
        let golden: Value = serde_json::from_str(GOLDEN).unwrap();
        let mut seen = 0;
        for (_, encoding) in READ {
            let Encoding::Quantized(quantization) = encoding else { continue };
            let case = &golden[quantization.name().to_uppercase()];
            let (block, size) = quantization.block();
            assert_eq!(
                (case["block"].as_u64(), case["bytes_a_block"].as_u64()),
                (Some(block as u64), Some(size as u64))
            );
            let hex = case["hex"].as_str().unwrap().as_bytes();
            let digit = |b: u8| char::from(b).to_digit(16).unwrap() as u8;
            let bytes: Vec<u8> =
                hex.as_chunks::<2>().0.iter().map(|&[a, b]| digit(a) << 4 | digit(b)).collect();
            let expected: Vec<f32> =
                case["values"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
            let (mut single, mut double): (Vec<f32>, Vec<f64>) = (Vec::new(), Vec::new());
            quantization.decode(&bytes, &mut single);
            quantization.decode(&bytes, &mut double);
            assert_eq!(single, expected, "{}", quantization.name());
            assert!(double.iter().zip(&single).all(|(a, b)| *a == f64::from(*b)));
            seen += 1;
        }
        assert_eq!(seen, golden.as_object().unwrap().len());
    }

    #[test]
    fn every_number_has_one_name() {
        let mut numbers: Vec<u32> =
            READ.iter().map(|(n, _)| *n).chain(OTHERS.iter().map(|(n, _)| *n)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), READ.len() + OTHERS.len());
        assert!(encoding(23).unwrap_err().starts_with("the type IQ4_XS; byrote reads F32, F16, Q4_0"));
        assert!(encoding(77).unwrap_err().starts_with("the type 77;"));
    }
}
