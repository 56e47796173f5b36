"""Building, proving, training, asking: every call beside the program's JSON."""

from __future__ import annotations

import copy
import html
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import same

import byrote


def test_bounds_are_those_of_the_program(program: Any, stories: byrote.Corpus) -> None:
    same(byrote.bounds(stories), program("bounds", "--builtin", 100))
    shape = ["--d-model", 16, "--n-heads", 4, "--d-mlp", 512]
    found = byrote.bounds(stories, d_model=16, n_heads=4, d_mlp=512)
    same(found, program("bounds", "--builtin", 100, *shape))
    same(byrote.bounds(d_vocab=780, d_model=16, d_mlp=64), program("bounds", "--d-vocab", 780, "--d-model", 16, "--d-mlp", 64))
    same(byrote.bounds(parameters=10**6, d_vocab=100), program("bounds", "--parameters", 10**6, "--d-vocab", 100))
    assert len(found.applicable) < len(found.rows)
    assert html.escape(found.verdict) in found._repr_html_() and "<table>" in found._repr_html_()


def test_every_construction_is_that_of_the_program(program: Any, stories: byrote.Corpus, tmp_path: Path) -> None:
    for activation in ("tanh", "gelu"):
        out = tmp_path / f"{activation}.safetensors"
        model = byrote.build.madden2024(stories, activation=activation)
        theirs = program("build", "madden2024", "--builtin", 100, "--activation", activation, "--out", out)
        assert model.report is not None
        same(model.report, theirs)
        model.save(tmp_path / "ours.safetensors")
        assert (tmp_path / "ours.safetensors").read_bytes() == out.read_bytes()
    dana = byrote.build.dana2024(stories, n_heads=4)
    assert dana.report is not None
    same(dana.report, program("build", "dana2024", "--builtin", 100, "--n-heads", 4))
    exact = byrote.build.kajitsuka2024(byrote.Corpus(random=300))
    assert exact.report is not None
    same(exact.report, program("build", "kajitsuka2024", "--random", 300))
    same(
        byrote.build.literal(byrote.Corpus(builtin=3)),
        program("build", "madden2024", "--builtin", 3, "--method", "literal"),
        but=("seed",),
    )


def test_certificates_and_evaluations_are_those_of_the_program(program: Any, stories: byrote.Corpus, tmp_path: Path) -> None:
    model = byrote.build.madden2024(stories)
    path = tmp_path / "model.safetensors"
    model.save(path)
    proof = byrote.certify(model, stories)
    assert proof and proof.certified_contexts == 337
    same(proof, program("certify", path, "--builtin", 100))
    same(byrote.evaluate(model, stories), program("eval", path, "--builtin", 100))
    same(byrote.evaluate(path, stories, worst=2, tol=0.1), program("eval", path, "--builtin", 100, "--worst", 2, "--tol", 0.1))
    trained = byrote.train(stories, d_mlp=4, steps=5).model
    trained.save(tmp_path / "poor.safetensors")
    refuted = byrote.certify(trained, stories)
    assert not refuted
    same(refuted, program("certify", tmp_path / "poor.safetensors", "--builtin", 100, code=1))


def test_a_path_is_read_as_the_model_reads_it(tmp_path: Path, program: Any) -> None:
    text = tmp_path / "names.txt"
    text.write_text("emma\nolivia\nava\nmia\n")
    corpus = byrote.Corpus(text, tokenizer="char", n_ctx=4)
    model = byrote.build.madden2024(corpus)
    model.save(tmp_path / "m.safetensors")
    same(byrote.evaluate(model, text), program("eval", tmp_path / "m.safetensors", text))
    with pytest.raises(byrote.SettingError, match="reads char tokens"):
        byrote.evaluate(model, byrote.Corpus(builtin=5))


def test_predictions_are_those_of_the_program(program: Any, stories: byrote.Corpus, tmp_path: Path) -> None:
    model = byrote.build.madden2024(stories)
    path = tmp_path / "model.safetensors"
    model.save(path)
    same(model.predict("Once upon"), program("predict", path, "Once upon"))
    same(model.predict("Once upon", corpus=stories, top=2), program("predict", path, "Once upon", "--builtin", 100, "--top", 2))
    ids = model.encode("Once upon")
    same(model.predict(np.array(ids), logits=True), program("predict", path, "Once upon", "--logits"))
    assert model.logits(ids).tolist() == model.logits("Once upon").tolist()
    exact = byrote.build.kajitsuka2024(byrote.Corpus(builtin=20))
    exact.save(tmp_path / "exact.byrote")
    same(exact.predict("Once upon"), program("predict", tmp_path / "exact.byrote", "Once upon"))
    with pytest.raises(byrote.SettingError, match="token"):
        model.predict("zzz")
    with pytest.raises(byrote.SettingError, match="no logits"):
        exact.predict("Once", logits=True)


