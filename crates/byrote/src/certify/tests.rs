use super::*;
use crate::Error;
use crate::construct::madden2024::{Settings, build};
use crate::evaluate::evaluate;
use crate::model::{Activation, Config, Mixer, Positions, Preset, Shape};
use crate::num::precise::{Dyadic, Precise};
use crate::observe::{Impatient, Progress, Silent};
use crate::train::problem::examples::{letters, stories};
use crate::units::Nats;
use dashu_base::SquareRoot;
use dashu_int::UBig;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of the numbers that are rounded at all.
const BITS: usize = 256;

/// A quotient, cut to 2^-256.
fn over(a: &Dyadic, b: &Dyadic) -> Dyadic {
    // Both as whole numbers of the same unit.
    Dyadic::new((a.floor(2 * BITS) << BITS) / b.floor(2 * BITS), -(BITS as isize))
}

/// The forward pass: sums and products exact, quotients and functions to 256 bits after the point.
fn oracle(model: &Model, context: &[u32]) -> Vec<Dyadic> {
    let config = model.config();
    let shape = &config.shape;
    let (d, d_head) = (shape.d_model as usize, shape.d_head as usize);
    let precise = Precise::new(BITS);
    let tensor = |name: &str| model.tensor(name).unwrap_or_default();
    let sum = |terms: &mut dyn Iterator<Item = Dyadic>| terms.fold(Dyadic::from(0.0), |a, b| a.plus(&b));
    let affine = |x: &[Dyadic], w: &[f64], columns: usize, bias: Option<&[f64]>| -> Vec<Dyadic> {
        (0..columns)
            .map(|j| {
                let products =
                    sum(&mut x.iter().enumerate().map(|(k, x)| x.times(&Dyadic::from(w[k * columns + j]))));
                products.plus(&Dyadic::from(bias.map_or(0.0, |b| b[j])))
            })
            .collect()
    };
    let positions = model.positions();
    let x: Vec<Vec<Dyadic>> = context
        .iter()
        .enumerate()
        .map(|(s, &t)| {
            (0..d)
                .map(|j| {
                    let position = positions.as_ref().map_or(0.0, |p| p[s * d + j]);
                    Dyadic::from(tensor("W_E")[t as usize * d + j]).plus(&Dyadic::from(position))
                })
                .collect()
        })
        .collect();
    let last = &x[x.len() - 1];
    let mut a: Vec<Dyadic> = match shape.mixer {
        Mixer::Average => (0..d)
            .map(|j| sum(&mut x.iter().zip(tensor("u_pos")).map(|(x, &u)| x[j].times(&Dyadic::from(u)))))
            .collect(),
        Mixer::Attention => {
            let mut out: Vec<Dyadic> =
                (0..d).map(|j| Dyadic::from(model.tensor("b_O").map_or(0.0, |b| b[j]))).collect();
            let root = Dyadic::new((UBig::from(d_head) << (2 * BITS)).sqrt().into(), -(BITS as isize));
            for head in 0..shape.n_heads as usize {
                let project = |w: &str, b: &str, x: &[Dyadic]| {
                    let bias = model.tensor(b).map(|b| &b[head * d_head..][..d_head]);
                    affine(x, &tensor(w)[head * d * d_head..][..d * d_head], d_head, bias)
                };
                let query = project("W_Q", "b_Q", last);
                let scores: Vec<Dyadic> = x
                    .iter()
                    .map(|x| {
                        let key = project("W_K", "b_K", x);
                        let score = sum(&mut query.iter().zip(&key).map(|(q, k)| q.times(k)));
                        if config.scale_scores { over(&score, &root) } else { score }
                    })
                    .collect();
                let largest = scores.iter().max().unwrap().clone();
                let exp = |s: &Dyadic| Dyadic::new(precise.exp(&s.minus(&largest)), -(BITS as isize));
                let parts: Vec<Dyadic> = scores.iter().map(exp).collect();
                let total = sum(&mut parts.iter().cloned());
                let values: Vec<Vec<Dyadic>> = x.iter().map(|x| project("W_V", "b_V", x)).collect();
                let mixed: Vec<Dyadic> = (0..d_head)
                    .map(|j| over(&sum(&mut parts.iter().zip(&values).map(|(p, v)| p.times(&v[j]))), &total))
                    .collect();
                let part = affine(&mixed, &tensor("W_O")[head * d_head * d..][..d_head * d], d, None);
                out = out.iter().zip(&part).map(|(o, p)| o.plus(p)).collect();
            }
            out
        }
    };
    if config.skip {
        a = a.iter().zip(last).map(|(a, x)| a.plus(x)).collect();
    }
    let hidden = |a: &[Dyadic]| -> Vec<Dyadic> {
        let m = shape.d_mlp as usize;
        let z = affine(a, tensor("W_in"), m, model.tensor("b_in"));
        z.iter().map(|z| function::exact(shape.activation, z, BITS)).collect()
    };
    let read = match config.hidden {
        Hidden::Absent => a,
        Hidden::Output => hidden(&a),
        Hidden::Residual => {
            let back = affine(&hidden(&a), tensor("W_out"), d, model.tensor("b_out"));
            match config.skip {
                true => back.iter().zip(&a).map(|(b, a)| b.plus(a)).collect(),
                false => back,
            }
        }
    };
    affine(&read, tensor("W_U"), shape.d_vocab as usize, model.tensor("b_U"))
}

