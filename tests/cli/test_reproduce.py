"""The command line: what it prints, what it leaves behind, and its exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import cagp
from cagp import studies
from cagp.cli import app
from studies.tiny import Squares


@pytest.fixture
def squares(monkeypatch: pytest.MonkeyPatch) -> Squares:
    """Squares as the only study."""
    study = Squares()
    monkeypatch.setattr(studies, "STUDIES", {"squares": study})
    return study


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_version_and_help() -> None:
    assert call("--version").output == f"cagp {cagp.__version__}\n"
    help_text = "".join(call("reproduce", "--help").output.split())  # lines break at hyphens too
    assert ",".join(studies.STUDIES) in help_text


def test_as_a_module() -> None:
    command = [sys.executable, "-m", "cagp", "reproduce", "nonsense"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: NAME must be one of 'synthetic', ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["squares", "all"])
def test_reproduce(squares: Squares, tmp_path: Path, name: str) -> None:
    result = call("reproduce", name, name, "--out", tmp_path / "new", "--jobs", 1, "--seed", 4)
    assert result.exit_code == 0, result.output
    assert squares.computed == [0, 1, 2, 3]  # once, though asked for twice
    assert "sum" in result.stdout
    assert f"Report: {tmp_path / 'new' / 'report.html'}" in result.stdout
    assert (tmp_path / "new" / "report.html").exists()
    assert (tmp_path / "new" / "squares" / "table.csv").read_text().splitlines()[1].startswith("4,0,")


def test_quiet(squares: Squares, tmp_path: Path) -> None:
    result = call("reproduce", "squares", "--out", tmp_path, "--jobs", 1, "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["reproduce"],
        ["reproduce", "nonsense"],
        ["reproduce", "squares", "nonsense"],
        ["reproduce", "squares", "--scale", "huge"],
        ["reproduce", "squares", "--jobs", "0"],
        ["reproduce", "squares", "--seed", "-1"],
        ["reproduce", "squares", "--seed", "one"],
        ["reproduce", "squares", "--out", __file__],
        ["nonsense"],
    ],
)
def test_wrong_use(squares: Squares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*arguments)
    assert result.exit_code == 2
    assert "Error" in result.stderr
    assert "Traceback" not in result.output
    assert squares.computed == []
    assert list(tmp_path.iterdir()) == []  # refused before anything is done


def test_failure_is_a_message(squares: Squares, tmp_path: Path) -> None:
    squares.fails_at = 1
    result = call("reproduce", "squares", "--out", tmp_path, "--jobs", 1)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "Error: RuntimeError: the machine fell over",
        "This was the piece 'number-1' of the study 'squares'; the pieces finished before are kept.",
        "--debug shows where this happened.",
    ]
    with_traceback = call("reproduce", "squares", "--out", tmp_path, "--jobs", 1, "--debug")
    assert with_traceback.exit_code == 1
    assert "Traceback" in with_traceback.stderr


def test_unwritable_folder(squares: Squares) -> None:
    result = call("reproduce", "squares", "--out", "/proc/nowhere")
    assert result.exit_code == 1
    assert "/proc/nowhere" in result.stderr
    assert "Traceback" not in result.stderr


def test_interrupted(squares: Squares, tmp_path: Path) -> None:
    squares.fails_at, squares.failure = 2, KeyboardInterrupt()
    result = call("reproduce", "squares", "--out", tmp_path, "--jobs", 1)
    assert result.exit_code == 130
    assert "continues where it stopped" in result.stderr
    squares.fails_at = None
    assert call("reproduce", "squares", "--out", tmp_path, "--jobs", 1).exit_code == 0
    assert squares.computed == [0, 1, 2, 3]
