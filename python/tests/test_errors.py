"""Errors: one class per kind, with the fields of the JSON error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import byrote
from byrote import _byrote, _settings


def test_an_unknown_keyword_suggests_the_right_one() -> None:
    for call, name in [
        (lambda: byrote.Corpus(builtin=3, n_ctxx=3), "n_ctx"),  # type: ignore[call-arg]
        (lambda: byrote.train(byrote.Corpus(builtin=3), d_mpl=3), "d_mlp"),  # type: ignore[call-arg]
        (lambda: byrote.build.madden2024(byrote.Corpus(builtin=3), activatoin="tanh"), "activation"),  # type: ignore[call-arg]
        (lambda: byrote.bounds(byrote.Corpus(builtin=3), dmodel=3), "d_model"),  # type: ignore[call-arg]
    ]:
        with pytest.raises(byrote.UnknownSettingError, match=f"did you mean `{name}`") as error:
            call()
        assert isinstance(error.value, (TypeError, ValueError)) and error.value.kind == "unknown_setting"


def test_wrong_values_name_their_setting() -> None:
    with pytest.raises(byrote.SettingError, match="n_ctx: must be at least 1") as error:
        byrote.Corpus(builtin=3, n_ctx=0)
    assert isinstance(error.value, ValueError) and error.value.setting == "n_ctx" and error.value.path is None
    with pytest.raises(byrote.SettingError, match=r'n_ctx: must be a whole number from 0 to 4294967295 \(got "many"\)'):
        byrote.Corpus(builtin=3, n_ctx="many")  # type: ignore[arg-type]
    with pytest.raises(byrote.SettingError, match='optimizer="lbfgs"'):
        byrote.train(byrote.Corpus(builtin=3), optimizer="adam", warmup=3)
    with pytest.raises(byrote.SettingError, match="threads: must be a whole number of at least 1"):
        byrote.Corpus(builtin=3, threads=0)


def test_errors_have_the_fields_of_the_program(program: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"good\nbad \xff\n")
    theirs = program("corpus", bad, code=2)["error"]
    with pytest.raises(byrote.FormatError) as error:
        byrote.Corpus(bad)
    ours = error.value
    assert (ours.kind, ours.path, ours.line) == (theirs["kind"], theirs["path"], theirs["line"])
    with pytest.raises(byrote.FileError) as missing:
        byrote.Corpus(tmp_path / "none.txt")
    assert missing.value.kind == program("corpus", tmp_path / "none.txt", code=2)["error"]["kind"]
    assert str(missing.value).endswith("No such file or directory (os error 2)")
    with pytest.raises(FileNotFoundError):
        byrote.Corpus(tmp_path / "none.txt")


def test_values_of_the_wrong_type_are_named_as_python_names_them() -> None:
    for call, message in [
        (lambda: byrote.Corpus(builtin=3, n_ctx=1.5), "n_ctx: must be a whole number from 0 to 4294967295 (got 1.5)"),  # type: ignore[arg-type]
        (lambda: byrote.Corpus(builtin=3, n_ctx=-1), "n_ctx: must be a whole number from 0 to 4294967295 (got -1)"),
        (lambda: byrote.Corpus(builtin=3, n_ctx=True), "n_ctx: must be a whole number from 0 to 4294967295 (got True)"),
        (lambda: byrote.Corpus(builtin=3, field=["a"]), "field: must be a str (got a list)"),  # type: ignore[arg-type]
        (lambda: byrote.Corpus(builtin=3, join="x"), 'join: must be True or False (got "x")'),  # type: ignore[arg-type]
        (lambda: byrote.Corpus(builtin={"a": 1}), "builtin: must be a whole number of at least 0 (got a dictionary)"),  # type: ignore[arg-type]
        (lambda: byrote.Corpus(builtin=3, max_memory=[1]), 'max_memory: must be a number of bytes or a size such as "4G"'),  # type: ignore[arg-type]
        (lambda: byrote.train(byrote.Corpus(builtin=3), lr="x"), 'lr: must be a number (got "x")'),  # type: ignore[arg-type]
        (lambda: byrote.incontext([[1.0, 2.0]]), "sequence: has 1 row; a sequence needs at least 2"),
        (lambda: byrote.fit([1e308, 1e308, 1], [1, 2, 3]), "points: group 0 has two points at x = 1e+308 (y = 1 and 2)"),
    ]:
        with pytest.raises(byrote.InputError) as error:
            call()
        assert str(error.value) == message


def test_a_missing_directory_is_a_missing_file(tmp_path: Path) -> None:
    model = byrote.build.madden2024(byrote.Corpus(builtin=3))
    nowhere = tmp_path / "none"
    for call in (
        lambda: byrote.report(nowhere),
        lambda: byrote.Corpus(builtin=3, save=nowhere / "x"),
        lambda: byrote.Corpus(builtin=3, list=nowhere / "x"),
        lambda: model.save(nowhere / "x"),
        lambda: byrote.load(nowhere),
    ):
        with pytest.raises(FileNotFoundError) as error:
            call()
        assert isinstance(error.value, byrote.MissingFileError) and str(nowhere) in str(error.value)


def test_the_keywords_for_editors_are_the_fields_of_the_specs() -> None:
    pairs = {
        "model": (_settings.ModelSettings, {"init"}),
        "size": (_settings.SizeSettings, set()),
        "madden2024": (_settings.Madden2024Settings, set()),
        "dana2024": (_settings.Dana2024Settings, set()),
        "corpus": (_settings.CorpusSettings, {"paths"}),
        "kajitsuka2024": (_settings.Kajitsuka2024Settings, set()),
        "rank": (_settings.RankSettings, set()),
        "incontext": (_settings.IncontextSettings, set()),
    }
    for spec, (keywords, but) in pairs.items():
        assert set(keywords.__annotations__) == set(_byrote.fields(spec)) - but, spec
    train = set(_settings.TrainSettings.__annotations__) - set(_settings.ModelSettings.__annotations__)
    assert train == set(_byrote.fields("train"))
    audit = {*_byrote.fields("text"), *_byrote.fields("audit")} - {"paths", "tokenizer", "n_ctx"}
    assert set(_settings.AuditSettings.__annotations__) == audit
