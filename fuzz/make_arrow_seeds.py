#!/usr/bin/env python3
"""Writes the seeds of the fuzz target `arrow` with another writer, pyarrow (26.0), and hostile variants of them.

    python3 fuzz/make_arrow_seeds.py

The tests in crates/byrote/tests/it/arrow_files.rs read them too, and know what is in them.
"""

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc

SEEDS = Path(__file__).parent / "seeds" / "arrow"
SEEDS.mkdir(parents=True, exist_ok=True)
TEXTS = ["abab", "abac", None, "abb"]
LONG = "a text of more than twelve bytes"
IDS = [[0, 1, 0, 1], [0, 1, 0, 2], None, [0, 1, 1]]


def write(name: str, table: pa.Table, file: bool = False, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    make = ipc.new_file if file else ipc.new_stream
    with make(sink, table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        for batch in table.to_batches() * 2:
            writer.write_batch(batch)
    data = sink.getvalue().to_pybytes()
    (SEEDS / name).write_bytes(data)
    return data


def damaged(name: str, data: bytes, at: int, lie: bytes) -> None:
    (SEEDS / name).write_bytes(data[:at] + lie + data[at + len(lie) :])


texts = pa.table({"text": pa.array(TEXTS)})
stream = write("stream", texts)
file = write("file", texts, file=True)
write("large", pa.table({"text": pa.array(TEXTS, pa.large_string())}))
write("views", pa.table({"text": pa.array([*TEXTS[:3], LONG], pa.string_view())}))
write("zstd", texts, compression="zstd")
write("lz4", texts, compression="lz4")
write("none", pa.Table.from_batches([pa.record_batch({"text": pa.array([], pa.string())})]))
write("dictionary", pa.table({"text": pa.array(TEXTS).dictionary_encode()}))
write("numbers", pa.table({"text": pa.array([1, 2])}))
write("sliced", pa.table({"text": pa.array(["no", *TEXTS, "no"]).slice(1, 4)}))
for name, kind in [
    ("lists", pa.list_(pa.int64())),
    ("large-lists", pa.large_list(pa.uint16())),
    ("bytes", pa.list_(pa.uint8())),
]:
    write(name, pa.table({"ids": pa.array(IDS, kind)}))
write("fixed-lists", pa.table({"ids": pa.array([*IDS[:3], [0, 1, 1, 0]], pa.list_(pa.int32(), 4))}))
write("null-among-ids", pa.table({"ids": pa.array([[1], [1, None]])}))
write("negative", pa.table({"ids": pa.array([[1], [1, -2]])}))
write("large-id", pa.table({"ids": pa.array([[2**32]])}))

# Columns of every layout before the ones that are read.
n = len(TEXTS)
struct_of_all = pa.StructArray.from_arrays(
    [pa.array([True] * n), pa.array([LONG] * n, pa.string_view()), pa.array(TEXTS)],
    ["x", "view", "text"],
    mask=pa.array([False, True, False, False]),
)
many = pa.table(
    {
        "null": pa.nulls(n),
        "number": pa.array([1.5] * n),
        "names": pa.array([["a", None], [], None, ["b"]]),
        "kind": pa.array(["x", "y", "x", None]).dictionary_encode(),
        "map": pa.array([[("k", 1)], [], None, []], pa.map_(pa.string(), pa.int8())),
        "view": pa.array([LONG, "short", None, LONG], pa.string_view()),
        "sparse": pa.UnionArray.from_sparse(pa.array([0] * n, pa.int8()), [pa.array([1] * n)]),
        "dense": pa.UnionArray.from_dense(
            pa.array([0] * n, pa.int8()), pa.array(range(n), pa.int32()), [pa.array([1] * n)]
        ),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), pa.array(["r"])),
        "list_view": pa.array([[1]] * n, pa.list_view(pa.int8())),
        "pair": pa.array([[1, 2]] * n, pa.list_(pa.int8(), 2)),
        "date": pa.array([0] * n, pa.date32()),
        "id": pa.array([b"0123456789abcdef"] * n, pa.binary(16)),
        "meta": struct_of_all,
        "ids": pa.array(IDS),
        "text": pa.array(TEXTS),
        "a.b": pa.array(["dot"] * n),
    }
)
write("many-columns", many)
write("many-columns-file", many, file=True, compression="zstd")

# Lies. A message is -1, the size of its metadata, the metadata and its body.
size = struct.unpack("<i", stream[4:8])[0]
batch = 8 + size
for name, data in [("truncated", stream[: len(stream) * 2 // 3]), ("no-end", stream[:-8]), ("empty", b"")]:
    (SEEDS / name).write_bytes(data)
(SEEDS / "file-without-footer").write_bytes(file[:-3])
(SEEDS / "file-cut").write_bytes(file[: len(file) // 2])
(SEEDS / "schema-only").write_bytes(stream[:batch])
damaged("wrong-magic", file, 0, b"ARROW2")
damaged("huge-metadata", stream, 4, struct.pack("<i", 2**31 - 1))
damaged("negative-metadata", stream, 4, struct.pack("<i", -5))
damaged("huge-batch-metadata", stream, batch + 4, struct.pack("<i", 2**28))
damaged("zeros", stream, 8, bytes(size))
metadata = struct.unpack("<i", stream[batch + 4 : batch + 8])[0]
header = stream[batch + 8 : batch + 8 + metadata]
body = batch + 8 + metadata
# Every number of 64 bits: the length of the body, the rows, and the nodes and buffers of the column.
for at in range(0, len(header) - 7, 8):
    value = struct.unpack("<q", header[at : at + 8])[0]
    if 0 < value < 1000:
        for lie in [2**60, -1]:
            damaged(f"lie-{value}-{lie}-at-{at}", stream, batch + 8 + at, struct.pack("<q", lie))
# The nulls of the column take 8 bytes; its offsets follow.
for at, lie in [(4, 2**30), (8, -1), (16, 3)]:
    damaged(f"offset-{at}", stream, body + 8 + at, struct.pack("<i", lie))
compressed = (SEEDS / "zstd").read_bytes()
frame = compressed.find(b"\x28\xb5\x2f\xfd")
if frame > 8:
    damaged("zstd-huge", compressed, frame - 8, struct.pack("<q", 2**60))
    damaged("zstd-short", compressed, frame - 8, struct.pack("<q", 3))
