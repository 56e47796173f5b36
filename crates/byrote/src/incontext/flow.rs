//! Infinitely many layers with infinitely small steps: the layers as an ordinary differential equation.
//!
//! A layer is u <- u - eta (A u - b), with A = D^-1 L and b = D^-1 N y ([`super::descent`]). With eta = tau / n, n layers
//! are n steps of Euler's method, and as n grows they converge to the flow
//!
//! ```text
//! u' = -(A u - b),   u(0) = 0,        u(tau) = tau phi(-tau A) b = (1 - exp(-tau A)) u*,    phi(z) = (e^z - 1) / z
//! ```
//!
//! where u* = A^-1 b is the limit of [`super::direct`]. A is lower triangular, so u_t(tau) depends on x_1 .. x_t alone.
//! The second form divides by A; the first does not, and is what [`flow`] computes: it is the upper right block of
//!
//! ```text
//! exp [ -tau A   tau b ]
//!     [    0        0  ]
//! ```
//!
//! **The rate.** (1 - tau A / n)^n = exp(-tau A - tau^2 A^2 / (2 n) - ...), so that
//!
//! ```text
//! u^n - u(tau) = (tau^2 / (2 n)) A^2 exp(-tau A) u* + O(1 / n^2)
//! ```
//!
//! which is of the order 1 / n, with the constant that [`euler_constant`] returns. For layers without residual steps this
//! small nothing of the kind holds; the limit n -> infinity at *fixed* eta is u*.
//!
//! | here | meaning | sander2024 |
//! |---|---|---|
//! | tau (`flow_time`) | n eta, held fixed while n grows | the paper's "Neural ODE" limit, by its summary |
//! | A, b | D^-1 L, D^-1 N y | ours |
//!
//! Hypotheses: none besides those of the kernel; every A is covered, also one with zeros on its diagonal. Rounding is about
//! tau |A|_1 2^-53, and a tau for which that exceeds 1e-10 is refused: there the limit is the answer.

use super::descent::Weights;
use super::exponential::{exponential, norm_1};
use super::kernel::{Attention, Kernel};
use super::rows::Rows;
use super::sequence::Sequence;
use crate::observe::Observer;
use crate::{Error, Result};
use rayon::prelude::*;

/// The longest sequence: exponentials take O(T^3) operations.
pub const MOST_LENGTH: usize = 1000;
/// The largest tau |A|_1.
const LARGEST: f64 = 1e6;

/// Returns u_1(tau) .. u_T(tau).
pub fn flow(
    sequence: &Sequence,
    kernel: Kernel,
    attention: Attention,
    time: f64,
    observer: &dyn Observer,
) -> Result<Rows> {
    let (n, d) = (sequence.len(), sequence.d());
    let (a, b) = System::new(sequence, kernel, attention, observer)?.checked(time)?;
    let size = n + d;
    // Any scale of b gives the same result; one that makes its columns no longer than those of A saves squarings.
    let scale = match norm_1(&b) / norm_1(&a) {
        ratio if ratio.is_finite() && ratio > 0.0 => ratio,
        _ => 1.0,
    };
    let mut joint = Rows::zeros(size, size);
    for t in 0..n {
        for s in 0..=t {
            *joint.at_mut(t, s) = -time * a.at(t, s);
        }
        for j in 0..d {
            *joint.at_mut(t, n + j) = time * b.at(t, j) / scale;
        }
    }
    let exponential = exponential(&joint, observer)?;
    let values = (0..n).flat_map(|t| exponential.row(t)[n..].iter().map(|x| scale * x)).collect();
    Ok(Rows::whole(d, values))
}

/// Like [`flow`], for several sequences.
pub fn flow_all(
    sequences: &[Sequence],
    kernel: Kernel,
    attention: Attention,
    time: f64,
    observer: &dyn Observer,
) -> Result<Vec<Rows>> {
    sequences.par_iter().map(|x| flow(x, kernel, attention, time, observer)).collect()
}

/// Returns (tau^2 / 2) A exp(-tau A) b = (tau^2 / 2) A^2 exp(-tau A) u*: the limit of n (u^n - u(tau)) for n layers of step
/// tau / n.
pub fn euler_constant(
    sequence: &Sequence,
    kernel: Kernel,
    attention: Attention,
    time: f64,
    observer: &dyn Observer,
) -> Result<Rows> {
    let (n, d) = (sequence.len(), sequence.d());
    let (a, b) = System::new(sequence, kernel, attention, observer)?.checked(time)?;
    let mut scaled = a.clone();
    scaled.values_mut().iter_mut().for_each(|x| *x *= -time);
    let exponential = exponential(&scaled, observer)?;
    let times = |matrix: &Rows, right: &Rows| {
        let mut out = Rows::zeros(n, d);
        for t in 0..n {
            for s in 0..=t {
                for j in 0..d {
                    *out.at_mut(t, j) += matrix.at(t, s) * right.at(s, j);
                }
            }
        }
        out
    };
    let mut out = times(&a, &times(&exponential, &b));
    out.values_mut().iter_mut().for_each(|x| *x *= 0.5 * time * time);
    Ok(out)
}

