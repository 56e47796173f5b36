//! Ranks of exact matrices, computed from residues modulo primes.
//!
//! The rank modulo a prime never exceeds the rank over the rationals, and equals it unless the prime divides every non-zero
//! minor of that size. One prime therefore gives a *proven lower bound*. Over a set of primes whose product exceeds a bound on
//! the minors (Hadamard: a minor of order r with entries below 2^bits is below 2^(r (bits + log2 r / 2))), the largest rank
//! found *is* the rank, since no non-zero minor is divisible by all of them.
//!
//! Every f64 is an integer times a power of two, and two is invertible modulo an odd prime, so matrices of f64 entries and of
//! polynomials in them have exact residues.

/// Returns the primes below 2^61 in decreasing order, starting with 2^61 - 1. Many thousands of them are above 2^60.
pub fn primes() -> impl Iterator<Item = u64> {
    (1..1u64 << 61).rev().step_by(2).filter(|&odd| is_prime(odd))
}

/// The Miller-Rabin test with the first twelve primes as witnesses, which is exact for odd numbers between 37 and 2^64.
fn is_prime(odd: u64) -> bool {
    let twos = (odd - 1).trailing_zeros();
    [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37].into_iter().all(|witness| {
        let mut x = power(witness, (odd - 1) >> twos, odd);
        if x == 1 || x == odd - 1 {
            return true;
        }
        (1..twos).any(|_| {
            x = times(x, x, odd);
            x == odd - 1
        })
    })
}

/// Returns `a b` modulo `modulus`.
pub fn times(a: u64, b: u64, modulus: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(modulus)) as u64
}

/// Returns `a + b` modulo a `modulus` below 2^63, for reduced `a` and `b`.
pub fn plus(a: u64, b: u64, modulus: u64) -> u64 {
    (a + b) % modulus
}

/// Returns a power modulo `modulus`.
pub fn power(base: u64, mut exponent: u64, modulus: u64) -> u64 {
    let (mut product, mut square) = (1 % modulus, base % modulus);
    while exponent > 0 {
        if exponent & 1 == 1 {
            product = times(product, square, modulus);
        }
        square = times(square, square, modulus);
        exponent >>= 1;
    }
    product
}

/// Writes a finite number as `(m, e)` with value `m 2^e`, where `m` is odd or 0.
pub fn dyadic(x: f64) -> (i64, i32) {
    let bits = x.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, (bits & ((1 << 52) - 1)).cast_signed());
    let (mantissa, exponent) =
        if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    if mantissa == 0 {
        return (0, 0);
    }
    let zeros = mantissa.trailing_zeros();
    let mantissa = mantissa >> zeros;
    (if x < 0.0 { -mantissa } else { mantissa }, exponent + zeros as i32)
}

/// Returns the exact residue of a finite f64 modulo an odd prime, whatever its exponent.
pub fn residue(x: f64, prime: u64) -> u64 {
    let (mantissa, exponent) = dyadic(x);
    let whole = mantissa.rem_euclid(prime.cast_signed()).cast_unsigned();
    let two = if exponent < 0 { prime.div_ceil(2) } else { 2 };
    times(whole, power(two, u64::from(exponent.unsigned_abs()), prime), prime)
}

/// Returns the rank of a matrix of residues by elimination.
pub fn rank(mut rows: Vec<Vec<u64>>, prime: u64) -> usize {
    let columns = rows.first().map_or(0, Vec::len);
    let mut rank = 0;
    for column in 0..columns {
        let Some(pivot) = (rank..rows.len()).find(|&i| rows[i][column] != 0) else { continue };
        rows.swap(rank, pivot);
        let inverse = power(rows[rank][column], prime - 2, prime);
        let pivot_row = rows[rank].clone();
        for row in &mut rows[rank + 1..] {
            let factor = times(row[column], inverse, prime);
            if factor == 0 {
                continue;
            }
            for (entry, &above) in row[column..].iter_mut().zip(&pivot_row[column..]) {
                *entry = (*entry + prime - times(factor, above, prime)) % prime;
            }
        }
        rank += 1;
    }
    rank
}

/// What is known about a rank over the rationals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// A proven lower bound.
    pub lower: usize,
    /// Whether the bound is the rank: the primes tried rule out every larger non-zero minor.
    pub exact: bool,
}

/// Computes the rank of a matrix that has a residue modulo every odd prime and, after scaling by a power of two, integer
/// entries below 2^bits. `most` is a known upper bound; reaching it ends the search. At most `budget` primes are tried.
pub fn rank_over_rationals(
    most: usize,
    bits: u64,
    budget: u64,
    matrix: impl Fn(u64) -> Vec<Vec<u64>>,
) -> Found {
    let needed = (most as u64).saturating_mul(bits + u64::from((most as u64 + 1).ilog2())) / 60 + 1;
    let mut lower = 0;
    for prime in primes().take(needed.min(budget) as usize) {
        lower = lower.max(rank(matrix(prime), prime));
        if lower >= most {
            return Found { lower, exact: true };
        }
    }
    Found { lower, exact: needed <= budget }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_prime_is_a_mersenne_prime() {
        let first = (1u64 << 61) - 1;
        assert_eq!(primes().next(), Some(first));
        assert!(primes().take(300).all(|p| p > 1 << 60));
        assert_eq!([1763, 2047, 3_215_031_751, 41, 101].map(is_prime), [false, false, false, true, true]);
    }

    #[test]
    fn a_minor_divisible_by_the_first_prime_is_found_with_the_second() {
        let first = primes().next().unwrap();
        let matrix = |prime: u64| vec![vec![first % prime]];
        assert_eq!(rank(matrix(first), first), 0);
        assert_eq!(rank_over_rationals(1, 61, 100, matrix), Found { lower: 1, exact: true });
        assert_eq!(rank_over_rationals(1, 61, 1, matrix), Found { lower: 0, exact: false });
    }

    #[test]
    fn residues_of_fractions_and_huge_numbers_are_exact() {
        assert_eq!([0.0, -6.0, 0.5, 1.0].map(dyadic), [(0, 0), (-3, 1), (1, -1), (1, 0)]);
        assert_eq!(dyadic(f64::from_bits(1)), (1, -1074));
        let p = primes().next().unwrap();
        assert_eq!(times(residue(0.375, p), 8, p), 3);
        assert_eq!(plus(residue(-1e300, p), residue(1e300, p), p), 0);
    }

    proptest! {
        #[test]
        fn residues_add_and_multiply_as_the_numbers_do(a in -1_000_000i64..1_000_000, b in -1_000_000i64..1_000_000) {
            let p = primes().nth(3).unwrap();
            let (x, y) = (a as f64 / 64.0, b as f64 * 8.0);
            prop_assert_eq!(residue(x * y, p), times(residue(x, p), residue(y, p), p));
            prop_assert_eq!(residue(x + y, p), plus(residue(x, p), residue(y, p), p));
        }
    }
}
