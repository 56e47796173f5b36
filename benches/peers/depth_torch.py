#!/usr/bin/env python3
"""Full-batch Adam on a GPT-2 of many layers in PyTorch: the peer of `byrote train --preset gpt2`, in losses and in speed.

    python3 benches/peers/depth_torch.py --weights init.safetensors --docs docs.json
            [--mode padded | distinct | nodes] [--steps 10] [--lr 1e-3] [--threads N] [--warm-up 3]
            [--nanogpt --stop-loss NATS --max-steps N]

Requires torch, safetensors and numpy. The initial weights are a byrote model file of the preset gpt2, whose metadata describe
the model. The documents are JSON, a list of lists of token ids; every prefix of a document predicts its next token. The output is
one JSON object: the loss in nats, summed over all predictions, before every step, the loss after the last step, and the times.
Loading and warming up are not timed.

Modes, which compute the same loss:

    padded     every document as a row, padded to the longest, as nanoGPT computes it: fused QKV, scaled_dot_product_attention
               with a causal mask, cross-entropy that ignores the padding
    distinct   the same over distinct documents, weighted by how often they occur
    nodes      distinct prefixes: one row per node of the trie, which attends to its gathered ancestors

--nanogpt trains with nanoGPT's recipe instead (AdamW at 1e-3, betas 0.9 and 0.95, weight decay 0.1 for matrices, the gradient
clipped at 1, 100 steps of warm-up, a cosine down to 1e-4 over --max-steps), until the loss is at most --stop-loss.
"""

import argparse
import json
import math
import statistics
import time
from collections import Counter

import torch
import torch.nn.functional as F
from safetensors import safe_open


class Gpt2:
    """The tensors of a byrote file, with queries, keys and values fused as nanoGPT has them."""

    def __init__(self, path):
        with safe_open(path, framework="pt") as file:
            config = json.loads(file.metadata()["byrote"])["config"]
            tensors = {name: file.get_tensor(name).float() for name in file.keys()}
        shape = config["shape"]
        self.blocks, self.heads, self.d_head = shape["blocks"]["n_layers"], shape["n_heads"], shape["d_head"]
        self.eps = shape["blocks"]["norm_eps"]
        self.p = {}
        for name, value in tensors.items():
            if not any(name.endswith(end) for end in ("W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V", "W_O")):
                self.p[name] = value
        for l in range(self.blocks):
            at = "blocks.%d.attn." % l
            maps = [tensors[at + "W_" + x].permute(1, 0, 2).flatten(1) for x in "QKV"]  # [d, heads * d_head]
            self.p[at + "W_QKV"] = torch.cat(maps, 1).contiguous()
            self.p[at + "b_QKV"] = torch.cat([tensors[at + "b_" + x].flatten() for x in "QKV"])
            self.p[at + "W_O"] = tensors[at + "W_O"].flatten(0, 1).contiguous()
        for value in self.p.values():
            value.requires_grad_(True)

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.p[name + ".w"], self.p[name + ".b"], self.eps)

    def forward(self, tokens, depths, attend):
        """tokens and depths (from 0) of any shape; attend(q, k, v) gives mixed values of [..., heads * d_head]."""
        p = self.p
        x = F.embedding(tokens, p["embed.W_E"]) + F.embedding(depths, p["pos_embed.W_pos"])
        for l in range(self.blocks):
            b = "blocks.%d." % l
            q, k, v = (self.norm(x, b + "ln1") @ p[b + "attn.W_QKV"] + p[b + "attn.b_QKV"]).chunk(3, -1)
            x = x + attend(q, k, v) @ p[b + "attn.W_O"] + p[b + "attn.b_O"]
            h = F.gelu(self.norm(x, b + "ln2") @ p[b + "mlp.W_in"] + p[b + "mlp.b_in"], approximate="tanh")
            x = x + h @ p[b + "mlp.W_out"] + p[b + "mlp.b_out"]
        return self.norm(x, "ln_final") @ p["embed.W_E"].T


