"""The benchmarks run, at tiny sizes and without a look at the time; the performance page is what they wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = (
    "auto",
    "beside_a_busy_process",
    "gauss_seidel",
    "time_to_accuracy",
    "same_prediction",
    "growth",
    "growing",
    "likelihood",
    "neighbours",
    "sbc",
    "latency",
)


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


_LONG = {
    "auto",
    "beside_a_busy_process",
    "growing",
    "gauss_seidel",
    "time_to_accuracy",
    "same_prediction",
    "likelihood",
    "sbc",
    "latency",
    "neighbours",
}
"""Those that take many seconds even when they are quick, or are like another one; all have the same way to the page.
"""


@pytest.mark.parametrize(
    "script", [pytest.param(each, marks=pytest.mark.slow) if each in _LONG else each for each in SCRIPTS]
)
def test_a_benchmark_runs_and_its_tables_reach_the_page(script: str, tmp_path: Path) -> None:
    if script == "likelihood":
        pytest.importorskip("numba")
    if script == "same_prediction":
        pytest.importorskip("gpytorch")
    printed = run(script, "--quick", "--out", str(tmp_path))
    (file,) = tmp_path.glob("*.json")
    result = json.loads(file.read_text(encoding="utf-8"))
    assert file.name == f"cpu-{script}.json"
    assert result["tables"]
    run("performance_page", "--all", "--results", str(tmp_path), "--page", str(tmp_path / "page.md"))
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    for table in result["tables"]:
        assert table["caption"] in printed
        for row in table["rows"]:
            assert f"| {' | '.join(row)} |" in page


def test_every_benchmark_is_tested() -> None:
    """Whatever takes --quick is in the list above."""
    found = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "options(__doc__)" in path.read_text("utf-8")}
    assert found == set(SCRIPTS)


def test_make_bench_runs_every_benchmark() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert [script for script in SCRIPTS if f"benchmarks/{script}.py\n" not in makefile] == []


def test_the_page_in_the_docs_is_made_from_the_results(tmp_path: Path) -> None:
    run("performance_page", "--page", str(tmp_path / "page.md"))
    assert (ROOT / "docs" / "performance.md").read_text("utf-8") == (tmp_path / "page.md").read_text("utf-8")


def test_a_crooked_table_is_refused(tmp_path: Path) -> None:
    table = {"caption": "c", "columns": ["a", "b"], "rows": [["1"]], "notes": ""}
    result = {"title": "t", "command": "c", "machine": "m", "tables": [table]}
    (tmp_path / "x.json").write_text(json.dumps(result))
    with pytest.raises(AssertionError, match="does not have 2 cells"):
        run("performance_page", "--all", "--results", str(tmp_path), "--page", str(tmp_path / "page.md"))
