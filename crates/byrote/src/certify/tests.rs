use super::*;
use crate::Error;
use crate::construct::dana2024;
use crate::construct::madden2024::{Settings, build};
use crate::corpus::Corpus;
use crate::dataset::examples::{letters, stories};
use crate::evaluate::evaluate;
use crate::model::{Activation, Config, Mixer, ModelFile, Positions, Precision, Preset, Shape};
use crate::num::Stream;
use crate::num::precise::{Dyadic, Precise};
use crate::observe::{Impatient, Progress, Silent};
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
    // Positions are added to the embeddings, or to what attention reads, whose width may be that of a head.
    let (inside, narrow) = (config.positions_in_attention, config.bottleneck);
    let placed = |s: usize, x: Vec<Dyadic>| -> Vec<Dyadic> {
        let Some(positions) = model.positions() else { return x };
        let row = &positions[s * x.len()..][..x.len()];
        x.iter().zip(row).map(|(x, &p)| x.plus(&Dyadic::from(p))).collect()
    };
    let x: Vec<Vec<Dyadic>> = context
        .iter()
        .enumerate()
        .map(|(s, &t)| {
            let row = tensor("W_E")[t as usize * d..][..d].iter().map(|&e| Dyadic::from(e)).collect();
            if inside { row } else { placed(s, row) }
        })
        .collect();
    let last = &x[x.len() - 1];
    let mut a: Vec<Dyadic> = match shape.mixer {
        Mixer::Average | Mixer::None => (0..d)
            .map(|j| sum(&mut x.iter().zip(tensor("u_pos")).map(|(x, &u)| x[j].times(&Dyadic::from(u)))))
            .collect(),
        Mixer::Attention => {
            let width = if narrow { d_head } else { d };
            let read: Vec<Vec<Dyadic>> = x
                .iter()
                .enumerate()
                .map(|(s, x)| {
                    let row = if narrow { affine(x, tensor("W_down"), width, None) } else { x.clone() };
                    if inside { placed(s, row) } else { row }
                })
                .collect();
            let mut out: Vec<Dyadic> =
                (0..width).map(|j| Dyadic::from(model.tensor("b_O").map_or(0.0, |b| b[j]))).collect();
            let root = Dyadic::new((UBig::from(d_head) << (2 * BITS)).sqrt().into(), -(BITS as isize));
            for head in 0..shape.n_heads as usize {
                let project = |w: &str, b: &str, x: &[Dyadic]| {
                    let bias = model.tensor(b).map(|b| &b[head * d_head..][..d_head]);
                    affine(x, &tensor(w)[head * width * d_head..][..width * d_head], d_head, bias)
                };
                let query = project("W_Q", "b_Q", &read[read.len() - 1]);
                let scores: Vec<Dyadic> = read
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
                let values: Vec<Vec<Dyadic>> = read.iter().map(|x| project("W_V", "b_V", x)).collect();
                let mixed: Vec<Dyadic> = (0..d_head)
                    .map(|j| over(&sum(&mut parts.iter().zip(&values).map(|(p, v)| p.times(&v[j]))), &total))
                    .collect();
                let part =
                    affine(&mixed, &tensor("W_O")[head * d_head * width..][..d_head * width], width, None);
                out = out.iter().zip(&part).map(|(o, p)| o.plus(p)).collect();
            }
            if narrow { affine(&out, tensor("W_up"), d, None) } else { out }
        }
    };
    if config.skip {
        a = a.iter().zip(last).map(|(a, x)| a.plus(x)).collect();
    }
    let hidden = |a: &[Dyadic]| -> Vec<Dyadic> {
        let m = shape.d_mlp as usize;
        let z = affine(a, tensor("W_in"), m, model.tensor("b_in"));
        z.iter().map(|z| activation_enclosure::exact(shape.activation, z, BITS)).collect()
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
fn enclosures(model: &Model, dataset: &Dataset) -> Vec<Vec<Entry>> {
    let network = Network::new(model);
    let mixed = Enclosures::new(model, dataset, &Silent).unwrap();
    (0..dataset.len()).map(|i| network.logits(&mixed.block(i..i + 1)).row(0).collect()).collect()
}

/// Every preset and activation, and switches that no preset has.
fn configs(d_vocab: u64) -> Vec<Config> {
    let shape = Shape { d_vocab, n_ctx: 9, d_model: 5, n_heads: 2, d_head: 3, d_mlp: 7, ..Shape::default() };
    let mut all: Vec<Config> = Preset::ONE_LAYER.into_iter().map(|p| p.config(shape)).collect();
    let base = Preset::Madden2024.config(shape);
    all.extend(Activation::ALL.map(|activation| Config { shape: Shape { activation, ..shape }, ..base }));
    all.push(Config { positions: Positions::None, skip: true, output_bias: true, ..base });
    all.push(Config { hidden: Hidden::Residual, ..base });
    all.push(Config { positions_in_attention: true, skip: true, ..base });
    all.push(Config { bottleneck: true, attention_bias: true, ..base });
    let inside = Config { positions_in_attention: true, bottleneck: true, ..base };
    all.push(Config {
        positions: Positions::Sinusoidal,
        hidden: Hidden::Residual,
        residual_bias: false,
        ..inside
    });
    all.push(Config { hidden: Hidden::Residual, skip: true, ..Preset::Average.config(shape) });
    all
}

#[test]
fn enclosures_hold_the_logits_of_256_bits() {
    let (dataset, d_vocab) = letters("abcab abdac caba bbdaa dab");
    for config in configs(d_vocab) {
        for (seed, scale) in [(1, 1.0), (2, 4.0)] {
            let model = Model::random(config, seed).unwrap();
            let scaled = model.parameters().iter().map(|x| scale * x).collect();
            let model = Model::new(config, scaled).unwrap();
            for (i, row) in enclosures(&model, &dataset).iter().enumerate() {
                let exact = oracle(&model, &dataset.tokens_of(i));
                for (&Entry { centre, radius, .. }, exact) in row.iter().zip(&exact) {
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
    let (dataset, _) = stories(4);
    for activation in [Activation::Tanh, Activation::Logistic, Activation::Erf, Activation::Gelu] {
        let settings = Settings { activation, ..Settings::default() };
        let (model, _) = build(&dataset, &settings, &Silent).unwrap();
        for (i, row) in enclosures(&model, &dataset).iter().enumerate() {
            let exact = oracle(&model, &dataset.tokens_of(i));
            for (&Entry { centre, radius, .. }, exact) in row.iter().zip(&exact) {
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
    let (dataset, _) = stories(60);
    for mixer in [Mixer::Attention, Mixer::Average] {
        for activation in Activation::ALL {
            let settings = Settings { mixer, activation, ..Settings::default() };
            let (model, _) = build(&dataset, &settings, &Silent).unwrap();
            let found = certify(&model, &dataset, &Silent).unwrap();
            let seen = evaluate(&model, &dataset, Nats(1e-3), 0, &Silent).unwrap();
            assert_eq!(found.verdict, Verdict::Certified, "{mixer} {activation}: {found:?}");
            assert!(found.min_margin_lower_bound.0 > 0.01 && found.doubt.is_none());
            let computed = found.floating_point;
            assert_eq!(computed.verdict, Verdict::Certified, "{mixer} {activation}: {computed:?}");
            assert_eq!(computed.certified_contexts, found.contexts);
            assert!(computed.min_margin_lower_bound < found.min_margin_lower_bound);
            let gap = found.gap_nats_upper_bound.0;
            assert!(gap >= seen.gap_nats.0 && gap < 2.0 * seen.gap_nats.0, "{gap} {}", seen.gap_nats);
            assert!(found.injectivity.distinct_absolute_values, "{:?}", found.injectivity);
        }
    }
}

#[test]
fn attention_alone_is_certified_in_floating_point_too() {
    let (dataset, _) = stories(10);
    let (model, _) = dana2024::build(&dataset, &dana2024::Settings::default(), &Silent).unwrap();
    let found = certify(&model, &dataset, &Silent).unwrap();
    assert_eq!(found.verdict, Verdict::Certified, "{found:?}");
    assert_eq!(found.floating_point.verdict, Verdict::Certified, "{found:?}");
}

#[test]
fn a_random_model_is_refuted_with_a_context() {
    let (dataset, d_vocab) = stories(10);
    let shape = Shape { d_vocab, n_ctx: 9, d_mlp: 20, ..Shape::default() };
    let model = Model::random(Preset::Madden2024.config(shape), 1).unwrap();
    let found = certify(&model, &dataset, &Silent).unwrap();
    let seen = evaluate(&model, &dataset, Nats(1e-3), 0, &Silent).unwrap();
    assert_eq!(found.verdict, Verdict::Refuted);
    assert_eq!(found.certified_contexts, seen.memorized);
    assert_eq!(found.certified_contexts + found.refuted_contexts, found.contexts);
    assert!(found.doubt.unwrap().margin_upper_bound.0 <= 0.0);
    assert!(found.gap_nats_upper_bound.0 >= seen.gap_nats.0);
}

/// The weights of a certified model are moved until one context is not memorized any more; the certificate ends before.
#[test]
fn a_certificate_vanishes_before_the_claim_is_false() {
    let (dataset, d_vocab) = stories(30);
    for activation in [Activation::Tanh, Activation::Gelu] {
        let settings = Settings { activation, ..Settings::default() };
        let (model, _) = build(&dataset, &settings, &Silent).unwrap();
        let output = model.tensors().iter().find(|t| t.name == "W_U").unwrap().range.clone();
        let first = dataset.next_of(5)[0].0 as usize;
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
        let holds = |by: f64| certify(&moved(by), &dataset, &Silent).unwrap().verdict;
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
            (0..dataset.len())
                .map(|i| {
                    let logits = oracle(&model, &dataset.tokens_of(i));
                    let next = dataset.next_of(i);
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
        let certified = certify(&moved(good), &dataset, &Silent).unwrap().min_margin_lower_bound.0;
        assert!(Dyadic::from(certified) <= margin(good), "{activation}");
        assert!(margin(good + 1e-6) <= Dyadic::from(0.0), "{activation}: the certificate ends too early");
        assert_ne!(holds(bad), Verdict::Certified);
    }
}

#[test]
fn weights_too_large_to_follow_are_undecided() {
    let (dataset, d_vocab) = letters("abc abd");
    let shape = Shape { d_vocab, n_ctx: 9, d_mlp: 3, ..Shape::default() };
    let config = Preset::Madden2024.config(shape);
    let model = Model::new(config, vec![1e200; config.n_parameters()]).unwrap();
    let found = certify(&model, &dataset, &Silent).unwrap();
    assert_eq!(found.verdict, Verdict::Undecided);
    assert_eq!(found.gap_nats_upper_bound.0, f64::INFINITY);
    assert_eq!(serde_json::to_value(&found).unwrap()["gap_nats_upper_bound"], serde_json::Value::Null);
}

#[test]
fn contexts_that_the_mixer_confuses_are_not_injective() {
    // ab and ba with flat attention and no positions.
    let (dataset, d_vocab) = letters("aba bab");
    let shape = Shape { d_vocab, n_ctx: 9, d_mlp: 3, ..Shape::default() };
    let config = Config { positions: Positions::None, ..Preset::Average.config(shape) };
    let mut model = Model::random(config, 1).unwrap();
    assert!(certify(&model, &dataset, &Silent).unwrap().injectivity.distinct);
    let u_pos = model.tensors().iter().find(|t| t.name == "u_pos").unwrap().range.clone();
    let mut parameters = model.parameters().to_vec();
    parameters[u_pos].fill(0.5);
    model = Model::new(config, parameters).unwrap();
    assert!(!certify(&model, &dataset, &Silent).unwrap().injectivity.distinct);
}

#[test]
fn a_certificate_does_not_depend_on_the_threads() {
    let (dataset, _) = stories(40);
    let (model, _) = build(&dataset, &Settings::default(), &Silent).unwrap();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| certify(&model, &dataset, &Silent).unwrap())
    };
    assert_eq!(run(1), run(2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The bound of the gap is above the gap, and what is certified is so by the reference.
    #[test]
    fn certificates_agree_with_the_reference(seed: u64, scale in 0.1f64..30.0, preset in 0usize..Preset::ONE_LAYER.len()) {
        let (dataset, d_vocab) = letters("abcab abdac caba bbdaa dab");
        let shape = Shape { d_vocab, n_ctx: 9, d_model: 4, n_heads: 2, d_head: 2, d_mlp: 6, ..Shape::default() };
        let config = Preset::ONE_LAYER[preset].config(shape);
        let random = Model::random(config, seed).unwrap();
        let model = Model::new(config, random.parameters().iter().map(|x| scale * x).collect()).unwrap();
        let found = certify(&model, &dataset, &Silent).unwrap();
        let seen = evaluate(&model, &dataset, Nats(1e-3), 0, &Silent).unwrap();
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
    let (dataset, _) = stories(20);
    let (model, _) = build(&dataset, &Settings::default(), &Silent).unwrap();
    let most = Most::default();
    let watched = certify(&model, &dataset, &most).unwrap();
    assert_eq!(watched, certify(&model, &dataset, &Silent).unwrap());
    assert_eq!(most.0.into_inner(), dataset.len() as u64);
    assert!(matches!(certify(&model, &dataset, &Impatient::new(2)), Err(Error::Interrupted)));
}

/// Evaluates a model with every result rounded by `round`, summing in a random order, with or without fused products.
struct Program<'a> {
    model: &'a Model,
    round: fn(f64) -> f64,
    fused: bool,
    stream: Stream,
}

impl Program<'_> {
    fn sum(&mut self, mut terms: Vec<f64>) -> f64 {
        while terms.len() > 1 {
            let a = terms.swap_remove(self.stream.below(terms.len() as u64) as usize);
            let i = self.stream.below(terms.len() as u64) as usize;
            terms[i] = (self.round)(terms[i] + a);
        }
        terms.pop().unwrap_or(0.0)
    }

    fn dot(&mut self, mut pairs: Vec<(f64, f64)>, plain: &[f64]) -> f64 {
        if self.fused {
            let mut sum = plain.iter().fold(0.0, |sum, p| (self.round)(sum + p));
            while !pairs.is_empty() {
                let (a, b) = pairs.swap_remove(self.stream.below(pairs.len() as u64) as usize);
                sum = (self.round)(a.mul_add(b, sum));
            }
            return sum;
        }
        let mut terms: Vec<f64> = pairs.iter().map(|(a, b)| (self.round)(a * b)).collect();
        terms.extend(plain);
        self.sum(terms)
    }

    fn tensor(&self, name: &str) -> Vec<f64> {
        self.model.tensor(name).unwrap_or_default().iter().map(|&x| (self.round)(x)).collect()
    }

    fn affine(&mut self, x: &[f64], matrix: &[f64], columns: usize, plain: &[&[f64]]) -> Vec<f64> {
        let column = |j: usize| x.iter().enumerate().map(|(k, &x)| (x, matrix[k * columns + j])).collect();
        (0..columns)
            .map(|j| {
                let plain: Vec<f64> = plain.iter().filter(|p| !p.is_empty()).map(|p| p[j]).collect();
                self.dot(column(j), &plain)
            })
            .collect()
    }

    fn logits(&mut self, context: &[u32]) -> Vec<f64> {
        let config = *self.model.config();
        let shape = config.shape;
        let round = self.round;
        let (d, d_head) = (shape.d_model as usize, shape.d_head as usize);
        let table = self.tensor("W_E");
        let positions = self.model.positions().map(<[f64]>::to_vec);
        // Positions are added to the embeddings, or to what attention reads, whose width may be that of a head.
        let (inside, narrow) = (config.positions_in_attention, config.bottleneck);
        let position = |s: usize, width: usize| -> Vec<f64> {
            let row = positions.as_ref().map_or(&[][..], |p| &p[s * width..][..width]);
            row.iter().map(|&p| round(p)).collect()
        };
        let plus = |x: &[f64], p: Vec<f64>| -> Vec<f64> {
            if p.is_empty() { x.to_vec() } else { x.iter().zip(p).map(|(x, p)| round(x + p)).collect() }
        };
        let embed = |(s, &t): (usize, &u32)| -> Vec<f64> {
            let row = &table[t as usize * d..][..d];
            if inside { row.to_vec() } else { plus(row, position(s, d)) }
        };
        let x: Vec<Vec<f64>> = context.iter().enumerate().map(embed).collect();
        let skip = if config.skip { x[x.len() - 1].clone() } else { Vec::new() };
        let a = match shape.mixer {
            Mixer::Average | Mixer::None => {
                let u = self.tensor("u_pos");
                (0..d)
                    .map(|j| {
                        let pairs = x.iter().zip(&u).map(|(x, &u)| (x[j], u)).collect();
                        let plain: Vec<f64> = skip.get(j).copied().into_iter().collect();
                        self.dot(pairs, &plain)
                    })
                    .collect()
            }
            Mixer::Attention => {
                let width = if narrow { d_head } else { d };
                let mut read = Vec::new();
                for (s, x) in x.iter().enumerate() {
                    let place = if inside { position(s, width) } else { Vec::new() };
                    read.push(match narrow {
                        true => self.affine(x, &self.tensor("W_down"), width, &[&place]),
                        false => plus(x, place),
                    });
                }
                let mut heads = Vec::new();
                for head in 0..shape.n_heads as usize {
                    let mut project = |w: &str, b: &str, x: &[f64]| {
                        let (w, b) = (self.tensor(w), self.tensor(b));
                        let b = if b.is_empty() { &[][..] } else { &b[head * d_head..][..d_head] };
                        self.affine(x, &w[head * width * d_head..][..width * d_head], d_head, &[b])
                    };
                    let query = project("W_Q", "b_Q", &read[read.len() - 1]);
                    let keys: Vec<Vec<f64>> = read.iter().map(|x| project("W_K", "b_K", x)).collect();
                    let values: Vec<Vec<f64>> = read.iter().map(|x| project("W_V", "b_V", x)).collect();
                    let factor = round(config.score_factor());
                    let scores: Vec<f64> = keys
                        .iter()
                        .map(|k| {
                            let pairs = query.iter().zip(k).map(|(&q, &k)| (q, k)).collect();
                            round(factor * self.dot(pairs, &[]))
                        })
                        .collect();
                    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let parts: Vec<f64> = scores.iter().map(|s| round(round(s - most).exp())).collect();
                    let total = self.sum(parts.clone());
                    for j in 0..d_head {
                        let weights = parts.iter().map(|&p| if self.fused { p } else { round(p / total) });
                        let pairs = weights.zip(&values).map(|(w, v)| (w, v[j])).collect();
                        let sum = self.dot(pairs, &[]);
                        heads.push(if self.fused { round(sum / total) } else { sum });
                    }
                }
                let (output, bias) = (self.tensor("W_O"), self.tensor("b_O"));
                match narrow {
                    true => {
                        let out = self.affine(&heads, &output, width, &[&bias]);
                        self.affine(&out, &self.tensor("W_up"), d, &[&skip])
                    }
                    false => self.affine(&heads, &output, d, &[&bias, &skip]),
                }
            }
        };
        let m = shape.d_mlp as usize;
        let (w_in, b_in) = (self.tensor("W_in"), self.tensor("b_in"));
        let hidden: Vec<f64> = match config.hidden {
            Hidden::Absent => Vec::new(),
            _ => self
                .affine(&a, &w_in, m, &[&b_in])
                .iter()
                .map(|&z| round(shape.activation.value(z)))
                .collect(),
        };
        let read = match config.hidden {
            Hidden::Absent => a,
            Hidden::Output => hidden,
            Hidden::Residual => {
                let (w_out, b_out) = (self.tensor("W_out"), self.tensor("b_out"));
                let skip = if config.skip { a } else { Vec::new() };
                self.affine(&hidden, &w_out, d, &[&b_out, &skip])
            }
        };
        let (w_u, b_u) = (self.tensor("W_U"), self.tensor("b_U"));
        self.affine(&read, &w_u, shape.d_vocab as usize, &[&b_u])
    }
}

/// Checks the bounds on rounding errors against programs that sum in random orders, and returns the largest ratio of a
/// measured error to its bound, in f64 and in f32.
fn measured(model: &Model, dataset: &Dataset, orders: u64) -> [f64; 2] {
    let rounds: [fn(f64) -> f64; 2] = [|x| x, |x| f64::from(x as f32)];
    let mut worst = [0f64; 2];
    for (i, row) in enclosures(model, dataset).iter().enumerate() {
        let context = dataset.tokens_of(i);
        for (p, round) in rounds.into_iter().enumerate() {
            for order in 0..orders {
                let stream = Stream::new(order, "orders", i as u64);
                let logits = Program { model, round, fused: order % 2 == 1, stream }.logits(&context);
                for (entry, computed) in row.iter().zip(logits) {
                    let off = (computed - entry.centre).abs();
                    let bound = entry.errors[p];
                    assert!(off <= bound + entry.radius, "{:?}: {off:e} {bound:e}", model.config());
                    worst[p] = worst[p].max((off - entry.radius).max(0.0) / bound);
                }
            }
        }
    }
    worst
}

#[test]
fn rounding_errors_stay_within_their_bounds_in_any_order() {
    let (dataset, d_vocab) = letters("abcab abdac caba bbdaa dab");
    let mut worst = [0f64; 2];
    for config in configs(d_vocab) {
        for (seed, scale) in [(1, 1.0), (2, 4.0), (3, 0.2)] {
            let model = Model::random(config, seed).unwrap();
            let model =
                model.with_parameters(model.parameters().iter().map(|x| scale * x).collect()).unwrap();
            let found = measured(&model, &dataset, 8);
            worst = [worst[0].max(found[0]), worst[1].max(found[1])];
        }
    }
    // The bounds hold for the worst order and the worst signs. The errors of random orders reach 6% of them in f32.
    assert!(worst[1] > 0.01, "{worst:?}");
}

#[test]
fn rounding_errors_of_built_models_stay_within_their_bounds() {
    let (dataset, _) = stories(4);
    for activation in [Activation::Tanh, Activation::Erf, Activation::Gelu] {
        let settings = Settings { activation, ..Settings::default() };
        let (model, _) = build(&dataset, &settings, &Silent).unwrap();
        let worst = measured(&model, &dataset, 4);
        assert!(worst[1] > 1e-3, "{activation}: measured / bound {worst:?}");
    }
}

/// Three neurons of value 1 with output weights 1e16, 1 and -1e16: the sum is 1, but added up from the left it is 0.
#[test]
fn cancellation_that_only_real_arithmetic_survives_is_not_certified_in_floating_point() {
    let (dataset, d_vocab) = letters("ab ab");
    let shape = Shape {
        d_vocab,
        n_ctx: 9,
        d_model: 2,
        n_heads: 1,
        d_head: 1,
        d_mlp: 3,
        activation: Activation::Erf,
        ..Shape::default()
    };
    let config = Preset::Average.config(shape);
    let mut parameters = vec![0.0; config.n_parameters()];
    let place = |name: &str| config.tensors().into_iter().find(|t| t.name == name).unwrap().range;
    parameters[place("b_in")].fill(10.0);
    // Columns a and b; b follows a.
    parameters[place("W_U")].copy_from_slice(&[0.0, 1e16, 0.5, 1.0, 0.0, -1e16]);
    let model = Model::new(config, parameters).unwrap();
    let found = certify(&model, &dataset, &Silent).unwrap();
    assert_eq!(found.verdict, Verdict::Certified, "{found:?}");
    assert!(found.min_margin_lower_bound.0 > 0.49);
    for computed in [found.floating_point, found.floating_point_f32] {
        assert_eq!((computed.verdict, computed.certified_contexts), (Verdict::Undecided, 0), "{computed:?}");
        assert!(computed.min_margin_lower_bound.0 < 0.0);
    }
    // Rightly so: this program predicts the wrong token.
    let logits = model.forward(&dataset.tokens_of(0));
    assert!(logits[1] < logits[0], "{logits:?}");
    // Without the cancellation it is certified in both formats.
    let mut parameters = model.parameters().to_vec();
    parameters[place("W_U")].copy_from_slice(&[0.0, 1.0, 0.5, 1.0, 0.0, -1.0]);
    let found = certify(&Model::new(config, parameters).unwrap(), &dataset, &Silent).unwrap();
    assert_eq!(found.floating_point.verdict, Verdict::Certified);
    assert_eq!(found.floating_point_f32.verdict, Verdict::Certified);
    assert!(found.floating_point.min_margin_lower_bound > found.floating_point_f32.min_margin_lower_bound);
}

/// Attention alone with a skip connection, one head of dimension 1, weights that are 0 but for these tensors.
fn handmade(d_model: u64, tensors: &[(&str, &[f64])]) -> Model {
    let shape = Shape { d_vocab: 2, n_ctx: 9, d_model, n_heads: 1, d_head: 1, ..Shape::default() };
    let config = Preset::Dana2024.config(shape);
    let mut parameters = vec![0.0; config.n_parameters()];
    for (name, values) in tensors {
        let start = config.tensors().into_iter().find(|t| t.name == *name).unwrap().range.start;
        parameters[start..start + values.len()].copy_from_slice(values);
    }
    Model::new(config, parameters).unwrap()
}

/// One context of `length` tokens 0, followed by token 1.
fn one_context(length: usize) -> Dataset {
    Dataset::new(2, 9, [(vec![0; length], vec![(1, 1.0)])]).unwrap()
}

/// The logits that programs compute in f64 (0) or f32 (1), in random orders of summation; every other one normalizes after
/// mixing.
fn computed(model: &Model, dataset: &Dataset, format: usize) -> Vec<Vec<f64>> {
    let rounds: [fn(f64) -> f64; 2] = [|x| x, |x| f64::from(x as f32)];
    let run = |order| {
        let stream = Stream::new(order, "orders", 0);
        let mut program = Program { model, round: rounds[format], fused: order % 2 == 1, stream };
        program.logits(&dataset.tokens_of(0))
    };
    (0..16).map(run).collect()
}

fn verdicts(model: &Model, dataset: &Dataset) -> [Verdict; 3] {
    let found = certify(model, dataset, &Silent).unwrap();
    for computed in [found.floating_point, found.floating_point_f32] {
        let known = computed.largest_rounding_error.0.is_finite();
        assert!(known || computed.verdict == Verdict::Undecided, "{computed:?}");
    }
    [found.verdict, found.floating_point.verdict, found.floating_point_f32.verdict]
}

/// A query of 6e38 and a key of 2e-37: the score is 120, but the query is infinite in f32, and infinity minus infinity is not a
/// number. That a mean stays among its values does not help.
#[test]
fn scores_that_overflow_in_f32_are_not_certified_there() {
    let dataset = one_context(1);
    let model = |size: f64| {
        handmade(
            2,
            &[
                ("W_E", &[1.0; 2]),
                ("W_Q", &[size; 2]),
                ("W_K", &[30.0 / size; 2]),
                ("W_V", &[1.0, 0.0]),
                ("W_O", &[0.0, 1.0]),
                ("W_U", &[0.0, 0.0, 0.0, 1.0]),
            ],
        )
    };
    let large = model(3e38);
    assert_eq!(verdicts(&large, &dataset), [Verdict::Certified, Verdict::Certified, Verdict::Undecided]);
    assert!(computed(&large, &dataset, 1).iter().all(|logits| logits[1].is_nan()));
    assert!(computed(&large, &dataset, 0).iter().all(|logits| logits[1] > logits[0]));
    assert_eq!(verdicts(&model(3e37), &dataset), [Verdict::Certified; 3]);
}

/// A query 1e308 - 1e308 + 1e308, which overflows in f64 if the two positive terms are added first.
#[test]
fn scores_that_overflow_in_some_order_are_not_certified() {
    let dataset = one_context(1);
    let model = |size: f64| {
        handmade(
            3,
            &[
                ("W_E", &[1.0; 3]),
                ("W_Q", &[size, -size, size]),
                ("W_K", &[1.0 / size, 0.0, 0.0]),
                ("W_V", &[1.0, 0.0, 0.0]),
                ("W_O", &[0.0, 1.0, 0.0]),
                ("W_U", &[0.0, 0.0, 0.0, 1.0]),
            ],
        )
    };
    let large = model(1e308);
    assert_eq!(verdicts(&large, &dataset), [Verdict::Certified, Verdict::Undecided, Verdict::Undecided]);
    let logits = computed(&large, &dataset, 0);
    let wrong = logits.iter().filter(|logits| logits[1].is_nan()).count();
    assert!((1..logits.len()).contains(&wrong), "{logits:?}");
    assert_eq!(verdicts(&model(1e30), &dataset), [Verdict::Certified; 3]);
}

/// An exponential of e^-500 in f64, or e^-50 in f32, times a value as large as that is small. The kernels of this library set
/// it to zero.
#[test]
fn predictions_that_hang_on_a_dropped_exponential_are_not_certified() {
    // The first token has the value, the second the score; token 1 follows if the first is not forgotten.
    let model = |score: f64, value: f64| {
        handmade(
            3,
            &[
                ("W_E", &[1.0, 0.0, 0.0, 1.0, 0.0, 0.0]),
                ("W_pos", &[0.0, 1.0, 0.0, 0.0, 0.0, 1.0]),
                ("W_Q", &[1.0, 0.0, 0.0]),
                ("W_K", &[0.0, 0.0, score]),
                ("W_V", &[0.0, value, 0.0]),
                ("W_O", &[0.0, 0.7 * score.exp() / value, 0.0]),
                ("W_U", &[0.3, 0.0, 0.0, 1.0, 0.0, 0.0]),
            ],
        )
    };
    let dataset = one_context(2);
    let dropped = model(500.0, 1e250);
    assert_eq!(verdicts(&dropped, &dataset), [Verdict::Certified, Verdict::Undecided, Verdict::Undecided]);
    // The slow reference keeps it; the evaluator does not, and predicts the wrong token.
    let logits = dropped.logits(&dataset.tokens_of(0)).unwrap();
    assert!(logits[1] > 0.69 && logits[0] < 0.31, "{logits:?}");
    assert_eq!(evaluate(&dropped, &dataset, Nats(1e-3), 0, &Silent).unwrap().memorized, 0);
    // What f64 keeps, f32 may drop.
    let kept = model(50.0, 1e25);
    assert_eq!(verdicts(&kept, &dataset), [Verdict::Certified, Verdict::Certified, Verdict::Undecided]);
    assert_eq!(evaluate(&kept, &dataset, Nats(1e-3), 0, &Silent).unwrap().memorized, 1);
    assert_eq!(verdicts(&model(40.0, 1e20), &dataset), [Verdict::Certified; 3]);
}

/// Nine values whose sum overflows. Their mean does not, if the weights are normalized first.
#[test]
fn means_whose_sum_overflows_are_not_certified() {
    let dataset = one_context(9);
    let model = |value: f64| {
        handmade(
            2,
            &[
                ("W_E", &[1.0, 0.0]),
                ("W_V", &[value, 0.0]),
                ("W_O", &[0.0, 1e5 / value]),
                ("W_U", &[0.3, 0.0, 0.0, 0.7e-5]),
            ],
        )
    };
    for (value, format) in [(4e307, 0), (7e37, 1)] {
        let model = model(value);
        let found = verdicts(&model, &dataset);
        assert_eq!((found[0], found[1 + format]), (Verdict::Certified, Verdict::Undecided), "{value}");
        let logits = computed(&model, &dataset, format);
        let (before, after): (Vec<_>, Vec<_>) =
            logits.iter().enumerate().partition(|(order, _)| order % 2 == 0);
        assert!(before.iter().all(|(_, logits)| logits[1] > logits[0]), "{before:?}");
        assert!(after.iter().all(|(_, logits)| !logits[1].is_finite()), "{after:?}");
    }
    assert_eq!(verdicts(&model(7e37), &dataset)[1], Verdict::Certified);
    assert_eq!(verdicts(&model(7e36), &dataset), [Verdict::Certified; 3]);
}

/// Two tokens follow equally often, and the logit of one may overflow: which token is found depends on how a program compares.
#[test]
fn a_top_token_whose_logit_may_overflow_is_not_certified() {
    let dataset = Dataset::new(3, 9, [(vec![0], vec![(1, 1.0), (2, 1.0)])]).unwrap();
    let shape = Shape { d_vocab: 3, n_ctx: 9, d_model: 3, n_heads: 1, d_head: 1, ..Shape::default() };
    let config = Preset::Dana2024.config(shape);
    let mut parameters = vec![0.0; config.n_parameters()];
    let place = |name: &str| config.tensors().into_iter().find(|t| t.name == name).unwrap().range;
    parameters[place("W_E")].fill(1.0);
    for (size, verdict) in [(1e308, Verdict::Undecided), (1e3, Verdict::Certified)] {
        parameters[place("W_U")].copy_from_slice(&[
            0.0,
            1.0,
            size,
            0.0,
            1.0,
            size,
            0.0,
            1.0,
            -2.0 * (size / 2.0),
        ]);
        let model = Model::new(config, parameters.clone()).unwrap();
        let found = certify(&model, &dataset, &Silent).unwrap();
        assert_eq!(found.floating_point.verdict, verdict, "{found:?}");
    }
}

/// Files whose stored positions differ from the sines by less than the reader's tolerance, and whose margin lies between that
/// of the stored positions (negative) and that of the sines (positive).
#[test]
fn what_is_certified_is_what_is_stored() {
    let (dataset, d_vocab) = letters("ab ab");
    let corpus = Corpus::from_rows(&[1u16, 2], 2, 9).unwrap();
    let shape = Shape { d_vocab, n_ctx: 9, d_model: 4, n_heads: 1, d_head: 4, d_mlp: 6, ..Shape::default() };
    let config = Preset::Madden2024Experiment.config(shape);
    let bias = config.tensors().into_iter().find(|t| t.name == "b_U").unwrap().range.start;
    let context = dataset.tokens_of(0);
    let margin = |model: &Model| {
        let logits = oracle(model, &context);
        logits[1].minus(&logits[0]).to_f64()
    };
    for seed in 0..19 {
        let sines = Model::random(config, seed).unwrap();
        let shifted = |sign: f64| {
            let positions = sines.positions().unwrap().iter().map(|p| p + sign * 9e-7).collect();
            sines.clone().with_stored_positions(positions).unwrap()
        };
        let stored = [shifted(1.0), shifted(-1.0)].into_iter().min_by(|a, b| margin(a).total_cmp(&margin(b)));
        let stored = stored.unwrap();
        let (high, low) = (margin(&sines), margin(&stored));
        assert!(high - low > 1e-11, "{seed}: {high} {low}");
        let mut parameters = sines.parameters().to_vec();
        parameters[bias + 1] -= 0.5 * (high + low);
        let read = |model: &Model| {
            let file = ModelFile {
                model: model.with_parameters(parameters.clone()).unwrap(),
                precision: Precision::F64,
                tokenizer: "ids".into(),
                vocabulary: corpus.vocabulary.clone(),
            };
            let file =
                ModelFile::from_bytes(std::path::Path::new("memory"), &file.to_bytes().unwrap()).unwrap();
            certify(&file.model, &dataset, &Silent).unwrap().verdict
        };
        assert_eq!(read(&sines), Verdict::Certified, "{seed}");
        assert_eq!(read(&stored), Verdict::Refuted, "{seed}: certified what is not stored");
    }
}
