"""The pages with commands are true: these run in order and print what is shown, but for the numbers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cagp.choosing.candidates import TRENDS
from cagp.cli import shared
from cli.small import call

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "command-line.md": ("model-report/report.html", "model-check/check.html", "prediction.csv"),
    "tables.md": ("prediction.csv",),
}
"""What the commands of each page leave behind."""


def without_numbers(text: str) -> str:
    """Words only: numbers differ between machines, and tables are as wide as the terminal."""
    return " ".join(re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", text).split())


def candidates(lines: list[str]) -> set[str]:
    """The candidates of a table: kernels may differ in a number alone."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
    named = [row[0].split(", ") for row in rows if len(row) > 2]
    return {", ".join(name) for name in named if len(name) > 1 and name[1] in TRENDS}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("words_only")
def test_walk_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|console)\n(.*?)```", text, flags=re.DOTALL)
    last = max(i for i, (kind, _) in enumerate(blocks) if kind == "console")
    for kind, block in blocks[: last + 1]:
        if kind == "python":
            exec(compile(block, page, "exec"), {})
            continue
        command, *shown = block.strip().splitlines()
        program, *arguments = shlex.split(command.removeprefix("$ "))
        assert program == "cagp"
        result = call(*arguments)
        assert result.exit_code == 0, result.output
        printed = without_numbers(result.stdout)
        for line in shown:
            assert without_numbers(line) in printed, (line, result.stdout)
        told = candidates(shown)  # a page that shows a table of candidates shows all of it
        missing = candidates(result.stdout.splitlines()) - told if told else set()
        assert not missing, f"docs/{page} lacks candidates that {command[2:]} prints: {missing}\n{result.stdout}"
    for name in PAGES[page]:
        assert (tmp_path / name).exists(), name


def test_exit_codes_are_those_of_the_code() -> None:
    assert shared.__doc__ is not None
    rows = [line.replace("``", "`") for line in shared.__doc__.splitlines() if line.startswith("| ")]
    assert all(row in (DOCS / "command-line.md").read_text(encoding="utf-8") for row in rows)
