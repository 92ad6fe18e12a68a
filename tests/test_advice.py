"""Advice: one finding, in the words of each front end."""

from __future__ import annotations

import numpy as np
import pytest

import cagp
from cagp import hyperparameters
from cagp.cli.shared import IN_OPTIONS
from cagp.saving import FitSummary
from cagp.support.advice import IN_PYTHON, Advice
from problems import make_problem

PROMISE = "more iterations could remove"


def test_every_front_end_has_a_remedy_for_every_finding() -> None:
    assert IN_OPTIONS.keys() == IN_PYTHON.keys()
    for kind in IN_PYTHON:
        found = Advice(kind, "noise_variance", "its lower bound 0.01")
        assert IN_PYTHON[kind] in str(found)
        assert IN_OPTIONS[kind] in found.worded(IN_OPTIONS)
        assert "{" not in str(found)


def test_a_finding_is_told_of_what_its_readers_call_it() -> None:
    found = Advice("at a bound", "kernel.lengthscale[0]", "its upper bound {2}")
    assert str(found).startswith("kernel.lengthscale[0] ended at its upper bound {2}; ")
    assert found.worded(subject="the lengthscale of depth").startswith("the lengthscale of depth ended at ")


def test_a_fit_keeps_findings_and_gives_sentences() -> None:
    problem = make_problem()
    bounds = {"noise_variance": (0.049, 0.051)}
    result = hyperparameters.fit(problem.prior, problem.X, problem.y, n_restarts=0, bounds=bounds)
    (found,) = [each for each in result.advice if each.subject == "noise_variance" and each.kind == "at a bound"]
    assert str(found) in result.warnings
    assert result.message == " ".join([result.story, *result.warnings])
    assert not any(sentence in result.story for sentence in result.warnings)
    summary = FitSummary.of(result, IN_OPTIONS)
    assert found.worded(IN_OPTIONS) in summary.warnings
    assert "bounds=" not in summary.message
    assert FitSummary.of(result).message == result.message


@pytest.mark.parametrize(
    ("solver", "advised"),
    [
        (cagp.GaussSeidel(3), True),
        (cagp.SweepsThenCG(2, 2), True),
        (cagp.Chain([cagp.GaussSeidel(2), cagp.CalibratedCG(2)]), True),
        (cagp.CalibratedCG(2, start=cagp.NearestNeighbours(5)), True),
        (cagp.Cholesky(), False),
        (cagp.Auto(), False),
        (cagp.NearestNeighbours(5), False),
        (cagp.Subset(size=5), False),
        (cagp.Subset(indices=(1, 2, 3)), False),
        (cagp.RandomDirections(1000), False),
    ],
    ids=repr,
)
def test_more_iterations_are_advised_where_they_would_help(solver: cagp.Solver, advised: bool) -> None:
    problem = make_problem()
    status = problem.prior.condition(problem.X, problem.y, solver).predict(problem.X_test).status
    assert (PROMISE in status.message) == advised
    assert ("--iterations" in status.worded(IN_OPTIONS)) == advised
    assert str(status) == status.message


def test_an_exhausted_krylov_space_is_not_told_to_go_on() -> None:
    prior = cagp.Prior(cagp.Matern32(0.5), noise_variance=0.01)
    X = np.linspace(0, 1, 12)[:, None]
    status = prior.condition(X, np.sin(X[:, 0]), cagp.ConjugateGradient(500)).predict(X).status
    assert "More iterations change nothing." in status.message
    assert PROMISE not in status.message
