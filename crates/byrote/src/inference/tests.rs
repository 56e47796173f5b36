use super::*;
use crate::model::{Activation, Config, Hidden, Init, Mixer, Model, ModelSpec, Norm, Positions, Preset};
use crate::num::Stream;
use crate::observe::Silent;

/// The score of a position by its definition, in f64.
pub(super) fn plain(logits: &[f64], token: usize, sampling: Sampling) -> PositionScore {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = |z: &mut dyn Iterator<Item = f64>| z.map(f64::exp).sum::<f64>().ln();
    let all = log_sum(&mut logits.iter().map(|z| z - largest));
    let log_probs: Vec<f64> = logits.iter().map(|z| z - largest - all).collect();
    let mean: f64 = log_probs.iter().map(|l| if *l < -700.0 { 0.0 } else { l.exp() * l }).sum();
    let square = |l: &f64| if *l < -700.0 { 0.0 } else { l.exp() * (l - mean) * (l - mean) };
    let others = logits.iter().enumerate().filter(|(i, _)| *i != token).map(|(_, z)| *z);
    let mut sorted = logits.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let least = sorted[(sampling.top_k as usize).min(sorted.len()) - 1];
    let t = sampling.temperature;
    let drawn = log_sum(&mut logits.iter().filter(|&&z| z >= least).map(|z| (z - largest) / t));
    PositionScore {
        log_prob: log_probs[token],
        log_prob_sampled: match logits[token] < least {
            true => f64::NEG_INFINITY,
            false => (logits[token] - largest) / t - drawn,
        },
        margin: logits[token] - others.fold(f64::NEG_INFINITY, f64::max),
        rank: logits.iter().filter(|&&z| z > logits[token]).count() as u32,
        top: logits.iter().position(|&z| z == largest).unwrap() as u32,
        mean_log_prob: mean,
        sd_log_prob: log_probs.iter().map(square).sum::<f64>().sqrt(),
    }
}

/// Compares the numbers that are not counts.
pub(super) fn near(a: &PositionScore, b: &PositionScore, absolute: f64, relative: f64) {
    for (a, b) in [
        (a.log_prob, b.log_prob),
        (a.log_prob_sampled, b.log_prob_sampled),
        (a.margin, b.margin),
        (a.mean_log_prob, b.mean_log_prob),
        (a.sd_log_prob, b.sd_log_prob),
    ] {
        assert!(a == b || (a - b).abs() <= absolute + relative * b.abs(), "{a} {b}");
    }
}

fn small(preset: Preset) -> ModelSpec {
    let spec = ModelSpec::default().preset(preset).n_layers(2).d_model(6).n_heads(2).d_head(4);
    if preset == Preset::AttentionOnly { spec } else { spec.d_mlp(7) }
}

const D_VOCAB: u64 = 50;
const N_CTX: u64 = 40;

