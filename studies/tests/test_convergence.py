"""The convergence studies: their tables, where CG overtakes GS, and the reference values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from cagp.solvers import Cholesky, ConjugateGradient, GaussSeidel
from cagp_studies import run_study
from cagp_studies.convergence import (
    REFERENCE_ITERATIONS,
    REFERENCE_RMSE,
    ConvergenceConfig,
    Smoothness,
    Synthetic,
    in_words,
    overtaken,
)
from tiny import TinySmoothness, TinySynthetic, drawn_once

COLUMNS = ["kernel", "lengthscale", "seed", "run", "solver", "m", "rmse", "nll", "seconds"]


@pytest.mark.parametrize("study", [TinySynthetic(), TinySmoothness()])
def test_table(study: Synthetic | Smoothness, tmp_path: Path) -> None:
    with drawn_once():
        record = run_study(study, tmp_path, seed=5)
    table = pd.read_csv(tmp_path / study.name / "table.csv")
    assert list(table.columns) == COLUMNS
    assert not table.isna().any().any()
    assert len(table) == 2 * 3 * (3 * 6 + 1)
    assert not table.duplicated(["kernel", "lengthscale", "run", "solver", "m"]).any()
    assert set(table["seed"]) == {5}
    assert set(record.figures) == {"rmse", "nll"}
    exact = table[table["solver"] == Cholesky.name]
    assert len(exact) == 2 * 3
    assert set(exact["m"]) == {1}


def test_configurations_are_those_of_the_paper() -> None:
    synthetic, smoothness = Synthetic.scales["paper"], Smoothness.scales["paper"]
    assert synthetic.cases == (("Matern32", 0.1), ("Matern32", 0.2), ("Matern32", 0.4))
    assert smoothness.cases == (("Matern12", 0.2), ("Matern32", 0.2), ("Matern52", 0.2))
    for config in (synthetic, smoothness):
        assert (config.runs, config.iterations, config.n, config.side, config.noise_std) == (50, 100, 400, 21, 0.1)


def curves(gs: list[float], cg: list[float], runs: int = 5) -> pd.DataFrame:
    """Every run the same."""
    rows = [
        {"run": run, "solver": solver, "m": m, "rmse": value}
        for run in range(runs)
        for solver, values in ((GaussSeidel.name, gs), (ConjugateGradient.name, cg))
        for m, value in enumerate(values, start=1)
    ]
    return pd.DataFrame(rows)


def test_overtaken() -> None:
    assert overtaken(curves([3, 2.5, 2], [5, 2.6, 1.9]), "rmse") == (3, 3, 3)
    assert overtaken(curves([3, 2.5, 2], [1, 1, 1]), "rmse") == (1, 1, 1)
    assert overtaken(curves([3, 2.5, 2], [4, 4, 4]), "rmse") == (None, None, None)


def test_overtaken_is_uncertain_where_runs_differ() -> None:
    rng = np.random.default_rng(0)
    table = pd.concat(
        curves([1.0] * 40, list(1.5 - np.arange(40) / 30 + rng.normal(scale=0.3)), runs=1).assign(run=run)
        for run in range(20)
    )
    m, low, high = overtaken(table, "rmse")
    assert m is not None
    assert low is not None
    assert high is not None
    assert low < m < high


def test_in_words() -> None:
    assert in_words((26, 24, 28)) == "m = 26 (24 to 28)"
    assert in_words((99, 94, None)) == "m = 99 (94 to never)"
    assert in_words((None, None, None)) == "never"
    assert in_words((None, 90, None)) == "never (from 90)"


def distances(table: pd.DataFrame, lengthscales: tuple[float, ...], iterations: tuple[int, ...]) -> np.ndarray:
    """(ours − reference) / standard error of the difference, for GS and CG; the reference had 50 runs."""
    found = []
    for (lengthscale, solver), values in REFERENCE_RMSE.items():
        for m, reference in zip(REFERENCE_ITERATIONS, values, strict=False):
            if lengthscale in lengthscales and (m in iterations or solver == Cholesky.name):
                chosen = (table["lengthscale"] == lengthscale) & (table["solver"] == solver) & (table["m"] == m)
                rmse = table.loc[chosen, "rmse"].to_numpy()
                error = rmse.std(ddof=1) * np.sqrt(1 / len(rmse) + 1 / 50)
                assert error < 0.06 * reference  # or the comparison would say nothing
                found.append((rmse.mean() - reference) / error)
    return np.array(found)


def test_reference_values_with_few_runs() -> None:
    runs, iterations = 8, (1, 5, 10, 20)
    config = ConvergenceConfig((("Matern32", 0.2),), runs=runs, iterations=max(iterations))
    study = Synthetic()
    table = pd.concat(study.run(config, piece, seed=1)["table"] for piece in study.pieces(config).values())
    found = distances(table, (0.2,), iterations)
    assert len(found) == 9
    # one chance in a hundred, over all nine, that a correct implementation fails
    assert np.abs(found).max() < student.ppf(1 - 0.005 / len(found), runs - 1)


@pytest.mark.slow
def test_reference_values(tmp_path: Path) -> None:
    """At the paper's scale, within three standard errors of our own mean."""
    run_study(Synthetic(), tmp_path, scale="paper", jobs=2)
    table = pd.read_csv(tmp_path / "synthetic" / "table.csv")
    found = distances(table, (0.1, 0.2, 0.4), REFERENCE_ITERATIONS) * np.sqrt(2)
    assert len(found) == 33
    assert np.abs(found).max() < 3
