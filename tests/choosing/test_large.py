"""What is done otherwise among very many observations gives the same, tried on few."""

from __future__ import annotations

import numpy as np
import pytest

import cagp
from cagp.choosing import search

RNG = np.random.default_rng(0)


def test_models_that_are_made_again_are_those_that_were_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    X = RNG.random((40, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=40)
    options = {"kernel": "matern32", "uncertainty": False, "transform": None, "progress": False}
    kept = cagp.fit(X, y, **options).predict(X)
    monkeypatch.setattr(search, "_KEPT_UP_TO", 0)
    again = cagp.fit(X, y, **options).predict(X)
    np.testing.assert_allclose(again.mean, kept.mean, rtol=1e-9)
    np.testing.assert_allclose(again.std, kept.std, rtol=1e-9)
