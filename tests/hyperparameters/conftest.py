"""What the tests of fitting share."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def sample() -> tuple[np.ndarray, np.ndarray]:
    """60 noisy observations of a smooth function of two inputs."""
    generator = np.random.default_rng(7)
    X = generator.random((60, 2))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * generator.standard_normal(60)
