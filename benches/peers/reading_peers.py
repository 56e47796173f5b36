#!/usr/bin/env python3
"""Benchmark of reading text: byrote against wc, Polars, DuckDB and Hugging Face's tokenizers.

    python3 benches/peers/reading_peers.py [--words 10000000] [--rounds 5] [--threads 2] [--byrote PATH]

Two files are generated: `lines`, documents of ten numbers, one per line, of which byrote keeps the first ten tokens; and
`prose`, words of a Zipf law with some punctuation, which byrote reads as one document for counting windows. Both are in the
page cache when they are read.

byrote's time is that from opening the file until all tokens are in memory as numbers, ready to be sorted. The peers do less:

    wc        counts words (-w) or characters (-m) on one thread, without storing any
    polars    reads lines, splits them (at spaces, or by the regular expression of wordpunct) and counts the pieces
    duckdb    the same, as one query
    hf        encodes lines with a tokenizer.json of the words that occur, cut at white space, in one batch

The table shows tokens per second and processor time per token, which other work on the machine does not change much; the last
columns are rates of processor time: megabytes and tokens per second of one core, and tokens per second on as many free cores as
there are threads, if all of them are busy. wc, Polars and DuckDB are timed as they are called from a running process; their
warm-up is not timed. Polars and DuckDB get the file as lines, which is how both read text.

Targets: 3 times 41 million tokens per second for words, 5 times for bytes and characters (41 million is what byrote read
per second on two cores of the machine where this began), and no peer faster at the same tokens.

Exit status: 0 if all measured programs found the same tokens, 1 if not, 2 if something of byrote could not be run. Missed
targets and missing peers are reported and do not change it.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import peers

BEFORE = 41e6  # tokens per second
WORDPUNCT = r"\w+|[^\w\s]+"


def generate(words):
    """Write the two texts once; returns their paths."""
    import numpy as np

    peers.DATA.mkdir(parents=True, exist_ok=True)
    lines, prose = peers.DATA / ("lines-%d.txt" % words), peers.DATA / ("prose-%d.txt" % words)
    random = np.random.default_rng(0)
    if not lines.exists():
        ids = random.zipf(1.3, size=(words // 10, 10)) % 5000
        for position, modulus in enumerate((3, 7, 11, 15, 19)):
            ids[:, position] %= modulus
        numbers = np.array([str(i) for i in range(5000)], dtype=object)
        partial = lines.with_suffix(".tmp")
        with open(partial, "w") as file:
            for start in range(0, len(ids), 100_000):
                file.write("\n".join(" ".join(row) for row in numbers[ids[start : start + 100_000]]) + "\n")
        partial.replace(lines)
    if not prose.exists():
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"), dtype=object)
        vocabulary = np.array(
            ["".join(letters[random.integers(0, 26, size=n)]) for n in random.integers(2, 10, size=50_000)], dtype=object
        )
        vocabulary[:8] = ["the", "of", "and", "to", "in", "a", "is", "that"]
        marks = np.array([""] * 10 + [",", "."], dtype=object)
        partial = prose.with_suffix(".tmp")
        with open(partial, "w") as file:
            for start in range(0, words, 600_000):
                n = min(600_000, words - start)
                drawn = vocabulary[random.zipf(1.25, size=n) % len(vocabulary)] + marks[random.integers(0, 12, size=n)]
                file.write("\n".join(" ".join(drawn[i : i + 15]) for i in range(0, n, 15)) + "\n")
        partial.replace(prose)
    return lines, prose


def tokenizer_json(path, words):
    """Write a tokenizer.json whose tokens are the words of a file, cut at white space."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    found = sorted(set(path.read_text().split()))
    vocabulary = {word: i for i, word in enumerate(["<unk>"] + found)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    out = peers.DATA / ("tokenizer-%d.json" % words)
    tokenizer.save(str(out))
    return out


# ---------------------------------------------------------------- one measurement, in a child process


def processor_time():
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def timed(action):
    start, before = time.perf_counter(), processor_time()
    tokens = action()
    seconds, cpu = time.perf_counter() - start, processor_time() - before
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "tokens": tokens}))


