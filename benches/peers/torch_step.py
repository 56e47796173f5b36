#!/usr/bin/env python3
"""Full-batch Adam on a one-layer transformer in PyTorch: the peer of `byrote train`, in losses and in speed.

    python3 benches/peers/torch_step.py --weights init.safetensors --docs docs.json
            [--mode paper | positions | contexts | tuned] [--steps 10] [--lr 1e-4] [--f64] [--threads N]
            [--stop-loss NATS [--max-steps 50000]] [--warm-up 3] [--compile]
    python3 benches/peers/torch_step.py --weights init.safetensors --docs docs.json --golden

Requires torch, safetensors and numpy. The initial weights are a byrote model file, whose metadata describe the
model, so no options are needed for it. The documents are JSON, a list of lists of token ids. The output is one
JSON object: the loss in nats, summed over all predictions, before every step (before every `losses_every`-th
step if there are many), the loss after the last step, and the times. Loading and warming up are not timed.

Modes, which compute the same loss:

    positions   every position of every document, in straightforward code
    paper       the same, plus one forward pass per step to log the loss, as the papers' programs do
    contexts    distinct contexts with counts, in straightforward code
    tuned       distinct contexts, rearranged by hand to be as fast as PyTorch allows

How `tuned` saves time. Only the last token of a context has a query, so with M_h = W_Q[h] W_K[h]^T and
N_h = W_V[h] W_O[h]

    score of token s = (x_last M_h + b_Q[h] W_K[h]^T) . x_s
    output           = sum_h (sum_s p_hs x_s) N_h + sum_h b_V[h] W_O[h] + b_O

and no keys or values are computed (q . b_K is the same for every s, so softmax ignores it). A token at a
position is embedded once and gathered by index_select, whose gradient is faster than that of F.embedding or of
indexing. The loss gathers only the pairs of context and next token that occur. Adam is PyTorch's fused version.
Tried without gain: bmm or scaled_dot_product_attention for one head, dense targets, logsumexp in place of
log_softmax. An output layer differentiated by hand in blocks of contexts gains a few percent at d_mlp = 64 and
loses as much at 512. --compile passes loss and gradient to torch.compile, which needs a C++ compiler and half a
minute.

--golden prints the losses before each of 20 steps and after the last, in f64 and f32 (at the rate 1e-2 unless
--lr is given, so that a wrong gradient is visible), and checks that the modes agree; exit status 1 if they do not.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections import Counter, defaultdict

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open

ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "tanh": torch.tanh,
    "logistic": torch.sigmoid,
    "arctan": torch.arctan,
    "relu": torch.relu,
    "erf": torch.erf,
}
MOST_LOSSES = 1000  # beyond that, only every k-th is printed
GOLDEN_STEPS = 20
GOLDEN_LR = 1e-2
GOLDEN_TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-4}  # relative, between modes


class CannotRun(Exception):
    """Unusable input: exit status 2."""


# ---------------------------------------------------------------- the model


class Network:
    """A one-layer transformer as described by its file: `config`, and tensors by name."""

    def __init__(self, path: str, dtype: torch.dtype):
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                self.tensors = {name: file.get_tensor(name).to(dtype) for name in file.keys()}
            self.config = json.loads(metadata["byrote"])["config"]
            self.shape = self.config["shape"]
            self.activation = ACTIVATIONS[self.shape["activation"]]
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise CannotRun("%s is not a byrote model: %r" % (path, error)) from error
        self.scale = self.shape["d_head"] ** -0.5 if self.config["scale_scores"] else 1.0
        self.has_bias = self.config["attention_bias"]
        self.skip = self.config["skip"]
        fixed = ["W_pos"] if self.config["positions"] == "sinusoidal" else []
        self.trained = [name for name in self.tensors if name not in fixed]
        for name in self.trained:
            self.tensors[name].requires_grad_(True)

    def parameters(self) -> list[torch.Tensor]:
        return [self.tensors[name] for name in self.trained]

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.tensors[name]

    def affine(self, x: torch.Tensor, weight: str, bias: str) -> torch.Tensor:
        """Return x W + b for rows x, or x W if the model has no such bias."""
        if bias in self.tensors:
            return torch.addmm(self[bias], x, self[weight])
        return x @ self[weight]

    def after_mixer(self, a: torch.Tensor) -> torch.Tensor:
        """Map the mixer's output, [rows, d_model], to the input of the output layer."""
        if self.config["hidden"] == "absent":
            return a
        u = self.activation(self.affine(a, "W_in", "b_in"))
        if self.config["hidden"] == "output":
            return u
        y = self.affine(u, "W_out", "b_out")
        return y + a if self.skip else y

    def logits(self, a: torch.Tensor) -> torch.Tensor:
        return self.affine(self.after_mixer(a), "W_U", "b_U")


