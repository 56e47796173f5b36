//! The multiply-add peak of this machine: `cargo run --release --example fma_peak [THREADS]`.
//!
//! Every thread multiplies and adds in registers only; the best of several short rounds is printed as one line of JSON.
//! It is the limit to which the speed of training is compared.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use byrote::bench_internals::{Isa, Real, SimdKernel, Vector, run};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// Independent chains: enough to hide the latency of a multiply-add on two units, few enough for the registers.
const CHAINS: usize = 12;
const STEPS: usize = 400_000;
const ROUNDS: usize = 25;

/// Chains of `x = x * factor + term`; returns their sum and the number of multiply-adds.
struct Chains<T>(T, T);

impl<T: Real> SimdKernel for Chains<T> {
    type Output = ([T; 64], usize);
    #[inline(always)]
    fn call<I: Isa>(self, _: I) -> ([T; 64], usize) {
        let mut out = [self.0; 64];
        let lanes = T::Register::<I>::LANES;
        // SAFETY: `I` is proof of the instruction set, and no register is longer than `out`.
        unsafe {
            let (factor, term) = (T::Register::<I>::splat(self.0), T::Register::<I>::splat(self.1));
            let mut chains = [term; CHAINS];
            for _ in 0..STEPS {
                for chain in &mut chains {
                    *chain = chain.fma(factor, term);
                }
            }
            let mut sum = term;
            for chain in chains {
                sum = chain.fma(factor, sum);
            }
            sum.store(out.as_mut_ptr());
        }
        (out, STEPS * CHAINS * lanes)
    }
}

/// GFLOP/s of all threads together.
fn measure<T: Real>(threads: usize, factor: f64, term: f64) -> f64 {
    let barrier = Barrier::new(threads);
    let mut best = 0.0f64;
    for _ in 0..ROUNDS {
        let (slowest, adds) = std::thread::scope(|scope| {
            let work = || {
                let chains = black_box(Chains(T::from_f64(factor), T::from_f64(term)));
                barrier.wait();
                let clock = Instant::now();
                let (_, adds) = black_box(run(chains));
                (clock.elapsed().as_secs_f64(), adds)
            };
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            all.into_iter()
                .map(|thread| thread.join().unwrap())
                .fold((0.0f64, 0), |(slowest, sum), (time, adds)| (slowest.max(time), sum + adds))
        });
        best = best.max(2.0 * adds as f64 / slowest / 1e9);
    }
    best
}

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = std::env::args().nth(1).map_or(cores, |text| text.parse().unwrap());
    let f32_gflops = measure::<f32>(threads, 0.999, 0.001);
    let f64_gflops = measure::<f64>(threads, 0.999, 0.001);
    println!(r#"{{"threads":{threads},"f32_gflops":{f32_gflops:.1},"f64_gflops":{f64_gflops:.1}}}"#);
}
