"""Gaussian process regression as a scikit-learn estimator; needs scikit-learn."""

from .regressor import CAGPRegressor

__all__ = ["CAGPRegressor"]