/// Every preset, and switches that no preset has.
fn configs() -> Vec<Config> {
    let gpt2 = small(Preset::Gpt2);
    let llama = small(Preset::Llama);
    let mut specs = vec![
        gpt2,
        small(Preset::GptNeox),
        llama,
        small(Preset::AttentionOnly),
        small(Preset::Averaging),
        gpt2.n_layers(1).norm(Norm::None),
        gpt2.n_layers(3).norm(Norm::Rms).tied(false).output_bias(true),
        gpt2.mixer(Mixer::None).output_bias(true),
        gpt2.mixer(Mixer::None).norm(Norm::None).positions(Positions::None),
        gpt2.skip(false),
        gpt2.skip(true).mlp_skip(false),
        gpt2.skip(false).mlp_skip(true).parallel(true),
        gpt2.gated(true).parallel(true).activation(Activation::Silu),
        gpt2.gated(true).mlp_bias(false).attention_bias(false),
        gpt2.hidden(Hidden::Absent).d_mlp(0),
        gpt2.positions(Positions::None).scale_scores(false),
        gpt2.positions(Positions::Rotary).rotary_dims(2),
        llama.n_heads(4).n_kv_heads(2).d_head(3).rotary_dims(2).output_bias(true),
        llama.n_heads(3).n_kv_heads(1).attention_bias(true).mlp_bias(true),
        llama.tied(true).skip(false).mlp_skip(true),
        llama.gated(false).d_head(16),
        small(Preset::Averaging).norm(Norm::None).skip(false),
        small(Preset::Averaging).positions(Positions::None).parallel(true),
        small(Preset::AttentionOnly).norm(Norm::Layer).tied(true),
        // Wider than a panel, and more neurons than a slice.
        gpt2.d_model(52).d_head(17).d_mlp(50),
        gpt2.gated(true).d_mlp(800),
        gpt2.mlp_skip(false).d_mlp(790),
    ];
    specs.extend(Activation::ALL.map(|activation| gpt2.activation(activation)));
    specs.extend(Preset::ONE_LAYER.map(|preset| {
        let spec = ModelSpec::default().preset(preset).d_model(6).d_head(4);
        let spec = if preset == Preset::Average { spec } else { spec.n_heads(1) };
        if [Preset::Dana2024, Preset::Dana2024Published].contains(&preset) { spec } else { spec.d_mlp(7) }
    }));
    specs.into_iter().map(|spec| spec.resolve(D_VOCAB, N_CTX).unwrap()).collect()
}

/// Weights of which none is 0 or 1.
fn drawn(config: Config, seed: u64) -> Model {
    let model = Model::drawn(config, seed, Init::Pytorch).unwrap();
    let mut noise = Stream::new(seed, "noise", 0);
    let parameters = model.parameters().iter().map(|x| 0.7 * x + 0.1 * noise.normal()).collect();
    Model::new(config, parameters).unwrap().rounded_to_f32().unwrap()
}

fn tokens(n: usize, seed: u64, d_vocab: u64) -> Vec<u32> {
    let mut stream = Stream::new(seed, "tokens", 0);
    (0..n).map(|_| (stream.unit() * d_vocab as f64) as u32).collect()
}

#[test]
fn scores_are_those_of_the_reference_for_every_switch() {
    let texts: Vec<Vec<u32>> = [41, 7, 1, 2, 33].map(|n| tokens(n, n as u64, D_VOCAB)).into();
    let ranges = [30..41, 1..7, 1..1, 1..2, 17..20];
    for config in configs() {
        let model = drawn(config, 3);
        let network = Network::from_model(&model).unwrap();
        assert_eq!((network.d_vocab(), network.n_ctx()), (D_VOCAB, N_CTX));
        for sampling in [Sampling::default(), Sampling { top_k: 3, temperature: 0.7 }] {
            let sequences: Vec<Sequence<'_>> = texts
                .iter()
                .zip(&ranges)
                .map(|(tokens, scored)| Sequence { tokens, scored: scored.clone() })
                .collect();
            let scores = network.score(&sequences, sampling).unwrap();
            for (sequence, scores) in sequences.iter().zip(&scores) {
                assert_eq!(scores.len(), sequence.scored.len());
                for (position, score) in sequence.scored.clone().zip(scores) {
                    let logits = model.logits(&sequence.tokens[..position]).unwrap();
                    let expect = plain(&logits, sequence.tokens[position] as usize, sampling);
                    near(score, &expect, 1e-5, 1e-5);
                    assert_eq!((score.rank, score.top), (expect.rank, expect.top), "{config:?}");
                }
            }
        }
    }
}

/// Scores by a pool of threads.
fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

fn bits(scores: &[Vec<PositionScore>]) -> Vec<u64> {
    let numbers = |s: &PositionScore| {
        [s.log_prob, s.log_prob_sampled, s.margin, s.mean_log_prob, s.sd_log_prob]
            .map(f64::to_bits)
            .into_iter()
            .chain([u64::from(s.rank), u64::from(s.top)])
            .collect::<Vec<u64>>()
    };
    scores.iter().flatten().flat_map(numbers).collect()
}

