"""Blocks in one compiled pass are those of torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from cagp.gram import Cross, Gram
from cagp.kernels import plan
from cagp.solvers.local_kriging import LocalKriging, Neighbourhoods

pytest.importorskip("numba", reason="blocks are compiled where numba is installed")

RNG = np.random.default_rng(5)
X, X_TEST = RNG.random((400, 3)), RNG.random((60, 3))
Y = np.sin(4 * X[:, 0])
LONG, SHORT = cagp.RBF((0.3, 1.0, 2.0), variance=0.7), cagp.Matern12(0.2)
KERNELS = {
    "Matérn 1/2": SHORT,
    "Matérn 3/2": cagp.Matern32(0.4, variance=3.0),
    "Matérn 5/2": cagp.Matern52((0.4, 0.2, 3.0)),
    "squared exponential": LONG,
    "spherical": cagp.Spherical((0.9, 0.5, 3.0), variance=2.0),
    "rational quadratic": cagp.RationalQuadratic(0.3, alpha=1.7),
    "so short that most values are zero": cagp.RBF(1e-3),
    "periodic": cagp.Periodic(0.7, period=0.4),
    "a sum": SHORT + 2 * LONG,
    "a product": cagp.Matern32(0.5).on(0) * SHORT.on(1, 2) * cagp.Matern52(0.3).on(0),
    "an amplitude": cagp.Varying(SHORT + LONG, cagp.Pattern(LONG, RNG.random((4, 3)), [0.3, 1.0, 2.0, 5.0])),
    "both": (SHORT + LONG) * cagp.Matern32(1.0).on(2) + cagp.Matern32(0.1),
}
NOISE = RNG.uniform(0.01, 0.1, len(X))


def gram(kernel: cagp.Kernel) -> Gram:
    points = torch.from_numpy(X)
    return Gram(kernel, kernel.embed(points, points.mean(dim=0)), torch.from_numpy(NOISE), budget=2**30)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("k", [1, 7, 130])
def test_they_are_those_of_torch(kernel: cagp.Kernel, k: int) -> None:
    """Blocks of fewer values than are computed at once, and of many more; copies of a point in one block."""
    indices, batch = torch.from_numpy(RNG.integers(0, len(X), (5, k))), torch.arange(60).view(5, 12)
    points = torch.from_numpy(X_TEST)
    embedded = kernel.embed(points, torch.from_numpy(X).mean(dim=0))
    test = cagp.kernels.map_embedding(embedded, lambda part: part[:, batch])
    plain, compiled = gram(kernel), gram(kernel)
    compiled.expect(plan.COMPILED_FROM)
    assert compiled.compiled is not None
    assert plain.compiled is None
    # where a spherical kernel ends, the last digit of the distance is all of the value
    tiny = 1e-16 if isinstance(kernel, cagp.Spherical) else 1e-300
    with plain.systems(test, indices) as theirs, compiled.systems(test, indices) as ours:
        assert_allclose(ours[0].tril(), theirs[0].tril(), rtol=1e-13, atol=tiny)
        assert_allclose(ours[1], theirs[1], rtol=1e-13, atol=tiny)


def test_other_kernels_stay_with_torch() -> None:
    compiled = gram(SHORT + cagp.Linear())
    compiled.expect(plan.COMPILED_FROM)
    assert compiled.compiled is None


@pytest.mark.parametrize("mean", [cagp.Constant(0.0), cagp.Polynomial(1)], ids=["known", "unknown"])
def test_predictions_are_the_same(mean: cagp.Mean, monkeypatch: pytest.MonkeyPatch) -> None:
    """With neighbours that are shared, far and missing, on workers too."""
    prior, solver = cagp.Prior(KERNELS["both"], mean=mean, noise_variance=0.01), cagp.NearestNeighbours(30, far=12)
    test = 0.5 + 0.01 * X_TEST
    plain = prior.condition(X, Y, solver).predict(test)
    monkeypatch.setattr(plan, "COMPILED_FROM", 0)
    model = prior.condition(X, Y, solver)
    for post in (model.predict(test), model.predict(test, n_jobs=2, batch_size=20)):
        assert_allclose(post.mean, plain.mean, rtol=1e-8)
        assert_allclose(post.variance, plain.variance, rtol=1e-8)
    assert model.gram.compiled is not None


def with_trend(points: np.ndarray, noise: np.ndarray, test: np.ndarray, compiled: bool) -> tuple[LocalKriging, Cross]:
    """Neighbourhoods of points with a linear trend, by torch or by compiled code."""
    kernel, (train, asked) = KERNELS["a sum"], (torch.from_numpy(each) for each in (points, test))
    H, h = (torch.cat([torch.ones(len(each), 1), each], dim=1).double() for each in (train, asked))
    origin = train.mean(dim=0)
    own = Gram(kernel, kernel.embed(train, origin), torch.from_numpy(noise), budget=2**30, storage="tiles", basis=H)
    own.expect(plan.COMPILED_FROM if compiled else 0)
    assert (own.compiled is not None) == compiled
    return LocalKriging(own), own.cross(kernel.embed(asked, origin), h)


def test_odd_neighbourhoods_are_solved_as_torch_solves_them() -> None:
    """Of all sizes; with no factor, in a line that leaves a trend open, with nobody, and with many test points."""
    line = np.column_stack([np.linspace(0, 1, 20), np.full((20, 2), 0.5)])
    points = np.concatenate([X[:88], line])
    noise = np.where((np.arange(len(points)) >= 80) & (np.arange(len(points)) < 88), -9.0, 0.01)
    members = torch.full((9, 40), -1)
    for row, size in enumerate((4, 5, 7, 8, 13, 40)):
        members[row, torch.randperm(40, generator=torch.Generator().manual_seed(row))[:size]] = torch.arange(size) * 2
    members[6, :9] = torch.tensor([0, *range(80, 88)])
    members[7, 3:20] = torch.arange(88, 105)
    counts = np.array([1, 3, 0, 2, 1, 300, 2, 2, 3])
    test, rows = RNG.random((counts.sum(), 3)), RNG.permutation(counts.sum())
    asked = Neighbourhoods(members, rows, np.append(0, np.cumsum(counts)))
    (theirs, cross), (ours, same) = (with_trend(points, noise, test, compiled) for compiled in (False, True))
    plain, found = theirs.weights(cross, [asked], strict=False), ours.weights(same, [asked], strict=False)
    assert_allclose(found.dense(), plain.dense(), rtol=1e-7, atol=1e-9)
    failed = np.isin(np.arange(len(rows)), rows[asked.starts[6] : asked.starts[7]])
    assert_allclose(found.reduction.isinf(), failed)
    assert_allclose(found.reduction, plain.reduction, rtol=1e-8)
    for kriging, test_points in ((theirs, cross), (ours, same)):
        with pytest.raises(cagp.NotPositiveDefiniteError, match="neighbours of a test point"):
            kriging.weights(test_points, [asked], strict=True)