def heads_first(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def padded_loss(model, documents, n_ctx):
    """The loss over rows of documents with multiplicities, as a function without arguments."""
    rows = [(list(d)[: n_ctx + 1], n) for d, n in documents.items() if len(d) > 1]
    longest = max(len(d) for d, _ in rows) - 1
    tokens = torch.zeros(len(rows), longest, dtype=torch.long)
    targets = torch.full((len(rows), longest), -100)
    counts = torch.tensor([float(n) for _, n in rows])
    for i, (d, _) in enumerate(rows):
        tokens[i, : len(d) - 1] = torch.tensor(d[:-1])
        targets[i, : len(d) - 1] = torch.tensor(d[1:])
    depths = torch.arange(longest).expand_as(tokens)
    weighted = bool((counts != 1).any())

    def attend(q, k, v):
        q, k, v = (heads_first(x, model.heads) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

    def loss():
        logits = model.forward(tokens, depths, attend).flatten(0, 1)
        if not weighted:
            return F.cross_entropy(logits, targets.flatten(), ignore_index=-100, reduction="sum")
        each = F.cross_entropy(logits, targets.flatten(), ignore_index=-100, reduction="none")
        return (each.view_as(targets).sum(1) * counts).sum()

    return loss


def nodes_loss(model, documents, n_ctx):
    """The loss over distinct prefixes, each of which attends to its ancestors."""
    nodes, next_tokens = {}, Counter()
    for d, n in sorted(documents.items()):
        for t in range(1, min(len(d), n_ctx + 1)):
            node = nodes.setdefault(d[:t], len(nodes))
            next_tokens[node, d[t]] += n
    longest = max(len(prefix) for prefix in nodes)
    tokens = torch.tensor([prefix[-1] for prefix in nodes])
    depths = torch.tensor([len(prefix) - 1 for prefix in nodes])
    ancestors = torch.zeros(len(nodes), longest, dtype=torch.long)
    for prefix, i in nodes.items():
        ancestors[i, : len(prefix)] = torch.tensor([nodes[prefix[:t]] for t in range(1, len(prefix) + 1)])
    mask = (torch.arange(longest) <= depths[:, None])[:, None, None, :]
    pairs = torch.tensor(list(next_tokens))
    counts = torch.tensor([float(n) for n in next_tokens.values()])
    flat = ancestors.flatten()

    def attend(q, k, v):
        gather = lambda x: x.index_select(0, flat).view(len(nodes), longest, -1)
        k, v = (heads_first(gather(x), model.heads) for x in (k, v))
        out = F.scaled_dot_product_attention(heads_first(q[:, None], model.heads), k, v, attn_mask=mask)
        return out.transpose(1, 2).flatten(1)

    def loss():
        log_p = model.forward(tokens, depths, attend).log_softmax(-1)
        return -(log_p[pairs[:, 0], pairs[:, 1]] * counts).sum()

    return loss


def train(model, loss, options, predictions):
    parameters = list(model.p.values())
    if options.nanogpt:
        groups = [
            {"params": [x for x in parameters if x.dim() > 1], "weight_decay": 0.1},
            {"params": [x for x in parameters if x.dim() < 2], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)
    else:
        optimizer = torch.optim.Adam(parameters, lr=options.lr, fused=True)
    losses, times = [], []
    steps = options.max_steps if options.nanogpt else options.steps
    begun = time.perf_counter()
    for step in range(steps):
        start = time.perf_counter()
        if options.nanogpt:
            part = min(1.0, max(0.0, (step - 100) / max(1, steps - 100)))
            rate = 1e-3 * (step + 1) / 101 if step < 100 else 1e-4 + 9e-4 * 0.5 * (1 + math.cos(math.pi * part))
            for group in optimizer.param_groups:
                group["lr"] = rate
        value = loss()
        optimizer.zero_grad(set_to_none=True)
        (value / predictions if options.nanogpt else value).backward()
        if options.nanogpt:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            if value.item() <= options.stop_loss:
                losses.append(value.item())
                break
        optimizer.step()
        losses.append(value.item())
        times.append(1e3 * (time.perf_counter() - start))
    seconds = time.perf_counter() - begun
    with torch.no_grad():
        final = loss().item()
    return losses, times, seconds, final


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", required=True)
    parser.add_argument("--docs", required=True)
    parser.add_argument("--mode", choices=("padded", "distinct", "nodes"), default="padded")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--nanogpt", action="store_true")
    parser.add_argument("--stop-loss", type=float, default=0.0)
    parser.add_argument("--max-steps", type=int, default=5000)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with open(options.docs, encoding="utf-8") as file:
        documents = [tuple(d) for d in json.load(file)]
    model = Gpt2(options.weights)
    n_ctx = model.p["pos_embed.W_pos"].shape[0]
    predictions = sum(min(len(d) - 1, n_ctx) for d in documents)
    if options.mode == "padded":
        # Every document is a row of its own.
        rows = Counter()
        for i, d in enumerate(documents):
            rows[Document((*d,), i)] += 1
        loss = padded_loss(model, rows, n_ctx)
    elif options.mode == "distinct":
        loss = padded_loss(model, Counter(d[: n_ctx + 1] for d in documents), n_ctx)
    else:
        loss = nodes_loss(model, Counter(d[: n_ctx + 1] for d in documents), n_ctx)
    for _ in range(options.warm_up):
        loss().backward()
        for value in model.p.values():
            value.grad = None
    losses, times, seconds, final = train(model, loss, options, predictions)
    print(json.dumps({
        "losses": losses,
        "final_loss": final,
        "steps": len(times),
        "seconds": seconds,
        "reached": options.nanogpt and losses[-1] <= options.stop_loss,
        "ms_per_step_median": statistics.median(times) if times else None,
        "ms_per_step_min": min(times) if times else None,
    }))


class Document(tuple):
    """A document that is equal to no other."""

    def __new__(cls, tokens, number):
        made = super().__new__(cls, tokens)
        made.number = number
        return made

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        return self is other


if __name__ == "__main__":
    main()
