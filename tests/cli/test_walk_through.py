"""docs/command-line.md is true: its commands run in order and print what it shows, but for the numbers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cagp.cli import shared
from cli.small import call

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")


def without_numbers(text: str) -> str:
    """Words only: numbers differ between machines, and tables are as wide as the terminal."""
    return " ".join(re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", text).split())


def test_walk_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|console)\n(.*?)```", PAGE, flags=re.DOTALL)
    assert [kind for kind, _ in blocks].count("console") >= 5
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, "command-line.md", "exec"), {})
            continue
        command, *shown = block.strip().splitlines()
        program, *arguments = shlex.split(command.removeprefix("$ "))
        assert program == "cagp"
        result = call(*arguments)
        assert result.exit_code == 0, result.output
        printed = without_numbers(result.stdout)
        for line in shown:
            assert without_numbers(line) in printed, (line, result.stdout)
    for name in ("model-report/report.html", "model-check/check.html", "prediction.csv", "rough.parquet"):
        assert (tmp_path / name).exists(), name


def test_exit_codes_are_those_of_the_code() -> None:
    assert shared.__doc__ is not None
    rows = [line.replace("``", "`") for line in shared.__doc__.splitlines() if line.startswith("| ")]
    assert all(row in PAGE for row in rows)
