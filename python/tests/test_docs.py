"""The pages and notebooks that show the package, run as they are printed."""

from __future__ import annotations

import doctest
import json
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRESS = "<IPython.core.display.HTML object>"
"""What is left of a progress bar, which a slow machine shows and a fast one does not."""
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_a_page_says_what_python_says(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```pycon\n(.*?)```", text, re.DOTALL)
    assert blocks, "no examples"
    flags = doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page, page, 0)
    failed, tried = doctest.DocTestRunner(optionflags=flags).run(test)
    assert tried > 0 and failed == 0


def _printed(outputs: list[dict[str, object]]) -> list[str]:
    """What a cell shows as text, without times."""
    found = []
    for output in outputs:
        data = output.get("data")
        text = data.get("text/plain") if isinstance(data, dict) else output.get("text")
        joined = "".join(text) if isinstance(text, list) else str(text or "")
        found.append(joined.strip())
    return [text for text in found if text and text != PROGRESS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_shows_what_it_computes(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("BYROTE_NOTEBOOK_OUT", str(tmp_path))
    stored = json.loads(path.read_text(encoding="utf-8"))
    notebook = nbformat.read(path, as_version=4)
    client.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    cells = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    again = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if os.environ.get("BYROTE_BLESS") == "1":
        for cell in again:
            cell.outputs = [o for o in cell.outputs if o.get("data", {}).get("text/plain") != PROGRESS]
            cell.metadata.pop("execution", None)
        nbformat.write(notebook, path)
        return
    for old, new in zip(cells, again, strict=True):
        assert _printed([dict(o) for o in new.outputs]) == _printed(old["outputs"]), "".join(old["source"])


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 3
    assert all(path.stat().st_size < 200_000 for path in NOTEBOOKS)
