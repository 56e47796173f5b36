//! The construction of the proof, solved with the reference forward pass, and counterexamples where a hypothesis fails.

use super::super::situation::examples::*;
use super::super::{evaluate, find, madden2024};
use super::*;
use crate::model::{Activation, Model, ModelSpec, Preset};
use crate::num::Stream;
use byrote_linear::{Svd, from_rows, product, to_rows};

fn spec(preset: Preset) -> ModelSpec {
    ModelSpec::default()
        .preset(preset)
        .n_layers(2)
        .d_mlp(2)
        .n_heads(1)
        .d_head(1)
        .positions(Positions::Learned)
}

fn held(spec: ModelSpec, omega: u64) -> Result<u128, String> {
    let row = DISTRIBUTIONS.evaluate(&Situation::default().of_model(spec.resolve(omega, 3).unwrap()));
    row.contexts.map_or_else(|| Err(row.why_not.clone().unwrap()), |held| Ok(held.count().unwrap()))
}

/// Orthonormal vectors of mean 0 over coordinates `from..d`, in the first of which the first vector is positive.
fn centred_basis(d: usize, from: usize) -> Vec<Vec<f64>> {
    (1..d - from)
        .map(|k| {
            let size = ((k * (k + 1)) as f64).sqrt();
            let entry = |j: usize| match j.checked_sub(from) {
                Some(j) if j < k => 1.0 / size,
                Some(j) if j == k => -(k as f64) / size,
                _ => 0.0,
            };
            (0..d).map(entry).collect()
        })
        .collect()
}

/// The direction u of the mixed value, and those that the hidden layers write into.
fn directions(config: &Config) -> (Vec<f64>, Vec<Vec<f64>>) {
    let blocks = config.shape.blocks.unwrap();
    let d = config.shape.d_model as usize;
    if blocks.norm != Norm::Layer {
        let mut all = (0..d).map(|i| (0..d).map(|j| f64::from(u8::from(i == j))).collect());
        return (all.next().unwrap(), all.collect());
    }
    let mut all = centred_basis(d, 0).into_iter();
    let u = all.next().unwrap();
    (u, if blocks.tied { centred_basis(d, 2) } else { all.collect() })
}

/// A model whose parameters are set by name.
struct Weights {
    config: Config,
    parameters: Vec<f64>,
}

impl Weights {
    fn zeros(config: Config) -> Self {
        Self { config, parameters: vec![0.0; config.n_parameters()] }
    }

    fn set(&mut self, name: &str, value: impl Fn(usize) -> f64) {
        if let Some(tensor) = self.config.tensors().into_iter().find(|t| t.name == name) {
            self.parameters[tensor.range].iter_mut().enumerate().for_each(|(i, x)| *x = value(i));
        }
    }

    fn logits(&self, contexts: &[Vec<u32>]) -> Vec<f64> {
        let model = Model::new(self.config, self.parameters.clone()).unwrap();
        let centred = |context: &Vec<u32>| {
            let logits = model.logits(context).unwrap();
            let mean = logits.iter().sum::<f64>() / logits.len() as f64;
            logits.into_iter().map(move |x| x - mean)
        };
        contexts.iter().flat_map(centred).collect()
    }
}

/// The size of what the hidden layers write before normalization. The theorem promises some size; features are badly conditioned,
/// so it is small.
const TAU: f64 = 1e-5;

