"""Everything that is public is documented, has an example that runs, and is compared with the program."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import byrote

TESTS = Path(__file__).resolve().parent
MODULES: list[ModuleType] = [byrote, byrote.build, byrote.callbacks]
if importlib.util.find_spec("ray") is not None:
    MODULES.append(byrote.ray)

def _public() -> Iterator[tuple[str, Any]]:
    for module in MODULES:
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)


FUNCTIONS = dict(item for item in _public() if inspect.isfunction(item[1]))
CLASSES = dict(item for item in _public() if inspect.isclass(item[1]))


def test_there_is_something_to_check() -> None:
    assert len(FUNCTIONS) >= 20 and len(CLASSES) >= 25
    assert all(module.__doc__ for module in MODULES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_a_docstring_with_an_example_and_types(name: str) -> None:
    function = FUNCTIONS[name]
    first = inspect.getdoc(function).split("\n")[0]  # type: ignore[union-attr]
    assert first.endswith((".", ":")) and len(first) > 20, first
    assert ">>> " in function.__doc__, "no example"
    assert "return" in function.__annotations__, "no types"


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_and_its_methods_are_documented(name: str) -> None:
    kind = CLASSES[name]
    assert kind.__doc__ and len(kind.__doc__.split()) > 3, kind.__doc__
    for attribute, value in vars(kind).items():
        if attribute.startswith("_"):
            continue
        inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if callable(inner):
            assert inner.__doc__, f"{name}.{attribute} has no docstring"
            has_settings = inspect.isfunction(inner) and not isinstance(value, property)
            if has_settings and kind in (byrote.Corpus, byrote.Model):
                assert ">>> " in inner.__doc__, f"{name}.{attribute} has no example"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_compared_with_the_program(name: str) -> None:
    call = re.escape(name) + r"\("
    tests = [
        test
        for path in TESTS.glob("test_*.py")
        for test in re.split(r"\n(?=def test_|@)", path.read_text(encoding="utf-8"))
        if "program(" in test
    ]
    assert any(re.search(call, test) for test in tests), f"no test compares {name} with the program"


def test_the_settings_of_editors_are_those_of_the_library() -> None:
    from byrote import _byrote, _settings

    specs = {
        "corpus": _settings.CorpusSettings,
        "model": _settings.ModelSettings,
        "madden2024": _settings.Madden2024Settings,
        "dana2024": _settings.Dana2024Settings,
    }
    for name, listed in specs.items():
        missing = set(_byrote.fields(name)) - set(listed.__annotations__) - {"paths", "init"}
        assert not missing, f"{listed.__name__} lacks {missing}"
