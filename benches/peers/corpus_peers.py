#!/usr/bin/env python3
"""Benchmark of counting contexts and the floor in memory: byrote against DuckDB and Polars.

    python3 benches/peers/corpus_peers.py [--documents 2000000] [--rounds 5] [--threads 2]
                                          [--byrote PATH | --byrote none] [--plain]

Every document has 10 token ids; every prefix of 1 to 9 ids is a context that predicts the next id.
Each program reports the number of contexts, of predictions, of deterministic contexts, and the floor

    H = sum_i c_i ln c_i - sum_{i,g} n_ig ln n_ig        (nats)

with c_i the count of context i and n_ig how often token g follows it.

Each measurement runs in its own process, which loads the documents, warms up on a thousand of them and
then times one computation. Rounds are interleaved, so that a slow phase of the machine affects all
programs alike. Peak memory is that of the whole process, including its copy of the documents.

The peers use the fastest formulation found for them, the same for both: four 16-bit ids are packed into
a 64-bit key, whole documents are grouped once, and every shorter prefix is grouped from the result for
the next longer one. DuckDB runs this as one query of materialized steps with counts as doubles (its sums
of 64-bit integers go through 128 bits). Polars runs one lazy step per length on its streaming engine.
Slower for DuckDB at 2,000,000 documents: temporary tables, ten columns as the key, a fresh group-by of
the table for every length, and sorting with window functions. Slower for Polars: one lazy plan for all
lengths, ten columns as the key, a fresh group-by for every length, and sorting. --plain adds the
ten-column chain of each as two more rows: the obvious first version.

Then the program itself reads the same documents as text from disk. Both rates are compared with the rate
at which one thread copies memory, to show the distance to the limit of the machine.

Exit status: 0 if the numbers agree, 1 if they do not, 2 if something could not be run.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from peers import CannotRun, enter_environment

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "target"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
ENVIRONMENT = TARGET / "peers-venv"
DEFAULT_BINARY = Path("target/release/examples/count_ids")

WIDTH = 10  # ids per document; the longest context has WIDTH - 1
IDS_PER_KEY = 4  # 16-bit ids per 64-bit key
EXACT = ("contexts", "predictions", "deterministic_contexts")
FLOOR_TOLERANCE = 1e-9  # relative


# ---------------------------------------------------------------- documents


def documents_file(n_documents):
    """Return a file of [n_documents, WIDTH] Zipf-distributed ids with shared beginnings, written once."""
    import numpy as np

    path = TARGET / "peers" / ("documents-%d.npy" % n_documents)
    if path.exists():
        return path
    ids = np.random.default_rng(0).zipf(1.3, size=(n_documents, WIDTH)) % 5000
    for position, modulus in enumerate((3, 7, 11, 15, 19)):
        ids[:, position] %= modulus
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp")
    with open(partial, "wb") as file:
        np.save(file, ids.astype(np.uint16))
    partial.replace(path)
    return path


# ---------------------------------------------------------------- DuckDB


class DuckDB:
    def __init__(self, n_threads):
        import duckdb

        settings = {"threads": n_threads, "preserve_insertion_order": False}
        self.connection = duckdb.connect(":memory:", config=settings)

    def load(self, name, ids):
        import numpy as np
        import pyarrow

        columns = pyarrow.table({"c%d" % j: np.ascontiguousarray(ids[:, j]) for j in range(WIDTH)})
        self.connection.register("columns", columns)
        self.connection.execute("CREATE TABLE %s AS SELECT * FROM columns" % name)
        self.connection.unregister("columns")

    @staticmethod
    def packed_keys(length, table):
        """Return key names and their source for prefixes of `length`, taken from the keys in `table`."""
        n_keys = -(-length // IDS_PER_KEY)
        in_last = length - IDS_PER_KEY * (n_keys - 1)
        names = ["k%d" % i for i in range(n_keys)]
        cut = list(names)
        if in_last < IDS_PER_KEY:
            cut[-1] = "%s & %d::UBIGINT AS %s" % (names[-1], (1 << 16 * in_last) - 1, names[-1])
        return ", ".join(names), "(SELECT %s, n FROM %s)" % (", ".join(cut), table)

    @staticmethod
    def pack(table):
        keys = []
        for i, start in enumerate(range(0, WIDTH, IDS_PER_KEY)):
            ids = range(start, min(start + IDS_PER_KEY, WIDTH))
            parts = ["(c%d::UBIGINT << %d)" % (j, 16 * (j - start)) for j in ids]
            keys.append("%s AS k%d" % (" | ".join(parts), i))
        return "(SELECT %s FROM %s)" % (", ".join(keys), table)

    def query(self, table, packed):
        def columns(length):
            return ", ".join("c%d" % j for j in range(length))

        keys = self.packed_keys(WIDTH, table)[0] if packed else columns(WIDTH)
        source = self.pack(table) if packed else table
        steps = [
            "g%d AS MATERIALIZED (SELECT %s, count(*)::DOUBLE AS n FROM %s GROUP BY %s)"
            % (WIDTH, keys, source, keys)
        ]
        totals = []
        for length in range(WIDTH - 1, 0, -1):
            longer = "g%d" % (length + 1)
            keys, source = self.packed_keys(length, longer) if packed else (columns(length), longer)
            steps.append(
                "g%d AS MATERIALIZED (SELECT %s, sum(n) AS n, count(*) AS followers, sum(n * ln(n)) AS s"
                " FROM %s GROUP BY %s)" % (length, keys, source, keys)
            )
            totals.append(
                "SELECT count(*) AS contexts, sum(n) AS predictions,"
                " count(*) FILTER (followers = 1) AS deterministic, sum(n * ln(n)) - sum(s) AS floor FROM g%d" % length
            )
        return (
            "WITH %s SELECT sum(contexts)::BIGINT, sum(predictions)::BIGINT, sum(deterministic)::BIGINT, sum(floor)"
            " FROM (%s)" % (", ".join(steps), " UNION ALL ".join(totals))
        )

    def count(self, table, packed):
        return self.connection.execute(self.query(table, packed)).fetchone()


# ---------------------------------------------------------------- Polars


class Polars:
    def __init__(self, n_threads):
        os.environ["POLARS_MAX_THREADS"] = str(n_threads)  # read when the module is loaded
        import polars

        self.pl = polars
        self.tables = {}

    def load(self, name, ids):
        import numpy as np

        self.tables[name] = self.pl.DataFrame(
            {"c%d" % j: np.ascontiguousarray(ids[:, j]) for j in range(WIDTH)}
        )

    def pack(self, frame):
        keys = []
        for i, start in enumerate(range(0, WIDTH, IDS_PER_KEY)):
            parts = [
                self.pl.col("c%d" % j).cast(self.pl.UInt64) * (1 << 16 * (j - start))
                for j in range(start, min(start + IDS_PER_KEY, WIDTH))
            ]
            keys.append(sum(parts[1:], parts[0]).alias("k%d" % i))
        return frame.select(keys)

    def n_log_n(self):
        n = self.pl.col("n").cast(self.pl.Float64)
        return n * n.log()

    def count(self, table, packed):
        pl = self.pl
        frame = self.tables[table].lazy()
        if packed:
            frame = self.pack(frame)
        keys = ["k%d" % i for i in range(-(-WIDTH // IDS_PER_KEY))] if packed else self.tables[table].columns
        groups = frame.group_by(keys).agg(pl.len().alias("n")).collect(engine="streaming")
        totals = [0, 0, 0, 0.0]
        for length in range(WIDTH - 1, 0, -1):
            if packed:
                n_keys = -(-length // IDS_PER_KEY)
                in_last = length - IDS_PER_KEY * (n_keys - 1)
                frame = groups.lazy().select(keys[:n_keys] + ["n"])
                if in_last < IDS_PER_KEY:
                    frame = frame.with_columns(pl.col(keys[n_keys - 1]) & ((1 << 16 * in_last) - 1))
            else:
                n_keys, frame = length, groups.lazy()
            groups = (
                frame.group_by(keys[:n_keys])
                .agg(pl.col("n").sum(), pl.len().alias("followers"), self.n_log_n().sum().alias("s"))
                .collect(engine="streaming")
            )
            row = groups.select(
                pl.len().alias("contexts"),
                pl.col("n").sum().alias("predictions"),
                (pl.col("followers") == 1).sum().alias("deterministic"),
                (self.n_log_n().sum() - pl.col("s").sum()).alias("floor"),
            ).row(0)
            totals = [a + b for a, b in zip(totals, row)]
        return totals


# ---------------------------------------------------------------- one measurement, in a child process


PEERS = {  # name: program, packed keys
    "duckdb": (DuckDB, True),
    "polars": (Polars, True),
    "duckdb-plain": (DuckDB, False),
    "polars-plain": (Polars, False),
}


def peak_rss_bytes():
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def measure_peer(name, path, n_threads):
    """In the child process: load, warm up, time one computation, and print one line of JSON."""
    import numpy as np

    program, packed = PEERS[name]
    peer = program(n_threads)
    ids = np.load(path)
    peer.load("warm_up", ids[:1000])
    peer.load("documents", ids)
    del ids
    peer.count("warm_up", packed)
    loaded = peak_rss_bytes()
    start = time.perf_counter()
    contexts, predictions, deterministic, floor = peer.count("documents", packed)
    seconds = time.perf_counter() - start
    line = {
        "contexts": contexts,
        "predictions": predictions,
        "deterministic_contexts": deterministic,
        "floor_nats": floor,
        "seconds": seconds,
        "peak_rss_bytes": peak_rss_bytes(),
        "loaded_rss_bytes": loaded,
    }
    print(json.dumps(line))


# ---------------------------------------------------------------- the driver


def build(*what):
    command = ["cargo", "build", "--release", *what]
    try:
        failed = subprocess.run(command, cwd=ROOT).returncode
    except FileNotFoundError:
        failed = True
    if failed:
        raise CannotRun("failed: %s" % " ".join(command))


def find_binary(given):
    if given is not None:
        binary = Path(given).resolve()
        if not binary.is_file():
            raise CannotRun("%s is not a file" % given)
        return binary
    build("-p", "byrote", "--features", "bench-internals", "--example", "count_ids")
    return ROOT / DEFAULT_BINARY


def copy_bandwidth():
    """Return the bytes per second that one thread copies in memory (half of its traffic): the best of several copies."""
    import numpy

    source = numpy.ones(1 << 28, dtype=numpy.uint8)
    target = numpy.zeros_like(source)
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter()
        numpy.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    return source.nbytes / best


def from_disk(documents, n_threads, rounds):
    """Time the program itself on the same documents as text: reading, tokenizing and counting, the whole process."""
    import numpy

    build("-p", "byrote-cli")
    text = documents.with_suffix(".txt")
    if not text.is_file():
        partial = text.with_suffix(".tmp")
        numpy.savetxt(partial, numpy.load(documents), fmt="%d")
        partial.replace(text)
    command = [str(ROOT / "target/release/byrote"), "corpus", str(text), "--json", "--threads", str(n_threads)]
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        seconds.append(time.perf_counter() - start)
        if done.returncode:
            raise CannotRun("byrote exited with status %d" % done.returncode)
    found = json.loads(done.stdout)
    return {
        "bytes": text.stat().st_size,
        "tokens": found["tokens"],
        "contexts": found["contexts"],
        "median_seconds": statistics.median(seconds),
        "min_seconds": min(seconds),
    }


def print_distance(rows, disk, bandwidth, n_documents):
    """Print the distance to the machine's limit: bytes processed per second against bytes copied per second."""
    memory = rows["byrote"]["median_seconds"]
    ids = n_documents * WIDTH
    print("copy bandwidth of one thread %.1f GB/s" % (bandwidth / 1e9))
    print(
        "counting ids in memory      %7.1f million tokens/s, %6.2f GB/s, %4.1f%% of copying"
        % (ids / memory / 1e6, 2 * ids / memory / 1e9, 200 * ids / memory / bandwidth)
    )
    second = disk["median_seconds"]
    print(
        "reading text from disk      %7.1f million tokens/s, %6.2f GB/s, %4.1f%% of copying (%.2f s for %.0f MB)"
        % (
            disk["tokens"] / second / 1e6,
            disk["bytes"] / second / 1e9,
            100 * disk["bytes"] / second / bandwidth,
            second,
            disk["bytes"] / 1e6,
        )
    )


