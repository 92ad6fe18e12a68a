"""Errors after each iteration, compared with separate predictions and SciPy's normal density."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from cagp import ConjugateGradient, GaussSeidel, RandomDirections, Solver
from cagp_studies.problem import draw, generator, make_prior, trace

PRIOR = make_prior("Matern32", 0.3, 0.1)
PROBLEM = draw(PRIOR, 32, 4, generator(0, 0))


@pytest.mark.parametrize("make", [lambda m: GaussSeidel(m, order="natural"), ConjugateGradient, RandomDirections])
def test_each_row_is_a_prediction(make: type[Solver]) -> None:
    rows = list(trace(PRIOR, PROBLEM, make(6), 6))  # type: ignore[call-arg]
    assert [row["m"] for row in rows] == [1, 2, 3, 4, 5, 6]
    for m in (1, 4, 6):
        posterior = PRIOR.condition(PROBLEM.X, PROBLEM.y, make(m)).predict(PROBLEM.X_test)  # type: ignore[call-arg]
        error = posterior.mean - PROBLEM.truth
        assert rows[m - 1]["rmse"] == pytest.approx(np.linalg.norm(error) / 4)
        density = norm.logpdf(PROBLEM.truth, posterior.mean, posterior.std)
        assert rows[m - 1]["nll"] == pytest.approx(-density.mean())
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)


def test_a_solver_that_is_done_is_carried_forward() -> None:
    problem = draw(PRIOR, 4, 2, generator(0, 0))
    rows = list(trace(PRIOR, problem, RandomDirections(9), 9))
    assert [row["m"] for row in rows] == list(range(1, 10))
    assert len({row["rmse"] for row in rows}) == 4
    assert {row["rmse"] for row in rows[3:]} == {rows[3]["rmse"]}
