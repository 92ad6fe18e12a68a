"""Is this the maximum of the likelihood? Judged by scikit-learn's likelihood, not by scikit-learn's optimiser."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor


def assert_optimum(peer: GaussianProcessRegressor, theta: np.ndarray, known: list[float], slope: float = 0.01) -> None:
    """At ``theta`` there is no way up within the bounds, and it is as high as at ``known``, the optimum of record.

    ``peer`` was fitted with ``optimizer=None``. Where optimisers stop differs between machines and versions; what
    they were looking for does not.
    """
    value, gradient = peer.log_marginal_likelihood(theta, eval_gradient=True)
    low, high = peer.kernel_.bounds.T
    assert_allclose(np.clip(theta + gradient, low, high), theta, rtol=0, atol=slope)
    assert value >= peer.log_marginal_likelihood(np.array(known)) - 1e-3