/// The enclosures of all logits.
fn enclosures(model: &Model, problem: &Problem) -> Vec<Vec<(f64, f64)>> {
    let network = Network::new(model);
    let mixed = Enclosures::new(model, problem);
    (0..problem.len()).map(|i| network.logits(&mixed.block(i..i + 1)).row(0).collect()).collect()
}

/// Every preset and activation, and switches that no preset has.
fn configs(d_vocab: u64) -> Vec<Config> {
    let shape = Shape { d_vocab, n_ctx: 9, d_model: 5, n_heads: 2, d_head: 3, d_mlp: 7, ..Shape::default() };
    let mut all: Vec<Config> = Preset::ALL.into_iter().map(|p| p.config(shape)).collect();
    let base = Preset::Madden2024.config(shape);
    all.extend(Activation::ALL.map(|activation| Config { shape: Shape { activation, ..shape }, ..base }));
    all.push(Config { positions: Positions::None, skip: true, output_bias: true, ..base });
    all.push(Config { hidden: Hidden::Residual, ..base });
    all.push(Config { hidden: Hidden::Residual, skip: true, ..Preset::Average.config(shape) });
    all
}

#[test]
fn enclosures_hold_the_logits_of_256_bits() {
    let (problem, d_vocab) = letters("abcab abdac caba bbdaa dab");
    for config in configs(d_vocab) {
        for (seed, scale) in [(1, 1.0), (2, 4.0)] {
            let model = Model::random(config, seed).unwrap();
            let scaled = model.parameters().iter().map(|x| scale * x).collect();
            let model = Model::new(config, scaled).unwrap();
            for (i, row) in enclosures(&model, &problem).iter().enumerate() {
                let exact = oracle(&model, &problem.tokens_of(i));
                for (&(centre, radius), exact) in row.iter().zip(&exact) {
                    let off = exact.minus(&Dyadic::from(centre)).abs();
                    assert!(
                        off <= Dyadic::from(radius),
                        "{config:?}: off by {:e}, not {radius:e}",
                        off.to_f64()
                    );
                    // Scores of hundreds cost digits.
                    let most = if scale > 1.0 { 1e-6 } else { 1e-12 };
                    assert!(radius < most * centre.abs().max(1.0), "{config:?}: {radius:e} is far too wide");
                }
            }
        }
    }
}

#[test]
fn enclosures_of_built_models_hold_the_logits_of_256_bits() {
    let (problem, d_vocab) = stories(4);
    for activation in [Activation::Tanh, Activation::Logistic, Activation::Erf, Activation::Gelu] {
        let settings = Settings { activation, ..Settings::default() };
        let (model, _) = build(&problem, d_vocab, 9, &settings, &Silent).unwrap();
        for (i, row) in enclosures(&model, &problem).iter().enumerate() {
            let exact = oracle(&model, &problem.tokens_of(i));
            for (&(centre, radius), exact) in row.iter().zip(&exact) {
                let off = exact.minus(&Dyadic::from(centre)).abs();
                assert!(
                    off <= Dyadic::from(radius),
                    "{activation}: off by {:e}, not {radius:e}",
                    off.to_f64()
                );
            }
        }
    }
}

