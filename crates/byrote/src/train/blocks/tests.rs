use super::*;
use crate::dataset::examples;
use crate::model::reference::log_sum_exp;
use crate::model::{Activation, Hidden, Init, Mixer, Model, ModelSpec, Norm, Positions, Preset};
use crate::train::Evaluator;

fn small(preset: Preset) -> ModelSpec {
    let spec = ModelSpec::default().preset(preset).n_layers(2).d_model(6).n_heads(2).d_head(4);
    if preset == Preset::AttentionOnly { spec } else { spec.d_mlp(7) }
}

/// Every preset, and switches that no preset has.
fn configs(d_vocab: u64) -> Vec<Config> {
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
        small(Preset::Averaging).norm(Norm::None).skip(false),
        small(Preset::Averaging).positions(Positions::None).parallel(true),
        small(Preset::AttentionOnly).norm(Norm::Layer).tied(true),
    ];
    // Wider than a panel.
    specs.push(gpt2.d_model(52).d_head(17).d_mlp(50));
    specs.extend(Activation::ALL.map(|activation| gpt2.activation(activation)));
    specs.into_iter().map(|spec| spec.resolve(d_vocab, 9).unwrap()).collect()
}

/// Weights of which none is 0 or 1.
fn drawn(config: Config, seed: u64) -> Model {
    let model = Model::drawn(config, seed, Init::Pytorch).unwrap();
    let noise = crate::num::Stream::new(seed, "noise", 0);
    let mut noise = noise;
    let parameters = model.parameters().iter().map(|x| 0.7 * x + 0.1 * noise.normal()).collect();
    Model::new(config, parameters).unwrap()
}

fn reference_loss(model: &Model, dataset: &Dataset) -> f64 {
    (0..dataset.len())
        .map(|i| {
            let logits = model.logits(&dataset.tokens_of(i)).unwrap();
            let next = dataset.next_of(i).iter().map(|&(t, n)| n * logits[t as usize]).sum::<f64>();
            dataset.counts[i] * log_sum_exp(&logits) - next
        })
        .sum()
}

#[test]
fn the_loss_is_that_of_the_reference_in_both_precisions() {
    let (dataset, d_vocab) = examples::stories(40);
    for config in configs(d_vocab) {
        let model = drawn(config, 1);
        let expect = reference_loss(&model, &dataset);
        let mut gradient = vec![0.0; config.n_parameters()];
        let loss = Evaluator::new(config, &dataset).evaluate(model.parameters(), &mut gradient);
        assert!((loss / expect - 1.0).abs() < 1e-13, "{config:?}: {loss} {expect}");
        let narrow: Vec<f32> = model.parameters().iter().map(|&x| x as f32).collect();
        let mut gradient = vec![0.0f32; config.n_parameters()];
        let loss = Evaluator::new(config, &dataset).evaluate(&narrow, &mut gradient);
        assert!((loss / expect - 1.0).abs() < 1e-5, "{config:?}: {loss} {expect}");
    }
}

#[test]
fn the_gradient_is_that_of_central_differences_for_every_switch() {
    let (dataset, d_vocab) = examples::stories(12);
    for config in configs(d_vocab) {
        let model = drawn(config, 2);
        let mut gradient = vec![0.0; config.n_parameters()];
        let mut evaluator = Evaluator::new(config, &dataset);
        evaluator.evaluate(model.parameters(), &mut gradient);
        let scale = gradient.iter().fold(1.0f64, |m, g| m.max(g.abs()));
        for tensor in config.tensors() {
            let step = (tensor.range.len() / 7).max(1);
            for i in tensor.range.clone().step_by(step) {
                let h = 1e-5;
                let mut at = |x: f64| {
                    let mut moved = model.parameters().to_vec();
                    moved[i] += x;
                    evaluator.loss(&moved)
                };
                let slope = (at(h) - at(-h)) / (2.0 * h);
                let (name, at) = (tensor.name, i - tensor.range.start);
                assert!(
                    (slope - gradient[i]).abs() < 2e-7 * scale,
                    "{name}[{at}] of {config:?}: {slope} {}",
                    gradient[i]
                );
            }
            if tensor.name.weight() == "b_K" && config.positions != Positions::Rotary {
                // A constant added to every key changes no softmax.
                assert!(gradient[tensor.range.clone()].iter().all(|g| g.abs() < 1e-12 * scale));
            }
        }
    }
}

/// The losses and gradients of the batches that an evaluator divides its contexts into.
fn batches_of<T: Real>(evaluator: &mut Evaluator<T, &Dataset>, parameters: &[T]) -> Vec<(f64, Vec<T>)> {
    let n = evaluator.n_batches();
    let batch = |i: usize| {
        let mut gradient = vec![T::from_f64(0.0); parameters.len()];
        let loss = evaluator.evaluate_batch_while(i, parameters, &mut gradient, || true).unwrap();
        (loss, gradient)
    };
    (0..n).map(batch).collect()
}

