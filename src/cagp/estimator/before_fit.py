"""What an estimator with a kernel says before it has seen data: the prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from .outputs import squeezed
from .setup import Start, prior_mean, prior_variance


def prior_prediction(
    start: Start, X: np.ndarray, outputs: int, return_std: bool, return_cov: bool, of: str | None
) -> Any:
    """The prior at X (T, p) in the shapes of ``predict``, the same for each of the ``outputs``."""
    prior = start.prior()
    noise = {None: start.level if start.white else 0.0, "latent": 0.0}.get(of, prior.noise_variance)
    mean = squeezed(np.repeat(prior_mean(prior, X)[:, None], outputs, axis=1))
    if return_cov:
        covariance = prior.kernel(X) + np.eye(len(X)) * noise
        return mean, squeezed(np.repeat(covariance[:, :, None], outputs, axis=2))
    if return_std:
        std = np.sqrt(prior_variance(prior, X) + noise)
        return mean, squeezed(np.repeat(std[:, None], outputs, axis=1))
    return mean
