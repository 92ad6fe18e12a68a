"""Test points that share neighbours: never a larger variance, never a dependence on batches, exact on the union."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import cagp
from cagp.gram import Gram
from cagp.gram.neighbourhoods import Neighbourhoods
from cagp.solvers.nearest_neighbours import PreparedNearestNeighbours

RNG = np.random.default_rng(3)
X = RNG.random((3000, 2))
Y = np.sin(5 * X[:, 0]) + RNG.normal(size=3000) * 0.1
GRID = np.stack(np.meshgrid(np.linspace(0.3, 0.34, 25), np.linspace(0.1, 0.14, 24)), axis=-1).reshape(-1, 2)
KERNEL = cagp.Matern32(0.3)
PRIOR = cagp.Prior(KERNEL, noise_variance=0.01)


def model(**settings: object) -> cagp.Model:
    return PRIOR.condition(X, Y, cagp.NearestNeighbours(30, far=9), storage="tiles", **settings)


def shared(neighbourhoods: Neighbourhoods | None) -> float:
    assert neighbourhoods is not None
    return float((neighbourhoods.group >= 0).double().mean())


def gram_of(train: np.ndarray, kernel: cagp.Kernel, noise: float, basis: np.ndarray | None = None) -> Gram:
    points = torch.from_numpy(train)
    H = None if basis is None else torch.from_numpy(basis)
    embedding = kernel.embed(points, torch.zeros(points.shape[1], dtype=torch.float64))
    return Gram(kernel, embedding, torch.full((len(train),), noise).double(), budget=2**30, storage="tiles", basis=H)


def prepared(
    train: np.ndarray, test: np.ndarray, solver: cagp.NearestNeighbours, trend: bool
) -> tuple[PreparedNearestNeighbours, object]:
    def basis(points: np.ndarray) -> np.ndarray | None:
        return np.column_stack([np.ones(len(points)), points]) if trend else None

    gram = gram_of(train, KERNEL, 0.01, basis(train))
    h = basis(test)
    embedding = KERNEL.embed(torch.from_numpy(test), torch.zeros(test.shape[1], dtype=torch.float64))
    return solver.prepare(gram), gram.cross(embedding, None if h is None else torch.from_numpy(h))


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_batches_do_not_matter(batch_size: int) -> None:
    test = GRID[:200] if batch_size < 7 else GRID
    whole = model().predict(test)
    assert shared(whole._batches[0].cross.neighbourhoods) > 0.9
    post = model().predict(test, batch_size=batch_size)
    assert_allclose(post.mean, whole.mean, rtol=1e-10, atol=1e-10)
    assert_allclose(post.variance, whole.variance, rtol=1e-10)


def test_order_of_the_pieces_and_threads_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = model().predict(GRID)
    monkeypatch.setattr("cagp.solvers.nearest_neighbours._SHARING_BYTES", 2**15)
    post = model().predict(GRID)
    assert_allclose(post.mean, whole.mean, rtol=1e-10, atol=1e-10)
    assert_allclose(post.variance, whole.variance, rtol=1e-10)


def test_workers_see_the_same_neighbourhoods() -> None:
    whole, post = model().predict(GRID), model().predict(GRID, n_jobs=2, batch_size=37)
    assert_allclose(post.mean, whole.mean, rtol=1e-10, atol=1e-10)
    assert_allclose(post.variance, whole.variance, rtol=1e-10)


def test_bounds_and_weights_that_are_computed_later_are_those_of_the_call() -> None:
    test = GRID[:90]
    whole, post = model().predict(test), model().predict(test, batch_size=11)
    assert_allclose(post.computational_variance.upper, whole.computational_variance.upper, rtol=1e-6, atol=1e-12)
    assert_allclose(post.computational_variance.lower, whole.computational_variance.lower, rtol=1e-6, atol=1e-12)


def test_a_start_for_cg_is_shared_too() -> None:
    solver = cagp.CalibratedCG(2, cagp.SymmetricGaussSeidel(64), start=cagp.NearestNeighbours(20))
    one = PRIOR.condition(X[:500], Y[:500], solver).predict(GRID[:50])
    few = PRIOR.condition(X[:500], Y[:500], solver).predict(GRID[:50], batch_size=7)
    assert_allclose(few.variance, one.variance, rtol=1e-9)
    assert_allclose(few.mean, one.mean, rtol=1e-8, atol=1e-10)


def test_a_part_keeps_the_union_and_what_is_sent_is_complete() -> None:
    cross = model().cross(torch.from_numpy(GRID))
    part = cross.rows(slice(10, 60)).neighbourhoods
    assert part is not None
    sent = part.compact()
    assert sent.nbytes < part.nbytes
    for old, new in zip(part.group.tolist(), sent.group.tolist(), strict=True):
        assert (old < 0) == (new < 0)
        if old >= 0:
            expected = part.members[part.offsets[old] : part.offsets[old + 1]]
            assert torch.equal(sent.members[sent.offsets[new] : sent.offsets[new + 1]], expected)


def test_a_sample_tells_whether_sharing_pays() -> None:
    """Many scattered test points are left alone, and as many close ones share; so do those beside scattered ones."""
    axis, train = np.linspace(0, 0.2, 60), np.concatenate([X, 30 * X])
    close, apart = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2), 30 * RNG.random((3500, 2))

    def groups(test: np.ndarray) -> Neighbourhoods | None:
        solver, cross = prepared(train, test, cagp.NearestNeighbours(20), False)
        return solver.arrange(cross).neighbourhoods

    assert groups(apart) is None
    assert shared(groups(close)) > 0.9
    assert shared(groups(np.concatenate([close, apart]))) > 0.4


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    d=st.integers(1, 600),
    T=st.integers(1, 150),
    p=st.integers(1, 3),
    k=st.integers(0, 40),
    far=st.integers(0, 12),
    spread=st.sampled_from([0.01, 0.1, 1.0]),
    rounded=st.booleans(),
    trend=st.booleans(),
)
def test_sharing_never_widens(seed, d, T, p, k, far, spread, rounded, trend):
    rng = np.random.default_rng(seed)
    train, test = rng.random((d, p)), 0.3 + spread * rng.random((T, p))
    if rounded:  # many equal distances, and equal points
        train, test = train.round(1), test.round(2)
    if trend and d < 4 * (p + 1):
        trend = False
    solver = cagp.NearestNeighbours(max(k, 3 * (p + 1)) if trend else k, far=far, seed=seed % 7)
    try:
        solver_prepared, cross = prepared(train, test, solver, trend)
    except cagp.InputError:
        return  # rounded to points that do not determine the trend
    own, together = solver_prepared._solve(cross, share=False), solver_prepared._solve(solver_prepared.arrange(cross))
    for weights in (own, together):
        assert weights.values.isfinite().all()
        if trend:
            constraint = weights.dense() @ cross.gram.basis - cross.basis
            assert constraint.abs().max() < 1e-8 * (1 + weights.values.abs().max())
    determined = own.indices.shape[1] == together.indices.shape[1] or not trend or not rounded
    if determined:
        scale = 1 + own.reduction.abs()
        assert ((together.reduction - own.reduction) / scale > -1e-9).all()


@pytest.mark.parametrize("trend", [False, True])
def test_exact_on_the_union(trend: bool) -> None:
    """Dense algebra with the union of each group, and with the neighbours of points on their own."""
    test = np.concatenate([GRID[:120], RNG.random((15, 2)) + 1.0])
    solver, cross = prepared(X, test, cagp.NearestNeighbours(25, far=8), trend)
    arranged = solver.arrange(cross)
    weights, dense = solver._solve(arranged), solver._solve(arranged).dense()
    groups = arranged.neighbourhoods
    assert 0.5 < shared(groups) < 1
    K = PRIOR.kernel
    own = solver._own(cross)
    for t in range(0, len(test), 7):
        g = int(groups.group[t])
        members = groups.members[groups.offsets[g] : groups.offsets[g + 1]] if g >= 0 else own[t][own[t] >= 0]
        S = np.asarray(members)
        assert len(set(S.tolist())) == len(S)
        G, v = K(X[S]) + 0.01 * np.eye(len(S)), K(X[S], test[t : t + 1])[:, 0]
        if trend:
            H, h = np.column_stack([np.ones(len(S)), X[S]]), np.array([1, *test[t]])
            saddle = np.block([[G, H], [H.T, np.zeros((3, 3))]])
            w = np.linalg.solve(saddle, np.concatenate([v, h]))[: len(S)]
        else:
            w = np.linalg.solve(G, v)
        assert_allclose(dense[t][S], w, rtol=1e-5, atol=1e-7)
        assert_allclose(weights.reduction[t], 2 * v @ w - w @ G @ w, rtol=1e-7, atol=1e-9)
        assert set(np.flatnonzero(dense[t]).tolist()) <= set(S.tolist())


def test_what_is_called_own_is_in_the_union() -> None:
    solver, cross = prepared(X.round(2), GRID.round(3), cagp.NearestNeighbours(20, far=6), False)
    groups, own = solver.arrange(cross).neighbourhoods, solver._own(cross)
    assert shared(groups) > 0.5
    for t in range(len(GRID)):
        g = int(groups.group[t])
        if g >= 0:
            union = set(groups.members[groups.offsets[g] : groups.offsets[g + 1]].tolist())
            assert {i for i in own[t].tolist() if i >= 0} <= union


# --- far points -------------------------------------------------------------------------------------------------------


def test_far_points_are_new_spread_and_the_same_every_time() -> None:
    solver, cross = prepared(X, GRID, cagp.NearestNeighbours(30, far=12, seed=4), False)
    own = solver._own(cross)
    assert own.shape == (len(GRID), 42)
    assert all(len({i for i in row if i >= 0}) == sum(i >= 0 for i in row) for row in own.tolist())
    assert torch.equal(own, prepared(X, GRID, cagp.NearestNeighbours(30, far=12, seed=4), False)[0]._own(cross))
    other = prepared(X, GRID, cagp.NearestNeighbours(30, far=12, seed=5), False)[0]._own(cross)
    assert torch.equal(own[:, :30], other[:, :30])
    assert not torch.equal(own[:, 30:], other[:, 30:])
    distance = np.linalg.norm(X[own.numpy()] - GRID[:, None], axis=2)
    assert (distance[:, 30:].mean(axis=1) > 1.5 * distance[:, :30].mean(axis=1)).mean() > 0.9


@pytest.mark.parametrize("d", [1, 2, 5, 30])
def test_fewer_points_than_asked_for(d: int) -> None:
    post = PRIOR.condition(X[:d], Y[:d], cagp.NearestNeighbours(4, far=50)).predict(GRID[:40])
    exact = PRIOR.condition(X[:d], Y[:d], cagp.Cholesky()).predict(GRID[:40])
    assert (post.variance >= exact.variance * (1 - 1e-9)).all()


def test_left_out_there_are_far_points_where_there_is_a_trend() -> None:
    solver = cagp.NearestNeighbours(30)
    assert prepared(X, GRID, solver, True)[0]._size == 36
    assert prepared(X, GRID, solver, False)[0]._size == 30
    assert prepared(X, GRID, cagp.NearestNeighbours(30, far=0), True)[0]._size == 30


def test_far_points_help_in_a_gap() -> None:
    train = X[np.abs(X - 0.5).max(axis=1) > 0.3]
    gap = np.array([[0.5, 0.5], [0.45, 0.6]])
    prior = cagp.Prior(cagp.Matern12(1.0), noise_variance=0.01)
    near, both, exact = (
        prior.condition(train, train[:, 0], solver).predict(gap).variance
        for solver in (cagp.NearestNeighbours(40), cagp.NearestNeighbours(25, far=15), cagp.Cholesky())
    )
    assert (both - exact < 0.8 * (near - exact)).all()


def test_a_kernel_without_distance_has_far_points_too() -> None:
    prior = cagp.Prior(cagp.Linear(), noise_variance=0.1)
    post = prior.condition(X[:200], Y[:200], cagp.NearestNeighbours(10, far=9)).predict(GRID[:5])
    assert (post.variance > 0).all()


# --- trend ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [cagp.NearestNeighbours(0), cagp.NearestNeighbours(2), cagp.NearestNeighbours(3)])
def test_neighbours_that_do_not_determine_the_trend_get_others(solver: cagp.NearestNeighbours) -> None:
    line = np.column_stack([np.linspace(0, 1, 50), np.zeros(50)])
    train = np.concatenate([line, [[0.5, 5.0], [0.2, 6.0]]])
    prepared_, cross = prepared(train, line[::7] + 0.003, solver, True)
    weights = prepared_.final(cross)
    assert prepared_.unbiased
    assert_allclose(weights.dense() @ cross.gram.basis, cross.basis, atol=1e-9)
    touched = (weights.dense() != 0).sum(dim=1)
    assert (touched <= solver.k + 3).all()


def test_a_trend_that_no_points_determine_is_refused() -> None:
    with pytest.raises(cagp.InputError, match="do not determine the 3 coefficients"):
        prepared(np.column_stack([np.linspace(0, 1, 50), np.zeros(50)]), GRID, cagp.NearestNeighbours(5), True)


def test_a_trend_in_y_moves_the_mean_by_itself_and_no_variance() -> None:
    solver, cross = prepared(X, GRID, cagp.NearestNeighbours(20, far=6), True)
    weights = solver._solve(solver.arrange(cross))
    beta = torch.tensor([1e3, -40.0, 7.0]).double()
    moved = weights.apply(cross.gram.basis @ beta)
    assert_allclose(moved, cross.basis @ beta, rtol=1e-10)


# --- search -----------------------------------------------------------------------------------------------------------

M, R = cagp.Matern32(0.2), cagp.RBF(0.5)


@pytest.mark.parametrize(
    ("kernel", "columns"),
    [
        (M, 2),
        (M + 2 * R, 2),
        (M.on(0) * R.on(1), 2),
        (M.on(0) + R.on(1), 2),
        (M.on(0) + R.on(0), 1),
        (M + cagp.Linear(), 2),
        (M.on(0) * cagp.Linear().on(1), 1),
        ((M + cagp.Level()) * R.on(0), 3),
        (cagp.Linear() + cagp.Level(), None),
        (cagp.CustomKernel(lambda A, B: A @ B.T), None),
    ],
    ids=lambda value: "own" if isinstance(value, cagp.CustomKernel) else repr(value),
)
def test_sums_and_products_are_searched_by_a_tree(kernel: cagp.Kernel, columns: int | None) -> None:
    gram = gram_of(X[:100], kernel, 0.1)
    coordinates = gram.search_coordinates()
    assert (None if coordinates is None else coordinates.shape[1]) == columns
    assert (gram.neighbours is None) == (columns is None)
    prior = cagp.Prior(kernel, noise_variance=0.1)
    near = prior.condition(X[:100], Y[:100], cagp.NearestNeighbours(100)).predict(GRID[:9])
    exact = prior.condition(X[:100], Y[:100], cagp.Cholesky()).predict(GRID[:9])
    assert_allclose(near.variance, exact.variance, rtol=1e-7)


def test_of_a_sum_the_term_with_the_most_variance_decides() -> None:
    short, long = cagp.Matern32((0.1, 10.0), variance=0.1), cagp.Matern32((10.0, 0.1), variance=3.0)
    coordinates = gram_of(X[:50], short + long, 0.1).search_coordinates()
    assert_allclose(coordinates, X[:50] / [10.0, 0.1], rtol=1e-12)
