"""Commands that other distributions bring: listed always, loaded when called, and what is said where one is missing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

import cagp
from cagp import cli
from cagp.cli import app
from cli.small import call


def greet(name: str, times: int = 1) -> None:
    """Stands for a command of another distribution."""
    typer.echo(f"hello {name} " * times)


FOUND = EntryPoint("reproduce", f"{__name__}:greet", cli.GROUP)


def test_version_and_wrong_use() -> None:
    assert call("--version").output == f"cagp {cagp.__version__}\n"
    result = call("nonsense")
    assert result.exit_code == 2
    assert "Error" in result.stderr


def test_listed_without_being_loaded() -> None:
    code = "import sys, cagp.cli; cagp.cli.app(['--help'], standalone_mode=False); print('cagp_studies' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reproduce" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("arguments", [["synthetic", "--scale", "quick"], ["--help"], []])
def test_what_to_install(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr(cli, "entry_points", lambda group: [])
    result = call("reproduce", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    [sentence] = result.stderr.splitlines()
    assert "pip install cagp-studies" in sentence
    assert "pip install ./studies" in sentence


def test_the_loaded_command_takes_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "entry_points", lambda group: [FOUND] if group == "cagp.commands" else [])
    assert call("reproduce", "--times", 2, "you").output == "hello you hello you \n"
    assert "Stands for a command" in call("reproduce", "--help").output
    wrong = call("reproduce", "you", "--times", "x")
    assert wrong.exit_code == 2
    assert "cagp reproduce [OPTIONS]" in wrong.stderr


def test_the_entry_points_decide() -> None:
    command = cli.loaded("reproduce", [EntryPoint("other", "nowhere:nothing", cli.GROUP), FOUND])
    assert command.name == "reproduce"
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0


def test_the_studies_are_elsewhere() -> None:
    with pytest.raises(ImportError, match="pip install cagp-studies"):
        from cagp import studies  # noqa: F401
    assert "studies" not in dir(cagp)
