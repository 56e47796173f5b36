#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: small files made by the program, and hostile variants of them.

    python3 fuzz/make_seeds.py target/release/byrote

Parquet seeds, which need a writer of that format, come from the test that replays the seeds (`BYROTE_BLESS=1`), and Arrow
seeds from make_arrow_seeds.py. Files whose name begins with `found-` were found by a fuzzer or an attack and are never rewritten.
"""

import gzip
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SEEDS = Path(__file__).parent / "seeds"
PROGRAM = Path(sys.argv[1]).resolve()


def seed(target: str, name: str, data: bytes | str) -> None:
    folder = SEEDS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)


def run(folder: Path, *arguments: str) -> None:
    command = [str(PROGRAM), *arguments, "--quiet", "--json", "--threads", "1"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def tensors(target: str, name: str, data: bytes) -> None:
    """A safetensors file and its hostile variants."""
    seed(target, name, data)
    size = struct.unpack("<Q", data[:8])[0]
    header, rest = data[8 : 8 + size], data[8 + size :]

    def with_header(altered: bytes) -> bytes:
        return struct.pack("<Q", len(altered)) + altered + rest

    seed(target, f"{name}-truncated", data[:-1])
    seed(target, f"{name}-header-only", data[: 8 + size])
    seed(target, f"{name}-huge-header", struct.pack("<Q", 2**63) + data[8:])
    seed(target, f"{name}-long-header", struct.pack("<Q", 99_999_999) + data[8:])
    seed(target, f"{name}-nan", data[:-8] + struct.pack("<d", float("nan")))
    seed(target, f"{name}-infinite", data[:-8] + struct.pack("<d", float("inf")))
    for key in [b"d_model", b"n_ctx", b"d_vocab", b"d_mlp", b"n_heads", b"repeat", b"memory", b"step"]:
        at = header.find(b'\\"' + key + b'\\":')
        if at < 0:
            continue
        start = at + len(key) + 5
        end = start
        while header[end : end + 1].isdigit():
            end += 1
        for value in [b"0", b"18446744073709551615", b"4294967296"]:
            lie = header[:start] + value + header[end:]
            seed(target, f"{name}-{key.decode()}-{value.decode()[:5]}", with_header(lie))
    parsed = json.loads(header)
    first = next(k for k in parsed if k != "__metadata__")
    for label, shape in [("overflow", [2**32, 2**32, 16]), ("empty", [0, 2**40]), ("flat", [])]:
        altered = json.loads(header)
        altered[first]["shape"] = shape
        seed(target, f"{name}-shape-{label}", with_header(json.dumps(altered).encode()))
    nested = header.replace(b'{\\"format', b'{\\"x\\":' + b"[" * 300 + b"]" * 300 + b',\\"format', 1)
    seed(target, f"{name}-nested", with_header(nested))


def models(folder: Path) -> None:
    (folder / "a.txt").write_text("abab\nabac\nabb\n")
    corpus = ["a.txt", "--tokenizer", "char", "--n-ctx", "3"]
    run(folder, "build", "madden2024", *corpus, "--d-model", "2", "--out", "built.safetensors")
    tensors("model", "built", (folder / "built.safetensors").read_bytes())
    run(folder, "train", *corpus, "--d-model", "2", "--d-mlp", "2", "--steps", "2", "--out", "run")
    tensors("model", "trained", (folder / "run/model.safetensors").read_bytes())
    adam = [*corpus, "--d-model", "2", "--d-mlp", "2", "--steps", "2", "--stop-relative-gap", "0"]
    for optimizer in ["adam", "lbfgs"]:
        out = f"stopped-{optimizer}"
        run(folder, "train", *adam, "--optimizer", optimizer, "--checkpoint-every", "0", "--out", out)
        tensors("checkpoint", optimizer, (folder / out / "checkpoint.safetensors").read_bytes())
    for preset in ["dana2024", "average"]:
        run(folder, "train", *corpus, "--preset", preset, "--d-model", "2", "--steps", "0", "--out", preset)
        seed("model", preset, (folder / preset / "model.safetensors").read_bytes())
    small = ["incontext", "--d", "2", "--length", "4", "--sequences", "1", "--layers", "2"]
    for kernel in ["linear", "exp"]:
        run(folder, *small, "--kernel", kernel, "--save", f"{kernel}.safetensors")
        tensors("incontext_network", kernel, (folder / f"{kernel}.safetensors").read_bytes())


def fnv1a(data: bytes) -> int:
    state = 0xCBF29CE484222325
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) % 2**64
    return state


def exact_networks(folder: Path) -> None:
    (folder / "b.txt").write_text("a b\nb a\nc c\n")
    for method in ["bounded", "searched"]:
        run(folder, "build", "kajitsuka2024", "b.txt", "--method", method, "--out", f"{method}.exact")
        text = (folder / f"{method}.exact").read_text()
        seed("exact_network", method, text)
        seed("exact_network", f"{method}-truncated", text[: len(text) // 2])
        body = text[: text.rindex("end ")]

        def forged(name: str, old: str, new: str) -> None:
            lie = body.replace(old, new, 1)
            seed("exact_network", f"{method}-{name}", f"{lie}end {fnv1a(lie.encode()):016x}\n")

        forged("exponent", "neuron V:1", "neuron V:1/268435456")
        forged("huge-exponent", "neuron V:1", "neuron V:1/99999999999999999999")
        forged("deep", " 1\n", " 4294967295\n")
        forged("many-digits", "neuron V:1", "neuron V:1" + "f" * 5000)
        forged("labels", '"labels":', '"labels":4294967295,"x":')
        forged("vocabulary", '"d_vocab":3', '"d_vocab":4294967295')
        forged("n-ctx", '"n_ctx":', '"n_ctx":4294967295,"y":')
        forged("nested", '{"task"', '{"x":' + "[" * 300 + "]" * 300 + ',"task"')
    seed("exact_network", "magic-only", "byrote exact network 1\n")


def leb(n: int) -> bytes:
    out = b""
    while n >= 128:
        out += bytes([n % 128 + 128])
        n //= 128
    return out + bytes([n])


def summaries(folder: Path) -> None:
    for name, text, *options in [
        ("words", "a b c\na b d\na b\n", "--eos"),
        ("characters", "abab\nabac\nabb\nxxxxxxxxxxxxxxxxxxxx\n", "--tokenizer", "char", "--bos"),
        ("full", "a b c\na b d\n", "--contexts", "full"),
    ]:
        (folder / "s.txt").write_text(text)
        run(folder, "corpus", "s.txt", *options, "--save", f"{name}.summary")
        saved = (folder / f"{name}.summary").read_bytes()
        seed("summary", name, saved)
        seed("summary", f"{name}-truncated", saved[:-3])
        raw = subprocess.run(["zstd", "-dc"], input=saved[8:], stdout=subprocess.PIPE, check=True).stdout
        seed("summary", f"{name}-run", raw)
        size = raw[0] % 128 + (raw[1] * 128 if raw[0] > 127 else 0)
        start = 2 if raw[0] > 127 else 1
        header = raw[start : start + size]
        rest = raw[start + size :]
        huge = header.replace(b'"n_ctx":9', b'"n_ctx":4294967295')
        seed("summary", f"{name}-run-n-ctx", leb(len(huge)) + huge + rest)
        seed("summary", f"{name}-run-length", leb(2**63) + header + rest)
        seed("summary", f"{name}-run-vocabulary", leb(len(header)) + header + leb(2**31) + rest[1:])
        seed("summary", f"{name}-run-counts", raw[:-8] + leb(2**64 - 1) * 2 + raw[-8:])
    seed("summary", "format-0", b"byrote\0\0" + bytes(20))
    seed("summary", "format-255", b"byrote\0\xff" + bytes(20))
    seed("summary", "magic-only", b"byrote\0\x01")


def ranges(folder: Path) -> None:
    """Files of ranges of windows, and the JSON inside of them."""
    (folder / "r.txt").write_text("abracadabra abracadabra, to be or not to be\n")
    windows = ["corpus", "r.txt", "--contexts", "windows", "--n-ctx", "5"]
    for name, options in [
        ("characters", ["--tokenizer", "char"]),
        ("full", ["--tokenizer", "char", "--exact-length"]),
        ("words", ["--stride", "2"]),
        ("half", ["--tokenizer", "byte", "--range", "1/2"]),
    ]:
        run(folder, *windows, *options, "--save", f"{name}.range")
        saved = (folder / f"{name}.range").read_bytes()
        raw = subprocess.run(["zstd", "-dc"], input=saved[8:], stdout=subprocess.PIPE, check=True).stdout
        seed("range", name, saved)
        seed("range", f"{name}-truncated", saved[:-3])
        seed("range", f"{name}-json", raw)
        for label, path, value in [
            ("n-ctx", ["facts", "rule", "n_ctx"], 2**26),
            ("stride", ["facts", "rule", "stride"], 2**63),
            ("tokens", ["facts", "tokens"], 2**64 - 1),
            ("positions", ["facts", "positions"], 2**53),
            ("windows", ["figures", "windows"], 2**53),
            ("lengths", ["figures", "lengths"], [2**53] * 7),
            ("contexts", ["figures", "contexts"], [-(2**53)] * 8),
            ("never", ["unique", "never"], 2**53),
            ("bins", ["bins"], [{"bin": 4095, "starts": 44, "kept": 44, "ended": 0, "children": 44}] * 3),
            ("marks-at-the-end", ["marks"], [44, 6]),
            ("marks-of-no-level", ["marks"], [1, 255, 43, 0]),
            ("marks-too-many", ["marks"], [2**64 - 1, 1, 2, 3]),
            ("firsts", ["firsts"], []),
            ("excess", ["figures", "excess"], [[2**26, 5, 1]]),
            ("nodes", ["nodes"], [[2**26, 5, 1]]),
        ]:
            altered = json.loads(raw)
            inner = altered
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
            if label == "n-ctx":
                altered["facts"]["header"]["window"]["n_ctx"] = value
            seed("range", f"{name}-{label}", json.dumps(altered, separators=(",", ":")))
    seed("range", "format-255", b"byrotew\xff" + bytes(20))
    seed("range", "magic-only", b"byrotew\x02")


def run_directories(folder: Path) -> None:
    plan = '[corpus]\ndocuments = 3\n[model]\nd_model = 2\nd_mlp = 2\n[training]\nsteps = [1, 2]\n'
    (folder / "plan.toml").write_text(plan)
    run(folder, "sweep", "plan.toml", "--out", "sweep")
    manifest = (folder / "sweep/manifest.toml").read_text()
    journal = (folder / "sweep/journal.jsonl").read_text()
    curve = next((folder / "sweep/curves").iterdir()).read_text()
    whole = "\0".join([manifest, journal, curve])
    seed("run_directory", "sweep", whole)
    seed("run_directory", "truncated", whole[: len(whole) * 2 // 3])
    # Journals as they were written before their lines had checksums.
    lines = [json.loads(line) for line in journal.splitlines()]
    for line in lines:
        line.pop("checksum", None)
    old = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    seed("run_directory", "without-checksums", "\0".join([manifest, old, curve]))
    for name, before, after in [
        ("numbers", '"loss_nats":', '"loss_nats":1e999,"x":'),
        ("negative", '"contexts":', '"contexts":-1,"y":'),
        ("unknown-event", '"event":"over"', '"event":"undone"'),
        ("nested", '"time":', '"z":' + "[" * 300 + "]" * 300 + ',"time":'),
    ]:
        seed("run_directory", name, "\0".join([manifest, old.replace(before, after, 1), curve]))
    lie = manifest.replace("jobs = 2", "jobs = 9223372036854775807")
    seed("run_directory", "jobs", "\0".join([lie, journal, "step\n1,1,nan,nan\n1e400,,,\n"]))
    seed("plan", "grid", plan)
    (SEEDS / "plan").mkdir(parents=True, exist_ok=True)
    for path in sorted((SEEDS.parent.parent / "plans").glob("*.toml")):
        seed("plan", path.stem, path.read_text())
    seed("plan", "nested", "a = " + "[" * 1000 + "]" * 1000)
    seed("plan", "dotted", ".".join(["a"] * 2000) + " = 1")
    seed("plan", "many-jobs", "seeds = " + str(list(range(400))) + "\n[model]\nd_mlp = " + str(list(range(400))))
    axes = "".join(f"{k} = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" for k in ["d_model", "n_heads", "d_head", "d_mlp"])
    seed("plan", "many-points", "[model]\n" + axes)
    seed("plan", "many-documents", "[corpus]\ndocuments = 1000000000000\n")
    seed("plan", "huge-numbers", "seeds = 9223372036854775807\n[training]\nsteps = 99999999999999999999\n")
    seed("plan", "nan", "[training]\nlr = nan\nstop_gap = inf\n")
    seed("plan", "lengths", '[corpus]\nlengths = "1..18446744073709551615"\nd_vocab = 4294967295\nlabels = 4294967295\n')
    seed("plan", "empty", "")


def studies(folder: Path) -> None:
    run(folder, "study", "--builtin", "3", "--quick", "--out", "study")
    study = (folder / "study/study.json").read_text()
    # Without indentation: the smaller a seed, the better.
    small = json.dumps(json.loads(study), separators=(",", ":"))
    seed("study", "stories", small)
    seed("study", "truncated", small[: len(small) // 2])
    for name, before, after in [
        ("numbers", '"floor_nats":', '"floor_nats":1e999,"x":'),
        ("negative", '"contexts":', '"contexts":-1,"y":'),
        ("empty", '"trained":[', '"trained":[],"z":['),
    ]:
        seed("study", name, small.replace(before, after, 1))


def tokenizers() -> None:
    added = [{"id": 5, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True}]
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None}
    word = {"type": "WordLevel", "vocab": {"Once": 0, "upon": 1, "[UNK]": 2}, "unk_token": "[UNK]"}
    pairs = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "vocab": {"O": 0, "n": 1, "On": 2}, "merges": [["O", "n"]]}
    piece = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "Once": 1, "##ce": 2, "On": 3}}
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["On", -1.0], ["ce", -2.0]],
               "byte_fallback": False}
    for model in [word, pairs, piece, unigram]:
        seed("tokenizer", model["type"].lower(), json.dumps({**base, "model": model}))
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    for name, more in [
        ("byte-level", {"pre_tokenizer": byte_level, "model": pairs}),
        ("split", {"pre_tokenizer": split, "model": pairs}),
        ("bad-regex", {"pre_tokenizer": {**split, "pattern": {"Regex": "(" * 50}}, "model": pairs}),
        ("normalizers", {"normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "StripAccents"}]}, "model": word}),
        ("padding", {"truncation": {"max_length": 0, "stride": 9, "strategy": "LongestFirst", "direction": "Right"},
                     "padding": {"strategy": {"Fixed": 2**40}, "direction": "Right", "pad_to_multiple_of": None,
                                 "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}, "model": word}),
        ("huge-ids", {"model": {**word, "vocab": {"Once": 4294967295, "[UNK]": 0}}}),
        ("missing-unknown", {"model": {**word, "unk_token": "nowhere"}}),
        ("bad-merge", {"model": {**pairs, "merges": [["x", "y"]]}}),
        ("unknown-id", {"model": {**unigram, "unk_id": 99}}),
        ("nan-score", {"model": {**unigram, "vocab": [["<unk>", -1e308], ["On", 1e308]]}}),
        ("empty-vocabulary", {"model": {**unigram, "vocab": [], "unk_id": None}}),
        ("byte-fallback", {"model": {**unigram, "byte_fallback": True}}),
    ]:
        seed("tokenizer", name, json.dumps({**base, **more}))
    seed("tokenizer", "nested", "[" * 5000)
    seed("tokenizer", "not-json", "\x00\x01")


def safetensors(shapes: dict[str, list[int]], kind: str = "F32") -> bytes:
    """A file of made-up numbers."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    size = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8}[kind]
    for name, shape in shapes.items():
        entries = 1
        for side in shape:
            entries *= side
        start = len(data)
        # Small positive numbers in every type.
        data += bytes([0] * (size - 1) + [0x3C]) * entries
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def huggingface() -> None:
    """Directories of Hugging Face: config.json, the list of shards and the weights, with a NUL byte between them."""
    d, m, v, t = 4, 3, 5, 6
    norm = lambda name: {f"{name}.weight": [d], f"{name}.bias": [d]}
    both = lambda name, rows, columns, out: {f"{name}.weight": [rows, columns], f"{name}.bias": [out]}
    h = "transformer.h.0."
    gpt2 = {"transformer.wte.weight": [v, d], "transformer.wpe.weight": [t, d], **norm(h + "ln_1"),
            **both(h + "attn.c_attn", d, 3 * d, 3 * d), **both(h + "attn.c_proj", d, d, d), **norm(h + "ln_2"),
            **both(h + "mlp.c_fc", d, m, m), **both(h + "mlp.c_proj", m, d, d), **norm("transformer.ln_f")}
    n = "gpt_neox.layers.0."
    neox = {"gpt_neox.embed_in.weight": [v, d], **norm(n + "input_layernorm"),
            **both(n + "attention.query_key_value", 3 * d, d, 3 * d), **both(n + "attention.dense", d, d, d),
            **norm(n + "post_attention_layernorm"), **both(n + "mlp.dense_h_to_4h", m, d, m),
            **both(n + "mlp.dense_4h_to_h", d, m, d), **norm("gpt_neox.final_layer_norm"), "embed_out.weight": [v, d]}
    k = "model.layers.0."
    llama = {"model.embed_tokens.weight": [v, d], k + "input_layernorm.weight": [d],
             k + "self_attn.q_proj.weight": [d, d], k + "self_attn.k_proj.weight": [2, d],
             k + "self_attn.v_proj.weight": [2, d], k + "self_attn.o_proj.weight": [d, d],
             k + "post_attention_layernorm.weight": [d], k + "mlp.gate_proj.weight": [m, d],
             k + "mlp.up_proj.weight": [m, d], k + "mlp.down_proj.weight": [d, m], "model.norm.weight": [d]}
    biases = {k + "self_attn.q_proj.bias": [d], k + "self_attn.k_proj.bias": [2], k + "self_attn.v_proj.bias": [2]}
    of_gpt2 = {"model_type": "gpt2", "vocab_size": v, "n_positions": t, "n_embd": d, "n_layer": 1, "n_head": 2, "n_inner": m}
    others = {"vocab_size": v, "max_position_embeddings": t, "hidden_size": d, "num_hidden_layers": 1,
              "num_attention_heads": 2, "intermediate_size": m}
    of_neox = {**others, "model_type": "gpt_neox", "rotary_pct": 1.0, "rotary_emb_base": 10000}
    of_llama = {**others, "model_type": "llama", "num_key_value_heads": 1, "tie_word_embeddings": True, "rope_theta": 500.0}
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 16, "rope_theta": 500.0}

    def directory(name: str, config: dict | str, weights: bytes, index: dict | str = "") -> None:
        config, index = (x if isinstance(x, str) else json.dumps(x, separators=(",", ":")) for x in (config, index))
        seed("huggingface", name, config.encode() + b"\0" + index.encode() + b"\0" + weights)

    plain = safetensors(gpt2)
    directory("gpt2", of_gpt2, plain)
    directory("gpt2-old-names", of_gpt2, safetensors({n.removeprefix("transformer."): s for n, s in gpt2.items()}, "F16"))
    directory("gpt2-untied", {**of_gpt2, "tie_word_embeddings": False}, safetensors({**gpt2, "lm_head.weight": [v, d]}))
    directory("gpt-neox", of_neox, safetensors(neox, "F64"))
    directory("llama", of_llama, safetensors(llama, "BF16"))
    directory("llama3", {**of_llama, "rope_parameters": llama3}, safetensors(llama))
    directory("qwen2", {**of_llama, "model_type": "qwen2"}, safetensors({**llama, **biases}))
    shard = "model-00001-of-00001.safetensors"
    listed = {"weight_map": {name: shard for name in gpt2}}
    directory("sharded", of_gpt2, plain, listed)
    directory("shard-path", of_gpt2, plain, {"weight_map": {"wte.weight": "../../etc/passwd"}})
    directory("shard-missing", of_gpt2, plain, {"weight_map": {"wte.weight": "other.safetensors"}})
    directory("shard-list", of_gpt2, plain, "[" * 500)
    for key in ["vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner"]:
        for value in [0, 2**32, 2**64 - 1, -1, 1.5, "4"]:
            directory(f"gpt2-{key}-{str(value)[:5]}", {**of_gpt2, key: value}, plain)
    for name, more in [
        ("unknown", {"model_type": "bloom"}), ("yarn", {"rope_scaling": {"rope_type": "yarn", "factor": 2}}),
        ("theta", {"rope_theta": 1e999}), ("factor", {"rope_scaling": {"type": "linear", "factor": 1e-320}}),
        ("equal-factors", {"rope_parameters": {**llama3, "low_freq_factor": 4.0}}),
        ("many-positions", {"max_position_embeddings": 2**40}), ("quantized", {"quantization_config": {}}),
        ("huge-head", {"head_dim": 2**40}),
    ]:
        directory(f"llama-{name}", {**of_llama, **more}, safetensors(llama))
    directory("share", {**of_neox, "rotary_pct": 1e300}, safetensors(neox))
    directory("nan", of_gpt2, plain[:-4] + struct.pack("<f", float("nan")))
    directory("truncated", of_gpt2, plain[:-1])
    directory("huge-header", of_gpt2, struct.pack("<Q", 2**63) + plain[8:])
    directory("not-json", "{", plain)
    directory("nested", "[" * 5000, plain)