def test_training_is_that_of_the_program(program: Any, stories: byrote.Corpus, tmp_path: Path) -> None:
    files = ("model_file", "init_file", "curve_file")
    run = byrote.train(byrote.Corpus(builtin=100, seed=2), d_mlp=16, steps=60, seed=2)
    same(run, program("train", "--builtin", 100, "--d-mlp", 16, "--steps", 60, "--seed", 2, "--out", tmp_path / "run"), but=files + ("window_sample",))
    run.save(tmp_path / "ours.safetensors")
    assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "run/model.safetensors").read_bytes()
    assert run.curve["step"][-1] == run.steps and run.curve.columns == ["step", "evaluations", "loss_nats"]
    deep = byrote.train(stories, preset="gpt2", n_layers=2, d_model=16, steps=5, optimizer="adam", lr=0.01)
    flags = ["--preset", "gpt2", "--n-layers", 2, "--d-model", 16, "--steps", 5, "--optimizer", "adam", "--lr", 0.01]
    same(deep, program("train", "--builtin", 100, *flags))
    again = byrote.train(stories, init=deep.model, steps=3, optimizer="adam")
    assert again.steps == 3 and again.loss_nats < 2 * deep.loss_nats


def test_a_run_directory_is_resumed(stories: byrote.Corpus, tmp_path: Path) -> None:
    whole = byrote.train(stories, d_mlp=8, steps=40, optimizer="adam")
    byrote.train(stories, d_mlp=8, steps=20, optimizer="adam", out=tmp_path / "run")
    run = byrote.train(stories, d_mlp=8, steps=40, optimizer="adam", out=tmp_path / "run", resume=True)
    assert run.resumed_at_step == 20 and run.loss_nats == whole.loss_nats
    with pytest.raises(byrote.SettingError, match="resume: needs"):
        byrote.train(stories, resume=True)


def test_callbacks_see_steps_and_weights_and_stop_the_run(stories: byrote.Corpus) -> None:
    seen: list[tuple[int, float, float]] = []
    models = []

    def watch(step: byrote.Step) -> bool:
        seen.append((step.step, step.loss, step.gap))
        if step.step == 4:
            models.append(step.model())
        return step.step >= 7

    run = byrote.train(stories, d_mlp=8, steps=50, optimizer="adam", callback=watch)
    assert [s for s, _, _ in seen] == list(range(8)) and run.stop == "interrupted" and run.steps == 7
    evaluation = byrote.evaluate(run.model, stories)
    assert run.memorized == evaluation.memorized and run.worst == evaluation.worst and run.accuracy == evaluation.accuracy
    assert all(abs(loss - gap - stories.floor.nats_per_prediction) < 1e-12 for _, loss, gap in seen)
    four = byrote.train(stories, d_mlp=8, steps=4, optimizer="adam")
    assert all((models[0].state_dict()[k] == v).all() for k, v in four.model.state_dict().items())
    every: list[int] = []
    byrote.train(stories, d_mlp=8, steps=9, optimizer="adam", callback=lambda s: every.append(s.step), callback_every=4)
    assert every == [0, 4, 8]
    kept: list[byrote.Step] = []
    byrote.train(stories, d_mlp=8, steps=1, callback=[kept.append, lambda s: None])
    with pytest.raises(byrote.SettingError, match="only while the callback runs"):
        kept[0].model()

    def wrong(step: byrote.Step) -> None:
        raise ZeroDivisionError("my own mistake")

    with pytest.raises(ZeroDivisionError, match="my own mistake"):
        byrote.train(stories, d_mlp=8, callback=wrong)


def test_weights_have_their_names_and_survive_a_file_and_a_pickle(stories: byrote.Corpus, tmp_path: Path, program: Any) -> None:
    run = byrote.train(stories, d_mlp=8, steps=2)
    weights = run.model.state_dict()
    assert weights["W_E"].shape == (185, 16) and weights["W_E"].dtype == np.float32
    assert weights["W_pos"].shape == (9, 16), "fixed positions are needed to run the model"
    built = byrote.build.madden2024(stories)
    assert built.state_dict()["W_in"].dtype == np.float64
    built.save(tmp_path / "m.safetensors")
    loaded = byrote.load(tmp_path / "m.safetensors")
    for again in (loaded, pickle.loads(pickle.dumps(built))):
        assert all((again.state_dict()[k] == v).all() for k, v in built.state_dict().items())
    assert loaded.to_dict() == program("show", tmp_path / "m.safetensors")
    assert "72,202 parameters" in repr(loaded) and "W_in" in loaded._repr_html_()
    with pytest.raises(byrote.FileError) as error:
        byrote.load(tmp_path / "nothing.safetensors")
    assert isinstance(error.value, OSError) and error.value.path is not None


def test_models_of_every_kind_are_copied_and_pickled(tmp_path: Path) -> None:
    corpus = byrote.Corpus(builtin=20)
    in_context = byrote.incontext(layers=3, length=10, d=2, sequences=1).model
    assert in_context is not None
    for model in (byrote.build.madden2024(corpus), byrote.build.kajitsuka2024(corpus), in_context):
        for again in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert again.to_dict() == model.to_dict() and again.report == model.report
            model.save(tmp_path / "model")
            again.save(tmp_path / "again")
            assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
