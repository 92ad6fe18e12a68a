"""``cagp reproduce``: what it prints, what it leaves behind, and its exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from packaging.requirements import Requirement
from typer.testing import CliRunner, Result

import cagp
import cagp_studies
from cagp_studies import STUDIES, command
from tiny import Squares

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


@pytest.fixture
def squares(monkeypatch: pytest.MonkeyPatch) -> Squares:
    """Squares as the only study."""
    study = Squares()
    monkeypatch.setattr(command, "STUDIES", {"squares": study})
    return study


def call(*arguments: object) -> Result:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(command.reproduce)
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_help() -> None:
    help_text = "".join(call("--help").output.split())  # lines break at hyphens too
    assert ",".join(STUDIES) in help_text


def as_installed(folder: Path) -> dict[str, str]:
    """The environment of a process that finds cagp-studies as if it were installed: by what its project file says."""
    about = folder / f"cagp_studies-{PROJECT['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: cagp-studies\nVersion: {PROJECT['version']}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in commands.items())
        for group, commands in PROJECT["entry-points"].items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    sources = [Path(package.__file__).parents[1] for package in (cagp, cagp_studies) if package.__file__]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [folder, *sources]))}


def test_as_a_command_of_cagp(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "cagp", "reproduce", "nonsense"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=as_installed(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: NAME must be one of 'synthetic', ")
    assert "Traceback" not in done.stderr


def test_the_versions_go_together() -> None:
    [needed] = [need for need in map(Requirement, PROJECT["dependencies"]) if need.name == "cagp"]
    assert needed.specifier.contains(cagp.__version__)


@pytest.mark.parametrize("name", ["squares", "all"])
def test_reproduce(squares: Squares, tmp_path: Path, name: str) -> None:
    result = call(name, name, "--out", tmp_path / "new", "--jobs", 1, "--seed", 4)
    assert result.exit_code == 0, result.output
    assert squares.computed == [0, 1, 2, 3]  # once, though asked for twice
    assert "sum" in result.stdout
    assert f"Report: {tmp_path / 'new' / 'report.html'}" in result.stdout
    assert (tmp_path / "new" / "report.html").exists()
    assert (tmp_path / "new" / "squares" / "table.csv").read_text().splitlines()[1].startswith("4,0,")


def test_quiet(squares: Squares, tmp_path: Path) -> None:
    result = call("squares", "--out", tmp_path, "--jobs", 1, "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["squares", "nonsense"],
        ["squares", "--scale", "huge"],
        ["squares", "--jobs", "0"],
        ["squares", "--seed", "-1"],
        ["squares", "--seed", "one"],
        ["squares", "--out", __file__],
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
    result = call("squares", "--out", tmp_path, "--jobs", 1)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "Error: RuntimeError: the machine fell over",
        "This was the piece 'number-1' of the study 'squares'; the pieces finished before are kept.",
        "--debug shows where this happened.",
    ]
    with_traceback = call("squares", "--out", tmp_path, "--jobs", 1, "--debug")
    assert with_traceback.exit_code == 1
    assert "Traceback" in with_traceback.stderr


def test_unwritable_folder(squares: Squares) -> None:
    result = call("squares", "--out", "/proc/nowhere")
    assert result.exit_code == 1
    assert "/proc/nowhere" in result.stderr
    assert "Traceback" not in result.stderr


def test_interrupted(squares: Squares, tmp_path: Path) -> None:
    squares.fails_at, squares.failure = 2, KeyboardInterrupt()
    result = call("squares", "--out", tmp_path, "--jobs", 1)
    assert result.exit_code == 130
    assert "continues where it stopped" in result.stderr
    squares.fails_at = None
    assert call("squares", "--out", tmp_path, "--jobs", 1).exit_code == 0
    assert squares.computed == [0, 1, 2, 3]
