//! Cosines and sines of rotary positions, enclosed.
//!
//! The angle of pair i at position p is p theta^(-2i/dims), in real arithmetic on the stored theta. ln theta is found by Newton's
//! method, y += theta e^-y - 1, and verified: |y - ln theta| <= 2 |theta e^-y - 1| where that is below 1/2. Then
//! theta^(-2i/dims) = e^(-2i/dims y), and sin x = cos(x - pi/2). With more than 150 bits in every step, an angle a is off by less than
//! 2^-110 (1 + a).

use super::ball::{BITS, Ball, WIDER};
use crate::model::{Rotary, RotaryScaling};
use crate::num::precise::{Dyadic, IBig, Precise, to_f64};
use crate::{Error, Result};

/// 2^-110.
const OFF: f64 = 1.0 / ((1u64 << 55) as f64 * (1u64 << 55) as f64);

/// Cosines and sines of all positions and pairs, `[n_ctx][dims / 2]`.
pub struct EnclosedRotary {
    half: usize,
    tables: Vec<Vec<(Ball, Ball)>>,
}

impl EnclosedRotary {
    /// Encloses the tables for positions below `n_ctx`, or says why it does not.
    pub fn new(rotary: &Rotary, n_ctx: usize, precise: &Precise) -> Result<Self> {
        let factor = match rotary.scaling {
            None => 1.0,
            Some(RotaryScaling::Linear { factor }) if (1.0..1e6).contains(&factor) => factor,
            Some(RotaryScaling::Linear { .. }) => {
                return refuse("its rotary positions are scaled by less than 1");
            }
            Some(RotaryScaling::Llama3 { .. }) => {
                return refuse("its rotary positions are scaled as those of Llama 3, which are not enclosed");
            }
        };
        if !(1.0..1e12).contains(&rotary.theta) {
            return refuse("the base of its rotary positions is below 1 or above 1e12");
        }
        if n_ctx > 4000 {
            return refuse("its rotary positions reach beyond 4,000");
        }
        let Some(logarithm) = ln(rotary.theta, precise) else {
            return refuse("the logarithm of the base of its rotary positions is not found");
        };
        let half = rotary.dims as usize / 2;
        let quarter = precise.arctan(&Dyadic::from(1.0)) << 1;
        let divisor = Dyadic::from(factor).floor(BITS);
        let frequencies: Vec<IBig> = (0..half)
            .map(|i| {
                let exponent = -(&logarithm * IBig::from(2 * i)) / IBig::from(rotary.dims);
                (precise.exp(&Dyadic::new(exponent, -(BITS as isize))) << BITS) / &divisor
            })
            .collect();
        let at = |p: usize| -> Vec<(Ball, Ball)> {
            let pair = |frequency: &IBig| {
                let angle = frequency * IBig::from(p);
                let off = OFF * (1.0 + to_f64(&angle, BITS)) * WIDER;
                let cos = |x: IBig| Ball::of_fixed(&precise.cos(&Dyadic::new(x, -(BITS as isize))), off);
                (cos(angle.clone()), cos(angle - &quarter))
            };
            frequencies.iter().map(pair).collect()
        };
        Ok(Self { half, tables: (0..n_ctx).map(at).collect() })
    }

    /// Rotates one head's query or key at a position.
    pub fn rotate(&self, head: &mut [Ball], position: usize) {
        for (i, &(cos, sin)) in self.tables[position].iter().enumerate() {
            let (a, b) = (head[i], head[i + self.half]);
            head[i] = a.times(cos).minus(b.times(sin));
            head[i + self.half] = b.times(cos).plus(a.times(sin));
        }
    }
}

fn refuse<T>(why: &str) -> Result<T> {
    Err(Error::setting("model", format!("a certificate is not available for this block, because {why}")))
}

/// ln x in units of 2^-BITS, within 2^-120.
fn ln(x: f64, precise: &Precise) -> Option<IBig> {
    let (one, exact) = (Dyadic::from(1.0), Dyadic::from(x));
    let mut y = Dyadic::from(x.ln()).floor(BITS);
    let residual = |y: &IBig| {
        let power = Dyadic::new(precise.exp(&Dyadic::new(-y, -(BITS as isize))), -(BITS as isize));
        exact.times(&power).minus(&one).floor(BITS)
    };
    for _ in 0..4 {
        y += residual(&y);
    }
    // e^-y is within a unit, so the residual is within x + 1 units, below 2^-118.
    (to_f64(&residual(&y), BITS).abs() < 2f64.powi(-118)).then_some(y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_the_angles() {
        let precise = Precise::new(BITS);
        let rotary = Rotary { dims: 8, theta: 10_000.0, scaling: None };
        let enclosed = EnclosedRotary::new(&rotary, 50, &precise).unwrap();
        let (cos, sin) = rotary.tables(50);
        for p in 0..50 {
            for i in 0..4 {
                let (c, s) = enclosed.tables[p][i];
                assert!((c.hi - cos[4 * p + i]).abs() < 1e-14 && (s.hi - sin[4 * p + i]).abs() < 1e-14);
                assert!(c.radius < 1e-30 && s.radius < 1e-30);
                let unit = c.times(c).plus(s.times(s)).minus(Ball::exact(1.0));
                assert!(unit.size() <= unit.radius, "{unit:?}");
            }
        }
        // theta^(-2/8) = 1/10.
        let tenth = enclosed.tables[7][1].0;
        let exact = Dyadic::new(
            precise.cos(&Dyadic::new((IBig::from(7) << BITS) / IBig::from(10), -(BITS as isize))),
            -(BITS as isize),
        );
        assert!(exact.minus(&tenth.centre()).abs() <= Dyadic::from(tenth.radius));
        let scaled = Rotary { scaling: Some(RotaryScaling::Linear { factor: 2.0 }), ..rotary };
        let scaled = EnclosedRotary::new(&scaled, 50, &precise).unwrap();
        assert!((scaled.tables[8][2].0.hi - enclosed.tables[4][2].0.hi).abs() < 1e-15);
        let llama3 = RotaryScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_n_ctx: 9,
        };
        let refused = EnclosedRotary::new(&Rotary { scaling: Some(llama3), ..rotary }, 9, &precise);
        assert!(refused.err().unwrap().to_string().contains("not available for this block"));
    }
}