# ---------------------------------------------------------------- every position of every document


class Positions:
    """Modes positions and paper. Shorter documents are padded; padding is ignored."""

    def __init__(self, network: Network, documents: list[list[int]]):
        self.network = network
        longest = max(map(len, documents))
        padded = torch.zeros(len(documents), longest, dtype=torch.long)
        target = torch.full((len(documents), longest - 1), -100)  # ignored by cross_entropy
        for row, document in enumerate(documents):
            padded[row, : len(document)] = torch.tensor(document)
            target[row, : len(document) - 1] = padded[row, 1 : len(document)]
        self.tokens, self.target = padded[:, :-1].contiguous(), target.view(-1)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        """Map [documents, positions, d_model] to [documents * positions, d_model]."""
        net = self.network
        n_heads, d_head = net.shape["n_heads"], net.shape["d_head"]
        rows = x.view(-1, x.shape[-1])
        parts = []
        for name in "QKV":
            weight = net["W_" + name].transpose(0, 1).reshape(-1, n_heads * d_head)
            part = torch.addmm(net["b_" + name].view(-1), rows, weight) if net.has_bias else rows @ weight
            parts.append(part.view(*x.shape[:2], n_heads, d_head).transpose(1, 2))
        z = F.scaled_dot_product_attention(*parts, is_causal=True, scale=net.scale)
        z = z.transpose(1, 2).reshape(-1, n_heads * d_head)
        weight = net["W_O"].view(n_heads * d_head, -1)
        return torch.addmm(net["b_O"], z, weight) if net.has_bias else z @ weight

    def mixed(self) -> torch.Tensor:
        """Return the mixer's output with the skip connection, [documents * positions, d_model]."""
        net = self.network
        x = F.embedding(self.tokens, net["W_E"])
        if "W_pos" in net.tensors:
            x = x + net["W_pos"][: x.shape[1]]
        if net.shape["mixer"] == "average":
            a = (net["u_pos"][: x.shape[1], None] * x).cumsum(1).view(-1, x.shape[-1])
        else:
            a = self.attention(x)
        return a + x.view(-1, x.shape[-1]) if net.skip else a

    def loss(self) -> torch.Tensor:
        return F.cross_entropy(self.network.logits(self.mixed()), self.target, reduction="sum")


# ---------------------------------------------------------------- distinct contexts with counts


def following(documents: list[list[int]]) -> dict[tuple, Counter]:
    """Return the distinct contexts, sorted, with the counts of the tokens that follow."""
    found = defaultdict(Counter)
    for document in documents:
        for length in range(1, len(document)):
            found[tuple(document[:length])][document[length]] += 1
    return dict(sorted(found.items()))


class Contexts(Positions):
    """Mode contexts: contexts instead of documents, read at their last tokens."""

    def __init__(self, network: Network, documents: list[list[int]]):
        contexts = following(documents)
        # One more token each, so that the whole context is read.
        super().__init__(network, [[*context, 0] for context in contexts])
        self.row = torch.arange(len(contexts))
        self.last = torch.tensor([len(context) - 1 for context in contexts])
        pairs = [(i, t, n) for i, counts in enumerate(contexts.values()) for t, n in counts.items()]
        self.context = torch.tensor([i for i, _, _ in pairs])
        self.next = torch.tensor([t for _, t, _ in pairs])
        self.count = torch.tensor([n for _, _, n in pairs], dtype=network["W_E"].dtype)

    def loss(self) -> torch.Tensor:
        mixed = self.mixed().view(*self.tokens.shape, -1)[self.row, self.last]
        log_p = torch.log_softmax(self.network.logits(mixed), -1)
        return -(log_p[self.context, self.next] * self.count).sum()