/// Models that are large enough for several blocks, tiles and segments.
fn larger() -> Vec<Model> {
    let gpt2 = small(Preset::Gpt2).d_model(24).d_mlp(60);
    let llama = small(Preset::Llama).d_model(20).n_heads(4).n_kv_heads(2).d_mlp(33);
    let specs = [(gpt2, 9_001), (llama, 431), (small(Preset::Averaging), 385), (gpt2.tied(false), 100)];
    specs.map(|(spec, d_vocab)| drawn(spec.resolve(d_vocab, 70).unwrap(), 5)).into()
}

#[test]
fn scores_do_not_depend_on_threads_or_on_what_is_scored_together() {
    for model in larger() {
        let d_vocab = model.config().shape.d_vocab;
        let texts: Vec<Vec<u32>> = (0..70).map(|i| tokens(20 + i % 51, i as u64, d_vocab)).collect();
        let sequences: Vec<Sequence<'_>> =
            texts.iter().map(|tokens| Sequence { tokens, scored: tokens.len() / 3..tokens.len() }).collect();
        let network = Network::from_model(&model).unwrap();
        let mut found = Vec::new();
        for threads in [1, 2, 3] {
            for batch in [1, 7, 64] {
                let score = || {
                    let batches = sequences.chunks(batch);
                    batches.flat_map(|batch| network.score(batch, Sampling::default()).unwrap()).collect()
                };
                found.push(bits(&on_threads::<Vec<_>>(threads, score)));
            }
        }
        assert!(found.windows(2).all(|w| w[0] == w[1]));
    }
}

#[test]
fn a_position_scores_the_same_whatever_else_is_scored() {
    for model in larger() {
        let text = tokens(60, 3, model.config().shape.d_vocab);
        let network = Network::from_model(&model).unwrap();
        let score = |scored: Range<usize>| {
            network.score(&[Sequence { tokens: &text, scored }], Sampling::default()).unwrap()
        };
        let all = score(1..60);
        for part in [1..2, 30..60, 59..60, 17..23] {
            let own = vec![all[0][part.start - 1..part.end - 1].to_vec()];
            assert_eq!(bits(&score(part.clone())), bits(&own), "{part:?}");
        }
    }
}

#[test]
fn rows_are_shared_out_in_whole_tiles_of_almost_equal_blocks() {
    for threads in [1, 2, 3, 8] {
        for n in [0, 1, 7, 8, 9, 100, 127, 128, 129, 400, 792, 800, 1000, 1024, 5000] {
            let blocks = on_threads(threads, || forward::row_blocks(n));
            let rows: Vec<usize> = blocks.iter().cloned().flatten().collect();
            assert_eq!(rows, (0..n).collect::<Vec<_>>(), "{n} rows on {threads} threads");
            assert!(blocks.iter().all(|block| !block.is_empty() && block.start % 8 == 0));
            // Blocks differ by one tile at most, and by what the last one lacks to a whole tile.
            let longest = blocks.iter().map(|block| block.len()).max().unwrap_or(0);
            assert!(longest <= 136 && blocks.iter().all(|block| block.len() + 16 > longest), "{blocks:?}");
        }
    }
}