/// Everything but the output weights of the hidden layers. `tokens` gives the output vector of each token in the written
/// directions.
fn prepared(config: Config, tokens: &[Vec<f64>], seed: u64) -> Weights {
    let shape = config.shape;
    let blocks = shape.blocks.unwrap();
    let (d, d_vocab, m) = (shape.d_model as usize, shape.d_vocab as usize, shape.d_mlp as usize);
    let (u, written) = directions(&config);
    let mut stream = Stream::new(seed, "blocks", 0);
    let mut draw = |n: usize| -> Vec<f64> { (0..n).map(|_| stream.normal()).collect() };
    let (e, p, average, w) = (draw(d_vocab), draw(8), draw(8), draw(64));
    let normed = blocks.norm != Norm::None;
    let tau = if normed { TAU } else { 1.0 };
    let output = |g: usize, j: usize| written.iter().zip(&tokens[g]).map(|(s, c)| s[j] * c).sum::<f64>();
    let tied = f64::from(u8::from(blocks.tied));
    let mut weights = Weights::zeros(config);
    weights.set("embed.W_E", |i| e[i / d] * u[i % d] + tied * tau * output(i / d, i % d));
    weights.set("pos_embed.W_pos", |i| p[i / d] * u[i % d]);
    weights.set("unembed.W_U", |i| output(i % d_vocab, i / d_vocab) / tau);
    // Gains hide the mixed value from a tied output.
    let hidden = if blocks.norm == Norm::Layer { 2 } else { 1 };
    weights.set("ln_final.w", |i| match blocks.tied {
        true if i < hidden => 0.0,
        true => 1.0 / (tau * tau),
        false => 1.0,
    });
    for block in 0..blocks.n_layers {
        let name = |part: &str| format!("blocks.{block}.{part}");
        weights.set(&name("ln1.w"), |_| 1.0);
        weights.set(&name("ln2.w"), |_| 1.0);
        if block == 0 {
            for part in ["attn.W_Q", "attn.W_K", "attn.W_V"] {
                weights.set(&name(part), |i| if i < d { u[i] } else { 0.0 });
            }
            weights.set(&name("attn.W_O"), |i| if i < d { 3.0 * u[i] } else { 0.0 });
            weights.set(&name("attn.u_pos"), |i| average[i]);
        }
        let read = |i: usize| u[i / m] * w[block as usize * m + i % m];
        weights.set(&name("mlp.W_in"), |i| if blocks.gated { u[i / m] } else { 2.0 * read(i) });
        weights.set(&name("mlp.W_gate"), |i| 2.0 * read(i));
    }
    weights
}

/// Solves for the output weights of all hidden layers by Newton's method, from 0; returns the largest error of a logit.
fn solve(weights: &mut Weights, contexts: &[Vec<u32>], targets: &[f64]) -> f64 {
    let config = weights.config;
    let blocks = config.shape.blocks.unwrap();
    let (d, m) = (config.shape.d_model as usize, config.shape.d_mlp as usize);
    let (_, written) = directions(&config);
    let first = u64::from(blocks.parallel);
    let tau = if blocks.norm == Norm::None { 1.0 } else { TAU };
    let unknowns: Vec<(u64, usize, usize)> = (first..blocks.n_layers)
        .flat_map(|block| (0..m).flat_map(move |k| (0..d).map(move |s| (block, k, s))))
        .filter(|&(_, _, s)| s < written.len())
        .collect();
    let ranges: Vec<_> = unknowns
        .iter()
        .map(|&(block, k, _)| {
            let name = format!("blocks.{block}.mlp.W_out");
            let tensor = config.tensors().into_iter().find(|t| t.name == name.as_str()).unwrap();
            tensor.range.start + k * d
        })
        .collect();
    let step = |weights: &mut Weights, unknown: usize, by: f64| {
        let direction = &written[unknowns[unknown].2];
        for (x, s) in weights.parameters[ranges[unknown]..][..d].iter_mut().zip(direction) {
            *x += by * tau * s;
        }
    };
    let mut worst = f64::INFINITY;
    for _ in 0..30 {
        let now = weights.logits(contexts);
        let errors: Vec<f64> = targets.iter().zip(&now).map(|(t, x)| t - x).collect();
        worst = errors.iter().fold(0f64, |m, x| if x.is_nan() { f64::INFINITY } else { m.max(x.abs()) });
        if !(1e-9..1e12).contains(&worst) {
            break;
        }
        let mut jacobian = vec![0.0; now.len() * unknowns.len()];
        for j in 0..unknowns.len() {
            let h = 1e-4;
            step(weights, j, h);
            let above = weights.logits(contexts);
            step(weights, j, -2.0 * h);
            let below = weights.logits(contexts);
            step(weights, j, h);
            for (i, (a, b)) in above.iter().zip(&below).enumerate() {
                jacobian[i * unknowns.len() + j] = (a - b) / (2.0 * h);
            }
        }
        let Some(svd) = Svd::of(from_rows(&jacobian, unknowns.len())) else { return f64::INFINITY };
        let inverse = svd.pseudoinverse(1e-12);
        let change = to_rows(product(inverse.as_ref(), from_rows(&errors, 1)).as_ref());
        change.iter().enumerate().for_each(|(j, &by)| step(weights, j, by));
    }
    worst
}

