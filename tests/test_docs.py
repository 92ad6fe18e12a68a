"""The pages in docs are true: their Python runs, and their tables are the code's and the measurements'."""

from __future__ import annotations

import csv
import os
import re
import sys
from pathlib import Path

import pytest

from cagp.solvers import auto

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import run_pages  # noqa: E402

PAGES = sorted((ROOT / "docs").glob("*.md"))
WHICH = (ROOT / "docs" / "which-solver.md").read_text(encoding="utf-8")


def between(text: str, name: str) -> list[str]:
    """The lines between the marks of that name."""
    return text.split(f"<!-- {name} -->\n")[1].split(f"<!-- /{name} -->")[0].strip().splitlines()


_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def agree(said: str, printed: str) -> bool:
    """The same words, and the same numbers within a tenth: a fit may end a step later elsewhere. Seconds are free."""
    said, printed = (re.sub(r"[\d.e+-]+ s\b", "… s", text) for text in (said, printed))
    ending = re.compile(r"Converged after \d+ evaluations of the likelihood \(.*?\)")  # its optimiser decides on both
    said, printed = (ending.sub("Converged", text) for text in (said, printed))
    numbers = [[float(x) for x in _NUMBER.findall(text)] for text in (said, printed)]
    words = [_NUMBER.sub("0", text).split() for text in (said, printed)]
    return words[0] == words[1] and numbers[1] == pytest.approx(numbers[0], rel=0.1, abs=0.01)


LONG = {
    "reports.md": "```python",
    "cokriging.md": "## Where it does not pay",
    "shards.md": "## Gridded fields",
    "averages.md": "## The probability of more than a threshold",
    "clusters.md": "```python",
    "by-hand.md": "## Stop by a rule",
    "simulation.md": "## How well such probabilities hold",
    "xarray.md": "## Error bars that hold on the data",
    "what-calibrated-means.md": "## Hyperparameters fitted to the same data",
}
"""Pages whose programs take long from this line on: up to there they run always, to their ends as slow tests."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name in LONG:
        assert f"\n{LONG[page.name]}" in text
        text = text[: text.index(f"\n{LONG[page.name]}")]
    check_program(page, text, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_python_runs_to_the_end(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / name
    check_program(page, page.read_text(encoding="utf-8"), tmp_path, monkeypatch)


def check_program(page: Path, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page are one program: later ones use what earlier ones made, and it prints what the page says."""
    if ("cagp.datasets." in text or "CAGP_DATA" in text) and not os.environ.get("CAGP_DATA"):
        pytest.skip("set CAGP_DATA to the folder with the data sets to run this page")
    monkeypatch.chdir(tmp_path)
    run_pages.lay_out(tmp_path)
    for said, printed in run_pages.run(text, page.name):
        assert said is None or agree(said, printed), (
            f"the page says\n{said}\nand the program\n{printed}; "
            f"if that is meant, run python docs/run_pages.py docs/{page.name}"
        )
    for figure in tmp_path.glob("*.png"):
        assert f"figures/{figure.name}" in text
        assert (ROOT / "docs" / "figures" / figure.name).is_file()


def test_agreement() -> None:
    assert agree("RMSE 2.10 (3.1 s)\n", "RMSE 2.11 (44 s)\n")
    converged = "Converged after {} evaluations of the likelihood ({}). No warnings.\n"
    assert agree(converged.format(17, "pgtol"), converged.format(23, "factr of the machine"))
    assert not agree("RMSE 2.10\n", "RMSE 2.60\n")
    assert not agree("calibrated, p 0.3\n", "conservative, p 0.3\n")
    assert not agree("", "something\n")


def test_there_are_pages() -> None:
    assert "which-solver.md" in [page.name for page in PAGES]
    assert WHICH.count("```python") >= 2


def test_rules_of_auto_are_the_docstring() -> None:
    assert auto.__doc__ is not None
    rules = [line for line in auto.__doc__.splitlines() if line.startswith("|")]
    assert between(WHICH, "auto") == rules
    last = next(line for line in auto.__doc__.splitlines() if line.startswith("The rank is"))
    assert last in WHICH


def test_measured_numbers_are_those_of_the_file() -> None:
    with open(ROOT / "benchmarks" / "gpu" / "excess-h200.csv", newline="") as file:
        found = {(row["data"], row["solver"], row["m"]): row for row in csv.DictReader(file)}
    head, _, *rows = between(WHICH, "measured")
    data = [cell.strip() for cell in head.strip("|").split("|")][2:]
    ranks = {"ERA5 64,800": "4000", "kin40k": "2000", "protein": "2000"}
    checked = 0
    for line in rows:
        solver, m, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for name, cell in zip(data, cells, strict=True):
            row = found.get((name, solver.replace("rank", ranks[name]), m))
            expected = "–" if row is None else f"{float(row['excess']):.2g}, {float(row['seconds']):.2g} s"
            assert cell == expected, (solver, m, name)
            checked += row is not None
    assert checked > 20
