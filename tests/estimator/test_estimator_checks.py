"""The estimator keeps every promise that scikit-learn checks."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from sklearn.gaussian_process import kernels as sk
from sklearn.utils.estimator_checks import parametrize_with_checks

import cagp
from cagp.estimator import CAGPRegressor

ESTIMATORS = [
    CAGPRegressor("matern32", uncertainty=False, varying=False, rotate=False),
    CAGPRegressor(cagp.Matern32(1.0), solver=cagp.GaussSeidel(20), normalize_y=True, recalibrate="auto"),
    CAGPRegressor(sk.RBF() + sk.WhiteKernel()),
]


# what a fit has to say about data made for checks is not the point here
@pytest.mark.filterwarnings("ignore::cagp.hyperparameters.FitWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator: CAGPRegressor, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::cagp.hyperparameters.FitWarning")
@parametrize_with_checks([CAGPRegressor()])
def test_scikit_learn_with_nothing_said(estimator: CAGPRegressor, check: Any) -> None:
    check(estimator)


def test_array_api_checks_too() -> None:
    """scikit-learn skips these unless SciPy was told, before it was imported, to accept arrays of other libraries."""
    told = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "test_scikit_learn and array_api and not nothing_said",
    ]
    done = subprocess.run([*command, __file__], env=told, capture_output=True, text=True, check=False)
    if done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
        pytest.skip("this version of scikit-learn has no checks of other arrays")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