#[test]
fn built_models_are_certified_with_margin_and_gap() {
    let (problem, d_vocab) = stories(60);
    for mixer in [Mixer::Attention, Mixer::Average] {
        for activation in Activation::ALL {
            let settings = Settings { mixer, activation, ..Settings::default() };
            let (model, _) = build(&problem, d_vocab, 9, &settings, &Silent).unwrap();
            let found = certify(&model, &problem, &Silent).unwrap();
            let seen = evaluate(&model, &problem, Nats(1e-3), 0).unwrap();
            assert_eq!(found.verdict, Verdict::Certified, "{mixer} {activation}: {found:?}");
            assert!(found.min_margin_lower_bound.0 > 0.01 && found.doubt.is_none());
            let gap = found.gap_nats_upper_bound.0;
            assert!(gap >= seen.gap_nats.0 && gap < 2.0 * seen.gap_nats.0, "{gap} {}", seen.gap_nats);
            assert!(found.injectivity.distinct_absolute_values, "{:?}", found.injectivity);
        }
    }
}

#[test]
fn a_random_model_is_refuted_with_a_context() {
    let (problem, d_vocab) = stories(10);
    let shape = Shape { d_vocab, n_ctx: 9, d_mlp: 20, ..Shape::default() };
    let model = Model::random(Preset::Madden2024.config(shape), 1).unwrap();
    let found = certify(&model, &problem, &Silent).unwrap();
    let seen = evaluate(&model, &problem, Nats(1e-3), 0).unwrap();
    assert_eq!(found.verdict, Verdict::Refuted);
    assert_eq!(found.certified_contexts, seen.memorized);
    assert_eq!(found.certified_contexts + found.refuted_contexts, found.contexts);
    assert!(found.doubt.unwrap().margin_upper_bound.0 <= 0.0);
    assert!(found.gap_nats_upper_bound.0 >= seen.gap_nats.0);
}

/// The weights of a certified model are moved until one context is not memorized any more; the certificate ends before.
#[test]
fn a_certificate_vanishes_before_the_claim_is_false() {
    let (problem, d_vocab) = stories(30);
    for activation in [Activation::Tanh, Activation::Gelu] {
        let settings = Settings { activation, ..Settings::default() };
        let (model, _) = build(&problem, d_vocab, 9, &settings, &Silent).unwrap();
        let output = model.tensors().iter().find(|t| t.name == "W_U").unwrap().range.clone();
        let first = problem.next_of(5)[0].0 as usize;
        let rival = (first + 1) % d_vocab as usize;
        // The logit of context 5's token goes down along the first neuron, that of another goes up.
        let moved = |by: f64| {
            let mut parameters = model.parameters().to_vec();
            parameters[output.start + first] -= by;
            parameters[output.start + rival] += by;
            Model::new(*model.config(), parameters).unwrap()
        };
        // The largest step that is certified, and the smallest that is false, to the last bit.
        let (mut good, mut bad) = (0.0, 1e3);
        let holds = |by: f64| certify(&moved(by), &problem, &Silent).unwrap().verdict;
        assert_eq!((holds(good), holds(bad)), (Verdict::Certified, Verdict::Refuted));
        for _ in 0..60 {
            let middle = 0.5 * (good + bad);
            match holds(middle) {
                Verdict::Certified => good = middle,
                _ => bad = middle,
            }
        }
        // At the edge the claim is true by the numbers of 256 bits, and a little further it is false.
        let margin = |by: f64| {
            let model = moved(by);
            (0..problem.len())
                .map(|i| {
                    let logits = oracle(&model, &problem.tokens_of(i));
                    let next = problem.next_of(i);
                    let most = next.iter().fold(0.0, |m: f64, n| m.max(n.1));
                    let is_top = |t: usize| next.iter().any(|n| n.0 as usize == t && n.1 == most);
                    let best = |top: bool| {
                        let of = logits.iter().enumerate().filter(|(t, _)| is_top(*t) == top);
                        of.map(|(_, l)| l).max().unwrap().clone()
                    };
                    best(true).minus(&best(false))
                })
                .min()
                .unwrap()
        };
        assert!(margin(good) > Dyadic::from(0.0), "{activation}: certified a falsehood");
        let certified = certify(&moved(good), &problem, &Silent).unwrap().min_margin_lower_bound.0;
        assert!(Dyadic::from(certified) <= margin(good), "{activation}");
        assert!(margin(good + 1e-6) <= Dyadic::from(0.0), "{activation}: the certificate ends too early");
        assert_ne!(holds(bad), Verdict::Certified);
    }
}