/// The same with eps = 1: a small eps squeezes the mixed values towards two points, which is allowed but badly conditioned.
fn mild(mut config: Config) -> Config {
    config.shape.blocks.as_mut().unwrap().norm_eps = 1.0;
    config
}

/// Contexts of one to three tokens, with repetitions.
fn contexts(n: usize) -> Vec<Vec<u32>> {
    let all: [&[u32]; 6] = [&[0], &[0, 0], &[1, 0], &[2, 3, 1], &[3, 3, 3], &[0, 1]];
    all[..n].iter().map(|c| c.to_vec()).collect()
}

fn switches() -> Vec<ModelSpec> {
    let plain = spec(Preset::Gpt2).norm(Norm::None).tied(false);
    let gpt2 = spec(Preset::Gpt2);
    vec![
        plain,
        plain.tied(true),
        plain.n_layers(3).d_mlp(1).activation(Activation::Tanh),
        plain.gated(true).mlp_bias(false),
        plain.mixer(Mixer::Average),
        plain.mixer(Mixer::Average).tied(true),
        plain.parallel(true).n_layers(3),
        gpt2,
        gpt2.tied(false),
        gpt2.tied(false).norm(Norm::Rms),
        gpt2.norm(Norm::Rms).gated(true).activation(Activation::Silu),
        gpt2.mixer(Mixer::Average),
        gpt2.n_heads(2).n_kv_heads(1).tied(false).parallel(true).n_layers(3),
    ]
}

#[test]
fn the_network_of_the_proof_reaches_any_logits_on_as_many_contexts_as_it_has_neurons() {
    let omega = 4;
    for (case, spec) in switches().into_iter().enumerate() {
        // As narrow as the row allows; one narrower, it does not.
        let blocks = spec.d_model(9).resolve(omega, 3).unwrap().shape.blocks.unwrap();
        let d_model = least_width(&blocks, omega - 1);
        let config = mild(spec.d_model(d_model).resolve(omega, 3).unwrap());
        let n = held(spec.d_model(d_model), omega).unwrap() as usize;
        assert!(held(spec.d_model(d_model - 1), omega).unwrap_err().contains("d_model must be at least"));
        let mut stream = Stream::new(case as u64, "targets", 0);
        let codes: Vec<Vec<f64>> =
            (0..omega).map(|_| (0..omega - 1).map(|_| stream.normal()).collect()).collect();
        let mut targets: Vec<f64> = (0..n as u64 * omega).map(|_| stream.normal()).collect();
        for row in targets.chunks_mut(omega as usize) {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            row.iter_mut().for_each(|x| *x -= mean);
        }
        // Almost every draw of the other weights will do, but some are badly conditioned.
        let mut errors =
            (0..8).map(|seed| solve(&mut prepared(config, &codes, seed), &contexts(n), &targets));
        assert!(errors.any(|error| error < 1e-7), "case {case}");
    }
}

