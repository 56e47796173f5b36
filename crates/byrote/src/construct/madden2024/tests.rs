use super::*;
use crate::dataset::examples::{letters, stories};
use crate::evaluate::evaluate;
use crate::model::Positions;
use crate::model::reference::softmax;
use crate::observe::Silent;
use proptest::prelude::*;
use std::sync::Arc;

fn refusal<T>(result: Result<T>) -> Refusal {
    match result {
        Err(Error::Refused { refusal, builder: "madden2024" }) => refusal,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn every_activation_and_mixer_memorizes_with_one_neuron_a_context() {
    let (dataset, _) = stories(40);
    for mixer in [Mixer::Attention, Mixer::Average] {
        for activation in Activation::ALL {
            for seed in 0..3 {
                let settings = Settings { mixer, activation, seed, ..Settings::default() };
                let (model, report) = build(&dataset, &settings, &Silent).unwrap();
                assert_eq!(model.config().shape.d_mlp, dataset.len() as u64);
                let most = if report.solver == Solver::Sorted { 1e-12 } else { 1e-8 };
                assert!(report.max_logit_error <= most, "{mixer} {activation} {seed}: {report:?}");
                let found = evaluate(&model, &dataset, Nats(1e-3), 0, &Silent).unwrap();
                assert!(found.gap_nats.0 <= 5e-5 && found.memorized == found.contexts, "{found:?}");
            }
        }
    }
}

/// Section 4: the skip connection changes the mixer's output, not what can be memorized.
#[test]
fn a_skip_connection_is_built_on_like_any_mixer() {
    let (dataset, _) = stories(40);
    for (mixer, d_model) in [(Mixer::Attention, 16), (Mixer::Attention, 1), (Mixer::Average, 16)] {
        for activation in [Activation::Tanh, Activation::Gelu] {
            let settings = Settings { mixer, activation, d_model, skip: true, ..Settings::default() };
            let (model, report) = build(&dataset, &settings, &Silent).unwrap();
            assert!(
                model.config().skip && report.max_logit_error <= 1e-6,
                "{mixer} {activation}: {report:?}"
            );
            let found = evaluate(&model, &dataset, Nats(1e-3), 0, &Silent).unwrap();
            assert!(found.gap_nats.0 <= 5e-5 && found.memorized == found.contexts, "{found:?}");
        }
    }
}

/// Section 6: a softmax of base a gives the model of base e after dividing embeddings and positions by sqrt(ln a). (The paper
/// multiplies.) Both maps after the softmax are linear, so multiplying the values by sqrt(ln a) restores the mixer's output.
#[test]
fn any_base_of_the_softmax_gives_the_same_model() {
    let (dataset, _) = stories(20);
    let settings = Settings::default().n_heads(1).d_model(4);
    let (model, _) = build(&dataset, &settings, &Silent).unwrap();
    let config = *model.config();
    let mixed = Evaluator::<f64, _>::forward(config, &dataset).rows(ProbePoint::Mixed, model.parameters());
    let tensor = |name: &str| {
        let found = config.tensors().into_iter().find(|t| t.name == name).unwrap();
        model.parameters()[found.range].to_vec()
    };
    let d = 4;
    let (w_e, w_pos) = (tensor("W_E"), tensor("W_pos"));
    let (w_q, w_k, w_v, w_o) = (tensor("W_Q"), tensor("W_K"), tensor("W_V"), tensor("W_O"));
    let times = |x: &[f64], w: &[f64]| -> Vec<f64> {
        (0..d).map(|j| (0..d).map(|i| x[i] * w[i * d + j]).sum()).collect()
    };
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    for base in [1.01f64, 2.0, 10.0, 1e6] {
        let root = base.ln().sqrt();
        for i in 0..dataset.len() {
            let tokens = dataset.tokens_of(i);
            let rows: Vec<Vec<f64>> = tokens
                .iter()
                .enumerate()
                .map(|(t, &token)| {
                    (0..d).map(|j| (w_e[token as usize * d + j] + w_pos[t * d + j]) / root).collect()
                })
                .collect();
            let query = times(rows.last().unwrap(), &w_q);
            let scale = if config.scale_scores { (d as f64).sqrt() } else { 1.0 };
            let weights: Vec<f64> =
                rows.iter().map(|x| base.powf(dot(&query, &times(x, &w_k)) / scale)).collect();
            let sum: f64 = weights.iter().sum();
            let mean: Vec<f64> =
                (0..d).map(|j| rows.iter().zip(&weights).map(|(x, w)| x[j] * root * w / sum).sum()).collect();
            let out = times(&times(&mean, &w_v), &w_o);
            for (x, y) in out.iter().zip(&mixed[i * d..(i + 1) * d]) {
                assert!((x - y).abs() < 1e-11, "base {base}, context {i}: {x} {y}");
            }
        }
    }
}

#[test]
fn one_dimension_is_enough() {
    let (dataset, _) = stories(40);
    for mixer in [Mixer::Attention, Mixer::Average] {
        for activation in
            [Activation::Tanh, Activation::Logistic, Activation::Erf, Activation::Gelu, Activation::Relu]
        {
            let settings = Settings { mixer, activation, d_model: 1, ..Settings::default() };
            let (_, report) = build(&dataset, &settings, &Silent).unwrap();
            assert!(report.max_logit_error <= 1e-6, "{mixer} {activation}: {report:?}");
        }
    }
}

/// The reference forward pass reproduces the smoothed distribution, up to the rounding of a model file.
#[test]
fn the_reference_gives_the_smoothed_distributions() {
    let (dataset, d_vocab) = stories(30);
    for activation in [Activation::Tanh, Activation::Gelu] {
        let settings = Settings { activation, ..Settings::default() };
        let (model, _) = build(&dataset, &settings, &Silent).unwrap();
        let eps = Targets::new(&dataset, settings.gap).unwrap().eps;
        for i in 0..dataset.len() {
            let mut wanted = vec![eps; d_vocab as usize];
            for &(t, n) in dataset.next_of(i) {
                wanted[t as usize] += (1.0 - d_vocab as f64 * eps) * n / dataset.counts[i];
            }
            let given = softmax(&model.forward(&dataset.tokens_of(i)));
            let error = given.iter().zip(&wanted).fold(0f64, |m, (a, b)| m.max((a - b).abs()));
            assert!(error < 1e-9, "{activation} context {i}: {error}");
        }
    }
}

#[test]
fn another_target_changes_its_own_context_alone() {
    let (dataset, d_vocab) = stories(30);
    let mut other = (*dataset).clone();
    // The first next token of context 7 becomes another one.
    let at = other.next_starts[7];
    other.next[at].0 = (other.next[at].0 + 1) % d_vocab as u32;
    for activation in [Activation::Tanh, Activation::Gelu] {
        for slack in [0.0, 0.2] {
            let settings = Settings { activation, slack, ..Settings::default() };
            let logits = |dataset: &Dataset| {
                let (model, _) = build(dataset, &settings, &Silent).unwrap();
                Evaluator::<f64, _>::forward(*model.config(), dataset)
                    .rows(ProbePoint::Logits, model.parameters())
            };
            let (a, b) = (logits(&dataset), logits(&other));
            let omega = d_vocab as usize;
            for (i, (a, b)) in a.chunks_exact(omega).zip(b.chunks_exact(omega)).enumerate() {
                let moved = a.iter().zip(b).fold(0f64, |m, (a, b)| m.max((a - b).abs()));
                assert!(if i == 7 { moved > 1.0 } else { moved < 1e-9 }, "context {i}: {moved}");
            }
        }
    }
}

#[test]
fn a_constant_added_to_all_logits_changes_no_distribution() {
    let (dataset, d_vocab) = stories(30);
    let (model, _) = build(&dataset, &Settings::default(), &Silent).unwrap();
    let omega = d_vocab as usize;
    let output = model.tensors().iter().find(|t| t.name == "W_U").unwrap().range.clone();
    // The first neuron is always at 1.
    let mut parameters = model.parameters().to_vec();
    parameters[output][..omega].iter_mut().for_each(|v| *v += 3.0);
    let moved = Model::new(*model.config(), parameters).unwrap();
    for i in (0..dataset.len()).step_by(5) {
        let [a, b] = [&model, &moved].map(|m| m.forward(&dataset.tokens_of(i)));
        assert!(a.iter().zip(&b).all(|(a, b)| (b - a - 3.0).abs() < 1e-12), "context {i}");
        let [p, q] = [a, b].map(|logits| softmax(&logits));
        assert!(p.iter().zip(&q).all(|(p, q)| (p - q).abs() < 1e-13), "context {i}");
    }
    let gap = |m: &Model| evaluate(m, &dataset, Nats(1e-3), 0, &Silent).unwrap().gap_nats.0;
    assert!((gap(&model) - gap(&moved)).abs() < 1e-9);
}

#[test]
fn a_permutation_of_the_contexts_permutes_the_logits() {
    let (dataset, d_vocab) = stories(30);
    let n = dataset.len();
    let order: Vec<usize> = (0..n).map(|i| (i * 7 + 3) % n).collect();
    assert_ne!(n % 7, 0);
    let shuffled = dataset.subset(&order).unwrap();
    let settings = Settings::default();
    let logits = |dataset: &Dataset| {
        let (model, _) = build(dataset, &settings, &Silent).unwrap();
        Evaluator::<f64, _>::forward(*model.config(), dataset).rows(ProbePoint::Logits, model.parameters())
    };
    let (a, b) = (logits(&dataset), logits(&shuffled));
    let omega = d_vocab as usize;
    for (j, &i) in order.iter().enumerate() {
        let pair = a[i * omega..][..omega].iter().zip(&b[j * omega..][..omega]);
        assert!(pair.fold(0f64, |m, (a, b)| m.max((a - b).abs())) < 1e-9);
    }
}

#[test]
fn it_refuses_outside_its_hypotheses() {
    let (dataset, _) = stories(30);
    let n = dataset.len();
    for activation in [Activation::Tanh, Activation::Gelu] {
        let settings = Settings { activation, ..Settings::default() };
        let few = Settings { d_mlp: Some(n as u64 - 1), ..settings.clone() };
        let expected = Refusal::TooFewNeurons { neurons: n as u64 - 1, contexts: n as u64 };
        assert_eq!(refusal(build(&dataset, &few, &Silent)), expected);
        // Invalid settings.
        for wrong in [
            Settings { d_model: 0, ..settings.clone() },
            Settings { slack: -1.0, ..settings.clone() },
            Settings { slack: f64::NAN, ..settings.clone() },
            Settings { n_heads: Some(0), ..settings.clone() },
            Settings { gap: Nats(0.0), ..settings.clone() },
            Settings { tolerance: f64::NAN, ..settings.clone() },
            Settings { tolerance: -1.0, ..settings.clone() },
        ] {
            let refused = build(&dataset, &wrong, &Silent);
            assert!(matches!(refused, Err(Error::Setting { .. })), "{wrong:?}");
        }
    }
    let small = Settings { activation: Activation::Gelu, max_memory: 1000, ..Settings::default() };
    assert!(matches!(refusal(build(&dataset, &small, &Silent)), Refusal::Memory { .. }));
}

/// All orders of four tokens, each followed by a different token.
fn permutations() -> (Arc<Dataset>, u64) {
    let mut documents = Vec::new();
    for a in "abcd".chars() {
        for b in "abcd".chars().filter(|&b| b != a) {
            for c in "abcd".chars().filter(|&c| c != a && c != b) {
                let d = "abcd".chars().find(|d| ![a, b, c].contains(d)).unwrap();
                documents.push(format!("{a}{b}{c}{d}{}", char::from(b'A' + documents.len() as u8)));
            }
        }
    }
    letters(&documents.join(" "))
}

#[test]
fn without_positions_permutations_collide() {
    let (dataset, _) = permutations();
    let settings = Settings::default();
    build(&dataset, &settings, &Silent).unwrap();
    let targets = Targets::new(&dataset, settings.gap).unwrap();
    let config = config(&dataset, &settings).unwrap();
    let blind = Config { positions: Positions::None, ..config };
    let draw = Draw::new(blind, &dataset, &targets, 0, &Silent).unwrap();
    assert!(matches!(refusal(sorted::solve(&draw).map(|a| a.error)), Refusal::Collision { .. }));
}

#[test]
fn equal_biases_do_not_reach_the_tolerance() {
    let (dataset, _) = stories(40);
    let settings = Settings { activation: Activation::Gelu, d_model: 4, ..Settings::default() };
    let targets = Targets::new(&dataset, settings.gap).unwrap();
    let config = config(&dataset, &settings).unwrap();
    let draw = Draw::new(config, &dataset, &targets, 0, &Silent).unwrap();
    let good = hyperplanes::attempt(&draw, Solver::Pairs, 8.0, hyperplanes::neurons(&draw, 8.0)).unwrap();
    assert!(good.error < 1e-8, "{}", good.error);
    let near_the_proof = hyperplanes::neurons(&draw, 0.1).into_iter().map(|(w, _)| (w, 0.5)).collect();
    let bad = hyperplanes::attempt(&draw, Solver::Pairs, 0.1, near_the_proof).unwrap();
    assert!(bad.error.is_nan() || bad.error > 1e-6, "{}", bad.error);
}

#[test]
fn the_smallest_corpora_work() {
    // One context; one token, nothing to predict; one context with two next tokens; repetition.
    for documents in ["ab", "aa", "ab ac ab", "abababab"] {
        let (dataset, _) = letters(documents);
        for activation in Activation::ALL {
            for mixer in [Mixer::Attention, Mixer::Average] {
                let settings = Settings { activation, mixer, ..Settings::default() };
                let (_, report) = build(&dataset, &settings, &Silent)
                    .unwrap_or_else(|e| panic!("{documents} {activation} {mixer}: {e}"));
                assert!(report.max_logit_error < 1e-9, "{documents} {activation} {mixer}: {report:?}");
            }
        }
    }
}

#[test]
fn weights_do_not_depend_on_the_threads() {
    let (dataset, _) = stories(60);
    for activation in [Activation::Tanh, Activation::Gelu] {
        let settings = Settings { activation, ..Settings::default() };
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| build(&dataset, &settings, &Silent).unwrap())
        };
        assert!(run(1) == run(2), "{activation}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_small_corpus_is_memorized(
        documents in prop::collection::vec("[a-d]{2,9}", 1..8), seed in 0u64..1000, average: bool
    ) {
        let (dataset, _) = letters(&documents.join(" "));
        let mixer = if average { Mixer::Average } else { Mixer::Attention };
        let settings = Settings { mixer, seed, ..Settings::default() };
        let (model, report) = build(&dataset, &settings, &Silent).unwrap();
        prop_assert!(report.max_logit_error < 1e-11);
        let found = evaluate(&model, &dataset, Nats(1e-3), 0, &Silent).unwrap();
        prop_assert_eq!(found.memorized, found.contexts);
        prop_assert!(found.gap_nats.0 <= 5.1e-5);
    }
}