def run_child(name, command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise CannotRun("%s exited with status %d" % (name, done.returncode))
    try:
        result = json.loads(done.stdout.strip().splitlines()[-1])
        run = {key: result[key] for key in (*EXACT, "floor_nats", "seconds", "peak_rss_bytes")}
        run["loaded_rss_bytes"] = result.get("loaded_rss_bytes")  # before the timed part; only the peers report it
        return run
    except (IndexError, KeyError, ValueError) as error:
        raise CannotRun("%s printed no usable JSON line: %r" % (name, error)) from error


def disagreements(results):
    """Return one sentence for every number that differs from the first program's."""
    runs = [(name, run) for name, rounds in results.items() for run in rounds]
    first, reference = runs[0]
    found = []
    for name, run in runs[1:]:
        for key in EXACT:
            if run[key] != reference[key]:
                found.append("%s: %s has %s, %s has %s" % (key, first, reference[key], name, run[key]))
        difference = abs(run["floor_nats"] - reference["floor_nats"])
        if not difference <= FLOOR_TOLERANCE * abs(reference["floor_nats"]):
            found.append(
                "floor_nats: %s has %r, %s has %r" % (first, reference["floor_nats"], name, run["floor_nats"])
            )
    return list(dict.fromkeys(found))


def summary(results):
    rows = {}
    for name, rounds in results.items():
        seconds = [run["seconds"] for run in rounds]
        rows[name] = {
            "median_seconds": statistics.median(seconds),
            "min_seconds": min(seconds),
            "peak_rss_bytes": max(run["peak_rss_bytes"] for run in rounds),
            "ratio_to_byrote": None,
        }
    if "byrote" in rows:
        for row in rows.values():
            row["ratio_to_byrote"] = row["median_seconds"] / rows["byrote"]["median_seconds"]
    return rows


def print_table(rows):
    print("%-14s %10s %10s %12s %12s" % ("program", "median s", "min s", "x byrote", "peak MB"))
    for name, row in rows.items():
        ratio = row["ratio_to_byrote"]
        print(
            "%-14s %10.3f %10.3f %12s %12.0f"
            % (
                name,
                row["median_seconds"],
                row["min_seconds"],
                "-" if ratio is None else "%.2f" % ratio,
                row["peak_rss_bytes"] / 1e6,
            )
        )


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def arguments():
    parser = argparse.ArgumentParser(description="Contexts and floor: byrote against DuckDB and Polars.")
    parser.add_argument("--documents", type=positive, default=2_000_000, help="number of documents (default 2000000)")
    parser.add_argument("--rounds", type=positive, default=5, help="measurements per program (default 5)")
    parser.add_argument("--threads", type=positive, default=2, help="threads per program (default 2)")
    default = "byrote's benchmark driver (default %s, built first), or none" % DEFAULT_BINARY
    parser.add_argument("--byrote", metavar="PATH", help=default)
    parser.add_argument("--plain", action="store_true", help="also measure the peers with ten columns as the key")
    parser.add_argument("--child", nargs=2, metavar=("PEER", "FILE"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    enter_environment(__file__, ENVIRONMENT, REQUIREMENTS, each=False)
    if options.child:
        measure_peer(*options.child, options.threads)
        return 0

    binary = None if options.byrote == "none" else find_binary(options.byrote)
    documents = documents_file(options.documents)
    threads = ["--threads", str(options.threads)]
    commands = {"byrote": [str(binary), str(documents)] + threads} if binary else {}
    for name in PEERS:
        if options.plain or not name.endswith("-plain"):
            commands[name] = [sys.executable, str(Path(__file__).resolve()), "--child", name, str(documents)] + threads

    results = {name: [] for name in commands}
    for number in range(options.rounds):
        for name, command in commands.items():
            run = run_child(name, command)
            results[name].append(run)
            print("round %d %-14s %.3f s" % (number + 1, name, run["seconds"]), file=sys.stderr)

    rows, wrong = summary(results), disagreements(results)
    reference = next(iter(results.values()))[0]
    print("%d documents of %d ids, %d threads, %d rounds" % (options.documents, WIDTH, options.threads, options.rounds))
    print_table(rows)
    print(
        "contexts %d, predictions %d, deterministic %d, floor %.6f nats"
        % (*(reference[key] for key in EXACT), reference["floor_nats"])
    )
    disk = bandwidth = None
    if binary:
        disk, bandwidth = from_disk(documents, options.threads, options.rounds), copy_bandwidth()
        if disk["contexts"] != reference["contexts"]:
            wrong.append("contexts: %d in memory, %d from text" % (reference["contexts"], disk["contexts"]))
        print_distance(rows, disk, bandwidth, options.documents)
    print("the numbers agree" if not wrong else "THE NUMBERS DO NOT AGREE\n  " + "\n  ".join(wrong))

    from importlib.metadata import version

    record = {
        "documents": options.documents,
        "ids_per_document": WIDTH,
        "threads": options.threads,
        "rounds": options.rounds,
        "versions": {name: version(name) for name in ("numpy", "duckdb", "polars", "pyarrow")},
        "agree": not wrong,
        "disagreements": wrong,
        "summary": rows,
        "runs": results,
        "from_disk": disk,
        "copy_bytes_per_second": bandwidth,
    }
    output = TARGET / "peers" / "corpus_peers.json"
    partial = output.with_suffix(".tmp")
    partial.write_text(json.dumps(record, indent=2) + "\n")
    partial.replace(output)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotRun as error:
        print("corpus_peers: %s" % error, file=sys.stderr)
        sys.exit(2)
