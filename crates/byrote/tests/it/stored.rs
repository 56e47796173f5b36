//! Models in files with their weights unread: what is known of them, and tensors one at a time.

use byrote::corpus::{Corpus, CorpusSpec, Key, Outputs};
use byrote::model::{Init, Model, ModelFile, ModelSpec, Precision, Preset, StoredAs, StoredModel};
use byrote::observe::Silent;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Every tensor as it is read alone, the last one first.
fn tensors_backwards(stored: &mut StoredModel) -> Vec<Vec<f32>> {
    let mut all: Vec<Vec<f32>> = Vec::new();
    for tensor in stored.config.tensors().iter().rev() {
        let mut values = vec![f32::NAN; tensor.range.len()];
        stored.read(tensor, &mut values).unwrap();
        all.push(values);
    }
    all.reverse();
    all
}

fn assert_holds(stored: &mut StoredModel, model: &Model) {
    assert_eq!(stored.config, *model.config());
    assert_eq!(stored.parameters(), model.parameters().len() as u64);
    for (values, tensor) in tensors_backwards(stored).iter().zip(model.tensors()) {
        let expected: Vec<f32> = model.parameters()[tensor.range.clone()].iter().map(|&x| x as f32).collect();
        assert_eq!(*values, expected, "{}", tensor.name);
    }
}

#[test]
fn tensors_are_read_alone_and_in_any_order() {
    for (name, family, dtype) in [
        ("gpt2", "gpt2", "f32"),
        ("gpt2_oldnames", "gpt2", "f32"),
        ("gpt_neox", "gpt_neox", "f32"),
        ("gpt_neox_sequential", "gpt_neox", "f32"),
        ("llama", "llama", "f32"),
        ("llama3_bf16_sharded", "llama", "bf16"),
        ("qwen2", "qwen2", "f32"),
    ] {
        let path = data("huggingface").join(name);
        let mut stored = StoredModel::open(&path).unwrap();
        assert_eq!((stored.family.as_str(), stored.dtype.as_str()), (family, dtype), "{name}");
        assert_eq!((stored.stored_as, stored.instruct), (StoredAs::HuggingFace, false), "{name}");
        let file = byrote::model::huggingface::load(&path).unwrap();
        assert_holds(&mut stored, &file.model);
        let ids = |reading: byrote::corpus::Reading<'_>| reading.tokens("the end", false, None).unwrap();
        assert_eq!(ids(stored.reading()), ids(file.reading()), "{name}");
        assert_eq!(stored.to_model_file().unwrap(), file);
    }
}

#[test]
fn models_of_byrote_are_read_alike() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("model.safetensors");
    for bos in [false, true] {
        let spec = CorpusSpec::default().builtin(3).bos(bos);
        let corpus = Corpus::from_spec(&spec, Outputs::default(), &Silent).unwrap();
        for (preset, family) in [
            (Preset::Madden2024Experiment, "one-layer"),
            (Preset::Dana2024PublishedMlp, "one-layer"),
            (Preset::Gpt2, "gpt2"),
            (Preset::Llama, "llama"),
            (Preset::Averaging, "blocks"),
        ] {
            let config = ModelSpec::default().preset(preset).resolve(corpus.summary.d_vocab, 9).unwrap();
            for precision in [Precision::F32, Precision::F64] {
                let model = Model::drawn(config, 3, Init::default()).unwrap();
                let model = match precision {
                    Precision::F32 => model.rounded_to_f32().unwrap(),
                    Precision::F64 => model,
                };
                let (tokenizer, vocabulary) = ("wordpunct".into(), corpus.vocabulary.clone());
                let file = ModelFile { model, precision, tokenizer, vocabulary };
                file.save(&path).unwrap();
                let mut stored = StoredModel::open(&path).unwrap();
                assert_eq!(stored.stored_as, StoredAs::Byrote);
                assert_eq!((stored.family.as_str(), stored.dtype.as_str()), (family, precision.name()));
                assert_eq!(stored.start_token().unwrap(), file.vocabulary.id(Key::Bos));
                assert_eq!(stored.start_token().unwrap().is_some(), bos);
                assert_holds(&mut stored, &file.model);
                let read = stored.to_model_file().unwrap();
                assert_eq!(read.model, file.model, "{preset}");
                assert_eq!((read.precision, read.tokenizer), (precision, file.tokenizer));
            }
        }
    }
}