/// The equation u' = -(A u - b).
struct System {
    a: Rows,
    b: Rows,
}

impl System {
    fn new(
        sequence: &Sequence,
        kernel: Kernel,
        attention: Attention,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let (n, d) = (sequence.len(), sequence.d());
        if n > MOST_LENGTH {
            let message = format!(
                "{n} vectors are too many for the flow, which takes the exponential of a matrix of that size ({MOST_LENGTH} \
                 at most); give `layers` as well, or take the limit (`direct`)"
            );
            return Err(Error::setting("length", message));
        }
        if attention == Attention::Softmax && !kernel.is_normalised() {
            sequence.expect_unit_norm("softmax attention")?;
        }
        let weights = Weights::new(sequence, kernel, attention, observer)?;
        let (mut a, mut b) = (Rows::zeros(n, n), Rows::zeros(n, d));
        for t in 0..n {
            for (s, &weight) in weights.before(t).iter().enumerate() {
                *a.at_mut(t, s) = weight;
                for j in 0..d {
                    *b.at_mut(t, j) += weight * sequence.at(s + 1, j);
                }
            }
            *a.at_mut(t, t) = weights.diagonal[t];
        }
        Ok(Self { a, b })
    }

    /// Refuses a time that is not positive, or so long that rounding would spoil the exponential.
    fn checked(self, time: f64) -> Result<(Rows, Rows)> {
        check_time(time)?;
        let most = LARGEST / norm_1(&self.a);
        if time > most {
            let message = format!(
                "must be at most {most:.3e} here, where rounding would exceed 1e-10 (got {time}); the flow has long reached \
                 its limit (`direct`)"
            );
            return Err(Error::setting("flow_time", message));
        }
        Ok((self.a, self.b))
    }
}

