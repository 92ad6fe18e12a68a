"""What a type checker sees of the package: programs of users, and the mistakes in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cagp

PROGRAM = """
import numpy as np

import cagp

X = np.random.default_rng(0).random((50, 2))
y = np.sin(6 * X[:, 0])
model: cagp.Model = cagp.fit(X, y, kernel="matern32", progress=False)
prediction: cagp.Prediction = model.predict(X)
lower, upper = prediction.observed().interval(0.9)
story: str = model.story
prior = cagp.Prior(cagp.Matern32(0.3) + cagp.RBF(1.0), mean=cagp.Constant(), noise_variance=0.1)
both: cagp.Model = prior.condition(X, y, cagp.NearestNeighbours(20)).recalibrated(progress=False).with_more(X, y)
loaded: cagp.Model = cagp.load(both.save("model"))
weights: float = float(loaded.weights[0])
"""
MISTAKES = """
import cagp

model = cagp.fit([[0.0]], [1.0], kernl="matern32")
model.predikt([[0.0]])
cagp.Kriging
"""


@pytest.mark.slow  # mypy reads torch's and numpy's types first, half a minute where nothing is cached
def test_a_program_is_checked_and_a_misspelt_option_found(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache")]
    command = [sys.executable, "-m", "mypy", *options, "program.py", "mistakes.py"]
    environment = {"MYPYPATH": str(Path(cagp.__file__).parents[1]), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    found = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert not [line for line in found if line.startswith("program.py")], done.stdout
    said = done.stdout + done.stderr
    assert 'mistakes.py:4: error: Unexpected keyword argument "kernl" for "fit"' in done.stdout, said
    assert 'mistakes.py:5: error: "Model" has no attribute "predikt"' in done.stdout
    assert 'mistakes.py:6: error: Module has no attribute "Kriging"' in done.stdout