class Tuned:
    """Mode tuned, described at the head of the file."""

    def __init__(self, network: Network, documents: list[list[int]]):
        self.network = network
        d_vocab, dtype = network.shape["d_vocab"], network["W_E"].dtype
        counts = following(documents)
        contexts = list(counts)
        longest = max(map(len, contexts))
        self.n_contexts = len(contexts)
        length = torch.tensor([len(context) for context in contexts])
        padded = torch.tensor([context + (0,) * (longest - len(context)) for context in contexts])
        # The (token, position) pairs that occur, ordered by position; each is embedded once.
        inside = torch.arange(longest) < length[:, None]
        place = torch.where(inside, padded + d_vocab * torch.arange(longest), padded[:, :1])
        occurring, row = torch.unique(place, return_inverse=True)
        self.token, self.position = occurring % d_vocab, occurring // d_vocab
        self.gathered, self.longest = row.reshape(-1), longest
        self.last = row.gather(1, length[:, None] - 1).view(-1)
        self.inside = inside.to(dtype)
        self.mask = torch.zeros(inside.shape, dtype=dtype).masked_fill_(~inside, -math.inf)
        pairs = [
            (i * d_vocab + token, count)
            for i, context in enumerate(contexts)
            for token, count in counts[context].items()
        ]
        self.pair = torch.tensor([pair for pair, _ in pairs])
        self.count = torch.tensor([count for _, count in pairs], dtype=dtype)

    def mixed(self) -> torch.Tensor:
        """Return attention or average at the last token with the skip connection, [contexts, d_model]."""
        net = self.network
        table = net["W_E"].index_select(0, self.token)
        if "W_pos" in net.tensors:
            table = table + net["W_pos"].index_select(0, self.position)
        x = table.index_select(0, self.gathered).view(self.n_contexts, self.longest, -1)
        last = table.index_select(0, self.last)
        if net.shape["mixer"] == "average":
            a = ((self.inside * net["u_pos"][: self.longest])[:, :, None] * x).sum(1)
        else:
            a = self.attention(x, last)
        return a + last if net.skip else a

    def attention(self, x: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        net = self.network
        n_heads, d_model = net.shape["n_heads"], net.shape["d_model"]
        to_key = net["W_K"].transpose(1, 2) * net.scale
        asks = torch.bmm(net["W_Q"], to_key).transpose(0, 1).reshape(d_model, -1)  # M_h side by side
        gives = torch.bmm(net["W_V"], net["W_O"]).view(-1, d_model)  # N_h one above the other
        if net.has_bias:
            asked = torch.addmm(torch.bmm(net["b_Q"][:, None], to_key).view(-1), last, asks)
        else:
            asked = last @ asks
        if n_heads == 1:
            p = torch.softmax((x * asked[:, None]).sum(-1) + self.mask, -1)
            pooled = (p[:, :, None] * x).sum(1)
        else:
            scores = torch.bmm(asked.view(-1, n_heads, d_model), x.transpose(1, 2))
            p = torch.softmax(scores + self.mask[:, None], -1)
            pooled = torch.bmm(p, x).view(-1, n_heads * d_model)
        if not net.has_bias:
            return pooled @ gives
        return torch.addmm(net["b_V"].view(-1) @ net["W_O"].view(-1, d_model) + net["b_O"], pooled, gives)

    def loss(self) -> torch.Tensor:
        log_p = torch.log_softmax(self.network.logits(self.mixed()), -1)
        return -torch.dot(log_p.view(-1).index_select(0, self.pair), self.count)


# ---------------------------------------------------------------- training


PROBLEMS = {"paper": Positions, "positions": Positions, "contexts": Contexts, "tuned": Tuned}


class Training:
    """A model, its documents, and Adam: PyTorch's default version, or the fused one in mode tuned."""

    def __init__(self, weights: str, documents: list[list[int]], mode: str, lr: float, dtype: torch.dtype):
        network = Network(weights, dtype)
        check(documents, network.shape)
        self.parameters = network.parameters()
        self.start = [p.detach().clone() for p in self.parameters]
        self.loss = PROBLEMS[mode](network, documents).loss
        self.logs = mode == "paper"
        self.settings = {"lr": lr, "fused": True} if mode == "tuned" else {"lr": lr}
        self.reset()

    def reset(self):
        """Restore the initial weights and reset Adam's moments."""
        with torch.no_grad():
            for parameter, start in zip(self.parameters, self.start):
                parameter.copy_(start)
        self.adam = torch.optim.Adam(self.parameters, **self.settings)

    def step(self, stop_loss: float = -math.inf) -> tuple[float, bool]:
        """Take a step unless the loss is low enough or not finite. Return the loss before it, and whether it stopped."""
        self.adam.zero_grad()
        loss = self.loss()
        value = loss.item()
        if value <= stop_loss or not math.isfinite(value):
            return value, True
        loss.backward()
        self.adam.step()
        if self.logs:
            self.evaluate()
        return value, False

    def evaluate(self) -> float:
        with torch.no_grad():
            return self.loss().item()


def check(documents: list[list[int]], shape: dict):
    longest = max(map(len, documents), default=0)
    if longest < 2:
        raise CannotRun("no document has two tokens or more")
    if longest > shape["n_ctx"] + 1:
        raise CannotRun("a document of %d tokens for contexts of up to %d" % (longest, shape["n_ctx"]))
    if not all(0 <= token < shape["d_vocab"] for document in documents for token in document):
        raise CannotRun("a token id outside the vocabulary of %d" % shape["d_vocab"])


def measure(options, documents: list[list[int]]) -> dict:
    dtype = torch.float64 if options.f64 else torch.float32
    lr = 1e-4 if options.lr is None else options.lr
    training = Training(options.weights, documents, options.mode, lr, dtype)
    if options.compile:
        training.loss = torch.compile(training.loss)
    for _ in range(options.warm_up):
        training.step()
    training.reset()
    most = options.steps if options.stop_loss is None else options.max_steps
    target = -math.inf if options.stop_loss is None else options.stop_loss
    every = max(1, -(-most // MOST_LOSSES))
    losses, milliseconds, stop = [], [], "steps"
    before = begin = time.perf_counter()
    for number in range(most):
        loss, stopped = training.step(target)
        after = time.perf_counter()
        if number % every == 0 or stopped:
            losses.append(loss if math.isfinite(loss) else None)
        if stopped:
            stop = "loss" if loss <= target else "diverged"
            break
        milliseconds.append((after - before) * 1e3)
        before = after
    seconds = time.perf_counter() - begin
    final = training.evaluate()
    return {
        "mode": options.mode,
        "precision": "f64" if options.f64 else "f32",
        "lr": lr,
        "steps": len(milliseconds),
        "stop": stop,
        "losses": losses,
        "losses_every": every,
        "final_loss": final if math.isfinite(final) else None,
        "seconds": seconds,
        "ms_per_step_median": statistics.median(milliseconds) if milliseconds else None,
        "ms_per_step_min": min(milliseconds, default=None),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def golden(options, documents: list[list[int]]) -> tuple[dict, bool]:
    """Return the losses before each of GOLDEN_STEPS steps and after the last, and whether the modes agree."""
    lr = GOLDEN_LR if options.lr is None else options.lr
    record = {"steps": GOLDEN_STEPS, "lr": lr, "mode": options.mode, "torch": torch.__version__}
    agree = True
    for name, dtype in (("f64", torch.float64), ("f32", torch.float32)):
        losses = {}
        for mode in ("positions", "contexts", "tuned"):
            training = Training(options.weights, documents, mode, lr, dtype)
            losses[mode] = [training.step()[0] for _ in range(GOLDEN_STEPS)] + [training.evaluate()]
        spread = max(
            abs(a - b) / abs(a)
            for mode in ("contexts", "tuned")
            for a, b in zip(losses["positions"], losses[mode])
        )
        agree &= spread <= GOLDEN_TOLERANCE[dtype]
        record[name] = losses["positions" if options.mode == "paper" else options.mode]
        record["modes_differ_" + name] = spread
    return record, agree


def arguments():
    parser = argparse.ArgumentParser(description="Full-batch Adam on a one-layer transformer in PyTorch.")
    parser.add_argument("--weights", required=True, metavar="FILE", help="a byrote model file")
    parser.add_argument("--docs", required=True, metavar="FILE", help="JSON: a list of lists of token ids")
    parser.add_argument("--mode", choices=PROBLEMS, default="contexts", help="default contexts")
    parser.add_argument("--steps", type=int, default=10, help="Adam steps (default 10); 0 evaluates only")
    parser.add_argument("--lr", type=float, help="learning rate (default 1e-4; 1e-2 with --golden)")
    parser.add_argument("--f64", action="store_true", help="double precision")
    parser.add_argument("--threads", type=int, help="default: PyTorch's choice")
    parser.add_argument("--stop-loss", type=float, metavar="NATS", help="stop at a loss of at most this")
    parser.add_argument("--max-steps", type=int, default=50_000, help="with --stop-loss (default 50000)")
    parser.add_argument("--warm-up", type=int, default=3, metavar="K", help="steps before the clock starts")
    parser.add_argument("--compile", action="store_true", help="torch.compile the loss and its gradient")
    parser.add_argument("--golden", action="store_true", help="print the losses of 20 steps in f64 and f32")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.threads:
        torch.set_num_threads(options.threads)
    try:
        with open(options.docs, encoding="utf-8") as file:
            documents = json.load(file)
    except (OSError, ValueError) as error:
        raise CannotRun("%s: %s" % (options.docs, error)) from error
    if options.golden:
        record, agree = golden(options, documents)
    else:
        record, agree = measure(options, documents), True
    print(json.dumps(record, allow_nan=False))
    if not agree:
        print("torch_step: the modes do not agree", file=sys.stderr)
    return 0 if agree else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotRun as error:
        print("torch_step: %s" % error, file=sys.stderr)
        sys.exit(2)