/// A copy of a golden directory with some files replaced.
fn copy_with(name: &str, files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(data("huggingface").join(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, place.path().join(path.file_name().unwrap())).unwrap();
    }
    for (name, bytes) in files {
        fs::write(place.path().join(name), bytes).unwrap();
    }
    place
}

#[test]
fn the_start_token_is_what_the_post_processor_puts_in_front() {
    let path = data("huggingface/gpt2/tokenizer.json");
    let plain: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let with = |front: &[&str], back: &[&str]| {
        let special = |name: &&str| json!({"SpecialToken": {"id": name, "type_id": 0}});
        let text = json!({"Sequence": {"id": "A", "type_id": 0}});
        let single: Vec<Value> =
            front.iter().map(special).chain([text]).chain(back.iter().map(special)).collect();
        let pair: Vec<Value> =
            single.iter().cloned().chain([json!({"Sequence": {"id": "B", "type_id": 0}})]).collect();
        let tokens = json!({
            "<a>": {"id": "<a>", "ids": [7], "tokens": ["<a>"]},
            "<b>": {"id": "<b>", "ids": [9], "tokens": ["<b>"]},
        });
        let mut json = plain.clone();
        json["post_processor"] = json!({"type": "Sequence", "processors": [
            {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
            {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens},
        ]});
        let text = serde_json::to_vec(&json).unwrap();
        let place = copy_with("gpt2", &[("tokenizer.json", &text)]);
        StoredModel::open(place.path()).unwrap()
    };
    let found = |front: &[&str], back: &[&str]| with(front, back).start_token().unwrap();
    assert_eq!(found(&[], &[]), None);
    assert_eq!(found(&["<b>"], &[]), Some(9));
    assert_eq!(found(&["<a>"], &["<b>"]), Some(7));
    assert_eq!(found(&[], &["<b>"]), None);
    let error = with(&["<a>", "<b>"], &[]).start_token().unwrap_err();
    assert_eq!(error.setting_name(), Some("bos"));
    assert!(error.to_string().contains("the tokens 7, 9 in front of a text"), "{error}");
}

#[test]
fn a_chat_template_makes_an_instruct_model() {
    for (name, text, expected) in [
        ("tokenizer_config.json", "{\"chat_template\": \"{{ messages }}\"}", true),
        ("tokenizer_config.json", "{\"chat_template\": null, \"bos_token\": \"a\"}", false),
        ("chat_template.jinja", "{{ messages }}", true),
        ("special_tokens_map.json", "{}", false),
    ] {
        let place = copy_with("llama", &[(name, text.as_bytes())]);
        assert_eq!(StoredModel::open(place.path()).unwrap().instruct, expected, "{name}: {text}");
    }
}

#[test]
fn numbers_that_f32_cannot_hold_are_an_error_that_names_the_tensor() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("model.safetensors");
    let corpus = Corpus::from_spec(&CorpusSpec::default().builtin(3), Outputs::default(), &Silent).unwrap();
    let config = ModelSpec::default().preset(Preset::Madden2024).resolve(corpus.summary.d_vocab, 4).unwrap();
    let model = Model::random(config, 0).unwrap();
    let mut parameters = model.parameters().to_vec();
    parameters[5] = 1e300;
    let model = Model::new(config, parameters).unwrap();
    let (tokenizer, vocabulary) = ("wordpunct".into(), corpus.vocabulary);
    let file = ModelFile { model, precision: Precision::F64, tokenizer, vocabulary };
    file.save(&path).unwrap();
    let mut stored = StoredModel::open(&path).unwrap();
    let tensor = &config.tensors()[0];
    let error = stored.read(tensor, &mut vec![0.0; tensor.range.len()]).unwrap_err().to_string();
    assert!(error.contains("W_E contains a number outside the range of f32 (first at entry 5)"), "{error}");
    assert_eq!(stored.to_model_file().unwrap().model, file.model);
}