#[test]
fn a_narrow_network_gives_any_next_tokens_to_as_many_contexts() {
    let omega = 9;
    for (case, spec) in switches().into_iter().enumerate() {
        let blocks = spec.d_model(9).resolve(omega, 3).unwrap().shape.blocks.unwrap();
        let config = mild(spec.d_model(least_width(&blocks, 2)).resolve(omega, 3).unwrap());
        let situation = Situation::default().of_model(config);
        let n = ASSOCIATIONS.evaluate(&situation).contexts.unwrap().count().unwrap() as usize;
        // The output is far too narrow for distributions.
        assert!(DISTRIBUTIONS.evaluate(&situation).why_not.is_some());
        assert!(find("yang2018").unwrap().evaluate(&situation).contexts.unwrap().count().unwrap() <= 5);
        let angle = |g: u64| std::f64::consts::TAU * g as f64 / omega as f64;
        let codes: Vec<Vec<f64>> = (0..omega).map(|g| vec![angle(g).cos(), angle(g).sin()]).collect();
        let labels = [7, 2, 5, 0];
        // Without gains a tied output also reads the mixed value, which large targets drown.
        let drowned = blocks.tied && blocks.norm == Norm::None;
        let size = if drowned { 500.0 } else { 1.0 };
        let logit = |y: u64, g: u64| size * (angle(g) - angle(y)).cos();
        let targets: Vec<f64> =
            labels[..n].iter().flat_map(|&y| (0..omega).map(move |g| logit(y, g))).collect();
        let found = (0..8).find_map(|seed| {
            let mut weights = prepared(config, &codes, seed);
            let error = solve(&mut weights, &contexts(n), &targets);
            (error < if drowned { 50.0 } else { 1e-7 }).then_some(weights)
        });
        let weights = found.unwrap_or_else(|| panic!("case {case}"));
        for (logits, &y) in weights.logits(&contexts(n)).chunks(omega as usize).zip(&labels) {
            let top = (0..omega).max_by(|&a, &b| logits[a as usize].total_cmp(&logits[b as usize]));
            assert_eq!(top, Some(y), "case {case}");
        }
    }
}

#[test]
fn every_hypothesis_can_fail_with_its_reason() {
    let wide = spec(Preset::Gpt2).d_model(30);
    assert_eq!(held(wide, 20), Ok(4));
    assert_eq!(held(wide.n_layers(7).d_mlp(5).parallel(true), 20), Ok(30));
    for (spec, why) in [
        (wide.skip(false), "skip connections"),
        (wide.mlp_skip(false), "skip connections"),
        (wide.mixer(Mixer::None), "only the last token"),
        (wide.positions(Positions::Rotary).d_head(2), "learned positions"),
        (wide.positions(Positions::None), "learned positions"),
        (wide.activation(Activation::Relu), "relu"),
        (wide.n_layers(1).parallel(true), "sees only the last token"),
        (wide.preset(Preset::AttentionOnly).d_mlp(0), "no hidden layer"),
        (wide.d_model(21), "at least 22 (it is 21)"),
    ] {
        let found = held(spec, 20).unwrap_err();
        assert!(found.contains(why), "{found}");
    }
    let mut config = wide.resolve(20, 3).unwrap();
    config.shape.blocks.as_mut().unwrap().norm_eps = 0.0;
    let situation = Situation::default().of_model(config);
    for row in ["madden2024-blocks", "madden2024-lemma1", "madden2024-theorem1"] {
        assert!(find(row).unwrap().evaluate(&situation).why_not.unwrap().contains("eps"), "{row}");
    }
    assert!(DISTRIBUTIONS.evaluate(&of_shape(Shape::default())).why_not.unwrap().contains("no blocks"));
}

