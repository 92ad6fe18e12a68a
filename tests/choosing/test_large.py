"""What is done otherwise among very many observations gives the same, tried on few."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cagp
from cagp.choosing import search
from cagp.left_out import geometry
from cagp.left_out.geometry import Gaps, Geometry

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


def test_neighbours_beyond_a_wide_gap_are_hardly_further_away(monkeypatch: pytest.MonkeyPatch) -> None:
    X = RNG.random((20_000, 2))
    model = cagp.Prior(cagp.Matern32(1.0)).condition(X, X[:, 0], cagp.NearestNeighbours(5))
    place, rows = Geometry(model), torch.arange(3)
    wide = torch.full((3,), 0.3, dtype=torch.float64)
    gaps = Gaps(wide, place.points[rows], torch.zeros(3, dtype=torch.float64))

    def furthest() -> torch.Tensor:
        found = place.beyond(rows, gaps, 5)
        assert bool((found >= 0).all())
        return (place.points[found] - place.points[rows][:, None]).norm(dim=2)

    exact = furthest()
    monkeypatch.setattr(geometry, "_WIDE", 512)
    thinned = furthest()
    assert bool((thinned >= 0.3).all())
    assert float(exact.max()) < 0.302
    assert float(thinned.max()) < 0.315
