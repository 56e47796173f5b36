"""Settings: the keywords of every call, which are the fields of the specs of the library.

One resolver serves the program, plans and this package: a setting, its default and its check exist once, in Rust. The classes here
list the keywords for editors and type checkers; a test compares them with the specs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Union

import numpy as np

from byrote import _errors

Path = Union[str, "os.PathLike[str]"]
"""A path of a file or a directory."""


def _plain(value: object) -> object:
    """Return a value that JSON has for one that it has not."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (type, np.dtype)):
        return np.dtype(value).name
    tolist = getattr(value, "tolist", None)
    if callable(tolist):  # A number or an array of numpy.
        return tolist()
    if isinstance(value, range) and value.step == 1 and len(value) > 0:
        return f"{value.start}..{value.stop - 1}"
    raise TypeError


def _spelled(name: str, value: object) -> object:
    """Return a setting as the library spells it."""
    if name == "dtype":
        given = _plain(value) if isinstance(value, (type, np.dtype)) else value
        return {"uint16": "u16", "uint32": "u32"}.get(str(given), given)
    if name in ("split", "lengths") and isinstance(value, (tuple, list)) and len(value) == 2:
        return f"{value[0]}..{value[1]}"
    return value


def encode(settings: Mapping[str, object]) -> str:
    """Return settings as JSON.

    >>> encode({"n_ctx": 9, "split": (0, 0.9), "lr": None})
    '{"n_ctx": 9, "split": "0..0.9"}'
    """
    found: list[str] = []
    for name, value in settings.items():
        if value is None:
            continue
        try:
            text = json.dumps(_spelled(name, value), default=_plain, allow_nan=False)
        except ValueError:
            message = f"{name}: must be finite (got {value})"
            raise _errors.of("setting", message, None, None, name, None) from None
        except TypeError:
            message = f"{name}: cannot be of type {type(value).__name__}"
            raise _errors.of("setting", message, None, None, name, None) from None
        found.append(f"{json.dumps(name)}: {text}")
    return "{" + ", ".join(found) + "}"


Contexts = Literal["prefixes", "full", "windows"]
Precision = Literal["f32", "f64"]


class CorpusSettings(TypedDict, total=False):
    """How a corpus is read: the options that ``byrote corpus --help`` explains."""

    documents: str
    format: Literal["text", "jsonl", "parquet", "arrow", "npy", "bin"]
    field: str
    tokenizer: Path
    dtype: Literal["u16", "u32", "uint16", "uint32"] | type[np.uint16 | np.uint32]
    separator_id: int
    n_ctx: int
    exact_length: bool
    split: str | tuple[float, float]
    join: bool
    stride: int
    windows: int
    range: str
    shard: str
    limit: int
    bos: bool
    eos: bool
    lossy: bool
    contexts: Contexts
    d_vocab: int
    lengths: str | tuple[int, int] | range
    labels: int
    max_memory: int | str
    temp_dir: Path
    seed: int
    builtin: int
    random: int
    merge: Path | Sequence[Path]


class ModelSettings(TypedDict, total=False):
    """A model before its corpus is known: the options of ``byrote train --help`` under *Model*."""

    preset: str
    n_layers: int
    d_model: int
    n_heads: int
    d_head: int
    d_mlp: int
    activation: str
    mixer: str
    positions: str
    hidden: str
    attention_bias: bool
    scale_scores: bool
    skip: bool
    output_bias: bool
    positions_in_attention: bool
    bottleneck: bool
    n_kv_heads: int
    norm: str
    parallel: bool
    gated: bool
    mlp_skip: bool
    mlp_bias: bool
    tied: bool
    rotary_dims: int


class TrainSettings(ModelSettings, total=False):
    """A model and how it is trained: the options of ``byrote train --help`` under *Model* and *Training*."""

    optimizer: Literal["adam", "adamw", "lbfgs"]
    lr: float
    schedule: str
    last_lr: float
    steps: int
    weight_decay: float
    clip: float
    beta_2: float
    memory: int
    warmup: int
    warmup_lr: float
    warmup_batches: int
    batch: int
    sampling: str
    sample: int
    sample_seed: int
    train_only: str
    precision: Precision
    stop_gap: float
    stop_relative_gap: float
    stop_seconds: float
    stall: float


class SizeSettings(TypedDict, total=False):
    """The size of a model, as far as bounds ask for it."""

    preset: str
    n_layers: int
    d_model: int
    n_heads: int
    d_head: int
    d_mlp: int
    activation: str
    mixer: str
    norm: str
    positions: str
    skip: bool
    tied: bool
    output_bias: bool
    parameters: int
    bits_per_parameter: int
    operations: int


class Madden2024Settings(TypedDict, total=False):
    """The settings of madden2024: one hidden neuron per context."""

    activation: str
    mixer: str
    skip: bool
    d_model: int
    n_heads: int
    d_head: int
    slack: float
    d_mlp: int
    method: Literal["closed", "literal", "sampled"]
    arithmetic: str
    scale: float
    eta: float
    gap: float
    logit_tolerance: float


class Dana2024Settings(TypedDict, total=False):
    """The settings of dana2024: attention alone, with a skip connection."""

    d_model: int
    n_heads: int
    d_head: int
    method: Literal["exact", "refit", "truncate"]
    task: str
    gap: float
    epsilon: float
    kappa: float
    logit_tolerance: float


class Kajitsuka2024Settings(TypedDict, total=False):
    """The settings of kajitsuka2024: an exact network with about sqrt N parameters for N facts."""

    method: Literal["bounded", "looped", "searched"]
    task: Literal["next", "every-position", "s2s"]
    attention: Literal["causal", "bidirectional"]
    pad: bool
    lookup: Literal["steps", "slopes"]
    block: int
    tries: int


class RankSettings(TypedDict, total=False):
    """A matrix of features: the options of ``byrote rank --help``."""

    activation: str
    polynomial: str | Sequence[float]
    a: str | Sequence[float] | float
    b: str | Sequence[float] | float
    m: int
    n: int
    scale: float


class IncontextSettings(TypedDict, total=False):
    """What is learnt in context, and how: the options of ``byrote incontext --help``."""

    task: str
    map: str
    rho: float
    period: str | int
    file: Path | Sequence[Path]
    unit_norm: bool
    d: int
    length: int
    sequences: int
    kernel: str
    beta: float
    normalised: bool
    attention: str
    layers: int
    direct: bool
    recursion: bool
    tol: float
    eta: str | float
    flow_time: float
    sharpness: bool


class AuditSettings(TypedDict, total=False):
    """How a text is read and what is measured: the options of ``byrote audit --help``."""

    builtin: int
    documents: str
    format: Literal["text", "jsonl", "parquet", "arrow", "npy", "bin"]
    field: str
    dtype: Literal["u16", "u32", "uint16", "uint32"] | type[np.uint16 | np.uint32]
    separator_id: int
    split: str | tuple[float, float]
    shard: str
    limit: int
    lossy: bool
    preset: str
    prefix: int
    suffix: int
    stride: str | int
    context: str
    windows: int
    top_k: int
    temperature: float
    bos: str | int
    decode: bool
    fresh: int
    margin: float
    lengths: int
    contexts: str
    max_memory: int | str
    no_text: bool


Json = dict[str, Any]