#[test]
fn no_sufficient_row_promises_what_a_necessary_one_excludes() {
    let corpus = CorpusFacts { d_vocab: 20, n_ctx: 3, by_length: vec![], contexts: 50, ..stories() };
    for preset in Preset::ALL.into_iter().filter(|p| p.has_blocks()) {
        for (n_layers, d_model, tied) in [(1, 4, true), (1, 40, false), (3, 22, true), (6, 20, false)] {
            let spec = ModelSpec::default().preset(preset).n_layers(n_layers).d_model(d_model).tied(tied);
            let config = spec.resolve(20, 3).unwrap();
            for situation in [Situation::default(), of_corpus(corpus.clone())].map(|s| s.of_model(config)) {
                let rows = evaluate(&situation);
                let count = |kind| {
                    rows.iter()
                        .filter(move |r| {
                            r.bound.kind == kind && r.bound.task == MemorizationTask::Distribution
                        })
                        .filter(|r| r.condition.is_none())
                        .filter_map(|r| r.contexts?.count())
                };
                let (most, least) = (count(BoundKind::Necessary).min(), count(BoundKind::Sufficient).max());
                assert!(least.unwrap_or(0) <= most.unwrap_or(u128::MAX), "{preset} {n_layers} {d_model}");
                let counted = config.n_parameters() as u128;
                assert_eq!(situation.shape_parameters(), Some(counted));
                assert_eq!(situation.parameter_count(), Some(counted));
            }
        }
    }
}

#[test]
fn the_rows_of_one_layer_do_not_apply_to_blocks_but_lemma_1_does() {
    let deep = ModelSpec::default().n_layers(4).d_model(16).resolve(50, 2).unwrap();
    let situation = both(bigrams(300), deep.shape).of_model(deep);
    for key in ["theorem5", "theorem7", "eq3", "rank"].map(|k| format!("madden2024-{k}")) {
        assert!(find(&key).unwrap().evaluate(&situation).why_not.unwrap().contains("4 blocks"), "{key}");
    }
    for key in ["dana2024-theorem1", "dana2024-d2", "mahdavi2024", "dana2024-empirical"] {
        assert!(find(key).unwrap().evaluate(&situation).why_not.unwrap().contains("one-layer"), "{key}");
    }
    let k = deep.n_parameters() as u128;
    let lemma = madden2024::LEMMA1.evaluate(&situation);
    assert_eq!(lemma.contexts.unwrap().count(), Some(k / 49));
    assert!(madden2024::THEOREM1.evaluate(&situation).applies());
    let relu = Config { shape: Shape { activation: Activation::Relu, ..deep.shape }, ..deep };
    let relu = Situation::default().of_model(relu);
    assert!(madden2024::LEMMA1.evaluate(&relu).why_not.unwrap().contains("C^1"));
    // One block of attention without normalization is the model of dana2024.
    let spec = ModelSpec::default().preset(Preset::AttentionOnly).d_model(16).n_heads(3).d_head(4);
    let held = |spec: ModelSpec| {
        let situation = both(bigrams(300), Shape::default()).of_model(spec.resolve(50, 2).unwrap());
        find("dana2024-d2").unwrap().evaluate(&situation).contexts.and_then(|c| c.count())
    };
    assert_eq!((held(spec), held(spec.n_layers(2)), held(spec.norm(Norm::Rms))), (Some(28), None, None));
}

/// Attention averages equal values, and nothing else tells the two contexts apart.
#[test]
fn rotary_positions_do_not_tell_a_token_from_its_repetition_at_any_depth() {
    for preset in [Preset::Llama, Preset::GptNeox] {
        let config = ModelSpec::default().preset(preset).n_layers(3).d_model(16).resolve(9, 4).unwrap();
        let model = Model::random(config, 2).unwrap();
        let logits = |context: &[u32]| model.logits(context).unwrap();
        for token in 0..9 {
            for repeated in [&[token; 2][..], &[token; 4]] {
                let off = logits(&[token]).into_iter().zip(logits(repeated)).map(|(a, b)| (a - b).abs());
                assert!(off.fold(0.0, f64::max) < 1e-12);
            }
        }
        assert!((logits(&[1, 2])[0] - logits(&[2, 1, 1])[0]).abs() > 1e-6);
    }
}

