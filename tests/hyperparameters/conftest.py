"""What the tests of fitting share."""

from __future__ import annotations

import os

import numpy as np
import pytest


@pytest.fixture
def era5_data() -> None:
    if not os.environ.get("CAGP_DATA"):
        pytest.skip("CAGP_DATA is not set: it names the folder with the data files")


@pytest.fixture
def sample() -> tuple[np.ndarray, np.ndarray]:
    """60 noisy observations of a smooth function of two inputs."""
    generator = np.random.default_rng(7)
    X = generator.random((60, 2))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * generator.standard_normal(60)
