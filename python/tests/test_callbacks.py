"""Loggers of training runs, and the floor beside the loss of a Trainer."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import importable

import byrote


ROWS = [[1, 2, 3, 4], [1, 2, 3, 5], [6, 7, 3, 4]] * 8


def _floor_by_the_program(program: Any, folder: Path, n_ctx: int = 3) -> float:
    np.save(folder / "rows.npy", np.array(ROWS, dtype=np.uint16))
    return float(program("corpus", folder / "rows.npy", "--n-ctx", n_ctx)["floor_nats_per_prediction"])


@pytest.mark.parametrize("given", ["trainer", "dataset", "corpus", "n_ctx"])
def test_the_floor_of_a_callback_is_that_of_the_program(
    given: str, program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The base class alone: what a Trainer calls is called here. The next test has a real one.
    base = types.SimpleNamespace(TrainerCallback=type("TrainerCallback", (), {}))
    monkeypatch.setitem(sys.modules, "transformers", base)
    data = [{"input_ids": row} for row in ROWS]
    loader = types.SimpleNamespace(dataset=None if given in ("dataset", "corpus") else data)
    callback = {
        "trainer": lambda: byrote.callbacks.FloorCallback(),
        "dataset": lambda: byrote.callbacks.FloorCallback(data),
        "corpus": lambda: byrote.callbacks.FloorCallback(corpus=byrote.Corpus.from_ids(ROWS, n_ctx=3)),
        "n_ctx": lambda: byrote.callbacks.FloorCallback(n_ctx=2),
    }[given]()
    callback.on_train_begin(None, None, None, train_dataloader=loader)
    floor = _floor_by_the_program(program, tmp_path, n_ctx=2 if given == "n_ctx" else 3)
    assert callback.floor == floor
    state, logs = types.SimpleNamespace(log_history=[{"loss": 2.0}]), {"loss": 2.0}
    callback.on_log(None, state, None, logs=logs)
    assert logs == state.log_history[-1] == {"loss": 2.0, "floor": floor, "gap": 2.0 - floor}
    callback.on_log(None, state, None, logs={"eval_loss": 1.0})
    assert state.log_history == [logs]


def test_the_floor_is_logged_beside_the_loss_of_a_trainer(program: Any, tmp_path: Path) -> None:
    if not (importable("torch") and importable("transformers") and importable("accelerate")):
        pytest.skip("SKIPPED: torch and transformers are not installed; set BYROTE_TEST_TORCH=1 to require them")
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    from byrote.callbacks import FloorCallback

    torch.manual_seed(0)
    data = [{"input_ids": torch.tensor(row), "labels": torch.tensor(row)} for row in ROWS]
    model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_positions=8, n_embd=16, n_layer=1, n_head=2))
    arguments = TrainingArguments(
        output_dir=str(tmp_path), max_steps=6, logging_steps=2, per_device_train_batch_size=24, report_to=[], use_cpu=True, save_strategy="no"
    )
    callback = FloorCallback()
    trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[callback])
    trainer.train()
    floor = _floor_by_the_program(program, tmp_path)
    logs = [log for log in trainer.state.log_history if "loss" in log]
    assert callback.floor == floor and len(logs) == 3
    assert all(log["floor"] == floor and abs(log["gap"] - (log["loss"] - floor)) < 1e-12 for log in logs)


def test_loggers_write_what_they_see(stories: byrote.Corpus) -> None:
    from byrote.callbacks import TensorBoard, WandB

    class Writer:
        def __init__(self) -> None:
            self.scalars: list[tuple[str, int]] = []
            self.logs: list[dict[str, float]] = []

        def add_scalar(self, name: str, value: float, step: int) -> None:
            self.scalars.append((name, step))

        def log(self, values: dict[str, float], step: int) -> None:
            self.logs.append({**values, "step": step})

    writer = Writer()
    byrote.train(stories, d_mlp=4, steps=2, callback=[TensorBoard(writer=writer), WandB(run=writer)])
    assert ("byrote/gap", 2) in writer.scalars and writer.logs[0]["byrote/floor"] == pytest.approx(stories.floor.nats_per_prediction)


def test_tensorboard_reads_what_is_logged(stories: byrote.Corpus, tmp_path: Path) -> None:
    if not (importable("torch") and importable("tensorboard")):
        pytest.skip("SKIPPED: torch and tensorboard are not installed; set BYROTE_TEST_TORCH=1 to require them")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = byrote.callbacks.TensorBoard(str(tmp_path))
    run = byrote.train(stories, d_mlp=4, steps=3, callback=logger)
    logger.writer.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert events.Tags()["scalars"] == ["byrote/loss", "byrote/gap", "byrote/floor"]
    gaps = events.Scalars("byrote/gap")
    assert [gap.step for gap in gaps] == [0, 1, 2, 3]
    assert gaps[-1].value == pytest.approx(run.gap_nats_per_prediction, rel=1e-5)


def test_weights_and_biases_keeps_what_is_logged(stories: byrote.Corpus, tmp_path: Path) -> None:
    if not importable("wandb", needed=False):
        pytest.skip("SKIPPED: wandb is not installed")
    logger, history = byrote.callbacks.WandB(mode="offline", dir=str(tmp_path), project="byrote"), byrote.callbacks.History()
    try:
        byrote.train(stories, d_mlp=4, steps=3, callback=[logger, history])
        # The last step is not there yet: it is kept until the next one, or the end.
        assert logger.run.summary["byrote/gap"] in history.table["gap"].tolist()
        assert logger.run.summary["byrote/floor"] == pytest.approx(stories.floor.nats_per_prediction)
    finally:
        logger.run.finish()
    assert list(tmp_path.rglob("*.wandb"))
