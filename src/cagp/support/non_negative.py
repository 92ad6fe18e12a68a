"""Least squares with weights that are not negative."""

from __future__ import annotations

import numpy as np
from scipy.optimize import lsq_linear, nnls


def non_negative(columns: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights (k,) of ``columns`` (m, k), none negative, that come closest to what is ``wanted`` (m,), and how close.

    The active sets of nnls are exact, and among columns that are nearly alike they may go round in circles; then it is
    an interior point of nearly the same residual.
    """
    try:
        weights, residual = nnls(columns, wanted)
    except RuntimeError:
        weights = np.maximum(lsq_linear(columns, wanted, bounds=(0.0, np.inf)).x, 0.0)
        residual = np.linalg.norm(columns @ weights - wanted)
    return np.asarray(weights), float(residual)