/// Refuses a time that is not a positive number.
pub(super) fn check_time(time: f64) -> Result<()> {
    match time > 0.0 && time.is_finite() {
        true => Ok(()),
        false => Err(Error::setting("flow_time", format!("must be finite and above 0 (got {time})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::descent::{Until, descend};
    use super::super::direct::direct;
    use super::super::kernel::Over;
    use super::super::sequence_task::{Map, SequenceTask};
    use super::*;
    use crate::observe::{Impatient, Silent};

    const LINEAR: (Kernel, Attention) = (Kernel::LINEAR, Attention::Identity);

    fn cases() -> [(Kernel, Attention); 3] {
        let exp = Kernel::exp(1.0).unwrap();
        [LINEAR, (exp, Attention::Exp), (exp, Attention::Softmax)]
    }

    fn sequence(n: usize) -> Sequence {
        SequenceTask::Linear(Map::Orthogonal).generate(4, n, 5, 0).unwrap()
    }

    /// The flow by Runge and Kutta's method of fourth order, with the kernel by its definition.
    fn runge_kutta(x: &Sequence, kernel: Kernel, attention: Attention, time: f64, steps: u32) -> Rows {
        let (n, d) = (x.len(), x.d());
        let slope = |u: &[f64]| {
            let mut out = vec![0.0; n * d];
            for t in 0..n {
                let k: Vec<f64> = (0..=t).map(|s| kernel.evaluate(x.row(t), x.row(s))).collect();
                let by = if attention == Attention::Softmax { k.iter().sum() } else { 1.0 };
                for j in 0..d {
                    let past: f64 = (0..t).map(|s| k[s] * (u[s * d + j] - x.at(s + 1, j))).sum();
                    out[t * d + j] = -(past + k[t] * u[t * d + j]) / by;
                }
            }
            out
        };
        let h = time / f64::from(steps);
        let add = |u: &[f64], k: &[f64], h: f64| u.iter().zip(k).map(|(u, k)| u + h * k).collect::<Vec<_>>();
        let mut u = vec![0.0; n * d];
        for _ in 0..steps {
            let k1 = slope(&u);
            let k2 = slope(&add(&u, &k1, h / 2.0));
            let k3 = slope(&add(&u, &k2, h / 2.0));
            let k4 = slope(&add(&u, &k3, h));
            for (i, u) in u.iter_mut().enumerate() {
                *u += h / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]);
            }
        }
        Rows::whole(d, u)
    }

    #[test]
    fn the_exact_flow_solves_its_equation() {
        let x = sequence(16);
        for (kernel, attention) in cases() {
            let exact = flow(&x, kernel, attention, 1.5, &Silent).unwrap();
            let gap = exact.max_difference(&runge_kutta(&x, kernel, attention, 1.5, 1500));
            assert!(gap < 1e-11, "{kernel} {attention}: {gap}");
        }
    }

    #[test]
    fn a_constant_sequence_flows_as_laguerre_polynomials_do() {
        // K is 1 everywhere and u* = (0, 1, 1, ...), so U(z) = (1 - exp(-tau / (1 - z))) z / (1 - z); u_2 = 1 - e^-tau and
        // u_3 - u_2 = tau e^-tau.
        let x = Sequence::new(Rows::whole(1, vec![1.0; 30])).unwrap();
        let tau = 2.0f64;
        let u = flow(&x, LINEAR.0, LINEAR.1, tau, &Silent).unwrap();
        let (mut before, mut now, mut sum) = (1.0f64, -tau, 1.0f64);
        for t in 1..30 {
            assert!((u.at(t, 0) - (1.0 - (-tau).exp() * sum)).abs() < 1e-13, "{t}");
            sum += now;
            let k = t as f64;
            (before, now) = (now, ((2.0 * k - tau) * now - (k - 1.0) * before) / (k + 1.0));
        }
        assert_eq!(u.at(0, 0), 0.0);
        assert!((u.at(1, 0) - (1.0 - (-tau).exp())).abs() < 5e-14);
        assert!((u.at(2, 0) - u.at(1, 0) - tau * (-tau).exp()).abs() < 5e-14);
    }

    #[test]
    fn layers_approach_the_flow_at_the_rate_of_euler_with_its_constant() {
        let x = sequence(24);
        let tau = 2.0;
        for (kernel, attention) in cases() {
            let exact = flow(&x, kernel, attention, tau, &Silent).unwrap();
            let constant = euler_constant(&x, kernel, attention, tau, &Silent).unwrap();
            let size = constant.values().iter().fold(0.0f64, |most, c| most.max(c.abs()));
            let mut gaps = Vec::new();
            for n in [1024u64, 2048, 4096] {
                let eta = tau / n as f64;
                let u = descend(&x, kernel, attention, eta, Until::layers(n), &Silent).unwrap().predictions;
                let scaled = u.values().iter().zip(exact.values()).map(|(u, e)| n as f64 * (u - e));
                let scaled = Rows::whole(4, scaled.collect());
                // What is left is of the order 1 / n.
                gaps.push(scaled.max_difference(&constant) / size);
            }
            assert!(gaps[2] < 0.03, "{kernel} {attention}: {gaps:?}");
            for pair in gaps.windows(2) {
                assert!((1.7..2.3).contains(&(pair[0] / pair[1])), "{kernel} {attention}: {gaps:?}");
            }
        }
    }

    #[test]
    fn a_long_time_leads_to_the_limit() {
        let x = sequence(12);
        for (kernel, attention) in cases() {
            let limit = direct(&x, kernel, Over::Query, &Silent).unwrap();
            let gap = flow(&x, kernel, attention, 400.0, &Silent).unwrap().max_difference(&limit);
            assert!(gap < 1e-10, "{kernel} {attention}: {gap}");
        }
    }

    #[test]
    fn what_comes_later_changes_no_more_than_rounding() {
        let x = sequence(20);
        let first = x.first(11).unwrap();
        for (kernel, attention) in cases() {
            let whole = flow(&x, kernel, attention, 1.0, &Silent).unwrap();
            let part = flow(&first, kernel, attention, 1.0, &Silent).unwrap();
            let whole = Rows::whole(4, whole.values()[..44].to_vec());
            assert!(whole.max_difference(&part) < 1e-13);
        }
    }

    #[test]
    fn impossible_times_and_lengths_are_refused_by_name() {
        let x = sequence(8);
        let run = |x: &Sequence, time| flow(x, LINEAR.0, LINEAR.1, time, &Silent).unwrap_err();
        for time in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert_eq!(run(&x, time).setting_name(), Some("flow_time"), "{time}");
        }
        assert_eq!(run(&sequence(MOST_LENGTH + 1), 1.0).setting_name(), Some("length"));
        let stretched = SequenceTask::Linear(Map::Contractive(0.9)).generate(4, 8, 0, 0).unwrap();
        let (kernel, attention) = cases()[2];
        let error = flow(&stretched, kernel, attention, 1.0, &Silent).unwrap_err();
        assert!(error.to_string().contains("norm 1"), "{error}");
        assert!(matches!(flow(&x, LINEAR.0, LINEAR.1, 1.0, &Impatient::new(0)), Err(Error::Interrupted)));
    }
}
