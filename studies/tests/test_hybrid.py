"""The study of the hybrid: its means against dense algebra, and what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cagp.solvers import ConjugateGradient, GaussSeidel, SweepsThenCG
from cagp_studies import run_study
from cagp_studies.drawing import LOOKS, hybrid_name
from cagp_studies.hybrid import Hybrid, HybridConfig, HybridPiece, _calibration_finding, _finding, _nll_finding, _solver
from cagp_studies.problem import draw, generator, make_prior
from tiny import TinyHybrid


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, but not written: that is what takes the time."""
    monkeypatch.setattr("cagp_studies.runner._save_figure", lambda *arguments: None)


def test_whole_study(tmp_path: Path) -> None:
    record = run_study(TinyHybrid(), tmp_path, seed=2)
    table = pd.read_csv(tmp_path / "hybrid" / "table.csv")
    assert len(table) == 2 * 2 * (4 * 8 + 1)
    assert not table.isna().any().any()
    calibration = pd.read_csv(tmp_path / "hybrid" / "calibration.csv")
    assert len(calibration) == 2 * 2
    assert set(record.figures) == {"rmse", "nll"}
    assert [row[1] for row in record.comparisons[1].rows] == ["yes", "no"]
    assert sum(remark.startswith("Found") for remark in record.remarks) == 5


def test_means_against_dense_algebra() -> None:
    """Up to the switch Gauss-Seidel, after it the best in energy norm over the Krylov space of what is left of b."""
    config = HybridConfig(1, 1, (0.2,), switches=(2,), iterations=5, n=30, side=3)
    table = Hybrid().run(config, HybridPiece(0, 0.2), seed=4)["table"]
    prior = make_prior("Matern32", 0.2, 0.1)
    problem = draw(prior, 30, 3, generator(4, 0))
    G, V = prior.kernel(problem.X) + 0.01 * np.eye(30), prior.kernel(problem.X_test, problem.X)
    v = np.zeros(30)
    for _ in range(2):
        v = np.linalg.solve(np.tril(G), problem.y - np.triu(G, 1) @ v)
    residual = problem.y - G @ v
    rmse = table[table["solver"] == hybrid_name(2)].set_index("m")["rmse"]
    assert rmse[2] == pytest.approx(np.sqrt(np.mean((V @ v - problem.truth) ** 2)))
    for steps in (1, 2, 3):
        S = np.stack([np.linalg.matrix_power(G, i) @ residual for i in range(steps)]).T
        S = np.linalg.qr(S)[0]
        better = v + S @ np.linalg.solve(S.T @ G @ S, S.T @ residual)
        assert rmse[2 + steps] == pytest.approx(np.sqrt(np.mean((V @ better - problem.truth) ** 2)), rel=1e-6)


def test_solvers() -> None:
    assert _solver(3, 0) == GaussSeidel(3, order="natural")
    assert _solver(0, 3) == ConjugateGradient(3)
    assert _solver(2, 3) == SweepsThenCG(2, 3)
    assert not SweepsThenCG.calibrated
    for config in Hybrid.scales.values():
        assert all(method in LOOKS for method in config.methods)


def test_variances_against_dense_algebra() -> None:
    """K″ − VW − WᵀVᵀ + WᵀGW for the weights that the mean has; the last iterate is the same by the short way."""
    prior = make_prior("Matern32", 0.2, 0.1)
    problem = draw(prior, 30, 3, generator(4, 0))
    G, V = prior.kernel(problem.X) + 0.01 * np.eye(30), prior.kernel(problem.X_test, problem.X)
    model = prior.condition(problem.X, problem.y, SweepsThenCG(2, 3))
    for posterior in model.iterate(problem.X_test):
        W = posterior.weights
        assert posterior.mean == pytest.approx(W.T @ problem.y)
        assert posterior.variance == pytest.approx(1 - 2 * np.diag(V @ W) + np.diag(W.T @ G @ W), rel=1e-9)
    last = model.predict(problem.X_test)
    assert last.mean == pytest.approx(posterior.mean)
    assert last.variance == pytest.approx(posterior.variance)
    assert "SweepsThenCG" in str(last.status)


def made_up(hybrid: float) -> pd.DataFrame:
    rows = []
    for solver, value in (("gauss-seidel", 0.5), ("conjugate-gradient", 0.4), (hybrid_name(2), hybrid)):
        rows += [{"lengthscale": 0.2, "solver": solver, "m": m, "rmse": value, "nll": 0.0} for m in (1, 2)]
    return pd.DataFrame([*rows, {"lengthscale": 0.2, "solver": "cholesky", "m": 1, "rmse": 0.1, "nll": 0.0}])


def test_findings() -> None:
    config = HybridConfig(1, 1, switches=(2,), iterations=2)
    assert "no hybrid is at any m" in _finding(config, made_up(0.395), 0.2)
    ahead = _finding(config, made_up(0.3), 0.2)
    assert "at 2 of 2 m" in ahead
    assert "0.300 (GS to 2, then CG) against 0.400" in ahead
    assert _nll_finding(config, made_up(0.3), 0.2) == (
        "Found, ℓ = 0.2: NLL at m = 2: 0.00 (GS to 2, then CG), Gauss-Seidel 0.00, CG 0.00, exact 0.00."
    )
    table = pd.DataFrame(
        {"sweeps": [5, 2, 2], "steps": [0, 3, 3], "z_std": [1.0, 0.8, 0.9], "verdict": ["calibrated", "x", "x"]}
    )
    said = _calibration_finding(table)
    assert "of 2 simulation-based" in said
    assert "between 0.800 and 0.900" in said