def measure_wc(path, what):
    flag, locale = {"words": ("-w", "C"), "characters": ("-m", "C.UTF-8")}[what]
    environment = {**os.environ, "LC_ALL": locale}

    def count():
        out = subprocess.run(["wc", flag, path], stdout=subprocess.PIPE, text=True, env=environment, check=True).stdout
        return int(out.split()[0])

    timed(count)


def measure_polars(path, rule, threads):
    os.environ["POLARS_MAX_THREADS"] = threads  # read when the module is loaded
    import polars as pl

    def read(path):
        frame = pl.scan_csv(path, has_header=False, separator="\x01", quote_char=None, new_columns=["line"])
        line = pl.col("line").cast(pl.String)
        split = line.str.split(" ") if rule == "whitespace" else line.str.extract_all(WORDPUNCT)
        return frame.select(split.list.len().cast(pl.UInt64).sum()).collect(engine="streaming").item()

    read(warm_up(path))
    timed(lambda: read(path))


def measure_duckdb(path, rule, threads):
    import duckdb

    connection = duckdb.connect(":memory:", config={"threads": int(threads)})
    split = "string_split(line, ' ')" if rule == "whitespace" else "regexp_extract_all(line, '\\w+|[^\\w\\s]+')"

    def read(path):
        lines = "read_csv('%s', columns={'line': 'VARCHAR'}, header=false, delim='\x01', quote='', escape='')" % path
        return connection.execute("SELECT sum(len(%s))::BIGINT FROM %s" % (split, lines)).fetchone()[0]

    read(warm_up(path))
    timed(lambda: read(path))


def measure_hf(path, tokenizer, threads):
    os.environ["RAYON_NUM_THREADS"] = threads
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(tokenizer)

    def read():
        with open(path) as file:
            encodings = tokenizer.encode_batch_fast(file.read().splitlines(), add_special_tokens=False)
        return sum(len(encoding) for encoding in encodings)

    timed(read)


def warm_up(path):
    small = path + ".head"
    if not os.path.exists(small):
        with open(path) as file, open(small, "w") as out:
            out.writelines(file.readline() for _ in range(1000))
    return small


CHILDREN = {"wc": measure_wc, "polars": measure_polars, "duckdb": measure_duckdb, "hf": measure_hf}


# ---------------------------------------------------------------- the driver


def commands(options, files):
    """All measurements by (file, tokenizer, program)."""
    binary = peers.driver(options.byrote, "read_text")
    threads = ["--threads", str(options.threads)]
    child = [sys.executable, os.path.abspath(__file__), "--child"]
    found = {}
    for name, path in files.items():
        how = [] if name == "lines" else ["--contexts", "windows", "--documents", "file"]
        for rule in ("whitespace", "wordpunct", "char", "byte"):
            found[name, rule, "byrote"] = [binary, path, "--tokenizer", rule, *how, *threads]
        found[name, "whitespace", "wc"] = child + ["wc", path, "words"]
        found[name, "char", "wc"] = child + ["wc", path, "characters"]
        for rule in ("whitespace", "wordpunct"):
            for program in ("polars", "duckdb"):
                command = child + [program, path, rule, str(options.threads)]
                found[name, rule, program] = peers.missing(program) or command
    path = files["prose"]
    absent = peers.missing("tokenizers")
    if absent is None:
        json_file = tokenizer_json(path, options.words)
        found["prose", "tokenizer.json", "byrote"] = [binary, path, "--tokenizer", json_file, "--n-ctx", "64", *threads]
        found["prose", "tokenizer.json", "hf"] = child + ["hf", path, str(json_file), str(options.threads)]
    else:
        found["prose", "tokenizer.json", "hf"] = absent
    return binary, found


