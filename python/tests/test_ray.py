"""Corpora and sweeps on a real Ray: the same numbers and the same bytes as on one machine."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import same

import byrote

ray = pytest.importorskip("ray", reason="SKIPPED: Ray is not installed")

import byrote.ray  # noqa: E402


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts in every format, an empty one among them."""
    folder = tmp_path_factory.mktemp("texts")
    stories = [byrote.builtin_stories(300, seed=seed) for seed in range(5)]
    (folder / "a.txt").write_text("\n".join(stories[0]) + "\n\n")
    (folder / "b.txt").write_text("")
    (folder / "c.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in stories[1]))
    with gzip.open(folder / "d.jsonl.gz", "wt") as file:
        file.write("".join(json.dumps({"text": text}) + "\n" for text in stories[2]))
    arrow = pytest.importorskip("pyarrow")
    with arrow.CompressedOutputStream(folder / "e.jsonl.zst", "zstd") as stream:
        stream.write("".join(json.dumps({"text": text}) + "\n" for text in stories[3]).encode())
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"text": stories[4]}), folder / "f.parquet")
    return folder


SETTINGS: list[dict[str, Any]] = [
    {},
    {"contexts": "full"},
    {"contexts": "windows", "n_ctx": 12, "exact_length": True},
    {"contexts": "windows", "tokenizer": "char", "n_ctx": 5, "join": True, "stride": 3},
    {"tokenizer": "char", "bos": True, "eos": True, "n_ctx": 4, "exact_length": True},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(map(str, s.values())) or "default")
@pytest.mark.parametrize("parts", [None, 1, 7])
def test_figures_are_those_of_one_machine(cluster: None, folder: Path, settings: dict[str, Any], parts: int | None) -> None:
    ours = byrote.ray.corpus(folder, num_partitions=parts, **settings)
    assert ours.to_dict() == byrote.Corpus(folder, **settings).to_dict()


def test_a_cluster_says_what_the_program_says(cluster: None, program: Any, folder: Path, tmp_path: Path) -> None:
    same(byrote.ray.corpus(folder, n_ctx=5), program("corpus", folder, "--n-ctx", 5))
    plan = tmp_path / "plan.toml"
    plan.write_text("[corpus]\nbuiltin = 10\n[model]\nd_mlp = [4, 8]\n[training]\nsteps = 5\n")
    ours = byrote.ray.sweep(plan, out=tmp_path / "ours")
    theirs = program("sweep", plan, "--out", tmp_path / "theirs")
    same(ours, theirs, but=("directory", "results_file", "report_file"))
    assert (tmp_path / "ours/results.csv").read_bytes() == (tmp_path / "theirs/results.csv").read_bytes()


def test_blocks_and_a_tokenizer_file_count_as_on_one_machine(cluster: None, folder: Path, tmp_path: Path) -> None:
    texts = [folder / "a.txt", folder / "b.txt", folder / "a.txt"]
    assert byrote.ray.corpus(texts, documents="chunk:7").to_dict() == byrote.Corpus(texts, documents="chunk:7").to_dict()
    words = {word: i for i, word in enumerate(["[UNK]", "Once", "upon", "a", "time", "the"])}
    model = {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"}
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model})
    )
    settings: dict[str, Any] = {"tokenizer": tmp_path / "tokenizer.json"}
    assert byrote.ray.corpus(folder, **settings).to_dict() == byrote.Corpus(folder, **settings).to_dict()


