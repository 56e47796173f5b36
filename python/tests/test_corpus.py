"""Corpora: the same numbers as the program, however the documents are handed over."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import same

import byrote
from byrote import _byrote

TEXT = "the cat sat on the mat\nthe cat ran\n\nthe dog sat on the log\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_a_corpus_has_the_fields_of_the_program(program: Any, text: Path) -> None:
    for settings in [{}, {"n_ctx": 3, "tokenizer": "char"}, {"contexts": "windows", "n_ctx": 4, "exact_length": True}]:
        flags = [x for name, value in settings.items() for x in _flag(name, value)]
        same(byrote.Corpus(text, **settings), program("corpus", text, *flags))
    same(byrote.Corpus(builtin=50, seed=3), program("corpus", "--builtin", 50, "--seed", 3))
    same(byrote.Corpus(random=20, labels=3), program("corpus", "--random", 20, "--labels", 3))


def _flag(name: str, value: object) -> list[str]:
    flag = "--" + name.replace("_", "-")
    return [flag] if value is True else [flag, str(value)]


def test_texts_count_as_lines_do(text: Path) -> None:
    read = byrote.Corpus(text).to_dict()
    lines = [line for line in TEXT.split("\n") if line]
    given = byrote.Corpus.from_texts(lines).to_dict()
    read["dropped"] = given["dropped"]  # A text has an empty line.
    assert given == read


def test_ids_count_the_same_in_every_form() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 9, size=(50, 6))
    expect = byrote.Corpus.from_ids([list(map(int, row)) for row in rows]).to_dict()
    assert expect["documents"] == 50
    offsets = np.arange(0, 301, 6)
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64):
        array = rows.astype(dtype)
        assert byrote.Corpus.from_ids(array).to_dict() == expect, dtype
        assert byrote.Corpus.from_ids(array.ravel(), offsets).to_dict() == expect, dtype
        assert byrote.Corpus.from_ids(array.ravel(), chunk=6).to_dict() == expect, dtype
        assert byrote.Corpus.from_ids(list(array)).to_dict() == expect, dtype
        assert byrote.Corpus.from_ids(array[:, ::-1][:, ::-1]).to_dict() == expect, "not contiguous"
    with_ends = np.concatenate([np.append(row, 99) for row in rows])
    assert byrote.Corpus.from_ids(with_ends, separator_id=99).to_dict() == expect


def test_ids_agree_with_the_program(program: Any, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).integers(0, 20, size=(200, 10)).astype(np.uint16)
    np.save(tmp_path / "ids.npy", rows)
    same(byrote.Corpus.from_ids(rows), program("corpus", tmp_path / "ids.npy"))
    flat = rows.ravel()
    np.save(tmp_path / "flat.npy", flat)
    options = ["--contexts", "windows", "--n-ctx", 7]
    same(byrote.Corpus.from_ids(flat, contexts="windows", n_ctx=7), program("corpus", tmp_path / "flat.npy", *options))
    same(
        byrote.Corpus.from_ids(flat, separator_id=3, n_ctx=4),
        program("corpus", tmp_path / "flat.npy", "--separator-id", 3, "--n-ctx", 4),
    )


def test_columns_of_arrow_and_hugging_face_are_read() -> None:
    pa = pytest.importorskip("pyarrow")
    documents = [[1, 2, 3], [1, 2], [4, 2, 3, 1]]
    expect = byrote.Corpus.from_ids(documents).to_dict()
    column = pa.array(documents, pa.list_(pa.int32()))
    assert byrote.Corpus.from_ids(column).to_dict() == expect
    assert byrote.Corpus.from_ids(column.slice(1)).documents == 2
    assert byrote.Corpus.from_ids(pa.chunked_array([column.slice(0, 1), column.slice(1)])).to_dict() == expect
    assert byrote.Corpus.from_ids(pa.array([*documents, None])).to_dict() == expect
    texts = ["a b c", "a b d"]
    assert byrote.Corpus.from_texts(pa.array(texts)).to_dict() == byrote.Corpus.from_texts(texts).to_dict()
    with pytest.raises(TypeError, match="one column"):
        byrote.Corpus.from_ids(pa.table({"ids": column}))
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"input_ids": documents, "text": texts + ["e"]})
    assert byrote.Corpus.from_ids(data["input_ids"]).to_dict() == expect
    assert byrote.Corpus.from_ids(data.select([2, 0, 1])["input_ids"]).to_dict() == expect
    assert byrote.Corpus.from_texts(data["text"]).documents == 3


def test_every_kind_of_list_of_arrow_is_read() -> None:
    pa = pytest.importorskip("pyarrow")
    documents = [[1, 2, 3], [1, 2, 4], [4, 4, 4]]
    expect, last = byrote.Corpus.from_ids(documents).to_dict(), byrote.Corpus.from_ids(documents[1:]).to_dict()
    kinds = [pa.list_(pa.int32()), pa.large_list(pa.int64()), pa.list_(pa.int32(), 3)]
    kinds += [pa.list_view(pa.int32()), pa.large_list_view(pa.uint16())] if hasattr(pa, "list_view") else []
    for kind in kinds:
        column = pa.array(documents, kind)
        assert byrote.Corpus.from_ids(column).to_dict() == expect, kind
        assert byrote.Corpus.from_ids(column.slice(1)).to_dict() == last, kind
        assert byrote.Corpus.from_ids(pa.chunked_array([column.slice(0, 1), column.slice(1)])).to_dict() == expect, kind
        assert byrote.Corpus.from_ids(pa.array([None, *documents[1:]], kind)).to_dict() == last, kind
    if hasattr(pa, "list_view"):
        # The lists of a view may overlap and lie in any order.
        view = pa.ListViewArray.from_arrays(pa.array([2, 0, 1]), pa.array([2, 3, 2]), pa.array([1, 2, 3, 4]))
        assert byrote.Corpus.from_ids(view).to_dict() == byrote.Corpus.from_ids([[3, 4], [1, 2, 3], [2, 3]]).to_dict()


def test_lists_of_a_fixed_length_are_read_from_other_libraries() -> None:
    documents = [[1, 2, 3], [1, 2, 4]]
    expect = byrote.Corpus.from_ids(documents).to_dict()
    polars = pytest.importorskip("polars")
    assert byrote.Corpus.from_ids(polars.Series(documents, dtype=polars.Array(polars.Int32, 3))).to_dict() == expect
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"ids": datasets.Sequence(datasets.Value("int32"), length=3)})
    data = datasets.Dataset.from_dict({"ids": documents}, features=features)
    assert byrote.Corpus.from_ids(data["ids"]).to_dict() == expect


def test_arrays_of_any_layout_are_read() -> None:
    documents = [[1, 2, 3], [1, 2, 4]]
    expect = byrote.Corpus.from_ids(documents).to_dict()
    flat = np.array(documents, dtype=np.uint32).ravel()
    unaligned = np.frombuffer(b"." + flat.tobytes(), np.uint32, offset=1)
    assert not unaligned.flags.aligned
    assert byrote.Corpus.from_ids(unaligned, offsets=[0, 3, 6]).to_dict() == expect
    assert byrote.Corpus.from_ids([unaligned[:3], unaligned[3:]]).to_dict() == expect
    numbers = np.frombuffer(b"." + np.arange(1.0, 9.0).tobytes(), np.float64, offset=1)
    assert byrote.fit(numbers, numbers).to_dict() == byrote.fit(numbers.copy(), numbers.copy()).to_dict()
    assert byrote.Corpus.from_ids(np.array(documents, dtype=object)).to_dict() == expect
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.array(document) for document in documents]
    assert byrote.Corpus.from_ids(ragged).to_dict() == expect
    assert byrote.Corpus.from_ids(np.ma.masked_array(documents)).to_dict() == expect


def test_the_extension_refuses_arrays_that_are_not_aligned() -> None:
    unaligned = np.frombuffer(b"." + np.arange(6, dtype=np.uint32).tobytes(), np.uint32, offset=1)
    with pytest.raises(TypeError, match="not aligned"):
        _byrote.Corpus.from_flat(unaligned, "{}", title="ids", length=3)


def test_columns_of_data_frames_are_read() -> None:
    documents, texts = [[1, 2, 3], [1, 2]], ["a b c", "a b"]
    ids, words = byrote.Corpus.from_ids(documents).to_dict(), byrote.Corpus.from_texts(texts).to_dict()
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"ids": documents, "text": texts})
    assert byrote.Corpus.from_ids(frame["ids"]).to_dict() == ids
    assert byrote.Corpus.from_texts(frame["text"]).to_dict() == words
    polars = pytest.importorskip("polars")
    lazy = polars.DataFrame({"ids": documents, "text": texts})
    assert byrote.Corpus.from_ids(lazy["ids"]).to_dict() == ids
    assert byrote.Corpus.from_texts(lazy["text"]).to_dict() == words


def test_what_cannot_be_counted_is_refused_clearly() -> None:
    with pytest.raises(TypeError, match="integers"):
        byrote.Corpus.from_ids(np.array([[1.5, 2.5]]))
    with pytest.raises(ValueError, match="offsets, separator_id or chunk"):
        byrote.Corpus.from_ids(np.array([1, 2, 3]))
    with pytest.raises(byrote.SettingError, match="document 1 has the id -1"):
        byrote.Corpus.from_ids([np.array([1, -1])])
    with pytest.raises(ValueError, match="must not be negative"):
        byrote.Corpus.from_ids(np.array([1, 2]), offsets=[-1, 2])
    with pytest.raises(byrote.SettingError, match="at most 2, the number of ids"):
        byrote.Corpus.from_ids(np.array([1, 2], dtype=np.uint16), offsets=[0, 3])
    with pytest.raises(TypeError, match="for one document write"):
        byrote.Corpus.from_texts("a text")
    with pytest.raises(TypeError, match=r"texts\[1\]: must be a str \(got int\)"):
        byrote.Corpus.from_texts(["a", 3])  # type: ignore[list-item]
    with pytest.raises(byrote.SettingError, match="tokenizer: does not apply to ids in memory"):
        byrote.Corpus.from_ids([[1, 2]], tokenizer="char")
    with pytest.raises(byrote.EmptyCorpusError):
        byrote.Corpus.from_texts([])


def test_a_file_that_changes_is_noticed(text: Path) -> None:
    corpus = byrote.Corpus(text)
    text.write_text("something else entirely, with other words\n")
    with pytest.raises(byrote.SettingError, match="have changed"):
        byrote.train(corpus, steps=1)


def test_an_array_that_changes_is_noticed() -> None:
    ids = np.array([[1, 2, 3], [1, 2, 4]], dtype=np.uint32)
    corpus = byrote.Corpus.from_ids(ids)
    ids[1, 2] = 3
    with pytest.raises(byrote.SettingError, match="ids: the array has changed since"):
        corpus.table()


def test_an_empty_list_of_paths_is_not_the_built_in_stories(text: Path) -> None:
    for call in (
        lambda: byrote.Corpus(paths=[]),  # type: ignore[call-arg]
        lambda: byrote.Corpus([]),
        lambda: byrote.Corpus.for_model(byrote.build.madden2024(byrote.Corpus(builtin=5)), paths=[]),  # type: ignore[call-arg]
        lambda: byrote.study(paths=[]),  # type: ignore[call-arg]
        lambda: byrote.audit(byrote.build.madden2024(byrote.Corpus(builtin=5)), paths=[]),
    ):
        with pytest.raises(byrote.SettingError, match="paths: the list is empty"):
            call()
    with pytest.raises(byrote.SettingError, match="merge: the list is empty"):
        byrote.Corpus(merge=[])
    with pytest.raises(byrote.SettingError, match="paths: are given already"):
        byrote.Corpus(text, paths=text)  # type: ignore[call-arg]
    assert byrote.Corpus(paths=text).to_dict() == byrote.Corpus(paths=[text]).to_dict() == byrote.Corpus(text).to_dict()  # type: ignore[call-arg]


def test_a_corpus_is_copied_but_not_pickled(stories: byrote.Corpus) -> None:
    assert copy.copy(stories) is copy.deepcopy(stories) is stories
    with pytest.raises(TypeError, match="a Corpus cannot be pickled: save it"):
        pickle.dumps(stories)


def test_shards_are_saved_and_merged(text: Path, tmp_path: Path) -> None:
    for i in (1, 2):
        byrote.Corpus(text, shard=f"{i}/2", save=tmp_path / f"{i}.summary")
    merged = byrote.Corpus(merge=[tmp_path / "1.summary", tmp_path / "2.summary"])
    assert merged.floor_nats == byrote.Corpus(text).floor_nats
    byrote.Corpus(text, list=tmp_path / "list.csv")
    assert (tmp_path / "list.csv").read_text().startswith("length,")


def test_a_loss_is_read_as_the_program_reads_it(program: Any) -> None:
    reading = byrote.Corpus(builtin=100).read_loss(1.2)
    assert reading.to_dict() == program("corpus", "--builtin", 100, "--loss", 1.2)["loss"]


def test_floors_and_bounds_are_shown_rounded_outwards(program: Any, tmp_path: Path) -> None:
    texts = ["a b c", "a b d", "a e c", "a b c", "a f c", "a b c"]
    corpus = byrote.Corpus.from_texts(texts)
    per = corpus.floor.nats_per_prediction
    found = repr(corpus).split("floor ")[1].split()[0]
    assert float(found) <= per < float(found) + 1e-6 and found != f"{per:.6f}", "an example that rounds up"
    (tmp_path / "text.txt").write_text("\n".join(texts) + "\n")
    command = [sys.executable, "-m", "byrote", "corpus", str(tmp_path / "text.txt"), "--quiet"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found in shown
    model = byrote.build.madden2024(corpus)
    proof = byrote.certify(model, corpus)
    parts = dict(part.split("=") for part in repr(proof)[len("Certificate(") : -1].split(", ") if part.count("=") == 1)
    assert float(parts["min_margin_lower_bound"]) <= proof.min_margin_lower_bound
    assert float(parts["gap_nats_upper_bound"]) >= proof.gap_nats_upper_bound
    assert parts["gap_nats_upper_bound"] in proof._repr_html_() and "certified" in proof._repr_html_()


def test_what_is_shown_says_what_it_is(stories: byrote.Corpus) -> None:
    assert "337 contexts" in repr(stories) and "0.353611 nats per prediction" in repr(stories)
    assert "337" in stories._repr_html_()
    assert float(stories.floor) == stories.floor.nats_per_prediction
    with pytest.raises(AttributeError, match="no field 'flor'"):
        stories.flor  # noqa: B018
    table = stories.table()
    assert len(table) == 337 and table["count"].sum() == 900
    assert sum(map(sum, table["next_counts"])) == 900
