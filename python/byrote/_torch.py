"""Transformers of byrote as torch modules, with equal logits.

The formulas are those of ``crates/byrote/src/model/config.rs`` (one layer) and ``blocks.rs`` (blocks); the names of the weights are
those of the file.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import nn

if TYPE_CHECKING:
    from byrote._model import Model

Tensor: TypeAlias = Any  # A torch.Tensor; type checkers need not have torch.


def _activation(name: str, u: Tensor) -> Tensor:
    if name == "gelu":
        return nn.functional.gelu(u)
    if name == "gelu-tanh":
        return nn.functional.gelu(u, approximate="tanh")
    if name == "arctan":
        return torch.atan(u)
    if name == "logistic":
        return torch.sigmoid(u)
    functions: dict[str, Any] = {"tanh": torch.tanh, "relu": torch.relu, "silu": nn.functional.silu}
    if name not in functions:
        raise NotImplementedError(f"the activation {name} has no torch form here")
    return functions[name](u)


class Transformer(nn.Module):  # type: ignore[misc]
    """A transformer of byrote: token ids ``[batch, length]`` to logits ``[batch, length, d_vocab]``."""

    def __init__(self, config: dict[str, Any], weights: dict[str, Any]) -> None:
        super().__init__()
        self.config = config
        self.shape: dict[str, Any] = config["shape"]
        self.blocks: dict[str, Any] | None = self.shape.get("blocks")
        self.n_ctx = int(self.shape["n_ctx"])
        # Names of modules must not contain dots.
        self._names = {name: name.replace(".", "__") for name in weights}
        fixed = config["positions"] == "sinusoidal"
        for name, values in weights.items():
            tensor = torch.from_numpy(values.copy())
            if fixed and name == "W_pos":
                self.register_buffer(self._names[name], tensor)
            else:
                self.register_parameter(self._names[name], nn.Parameter(tensor))

    def _get(self, name: str) -> Tensor | None:
        return getattr(self, self._names[name]) if name in self._names else None

    def _need(self, name: str) -> Tensor:
        found = self._get(name)
        if found is None:
            raise KeyError(name)
        return found

    def _plus(self, x: Tensor, name: str) -> Tensor:
        bias = self._get(name)
        return x if bias is None else x + bias

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the token after every position."""
        if tokens.shape[1] > self.n_ctx:
            raise ValueError(f"{tokens.shape[1]} tokens, but this model reads at most {self.n_ctx}")
        return self._one_layer(tokens) if self.blocks is None else self._many_layers(tokens)

    def _attend(self, r: Tensor, prefix: str, n_kv_heads: int, rotary: dict[str, Any] | None) -> Tensor:
        """Return the sum over heads of what causal attention reads, through its output map."""
        heads, d_head = int(self.shape["n_heads"]), int(self.shape["d_head"])

        def project(name: str) -> Tensor:
            x = torch.einsum("btd,hde->bhte", r, self._need(f"{prefix}W_{name}"))
            bias = self._get(f"{prefix}b_{name}")
            return x if bias is None else x + bias[None, :, None, :]

        q, k, v = project("Q"), project("K"), project("V")
        if rotary is not None:
            q, k = self._rotate(q, rotary), self._rotate(k, rotary)
        # Head h of the queries reads head h * n_kv_heads / n_heads of the keys and values.
        shared = torch.arange(heads, device=r.device) * n_kv_heads // heads
        k, v = k[:, shared], v[:, shared]
        factor = 1.0 / math.sqrt(d_head) if self.config["scale_scores"] else 1.0
        scores = factor * q @ k.transpose(-1, -2)
        length = r.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=r.device).triu(1)
        z = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        out = torch.einsum("bhte,hed->btd", z, self._need(f"{prefix}W_O"))
        return self._plus(out, f"{prefix}b_O")

    def _rotate(self, x: Tensor, rotary: dict[str, Any]) -> Tensor:
        frequencies = torch.tensor(_frequencies(rotary), dtype=torch.float64, device=x.device)
        angles = torch.arange(x.shape[2], dtype=torch.float64, device=x.device)[:, None] * frequencies
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        half = len(frequencies)
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def _average(self, x: Tensor, name: str) -> Tensor:
        weights = self._need(name)[: x.shape[1]]
        return (x * weights[:, None]).cumsum(1)

    def _one_layer(self, tokens: Tensor) -> Tensor:
        config, length = self.config, tokens.shape[1]
        x = self._need("W_E")[tokens]
        positions = self._get("W_pos")
        in_attention = bool(config.get("positions_in_attention"))
        if positions is not None and not in_attention:
            x = x + positions[:length]
        if self.shape["mixer"] == "average":
            a = self._average(x, "u_pos")
        else:
            down, up = self._get("W_down"), self._get("W_up")
            r = x if down is None else x @ down
            if positions is not None and in_attention:
                r = r + positions[:length]
            a = self._attend(r, "", int(self.shape["n_heads"]), None)
            a = a if up is None else a @ up
        if config["skip"]:
            a = a + x
        y = a
        if config["hidden"] != "absent":
            u = self._plus(a @ self._need("W_in"), "b_in")
            y = _activation(self.shape["activation"], u)
            if config["hidden"] == "residual":
                y = self._plus(y @ self._need("W_out"), "b_out")
                y = y + a if config["skip"] else y
        return self._plus(y @ self._need("W_U"), "b_U")

    def _norm(self, x: Tensor, name: str) -> Tensor:
        assert self.blocks is not None
        kind = self.blocks["norm"]
        if kind == "none":
            return x
        centred = x - x.mean(-1, keepdim=True) if kind == "layer" else x
        scale = (centred.square().mean(-1, keepdim=True) + self.blocks["norm_eps"]).rsqrt()
        return self._plus(centred * scale * self._need(f"{name}.w"), f"{name}.b")

    def _many_layers(self, tokens: Tensor) -> Tensor:
        blocks = self.blocks
        assert blocks is not None
        x = self._need("embed.W_E")[tokens]
        if self.config["positions"] == "learned":
            x = x + self._need("pos_embed.W_pos")[: tokens.shape[1]]
        for i in range(int(blocks["n_layers"])):
            x = self._block(x, f"blocks.{i}.")
        if blocks["final_norm"]:
            x = self._norm(x, "ln_final")
        output = self._get("unembed.W_U")
        logits = x @ (self._need("embed.W_E").T if output is None else output)
        return self._plus(logits, "unembed.b_U")

    def _block(self, x: Tensor, prefix: str) -> Tensor:
        blocks = self.blocks
        assert blocks is not None
        mixer = self.shape["mixer"]
        if mixer == "none":
            after = x
        else:
            y = self._norm(x, f"{prefix}ln1")
            if mixer == "average":
                after = self._average(y, f"{prefix}attn.u_pos")
            else:
                after = self._attend(y, f"{prefix}attn.", int(blocks["n_kv_heads"]), blocks.get("rotary"))
            after = after + x if self.config["skip"] else after
        if self.config["hidden"] == "absent":
            return after
        y = self._norm(x if blocks["parallel"] else after, f"{prefix}ln2")
        u = self._plus(y @ self._need(f"{prefix}mlp.W_in"), f"{prefix}mlp.b_in")
        if blocks["gated"]:
            gate = self._plus(y @ self._need(f"{prefix}mlp.W_gate"), f"{prefix}mlp.b_gate")
            u = u * _activation(self.shape["activation"], gate)
        else:
            u = _activation(self.shape["activation"], u)
        out = self._plus(u @ self._need(f"{prefix}mlp.W_out"), f"{prefix}mlp.b_out")
        return out + after if blocks["mlp_skip"] else out


def _frequencies(rotary: dict[str, Any]) -> list[float]:
    """Return the angle per position of each rotated pair."""
    dims, theta, scaling = int(rotary["dims"]), float(rotary["theta"]), rotary.get("scaling")
    plain = [theta ** (-2 * i / dims) for i in range(dims // 2)]
    if scaling is None:
        return plain
    factor = float(scaling["factor"])
    if scaling["kind"] == "linear":
        return [f / factor for f in plain]
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])

    def scaled(f: float) -> float:
        periods = float(scaling["original_n_ctx"]) * f / (2 * math.pi)
        if periods < low:
            return f / factor
        if periods > high:
            return f
        kept = (periods - low) / (high - low)
        return f * ((1 - kept) / factor + kept)

    return [scaled(f) for f in plain]


def module(model: Model) -> Transformer:
    """Return a model of byrote as a torch module."""
    if not model.config:
        raise TypeError(f"{model.kind} has no torch form; its weights are not arrays of floats")
    return Transformer(model.config, model.state_dict())
