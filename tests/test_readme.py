"""The README is true: its Python runs, its table of solvers is the code's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cagp

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_python_snippets_run(capsys: pytest.CaptureFixture[str]) -> None:
    snippets = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert snippets
    names: dict[str, object] = {}  # later snippets go on from earlier ones
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "of the variance is computational" in printed
    assert "stopped by ComputationalShare" in printed
    assert names["result"].verdict == "calibrated"


def test_solver_table_is_the_code() -> None:
    answers = {s: "yes" if s.calibrated else "no" for s in cagp.solvers.ALL} | {cagp.Chain: "if all its solvers are"}
    rows = [f"| `{s.__name__}` | {answers[s]} | {s.side} | {s.cost} |" for s in cagp.solvers.ALL]
    table = README.split("<!-- solvers -->\n")[1].split("<!-- /solvers -->")[0].strip().splitlines()
    assert table[2:] == rows, "the table in README.md has these rows:\n" + "\n".join(rows)


def test_make_targets_exist() -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    for target in [*re.findall(r"^make ([\w-]+)", README, flags=re.MULTILINE), "bench", "lint"]:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
