"""Every solver's fields are f̃(X′) + Wᵀ(y − f̃(X) − ε̃) with the weights W of its posterior, drawn again by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from problems import make_problem
from solver_cases import CASES, OUTSIDE, Case


@pytest.mark.parametrize("case", CASES + OUTSIDE, ids=lambda case: case.id)
@pytest.mark.parametrize("mean", [cagp.Zero(), cagp.Constant()], ids=["known mean", "unknown constant"])
def test_fields_are_drawn_with_the_weights_of_the_posterior(case: Case, mean: cagp.Mean) -> None:
    problem = make_problem(noise=None)  # one noise variance for each observation
    model = replace(problem.prior, mean=mean).condition(problem.X, problem.y, case.solver)
    simulator = model.simulator(problem.X_test)
    prior = simulator._parts[0].prior
    fields, W = simulator.draw(3, seed=4, first=2).fields, model.predict(problem.X_test).weights
    d = len(problem.y)
    for field, number in zip(fields, (2, 3, 4), strict=True):
        normal, noise = (np.random.default_rng([4, number, stream]) for stream in (0, 1))
        drawn = prior(torch.from_numpy(normal.standard_normal((1, prior.noises)))).numpy()[0]
        observed = drawn[:d] + np.sqrt(problem.noise) * noise.standard_normal(d)
        # whatever the constant is: the weights are unbiased for it
        assert_allclose(field, drawn[d:] + W.T @ (problem.y - observed), rtol=1e-8, atol=1e-9)
