"""``solver="auto"`` follows its table, and says what it picked."""

from __future__ import annotations

import numpy as np
import pytest

import cagp
from problems import make_problem


def chosen(d: int, p: int, kernel: cagp.Kernel | None = None, **settings: int) -> cagp.Solver:
    """What auto picks for d points in p dimensions; the Gram matrix is never computed."""
    X = np.random.default_rng(0).random((d, p))
    prior = cagp.Prior(kernel or cagp.Matern32(0.2), noise_variance=0.1)
    gram = prior.condition(X, X[:, 0], cagp.GaussSeidel(0, order="natural"), memory_budget=8 * 2**30).gram
    return cagp.Auto(**settings).choose(gram)


def test_the_table() -> None:
    assert chosen(500, 2) == cagp.Cholesky()
    assert chosen(20_000, 2) == cagp.NearestNeighbours(200)
    assert chosen(20_000, 2, cagp.Geographic(cagp.Matern32(0.1))) == cagp.NearestNeighbours(200)
    in_eight = cagp.CalibratedCG(15, cagp.Nystrom(2000), start=cagp.NearestNeighbours(200))
    assert chosen(20_000, 8) == in_eight
    assert chosen(20_000, 8, test_points=10**6) == cagp.NearestNeighbours(400)
    assert isinstance(chosen(20_000, 2, cagp.Matern32(0.2) * cagp.RBF(1.0)), cagp.CalibratedCG)
    assert chosen(400_000, 8).preconditioner.rank < 2000  # what the budget holds


def test_the_choice_is_shown() -> None:
    problem = make_problem()
    model = problem.prior.condition(problem.X, problem.y, "auto")
    assert "solver=Auto() → Cholesky()" in repr(model)
    assert "Auto picked Cholesky()." in str(model.predict(problem.X_test).status)
    with pytest.raises(cagp.InputError, match="test_points"):
        cagp.Auto(test_points=0)
