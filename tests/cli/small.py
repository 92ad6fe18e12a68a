"""A small table, and calls of the command line, for its tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from typer.testing import CliRunner, Result

from cagp.cli import app
from cagp.tables import write_table

VALUES = ("--no-fit", "--lengthscale", "0.4", "--variance", "1", "--noise", "0.01")


def call(*arguments: object) -> Result:
    """The command in this process."""
    return CliRunner().invoke(app, [str(each) for each in arguments])


def start(*arguments: object) -> subprocess.Popen[str]:
    """The command as a process of its own."""
    command = [sys.executable, "-m", "cagp", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def write_small(path: Path, n: int, seed: int = 0) -> dict[str, np.ndarray]:
    """A table with the columns east, north and height."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    height = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.1 * rng.normal(size=n)
    columns = {"east": X[:, 0], "north": X[:, 1], "height": height}
    write_table(path, columns)
    return columns


def snapshot(folder: Path) -> dict[str, bytes]:
    """Everything below a folder."""
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}
