"""The UCI study: its splits, units, solvers, and what it says about incomplete data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import norm

from cagp import datasets
from cagp_studies import run_study
from cagp_studies.problem import generator
from cagp_studies.uci import Uci, UciConfig, agreement, solver_by_name, split
from tiny import TinyUci, both


class Small(TinyUci):
    """Concrete alone."""

    scales = both(UciConfig((TinyUci.scales["quick"].cases[0],), runs=2, fit_points=40, iterations=3))  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, but not written: that is what takes the time."""
    monkeypatch.setattr("cagp_studies.runner._save_figure", lambda *arguments: None)


@pytest.fixture(scope="module")
def data(data_folder: Path) -> datasets.Dataset:
    return datasets.concrete()


def test_split(data: datasets.Dataset) -> None:
    problem, rows = split(data, None, 1000, generator(0, 0))
    assert (rows, problem.X.shape, len(problem.truth)) == (1030, (927, 8), 103)
    assert problem.X.mean(axis=0) == pytest.approx(np.zeros(8), abs=1e-12)
    assert problem.X.std(axis=0) == pytest.approx(np.ones(8))
    assert problem.y.std() == pytest.approx(1)
    # back in the units of the data, training and test rows together are all rows
    scale, shift = _units(data, problem.y)
    values = np.concatenate([problem.y, problem.truth]) * scale + shift
    assert np.sort(values) == pytest.approx(np.sort(data.y))
    again, _ = split(data, None, 1000, generator(0, 0))
    other, _ = split(data, None, 1000, generator(0, 1))
    assert np.array_equal(again.truth, problem.truth)
    assert not np.array_equal(other.truth, problem.truth)


def _units(data: datasets.Dataset, y: np.ndarray) -> tuple[float, float]:
    """Scale and shift that bring y back, from its extreme values: at least one of each kind is in the training part."""
    order = np.random.default_rng([0, 0]).permutation(len(data))
    train = data.y[order[103:]]
    return float(train.std()), float(train.mean())


def test_split_of_some_rows(data: datasets.Dataset) -> None:
    problem, rows = split(data, 200, 7, generator(0, 0))
    assert (rows, len(problem.y), len(problem.truth)) == (200, 180, 7)
    whole, _ = split(data, 200, 1000, generator(0, 0))
    assert np.array_equal(whole.truth[:7], problem.truth)


def test_scores_are_about_observations(tmp_path: Path, data: datasets.Dataset) -> None:
    """The exact GP's RMSE and NLL from dense algebra, with the hyperparameters that the study wrote down."""
    run_study(Small(), tmp_path)
    table, values = (pd.read_csv(tmp_path / "uci" / f"{name}.csv") for name in ("table", "hyperparameters"))
    problem, _ = split(data, 60, 1000, generator(0, 1))
    found = values[values["run"] == 1].set_index("name")["value"]
    lengthscales = [found[f"kernel.lengthscale[{i}]"] for i in range(8)]

    def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        r = np.sqrt(3) * cdist(A / lengthscales, B / lengthscales)
        return found["kernel.variance"] * (1 + r) * np.exp(-r)

    G = kernel(problem.X, problem.X) + found["noise_variance"] * np.eye(len(problem.y))
    V = kernel(problem.X_test, problem.X)
    mean = V @ np.linalg.solve(G, problem.y)
    variance = found["kernel.variance"] - np.einsum("ij,ji->i", V, np.linalg.solve(G, V.T))
    exact = table[(table["run"] == 1) & (table["solver"] == "cholesky")].iloc[0]
    assert exact.rmse == pytest.approx(np.sqrt(np.mean((mean - problem.truth) ** 2)), rel=1e-6)
    std = np.sqrt(variance + found["noise_variance"])
    assert exact.nll == pytest.approx(-norm.logpdf(problem.truth, mean, std).mean(), rel=1e-6)


def test_incomplete_data_are_told(tmp_path: Path, data_folder: Path) -> None:
    record = run_study(TinyUci(), tmp_path)
    facts = pd.read_csv(tmp_path / "uci" / "data.csv")
    if facts[facts["dataset"] == "road3d"]["complete"].all():
        pytest.skip("the whole 3D Road file is here")
    for words in (*record.figures.values(), " ".join(record.remarks)):
        assert "first 5,000 of 434,874 rows" in words


def test_more_solvers(tmp_path: Path, data_folder: Path) -> None:
    record = run_study(Small(), tmp_path, solvers=["subset", "nearest-neighbours"])
    table = pd.read_csv(tmp_path / "uci" / "table.csv")
    assert set(table["solver"]) == {
        "gauss-seidel", "conjugate-gradient", "subset", "nearest-neighbours", "cholesky",
    }  # fmt: skip
    assert len(table) == 2 * (4 * 3 + 1)
    assert list(record.solvers) == ["subset", "nearest-neighbours"]
    assert json.loads((tmp_path / "uci" / "study.json").read_text())["solvers"] == ["subset", "nearest-neighbours"]


def test_solvers_by_name() -> None:
    assert repr(solver_by_name("gauss-seidel", 7, 3)) == "GaussSeidel(iterations=7, seed=3)"
    assert repr(solver_by_name("subset", 7, 3)) == "Subset(size=7, seed=3)"
    assert repr(solver_by_name("nearest-neighbours", 7, 3)) == "NearestNeighbours(seed=3)"


def test_paper_scale_has_all_rows() -> None:
    config = Uci.scales["paper"]
    assert [(case.name, case.rows) for case in config.cases] == [("concrete", None), ("bike", None), ("road3d", None)]
    assert config.runs > 1


@pytest.mark.parametrize(
    ("by_rmse", "by_nll", "longer_said", "words"),
    [
        ((26, 23, 31), (40, 35, 44), True, "yes"),
        ((26, 23, 31), (40, 35, 44), False, "NLL no"),
        ((26, 23, 31), (None, 32, None), True, "yes"),
        ((26, 23, 31), (None, 30, None), False, "undecided"),
        ((45, 35, None), (50, 32, None), True, "undecided"),
        ((26, 23, 31), (15, 12, 20), False, "yes"),
        ((26, 23, 31), (15, 12, 20), True, "NLL no"),
        ((None, None, None), (None, None, None), True, "open"),
        ((1, 1, 1), (5, 4, 6), True, "never ahead"),
    ],
)
def test_agreement_only_where_intervals_are_apart(
    by_rmse: tuple[int, int, int], by_nll: tuple[int, int, int], longer_said: bool, words: str
) -> None:
    assert words in agreement(by_rmse, by_nll, longer_said)
