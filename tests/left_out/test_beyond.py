"""Neighbours beyond gaps against a look at all points, and predictions against data that were removed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cagp
from cagp.left_out import Gaps, Geometry

PRIOR = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01)


def _geometry(X: np.ndarray) -> Geometry:
    return Geometry(PRIOR.condition(X, np.zeros(len(X)), cagp.NearestNeighbours(20)).components[0])


@pytest.mark.parametrize(("n", "columns"), [(3000, 1), (3000, 2), (8000, 3), (1500, 8), (30, 2)])
@pytest.mark.parametrize("some", [False, True])
def test_the_nearest_beyond_a_gap_are_found(n: int, columns: int, some: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((n, columns))
    X[: n // 3] = np.round(X[: n // 3], 1)  # many at the same place
    geometry, rows, k = _geometry(X), torch.from_numpy(rng.choice(n, 25, replace=False)), 12
    points = geometry.points
    radius, reach, away = (torch.from_numpy(each) for each in (*rng.random((2, 25)) * 3, rng.random((25, columns))))
    gaps = Gaps(radius, points[rows] + away, reach)
    among = torch.from_numpy(rng.choice(n, n // 3, replace=False)) if some else torch.arange(n)
    found = geometry.beyond(rows, gaps, k, among if some else None)
    apart = torch.cdist(points[rows], points[among], compute_mode="donot_use_mm_for_euclid_dist")
    held = gaps.hold(points[rows], points[among][None].expand(25, -1, -1)) | (among == rows[:, None])
    wanted = apart.masked_fill(held, torch.inf).sort(dim=1).values[:, :k]
    np.testing.assert_allclose(geometry.distance_of(found.T, rows).T[:, : wanted.shape[1]], wanted)
    assert bool((found[:, wanted.shape[1] :] == -1).all())


def test_predictions_are_those_without_the_data_in_the_gap() -> None:
    """With 20,000 observations, thousands of them in a gap, against models that never had them."""
    rng = np.random.default_rng(1)
    X = rng.random((20_000, 2))
    y = np.sin(9 * X[:, 0]) + 0.1 * rng.standard_normal(20_000)
    hole = np.linalg.norm(X - 0.5, axis=1) < 0.3
    X, y, like = X[~hole], y[~hole], X[hole][:200]
    solver = cagp.NearestNeighbours(30, shared=False)
    model = PRIOR.condition(X, y, solver)
    found = model.left_out(like=like, n=40, progress=False)
    points = Geometry(model.components[0]).points
    crowds = []
    for place in range(0, 40, 8):
        i = found.index[place]
        inside = found.gaps.some(torch.tensor([place])).hold(points[i : i + 1], points[None])[0].numpy()
        inside[i] = True
        expected = PRIOR.condition(X[~inside], y[~inside], solver).predict(X[i : i + 1]).observed()
        np.testing.assert_allclose(
            (found.mean[place], found.std[place]), (expected.mean[0], expected.std[0]), rtol=1e-6
        )
        crowds.append(inside.sum())
    assert max(crowds) > 1000
