//! Losses computed by an independent program, over twenty steps of Adam.
//!
//! They were printed by `benches/peers/torch_step.py --golden` (PyTorch 2.15, f64) for the weights that
//! `byrote train --builtin 40 --seed 3 --exact-length --n-ctx 7 --preset NAME --d-model 6 --d-mlp 10 --steps 0 --precision f64`
//! writes (`dana2024` without `--d-mlp`), with a learning rate of 0.01. A second, independent program agrees to 1e-15.

use byrote::corpus::{Corpus, Options, Outputs, Source, Window};
use byrote::dataset::Dataset;
use byrote::model::{Model, Precision, Preset, Shape};
use byrote::observe::Silent;
use byrote::train::{Limits, Optimizer, TrainSettings, Trainer};
use std::sync::Arc;

#[test]
fn losses_are_those_of_pytorch() {
    let window = Window::default().n_ctx(7).exact_length(true);
    let options = Options::default().window(window).limit(40);
    let outputs = Outputs::default().contexts(true);
    let source = Source::Stories { documents: 40, seed: 3 };
    let corpus = Corpus::read(&source, &options, outputs, &Silent).unwrap();
    let dataset = Arc::new(Dataset::from_corpus(&corpus).unwrap());
    let shape = Shape {
        d_vocab: corpus.summary.d_vocab,
        n_ctx: 7,
        d_model: 6,
        n_heads: 1,
        d_head: 6,
        d_mlp: 10,
        ..Shape::default()
    };
    for (preset, golden) in golden() {
        let model = Model::random(preset.config(shape), 3).unwrap();
        for (precision, tolerance) in [(Precision::F64, 1e-9), (Precision::F32, 1e-4)] {
            let settings = TrainSettings::new(Optimizer::Adam).rate(0.01).precision(precision);
            let limits = Limits::new(Optimizer::Adam).steps(20).relative_gap(None).stall(None);
            let mut trainer = Trainer::new(&model, &dataset, settings, limits, &Silent).unwrap();
            trainer.run(&Silent).unwrap();
            let rows = trainer.curve().rows();
            assert_eq!(rows.len(), golden.len());
            for (row, golden) in rows.iter().zip(golden) {
                let error = (row.loss.0 - golden).abs() / golden;
                assert!(
                    error < tolerance,
                    "{preset} {precision:?} step {}: {} {golden}",
                    row.step,
                    row.loss.0
                );
            }
        }
    }
}

fn golden() -> [(Preset, [f64; 21]); 3] {
    [
        (
            Preset::Madden2024Experiment,
            [
                1242.6788463254225,
                1230.8632429828162,
                1218.681628640566,
                1205.3942623084895,
                1190.2186080110632,
                1172.4595824587675,
                1151.5404832920035,
                1127.0775398764952,
                1099.0687366229947,
                1068.0153382756876,
                1034.945563184487,
                1001.259903594122,
                968.8322363059576,
                940.3273076542984,
                918.9303176999147,
                906.0108575085783,
                898.1893981611489,
                890.611655067121,
                880.7489781733533,
                868.8785362130129,
                856.8842408328408,
            ],
        ),
        (
            Preset::Dana2024,
            [
                1321.6618147877693,
                1285.0553500121528,
                1250.2164969753737,
                1216.8425513502425,
                1184.703384248398,
                1153.5809928863157,
                1123.235947082497,
                1093.4381028320752,
                1063.9735449961654,
                1034.6468637962555,
                1005.2762019152588,
                975.6975707717495,
                945.7876705837724,
                915.4730774510613,
                884.7425262390101,
                853.699276671906,
                822.6694645935559,
                792.315059201829,
                763.6183397156792,
                737.6024173486495,
                714.7927037751215,
            ],
        ),
        (
            Preset::Dana2024Mlp,
            [
                1356.7450070786776,
                1307.5584782673338,
                1262.1070136295593,
                1219.810999100766,
                1180.2259933366556,
                1142.93347102829,
                1107.4710237985653,
                1073.361155785421,
                1040.155022422794,
                1007.4341537286859,
                974.8412264218862,
                942.0989868241913,
                909.0236906933509,
                875.5682902178552,
                841.8601461011419,
                808.2195810669552,
                775.2280172499278,
                743.7756793575272,
                714.7742016346459,
                688.6252268439307,
                665.0199370853155,
            ],
        ),
    ]
}