#[test]
fn the_mean_over_the_batches_is_the_loss_and_its_gradient() {
    let (dataset, d_vocab) = examples::stories(40);
    for config in configs(d_vocab) {
        let model = drawn(config, 2);
        let mut whole = vec![0.0; config.n_parameters()];
        let loss = Evaluator::new(config, &*dataset).evaluate(model.parameters(), &mut whole);
        let scale = whole.iter().fold(1.0f64, |m, g| m.max(g.abs()));
        for k in [1, 4] {
            let mut evaluator = Evaluator::new(config, &*dataset).divided(k, 7);
            let found = batches_of(&mut evaluator, model.parameters());
            assert_eq!(found.len(), k);
            let mean = found.iter().map(|batch| batch.0).sum::<f64>() / k as f64;
            assert!((mean / loss - 1.0).abs() < 1e-13, "{mean} {loss}");
            for (i, expect) in whole.iter().enumerate() {
                let mean = found.iter().map(|batch| batch.1[i]).sum::<f64>() / k as f64;
                assert!((mean - expect).abs() < 1e-12 * scale, "{config:?}: {mean} {expect}");
            }
            // Batches leave nothing behind that an evaluation of all contexts would see.
            let mut again = vec![0.0; config.n_parameters()];
            assert_eq!(evaluator.evaluate(model.parameters(), &mut again), loss);
            assert_eq!(again, whole);
        }
    }
}

#[test]
fn the_gradient_of_a_batch_is_that_of_central_differences() {
    let (dataset, d_vocab) = examples::stories(20);
    for preset in [Preset::Gpt2, Preset::Llama, Preset::Averaging] {
        let config = small(preset).resolve(d_vocab, 9).unwrap();
        let model = drawn(config, 3);
        let mut evaluator = Evaluator::new(config, &*dataset).divided(3, 1);
        let mut loss_at = |i: usize, x: f64, batch: usize| {
            let mut moved = model.parameters().to_vec();
            moved[i] += x;
            batches_of(&mut evaluator, &moved).swap_remove(batch)
        };
        for batch in 0..3 {
            let (_, gradient) = loss_at(0, 0.0, batch);
            let scale = gradient.iter().fold(1.0f64, |m, g| m.max(g.abs()));
            for i in (0..gradient.len()).step_by(gradient.len() / 23) {
                let slope = (loss_at(i, 1e-5, batch).0 - loss_at(i, -1e-5, batch).0) / 2e-5;
                assert!((slope - gradient[i]).abs() < 2e-7 * scale, "{i}: {slope} {}", gradient[i]);
            }
        }
    }
}

#[test]
fn the_gradient_of_every_batch_vanishes_at_the_floor() {
    // The output has a bias alone, so that every context has the same logits; the floor is reached where contexts are followed by the
    // same tokens equally often.
    let contexts = [0, 1, 2, 3].map(|token| (vec![token], vec![(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0)]));
    let dataset = Dataset::new(4, 2, contexts).unwrap();
    let config = small(Preset::Gpt2).tied(false).output_bias(true).resolve(4, 2).unwrap();
    let mut parameters = drawn(config, 3).parameters().to_vec();
    for tensor in config.tensors() {
        match tensor.name.part() {
            "unembed.W_U" => parameters[tensor.range].fill(0.0),
            "unembed.b_U" => {
                (1..=4).zip(&mut parameters[tensor.range]).for_each(|(n, b)| *b = f64::from(n).ln());
            }
            _ => {}
        }
    }
    let mut evaluator = Evaluator::new(config, &dataset).divided(4, 1);
    let found = batches_of(&mut evaluator, &parameters);
    assert_eq!(found.len(), 4);
    for (loss, gradient) in found {
        assert!((loss - dataset.floor.0).abs() < 1e-12 * loss, "{loss} {:?}", dataset.floor);
        assert!(gradient.iter().all(|g| g.abs() < 1e-12), "{gradient:?}");
    }
}

#[test]
fn logits_and_what_the_output_reads_come_for_every_context() {
    let (dataset, d_vocab) = examples::stories(150);
    for config in configs(d_vocab) {
        let model = drawn(config, 4);
        let mut evaluator = Evaluator::<f64, _>::forward(config, &dataset);
        let logits = evaluator.rows(ProbePoint::Logits, model.parameters());
        for (i, logits) in logits.chunks_exact(d_vocab as usize).enumerate() {
            let expect = model.logits(&dataset.tokens_of(i)).unwrap();
            assert!(logits.iter().zip(&expect).all(|(a, b)| (a - b).abs() < 1e-12), "{config:?}");
        }
        let read = evaluator.rows(ProbePoint::Read, model.parameters());
        assert_eq!(read.len() as u64, dataset.len() as u64 * config.shape.d_model);
        let mut gradient = vec![0.0; config.n_parameters()];
        let loss = evaluator.loss(model.parameters());
        assert_eq!(Evaluator::new(config, &dataset).evaluate(model.parameters(), &mut gradient), loss);
        let right = evaluator.accuracy();
        assert!((0.0..=1.0).contains(&right));
    }
}