/// Of width two, or on a line through 0, LayerNorm with eps = 0 has two values: the claim that blocks hold m contexts fails.
#[test]
fn layer_norm_without_eps_leaves_two_contexts() {
    let distinct = |eps: f64| {
        let mut config = spec(Preset::Gpt2).d_model(2).d_mlp(6).tied(false).resolve(5, 3).unwrap();
        config.shape.blocks.as_mut().unwrap().norm_eps = eps;
        let mut stream = Stream::new(4, "line", 0);
        let parameters = (0..config.n_parameters()).map(|_| stream.normal()).collect();
        let model = Model::new(config, parameters).unwrap();
        let mut found: Vec<f64> = contexts(6).iter().map(|c| model.logits(c).unwrap()[0]).collect();
        found.sort_by(f64::total_cmp);
        found.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
        found.len()
    };
    assert!(distinct(0.0) <= 2);
    assert_eq!(distinct(0.1), 6);
}

#[test]
fn a_deep_model_with_skip_connections_contains_every_shallower_one() {
    for preset in Preset::ALL.into_iter().filter(|p| p.has_blocks()) {
        let of = |n_layers| {
            ModelSpec::default().preset(preset).n_layers(n_layers).d_model(8).resolve(7, 4).unwrap()
        };
        let (shallow, mut deep) = (Model::random(of(2), 3).unwrap(), Weights::zeros(of(5)));
        let source = Model::random(of(5), 9).unwrap();
        for tensor in deep.config.tensors() {
            let name = tensor.name.to_string();
            let silent = ["W_O", "b_O", "W_out", "b_out", "u_pos"].contains(&tensor.name.weight());
            let values = match shallow.tensor(&name) {
                Some(values) => values.to_vec(),
                None if silent => vec![0.0; tensor.range.len()],
                None => source.tensor(&name).unwrap().to_vec(),
            };
            deep.set(&name, |i| values[i]);
        }
        let deep = Model::new(deep.config, deep.parameters).unwrap();
        for context in contexts(6) {
            assert_eq!(shallow.logits(&context).unwrap(), deep.logits(&context).unwrap(), "{preset}");
        }
    }
}

/// Averaging without skip connections: with G = W_E W_U, one layer computes a_1 G[s] for the context (s), and a_1 G[s] + a_2 G[t] for
/// (s, t). Two layers compute b G[s] and b' G[s] + c G[t] with b = v_1 u_1, b' = b + v_2 u_1, c = v_2 u_2, so b' = b and c != 0 is
/// impossible unless b = 0: two layers do not contain one.
#[test]
fn without_skip_connections_two_layers_do_not_contain_one() {
    let spec =
        ModelSpec::default().preset(Preset::Averaging).norm(Norm::None).skip(false).d_model(3).tied(false);
    let spec = spec.hidden(crate::model::Hidden::Absent).positions(Positions::None);
    for seed in 0..5 {
        let model = Model::random(spec.n_layers(2).resolve(4, 2).unwrap(), seed).unwrap();
        let [u, v] =
            [0, 1].map(|block| model.tensor(&format!("blocks.{block}.attn.u_pos")).unwrap().to_vec());
        // G[0] - G[1] at token 0, from the embedding and the output.
        let (table, output) = (model.tensor("embed.W_E").unwrap(), model.tensor("unembed.W_U").unwrap());
        let apart: f64 = (0..3).map(|j| (table[j] - table[3 + j]) * output[4 * j]).sum();
        let change = |a: &[u32], b: &[u32]| model.logits(a).unwrap()[0] - model.logits(b).unwrap()[0];
        let near =
            |found: f64, factor: f64| assert!((found - factor * apart).abs() < 1e-12, "{found} {factor}");
        near(change(&[0], &[1]), v[0] * u[0]);
        near(change(&[0, 2], &[1, 2]), v[0] * u[0] + v[1] * u[0]);
        near(change(&[2, 0], &[2, 1]), v[1] * u[1]);
    }
}
