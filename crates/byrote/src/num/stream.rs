//! Random streams addressed by (seed, purpose, index).
//!
//! A stream is the ChaCha8 keystream whose 256-bit key is the seed (8 bytes, little endian) followed by the
//! purpose (up to 24 ASCII bytes, padded with zeros) and whose 64-bit nonce is the index. Different addresses
//! have a different key or nonce, hence independent streams. Item `i` can be drawn without drawing the items
//! before it, a new purpose changes no existing number, and no result depends on threads or their order.
//!
//! Everything is integer arithmetic or correctly rounded `+ - * / sqrt`, never the platform's `ln` or `cos`,
//! so the numbers are the same on every machine. The tests pin them, because every published result depends on
//! them.
//!
//! - `below(n)`: Lemire, *Fast random integer generation in an interval*, arXiv:1805.10941v4. The high word
//!   of `n * x`, rejecting low words under `2^64 mod n`: exactly uniform.
//! - `unit()`: the top 53 bits times `2^-53`, a multiple of `2^-53` in `[0, 1)`.
//! - `normal()`: the polar method (Marsaglia and Bray, SIAM Review 6, 1964). `x, y` uniform in `[-1, 1)`
//!   until `0 < s = x^2 + y^2 < 1`, then `x sqrt(-2 ln(s) / s)`; `y` is discarded, so that no state is left
//!   behind.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// The maximum length of a purpose in bytes.
const PURPOSE_BYTES: usize = 24;

/// A reproducible random stream, addressed by a seed, a purpose and an index. A clone repeats the numbers of the original.
///
/// ```
/// use byrote::Stream;
///
/// let mut stream = Stream::new(7, "weights", 3);
/// let die = 1 + stream.below(6);
/// assert_eq!(die, 1 + Stream::new(7, "weights", 3).below(6));
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    chacha: ChaCha8Rng,
}

impl Stream {
    /// Creates stream number `index` for `purpose` under `seed`.
    ///
    /// # Panics
    /// If the purpose is empty, longer than 24 bytes or not printable ASCII: it is a constant of the program.
    pub fn new(seed: u64, purpose: &str, index: u64) -> Self {
        let name = purpose.as_bytes();
        assert!(
            (1..=PURPOSE_BYTES).contains(&name.len()) && name.iter().all(|b| (b' '..=b'~').contains(b)),
            "a purpose has 1 to {PURPOSE_BYTES} printable ASCII bytes, found {purpose:?}"
        );
        let mut key = [0; 8 + PURPOSE_BYTES];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..8 + name.len()].copy_from_slice(name);
        let mut chacha = ChaCha8Rng::from_seed(key);
        chacha.set_stream(index);
        Stream { chacha }
    }

    /// Returns 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.chacha.next_u64()
    }

    /// Returns a uniform integer in `0..n`.
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a uniform integer below 0 does not exist");
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        // The division is needed only if the low word is below n.
        if (product as u64) < n {
            let rejected = n.wrapping_neg() % n; // 2^64 mod n
            while (product as u64) < rejected {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Returns a uniform multiple of `2^-53` in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns a standard normal number: mean 0, variance 1.
    pub fn normal(&mut self) -> f64 {
        loop {
            let x = 2.0 * self.unit() - 1.0;
            let y = 2.0 * self.unit() - 1.0;
            let s = x * x + y * y;
            if 0.0 < s && s < 1.0 {
                return x * (-2.0 * ln(s) / s).sqrt();
            }
        }
    }

    /// Returns a uniformly chosen element.
    ///
    /// # Panics
    /// If there are no elements.
    #[inline]
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        assert!(!items.is_empty(), "a choice among no items");
        &items[self.below(items.len() as u64) as usize]
    }

    /// Returns an index drawn with probability `weights[i] / sum(weights)`.
    ///
    /// # Panics
    /// If the weights sum to 0 or to more than `u64::MAX`.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        self.weighted_by(weights, |&weight| weight)
    }

    /// Like [`weighted`](Self::weighted), with the weight of each item computed from it.
    ///
    /// # Panics
    /// If the weights sum to 0 or to more than `u64::MAX`.
    pub fn weighted_by<T>(&mut self, items: &[T], weight: impl Fn(&T) -> u64) -> usize {
        let total = items.iter().try_fold(0u64, |sum, item| sum.checked_add(weight(item)));
        let total = total.expect("weights sum to at most u64::MAX");
        assert!(total > 0, "a choice among {} items without weight", items.len());
        let mut left = self.below(total);
        for (i, item) in items.iter().enumerate() {
            match left.checked_sub(weight(item)) {
                Some(rest) => left = rest,
                None => return i,
            }
        }
        unreachable!("the draw is below the sum of the weights")
    }

    /// Returns an index in `0..n` with a long tail: `floor(n u^P)` with `u` uniform. Rank `r` has probability
    /// `((r+1)/n)^(1/P) - (r/n)^(1/P)`, which falls like `r^(1/P - 1)`: uniform at `P = 1`, approaching Zipf's law
    /// as `P` grows.
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn long_tailed<const P: u32>(&mut self, n: usize) -> usize {
        assert!(n > 0, "a rank below 0 does not exist");
        let u = self.unit();
        let power = (1..P).fold(u, |power, _| power * u);
        // u < 1, but n u^P may still round up to n for a huge n.
        ((n as f64 * power) as usize).min(n - 1)
    }
}

