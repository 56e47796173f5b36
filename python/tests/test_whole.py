"""Studies, sweeps, laws, reports, ranks, learning in context, exports: beside the program's JSON."""

from __future__ import annotations

import csv
import html
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import same

import byrote


def test_a_study_says_what_the_program_says(program: Any, tmp_path: Path) -> None:
    ours = byrote.study(builtin=12, quick=True, out=tmp_path / "ours")
    same(ours, program("study", "--builtin", 12, "--quick", "--out", tmp_path / "theirs"), but=("report_file",))
    assert "<iframe" in ours.report._repr_html_() and "Floor:" in repr(ours)
    assert html.escape(ours.verdict[0]) in ours._repr_html_()
    ours.report.save(tmp_path / "copy.html")
    assert (tmp_path / "copy.html").read_text() == ours.report.html
    again = byrote.report(tmp_path / "ours")
    assert Path(again).name == "report.html"
    with pytest.raises(ValueError, match="cannot be combined"):
        byrote.study(builtin=3, quick=True, full=True)


def test_a_sweep_writes_what_the_program_writes(program: Any, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text("seeds = [0, 1]\n[corpus]\nbuiltin = 10\n[model]\nd_mlp = [4, 8]\n[training]\nsteps = 20\n")
    ours = byrote.sweep(plan, out=tmp_path / "ours")
    theirs = program("sweep", plan, "--out", tmp_path / "theirs")
    same(ours, theirs, but=("directory", "results_file", "report_file"))
    assert (tmp_path / "ours/results.csv").read_bytes() == (tmp_path / "theirs/results.csv").read_bytes()
    assert len(ours.results) == 4 and set(ours.results["d_mlp"].tolist()) == {4, 8}
    as_dictionary = {"seeds": [0, 1], "corpus": {"builtin": 10}, "model": {"d_mlp": [4, 8]}, "training": {"steps": 20}}
    byrote.sweep(as_dictionary, out=tmp_path / "dictionary")
    assert (tmp_path / "dictionary/results.csv").read_bytes() == (tmp_path / "ours/results.csv").read_bytes()
    dry = byrote.sweep(plan, out=tmp_path / "none", dry_run=True)
    assert len(dry.jobs) == 4 and not (tmp_path / "none").exists()
    for name in ("results", "report"):
        with pytest.raises(byrote.SettingError, match="dry_run: a dry run only lists the jobs"):
            getattr(dry, name)
    with pytest.raises(byrote.FormatError, match="did you mean `d_mlp`"):
        byrote.sweep({"model": {"d_mpl": [4]}})


def test_ranks_are_those_of_the_program(program: Any) -> None:
    same(byrote.rank(activation="gelu", n=5, seed=3), program("rank", "--activation", "gelu", "--n", 5, "--seed", 3))
    same(byrote.rank(polynomial=[1, 0, 1], b=[1, -1]), program("rank", "--polynomial", "1,0,1", "--b", "1,-1"))
    with pytest.raises(byrote.UnknownSettingError, match="polynomial"):
        byrote.rank(polynomal=[1])


def test_learning_in_context_is_that_of_the_program(program: Any, tmp_path: Path) -> None:
    same(byrote.incontext(sequences=2, length=20, d=3), program("incontext", "--sequences", 2, "--length", 20, "--d", 3))
    orbit = np.cumsum(np.ones((12, 2)), axis=0) / 12
    np.save(tmp_path / "orbit.npy", orbit)
    ours = byrote.incontext(orbit, kernel="exp", normalised=True)
    same(ours, program("incontext", "--file", tmp_path / "orbit.npy", "--kernel", "exp", "--normalised"))
    network = byrote.incontext(layers=3, length=10, d=2, sequences=1).model
    assert network is not None and "in-context" in network.kind
    network.save(tmp_path / "network.safetensors")
    assert byrote.load(tmp_path / "network.safetensors").to_dict() == program("show", tmp_path / "network.safetensors")


def test_exports_are_those_of_the_program(program: Any, tmp_path: Path) -> None:
    corpus = byrote.Corpus(builtin=10)
    model = byrote.train(corpus, preset="gpt2", n_layers=1, d_model=16, steps=2).model
    model.save(tmp_path / "m.safetensors")
    for to in ("onnx", "huggingface"):
        ours = byrote.export(model, tmp_path / f"ours-{to}", to=to)  # type: ignore[arg-type]
        theirs = program("export", tmp_path / "m.safetensors", "--to", to, "--out", tmp_path / f"theirs-{to}")
        same(ours, theirs, but=("file", "directory"))
    assert (tmp_path / "ours-onnx").read_bytes() == (tmp_path / "theirs-onnx").read_bytes()
    again = byrote.load(tmp_path / "ours-huggingface")
    np.testing.assert_allclose(again.logits([1, 2, 3]), model.logits([1, 2, 3]), rtol=1e-5, atol=1e-5)
    with pytest.raises(byrote.SettingError, match="exact numbers"):
        byrote.export(byrote.build.kajitsuka2024(corpus), tmp_path / "exact.onnx")
    with pytest.raises(byrote.SettingError, match="onx"):
        byrote.export(model, tmp_path / "x", to="onx")  # type: ignore[arg-type]


def test_laws_are_compared() -> None:
    x = np.repeat(np.arange(1, 9), 3)
    y = 2.0 * x + np.tile([0.1, -0.1, 0.05], 8)
    found = byrote.fit(x, y, np.tile([0, 1, 2], 8), laws=["linear", "quadratic", "power"])
    # A constant is always among them: a law has to explain more than it does.
    assert {row["law"] for row in found.to_dict()["rows"]} == {"constant", "linear", "quadratic", "power"}
    with pytest.raises(byrote.SettingError, match="lineer"):
        byrote.fit(x, y, np.tile([0, 1, 2], 8), laws=["lineer"])
    with pytest.raises(byrote.SettingError, match="y: 2 values for 3 sizes"):
        byrote.fit([1, 2, 3], [1, 2])


def test_laws_and_sizes_are_those_of_reports(program: Any, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        """
        seeds = [0, 1]
        [corpus]
        builtin = [15, 25, 40, 60]
        [model]
        d_mlp = [2, 4, 8, 16, 48]
        [training]
        steps = 2000
        stop_relative_gap = 0.005
        """
    )
    found = program("sweep", plan, "--out", tmp_path / "run")
    page = html.unescape((tmp_path / "run/report.html").read_text(encoding="utf-8"))
    with open(tmp_path / "run/results.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if float(row["gap_nats"]) > 0]
    assert found["done"] == 40
    points = []
    for contexts in sorted({int(row["contexts"]) for row in rows}):
        here = [row for row in rows if int(row["contexts"]) == contexts]
        gaps = [float(row["gap_nats"]) / float(row["floor_nats"]) for row in here]
        sizes, seeds = [float(row["parameters"]) for row in here], [int(row["seed"]) for row in here]
        smallest = byrote.threshold(sizes, gaps, 0.01, seeds, relative=True)["size"]
        if smallest["kind"] == "at":
            points.append((contexts, smallest["size"]))
            # The table of the smallest models.
            assert f"{contexts:,}" in page and f"{round(smallest['size']):,}" in page
    assert len(points) > 2, "the grid encloses too few sizes"
    laws = ["proportional", "linear", "quadratic", "power"]
    answer = byrote.fit([x for x, _ in points], [y for _, y in points], laws=laws, relative=True)
    assert answer.sentence[1:] + "." in page  # Its first letter is capital there.
    judged = page[page.index("Laws compared on") :]
    for row in answer.to_dict()["rows"]:
        for value, places in ((row["fit"]["r_squared"], 4), (row["delta"], 1)):
            assert value is None or f">{value:.{places}f}<" in judged, row["law"]
    plain = byrote.fit([x for x, _ in points], [y for _, y in points], laws=laws)
    assert plain.rows != answer.rows, "errors of equal size are another question"


def test_built_in_stories_are_those_of_the_program(program: Any, tmp_path: Path) -> None:
    for seed in (0, 7):
        stories = byrote.builtin_stories(50, seed=seed)
        (tmp_path / "stories.txt").write_text("\n".join(stories) + "\n", encoding="utf-8")
        given = program("corpus", tmp_path / "stories.txt", "--list", tmp_path / "given.csv")
        made = program("corpus", "--builtin", 50, "--seed", seed, "--list", tmp_path / "made.csv")
        assert {**given, "list_file": None} == {**made, "list_file": None}
        assert (tmp_path / "given.csv").read_bytes() == (tmp_path / "made.csv").read_bytes()


def test_figures_are_previewed(program: Any) -> None:
    assert byrote.figures().to_dict()["figure"] == [f["figure"] for f in program("reproduce")["figures"]]
    same(byrote.reproduce("madden2024-fig1", dry_run=True), program("reproduce", "madden2024-fig1", "--dry-run"))


def test_columns_of_results_have_the_types_of_their_names(tmp_path: Path) -> None:
    plan = {"corpus": {"builtin": 5}, "model": {"d_mlp": [2]}, "training": {"steps": 2}}
    sweep = byrote.sweep(plan, out=tmp_path / "run")
    with open(tmp_path / "run/results.csv", newline="") as file:
        row = next(iter(csv.DictReader(file)))
    for identity in ("1234567890123e45", "0000000000000012"):
        with open(tmp_path / "run/results.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            writer.writeheader()
            writer.writerow({**row, "job": identity, "corpus": "1984", "lr": "1e-3"})
        found = sweep.results[0]
        assert (found["job"], found["corpus"], found["lr"], found["d_mlp"]) == (identity, "1984", 0.001, 2)
        assert found["bottleneck"] is False and found["error"] is None


def test_reports_are_found_after_a_change_of_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = {"corpus": {"builtin": 5}, "model": {"d_mlp": [2]}, "training": {"steps": 2}}
    sweep = byrote.sweep(plan, out="run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(sweep.results) == 1 and "</html>" in sweep.report.html


def test_a_threshold_says_where_it_is() -> None:
    x, y = [8, 16, 32, 64], [1.0, 0.5, 0.2, 0.01]
    assert repr(byrote.threshold(x, y, 0.1)) == "Threshold(level=0.1, size=46.0879)"
    assert "above 64, the largest size given" in repr(byrote.threshold(x, y, 0.001))
    assert "at most 8, the smallest size given" in byrote.threshold(x, y, 5.0)._repr_html_()
    seeds = byrote.threshold(x * 2, [*y, *(1.1 * value for value in y)], 0.1, [0] * 4 + [1] * 4)
    assert " to " in seeds._repr_html_() and "interval" in repr(seeds)