def tokens_of(binary, files):
    """The number of tokens of every file: of lines, the whole text, of which byrote keeps the first ten tokens per line."""
    import numpy as np
    import re

    found = {}
    for name, path in files.items():
        data = path.read_bytes()
        found[name, "byte"] = len(data)
        found[name, "char"] = len(data.decode())
        found[name, "whitespace"] = found[name, "tokenizer.json"] = len(data.split())
        found[name, "wordpunct"] = sum(1 for _ in re.finditer(WORDPUNCT, data.decode()))
        if name == "lines":
            # Line breaks are no tokens.
            breaks = int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == 10))
            found[name, "byte"] -= breaks
            found[name, "char"] -= breaks
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=peers.positive, default=10_000_000, help="words per file (default 10000000)")
    parser.add_argument("--rounds", type=peers.positive, default=5, help="measurements per program (default 5)")
    parser.add_argument("--threads", type=peers.positive, default=2, help="threads per program (default 2)")
    parser.add_argument("--byrote", metavar="PATH", help="the compiled driver read_text (default: built first)")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    peers.enter_environment(__file__)
    if options.child:
        CHILDREN[options.child[0]](*options.child[1:])
        return 0

    lines, prose = generate(options.words)
    files = {"lines": lines, "prose": prose}
    binary, by_key = commands(options, files)
    tokens = tokens_of(binary, files)
    named = {"%s %s %s" % key: command for key, command in by_key.items()}
    results = peers.interleaved(named, options.rounds)

    wrong, rates, free, core = [], {}, {}, {}
    print("%d words per file, %d threads, %d rounds" % (options.words, options.threads, options.rounds))
    columns = ("file", "tokens", "program", "median s", "min s", "million/s", "x byrote", "cpu ns")
    columns += ("core MB/s", "core million/s", "free million/s")
    print("%-8s %-15s %-8s %9s %9s %10s %9s %8s %10s %15s %15s" % columns)
    for key in by_key:
        (name, rule, program), runs = key, results["%s %s %s" % key]
        if isinstance(runs, str):
            print("%-8s %-15s %-8s %s" % (name, rule, program, runs))
            continue
        n = tokens[name, rule]
        found = runs[0].get("tokens")
        # wc counts line breaks as characters.
        if found is not None and found != n and not (program == "wc" and rule == "char"):
            wrong.append("%s, %s: %s found %d tokens, expected %d" % (name, rule, program, found, n))
        median, least = peers.seconds(runs)
        cpu = min(run["cpu_seconds"] for run in runs)
        threads = 1 if program == "wc" else options.threads
        rates[key], free[key], core[key] = n / median, n * threads / cpu, n / cpu
        ratio = median / peers.seconds(results["%s %s byrote" % (name, rule)])[0]
        megabytes = files[name].stat().st_size / cpu / 1e6
        row = (name, rule, program, median, least, n / median / 1e6, ratio, cpu / n * 1e9)
        row += (megabytes, core[key] / 1e6, free[key] / 1e6)
        print("%-8s %-15s %-8s %9.3f %9.3f %10.1f %9.2f %8.2f %10.0f %15.1f %15.1f" % row)
    for name in files:
        for rule, factor in (("whitespace", 3), ("wordpunct", 3), ("char", 5), ("byte", 5)):
            what = "%s, %s: million tokens per second" % (name, rule)
            peers.verdict(what, rates[name, rule, "byrote"] / 1e6, factor * BEFORE / 1e6)
            peers.verdict(what + " of free cores", free[name, rule, "byrote"] / 1e6, factor * BEFORE / 1e6)
    for (name, rule, program), rate in rates.items():
        if program != "byrote":
            own = name, rule, "byrote"
            peers.verdict("%s, %s: tokens/s of byrote / %s" % (name, rule, program), rates[own] / rate, 1)
            each = core[own] / core[name, rule, program]
            peers.verdict("%s, %s: the same per core of processor time" % (name, rule), each, 1)
    print("the numbers of tokens agree" if not wrong else "THE NUMBERS OF TOKENS DO NOT AGREE\n  " + "\n  ".join(wrong))
    record = {"words": options.words, "threads": options.threads, "rounds": options.rounds, "runs": results}
    peers.write_record("reading_peers", record)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except peers.CannotRun as error:
        print("reading_peers: %s" % error, file=sys.stderr)
        sys.exit(2)
