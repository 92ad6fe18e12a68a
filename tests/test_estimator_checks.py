"""The estimator keeps every promise that scikit-learn checks."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.gaussian_process import kernels as sk
from sklearn.utils.estimator_checks import parametrize_with_checks

import cagp
from cagp.estimator import CAGPRegressor

ESTIMATORS = [
    CAGPRegressor(),
    CAGPRegressor(cagp.Matern32(1.0), solver=cagp.GaussSeidel(20), normalize_y=True),
    CAGPRegressor(sk.RBF() + sk.WhiteKernel()),
]


# what a fit has to say about data made for checks is not the point here
@pytest.mark.filterwarnings("ignore::cagp.hyperparameters.FitWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator: CAGPRegressor, check: Any) -> None:
    check(estimator)
