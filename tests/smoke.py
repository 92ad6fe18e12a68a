"""Does an installed cagp work? ``python tests/smoke.py core`` needs the core alone, ``… cli`` needs ``cagp[cli]``.

It runs outside of pytest and outside of the repository, in the environment where the wheel was installed, and stops
with an error where something is missing.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import cagp

RNG = np.random.default_rng(0)
X = RNG.random((80, 2))
Y = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.1 * RNG.normal(size=80)


def core() -> None:
    """Fit, condition, predict: with torch, numpy and scipy."""
    assert cagp.__version__ == version("cagp")
    assert (Path(cagp.__file__).parent / "py.typed").is_file()
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01).fit(X, Y, n_restarts=0)
    exact = prior.condition(X, Y, cagp.Cholesky()).predict(X[:5])
    few = prior.condition(X, Y, cagp.GaussSeidel(3)).predict(X[:5])
    assert np.abs(exact.mean - Y[:5]).max() < 0.5
    assert (few.variance >= exact.variance * (1 - 1e-9)).all()
    if find_spec("typer") is None:
        done = command("--help")
        assert done.returncode == 1
        assert 'pip install "cagp[cli]"' in done.stderr, done.stderr


def cli() -> None:
    """A table, a model, predictions, a report."""
    told = command("--version")
    assert told.stdout.strip() == f"cagp {version('cagp')}", told
    with open("data.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("east", "north", "height"), *zip(*X.T.tolist(), Y.tolist(), strict=True)])
    for line in (
        "fit data.csv --target height --out model --report report",
        "info model",
        "predict model data.csv --out prediction.csv --interval 95",
        "solvers",
    ):
        done = command(*line.split())
        assert done.returncode == 0, f"cagp {line}\n{done.stdout}\n{done.stderr}"
    assert "<html" in Path("report/report.html").read_text(encoding="utf-8")
    with open("prediction.csv", newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(Y)
    assert np.isfinite(cagp.load("model").predict(X[:3]).std).all()


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command ``cagp`` of this environment."""
    program = Path(sysconfig.get_path("scripts")) / ("cagp.exe" if sys.platform == "win32" else "cagp")
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)


if __name__ == "__main__":
    what = {"core": core, "cli": cli}[sys.argv[1]]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        what()
    print(f"cagp {cagp.__version__} works: {what.__doc__}")
