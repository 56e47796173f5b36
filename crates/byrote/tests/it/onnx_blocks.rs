//! ONNX files of models of blocks against the reference forward pass, run by the interpreter of `onnx.rs`.

use crate::onnx::difference;
use byrote::model::{Activation, Hidden, Mixer, Model, ModelSpec, Norm, Positions, Precision, Preset};
use proptest::prelude::*;

const BLOCKS: [Preset; 5] =
    [Preset::Gpt2, Preset::GptNeox, Preset::Llama, Preset::AttentionOnly, Preset::Averaging];

fn spec(preset: Preset) -> ModelSpec {
    ModelSpec::default().preset(preset).n_layers(3).d_model(8).n_heads(2)
}

/// A model without gains of 1 and biases of 0.
fn model(spec: ModelSpec, seed: u64) -> Model {
    let config = spec.resolve(6, 5).unwrap();
    let (model, noise) = (Model::random(config, seed).unwrap(), Model::random(config, seed + 1).unwrap());
    let mixed = model.parameters().iter().zip(noise.parameters().iter().rev());
    Model::new(config, mixed.map(|(a, b)| a + 0.3 * b + 0.01).collect()).unwrap()
}

fn contexts() -> Vec<Vec<u32>> {
    vec![vec![3], vec![0, 5, 2, 1, 4], vec![5, 5], vec![1, 2, 3, 4], vec![0]]
}

#[test]
fn every_preset_of_blocks_has_the_logits_of_the_reference() {
    let mut used = Vec::new();
    for preset in BLOCKS {
        for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Silu, Activation::Relu] {
            let model = model(spec(preset).activation(activation), 3);
            let f64 = difference(&model, Precision::F64, &contexts(), &mut used);
            assert!(f64 < 1e-12, "{preset} {activation}: {f64:e}");
            // The interpreter computes in f64; only the weights, tables and constants are rounded.
            let f32 = difference(&model, Precision::F32, &contexts(), &mut Vec::new());
            assert!(f32 < 1e-5, "{preset} {activation}: {f32:e}");
        }
    }
    assert!(!used.iter().any(|o| ["Erf", "Atan", "Gelu", "LayerNormalization"].contains(&o.as_str())));
}

#[test]
fn shared_heads_and_partial_rotary_positions_are_written() {
    for (heads, shared, dims) in [(4, 2, 2), (4, 1, 4), (6, 3, 2)] {
        let spec = spec(Preset::Llama).n_heads(heads).n_kv_heads(shared).d_head(4).rotary_dims(dims);
        let found =
            difference(&model(spec.attention_bias(true), 8), Precision::F64, &contexts(), &mut Vec::new());
        assert!(found < 1e-12, "{heads} {shared} {dims}: {found:e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_switches_of_blocks(
        preset in 0usize..5,
        (n_layers, d_model, shared, groups) in (1u64..4, 1u64..7, 1u64..3, 1u64..3),
        [skip, mlp_skip, parallel, gated, tied, bias, output_bias, mlp_bias] in prop::array::uniform8(any::<bool>()),
        (norm, mixer, hidden, positions) in (0usize..3, 0usize..3, any::<bool>(), 0usize..3),
        seed in 0u64..1000,
    ) {
        let mixer = [Mixer::Attention, Mixer::Average, Mixer::None][mixer];
        let positions = match mixer {
            Mixer::Attention => [Positions::Learned, Positions::None, Positions::Rotary][positions],
            _ => [Positions::Learned, Positions::None][positions % 2],
        };
        let mut spec = ModelSpec::default().preset(BLOCKS[preset]).n_layers(n_layers).d_model(d_model);
        spec = spec.n_heads(shared * groups).n_kv_heads(shared).d_head(3).mixer(mixer).positions(positions);
        // In parallel blocks the hidden layer always adds to its input.
        spec = spec.skip(skip).mlp_skip(mlp_skip || parallel).tied(tied).attention_bias(bias).mlp_bias(mlp_bias);
        spec = spec.norm([Norm::None, Norm::Layer, Norm::Rms][norm]).output_bias(output_bias);
        spec = match hidden {
            true => spec.hidden(Hidden::Residual).d_mlp(5).parallel(parallel).gated(gated),
            false => spec.hidden(Hidden::Absent).d_mlp(0).parallel(false).gated(false),
        };
        let model = model(spec, seed);
        let found = difference(&model, Precision::F64, &contexts(), &mut Vec::new());
        prop_assert!(found < 1e-10, "{spec:?}: {found:e}");
    }
}
