"""Simulation-based calibration of every solver that claims to be calibrated, and of the one that does not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

import cagp
from problems import make_problem
from solver_cases import CASES, Case

PROBLEM = make_problem(d=40, T=7)


def simulate(solver: cagp.Solver, seed: int, n_simulations: int) -> cagp.calibration.SimulationResult:
    return cagp.calibration.simulation_based_calibration(
        PROBLEM.prior, PROBLEM.X, PROBLEM.X_test, solver=solver, n_simulations=n_simulations, seed=seed
    )


@pytest.mark.parametrize("case", [c for c in CASES if c.solver.calibrated], ids=lambda c: c.id)
def test_p_values_of_calibrated_solvers_are_uniform(case: Case) -> None:
    results = [simulate(case.solver, seed, 200) for seed in range(25)]
    assert kstest([r.p_value for r in results], "uniform").pvalue > 0.001
    pooled = np.concatenate([r.z for r in results])
    assert abs(pooled.std() - 1) < 4 / np.sqrt(2 * len(pooled))


def test_the_hybrid_with_cg_on_b_is_flagged_and_is_not_calibrated() -> None:
    for hybrid in (cagp.SweepsThenCG(1, 3), cagp.Chain([cagp.GaussSeidel(1), cagp.ConjugateGradient(3)])):
        assert not hybrid.calibrated
        assert simulate(hybrid, 0, 400).verdict != "calibrated"