#[test]
fn threads_and_what_is_kept_do_not_change_a_bit() {
    let (dataset, d_vocab) = examples::stories(300);
    for config in configs(d_vocab) {
        let parameters: Vec<f32> = drawn(config, 3).parameters().iter().map(|&x| x as f32).collect();
        let run = |threads, memory| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut gradient = vec![0.0f32; parameters.len()];
                let trained = crate::train::Trained::All;
                let mut evaluator = Evaluator::training(config, &*dataset, trained, memory).divided(3, 1);
                let loss = evaluator.evaluate(&parameters, &mut gradient);
                let bits = |(loss, gradient): (f64, Vec<f32>)| {
                    (loss.to_bits(), gradient.iter().map(|g| g.to_bits()).collect::<Vec<_>>())
                };
                let batches = batches_of(&mut evaluator, &parameters).into_iter().map(bits);
                (bits((loss, gradient)), batches.collect::<Vec<_>>())
            })
        };
        assert_eq!(run(1, None), run(2, None));
        assert_eq!(run(1, None), run(3, Some(0)), "{config:?}");
    }
}

#[test]
fn one_block_without_normalization_is_a_one_layer_transformer() {
    let (dataset, d_vocab) = examples::stories(60);
    let spec = ModelSpec::default().preset(Preset::Dana2024Mlp).d_model(8).n_heads(2).d_mlp(12);
    let one = spec.resolve(d_vocab, 9).unwrap();
    let blocks = ModelSpec::default()
        .preset(Preset::Gpt2)
        .norm(Norm::None)
        .attention_bias(false)
        .tied(false)
        .activation(one.shape.activation)
        .d_model(8)
        .n_heads(2)
        .d_mlp(12)
        .resolve(d_vocab, 9)
        .unwrap();
    let model = Model::random(one, 5).unwrap();
    // The tensors are the same in the same order.
    let weights = |config: &Config| config.tensors().iter().map(|t| t.name.weight()).collect::<Vec<_>>();
    assert_eq!(weights(&one), weights(&blocks));
    let mut gradients = [vec![0.0; one.n_parameters()], vec![0.0; one.n_parameters()]];
    let losses = [one, blocks].map(|config| {
        let gradient = &mut gradients[usize::from(config.shape.blocks.is_some())];
        Evaluator::new(config, &dataset).evaluate(model.parameters(), gradient)
    });
    assert!((losses[0] / losses[1] - 1.0).abs() < 1e-13, "{losses:?}");
    let scale = gradients[0].iter().fold(0.0f64, |m, g| m.max(g.abs()));
    assert!(gradients[0].iter().zip(&gradients[1]).all(|(a, b)| (a - b).abs() < 1e-12 * scale));
}

#[test]
fn a_parameter_that_is_not_finite_shows_and_leaves_nothing_behind() {
    let (dataset, d_vocab) = examples::stories(40);
    for config in configs(d_vocab) {
        let parameters: Vec<f32> = drawn(config, 5).parameters().iter().map(|&x| x as f32).collect();
        let mut gradient = vec![0.0f32; parameters.len()];
        let mut evaluator = Evaluator::new(config, &dataset);
        let clean = evaluator.evaluate(&parameters, &mut gradient);
        let expect = gradient.clone();
        for tensor in config.tensors() {
            for bad in [f32::NAN, f32::INFINITY] {
                let mut broken = parameters.clone();
                broken[tensor.range.clone()].fill(bad);
                let loss = evaluator.evaluate(&broken, &mut gradient);
                let shows = !loss.is_finite() || gradient.iter().any(|g| !g.is_finite());
                assert!(shows || bad.is_infinite(), "{} = {bad} in {config:?}", tensor.name);
            }
        }
        assert_eq!(evaluator.evaluate(&parameters, &mut gradient), clean);
        assert_eq!(gradient, expect);
    }
}

#[test]
fn small_and_odd_datasets_have_the_loss_of_the_reference() {
    let contexts = |list: &[(&[u32], u32)]| {
        let list = list.iter().map(|&(tokens, next)| (tokens.to_vec(), vec![(next, 2.0)]));
        Dataset::new(5, 9, list).unwrap()
    };
    let datasets = [
        contexts(&[(&[1], 2)]),
        contexts(&[(&[1, 2, 3, 4, 0, 1, 2, 3, 4], 2)]),
        // A context that begins with another, one whose beginning is no context, and two that share one.
        contexts(&[(&[1, 2], 0), (&[1, 2, 3], 1), (&[4, 0, 0, 0, 1], 3), (&[4, 0, 0, 2], 3)]),
    ];
    for dataset in datasets {
        for config in configs(5) {
            let model = drawn(config, 6);
            let mut gradient = vec![0.0; config.n_parameters()];
            let loss = Evaluator::new(config, &dataset).evaluate(model.parameters(), &mut gradient);
            let expect = reference_loss(&model, &dataset);
            assert!((loss - expect).abs() < 1e-12 * expect, "{loss} {expect}");
        }
    }
    let empty = contexts(&[(&[1], 2)]).part(&[]);
    for config in configs(5) {
        let mut gradient = vec![1.0; config.n_parameters()];
        let loss = Evaluator::new(config, &empty).evaluate(drawn(config, 6).parameters(), &mut gradient);
        assert!(loss == 0.0 && gradient.iter().all(|&g| g == 0.0));
    }
}