#[test]
fn weights_and_logits_that_are_not_finite_are_errors() {
    let config = small(Preset::Llama).resolve(D_VOCAB, N_CTX).unwrap();
    // All weights are 1, but for the last or all of one tensor.
    let read = |name: &'static str, with: f32, all: bool| {
        Network::new(config, &mut |tensor, values| {
            values.fill(1.0);
            if tensor.name == name {
                let last = values.len() - 1;
                values[if all { 0 } else { last }..].fill(with);
            }
            Ok(())
        })
    };
    for tensor in config.tensors() {
        let name: &'static str = tensor.name.to_string().leak();
        for with in [f32::NAN, f32::INFINITY] {
            let error = read(name, with, false).err().unwrap();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    let text = tokens(12, 0, D_VOCAB);
    let sequences =
        [Sequence { tokens: &text[..1], scored: 0..0 }, Sequence { tokens: &text, scored: 2..12 }];
    let fine = read("embed.W_E", 3.0, true).unwrap().score(&sequences, Sampling::default()).unwrap();
    assert_eq!(fine[1].len(), 10);
    for name in ["embed.W_E", "blocks.0.attn.W_V", "blocks.1.mlp.W_out", "ln_final.w", "unembed.W_U"] {
        let error = read(name, f32::MAX, true).unwrap().score(&sequences, Sampling::default()).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("position 2 of sequence 1 are not finite"), "{name}: {message}");
    }
    // A weight in f64 that f32 cannot hold.
    let model = Model::random(config, 0).unwrap();
    let mut parameters = model.parameters().to_vec();
    parameters[5] = 1e300;
    let error = Network::from_model(&Model::new(config, parameters).unwrap()).err().unwrap();
    assert!(error.to_string().contains("embed.W_E"), "{error}");
    let failing = Network::new(config, &mut |_, _| Err(Error::Interrupted)).err().unwrap();
    assert!(matches!(failing, Error::Interrupted));
}

#[test]
fn what_the_model_cannot_read_is_refused() {
    let model = drawn(small(Preset::Gpt2).resolve(D_VOCAB, 3).unwrap(), 0);
    let network = Network::from_model(&model).unwrap();
    let refused = |tokens: &[u32], scored: Range<usize>, sampling: Sampling| {
        network.score(&[Sequence { tokens, scored }], sampling).unwrap_err().to_string()
    };
    let usual = Sampling::default();
    assert!(refused(&[1, 2, 3, 4, 5], 1..3, usual).contains("at most 4 tokens for this model (got 5)"));
    assert!(refused(&[1, 50], 1..2, usual).contains("has the token 50"));
    assert!(refused(&[1, 2], 0..2, usual).contains("positions from 1 to 1 can be scored (got 0 to 1)"));
    assert!(refused(&[1, 2], 1..3, usual).contains("(got 1 to 2)"));
    assert!(refused(&[1, 2], 1..2, Sampling { top_k: 0, ..usual }).starts_with("top_k"));
    for temperature in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e7] {
        assert!(refused(&[1, 2], 1..2, Sampling { temperature, ..usual }).starts_with("temperature"));
    }
    assert!(network.score(&[], usual).unwrap().is_empty());
    // As many tokens as the model reads, and one more that is only predicted.
    let whole = network.score(&[Sequence { tokens: &[1, 2, 3, 4], scored: 1..4 }], usual).unwrap();
    assert_eq!(whole[0].len(), 3);
}

#[test]
fn decoding_with_kept_keys_is_decoding() {
    let mut models = larger();
    models.extend(configs().into_iter().map(|config| drawn(config, 8)));
    for model in models {
        let (d_vocab, n_ctx) = (model.config().shape.d_vocab, model.config().shape.n_ctx as usize);
        let network = Network::from_model(&model).unwrap();
        let prefixes: Vec<Vec<u32>> = (0..9).map(|i| tokens(1 + 3 * i, i as u64, d_vocab)).collect();
        let prefixes: Vec<&[u32]> = prefixes.iter().map(Vec::as_slice).collect();
        let n = n_ctx + 1 - 25;
        let slow = by_scoring::decode(&network, &prefixes, n).unwrap();
        for threads in [1, 3] {
            assert_eq!(on_threads(threads, || network.decode(&prefixes, n)).unwrap(), slow);
        }
        assert_eq!(network.decode(&prefixes[3..4], n).unwrap(), slow[3..4]);
        assert!(slow.iter().all(|text| text.len() == n));
        assert_eq!(network.decode(&prefixes, 0).unwrap(), vec![Vec::<u32>::new(); 9]);
        let error = network.decode(&prefixes, n + 1).unwrap_err();
        assert_eq!(error.setting_name(), Some("context"));
        assert!(network.decode(&[&[]], 1).is_err());
    }
}