def gguf_value(value: object) -> bytes:
    """The type and the bytes of a value of metadata; bytes are taken as they are."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    kinds = [gguf_value(v) for v in value]
    kind = struct.unpack("<I", kinds[0][:4])[0] if kinds else 8
    return struct.pack("<IIQ", 9, kind, len(kinds)) + b"".join(k[4:] for k in kinds)


def gguf_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_file(entries: dict, tensors: dict, version: int = 3, alignment: int = 32) -> bytes:
    """Tensors: name to sizes (the fastest first), type, bytes and, if it lies, offset."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    for key, value in entries.items():
        head += gguf_string(key) + gguf_value(value)
    data = b""
    for name, (sizes, kind, content, *offset) in tensors.items():
        data += bytes(-len(data) % alignment)
        head += gguf_string(name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
        head += struct.pack("<IQ", kind, *offset or [len(data)])
        data += content
    return head + bytes(-len(head) % alignment) + data


def gguf() -> None:
    """GGUF files of one block, in f32 and quantized, with tokenizers, and files that lie."""
    d, m, v = 4, 3, 6
    key = lambda name, values: {f"{name}.{k}": value for k, value in values.items()}
    sizes = {"context_length": 6, "embedding_length": d, "block_count": 1, "feed_forward_length": m,
             "attention.head_count": 2, "attention.head_count_kv": 1, "attention.layer_norm_rms_epsilon": 1e-5}
    of_llama = {"general.architecture": "llama", **key("llama", sizes), "llama.rope.freq_base": 500.0}
    of_qwen2 = {"general.architecture": "qwen2", **key("qwen2", sizes)}

    def plain(*sides: int) -> tuple:
        entries = 1
        for side in sides:
            entries *= side
        return list(sides), 0, struct.pack("<f", 0.0078125) * entries

    llama = {"token_embd.weight": plain(d, v), "output_norm.weight": plain(d), "blk.0.attn_norm.weight": plain(d),
             "blk.0.ffn_norm.weight": plain(d), "blk.0.attn_q.weight": plain(d, d), "blk.0.attn_k.weight": plain(d, 2),
             "blk.0.attn_v.weight": plain(d, 2), "blk.0.attn_output.weight": plain(d, d), "blk.0.ffn_gate.weight": plain(d, m),
             "blk.0.ffn_up.weight": plain(d, m), "blk.0.ffn_down.weight": plain(m, d)}
    biases = {f"blk.0.attn_{name}.bias": plain(n) for name, n in [("q", d), ("k", 2), ("v", 2)]}
    tokens = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": ["<e>", "O", "n", "On", "1", "!"],
              "tokenizer.ggml.token_type": [struct.pack("<Ii", 5, t) for t in [3, 1, 1, 1, 1, 1]],
              "tokenizer.ggml.merges": ["O n"], "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.add_bos_token": True}
    pieces = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["<unk>", "<s>", "\u2581", "O", "\u2581O", "<0x0A>"],
              "tokenizer.ggml.token_type": [struct.pack("<Ii", 5, t) for t in [2, 3, 1, 1, 1, 6]],
              "tokenizer.ggml.scores": [0.0, 0.0, -1.0, -2.0, -3.0, 0.0], "tokenizer.ggml.bos_token_id": 1}
    whole = gguf_file({**of_llama, **tokens}, llama)
    seed("gguf", "llama", whole)
    seed("gguf", "version-2", gguf_file(of_llama, llama, version=2))
    seed("gguf", "aligned", gguf_file({**of_llama, "general.alignment": 8}, llama, alignment=8))
    seed("gguf", "untied", gguf_file(of_llama, {**llama, "output.weight": plain(d, v)}))
    seed("gguf", "biases", gguf_file(of_llama, {**llama, **biases}))
    seed("gguf", "qwen2", gguf_file(of_qwen2, {**llama, **biases}))
    seed("gguf", "pieces", gguf_file({**of_llama, **pieces}, llama))
    for rule in ["smollm", "llama-bpe", "qwen2", "default", "unknown"]:
        seed("gguf", f"splitting-{rule}", gguf_file({**of_llama, **tokens, "tokenizer.ggml.pre": rule}, llama))
    factors = lambda *values: ([len(values)], 0, struct.pack(f"<{len(values)}f", *values))
    for name, content in [("one", factors(1.0)), ("eight", factors(8.0)), ("nan", factors(float("nan"))), ("many", factors(1.0, 2.0))]:
        seed("gguf", f"factors-{name}", gguf_file(of_llama, {**llama, "rope_freqs.weight": content}))
    wide = {**of_llama, "llama.embedding_length": 256, "llama.attention.head_count": 1, "llama.attention.key_length": 2,
            "llama.feed_forward_length": 1}
    for kind, block, size in [(1, 1, 2), (2, 32, 18), (3, 32, 20), (6, 32, 22), (7, 32, 24), (8, 32, 34), (10, 256, 84),
                              (11, 256, 110), (12, 256, 144), (13, 256, 176), (14, 256, 210), (30, 1, 2), (23, 256, 136)]:
        row = bytes(i * 7 % 60 for i in range(256 // block * size))
        rows = {"token_embd": v, "blk.0.attn_q": 2, "blk.0.attn_k": 2, "blk.0.attn_v": 2, "blk.0.ffn_gate": 1, "blk.0.ffn_up": 1}
        others = {"blk.0.attn_output.weight": plain(2, 256), "blk.0.ffn_down.weight": plain(1, 256)}
        norms = {name: plain(256) for name in llama if "norm" in name}
        quantized = {f"{name}.weight": ([256, n], kind, row * n) for name, n in rows.items()}
        seed("gguf", f"type-{kind}", gguf_file(wide, {**quantized, **others, **norms}))
    seed("gguf", "truncated", whole[:-1])
    seed("gguf", "half", whole[: len(whole) // 2])
    seed("gguf", "big-endian", b"GGUF" + struct.pack(">I", 3) + whole[8:])
    for name, at in [("tensors", 8), ("entries", 16), ("key", 24)]:
        for value in [2**64 - 1, 2**40, 60_000]:
            seed("gguf", f"many-{name}-{value}", whole[:at] + struct.pack("<Q", value) + whole[at + 8 :])
    array = lambda kind, n, rest=b"": struct.pack("<IIQ", 9, kind, n) + rest
    nested = b""
    for _ in range(300):
        nested = struct.pack("<IQ", 9, 1) + nested
    for name, value in [("text", struct.pack("<IQ", 8, 2**63)), ("numbers", array(10, 2**61)), ("texts", array(8, 2**62)),
                        ("arrays", array(9, 2**62)), ("nested", struct.pack("<I", 9) + nested), ("type", struct.pack("<I", 13)),
                        ("switch", struct.pack("<IB", 7, 2)), ("not-text", struct.pack("<IQ", 8, 1) + b"\xff")]:
        seed("gguf", f"value-{name}", gguf_file({**of_llama, "x": value}, llama))
    for name, more in [("architecture", {"general.architecture": "gpt2"}), ("alignment", {"general.alignment": 0}),
                       ("alignment-huge", {"general.alignment": struct.pack("<IQ", 10, 2**63)}), ("split", {"split.count": 2}),
                       ("head", {"llama.attention.key_length": struct.pack("<IQ", 10, 2**40)}), ("heads", {"llama.attention.head_count": 0}),
                       ("blocks", {"llama.block_count": 2**32 - 1}), ("theta", {"llama.rope.freq_base": float("nan")}),
                       ("types", {**tokens, "tokenizer.ggml.token_type": [1]}), ("merges", {**tokens, "tokenizer.ggml.merges": ["x"]}),
                       ("start", {**tokens, "tokenizer.ggml.bos_token_id": 2**31}), ("scores", {**pieces, "tokenizer.ggml.scores": [0.5]})]:
        seed("gguf", f"wrong-{name}", gguf_file({**of_llama, **more}, llama))
    head = {"llama.attention.key_length": struct.pack("<IQ", 10, 2**39)}
    seed("gguf", "factors-of-a-huge-head", gguf_file({**of_llama, **head}, {**llama, "rope_freqs.weight": factors(8.0)}))
    up = "blk.0.ffn_up.weight"
    for name, tensor in [("overflow", ([2**62, 2**62], 0, b"")), ("huge", ([2**40, 3], 0, b"")), ("none", ([], 0, b"")),
                         ("five", ([1] * 5, 0, b"")), ("zero", ([0, 3], 0, b"")), ("far", ([d, m], 0, b"", 2**64 - 32)),
                         ("overlap", ([d, m], 0, b"", 0)), ("odd", ([d, m], 0, b"", 1)), ("type", ([d, m], 99, b""))]:
        seed("gguf", f"tensor-{name}", gguf_file(of_llama, {**llama, up: tensor}))


def onnx() -> None:
    """Protocol buffers like those of ONNX files: a version, a graph with a node, a text."""

    def field(number: int, data: bytes) -> bytes:
        return leb(8 * number + 2) + leb(len(data)) + data

    node = field(1, field(1, b"x") + field(2, b"y") + field(4, b"Identity"))
    graph = node + field(2, b"graph") + b"\x1d\x00\x00\x80\x3f" + b"\x21" + bytes(8)
    version = b"\x08\x09"
    whole = version + field(7, graph) + field(2, b"byrote")
    seed("onnx", "empty", b"")
    seed("onnx", "whole", whole)
    seed("onnx", "truncated", whole[:-1])
    seed("onnx", "two-graphs", whole + field(7, node))
    seed("onnx", "long-graph", version + leb(58) + leb(2**62) + graph)
    seed("onnx", "long-node", version + field(7, leb(10) + leb(len(node)) + node[:4]))
    seed("onnx", "field-0", b"\x02\x00" + whole)
    seed("onnx", "group", b"\x0b" + whole)
    seed("onnx", "endless-number", b"\xff" * 100)


def arrays() -> None:
    def npy(descr: str, shape: str, data: bytes, order: str = "False", version: int = 1) -> bytes:
        header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({shape}), }}\n".encode()
        length = struct.pack("<H" if version == 1 else "<I", len(header))
        return b"\x93NUMPY" + bytes([version, 0]) + length + header + data

    ids = struct.pack("<6H", 1, 2, 0, 1, 2, 3)
    for name, data in [
        ("rows", npy("<u2", "2, 3", ids)),
        ("flat", npy("<u2", "6,", ids)),
        ("big-endian", npy(">i4", "2, 3", struct.pack(">6i", 1, 2, 3, 1, 2, 4))),
        ("version-3", npy("<u8", "1, 2", struct.pack("<2Q", 1, 2), version=3)),
        ("columns", npy("<u2", "2, 3", ids, order="True")),
        ("doubles", npy("<f8", "2, 2", struct.pack("<4d", 1, 2, 3, 4))),
        ("doubles-by-columns", npy("<f8", "2, 2", struct.pack("<4d", 1, 2, 3, 4), order="True")),
        ("singles", npy("<f4", "3,", struct.pack("<3f", 1, 2, 3))),
        ("nan", npy("<f8", "2, 1", struct.pack("<2d", 1, float("nan")))),
        ("negative", npy("<i8", "1, 2", struct.pack("<2q", -1, 2))),
        ("overflowing-shape", npy("<u2", "9223372036854775807, 9223372036854775807", ids)),
        ("huge-shape", npy("<u2", "1099511627776, 1", ids)),
        ("wide-shape", npy("<u2", "1, 18446744073709551615", ids)),
        ("empty-rows", npy("<u2", "1099511627776, 0", b"")),
        ("three-sides", npy("<u2", "1, 2, 3", ids)),
        ("huge-header", b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1)),
        ("truncated", npy("<u2", "2, 3", ids[:-1])),
        ("odd-type", npy("<u", "2, 3", ids)),
        ("text-type", npy("é2", "2, 3", ids)),
    ]:
        seed("npy", name, data)
    seed("bin", "ids", ids)
    seed("bin", "odd", ids[:-1])
    seed("bin", "separators", bytes(9))
    indices(ids)


def indices(ids: bytes) -> None:
    """Ids with an index, behind the length of the index."""

    def index(sizes: list[int], pointers: list[int], bounds: list[int], code: int = 8, version: int = 1) -> bytes:
        header = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", version, code, len(sizes), len(bounds))
        sizes_and_pointers = struct.pack(f"<{len(sizes)}i", *sizes) + struct.pack(f"<{len(pointers)}q", *pointers)
        return header + sizes_and_pointers + struct.pack(f"<{len(bounds)}q", *bounds)

    good = index([2, 4], [0, 4], [0, 1, 2])
    for name, data in [
        ("documents", good),
        ("joined", index([2, 0, 4], [0, 4, 4], [0, 3])),
        ("bytes", index([12], [0], [0, 1], code=1)),
        ("floats", index([2, 4], [0, 4], [0, 1, 2], code=7)),
        ("version", index([2, 4], [0, 4], [0, 1, 2], version=2)),
        ("truncated", good[:-1]),
        ("header-only", good[:34]),
        ("magic", b"NOT" + good[3:]),
        ("huge-counts", good[:18] + b"\xff" * 16 + good[34:]),
        ("overlap", index([2, 4], [0, 2], [0, 1, 2])),
        ("outside", index([2, 2**31 - 1], [0, 4], [0, 1, 2])),
        ("negative", index([-2, 4], [0, -4], [0, 1, 2])),
        ("backwards", index([2, 4], [0, 4], [0, 2, 1])),
    ]:
        seed("indexed", name, struct.pack("<H", len(data)) + data + ids)


def texts() -> None:
    for name, data in [
        ("texts", '{"text": "a b c"}\n\n{"n": 1, "text": "a b\\u00e9"}\r\n{"text": null}\n'),
        ("ids", '{"text": [1, 2, 3]}\n{"text": []}\n{"text": [4294967295]}'),
        ("mixed", '{"text": [1, 2]}\n{"text": "a"}\n'),
        ("nested", '{"x": ' + "[" * 5000 + "]" * 5000 + ', "text": "a"}'),
        ("unclosed", '{"text": ' + "[" * 5000),
        ("numbers", '{"text": [1e999, -0, 1.0]}\n{"text": [18446744073709551616]}\n'),
        ("surrogate", '{"text": "\\ud800"}\n{"text": "\\ud83d\\ude00"}\n'),
        ("twice", '{"text": "a b", "text": [1]}\n'),
        ("no-field", '{"body": "a"}\n{}\n[]\n'),
    ]:
        seed("jsonl", name, data)
    seed("jsonl", "bytes", b'{"text": "\xff\xfe"}\n{"te\x00xt": 1}')
    plain = "Once upon a time, naïve Zoë said.\r\n\r\nab ab\u2003ab\n \nthe end"
    seed("text", "plain", plain)
    seed("text", "mark", b"\xef\xbb\xbf" + plain.encode())
    seed("text", "invalid", b"ab\xffcd\xe2\x82\nab\xf0\x9f")
    seed("text", "carriage-returns", "\r\r\n\n\r\n\r")
    seed("text", "zeros", bytes(64))
    seed("text", "gzip", gzip.compress(plain.encode(), mtime=0))
    seed("text", "two-gzips", gzip.compress(b"a b\n", mtime=0) * 2)
    seed("text", "cut-gzip", gzip.compress(plain.encode(), mtime=0)[:-6])
    frame = subprocess.run(["zstd", "-c"], input=plain.encode(), stdout=subprocess.PIPE, check=True).stdout
    seed("text", "zstd", frame)
    seed("text", "cut-zstd", frame[:-3])
    # A frame that asks for a window of 2 GiB.
    seed("text", "zstd-window", b"\x28\xb5\x2f\xfd\x00\xa8" + frame[6:])
    for name, data in [
        ("commas", "x,y\n1,2\n3,4\n5,6\n"),
        ("spaces", "1 2\n3 4\n"),
        ("semicolons", "\ufeff1;2\r\n3;4\r\n"),
        ("nan", "1,2\nnan,inf\n"),
        ("huge", "1e308,-1e308\n1e-320,0\n1e400,1\n"),
        ("ragged", "1,2\n3\n"),
        ("empty-fields", ",,,\n,,,\n"),
        ("zeros", "0,0\n0,0\n0,0\n"),
    ]:
        seed("sequences", name, data)
    seed("sequences", "bytes", b"1,2\n\xff\xfe\n")
    for name, data in [
        ("ids", '{"sequence": [17, 3, 250], "label": 4}\n{"sequence": [17, 3], "label": 5}\n'),
        ("texts", '{"sequence": "to be", "label": "x"}\n{"sequence": "or", "label": "y"}\n'),
        ("labels", '{"sequence": [17, 3], "label": [0, 1]}\n{"sequence": [4294967295], "label": [18446744073709551615]}\n'),
        ("tsv", "a b\tx\nb a\ty\nc\tz\n"),
        ("tsv-labels", "a b\tx y\n"),
        ("contradiction", "a b\tx\na b\ty\n"),
        ("nested", '{"sequence": ' + "[" * 3000),
        ("empty", "\t\n\t\t\n"),
    ]:
        seed("pairs", name, data)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models(folder)
        exact_networks(folder)
        summaries(folder)
        ranges(folder)
        run_directories(folder)
        studies(folder)
    tokenizers()
    huggingface()
    gguf()
    onnx()
    arrays()
    texts()


main()
