"""A small table, and calls of the command line, for its tests."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from typer.testing import CliRunner, Result

from cagp.cli import app
from cagp.tables import write_table

VALUES = ("--no-fit", "--lengthscale", "0.4", "--variance", "1", "--noise-variance", "0.01")


def call(*arguments: object) -> Result:
    """The command in this process."""
    return CliRunner().invoke(app, [str(each) for each in arguments])


_HOLD = """
import sys, time
from pathlib import Path
from cagp.cli import main
from cagp.support.pieces import Pieces

pieces, folder, save, saved = int(sys.argv[1]), Path(sys.argv[2]), Pieces.save, []

def hold(*arguments, **arrays):
    save(*arguments, **arrays)
    saved.append(arguments)
    if len(saved) == pieces:
        (folder / "holding").touch()
        while not (folder / "go on").exists():
            time.sleep(0.01)

Pieces.save = hold
sys.argv = ["cagp", *sys.argv[3:]]
main()
"""


def start(pieces: int, folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """The command as a process of its own, which has saved that many pieces and waits for "go on" in ``folder``."""
    folder.mkdir()
    command = [sys.executable, "-c", _HOLD, *map(str, (pieces, folder, *arguments))]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 300
    while not (folder / "holding").exists():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end, "no piece was finished"
        time.sleep(0.01)
    return running


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
