"""Transformers of byrote in torch: the same logits."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import importable

import byrote

if not importable("torch"):
    pytest.skip("SKIPPED: torch is not installed; set BYROTE_TEST_TORCH=1 to require it", allow_module_level=True)

import torch

SETTINGS = [
    {"preset": "madden2024", "d_mlp": 12},
    {"preset": "madden2024-experiment", "d_mlp": 12},
    {"preset": "dana2024", "n_heads": 2},
    {"preset": "dana2024-mlp", "n_heads": 2, "d_mlp": 12},
    {"preset": "dana2024-published", "n_heads": 2, "d_head": 4},
    {"preset": "dana2024-published-mlp", "d_head": 4, "d_mlp": 12},
    {"preset": "average", "d_mlp": 12, "activation": "tanh"},
    {"preset": "gpt2", "n_layers": 2, "d_model": 32},
    {"preset": "gpt-neox", "n_layers": 2, "d_model": 32},
    {"preset": "llama", "n_layers": 2, "d_model": 32, "n_heads": 4, "n_kv_heads": 2},
    {"preset": "attention-only", "n_layers": 2, "d_model": 32},
    {"preset": "averaging", "n_layers": 2, "d_model": 32},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: s["preset"])
def test_logits_are_equal(settings: dict[str, object]) -> None:
    corpus = byrote.Corpus(builtin=10)
    model = byrote.train(corpus, steps=3, optimizer="adam", precision="f64", **settings).model  # type: ignore[arg-type]
    module = model.to_torch()
    assert sum(p.numel() for p in module.parameters()) == model.parameters
    context = [3, 1, 4, 1, 5]
    logits = module(torch.tensor([context])).detach().numpy()[0]
    for t in range(1, len(context) + 1):
        np.testing.assert_allclose(logits[t - 1], model.logits(context[:t]), rtol=1e-9, atol=1e-9)


def test_what_has_no_torch_form_says_so() -> None:
    with pytest.raises(TypeError, match="exact network"):
        byrote.build.kajitsuka2024(byrote.Corpus(builtin=5)).to_torch()
    module = byrote.build.madden2024(byrote.Corpus(builtin=5)).to_torch()
    with pytest.raises(ValueError, match="reads at most 9"):
        module(torch.zeros(1, 10, dtype=torch.long))
