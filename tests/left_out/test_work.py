"""How much work left-out predictions take, counted and not timed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import cagp
from cagp.left_out import Gaps, Geometry

COSTS = {"linalg_inv_ex": 2, "linalg_cholesky_ex": 1 / 3, "linalg_lu": 2 / 3, "_linalg_solve_ex": 2 / 3}
"""Operations for each entry of the cube of a matrix."""

N = 400


class Counted(TorchDispatchMode):
    """Adds up what it takes to factorise or invert matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0.0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), settings: Any = None) -> Any:
        for name, cost in COSTS.items():
            if name in str(function):
                shape = arguments[0].shape
                self.operations += cost * float(np.prod(shape[:-2])) * shape[-1] ** 3
        return function(*arguments, **(settings or {}))


def test_gaps_take_no_inverse_each() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((N, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(N)
    model = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01).condition(X, y, cagp.Cholesky())
    far = np.array([[1.6, 0.5]])
    model.predict(X[:1])
    with Counted() as counted:
        model.left_out(like=far, progress=False)
    assert counted.operations <= 20 * N**3


def test_wide_gaps_of_many_data_are_fewer_and_each_is_exact() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((1200, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(1200)
    prior = cagp.Prior(cagp.RBF(0.3), mean=cagp.Constant(), noise_variance=0.01)
    model = prior.condition(X, y, cagp.Cholesky())
    with Counted() as counted:
        found = model.left_out(like=np.array([[1.6, 0.5]]), progress=False)
    assert counted.operations <= 25 * 1200**3
    assert 100 <= len(found) < 1200
    assert f"{len(found)} of the 1,200 observations" in found.how
    points = Geometry(model.components[0]).points
    for place in (0, len(found) // 2):
        i = found.index[place]
        kept = ~found.gaps.some(torch.tensor([place])).hold(points[i : i + 1], points[None])[0].numpy()
        kept[i] = False
        expected = prior.condition(X[kept], y[kept], cagp.Cholesky()).predict(X[i : i + 1]).observed()
        np.testing.assert_allclose(found.std[place], expected.std[0], rtol=1e-6)


class Looked(TorchDispatchMode):
    """Adds up the numbers that operations give."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), settings: Any = None) -> Any:
        found = function(*arguments, **(settings or {}))
        results = found if isinstance(found, (tuple, list)) else (found,)
        self.numbers += sum(each.numel() for each in results if isinstance(each, torch.Tensor))
        return found


def test_what_lies_in_a_gap_is_not_looked_at() -> None:
    X = np.random.default_rng(0).random((60_000, 2))
    prior = cagp.Prior(cagp.Matern32(1.0), noise_variance=0.01)
    geometry = Geometry(prior.condition(X, X[:, 0], cagp.NearestNeighbours(20)).components[0])
    rows = torch.from_numpy(np.flatnonzero(np.linalg.norm(X - 0.5, axis=1) < 0.05)[:20])
    nothing, counts = torch.zeros(20, dtype=torch.float64), []
    for radius in (0.1, 0.4):  # one gap holds sixteen times as much as the other
        gaps = Gaps(torch.full_like(nothing, radius), geometry.points[rows], nothing)
        geometry.beyond(rows[:1], gaps.some(torch.tensor([0])), 20)
        with Looked() as looked:
            geometry.beyond(rows, gaps, 20)
        counts.append(looked.numbers)
    assert counts[1] < 6 * counts[0]