#[test]
fn ties_are_decoded_to_the_smallest_id() {
    let config = small(Preset::Gpt2).tied(false).resolve(1_000, 9).unwrap();
    let network = Network::new(config, &mut |tensor, values| {
        values.fill(if tensor.name == "unembed.W_U" { 0.0 } else { 0.5 });
        Ok(())
    });
    assert_eq!(network.unwrap().decode(&[&[7, 8], &[3]], 3).unwrap(), [[0, 0, 0], [0, 0, 0]]);
}

/// Contexts that share beginnings, with repetitions, in no order.
fn tree(d_vocab: u64, longest: usize) -> Vec<Vec<u32>> {
    let mut stream = Stream::new(1, "tree", 0);
    let mut texts: Vec<Vec<u32>> = Vec::new();
    for i in 0..300 {
        let mut text = match texts.is_empty() || i % 11 == 0 {
            true => Vec::new(),
            false => {
                let other = &texts[(stream.unit() * texts.len() as f64) as usize];
                other[..(stream.unit() * (other.len() + 1) as f64) as usize].to_vec()
            }
        };
        let more = 1 + (stream.unit() * 6.0) as usize;
        text.extend(tokens(more, i, d_vocab.min(5)));
        text.truncate(longest);
        texts.push(text);
    }
    texts
}

#[test]
fn contexts_that_share_beginnings_score_as_each_alone() {
    let mut models = larger();
    models.extend(configs().into_iter().map(|config| drawn(config, 4)));
    for model in models {
        let (d_vocab, n_ctx) = (model.config().shape.d_vocab, model.config().shape.n_ctx as usize);
        let network = Network::from_model(&model).unwrap();
        let texts = tree(d_vocab, n_ctx);
        let next: Vec<Vec<u32>> = (0..texts.len()).map(|i| tokens(i % 5, i as u64, d_vocab)).collect();
        let contexts: Vec<Context<'_>> =
            texts.iter().zip(&next).map(|(tokens, next)| Context { tokens, next }).collect();
        let slow = by_scoring::score_contexts(&network, &contexts, &Silent).unwrap();
        for threads in [1, 3] {
            let fast = on_threads(threads, || network.score_contexts(&contexts, &Silent)).unwrap();
            for (fast, slow) in fast.iter().zip(&slow) {
                assert_eq!((&fast.log_probs, fast.top), (&slow.log_probs, slow.top));
                assert!((fast.top_log_prob - slow.top_log_prob).abs() < 1e-12);
            }
        }
        let sequences: Vec<Sequence<'_>> =
            texts.iter().map(|tokens| Sequence { tokens, scored: tokens.len() / 2..tokens.len() }).collect();
        let sequences: Vec<Sequence<'_>> = sequences
            .into_iter()
            .map(|s| Sequence { scored: s.scored.start.max(1)..s.scored.end, ..s })
            .collect();
        let alone = network.score(&sequences, Sampling::default()).unwrap();
        for threads in [1, 3] {
            let shared = || network.score_shared(&sequences, Sampling::default(), &Silent).unwrap();
            assert_eq!(bits(&on_threads(threads, shared)), bits(&alone));
        }
    }
}

#[test]
fn contexts_that_the_model_cannot_read_are_refused() {
    let model = drawn(small(Preset::Gpt2).resolve(D_VOCAB, 3).unwrap(), 0);
    let network = Network::from_model(&model).unwrap();
    let refused = |tokens: &[u32], next: &[u32]| {
        network.score_contexts(&[Context { tokens, next }], &Silent).unwrap_err().to_string()
    };
    assert!(refused(&[], &[1]).contains("from 1 to 3 tokens for this model (got 0)"));
    assert!(refused(&[1, 2, 3, 4], &[1]).contains("(got 4)"));
    assert!(refused(&[1, 50], &[1]).contains("the token 50"));
    assert!(refused(&[1], &[1, 51]).contains("the token 51"));
    assert!(network.score_contexts(&[], &Silent).unwrap().is_empty());
}