/// Computes the natural logarithm of a positive normal number by arithmetic alone, to about one unit in the last
/// place: `s = 2^e m` with `m` in `[sqrt(1/2), sqrt(2))` and `ln m = 2 atanh(z)`, `z = (m - 1) / (m + 1)`,
/// `z^2 < 0.0295`.
fn ln(s: f64) -> f64 {
    use std::f64::consts::{LN_2, SQRT_2};
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = s.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits(bits & MANTISSA | 1023 << 52);
    if m >= SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let z = (m - 1.0) / (m + 1.0);
    let w = z * z;
    // sum_{k >= 1} w^k / (2k + 1); the first omitted term is below 0.0295^12 / 25 < 2e-20.
    let series = (1..12).rev().fold(0.0, |sum, k| w * (sum + 1.0 / f64::from(2 * k + 1)));
    exponent as f64 * LN_2 + (2.0 * z + 2.0 * z * series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_stream_never_change() {
        // The integers agree with an independent ChaCha8 written from the specification.
        let mut stream = Stream::new(0, "golden", 0);
        let bits: Vec<u64> = (0..4).map(|_| stream.next_u64()).collect();
        assert_eq!(
            bits,
            [
                3_447_067_507_199_674_206,
                18_349_443_802_911_170_581,
                8_000_397_877_340_562_870,
                14_004_955_188_941_811_494
            ]
        );
        let mut stream = Stream::new(42, "golden", 1_000_000);
        let draws: Vec<u64> = (0..8).map(|_| stream.below(1000)).collect();
        assert_eq!(draws, [585, 501, 149, 504, 822, 600, 959, 875]);
        assert_eq!(stream.unit(), 0.6518630341370214);
        let draws: Vec<f64> = (0..3).map(|_| stream.normal()).collect();
        assert_eq!(draws, [0.11319267490194318, 0.8266827124326118, -2.907188183274695]);
        let draws: Vec<usize> = (0..8).map(|_| stream.long_tailed::<3>(500)).collect();
        assert_eq!(draws, [127, 0, 0, 177, 437, 26, 93, 50]);
        let draws: Vec<usize> = (0..8).map(|_| stream.weighted(&[1, 0, 5, 2])).collect();
        assert_eq!(draws, [2, 2, 2, 2, 3, 2, 2, 3]);
    }

    #[test]
    fn seed_purpose_and_index_each_change_the_stream() {
        let first = |seed, purpose, index| Stream::new(seed, purpose, index).next_u64();
        let base = first(1, "a", 2);
        assert_eq!(base, first(1, "a", 2));
        for other in
            [first(2, "a", 2), first(1, "b", 2), first(1, "a ", 2), first(1, "a", 3), first(1, "a", 1 << 63)]
        {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn below_is_uniform_and_in_range() {
        let mut stream = Stream::new(3, "test", 0);
        let mut seen = [0u32; 7];
        (0..70_000).for_each(|_| seen[stream.below(7) as usize] += 1);
        // Chi-squared with 6 degrees of freedom exceeds 30 with probability 4e-5.
        let chi: f64 = seen.iter().map(|&k| (f64::from(k) - 1e4).powi(2) / 1e4).sum();
        assert!(chi < 30.0, "{seen:?}");
        // For n = 3/4 of 2^64 a quarter of the words are rejected, and the mean stays at 1/2.
        let n = 3u64 << 62;
        let mean = (0..10_000).map(|_| stream.below(n) as f64 / n as f64).sum::<f64>() / 1e4;
        assert!((mean - 0.5).abs() < 0.015, "{mean}");
        assert_eq!(stream.below(1), 0);
    }

    #[test]
    fn normal_has_the_moments_and_the_tails_of_a_gaussian() {
        let mut stream = Stream::new(5, "test", 0);
        let n = 200_000;
        let sample: Vec<f64> = (0..n).map(|_| stream.normal()).collect();
        let moment = |k: i32| sample.iter().map(|x| x.powi(k)).sum::<f64>() / f64::from(n);
        for (k, expected, tolerance) in [(1, 0.0, 0.012), (2, 1.0, 0.017), (3, 0.0, 0.05), (4, 3.0, 0.12)] {
            assert!((moment(k) - expected).abs() < tolerance, "moment {k}: {}", moment(k));
        }
        let beyond = |z: f64| sample.iter().filter(|&&x| x > z).count() as f64 / f64::from(n);
        assert!((beyond(1.0) - 0.158_655).abs() < 0.004);
        assert!((beyond(2.0) - 0.022_750).abs() < 0.0017);
    }

    #[test]
    fn the_logarithm_agrees_with_the_standard_library() {
        let mut stream = Stream::new(6, "test", 0);
        for _ in 0..100_000 {
            let x = stream.unit().max(f64::MIN_POSITIVE) * [1.0, 1e-9, 1e-30][stream.below(3) as usize];
            assert!(
                (ln(x) - x.ln()).abs() <= 4e-16 * x.ln().abs(),
                "ln {x:e} = {:e}, not {:e}",
                ln(x),
                x.ln()
            );
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn weights_and_long_tails_have_the_documented_probabilities() {
        let mut stream = Stream::new(8, "test", 0);
        let mut seen = [0u32; 4];
        (0..80_000).for_each(|_| seen[stream.weighted(&[1, 0, 5, 2])] += 1);
        for (count, expected) in seen.iter().zip([10_000.0, 0.0, 50_000.0, 20_000.0]) {
            assert!((f64::from(*count) - expected).abs() < 600.0, "{seen:?}");
        }
        let mut ranks = [0u32; 8];
        (0..80_000).for_each(|_| ranks[stream.long_tailed::<3>(8)] += 1);
        assert!((f64::from(ranks[0]) - 40_000.0).abs() < 600.0, "{ranks:?}"); // (1/8)^(1/3) = 1/2
        assert!(ranks.windows(2).all(|pair| pair[0] > pair[1]), "{ranks:?}");
        assert_eq!(*stream.choose(&["only"]), "only");
    }

    #[test]
    #[should_panic(expected = "a purpose has 1 to 24 printable ASCII bytes")]
    fn a_purpose_that_is_too_long_for_the_key_is_refused() {
        let _ = Stream::new(0, "a purpose that does not fit the key", 0);
    }
}
