"""Test points that share the neighbours of their cell: which these are, exact weights on them, and what it costs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import cagp
from cagp.gram import Cross, Gram
from cagp.solvers.nearest_neighbours import PreparedNearestNeighbours

RNG = np.random.default_rng(3)
X = RNG.random((3000, 2))
Y = np.sin(5 * X[:, 0]) + RNG.normal(size=3000) * 0.1
GRID = np.stack(np.meshgrid(np.linspace(0.3, 0.34, 25), np.linspace(0.1, 0.14, 24)), axis=-1).reshape(-1, 2)
KERNEL = cagp.Matern32(0.3)
PRIOR = cagp.Prior(KERNEL, noise_variance=0.01)


def model(**settings: object) -> cagp.Model:
    return PRIOR.condition(X, Y, cagp.NearestNeighbours(30, far=9), storage="tiles", **settings)


def sharing(solver: PreparedNearestNeighbours, cross: Cross) -> tuple[int, list[tuple[int, int]]]:
    """How many test points have neighbours of their own, and for every cell its neighbours and test points."""
    cell, members = solver.cells(cross)
    rows = np.bincount(cell[cell >= 0], minlength=len(members))
    return int((cell < 0).sum()), list(zip((members >= 0).sum(dim=1).tolist(), rows.tolist(), strict=True))


def shared(solver: PreparedNearestNeighbours, cross: Cross) -> float:
    """The share of test points in a cell with others."""
    _, cells = sharing(solver, cross)
    return sum(rows for _, rows in cells if rows > 1) / cross.size


def gram_of(train: np.ndarray, kernel: cagp.Kernel, noise: float, basis: np.ndarray | None = None) -> Gram:
    points = torch.from_numpy(train)
    H = None if basis is None else torch.from_numpy(basis)
    embedding = kernel.embed(points, torch.zeros(points.shape[1], dtype=torch.float64))
    return Gram(kernel, embedding, torch.full((len(train),), noise).double(), budget=2**30, storage="tiles", basis=H)


def prepared(
    train: np.ndarray, test: np.ndarray, solver: cagp.NearestNeighbours, trend: bool
) -> tuple[PreparedNearestNeighbours, Cross]:
    def basis(points: np.ndarray) -> np.ndarray | None:
        return np.column_stack([np.ones(len(points)), points]) if trend else None

    gram = gram_of(train, KERNEL, 0.01, basis(train))
    h = basis(test)
    embedding = KERNEL.embed(torch.from_numpy(test), torch.zeros(test.shape[1], dtype=torch.float64))
    return solver.prepare(gram), gram.cross(embedding, None if h is None else torch.from_numpy(h))


def test_order_of_the_pieces_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = model().predict(GRID)
    monkeypatch.setattr("cagp.solvers.nearest_neighbours._SHARING_BYTES", 2**15)
    post = model().predict(GRID)
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


def test_where_sharing_pays() -> None:
    """In the plane; not where many columns leave no room for cells with several points."""
    solver, cross = prepared(X, GRID, cagp.NearestNeighbours(20), False)
    assert shared(solver, cross) > 0.95
    _, cells = sharing(solver, cross)
    assert len(cells) < len(GRID) / 8
    assert all(20 <= size <= 40 for size, _ in cells)
    many = RNG.random((3000, 6))
    solver, cross = prepared(many, many[:50], cagp.NearestNeighbours(20), False)
    assert sharing(solver, cross) == (50, [])


def test_a_point_alone_costs_a_bounded_number_of_neighbours() -> None:
    """Scattered test points, each alone in its cell: at most twice the neighbours."""
    apart = RNG.random((40, 2))
    solver, cross = prepared(X, apart, cagp.NearestNeighbours(30, far=9), False)
    alone, cells = sharing(solver, cross)
    assert alone + sum(rows for _, rows in cells) == len(apart)
    assert max(size for size, _ in cells) <= 2 * (30 + 9)


def test_the_memory_of_neighbourhoods_is_counted() -> None:
    """What the search keeps for a piece of the test points is within what the memory plan says of them."""
    solver, cross = prepared(X, np.random.default_rng(0).random((4000, 2)), cagp.NearestNeighbours(30), False)
    sharing(solver, cross.rows(slice(0, 1)))
    tracemalloc.start()
    whole = solver.final(cross)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    counted = 8 * solver.numbers_per_test_point * cross.size
    assert peak + whole.values.nbytes + whole.indices.nbytes < counted


def test_a_small_budget_gives_the_same_numbers_in_more_batches() -> None:
    test = RNG.random((3000, 2))
    per_point = 8 * model().prepared.numbers_per_test_point
    whole, small = model().predict(test), model(memory_budget=700 * per_point).predict(test)
    assert len(whole._batches) == 1
    assert len(small._batches) > 3
    assert_allclose(small.mean, whole.mean, rtol=1e-10, atol=1e-10)
    assert_allclose(small.variance, whole.variance, rtol=1e-10)


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
def test_whatever_the_points_the_weights_are_sound(seed, d, T, p, k, far, spread, rounded, trend):
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
    own, together = solver_prepared._solve(cross, share=False), solver_prepared._solve(cross)
    some = rng.permutation(T)[: T // 2 + 1]
    assert_allclose(solver_prepared._solve(cross.rows(torch.from_numpy(some))).reduction, together.reduction[some])
    for weights in (own, together):
        assert weights.values.isfinite().all()
        if trend:
            constraint = weights.dense() @ cross.gram.basis - cross.basis
            assert constraint.abs().max() < 1e-8 * (1 + weights.values.abs().max())
    if not trend:  # all training points in a cell are its neighbours, so nobody loses what is nearest
        assert together.reduction.mean() > own.reduction.mean() - 1e-3


def test_a_cell_is_not_worse_than_neighbours_of_one_s_own() -> None:
    for test in (GRID, RNG.random((500, 2))):
        solver, cross = prepared(X, test, cagp.NearestNeighbours(30), False)
        own, together = solver._solve(cross, share=False), solver._solve(cross)
        left, more = 1 - own.reduction, 1 - together.reduction
        assert float(more.mean()) < float(left.mean())
        assert float((more / left).max()) < 1.01


@pytest.mark.parametrize("trend", [False, True])
def test_exact_on_the_neighbours_of_the_cell(trend: bool) -> None:
    """Dense algebra on the training points that have a weight."""
    test = np.concatenate([GRID[:120], RNG.random((15, 2)) + 1.0])
    solver, cross = prepared(X, test, cagp.NearestNeighbours(25, far=8), trend)
    assert shared(solver, cross) > 0.5
    weights = solver._solve(cross)
    dense = weights.dense()
    for t in range(0, len(test), 7):
        S = np.flatnonzero(dense[t])
        assert 25 <= len(S) <= 2 * (25 + 8) + 3
        G, v = KERNEL(X[S]) + 0.01 * np.eye(len(S)), KERNEL(X[S], test[t : t + 1])[:, 0]
        if trend:
            H, h = np.column_stack([np.ones(len(S)), X[S]]), np.array([1, *test[t]])
            saddle = np.block([[G, H], [H.T, np.zeros((3, 3))]])
            w = np.linalg.solve(saddle, np.concatenate([v, h]))[: len(S)]
        else:
            w = np.linalg.solve(G, v)
        assert_allclose(dense[t][S], w, rtol=1e-5, atol=1e-7)
        assert_allclose(weights.reduction[t], 2 * v @ w - w @ G @ w, rtol=1e-7, atol=1e-9)


def test_the_nearest_training_points_are_among_those_of_the_cell() -> None:
    solver, cross = prepared(X.round(2), GRID.round(3), cagp.NearestNeighbours(20, far=6), False)
    dense, nearest = solver._solve(cross).dense(), cross.nearest(10)
    assert shared(solver, cross) > 0.5
    assert (dense.gather(1, nearest) != 0).double().mean() > 0.99


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
    assert prepared(X, GRID, solver, True)[0].members_each == 36
    assert prepared(X, GRID, solver, False)[0].members_each == 30
    assert prepared(X, GRID, cagp.NearestNeighbours(30, far=0), True)[0].members_each == 30


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
    with pytest.raises(cagp.InputError, match="3 coefficients, which these 50 points do not determine"):
        prepared(np.column_stack([np.linspace(0, 1, 50), np.zeros(50)]), GRID, cagp.NearestNeighbours(5), True)


def test_a_trend_in_y_moves_the_mean_by_itself_and_no_variance() -> None:
    solver, cross = prepared(X, GRID, cagp.NearestNeighbours(20, far=6), True)
    weights = solver._solve(cross)
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


@pytest.mark.parametrize("order", [1, -1])
def test_neighbours_of_a_sum_are_those_of_the_largest_correlations(order: int) -> None:
    """The strong term hardly falls between neighbours: what is near the weak one, of short reach, says."""
    rng = np.random.default_rng(3)
    points = rng.random((1500, 4))
    weak = cagp.Matern12((0.5, 0.7, 40.0, 60.0), variance=0.3)
    strong = cagp.Matern32((300.0, 200.0, 80.0, 9.0), variance=50.0)
    gram = gram_of(points, (weak + strong) if order == 1 else (strong + weak), 0.01)
    coordinates = gram.search_coordinates()
    assert coordinates is not None
    assert coordinates.shape == (1500, 4)
    near = torch.cdist(coordinates[:100], coordinates).topk(30, dim=1, largest=False).indices
    best = gram.kernel_rows(torch.arange(100)).topk(30, dim=1).indices
    shared = (near[:, :, None] == best[:, None, :]).any(dim=2).double().mean()
    assert shared > 0.75
    only_strong = points / np.array(strong.lengthscale)
    far = torch.cdist(*(torch.from_numpy(only_strong[:n]) for n in (100, None))).topk(30, dim=1, largest=False).indices
    assert (far[:, :, None] == best[:, None, :]).any(dim=2).double().mean() < 0.4


def test_terms_that_see_other_columns_count_together() -> None:
    kernel = cagp.Matern32((0.3, 0.4)).on(0, 1) + cagp.Matern32(0.2).on(2)
    points = np.random.default_rng(0).random((60, 3))
    coordinates = gram_of(points, kernel, 0.1).search_coordinates()
    assert coordinates is not None
    scales = coordinates.std(dim=0) / torch.from_numpy(points.std(axis=0))
    assert_allclose(scales[0] / scales[1], 4 / 3, rtol=0.01)
    assert scales[2] > 0
