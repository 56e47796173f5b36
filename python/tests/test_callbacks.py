"""Loggers of training runs, and the floor beside the loss of a Trainer."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import importable

import byrote


def test_the_floor_is_logged_beside_the_loss_of_a_trainer(tmp_path: Path) -> None:
    if not (importable("torch") and importable("transformers") and importable("accelerate")):
        pytest.skip("SKIPPED: torch and transformers are not installed; set BYROTE_TEST_TORCH=1 to require them")
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    from byrote.callbacks import FloorCallback

    torch.manual_seed(0)
    rows = [[1, 2, 3, 4], [1, 2, 3, 5], [6, 7, 3, 4]] * 8
    data = [{"input_ids": torch.tensor(row), "labels": torch.tensor(row)} for row in rows]
    model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_positions=8, n_embd=16, n_layer=1, n_head=2))
    arguments = TrainingArguments(
        output_dir=str(tmp_path), max_steps=6, logging_steps=2, per_device_train_batch_size=24, report_to=[], use_cpu=True, save_strategy="no"
    )
    callback = FloorCallback()
    trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[callback])
    trainer.train()
    floor = byrote.Corpus.from_ids(rows, n_ctx=3).floor.nats_per_prediction
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
