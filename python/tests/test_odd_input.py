"""Odd input: every error is one line that names the keyword, and nothing odd is counted as if it were right."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import byrote
from byrote import _byrote

Corpus = byrote.Corpus
CALLS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "Corpus": (byrote.Corpus, ("corpus",)),
    "Corpus.for_model": (byrote.Corpus.for_model, ("corpus",)),
    "Corpus.from_texts": (byrote.Corpus.from_texts, ("corpus",)),
    "Corpus.from_ids": (byrote.Corpus.from_ids, ("corpus",)),
    "Corpus.table": (byrote.Corpus.table, ()),
    "Corpus.read_loss": (byrote.Corpus.read_loss, ()),
    "Model.predict": (byrote.Model.predict, ()),
    "audit": (byrote.audit, ("text", "audit")),
    "bounds": (byrote.bounds, ("size",)),
    "build.madden2024": (byrote.build.madden2024, ("madden2024",)),
    "build.literal": (byrote.build.literal, ("madden2024",)),
    "build.dana2024": (byrote.build.dana2024, ("dana2024",)),
    "build.kajitsuka2024": (byrote.build.kajitsuka2024, ("kajitsuka2024",)),
    "builtin_stories": (byrote.builtin_stories, ()),
    "callbacks.FloorCallback": (byrote.callbacks.FloorCallback, ("corpus",)),
    "certify": (byrote.certify, ()),
    "compare_audits": (byrote.compare_audits, ()),
    "evaluate": (byrote.evaluate, ()),
    "export": (byrote.export, ()),
    "figures": (byrote.figures, ()),
    "fit": (byrote.fit, ()),
    "incontext": (byrote.incontext, ("incontext",)),
    "load": (byrote.load, ()),
    "rank": (byrote.rank, ("rank",)),
    "report": (byrote.report, ()),
    "reproduce": (byrote.reproduce, ()),
    "study": (byrote.study, ("corpus",)),
    "sweep": (byrote.sweep, ()),
    "threshold": (byrote.threshold, ()),
    "train": (byrote.train, ("model", "train")),
}
"""Every call, and the specs whose fields are its keywords."""
if importlib.util.find_spec("ray") is not None:
    CALLS |= {"ray.corpus": (byrote.ray.corpus, ("corpus",)), "ray.sweep": (byrote.ray.sweep, ())}


def test_the_list_of_calls_is_complete() -> None:
    public = {name for name in byrote.__all__ if inspect.isfunction(getattr(byrote, name))}
    public |= {f"build.{name}" for name in byrote.build.__all__}
    public |= {f"callbacks.{name}" for name in byrote.callbacks.__all__ if inspect.isfunction(getattr(byrote.callbacks, name))}
    assert public <= set(CALLS)


def _keywords(name: str) -> Iterator[str]:
    call, specs = CALLS[name]
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    own = [p.name for p in inspect.signature(call).parameters.values() if p.kind not in variable]
    yield from (keyword for keyword in own if keyword not in ("self", "cls"))
    for spec in specs:
        yield from _byrote.fields(spec)


@pytest.mark.parametrize("name", CALLS)
def test_a_misspelled_keyword_suggests_the_right_one(name: str) -> None:
    call = CALLS[name][0]
    for keyword in _keywords(name):
        with pytest.raises(byrote.UnknownSettingError) as error:
            call(**{keyword + keyword[-1]: 1})
        assert f"did you mean `{keyword}`?" in str(error.value) or len(keyword) < 4, str(error.value)
        assert error.value.setting == keyword + keyword[-1] and isinstance(error.value, TypeError)


def test_names_of_other_programs_are_understood(stories: byrote.Corpus) -> None:
    for call, name in [
        (lambda: byrote.Corpus(builtin=3, block_size=64), "n_ctx"),  # type: ignore[call-arg]
        (lambda: byrote.train(stories, learning_rate=0.1), "lr"),  # type: ignore[call-arg]
        (lambda: byrote.train(stories, n_embd=64), "d_model"),  # type: ignore[call-arg]
    ]:
        with pytest.raises(byrote.UnknownSettingError, match=f"did you mean `{name}`"):
            call()
    with pytest.raises(byrote.UnknownSettingError, match=r"`n_ctx`; it belongs to the corpus: byrote\.Corpus\(\.\.\., n_ctx=\.\.\.\)"):
        byrote.train(stories, n_ctx=3)  # type: ignore[call-arg]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "crlf.txt").write_bytes(b"a b c\r\na b d\r\n")
    (folder / "broken.txt").write_bytes(b"a b\nc \xff d\n")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "odd.bin").write_bytes(b"\x01\x02\x03")
    np.arange(20, dtype=np.uint16).tofile(folder / "one.bin")
    (folder / "nothing").mkdir()
    np.save(folder / "numbers.npy", np.array([1.5, 2.5]))
    return folder


def logits(ids: Any) -> Any:
    return np.zeros((*ids.shape, 9), np.float32)


AUDIT: dict[str, Any] = {"d_vocab": 9, "prefix": 4, "suffix": 4, "bos": "none"}
WRONG: list[tuple[str, type[Exception], str]] = [
    # Documents in memory.
    ("Corpus.from_ids([])", byrote.EmptyCorpusError, "no documents"),
    ("Corpus.from_ids(np.array([]))", byrote.EmptyCorpusError, "no documents"),
    ("Corpus.from_ids(np.zeros((3, 0), np.uint16))", byrote.EmptyCorpusError, "3 read, none of which has a token"),
    ("Corpus.from_ids(5)", TypeError, "ids: must be a list of documents (got int)"),
    ("Corpus.from_ids(None)", TypeError, "ids: must be a list of documents (got NoneType)"),
    ("Corpus.from_ids('one.bin')", TypeError, "byrote.Corpus(path) reads files"),
    ("Corpus.from_ids(folder / 'one.bin')", TypeError, "byrote.Corpus(path) reads files"),
    ("Corpus.from_ids(['a text'])", TypeError, "ids: must be integers (got text)"),
    ("Corpus.from_ids({'a': [1, 2]})", TypeError, "one column (got dict)"),
    ("Corpus.from_ids([[1.0, float('nan')]])", TypeError, "ids: must be integers (got float64)"),
    ("Corpus.from_ids([[1, None]])", TypeError, "ids: must be integers (got None)"),
    ("Corpus.from_ids([[True, False]])", TypeError, "ids: must be integers (got bool)"),
    ("Corpus.from_ids([[2**70, 1]])", TypeError, "ids: must be integers (got 1180591620717411303424)"),
    ("Corpus.from_ids([[2**32, 1]])", ValueError, "document 1 has the id 4294967296"),
    ("Corpus.from_ids(np.array([-1, 2]), contexts='windows')", ValueError, "document 1 has the id -1"),
    ("Corpus.from_ids([[1, 2], [3, [4]]])", TypeError, "ids: a document must be a list of integers"),
    ("Corpus.from_ids([1, [2, 3]])", TypeError, "ids: a document must be a list of integers"),
    ("Corpus.from_ids([[1, 2], 3])", TypeError, "ids: a document must be a list of integers (got 3 beside lists)"),
    ("Corpus.from_ids([[[1, 2], [3, 4]]])", ValueError, "ids: a document must be one-dimensional"),
    ("Corpus.from_ids(np.ones((2, 2, 2), int))", ValueError, "ids: must have one or two dimensions"),
    ("Corpus.from_ids(i for i in range(9))", ValueError, "ids: is one row of ids"),
    ("Corpus.from_ids(np.ma.masked_array([[1, 2]], [[0, 1]]))", TypeError, "ids: has masked values"),
    ("Corpus.from_ids([[1, 2, 3]], d_vocab=2)", ValueError, "d_vocab: does not apply to ids in memory"),
    ("Corpus.from_texts(['a b'], labels=2)", ValueError, "labels: does not apply to texts in memory"),
    ("Corpus(paths=5)", ValueError, "paths: must be a path or a list of paths (got 5)"),
    ("Corpus(merge=5)", ValueError, "merge: must be a path or a list of paths (got 5)"),
    ("Corpus.from_ids(np.arange(9), offsets=[])", ValueError, "offsets: must be one more"),
    ("Corpus.from_ids(np.arange(9), offsets=[0.5, 3])", TypeError, "offsets: must be integers"),
    ("Corpus.from_ids(np.arange(9), chunk=2.5)", ValueError, "chunk: must be a whole number of at least 1 (got 2.5)"),
    ("Corpus.from_ids(np.arange(9), chunk=0)", ValueError, "chunk: must be a whole number of at least 1 (got 0)"),
    ("Corpus.from_ids(np.arange(9), separator_id=-5)", ValueError, "separator_id: must be a whole number"),
    ("Corpus.from_ids(np.arange(9), separator_id='x')", ValueError, "separator_id: must be a whole number"),
    ("Corpus.from_texts(None)", TypeError, "texts: must be a list of documents (got NoneType)"),
    ("Corpus.from_texts(b'some text')", TypeError, "texts: give a list of texts"),
    ("Corpus.from_texts(['a b', None])", TypeError, "texts[1]: must be a str (got NoneType)"),
    ("Corpus.from_texts([[1, 2]])", TypeError, "texts[0]: must be a str (got list)"),
    ("Corpus.from_texts(['a\\ud800 b'])", ValueError, "texts[0]: has a lone surrogate"),
    ("Corpus.from_texts({'a b': 1})", TypeError, "one column (got dict)"),
    ("Corpus.from_texts(['a b'], title=5)", ValueError, "title: must be a str (got 5)"),
    ("Corpus.from_texts(['a b'], threads=0)", ValueError, "threads: must be a whole number of at least 1 (got 0)"),
    ("Corpus.from_texts(['a b'], threads=1.5)", ValueError, "threads: must be a whole number"),
    ("Corpus.from_texts(['a b'], progress='yes')", ValueError, "progress: must be True or False (got 'yes')"),
    ("Corpus.from_texts(['a b'], n_ctx=float('nan'))", ValueError, "n_ctx: must be finite (got nan)"),
    ("Corpus.from_texts(['a b'], n_ctx=object())", ValueError, "n_ctx: cannot be of type object"),
    ("Corpus.from_texts(['a b'], tokenizer='chars')", ValueError, "did you mean char?"),
    # Files.
    ("Corpus(folder / 'broken.txt')", byrote.FormatError, "line 2: invalid UTF-8"),
    ("Corpus(folder / 'empty.txt')", byrote.EmptyCorpusError, "the input is empty"),
    ("Corpus(folder / 'missing.txt')", FileNotFoundError, "cannot open"),
    ("Corpus(folder / 'nothing')", byrote.FormatError, "is a directory without files to read"),
    ("Corpus(folder / 'numbers.npy')", byrote.FormatError, "token ids must be integers"),
    ("Corpus(folder / 'odd.bin', contexts='windows')", byrote.FormatError, "odd.bin"),
    ("Corpus(folder / 'one.bin')", byrote.FormatError, "set `separator_id`"),
    ("Corpus('')", ValueError, "paths: must not be empty"),
    ("Corpus(5)", ValueError, "paths: must be a path or a list of paths (got 5)"),
    ("Corpus(None)", ValueError, "paths: must be a path or a list of paths (got None)"),
    ("Corpus(b'one.bin')", ValueError, "paths: must be a path"),
    ("Corpus([])", ValueError, "paths: the list is empty"),
    ("Corpus([folder, 5])", ValueError, "paths: must be a path (got 5)"),
    ("Corpus(builtin=3, save=5)", ValueError, "save: must be a path (got 5)"),
    ("Corpus(builtin=3).read_loss('high')", ValueError, "loss: must be a finite number (got 'high')"),
    ("Corpus(builtin=3).read_loss(float('nan'))", ValueError, "loss: must be a finite number (got nan)"),
    ("Corpus(builtin=3).read_loss([])", ValueError, "loss: the list is empty"),
    ("Corpus.for_model(5, builtin=3)", ValueError, "model: must be a byrote.Model or a path (got int)"),
    ("Corpus(builtin=3).by_length['lenght']", KeyError, "there is no column lenght"),
    # Jobs.
    ("byrote.bounds([[1, 2, 3]])", ValueError, "corpus: must be a byrote.Corpus, a path, or a list of paths (got list)"),
    ("byrote.bounds(5)", ValueError, "from_texts and from_ids of byrote.Corpus take documents in memory"),
    ("byrote.bounds(small, encoder='x')", ValueError, "encoder: must be a whole number"),
    ("byrote.build.madden2024(small, gap=float('nan'))", ValueError, "gap: must be finite (got nan)"),
    ("byrote.build.madden2024(small, seed=-1)", ValueError, "seed: must be a whole number of at least 0 (got -1)"),
    ("byrote.build.madden2024(small, seed=2**70)", ValueError, "seed: must be a whole number of at most 18446744073709551615"),
    ("byrote.build.kajitsuka2024(small, tokenizer='char')", ValueError, "tokenizer: applies only to pairs"),
    ("byrote.build.kajitsuka2024(small, pairs='x.tsv')", ValueError, "pairs: cannot be combined with a corpus"),
    ("byrote.certify(5, small)", ValueError, "model: must be a byrote.Model or a path (got int)"),
    ("byrote.evaluate(model, small, worst=-1)", ValueError, "worst: must be a whole number of at least 0 (got -1)"),
    ("byrote.evaluate(model, small, tol='x')", ValueError, "tol: must be a finite number (got 'x')"),
    ("byrote.train(small, callback=5)", ValueError, "callback: must be a function of one step"),
    ("byrote.train(small, callback_every=0)", ValueError, "callback_every: must be a whole number of at least 1 (got 0)"),
    ("byrote.train(small, lr=float('inf'))", ValueError, "lr: must be finite (got inf)"),
    ("byrote.train(small, resume='yes')", ValueError, "resume: must be True or False (got 'yes')"),
    ("model.predict(5)", ValueError, "context: must be a text or token ids (got 5)"),
    ("model.predict([1.5])", ValueError, "context: must be a whole number"),
    ("model.predict([-1])", ValueError, "context: must be a whole number of at least 0 (got -1)"),
    ("model.predict('never-seen')", ValueError, "context: the model has never seen the token"),
    ("model.predict('')", ValueError, "context: contains no token"),
    ("model.save(5)", ValueError, "path: must be a path (got 5)"),
    ("byrote.load(None, 5)", TypeError, "positional argument"),
    ("byrote.load(5)", ValueError, "path: must be a path (got 5)"),
    ("byrote.audit(logits, [[1] * 50])", TypeError, "d_vocab: how many tokens the function knows must be given"),
    ("byrote.audit(logits, [[-1] * 50], **AUDIT)", ValueError, "corpus: has the id -1"),
    ("byrote.audit(logits, [[1.5] * 50], **AUDIT)", TypeError, "corpus: must be integers (got float64)"),
    ("byrote.audit(logits, 5, **AUDIT)", ValueError, "corpus: must be a path, texts, or lists of token ids (got int)"),
    ("byrote.audit(logits, [[1] * 50], batch_size=0, **AUDIT)", ValueError, "batch_size: must be a whole number of at least 1"),
    ("byrote.audit(lambda ids: None, [[1] * 50], **AUDIT)", ValueError, "the model must return logits of shape [batch, length, d_vocab]"),
    ("byrote.audit(logits, [[9] * 50], **AUDIT)", ValueError, "corpus: has the id 9: with d_vocab=9, token ids are from 0 to 8"),
    ("byrote.audit(model, [[1] * 20], prefix=2, suffix=2)", ValueError, "corpus: token 1 is not one of the model's"),
    ("byrote.audit(logits, [[1] * 50], vocabulary=5)", ValueError, "vocabulary: must be a byrote.Corpus (got int)"),
    ("byrote.audit(logits, [[1] * 50], start_token=2**40, **AUDIT)", ValueError, "start_token: must be a whole number of at most 4294967295"),
    ("byrote.audit(logits, [[1] * 50], paths='x', **AUDIT)", ValueError, "paths: cannot be combined with corpus"),
    ("byrote.train(small, init=5)", ValueError, "init: must be a byrote.Model or a path (got int)"),
    ("byrote.load(None)", ValueError, "path: must be a path (got None)"),
    ("model.save(None)", ValueError, "path: must be a path (got None)"),
    ("byrote.report(None)", ValueError, "directory: must be a path (got None)"),
    ("byrote.compare_audits(None, 'd')", ValueError, "before: must be a path (got None)"),
    ("byrote.study(out=None)", ValueError, "out: must be a path (got None)"),
    ("byrote.reproduce(None)", ValueError, "figure: must be a str (got None)"),
    ("byrote.fit([1, 2], [1, 2], laws=5)", ValueError, "laws: must be the name of a law, or a list of names"),
    ("byrote.fit([1, 2], [1, 2], laws=[5])", ValueError, "laws: must be the name of a law, or a list of names"),
    ("byrote.fit([1, 2j], [1, 2])", ValueError, "x: must be real numbers"),
    ("byrote.fit([1, 2], np.ma.masked_array([1, 2], [0, 1]))", ValueError, "y: has masked values"),
    ("small.read_loss(np.complex64(1 + 2j))", ValueError, "loss: must be a finite number"),
    ("byrote.study(5)", ValueError, "paths: must be a path or a list of paths (got 5)"),
    ("byrote.sweep({'corpus': {'builtin': 3}, 'model': {'d_mpl': [3]}})", byrote.FormatError, "plan: unknown key `d_mpl` in [model]; did you mean"),
    ("byrote.sweep({'corpus': {'builtin': None}})", byrote.FormatError, "plan: the plan is empty"),
    ("byrote.sweep({'training': {'lr': float('nan')}})", ValueError, "plan: lr must be finite (got nan)"),
    ("byrote.sweep({'corpus': {'builtin': {'a': 1}}})", ValueError, "plan: builtin in corpus must be a value or a list of values"),
    ("byrote.sweep(5)", ValueError, "plan: must be a path or a dictionary (got int)"),
    ("byrote.fit([], [])", ValueError, "x: must not be empty"),
    ("byrote.fit([1, 2], [1, float('nan')])", ValueError, "y: must be finite (got nan at index 1)"),
    ("byrote.fit([1, 2], ['a', 'b'])", ValueError, "y: must be a list of numbers"),
    ("byrote.fit([1, 2], [1, 2], [0])", ValueError, "group: 1 values for 2 sizes"),
    ("byrote.fit([1, 2], [1, 2], [-1, 0])", ValueError, "group: must be whole numbers of at least 0"),
    ("byrote.fit([[1, 2]], [[1, 2]])", ValueError, "x: must be one-dimensional"),
    ("byrote.fit([1, 2], [1, 2], laws='lineer')", ValueError, "laws: \"lineer\" is not one of"),
    ("byrote.threshold([1, 2], [2, 1], level='x')", ValueError, "level: must be a finite number (got 'x')"),
    ("byrote.rank(a=[1, float('nan')], b=[1])", ValueError, "a: must be a finite number (got nan)"),
    ("byrote.incontext(np.zeros((0, 3)))", ValueError, "sequence: has 0 rows"),
    ("byrote.incontext([['a']])", ValueError, "sequence: must be an array of numbers"),
    ("byrote.incontext(np.zeros((9, 3)), file='x.csv')", ValueError, "sequence: cannot be combined with file"),
    ("byrote.builtin_stories(2.5)", ValueError, "documents: must be a whole number"),
]


@pytest.mark.parametrize(("code", "kind", "message"), WRONG, ids=[code for code, _, _ in WRONG])
def test_odd_input_is_one_clear_line(code: str, kind: type[Exception], message: str, folder: Path, stories: byrote.Corpus) -> None:
    small = stories
    names = {**globals(), "folder": folder, "small": small, "model": _model()}
    with pytest.raises(kind) as error:
        eval(code, names)
    text = str(error.value)
    assert message in text
    assert "\n" not in text and not re.search(r"(^|[\s`])--\w", text) and "/tmp/byrote-" not in text


def _model(kept: list[byrote.Model] = []) -> byrote.Model:  # noqa: B006
    if not kept:
        kept.append(byrote.build.madden2024(Corpus(builtin=5)))
    return kept[0]


def test_unusual_forms_count_as_the_usual_ones(folder: Path) -> None:
    ids = np.arange(40, dtype=np.uint16) % 7
    usual = Corpus.from_ids(ids, contexts="windows", n_ctx=4).to_dict()
    swapped = ids.astype(ids.dtype.newbyteorder())
    for form in (list(ids), (int(i) for i in ids), ids[::-1][::-1], np.repeat(ids, 2)[::2], swapped, memoryview(ids)):
        assert Corpus.from_ids(form, contexts="windows", n_ctx=4).to_dict() == usual, type(form)
    assert Corpus.from_ids(range(9), contexts="windows").to_dict() == Corpus.from_ids(np.arange(9), contexts="windows").to_dict()
    ids.tofile(folder / "ids.bin")
    for dtype in ("u16", "uint16", np.uint16, np.dtype("uint16")):
        assert Corpus(folder / "ids.bin", dtype=dtype, contexts="windows", n_ctx=4).to_dict() == usual  # type: ignore[arg-type]
    assert Corpus(folder / "crlf.txt").vocabulary == ["a", "b", "c", "d"]
    assert Corpus(folder / "crlf.txt", split=(0, 0.5)).documents == Corpus(folder / "crlf.txt", split="0..0.5").documents == 1
    assert Corpus(random=5, lengths=(1, 2), labels=2).to_dict() == Corpus(random=5, lengths="1..2", labels=2).to_dict()


def test_tables_are_refused_and_columns_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    columns = {"ids": [[1, 2, 3], [1, 2]], "text": ["a b c", "a b"], "flat": [1, 2]}
    usual = Corpus.from_texts(columns["text"]).to_dict()
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        with pytest.raises(TypeError, match=r"texts: give one column of the table, such as table\['text'\]"):
            Corpus.from_texts(frame)
        with pytest.raises(TypeError, match="ids: give one column"):
            Corpus.from_ids(frame)
        assert Corpus.from_texts(frame["text"]).to_dict() == usual
        assert Corpus.from_ids(frame["ids"]).documents == 2
        assert Corpus.from_ids(frame["flat"], contexts="windows").documents == 1
    # Missing values of a column are left out, as those of Arrow are.
    assert Corpus.from_texts(pandas.Series(["a b c", None, "a b"])).to_dict() == usual


def test_plans_take_what_numpy_gives(tmp_path: Path) -> None:
    plan = {"corpus": {"builtin": np.int64(5)}, "model": {"d_mlp": np.array([4, 8])}, "training": {"steps": 2, "lr": None}}
    assert byrote.sweep(plan, out=tmp_path / "run").results["d_mlp"].tolist() == [4, 8]


def test_tables_have_slices() -> None:
    table = Corpus(builtin=3).by_length
    assert len(table[:2]) == 2 and table[:2][1] == table[1]
