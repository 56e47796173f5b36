"""Audits: by path, by model, by function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import importable, same

import byrote

SETTINGS: dict[str, Any] = {"prefix": 4, "suffix": 4}
FLAGS = ["--prefix", 4, "--suffix", 4]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[byrote.Model, Path]:
    folder = tmp_path_factory.mktemp("audit")
    text = folder / "text.txt"
    text.write_text("the cat sat on the mat and the dog sat on the log\na bird ran to the big red house by the sea now\n")
    corpus = byrote.Corpus(text, n_ctx=12)
    model = byrote.train(corpus, preset="gpt2", n_layers=1, d_model=16, n_heads=2, steps=200).model
    model.save(folder / "model.safetensors")
    return model, folder


def test_a_path_and_a_model_give_what_the_program_gives(program: Any, trained: tuple[byrote.Model, Path]) -> None:
    model, folder = trained
    theirs = program("audit", folder / "model.safetensors", folder / "text.txt", *FLAGS)
    same(byrote.audit(folder / "model.safetensors", folder / "text.txt", **SETTINGS), theirs)
    same(byrote.audit(model, folder / "text.txt", **SETTINGS), theirs, but=("model",))
    report = byrote.audit(model, folder / "text.txt", out=folder / "out", **SETTINGS)
    assert Path(report.report_file).exists() and report.extractable_share is not None


def test_audits_are_compared_as_the_program_compares_them(program: Any, trained: tuple[byrote.Model, Path]) -> None:
    model, folder = trained
    corpus = byrote.Corpus(folder / "text.txt", n_ctx=12)
    before = byrote.train(corpus, preset="gpt2", n_layers=1, d_model=16, n_heads=2, steps=2).model
    for name, one in (("before", before), ("after", model)):
        byrote.audit(one, folder / "text.txt", out=folder / name, **SETTINGS)
    ours = byrote.compare_audits(folder / "before", folder / "after")
    same(ours, program("audit", "--compare", folder / "before", folder / "after"))


def test_a_function_gives_what_its_model_gives(trained: tuple[byrote.Model, Path]) -> None:
    model, folder = trained
    corpus = byrote.Corpus(folder / "text.txt", n_ctx=12)

    def logits(ids: Any) -> Any:
        return np.stack([[model.logits(row[: t + 1]) for t in range(len(row))] for row in ids])

    ours = byrote.audit(logits, folder / "text.txt", vocabulary=corpus, n_ctx=12, **SETTINGS).to_dict()
    theirs = byrote.audit(model, folder / "text.txt", **SETTINGS).to_dict()
    assert ours["windows"]["share"] == theirs["windows"]["share"]
    assert ours["verdict"][0] == theirs["verdict"][0]
    assert ours["bits"] == pytest.approx(theirs["bits"], rel=1e-4)
    assert ours["gap"]["loss_nats"] == pytest.approx(theirs["gap"]["loss_nats"], rel=1e-4)


def test_what_a_function_does_wrong_is_said(trained: tuple[byrote.Model, Path]) -> None:
    ids = [[1, 2, 3, 4, 5, 6, 7, 8, 9]] * 2
    with pytest.raises(TypeError, match="d_vocab"):
        byrote.audit(lambda ids: ids, ids)
    with pytest.raises(ValueError, match="logits of shape"):
        byrote.audit(lambda ids: ids, ids, d_vocab=10, n_ctx=64, **SETTINGS)
    with pytest.raises(ValueError, match=r"here \[1, 8, 10\] \(got \[1, 8, 3\]\)"):
        byrote.audit(lambda ids: np.zeros((*ids.shape, 3)), ids, d_vocab=10, n_ctx=64, **SETTINGS)
    with pytest.raises(byrote.SettingError, match="not finite"):
        byrote.audit(lambda ids: np.full((*ids.shape, 10), np.nan), ids, d_vocab=10, n_ctx=64, **SETTINGS)
    with pytest.raises(byrote.UnknownSettingError, match="suffix"):
        byrote.audit("none", ids, sufix=3)
    with pytest.raises(TypeError, match="neither a path"):
        byrote.audit(3, ids)


def test_a_model_of_transformers_is_audited(tmp_path: Path) -> None:
    if not (importable("torch") and importable("transformers")):
        pytest.skip("SKIPPED: torch and transformers are not installed; set BYROTE_TEST_TORCH=1 to require them")
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_positions=32, n_embd=16, n_layer=1, n_head=2))
    ids = [np.random.default_rng(i).integers(0, 20, 24).tolist() for i in range(3)]
    ours = byrote.audit(model, ids, bos="none", **SETTINGS).to_dict()
    model.save_pretrained(tmp_path / "hf", safe_serialization=True)
    rows = tmp_path / "ids.jsonl"
    rows.write_text("".join(f'{{"text": {row}}}\n' for row in ids))
    theirs = byrote.audit(tmp_path / "hf", rows, bos="none", **SETTINGS).to_dict()
    assert ours["windows"]["share"] == theirs["windows"]["share"]
    assert ours["bits"] == pytest.approx(theirs["bits"], rel=1e-4)
    assert model.training, "the model is left as it was"