def test_ids_count_as_on_one_machine(cluster: None, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    np.save(tmp_path / "flat.npy", draw.integers(0, 9, 1200).astype(np.uint16))
    draw.integers(0, 9, 3000).astype(np.uint32).tofile(tmp_path / "flat.bin")
    (tmp_path / "nothing.bin").touch()
    settings: dict[str, Any] = {"dtype": "u32", "separator_id": 3}
    assert byrote.ray.corpus(tmp_path, **settings).to_dict() == byrote.Corpus(tmp_path, **settings).to_dict()


def test_urls_of_fsspec_and_pyarrow_are_read(cluster: None, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    expect = byrote.Corpus(folder).to_dict()
    assert byrote.ray.corpus(f"file://{folder}").to_dict() == expect
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"data/{path.name}")
    assert byrote.ray.corpus(f"zip://data/*::file://{tmp_path}/all.zip").to_dict() == expect
    local = pytest.importorskip("pyarrow.fs").LocalFileSystem()
    assert byrote.ray.corpus(str(folder), filesystem=local).to_dict() == expect
    windows: dict[str, Any] = {"contexts": "windows", "n_ctx": 3}
    found = byrote.ray.corpus(str(folder / "*.jsonl*"), filesystem=local, **windows)
    assert found.to_dict() == byrote.Corpus(folder / "*.jsonl*", **windows).to_dict()


def test_pieces_stay_out_of_the_driver(cluster: None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byrote.ray, "DRIVER_BYTES", -1)
    assert byrote.ray.corpus(folder, num_partitions=3).to_dict() == byrote.Corpus(folder).to_dict()
    assert byrote.ray._packed(None, least=1000).nbytes == 1000 and byrote.ray._packed(None).nbytes == 8


def test_shards_follow_sizes_and_processors(tmp_path: Path) -> None:
    def file(size: int, **more: Any) -> Any:
        return byrote.ray.InputFile(str(tmp_path / "x"), size, **more)

    shards = byrote.ray._shards([file(1)] * 1000, 2, 4, {})
    assert 8 <= len(shards) <= 9, "small files are read together"
    assert sum(len(files) for files, _ in shards) == 1000
    large = byrote.ray._shards([file(10 << 30)], 4, 4, {})
    assert [part for _, part in large] == ["1/4", "2/4", "3/4", "4/4"], "a large file is divided"
    assert len(byrote.ray._shards([file(10 << 30, open=open)], 4, 4, {})) == 1, "but not one that must be fetched"
    many = byrote.ray._shards([file(300 << 20)] * 50_000, 1000, 64, {})
    assert len(many) * 64 <= 2 * byrote.ray.MOST_PIECES


def test_what_a_cluster_cannot_do_is_refused(cluster: None, folder: Path) -> None:
    for settings in ({"limit": 3}, {"shard": "1/2"}, {"builtin": 3}, {"merge": "x"}):
        with pytest.raises(byrote.SettingError, match="does not apply on a cluster"):
            byrote.ray.corpus(folder, **settings)
    with pytest.raises(byrote.UnknownSettingError, match="did you mean `n_ctx`"):
        byrote.ray.corpus(folder, n_ctxx=3)
    with pytest.raises(byrote.SettingError, match="n_ctx"):
        byrote.ray.corpus(folder, n_ctx=0)
    with pytest.raises(byrote.SettingError, match="name files"):
        byrote.ray.corpus()
    with pytest.raises(byrote.SettingError, match="num_partitions"):
        byrote.ray.corpus(folder, num_partitions=0)
    with pytest.raises(byrote.EmptyCorpusError):
        byrote.ray.corpus(folder / "b.txt")
    found = byrote.ray.corpus(folder / "a.txt")
    assert 1000 < found.moved_bytes < 200_000
    assert found.title == "a.txt" and "a.txt" in repr(found) and found.settings["paths"] == [str(folder / "a.txt")]
    with pytest.raises(byrote.SettingError, match="figures, not contexts"):
        found.table()
    with pytest.raises(byrote.SettingError, match="figures, not contexts"):
        _ = found.vocabulary
    for call in (byrote.train, byrote.build.madden2024, byrote.build.kajitsuka2024):
        with pytest.raises(byrote.SettingError, match="figures, not contexts"):
            call(found)
    assert len(byrote.bounds(found).rows) > 0
    for make in (byrote.ray.ClusterCorpus, byrote.ray.ClusterCorpus.from_texts, byrote.ray.ClusterCorpus.from_ids, byrote.ray.ClusterCorpus.for_model):
        with pytest.raises(TypeError, match=r"byrote\.ray\.corpus\(\.\.\.\) counts files on a cluster"):
            make(str(folder / "a.txt"))
    with pytest.raises(byrote.SettingError, match="paths: the list is empty"):
        byrote.ray.corpus(paths=[])
    with pytest.raises(byrote.SettingError, match="filesystem: must be a file system of fsspec or pyarrow"):
        byrote.ray.corpus(folder, filesystem=5)


def test_more_processors_than_any_machine_has_are_refused(cluster: None, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(byrote.SettingError, match=r"num_cpus: no machine of the cluster has 1000 processors \(the largest has \d+\)"):
        byrote.ray.corpus(folder, num_cpus=1000)
    with pytest.raises(byrote.SettingError, match="num_cpus: no machine of the cluster has 1000 processors"):
        byrote.ray.sweep(PLAN, out=tmp_path / "none", num_cpus=1000)
    assert not (tmp_path / "none").exists()


PLAN: dict[str, Any] = {
    "seeds": [0, 1],
    "corpus": {"builtin": 10},
    # The last model cannot be built: its row has an error.
    "model": {"preset": ["average", "madden2024-experiment", "dana2024"], "d_model": 2, "d_mlp": 3},
    "training": {"steps": 20},
}


def _files(folder: Path) -> dict[str, bytes]:
    """What a run directory holds, without times and machines."""
    names = ["results.csv", *(f"curves/{p.name}" for p in (folder / "curves").iterdir())]
    return {name: (folder / name).read_bytes() for name in [*names, *(f"models/{p.name}" for p in (folder / "models").iterdir())]}


def test_a_sweep_writes_what_one_machine_writes(cluster: None, tmp_path: Path) -> None:
    ours = byrote.ray.sweep(PLAN, out=tmp_path / "ours", keep_models=True)
    theirs = byrote.sweep(PLAN, out=tmp_path / "theirs", keep_models=True)
    assert _files(tmp_path / "ours") == _files(tmp_path / "theirs")
    assert (ours.jobs, ours.done, ours.failed) == (theirs.jobs, theirs.done, theirs.failed) == (6, 4, 2)
    assert Path(ours.report).exists() and ours.rows.to_dict() == theirs.rows.to_dict()
    assert not list((tmp_path / "ours/checkpoints").iterdir())


def test_either_resumes_what_the_other_has_begun(cluster: None, tmp_path: Path) -> None:
    byrote.sweep(PLAN, out=tmp_path / "whole")
    whole = (tmp_path / "whole/results.csv").read_bytes()
    for first, second in ((byrote.ray.sweep, byrote.sweep), (byrote.sweep, byrote.ray.sweep)):
        out = tmp_path / first.__module__
        first(PLAN, out=out)
        # A run that was killed after three jobs.
        lines = (out / "journal.jsonl").read_text().splitlines(keepends=True)
        over = [i for i, line in enumerate(lines) if '"event":"over"' in line]
        (out / "journal.jsonl").write_text("".join(lines[: over[2] + 1]))
        second(PLAN, out=out)
        assert (out / "results.csv").read_bytes() == whole
        journal = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
        done = [event["row"]["job"] for event in journal if event["event"] == "over" and event["row"]["status"] == "done"]
        assert len(done) == len(set(done)) == 4, "nothing is recorded twice"
    with pytest.raises(byrote.OtherRunError):
        byrote.ray.sweep({**PLAN, "seeds": [5]}, out=tmp_path / "whole")
    with pytest.raises(byrote.FormatError, match="did you mean `d_mlp`"):
        byrote.ray.sweep({"model": {"d_mpl": [4]}}, out=tmp_path / "none")


def test_a_sweep_reads_files_where_it_was_started(cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("names.txt").write_text("emma\nolivia\nava\nmia\n")
    plan = {"corpus": {"paths": "names.txt", "tokenizer": "char"}, "model": {"d_mlp": [2, 3]}, "training": {"steps": 5}}
    byrote.ray.sweep(plan, out="ours")
    byrote.sweep(plan, out="theirs")
    assert Path("ours/results.csv").read_bytes() == Path("theirs/results.csv").read_bytes()