#[test]
fn weights_too_large_to_follow_are_undecided() {
    let (problem, d_vocab) = letters("abc abd");
    let shape = Shape { d_vocab, n_ctx: 9, d_mlp: 3, ..Shape::default() };
    let config = Preset::Madden2024.config(shape);
    let model = Model::new(config, vec![1e200; config.n_parameters()]).unwrap();
    let found = certify(&model, &problem, &Silent).unwrap();
    assert_eq!(found.verdict, Verdict::Undecided);
    assert_eq!(found.gap_nats_upper_bound.0, f64::INFINITY);
    assert_eq!(serde_json::to_value(&found).unwrap()["gap_nats_upper_bound"], serde_json::Value::Null);
}

#[test]
fn contexts_that_the_mixer_confuses_are_not_injective() {
    // ab and ba with flat attention and no positions.
    let (problem, d_vocab) = letters("aba bab");
    let shape = Shape { d_vocab, n_ctx: 9, d_mlp: 3, ..Shape::default() };
    let config = Config { positions: Positions::None, ..Preset::Average.config(shape) };
    let mut model = Model::random(config, 1).unwrap();
    assert!(certify(&model, &problem, &Silent).unwrap().injectivity.distinct);
    let u_pos = model.tensors().iter().find(|t| t.name == "u_pos").unwrap().range.clone();
    let mut parameters = model.parameters().to_vec();
    parameters[u_pos].fill(0.5);
    model = Model::new(config, parameters).unwrap();
    assert!(!certify(&model, &problem, &Silent).unwrap().injectivity.distinct);
}

#[test]
fn a_certificate_does_not_depend_on_the_threads() {
    let (problem, d_vocab) = stories(40);
    let (model, _) = build(&problem, d_vocab, 9, &Settings::default(), &Silent).unwrap();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| certify(&model, &problem, &Silent).unwrap())
    };
    assert_eq!(run(1), run(2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The bound of the gap is above the gap, and what is certified is so by the reference.
    #[test]
    fn certificates_agree_with_the_reference(seed: u64, scale in 0.1f64..30.0, preset in 0usize..5) {
        let (problem, d_vocab) = letters("abcab abdac caba bbdaa dab");
        let shape = Shape { d_vocab, n_ctx: 9, d_model: 4, n_heads: 2, d_head: 2, d_mlp: 6, ..Shape::default() };
        let config = Preset::ALL[preset].config(shape);
        let random = Model::random(config, seed).unwrap();
        let model = Model::new(config, random.parameters().iter().map(|x| scale * x).collect()).unwrap();
        let found = certify(&model, &problem, &Silent).unwrap();
        let seen = evaluate(&model, &problem, Nats(1e-3), 0).unwrap();
        prop_assert!(found.gap_nats_upper_bound.0 >= seen.gap_nats.0 * (1.0 - 1e-12));
        prop_assert!(found.certified_contexts <= seen.memorized);
        prop_assert!(found.contexts - found.refuted_contexts >= seen.memorized);
    }
}

#[test]
fn it_reports_every_context_and_ends_when_asked_to() {
    #[derive(Default)]
    struct Most(AtomicU64);
    impl Observer for Most {
        fn progress(&self, progress: &Progress<'_>) {
            self.0.fetch_max(progress.done, Ordering::Relaxed);
        }
    }
    let (problem, d_vocab) = stories(20);
    let (model, _) = build(&problem, d_vocab, 9, &Settings::default(), &Silent).unwrap();
    let most = Most::default();
    let watched = certify(&model, &problem, &most).unwrap();
    assert_eq!(watched, certify(&model, &problem, &Silent).unwrap());
    assert_eq!(most.0.into_inner(), problem.len() as u64);
    assert!(matches!(certify(&model, &problem, &Impatient::new(2)), Err(Error::Interrupted)));
}
